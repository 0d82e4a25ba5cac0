"""Rules over whole trajectories, hard and usually kept: the constraints built from events, and their text form."""

# Every kind of constraint is loaded with the first, so that text knows them all.
from xmen.constraints import arithmetic, ltlf, monitor, occurrence, repetition

__all__ = ["arithmetic", "ltlf", "monitor", "occurrence", "repetition"]
