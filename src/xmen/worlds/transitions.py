"""The transitions of a world as sorted columns, and how to find a step among them: what worlds and networks share."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import MEMORY, TrajectoryError, WorldError, with_type
from xmen.options import as_int, require_whole
from xmen.worlds.names import some, unknown, whole
from xmen.worlds.trajectory import Trajectory

# ---- Reading the small arguments of a world (counts, start, terminal states, horizon), strictly

SUM_TOLERANCE = 1e-9  # how far probabilities may be from summing to 1 before it counts as a mistake
SINGLE_TOLERANCE = 1e-4  # what sums of float32 stay within
LARGEST_INDEX = 2**31 - 1  # states and actions are stored as 32-bit integers


require_index = partial(require_whole, most=LARGEST_INDEX, refusal=WorldError)  # name, value, least


def read_start(start: Any, n_states: int) -> NDArray[np.float64]:
    """A start state, or a probability vector, as a probability vector of shape (n_states,)."""
    state = as_int(start)
    if state is not None:
        _in_range(state, n_states, "start state")
        vector = np.zeros(n_states)
        vector[state] = 1.0
        return vector
    try:
        given = np.array(start if isinstance(start, np.ndarray) else list(start))
    except (TypeError, ValueError):
        given = np.array(None)
    if given.ndim != 1 or len(given) != n_states or given.dtype.kind not in "iuf":
        plain = given.ndim == 1 and (not given.size or given.dtype.kind in "iuf")
        shown = f"a vector of length {len(given)}" if plain else with_type(start)
        expected = f"start must be one state (an integer) or a probability vector of length {n_states}"
        raise WorldError(f"{expected}, got {shown}")
    vector = given.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(vector) & (vector >= 0)))
    if wrong.size:
        raise WorldError(f"start: the probability of state {wrong[0]} is {vector[wrong[0]]}")
    total = float(vector.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise WorldError(f"start: the probabilities sum to {total:.12g}, not to 1")
    return vector / total


def read_terminal(terminal: Any, n_states: int) -> NDArray[np.bool_]:
    """One state, several states, or a boolean array over states, as a mask of shape (n_states,)."""
    if isinstance(terminal, np.ndarray) and terminal.dtype == np.bool_:
        if terminal.shape != (n_states,):
            wanted = f"a boolean mask must have shape ({n_states},), got {terminal.shape}"
            raise WorldError(f"terminal: {wanted}; or give the terminal states as integers")
        return terminal.copy()
    mask = np.zeros(n_states, dtype=np.bool_)
    single = as_int(terminal)
    if single is None and (isinstance(terminal, str | bytes | dict) or not isinstance(terminal, Iterable)):
        raise WorldError(f"terminal must be states (integers), got {with_type(terminal)}")
    for value in terminal if single is None else (single,):
        state = as_int(value)
        if state is None:
            raise WorldError(f"terminal must be states (integers), got {with_type(value)} among them")
        _in_range(state, n_states, "terminal state")
        mask[state] = True
    return mask


def _in_range(state: int, n_states: int, what: str) -> None:
    if not 0 <= state < n_states:
        raise WorldError(unknown(what, state, n_states))


# ---- From rows as users write them to the sorted, merged, exact columns that engines read

FIELDS = "(state, action, next_state, probability)"
_NAMES = FIELDS.strip("()").split(", ")


class Columns(NamedTuple):
    """Transitions as four columns of equal length (E,)."""

    source: NDArray[np.int32]
    action: NDArray[np.int32]
    target: NDArray[np.int32]
    probability: NDArray[np.float64]


def read_rows(transitions: Any, n_states: int, n_actions: int) -> Columns:
    """Rows (state, action, next_state, probability), or a dense table, checked one by one; errors name the row."""
    with suppress(TypeError, ValueError):  # where parts differ in length
        if isinstance(transitions, list | tuple) and np.ndim(transitions[:1]) == 3:
            transitions = np.array(transitions, dtype=np.float64)
    if getattr(transitions, "ndim", 2) == 3:
        transitions = _rows_of_dense(np.asarray(transitions), n_states, n_actions)
    table = _as_table(transitions)
    for column, limit in enumerate((n_states, n_actions, n_states, np.inf)):
        values = table[:, column]
        # NaN compares false with everything, so it is caught here as well.
        wrong = np.flatnonzero(~((values >= 0) & (values < limit) & (column == 3 or values == np.floor(values))))
        if wrong.size:
            name, expected = "the probability", "it must be between 0 and 1"
            if column < 3:
                kind = "action" if column == 1 else "state"
                name, expected = _NAMES[column], f"but {kind}s are the integers 0 to {limit - 1}"
            shown = ", ".join(f"{value:.12g}" for value in table[wrong[0]])
            raise WorldError(f"transition row {wrong[0]} ({shown}): {name} is {values[wrong[0]]:.12g}, {expected}")
    source, action, target = (table[:, column].astype(np.int32) for column in range(3))
    return Columns(source, action, target, table[:, 3])


def _rows_of_dense(table: NDArray[Any], n_states: int, n_actions: int) -> NDArray[np.float64]:
    """The rows of a table (S, A, S) or (A, S, S), whichever of the two it is."""
    by_state, by_action = (n_states, n_actions, n_states), (n_actions, n_states, n_states)
    if table.shape not in (by_state, by_action):
        expected = f"{by_state} by state, action and next state, or {by_action} by action, state and next state"
        raise WorldError(f"transitions have shape {table.shape}; expected rows {FIELDS}, or a table {expected}")
    if n_states == n_actions:
        either = "may be by state, action and next state, or by action, state and next state"
        advice = "give rows, np.array([(s, a, t, p[s, a, t]) for s, a, t in np.argwhere(p)])"
        raise WorldError(f"transitions of shape {table.shape} {either}: {advice}")
    places, order = np.argwhere(table), (0, 1, 2) if table.shape == by_state else (1, 0, 2)
    return np.column_stack([places[:, order], table[tuple(places.T)]])


def normalise(
    columns: Columns, terminal: NDArray[np.bool_], n_actions: int, describe: Callable[[int, int], str]
) -> Columns:
    """Sorted by (source, action, target), duplicates added up, rows that cannot happen dropped.

    Probabilities of each (state, action) must sum to 1 within `SUM_TOLERANCE`; they are then
    divided by their sum, so that a certain transition has probability exactly 1.
    """
    source, action, target, probability = columns
    if terminal[source].any():
        kept = ~terminal[source]
        source, action, target, probability = source[kept], action[kept], target[kept], probability[kept]
    n_states = len(terminal)
    key = (source.astype(np.int64) * n_actions + action) * n_states + target
    if np.any(key[1:] <= key[:-1]):
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        source, action, target = source[order][first], action[order][first], target[order][first]
        probability = np.add.reduceat(probability[order], first)
    if not len(source):
        return Columns(source, action, target, probability)

    pair = source.astype(np.int64) * n_actions + action
    first = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    total = np.add.reduceat(probability, first)
    wrong = np.flatnonzero(np.abs(total - 1.0) > SUM_TOLERANCE)
    if wrong.size:
        row = first[wrong[0]]
        more = f" ({wrong.size - 1} more such pairs)" if wrong.size > 1 else ""
        more += ": divide them by their sums, in float64" if np.abs(total - 1.0).max() < SINGLE_TOLERANCE else ""
        what = describe(int(source[row]), int(action[row]))
        raise WorldError(f"probabilities of {what} sum to {total[wrong[0]]:.12g}, not to 1{more}")
    probability = probability / np.repeat(total, np.diff(np.append(first, len(source))))
    kept = probability > 0
    if kept.all():
        return Columns(source, action, target, probability)
    return Columns(source[kept], action[kept], target[kept], probability[kept])


def _as_table(transitions: Any) -> NDArray[np.float64]:
    """Anything made of rows as a float array of shape (n, 4)."""
    if isinstance(transitions, str | bytes | dict) or not isinstance(transitions, Iterable):
        raise WorldError(f"transitions must be rows {FIELDS}, got {with_type(transitions)}")
    rows: Any = transitions if isinstance(transitions, np.ndarray) else list(transitions)
    if not len(rows):
        return np.empty((0, 4))
    with suppress(TypeError, ValueError):
        table = np.asarray(rows)
        if table.ndim == 2 and table.shape[1] == 4 and table.dtype.kind in "iuf":
            return table.astype(np.float64)
    table = np.empty((len(rows), 4))  # the slow way, for exact fractions and the like, and to say which row is wrong
    for index, row in enumerate(rows):
        try:
            fields = list(row)
        except TypeError:
            raise WorldError(f"transition row {index} must be {FIELDS}, got {row!r:.60}") from None
        if len(fields) != 4:
            raise WorldError(f"transition row {index} must have 4 entries {FIELDS}, got {len(fields)}: {row!r:.60}")
        for column, field in enumerate(fields):
            try:
                if isinstance(field, str | bytes | bool | np.bool_):
                    raise TypeError
                table[index, column] = float(field)
            except (TypeError, ValueError, OverflowError):
                message = f"transition row {index}: {_NAMES[column]} must be a number, got {with_type(field)}"
                raise WorldError(message) from None
    return table


# ---- What worlds and networks share

STATE_BYTES, PAIR_BYTES = 36, 9  # of a table while it is made: per state, and per state and action


class Transitions:
    """States, actions, and rows (state, action, next_state, probability), read-only; see `MDP` for the arrays."""

    n_states: int
    n_actions: int
    horizon: int | None
    terminal: NDArray[np.bool_]
    has_terminal: bool
    source: NDArray[np.int32]
    action: NDArray[np.int32]
    target: NDArray[np.int32]
    probability: NDArray[np.float64]
    row_start: NDArray[np.int64]
    available: NDArray[np.bool_]
    deterministic: bool
    step_word = "action"  # what messages call one step

    def _build_table(
        self, n_states: int, n_actions: int, columns: Columns, terminal: NDArray[np.bool_], horizon: int | None
    ) -> None:
        """Set all arrays from checked columns; rows that leave a terminal state are dropped."""
        self.horizon = require_index("horizon", horizon, least=0, optional=True)
        self.n_states, self.n_actions = read_sizes(n_states, n_actions)
        self.terminal, self.has_terminal = terminal, bool(terminal.any())
        self.source, self.action, self.target, self.probability = normalise(
            columns, terminal, n_actions, lambda s, a: f"{self.describe_action(a)} in {self.describe_state(s)}"
        )
        self.row_start = np.searchsorted(self.source, np.arange(n_states + 1)).astype(np.int64)
        self.available = np.zeros((n_states, n_actions), dtype=np.bool_)
        self.available[self.source, self.action] = True
        self.deterministic = bool(np.all(self.probability == 1.0))
        self._freeze()

    def __repr__(self) -> str:
        sizes = f"n_states={self.n_states}, n_actions={self.n_actions}, {len(self.source)} transitions"
        return f"{type(self).__name__}({sizes}, horizon={self.horizon})"

    def _freeze(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # pickle forgets that the arrays were read-only

    @property
    def transitions(self) -> NDArray[np.float64]:
        """The transitions as rows (state, action, next_state, probability), shape (E, 4)."""
        return np.column_stack([self.source, self.action, self.target, self.probability])

    def describe_state(self, state: int) -> str:
        """The state as messages call it."""
        return f"state {state}"

    def describe_action(self, action: int) -> str:
        """The action as messages call it."""
        return f"action {action}"

    numbers_are_states = True  # in the text of rules, where they could mean nothing else

    def state_name(self, state: int) -> str:
        """The state as the text of a rule has it inside at(...)."""
        return str(state)

    def read_state(self, name: Any) -> int:
        """The state that a name means in rules and files: a cell, a node, or a number."""
        return self._number(name, "state", f"a number from 0 to {self.n_states - 1}")

    def state_fields(self, state: int) -> dict[str, Any]:
        """The state as tables have it, by column."""
        return {"state": state}

    def action_name(self, action: int) -> str:
        """The action as the text of a rule has it inside doing(...)."""
        return str(action)

    def read_action(self, name: Any) -> int:
        """The action that a name means in rules and files: a move, or a number."""
        return self._number(name, "action", f"a number from 0 to {self.n_actions - 1}")

    def action_fields(self, action: int) -> dict[str, Any]:
        """The action as tables have it, by column."""
        return {"action": action}

    def step_text(self, state: int, action: int) -> str:
        """The action as a line of text has it between two states."""
        return f"-{action}->"

    def require_state(self, state: Any, what: str = "state") -> int:
        """The number of a state as a Python int; WorldError for what is none of this world."""
        number: int = require_index(what, state, least=0)
        _in_range(number, self.n_states, what)
        return number

    def _number(self, name: Any, what: str, expected: str) -> int:
        number = whole(name)
        if number is None:
            raise WorldError(f"{name!r:.60} is no {what}: expected {expected}")
        return number

    def find_transitions(self, states: ArrayLike, actions: ArrayLike, next_states: ArrayLike) -> NDArray[np.int64]:
        """Index of each (state, action, next_state), arrays of one shape, in the columns; -1 for none. O(log E)."""
        state, action, target = (np.asarray(x, dtype=np.int64) for x in (states, actions, next_states))
        ranges = ((state, self.n_states), (action, self.n_actions), (target, self.n_states))
        known = np.logical_and.reduce([(number >= 0) & (number < size) for number, size in ranges])
        wanted = np.where(known, self._key(state, action, target), -1)
        if not len(self._keys):
            return np.full(wanted.shape, -1, dtype=np.int64)
        index = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[index] == wanted, index, -1)

    def find_steps(self, trajectory: Trajectory) -> NDArray[np.int64]:
        """Index of each step of a trajectory into the transition columns, -1 where impossible; shape (L,)."""
        states, actions = trajectory.states, trajectory.actions
        if max(states) > LARGEST_INDEX or max(actions, default=0) > LARGEST_INDEX:
            states = tuple(min(state, LARGEST_INDEX) for state in states)
            actions = tuple(min(action, LARGEST_INDEX) for action in actions)
        return self.find_transitions(states[:-1], actions, states[1:])

    def action_between(self, state: int, successor: int, position: int) -> int:
        """The one action that leads from a state to the next; TrajectoryError where there is none, or a choice."""
        for number in (state, successor):
            if not 0 <= number < self.n_states:
                raise TrajectoryError(f"position {position}: {unknown('state', number, self.n_states)}")
        steps, word = self._steps_from(state), self.step_word
        fitting = [action for action, after in steps if after == successor]
        if len(fitting) == 1:
            return fitting[0]
        ends = f"from {self.describe_state(state)} to {self.describe_state(successor)}"
        if fitting:
            found = f"{len(fitting)} {word}s lead {ends} ({some(map(self.describe_action, fitting))})"
            advice = "write down which one was taken, as xm.Trajectory(states, actions) does"
            raise TrajectoryError(f"position {position}: {found}, expected exactly one: {advice}")
        reached = some(map(self.describe_state, sorted({after for _, after in steps})))
        rest = f"; from there one gets to {reached}" if steps else "; nothing leads on from there"
        raise TrajectoryError(f"position {position}: no {word} leads {ends}, expected exactly one{rest}")

    def _steps_from(self, state: int) -> list[tuple[int, int]]:
        """The actions of a state with where they may lead."""
        row = slice(self.row_start[state], self.row_start[state + 1])
        return list(zip(self.action[row].tolist(), self.target[row].tolist(), strict=True))

    def along(self, states: Sequence[int]) -> Trajectory:
        """The trajectory through these states; TrajectoryError where a step is not possible by exactly one action."""
        pairs = enumerate(pairwise(states))
        return Trajectory(states, [self.action_between(*pair, position) for position, pair in pairs])

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        return self._key(self.source, self.action, self.target)

    def _key(self, source: NDArray[Any], action: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
        return np.asarray((source.astype(np.int64) * self.n_actions + action) * self.n_states + target)


def read_sizes(n_states: Any, n_actions: Any) -> tuple[int, int]:
    """The numbers of states and actions; refuses tables that do not fit in memory.

    Each state and each pair of a state and an action has its place, whether or not anything happens there, and each
    (state, action, next_state) a number of its own.
    """
    n_states = require_index("n_states", n_states, least=1)
    n_actions = require_index("n_actions", n_actions, least=1)
    what = f"a table of {n_states:,} states and {n_actions:,} actions"
    if n_states * n_states * n_actions >= 2**63:
        raise WorldError(f"{what} is too large: n_states * n_states * n_actions must stay below 2**63")
    MEMORY.require(STATE_BYTES * n_states + PAIR_BYTES * n_states * n_actions, what, WorldError)
    return n_states, n_actions
