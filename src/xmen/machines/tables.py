"""Machines as tables over one world: the constraint tree in the form that compiled loops read.

Each leaf gets its own small alphabet (the distinct symbols that this world can show it) and a transition table
that is filled on demand, so that the Python step runs once per new (machine state, letter) and never per edge.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import And, Constraint, HowMany
from xmen.constraints.leaf import Leaf
from xmen.constraints.verdict import Sure
from xmen.errors import ProductTooLargeError
from xmen.events import NO_ACTION
from xmen.machines import kernels
from xmen.sharing import Lock
from xmen.worlds import MDP, Walks

Index: TypeAlias = NDArray[np.int32]

FAILS, HOLDS = 0, 1  # in every table, the rows of the two sure states
UNKNOWN = -1  # a table entry that no one has asked for yet
MAX_TABLE_ENTRIES = 2**28  # 1 GiB of transitions for one machine


class Alphabet:
    """The symbols that a world can show a leaf, and the letter of each (state, action)."""

    def __init__(self, leaf: Leaf, world: MDP, ends_anywhere: bool = False) -> None:
        self._world = world  # whose arrays stay alive, and so their identities, as long as this does
        states, actions = np.nonzero(world.available)
        complete = world.has_terminal and not ends_anywhere
        ends = np.flatnonzero(world.terminal) if complete else np.arange(world.n_states)
        symbols = leaf.symbols(
            np.concatenate([states, ends]).astype(np.int64),
            np.concatenate([actions, np.full(len(ends), NO_ACTION)]).astype(np.int64),
        )
        values, letters = _distinct(symbols)
        self.symbols: list[int] = values.tolist()
        # Column n_actions holds the letter of a last position.
        self.letters = np.full((world.n_states, world.n_actions + 1), UNKNOWN, dtype=np.int32)
        self.letters[states, actions] = letters[: len(states)]
        self.letters[ends, world.n_actions] = letters[len(states) :]
        self.edge_letters: Index = self.letters[world.source, world.action]


def _distinct(symbols: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`np.unique` with its inverse, without sorting where numbers are small: thousands of leaves come here."""
    if len(symbols) and symbols.min() >= 0 and symbols.max() < len(symbols):
        values = np.flatnonzero(np.bincount(symbols))
        number = np.zeros(int(values[-1]) + 1, dtype=np.int64)
        number[values] = np.arange(len(values))
        return values, number[symbols]
    return np.unique(symbols, return_inverse=True)


_ALPHABETS: WeakValueDictionary[tuple[int, int, bool, Leaf], Alphabet] = WeakValueDictionary()


def alphabet_of(leaf: Leaf, world: MDP, ends_anywhere: bool = False) -> Alphabet:
    """The alphabet of a leaf over a world, whatever its start: read once for as long as someone uses it."""
    key = (id(world.source), id(world.terminal), ends_anywhere, leaf)
    found = _ALPHABETS.get(key)
    if found is None:
        found = _ALPHABETS[key] = Alphabet(leaf, world, ends_anywhere)
    return found


