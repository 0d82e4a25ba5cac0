"""Machines as tables over one world, the constraint tree above them, and the check of every trajectory that leaves."""
