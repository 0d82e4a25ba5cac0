"""Hard rules over whole trajectories: events, the constraints built from them, and their text form."""

from xmen.constraints.arithmetic import count, length, total
from xmen.constraints.cardinality import at_least, at_most, exactly
from xmen.constraints.constraint import Constraint, Violation
from xmen.constraints.ltlf import ltlf
from xmen.constraints.monitor import monitor
from xmen.constraints.occurrence import always, before, first, never, response, sequence, visit
from xmen.constraints.repetition import longest_repeat, longest_run, no_revisit
from xmen.constraints.shares import share
from xmen.constraints.text import parse_constraint
from xmen.events import Event, anytime, at, doing, when

__all__ = [
    "Constraint",
    "Event",
    "Violation",
    "always",
    "anytime",
    "at",
    "at_least",
    "at_most",
    "before",
    "count",
    "doing",
    "exactly",
    "first",
    "length",
    "longest_repeat",
    "longest_run",
    "ltlf",
    "monitor",
    "never",
    "no_revisit",
    "parse_constraint",
    "response",
    "sequence",
    "share",
    "total",
    "visit",
    "when",
]
