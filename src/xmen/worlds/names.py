"""The words in which people write states and actions: cells, move names, node names, names of their own, numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from xmen.errors import TrajectoryError, WorldError
from xmen.worlds.transitions import Transitions

# ---- Rules in the world's own words, in messages and in files: cells, moves and nodes in place of numbers


__all__ = ["in_world_words", "rule_text"]

_EVENT = r"\b(at|doing)\((\d+(?:, \d+)*)\)"
_QUOTED = r"'(?:\\.|[^\\'])*'|\"(?:\\.|[^\\\"])*\""
_SHOWN_STATES = 6


def in_world_words(text: str, world: Transitions) -> str:
    """The text with at(27, 39) as at((3, 2), (3, 3)) on a grid, as at(bank) on a graph, and doing(0) by its move.

    >>> from xmen import GridWorld
    >>> grid = GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> in_world_words("no trajectory satisfies 'visit(at(9) & doing(1))'", grid)
    "no trajectory satisfies 'visit(at((1, 2)) & doing(right))'"
    """
    return re.sub(_EVENT, lambda found: _in_names(found, world, _SHOWN_STATES), text)


def rule_text(text: str, world: Transitions) -> str:
    """The text of a rule or an event as `parse_constraint(text, world=world)` reads it; names in quotes stay."""
    # Names in quotes are matched first, and have no groups.
    return re.sub(f"{_QUOTED}|{_EVENT}", lambda found: _in_names(found, world) if found[1] else found[0], text)


def _in_names(found: re.Match[str], world: Transitions, most: int | None = None) -> str:
    numbers = [int(number) for number in found[2].split(", ")]
    name, known = (world.state_name, world.n_states) if found[1] == "at" else (world.action_name, world.n_actions)
    if max(numbers) >= known:
        return found[0]
    more = f", ... {len(numbers)} in all" if most is not None and len(numbers) > most else ""
    names = [name(number) for number in numbers[:most]]
    if most is not None:  # messages have rules in quotes
        names = [shown.strip("'") for shown in names]
    return f"{found[1]}({', '.join(names)}{more})"


# ---- The words in which people write states and actions: cells, move names, node names, names of their own, numbers


_CELL = re.compile(r"\(?\s*(\d{1,18})\s*[,; ]\s*(\d{1,18})\s*\)?")
_WHOLE = re.compile(r"\d{1,18}(?:[.,]0{1,18})?")  # spreadsheets write 3 as 3.0, or 3,0
_INTEGER = re.compile(r"-?\d+")
_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # a link whose nodes may be cells
_WORDS = re.compile(rf"{_BRACKETS}|[^\s_]+")
_LISTED = re.compile(rf"{_BRACKETS}|'[^']*'|\"[^\"]*\"|[^\s,\[\]]+")
_AROUND = re.compile(r"\s*['\"]?\s*([(),])\s*['\"]?\s*")
_SHOWN = 8

Given = Mapping[Any, int] | Sequence[Any] | None


class Names:
    """Reads and writes the states and actions of a world as numbers and as words.

    `states` and `actions` are names of the user's own: a list (the name of number i at place i) or a dict from names to
    numbers. Without a world only those names and numbers are understood.
    """

    def __init__(self, world: Any = None, states: Given = None, actions: Given = None) -> None:
        self.world = world
        self._own_states, self._own_actions = _numbers(states, "states"), _numbers(actions, "actions")
        self._nodes: dict[str, int] | None = None
        self.has_cells, self.has_nodes = hasattr(world, "cell"), hasattr(world, "node")

    def state(self, value: Any, named: bool = False) -> int:
        """The number of a state; `named` when a number can only be the name of a node."""
        value = _plain(value)
        if (own := _own(self._own_states, value)) is not None:
            return own
        if not (named and self.has_nodes):
            number = whole(value)
            if number is not None:
                return number
        if self.has_cells:
            cell = _cell(value)
            if cell is not None:
                return int(self.world.state(cell))
        if self.has_nodes and str(value) in self._node_numbers():
            return self._node_numbers()[str(value)]
        raise TrajectoryError(f"{value!r:.60} is no state: expected {self._expected_states()}")

    def action(self, value: Any) -> int:
        """The number of an action."""
        value = _plain(value)
        if (own := _own(self._own_actions, value)) is not None:
            return own
        number = whole(value)
        if number is not None:
            return number
        moves: tuple[str, ...] = getattr(self.world, "moves", ())
        word = str(value).strip().lower().replace("_", "-")
        if word in moves:
            return moves.index(word)
        known = [*self._own_actions, *moves]
        expected = f"a number or one of {_some(known)}" if known else "a number (names need world= or actions=)"
        raise TrajectoryError(f"{value!r:.60} is no action: expected {expected}")

    def between(self, state: int, successor: int, position: int) -> int:
        """The one action that leads from a state to the next, where only states were written down."""
        if self.world is None:
            raise TrajectoryError("actions are missing: world= is needed to find those that lead from state to state")
        return int(self.world.action_between(state, successor, position))

    def state_columns(self) -> tuple[tuple[str, ...], Callable[[int], tuple[Any, ...]]]:
        """The names of the columns that hold a state, and their values for a state."""
        if self.has_cells:
            return ("x", "y"), lambda state: tuple(self.world.cell(state))
        if self.has_nodes and len(self._node_numbers()) == self.world.n_states:
            return ("node",), lambda state: (self.world.node(state),)
        return ("state",), lambda state: (state,)

    def action_column(self) -> tuple[str, Callable[[int], Any]]:
        """The name of the column that holds an action, and its value for an action."""
        moves = getattr(self.world, "moves", None)
        return ("action", lambda action: action) if moves is None else ("move", lambda action: moves[action])

    def _node_numbers(self) -> dict[str, int]:
        if self._nodes is None:
            self._nodes = _by_text(self.world.node(state) for state in range(self.world.n_states))
        return self._nodes

    def _expected_states(self) -> str:
        kinds = ["a number"]
        if self.has_cells:
            kinds.append("a cell such as (0, 0)")
        if self.has_nodes:
            kinds.append(f"one of the nodes {_some(self._node_numbers())}")
        if self._own_states:
            kinds.append(f"one of {_some(self._own_states)}")
        return " or ".join(kinds) if len(kinds) > 1 else "a number (names need world= or states=)"


class Places:
    """The names that a graph has for the states of a network, and the one rule by which users mean a state.

    A name wins over a number: as it is, as (u, v) for the only link (u, v, key), or by its text, as files have it:
    quotes and spaces inside a link do not matter. A number is a state only where no name is an integer, so that it can
    mean nothing else.
    """

    def __init__(self, names: tuple[Hashable, ...]) -> None:
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}

    @cached_property
    def _texts(self) -> dict[str, int]:
        return _by_text(map(_spelled, self.names))

    @cached_property
    def _parallel(self) -> dict[str, list[Any]]:
        """The names of all links from u to v, by the text of (u, v)."""
        found: dict[str, list[Any]] = {}
        for name in self.names:
            if isinstance(name, tuple) and len(name) == 3:
                found.setdefault(_spelled(name[:2]), []).append(name)
        return found

    @cached_property
    def integers(self) -> bool:
        """Whether some name is an integer, or looks like one in a file."""
        return any(_INTEGER.fullmatch(str(name)) for name in self.names)

    def state(self, place: Any) -> int:
        """The number of the state that is meant."""
        place = hashable(place)
        if (found := _own(self._numbers, place)) is not None:
            return found
        number = whole(place)
        for text in (_spelled(place), str(number)):
            if text in self._texts:
                return self._texts[text]
            if text in self._parallel:
                first, *others = self._parallel[text]
                if others:
                    keys = ", ".join(repr(link) for link in (first, *others))
                    raise WorldError(f"{place!r:.60} is {len(others) + 1} parallel links: write one of {keys}")
                return self._numbers[first]
        if number is not None and not self.integers and number < len(self.names):
            return number
        some = ", ".join(repr(known) for known in self.names[:4])
        hint = ""
        if number is not None and self.integers:
            hint = ". Names are integers here, so an integer is always a name: write network.names[i] for state i"
        elif number is not None:
            hint = f"; states are numbered 0 to {len(self.names) - 1}"
        raise WorldError(f"{place!r:.60} is not in the network (known: {some}, ...){hint}")


def words(path: str) -> list[str]:
    """The names in a text, joined by "_" or spaces, or a list as Python prints it; a link in brackets is one name.

    >>> words("3_4 5"), words("(0, 1, 0) ('b c', 'd_e')_x"), words("['Main_St', 'Elm', (0, 1)]")
    (['3', '4', '5'], ['(0, 1, 0)', "('b c', 'd_e')", 'x'], ['Main_St', 'Elm', '(0, 1)'])
    """
    if not path.lstrip().startswith("["):
        return _WORDS.findall(path)
    return [word.strip("'\"") for word in _LISTED.findall(path)]


def _spelled(name: Any) -> str:
    """The text of a name; of a link, or what a file has for one, without quotes and spaces around its parts."""
    if isinstance(name, tuple):
        return f"({','.join(map(_spelled, name))})"
    text = str(name).strip()
    return _AROUND.sub(r"\1", text) if text.startswith("(") else text


def hashable(name: Any) -> Hashable:
    """A name as the graph had it: what files hold as lists were tuples."""
    return tuple(map(hashable, name)) if isinstance(name, list | tuple) else name


def _by_text(names: Iterable[Any]) -> dict[str, int]:
    """Numbers by the text of names; 1 and "1" are different names that look the same in a file, so neither is there."""
    texts = [str(name) for name in names]
    uses = Counter(texts)
    return {text: number for number, text in enumerate(texts) if uses[text] == 1}


def is_missing(value: Any) -> bool:
    """Whether a field is empty, as files and frames have it: "", None, not a number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return str(value) == "<NA>"  # pandas' own, which refuses to be compared


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list):
        value = tuple(value)
    return value.strip() if isinstance(value, str) else value


