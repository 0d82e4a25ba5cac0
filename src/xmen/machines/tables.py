"""Machines as tables over one world: the constraint tree in the form that compiled loops read.

Each leaf gets its own small alphabet (the distinct symbols that this world can show it) and a transition table
that is filled on demand, so that the Python step runs once per new (machine state, letter) and never per edge.
"""

import gc
import threading
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from xmen.compiled import compiled
from xmen.constraints.constraint import OPEN, And, Constraint, HowMany, Leaf, Sure, Usually, combine, usual_rules
from xmen.constraints.repetition import NoRevisit
from xmen.errors import Message, ProductTooLargeError, XmenError
from xmen.events import NO_ACTION
from xmen.sharing import Lock, once
from xmen.worlds import MDP, Trajectory, Walks

# ---- Compiled loops over machines and the constraint tree, each a few lines over plain arrays

SURE_TO_HOLD = Sure.HOLDS.value
SURE_TO_FAIL = Sure.FAILS.value

_combine = compiled(combine)


@compiled
def look_up(table: Any, rows: Any, letters: Any) -> Any:
    """table[rows, letters], element by element."""
    out = np.empty(len(rows), dtype=np.int32)
    for i in range(len(rows)):
        out[i] = table[rows[i], letters[i]]
    return out


@compiled
def settle(rows: Any, n_children: Any, least: Any, most: Any, first: Any, last: Any, holding: Any, failing: Any) -> Any:
    """Evaluate the tree on product rows (state, machine rows ...); write sure parts in their one canonical form.

    Machine rows 0 and 1 are the sure states. Returns which rows are not sure to fail.
    """
    n_operations = len(n_children)
    stack = np.empty(n_operations, dtype=np.int64)
    alive = np.empty(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        top = 0
        for op in range(n_operations):
            if n_children[op] == 0:
                row = rows[i, 1 + first[op]]
                stack[top] = SURE_TO_FAIL if row == 0 else SURE_TO_HOLD if row == 1 else OPEN
                top += 1
                continue
            n_holding, n_open = 0, 0
            for _ in range(n_children[op]):
                top -= 1
                n_holding += stack[top] == SURE_TO_HOLD
                n_open += stack[top] == OPEN
            verdict = _combine(n_holding, n_open, least[op], most[op]) if most[op] >= 0 else OPEN
            if verdict != OPEN:
                pattern = holding if verdict == SURE_TO_HOLD else failing
                for leaf in range(first[op], last[op]):
                    rows[i, 1 + leaf] = pattern[op, leaf]
            stack[top] = verdict
            top += 1
        alive[i] = stack[0] != SURE_TO_FAIL
    return alive


@compiled
def run_machine(table: Any, edge_letters: Any, edges: Any, ends: Any, column: Any, position: Any) -> Any:
    """Advance one machine over all but the last position of each trajectory, in place; sure states stay.

    Trajectory i goes on with edges[position[i]] and up to edges[ends[i] - 1]. Returns the trajectories that stopped at
    a table entry nobody has filled in yet.
    """
    stopped = np.empty(len(ends), dtype=np.int64)
    n_stopped = 0
    for i in range(len(ends)):
        row, t = column[i], position[i]
        while t < ends[i] and row > 1:
            successor = table[row, edge_letters[edges[t]]]
            if successor < 0:
                stopped[n_stopped] = i
                n_stopped += 1
                break
            row = successor
            t += 1
        column[i], position[i] = row, t
    return stopped[:n_stopped]


Index: TypeAlias = NDArray[np.int32]

ROW_FAILS, ROW_HOLDS = 0, 1  # in every table, the rows of the two sure states
SURE_ROWS: dict[Hashable, int] = {Sure.FAILS: ROW_FAILS, Sure.HOLDS: ROW_HOLDS}
UNKNOWN = -1  # a table entry that no one has asked for yet
MAX_TABLE_ENTRIES = 2**28  # 1 GiB of transitions for one machine


def distinct(symbols: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different symbols in order, and each one's place among them; small numbers are not sorted, for speed."""
    if len(symbols) and symbols.min() >= 0 and symbols.max() < len(symbols):
        values = np.flatnonzero(np.bincount(symbols))
        number = np.zeros(int(values[-1]) + 1, dtype=np.int64)
        number[values] = np.arange(len(values))
        return values, number[symbols]
    return np.unique(symbols, return_inverse=True)


class MachineTable:
    """One leaf over one world: letters per (state, action), and a transition table that grows on demand."""

    def __init__(self, leaf: Leaf, world: MDP, ends_anywhere: bool = False) -> None:
        self.leaf, self._read_from = leaf, (world.source, world.terminal, ends_anywhere)
        states, actions = np.nonzero(world.available)
        complete = world.has_terminal and not ends_anywhere
        ends = np.flatnonzero(world.terminal) if complete else np.arange(world.n_states)
        visited = np.concatenate([states, ends], dtype=np.int64)
        taken = np.concatenate([actions, np.full(len(ends), NO_ACTION)], dtype=np.int64)
        values, letters = distinct(leaf.symbols(visited, taken))
        self.symbols: list[int] = values.tolist()
        # Column n_actions holds the letter of a last position.
        self.letters = np.full((world.n_states, world.n_actions + 1), UNKNOWN, dtype=np.int32)
        self.letters[states, actions] = letters[: len(states)]
        self.letters[ends, world.n_actions] = letters[len(states) :]
        self.edge_letters: Index = self.letters[world.source, world.action]

        self._filling = Lock()  # threads look entries up without it: an entry never changes once it is known
        self.states: list[Hashable] = []
        self._index: dict[Hashable, int] = {}
        self.next = np.full((4, max(1, len(self.symbols))), UNKNOWN, dtype=np.int32)
        self.accepting = np.zeros(4, dtype=np.bool_)
        for sure, row in SURE_ROWS.items():
            self.next[self._row(sure)] = row
        never = isinstance(leaf, NoRevisit) and world.acyclic  # a state comes twice
        self.start = ROW_HOLDS if never else self._row(leaf.start())

    def __len__(self) -> int:
        return len(self.states)

    def is_of(self, world: MDP, ends_anywhere: bool) -> bool:
        """Whether a world has the transitions and ends that this was made for, whatever its start."""
        source, terminal, anywhere = self._read_from
        return source is world.source and terminal is world.terminal and anywhere == ends_anywhere

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
            sizes = f"{len(self.states):,} machine states over {len(self.symbols):,} letters: too large to list"
            told = "{!r} alone has more than {}. Loosen it, or use another engine."
            raise ProductTooLargeError(Message(told, self.leaf.label, sizes))
        self.next = np.concatenate([self.next, np.full_like(self.next, UNKNOWN)])
        self.accepting = np.concatenate([self.accepting, np.zeros_like(self.accepting)])

    def step(self, rows: Index, letters: Index) -> Index:
        """The successor of each (row, letter), filling in what the table lacks."""
        successors: Index = look_up(self.next, rows, letters)
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
        ended = self.step(rows, self.letters[last_states, -1])  # which may make the tables longer
        return np.asarray(self.accepting[ended])

    def run(self, walks: Walks) -> NDArray[np.bool_]:
        """Whether the machine accepts each trajectory."""
        if type(self.leaf).judge is not Leaf.judge:
            judged = self._judge_whole(walks)
            if judged is not None:
                return judged
        column, position = np.full(len(walks), self.start, dtype=np.int32), walks.offsets[:-1].copy()
        while True:
            stopped = run_machine(self.next, self.edge_letters, walks.edges, walks.offsets[1:], column, position)
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


class TreeProgram(NamedTuple):
    """The tree over the leaves in postfix order, for `settle`.

    Operation i takes the verdicts of its `n_children[i]` children (0: the next leaf) and asks whether between
    least[i] and most[i] of them hold. Once that is sure, the leaves below it, first[i] to last[i], no longer
    matter: they are set to holding[i] or failing[i], which keeps the answer and lets product nodes merge. A most[i]
    below 0 marks a rule that is usually kept: it is open to the end, so that its machines matter, and then holds.
    """

    n_children: Index
    least: Index
    most: Index
    first: Index
    last: Index
    holding: Index  # (operations, leaves), table rows ROW_HOLDS or ROW_FAILS
    failing: Index

    def judge(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The tree's answer to final answers of the leaves (n, leaves)."""
        rows = np.zeros((len(answers), 1 + answers.shape[1]), dtype=np.int8)
        rows[:, 1:] = answers  # ROW_FAILS and ROW_HOLDS are the rows 0 and 1
        return np.asarray(settle(rows, *self))


class _Pattern(NamedTuple):
    """Machine rows of all leaves that make a node hold, and that make it fail; None where it cannot."""

    last: int
    holding: Index | None
    failing: Index | None


def compile_tree(constraint: Constraint) -> TreeProgram:
    """The tree's postfix program; leaves are numbered from left to right."""
    n_leaves = sum(1 for _ in constraint.leaves())
    nobody, everybody = np.full(n_leaves, ROW_FAILS, np.int32), np.full(n_leaves, ROW_HOLDS, np.int32)
    operations: list[tuple[int, int, int, int, int]] = []
    patterns: list[_Pattern] = []

    def emit(node: Constraint, first: int) -> _Pattern:
        if isinstance(node, HowMany):
            children, last = [], first
            for child in node.children:
                children.append((last, emit(child, last)))
                last = children[-1][1].last
            pattern = _Pattern(last, *_inner_patterns(children, *node.bounds, nobody))
            operations.append((len(children), *node.bounds, first, last))
        elif isinstance(node, Usually):
            pattern = _Pattern(emit(node.rule, first).last, everybody, nobody)
            operations.append((1, 0, -1, first, pattern.last))
        else:
            pattern = _Pattern(first + 1, everybody, nobody)
            operations.append((0, 0, 0, first, first + 1))
        patterns.append(pattern)
        return pattern

    emit(constraint, 0)
    holding = np.stack([nobody if p.holding is None else p.holding for p in patterns])
    failing = np.stack([nobody if p.failing is None else p.failing for p in patterns])
    return TreeProgram._make([*np.array(operations, dtype=np.int32).T.copy(), holding, failing])


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

    With `ends_anywhere` it also judges trajectories that stop in states which are not terminal. Tables of equal leaves
    over the same transitions are taken from `known` ones: events are read, and machines stepped, once for all askers.
    """

    def __init__(
        self, constraint: Constraint | None, world: MDP, ends_anywhere: bool = False, known: Iterable[MachineTable] = ()
    ) -> None:
        self.constraint, self.world, self.ends_anywhere = constraint, world, ends_anywhere
        by_leaf = {table.leaf: table for table in known if table.is_of(world, ends_anywhere)}
        self.tables: list[MachineTable] = []
        for leaf in () if constraint is None else constraint.leaves():
            if leaf not in by_leaf:
                by_leaf[leaf] = MachineTable(leaf, world, ends_anywhere)
            self.tables.append(by_leaf[leaf])
        self.program = None if constraint is None else compile_tree(constraint)
        parts = constraint.children if isinstance(constraint, And) else ()
        # The numbers of the leaves without which nothing is valid: thousands of small rules reject as one.
        first = np.cumsum([0, *(sum(1 for _ in part.leaves()) for part in parts)]).tolist()
        self.usual = usual_rules(constraint)
        self._required = {i for i, part in zip(first, parts, strict=False) if isinstance(part, Leaf)}

    def settle(self, rows: Index) -> NDArray[np.bool_]:
        """Which product rows (state, machine rows ...) may still be saved; sure parts are merged in place."""
        return np.ones(len(rows), dtype=np.bool_) if self.program is None else np.asarray(settle(rows, *self.program))

    def accepts(self, machine_rows: Index, last_states: Index) -> NDArray[np.bool_]:
        """Whether trajectories may end in these states, given the machines' rows (n, leaves) before that."""
        return self.judge(self._answers(machine_rows, last_states))

    def _answers(self, machine_rows: Index, last_states: Index) -> NDArray[np.bool_]:
        answers = np.empty(machine_rows.shape, dtype=np.bool_)
        for i, table in enumerate(self.tables):
            answers[:, i] = table.final(machine_rows[:, i], last_states)
        return answers

    def keeps(self, machine_rows: Index, last_states: Index) -> NDArray[np.bool_]:
        """Which of the k rules that are usually kept hold (n, k) for trajectories that `accepts` was asked about."""
        answers = self._answers(machine_rows, last_states) if self.usual else np.empty((len(machine_rows), 0), np.bool_)
        return self._usual_kept(answers)

    def kept(self, walks: Walks) -> NDArray[np.bool_]:
        """Which of the k rules that are usually kept hold for each trajectory (n, k)."""
        answers = np.zeros((len(walks), len(self.tables)), dtype=np.bool_)
        for i in {i for first, last, _ in self._usual_programs for i in range(first, last)} if self.usual else ():
            answers[:, i] = self.tables[i].run(walks)
        return self._usual_kept(answers)

    def worth(self, walks: Walks, rules: NDArray[np.float64]) -> NDArray[np.float64] | float:
        """What keeping them is worth to each trajectory (n,), by weights (k,); 0 where these are none."""
        return np.asarray(self.kept(walks) @ rules) if len(rules) else 0.0

    def rows(self, walks: Walks, discount: float) -> csr_matrix:
        """Visits of each trajectory, and where rules are usually kept which of these it keeps after them."""
        visits = walks.visit_rows(discount)
        return hstack([visits, csr_matrix(self.kept(walks))], format="csr") if self.usual else visits

    def _usual_kept(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        out = np.empty((len(answers), len(self.usual)), dtype=np.bool_)
        for k, (first, last, program) in enumerate(self._usual_programs if self.usual else ()):
            out[:, k] = program.judge(answers[:, first:last])
        return out

    @once
    def _usual_programs(self) -> list[tuple[int, int, TreeProgram]]:
        """The first leaf of each rule that is usually kept, the one after its last, and its tree."""
        assert self.program is not None
        marked = self.program.most < 0
        trees = (compile_tree(one.rule) for one in self.usual)
        return list(zip(self.program.first[marked].tolist(), self.program.last[marked].tolist(), trees, strict=True))

    def judge(self, answers: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The tree's answer to final answers of the leaves (n, leaves)."""
        return np.ones(len(answers), dtype=np.bool_) if self.program is None else self.program.judge(answers)

    def check(self, walks: Walks) -> NDArray[np.bool_]:
        """Whether each trajectory is valid: every machine runs over it from its start, independently of the product."""
        answers = np.ones((len(walks), len(self.tables)), dtype=np.bool_)
        left = np.arange(len(walks))
        for i in sorted(range(len(self.tables)), key=lambda i: i not in self._required):
            held = self.tables[i].run(walks)
            answers[left, i] = held
            if i in self._required and not held.all():  # what breaks one of these need not be asked about the others
                left, walks = left[held], walks[held]
        return self.judge(answers)


# ---- All machines of a constraint along one trajectory, a move at a time, without tables

Seen: TypeAlias = tuple[Hashable, ...]
"""The state of every machine."""

OPEN_ROW = 2  # any row of a table that is not a sure one


class Watch:
    """Follows trajectories that are still growing; a table would keep every state it has met, and most are met once."""

    def __init__(self, compiled: CompiledConstraint) -> None:
        self._compiled = compiled
        self._machines = [(one.leaf, np.array(one.symbols)[one.edge_letters].tolist()) for one in compiled.tables]
        self.start: Seen = tuple(leaf.start() for leaf, _ in self._machines)

    def move(self, seen: Seen, edge: int) -> Seen | None:
        """The machines after one more world edge; None where no continuation can be valid."""
        machines = zip(self._machines, seen, strict=True)
        after = tuple(leaf.advance(state, symbols[edge]) for (leaf, symbols), state in machines)
        if after == seen:
            return seen
        rows = [OPEN_ROW, *(SURE_ROWS.get(state, OPEN_ROW) for state in after)]
        return after if self._compiled.settle(np.array([rows], dtype=np.int32))[0] else None

    def accepts(self, seen: Seen, last_state: int) -> bool:
        """Whether a trajectory may end in this state, its last position not yet read."""
        answers = [
            table.leaf.final(table.leaf.advance(state, table.symbols[int(table.letters[last_state, -1])]))
            for table, state in zip(self._compiled.tables, seen, strict=True)
        ]
        return bool(self._compiled.judge(np.array([answers], dtype=np.bool_))[0])


# ---- The check that every trajectory passes before a user sees it


def release(walks: Walks, compiled: CompiledConstraint) -> list[Trajectory]:
    """The walks as trajectories, every one checked against its world and the constraint, whoever made them."""
    require_valid(walks, compiled.check(walks))
    return as_trajectories(walks)


def require_valid(walks: Walks, keeps: NDArray[np.bool_]) -> None:
    """Stop where one of the walks is no trajectory of its world, or does not keep its constraint."""
    for right, wrong in ((walks.complete(), "left its world"), (keeps, "broke its constraint")):
        if not right.all():
            raise XmenError(f"a trajectory {wrong} inside an engine: this is a bug, please report it.")


def as_trajectories(walks: Walks) -> list[Trajectory]:
    """The walks as trajectories, not checked."""
    states, actions = tuple(walks.states().tolist()), tuple(walks.actions().tolist())
    trusted, out, begin = Trajectory._trusted, [], 0
    with _collector_paused:
        for i, end in enumerate(walks.offsets[1:].tolist()):
            out.append(trusted(states[begin + i : end + i + 1], actions[begin:end]))
            begin = end
    return out


class _CollectorPaused:
    """No garbage collection inside: looking through many thousand new tuples would double the time to make them.

    Collection goes on when the last thread has left, if it was on when the first one entered.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._was_enabled = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._was_enabled:
                gc.enable()


_collector_paused = _CollectorPaused()
