"""Trajectories: the states that are visited and the actions taken, as demonstrations and samples have them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmen.displays import table_html
from xmen.errors import TrajectoryError
from xmen.options import as_int

_SHOWN = 12  # states and actions printed before repr abbreviates


@dataclass(init=False, repr=False, unsafe_hash=True, slots=True)
class Trajectory:
    """One trajectory: states s_0 .. s_L and actions a_0 .. a_{L-1}, where a_t leads from s_t to s_{t+1}.

    Immutable and hashable, so that trajectories can be counted. `len()` is L, the number of actions. A trajectory knows
    no world: whether its states exist and its steps are possible is for `MDP.problem` to say.

    Parameters
    ----------
    states
        The L + 1 states, whole numbers from 0.
    actions
        The L actions, whole numbers from 0.

    Raises
    ------
    TrajectoryError
        When the numbers of states and actions do not fit, or one is not a whole number.

    Examples
    --------
    >>> tau = Trajectory([0, 1, 5], [2, 0])
    >>> len(tau), tau.states[-1]
    (2, 5)
    >>> tau == Trajectory((0, 1, 5), (2, 0))
    True
    """

    states: tuple[int, ...]
    actions: tuple[int, ...]

    def __init__(self, states: Iterable[int], actions: Iterable[int]) -> None:
        _set_states(self, _indices(states, "state"))
        _set_actions(self, _indices(actions, "action"))
        if len(self.states) != len(self.actions) + 1:
            rule = "a trajectory has one state more than actions (the last state has no action)"
            raise TrajectoryError(f"{rule}: got {len(self.states)} states and {len(self.actions)} actions")

    @classmethod
    def _trusted(cls, states: tuple[int, ...], actions: tuple[int, ...]) -> "Trajectory":
        """A trajectory from tuples of Python ints that are known to fit, without any check."""
        self = object.__new__(cls)
        _set_states(self, states)
        _set_actions(self, actions)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"trajectories are immutable: cannot set {name!r}; make a new Trajectory")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"trajectories are immutable: cannot delete {name!r}")

    def __len__(self) -> int:
        return len(self.actions)

    def __bool__(self) -> bool:
        # Without this, a trajectory that starts in a terminal state (no actions) would be false.
        return True

    def __repr__(self) -> str:
        return f"Trajectory(states={_short(self.states)}, actions={_short(self.actions)})"

    def _repr_html_(self) -> str:
        """A row per position; of long trajectories the first and the last."""
        rows: list[tuple[object, ...]] = [*zip(range(len(self) + 1), self.states, (*self.actions, ""), strict=True)]
        if len(rows) > 2 * _SHOWN:
            rows = [*rows[:_SHOWN], ("...", "...", "..."), *rows[-_SHOWN:]]
        return table_html(f"Trajectory of {len(self)} actions", ("t", "state", "action"), rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return Trajectory._trusted, (self.states, self.actions)


# The slots' own setters go past __setattr__, and are the fastest way to fill a new object.
_set_states = Trajectory.__dict__["states"].__set__
_set_actions = Trajectory.__dict__["actions"].__set__


def _short(values: tuple[int, ...]) -> str:
    if len(values) <= _SHOWN:
        return repr(list(values))
    head = ", ".join(map(str, values[: _SHOWN // 2]))
    tail = ", ".join(map(str, values[-_SHOWN // 4 :]))
    return f"[{head}, ..., {tail}] ({len(values)})"


def _indices(values: Iterable[int], kind: str) -> tuple[int, ...]:
    """Indices of states or actions as non-negative Python ints; errors say which position is wrong."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise TrajectoryError(f"{kind}s must be a sequence of integers, got {type(values).__name__} {values!r:.60}")
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise TrajectoryError(f"{kind}s must be one-dimensional, got an array of shape {values.shape}")
    numbers = []
    for position, value in enumerate(values):
        number = as_int(value)
        if number is None and isinstance(value, float | np.floating) and float(value).is_integer():
            number = int(value)
        if number is None or number < 0:
            shown = f"{'the truth value ' if isinstance(value, bool | np.bool_) else ''}{value!r}"
            raise TrajectoryError(f"{kind} at position {position} is {shown}; {kind}s are integers 0, 1, 2, ...")
        numbers.append(number)
    return tuple(numbers)