def whole(value: Any) -> int | None:
    """A number from 0 as files and frames have it: 3, 3.0, "3", "3,0"; None for anything else."""
    value = _plain(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10**18 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and _WHOLE.fullmatch(value):
        return int(re.split("[.,]", value)[0])
    return None


def _cell(value: Any) -> tuple[int, int] | None:
    if isinstance(value, str) and value.isascii() and (match := _CELL.fullmatch(value)):
        return int(match[1]), int(match[2])
    if isinstance(value, tuple) and len(value) == 2:
        x, y = (whole(part) for part in value)
        return None if x is None or y is None else (x, y)
    return None


def _own(names: Mapping[Any, int], value: Any) -> int | None:
    try:
        return names.get(value)
    except TypeError:  # a list inside a tuple: no name
        return None


def _numbers(given: Given, what: str) -> dict[Any, int]:
    if given is None:
        return {}
    if isinstance(given, str) or not isinstance(given, Mapping | Iterable):
        raise WorldError(f"{what} must be a list of names, or a dict from names to numbers, got {given!r:.60}")
    pairs = list(given.items()) if isinstance(given, Mapping) else [(name, i) for i, name in enumerate(given)]
    for name, number in pairs:
        if not isinstance(name, Hashable) or type(number) is not int or number < 0:
            raise WorldError(f"{what}: {name!r:.60} has the number {number!r:.60}; numbers are 0, 1, 2, ...")
    if len(dict(pairs)) < len(pairs):
        raise WorldError(f"{what}: a name stands there twice")
    return dict(pairs)


def _some(names: Iterable[Any]) -> str:
    known = [str(name) for name in names]
    return ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