class MachineTable:
    """One leaf over one world: letters per (state, action), and a transition table that grows on demand."""

    def __init__(self, leaf: Leaf, world: MDP, ends_anywhere: bool = False) -> None:
        self.leaf = leaf
        # Only what does not depend on who asks first is shared: rows are numbered as machines are explored.
        self._alphabet = alphabet_of(leaf, world, ends_anywhere)
        self.symbols, self.letters = self._alphabet.symbols, self._alphabet.letters
        self.edge_letters = self._alphabet.edge_letters

        self._filling = Lock()  # threads look entries up without it: an entry never changes once it is known
        self.states: list[Hashable] = []
        self._index: dict[Hashable, int] = {}
        self.next = np.full((4, max(1, len(self.symbols))), UNKNOWN, dtype=np.int32)
        self.accepting = np.zeros(4, dtype=np.bool_)
        for sure, row in ((Sure.FAILS, FAILS), (Sure.HOLDS, HOLDS)):
            self.next[self._row(sure)] = row
        self.start = self._row(leaf.start())

    def __len__(self) -> int:
        return len(self.states)

    def _row(self, state: Hashable) -> int:
        row = self._index.get(state)
        if row is None:
            # In this order, so that an error or Ctrl-C on the way leaves no row behind that is half there.
            row, accepting = len(self.states), self.leaf.final(state)
            if row == len(self.next):
                self._grow()
            self.accepting[row] = accepting
            self.states.append(state)
            self._index[state] = row
        return row

    def _grow(self) -> None:
        if 2 * self.next.size > MAX_TABLE_ENTRIES:
            raise ProductTooLargeError(
                f"{self.leaf.label!r} alone has more than {len(self.states):,} machine states over "
                f"{len(self.symbols):,} letters: too large to list. Loosen it, or use another engine."
            )
        self.next = np.concatenate([self.next, np.full_like(self.next, UNKNOWN)])
        self.accepting = np.concatenate([self.accepting, np.zeros_like(self.accepting)])

    def step(self, rows: Index, letters: Index) -> Index:
        """The successor of each (row, letter), filling in what the table lacks."""
        successors: Index = kernels.look_up(self.next, rows, letters)
        missing = np.flatnonzero(successors == UNKNOWN)
        if len(missing):
            pairs = np.unique(rows[missing].astype(np.int64) * len(self.symbols) + letters[missing])
            with self._filling:
                for pair in pairs.tolist():
                    row, letter = divmod(pair, len(self.symbols))
                    successor = self._row(self.leaf.advance(self.states[row], self.symbols[letter]))
                    self.next[row, letter] = successor
                successors[missing] = self.next[rows[missing], letters[missing]]
        return successors

    def final(self, rows: Index, last_states: Index) -> NDArray[np.bool_]:
        """Whether the machine, in these rows, accepts an end in these states."""
        ended = self.step(rows, self.letters[last_states, -1])
        accepted: NDArray[np.bool_] = self.accepting[ended]
        return accepted

    def run(self, walks: Walks) -> NDArray[np.bool_]:
        """Whether the machine accepts each trajectory."""
        if type(self.leaf).judge is not Leaf.judge:
            judged = self._judge_whole(walks)
            if judged is not None:
                return judged
        column, position = np.full(len(walks), self.start, dtype=np.int32), walks.offsets[:-1].copy()
        while True:
            stopped = kernels.run_machine(
                self.next, self.edge_letters, walks.edges, walks.offsets[1:], column, position
            )
            if not len(stopped):
                return self.final(column, walks.last_states)
            letters = self.edge_letters[walks.edges[position[stopped]]]
            column[stopped] = self.step(column[stopped], letters)
            position[stopped] += 1

    def _judge_whole(self, walks: Walks) -> NDArray[np.bool_] | None:
        lengths, symbols = walks.lengths, np.array(self.symbols, dtype=np.int64)
        letters = np.zeros((len(walks), int(lengths.max(initial=0)) + 1), dtype=np.int64)
        letters[walks.owner, walks.time] = self.edge_letters[walks.edges]
        letters[np.arange(len(walks)), lengths] = self.letters[walks.last_states, -1]
        return self.leaf.judge(symbols[letters], np.arange(letters.shape[1]) <= lengths[:, None])


@dataclass(frozen=True)
class TreeProgram:
    """The tree over the leaves in postfix order, for `kernels.settle` and `kernels.judge`.

    Operation i takes the verdicts of its `n_children[i]` children (0: the next leaf) and asks whether between
    least[i] and most[i] of them hold. Once that is sure, the leaves below it, first[i] to last[i], no longer
    matter: they are set to holding[i] or failing[i], which keeps the answer and lets product nodes merge.
    """

    n_children: Index
    least: Index
    most: Index
    first: Index
    last: Index
    holding: Index  # (operations, leaves), table rows HOLDS or FAILS
    failing: Index


class _Pattern(NamedTuple):
    """Machine rows of all leaves that make a node hold, and that make it fail; None where it cannot."""

    last: int
    holding: Index | None
    failing: Index | None


