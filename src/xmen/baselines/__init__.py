"""What X-MEN is compared with: MaxEnt, relative entropy IRL, constraint inference."""
