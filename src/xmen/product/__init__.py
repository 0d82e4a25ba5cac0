"""The product of a world and the machines of a constraint, and dynamic programming on it."""
