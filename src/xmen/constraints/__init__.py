"""Hard rules over whole trajectories: the constraints built from events, and their text form."""

# Every kind of constraint is loaded with the first, so that text knows them all.
from xmen.constraints import arithmetic, cardinality, ltlf, monitor, occurrence, repetition, shares

__all__ = ["arithmetic", "cardinality", "ltlf", "monitor", "occurrence", "repetition", "shares"]
