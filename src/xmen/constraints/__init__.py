"""Hard rules over whole trajectories: the constraints built from events, and their text form."""

# Every kind of constraint is loaded with the first, so that text knows them all.
from xmen.constraints import arithmetic
from xmen.constraints import ltlf
from xmen.constraints import monitor
from xmen.constraints import occurrence
from xmen.constraints import repetition

__all__ = ["arithmetic", "ltlf", "monitor", "occurrence", "repetition"]
