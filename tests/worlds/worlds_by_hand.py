"""Small worlds as plain dictionaries, and what follows from them by plain recursion."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from hypothesis import strategies as st

from xmen import MDP


@dataclass
class ByHand:
    """table[state, action] = {next_state: probability}; the meaning of DESIGN's sentences, word by word."""

    n_states: int
    n_actions: int
    table: dict[tuple[int, int], dict[int, float]]
    start: dict[int, float]
    terminal: set[int]
    horizon: int

    def build(self) -> MDP:
        rows = [(s, a, t, p) for (s, a), outcomes in self.table.items() for t, p in outcomes.items()]
        start = [self.start.get(s, 0.0) for s in range(self.n_states)]
        return MDP(self.n_states, self.n_actions, rows, start, self.terminal, self.horizon)

    def complete(self) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
        """Every complete trajectory (states, actions) with D(tau)."""
        found = {}

        def walk(states: tuple[int, ...], actions: tuple[int, ...], weight: float) -> None:
            here = states[-1]
            ended = here in self.terminal if self.terminal else len(actions) == self.horizon
            if ended:
                found[states, actions] = weight
            if here in self.terminal or len(actions) == self.horizon:
                return
            for action in range(self.n_actions):
                for target, probability in self.table.get((here, action), {}).items():
                    walk((*states, target), (*actions, action), weight * probability)

        for state, probability in self.start.items():
            walk((state,), (), probability)
        return found


@st.composite
def worlds_by_hand(draw: st.DrawFn) -> ByHand:
    n_states = draw(st.integers(1, 4))
    n_actions = draw(st.integers(1, 2))
    states = st.integers(0, n_states - 1)
    table = {}
    for pair in product(range(n_states), range(n_actions)):
        targets = draw(st.lists(states, unique=True, max_size=2))
        if targets:
            table[pair] = {t: 1.0 / len(targets) for t in targets}
    starts = draw(st.lists(states, unique=True, min_size=1, max_size=2))
    terminal = draw(st.sets(states, max_size=2))
    if not table:
        table[0, 0] = {0: 1.0}
    return ByHand(n_states, n_actions, table, {s: 1.0 / len(starts) for s in starts}, terminal, draw(st.integers(0, 4)))