def compile_tree(constraint: Constraint) -> TreeProgram:
    """The tree's postfix program; leaves are numbered from left to right."""
    n_leaves = sum(1 for _ in constraint.leaves())
    nobody, everybody = np.full(n_leaves, FAILS, np.int32), np.full(n_leaves, HOLDS, np.int32)
    operations: list[tuple[int, int, int, int, int]] = []
    patterns: list[_Pattern] = []

    def emit(node: Constraint, first: int) -> _Pattern:
        if isinstance(node, HowMany):
            children, last = [], first
            for child in node.children:
                children.append((last, emit(child, last)))
                last = children[-1][1].last
            pattern = _Pattern(last, *_inner_patterns(children, node.least, node.most, nobody))
            operations.append((len(children), node.least, node.most, first, last))
        else:
            pattern = _Pattern(first + 1, everybody, nobody)
            operations.append((0, 0, 0, first, first + 1))
        patterns.append(pattern)
        return pattern

    emit(constraint, 0)
    n_children, least, most, first, last = np.array(operations, dtype=np.int32).T.copy()
    return TreeProgram(
        n_children,
        least,
        most,
        first,
        last,
        holding=np.stack([nobody if p.holding is None else p.holding for p in patterns]),
        failing=np.stack([nobody if p.failing is None else p.failing for p in patterns]),
    )


def _inner_patterns(
    children: list[tuple[int, _Pattern]], least: int, most: int, nobody: Index
) -> tuple[Index | None, Index | None]:
    """How to make a node hold and fail, by making the right number of its children hold."""
    n_forced = sum(child.failing is None for _, child in children)
    n_able = sum(child.holding is not None for _, child in children)
    easiest_first = sorted(children, key=lambda c: (c[1].failing is not None, c[1].holding is None))

    def with_holding(n_holding: int) -> Index:
        out = nobody.copy()
        for i, (first, child) in enumerate(easiest_first):
            pattern = child.holding if i < n_holding else child.failing
            assert pattern is not None
            out[first : child.last] = pattern[first : child.last]
        return out

    enough = max(least, n_forced)
    holding = with_holding(enough) if enough <= min(most, n_able) else None
    failing = with_holding(n_forced) if n_forced < least else with_holding(n_able) if n_able > most else None
    return holding, failing


class CompiledConstraint:
    """All machines of a constraint over one world, and the tree above them; None is the constraint that all keep.

    With `ends_anywhere` it also judges trajectories that stop in states which are not terminal.
    """

    def __init__(self, constraint: Constraint | None, world: MDP, ends_anywhere: bool = False) -> None:
        self.constraint = constraint
        self.world = world
        leaves = [] if constraint is None else list(constraint.leaves())
        self.tables = [MachineTable(leaf, world, ends_anywhere) for leaf in leaves]
        self.program = None if constraint is None else compile_tree(constraint)
        parts = constraint.children if isinstance(constraint, And) else ()
        # The numbers of the leaves without which nothing is valid: thousands of small rules reject as one.
        first = np.cumsum([0, *(sum(1 for _ in part.leaves()) for part in parts)]).tolist()
        self._required = {i for i, part in zip(first, parts, strict=False) if isinstance(part, Leaf)}

    def settle(self, rows: Index) -> NDArray[np.bool_]:
        """Which product rows (state, machine rows ...) may still be saved; sure parts are merged in place."""
        if self.program is None:
            return np.ones(len(rows), dtype=np.bool_)
        p = self.program
        alive: NDArray[np.bool_] = kernels.settle(
            rows, p.n_children, p.least, p.most, p.first, p.last, p.holding, p.failing
        )
        return alive

    def accepts(self, machine_rows: Index, last_states: Index) -> NDArray[np.bool_]:
        """Whether trajectories may end in these states, given the machines' rows (n, leaves) before that."""
        answers = np.empty(machine_rows.shape, dtype=np.bool_)
        for i, table in enumerate(self.tables):
            answers[:, i] = table.final(machine_rows[:, i], last_states)
        return self.judge(answers)

    def judge(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The tree's answer to final answers of the leaves (n, leaves)."""
        if self.program is None:
            return np.ones(len(answers), dtype=np.bool_)
        p = self.program
        accepted: NDArray[np.bool_] = kernels.judge(answers, p.n_children, p.least, p.most)
        return accepted

    def check(self, walks: Walks) -> NDArray[np.bool_]:
        """Whether each trajectory is valid, by running every machine over it from its start.

        Independent of the product: only states, actions and the machines' tables are used.
        """
        answers = np.ones((len(walks), len(self.tables)), dtype=np.bool_)
        left = np.arange(len(walks))
        for i in sorted(range(len(self.tables)), key=lambda i: i not in self._required):
            held = self.tables[i].run(walks)
            answers[left, i] = held
            if i in self._required and not held.all():  # what breaks one of these need not be asked about the others
                left, walks = left[held], walks[held]
        return self.judge(answers)
