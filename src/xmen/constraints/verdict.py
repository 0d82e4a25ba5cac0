"""What can be said of a constraint while a trajectory is still under way: it fails, it holds, or it is open."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Sure(Enum):
    """States in which a machine has made up its mind: no continuation can change the answer."""

    FAILS = 0
    HOLDS = 2


OPEN = 1  # the verdict of a machine that may still go either way, between Sure.FAILS and Sure.HOLDS


def combine(n_holding: Any, n_open: Any, least: Any, most: Any) -> Any:
    """The verdict (0 fails, 1 open, 2 holds) of "between least and most of the children hold".

    Written without branches so that the same definition serves numbers, arrays and compiled loops.
    """
    n_possible = n_holding + n_open
    holds = (n_holding >= least) & (n_possible <= most)
    fails = (n_possible < least) | (n_holding > most)
    return 1 + holds - fails
