"""Rules from demonstrations: which rules over whole trajectories a demonstrator keeps, in the constraint language."""
