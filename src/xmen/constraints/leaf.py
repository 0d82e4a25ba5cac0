"""Leaves of the constraint tree: one deterministic machine each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint, History
from xmen.constraints.verdict import OPEN, Sure
from xmen.errors import TrajectoryError
from xmen.events import NO_ACTION, Bools, Ints
from xmen.worlds.trajectory import Trajectory


class Leaf(Constraint):
    """One deterministic machine: a start state, a step per position, an accepting test.

    States are any hashable values. A step returns `Sure.FAILS` or `Sure.HOLDS` as soon as no continuation can
    change the answer; these two absorb everything and are never stepped again.
    """

    @property
    def children(self) -> tuple[Constraint, ...]:
        return ()

    def leaves(self) -> Iterator[Leaf]:
        yield self

    def history(self, trajectory: Trajectory) -> History:
        return History(self, self.run(trajectory), ())

    @abstractmethod
    def symbols(self, states: Ints, actions: Ints) -> Ints:
        """What the machine reads at each pair of two arrays of one shape; `NO_ACTION` at the end."""

    @abstractmethod
    def start(self) -> Hashable:
        """The state before position 0."""

    @abstractmethod
    def step(self, state: Any, symbol: int) -> Hashable:
        """The state after one more position; `state` is never a `Sure` one."""

    @abstractmethod
    def accepting(self, state: Any) -> bool:
        """Whether the trajectory may end here, all its positions read; `state` is never a `Sure` one."""

    def judge(self, symbols: Ints, inside: Bools) -> Bools | None:
        """Whether each row of symbols (n, longest), as far as `inside`, is accepted; None: run the machine.

        Only for machines that are too large to tabulate; must agree with the machine.
        """
        return None

    def advance(self, state: Hashable, symbol: int) -> Hashable:
        """`step`, for any state: the sure states absorb."""
        return state if isinstance(state, Sure) else self.step(state, symbol)

    def final(self, state: Hashable) -> bool:
        """`accepting`, for any state."""
        return state is Sure.HOLDS if isinstance(state, Sure) else self.accepting(state)

    def run(self, trajectory: Trajectory) -> NDArray[np.int64]:
        """The verdict (0 fails, 1 open, 2 holds) after each of the L + 1 positions; the last one is final."""
        try:
            states = np.array(trajectory.states, dtype=np.int64)
            actions = np.array([*trajectory.actions, NO_ACTION], dtype=np.int64)
        except OverflowError:
            raise TrajectoryError("the trajectory has state or action numbers of 2**63 or more.") from None
        state, verdicts = self.start(), np.full(len(states), OPEN)
        for position, symbol in enumerate(self.symbols(states, actions).tolist()):
            state = self.advance(state, symbol)
            if isinstance(state, Sure):
                verdicts[position:] = state.value
                return verdicts
        verdicts[-1] = (Sure.HOLDS if self.accepting(state) else Sure.FAILS).value
        return verdicts
