"""Engines: distributions over valid trajectories."""
