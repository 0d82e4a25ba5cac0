"""Names of states and actions: how messages and rules show them, and how files, frames and graphs spell them."""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xmen.errors import TrajectoryError, Words, WorldError, speaking
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from xmen.worlds.transitions import Transitions


def rule_text(rule: Any, world: "Transitions") -> str:
    """A rule or an event, without its name, as `parse_constraint(text, world=world)` reads it.

    >>> from xmen import GridWorld, doing, visit
    >>> grid = GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> rule_text(visit(grid.at((1, 2)) & doing(1)).named("fetch"), grid)
    'visit(at((1, 2)) & doing(right))'
    """
    with speaking(Words(world, most=None)):
        text: str = rule._text()
    return text


# ---- Values as files and frames have them: numbers, cells, fields that are empty

_CELL = re.compile(r"\(?\s*(\d{1,18})\s*[,; ]\s*(\d{1,18})\s*\)?")
_WHOLE = re.compile(r"\d{1,18}(?:[.,]0{1,18})?")  # spreadsheets write 3 as 3.0, or 3,0
_INTEGER = re.compile(r"-?\d+")
_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"  # a link whose nodes may be cells
_WORDS = re.compile(rf"{_BRACKETS}|[^\s_]+")
_LISTED = re.compile(rf"{_BRACKETS}|'[^']*'|\"[^\"]*\"|[^\s,\[\]]+")
_AROUND = re.compile(r"\s*['\"]?\s*([(),])\s*['\"]?\s*")


def whole(value: Any) -> int | None:
    """A number from 0 as files and frames have it: 3, 3.0, "3", "3,0"; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value < 10**18 else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and _WHOLE.fullmatch(value.strip()):
        return int(re.split("[.,]", value)[0])
    return None


def decimal(text: str) -> float:
    """A number with a decimal point, or with the one comma of a spreadsheet; nan for anything else.

    >>> decimal("0,25"), decimal(" 0.25"), decimal("1,2.5")
    (0.25, 0.25, nan)
    """
    try:
        return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        return math.nan


def read_cell(value: Any) -> tuple[int, int] | None:
    """A cell as "(2, 3)", "2 3" or (2, 3); None for anything else."""
    if isinstance(value, str):
        match = _CELL.fullmatch(value.strip()) if value.isascii() else None
        return None if match is None else (int(match[1]), int(match[2]))
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    x, y = map(whole, value)
    return None if x is None or y is None else (x, y)


def is_missing(value: Any) -> bool:
    """Whether a field is empty, as files and frames have it: "", None, not a number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return str(value) == "<NA>"  # pandas' own, which refuses to be compared


def some(names: Iterable[Any], most: int = 6, none: str = "none") -> str:
    """The first few names and how many there are more, as a message shows them."""
    known = [str(name) for name in names]
    return (", ".join(known[:most]) or none) + (f" and {len(known) - most:,} more" if len(known) > most else "")


def unknown(what: str, number: int, size: int) -> str:
    """The sentence about a state or an action that a world does not have."""
    return f"{what} {number} does not exist: the world has {what.split()[-1]}s 0 to {size - 1}"


# ---- Names of states and actions in demonstrations, with or without a world

Given = Mapping[Any, int] | Sequence[Any] | None


class Names:
    """Reads the states and actions of a world as numbers and as words.

    `states` and `actions` are names of the user's own: a list (the name of number i at place i) or a dict from names to
    numbers. Without a world only those names and numbers are understood. Under `noise` states are as they were seen.
    """

    def __init__(
        self, world: "Transitions | None" = None, states: Given = None, actions: Given = None, noise: Any = None
    ) -> None:
        self.world, self.noise = world, noise
        self._states, self._actions = _numbers(states, "states"), _numbers(actions, "actions")
        self._read: dict[tuple[str, str, bool], int] = {}  # every word is understood once

    def state(self, value: Any, named: bool = False) -> int:
        """The number of a state; `named` when a number is first of all the name of a node."""
        return self._number(value, "state", self._states, named)

    def action(self, value: Any) -> int:
        """The number of an action."""
        return self._number(value, "action", self._actions)

    def _number(self, value: Any, what: str, own: Mapping[Any, int], named: bool = False) -> int:
        key = what, repr(value), named
        if key in self._read:
            return self._read[key]
        value = _plain(value)
        number = _own(own, value)
        if number is None and not (named and self.world is not None):
            number = whole(value)
        others = f" or one of {some(own)}" if own else ""
        if number is None:
            if self.world is None:
                expected = f"a number{others or f' (names need world= or {what}s=)'}"
                raise TrajectoryError(f"{value!r:.60} is no {what}: expected {expected}")
            try:
                number = self.world.read_state(value) if what == "state" else self.world.read_action(value)
            except WorldError as error:
                raise TrajectoryError(f"{error}{others}") from None
        self._read[key] = number
        return number

    def along(self, states: Sequence[int], actions: Iterable[int] | None) -> Trajectory:
        """The trajectory through these states; without actions, by the only ones that lead from state to state."""
        if actions is not None:
            return Trajectory(states, actions)
        if len(states) > 1 and self.world is None:
            raise TrajectoryError("actions are missing: world= is needed to find those that lead from state to state")
        return Trajectory(states, ()) if self.world is None else self.world.along(states)


def _plain(value: Any) -> Any:
    """A value of an array, a list or a frame as Python has it; a list of one value is that value."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        value = value[0] if len(value) == 1 else tuple(value)
    return value.strip() if isinstance(value, str) else value


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


# ---- Names that a graph has for its links and nodes


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
        """Numbers by the text of names; 1 and "1" look the same in a file, so neither is there."""
        texts = [_spelled(name) for name in self.names]
        uses = Counter(texts)
        return {text: number for number, text in enumerate(texts) if uses[text] == 1}

    @property
    def distinct(self) -> bool:
        """Whether a file can tell all names apart."""
        return len(self._texts) == len(self.names)

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

    def named(self, place: Any) -> int | None:
        """The number of the one that has this name; None where none has."""
        if (found := _own(self._numbers, hashable(place))) is not None:
            return found
        return next((self._texts[text] for text in _texts_of(place) if text in self._texts), None)

    def between(self, place: Any) -> list[int]:
        """The numbers of all links (u, v, key) that are meant by (u, v)."""
        found = (self._parallel.get(text) for text in _texts_of(place))
        return [self._numbers[link] for link in next(filter(None, found), [])]

    def state(self, place: Any) -> int:
        """The number of the state that is meant."""
        place = hashable(place)
        number = whole(place)
        if (found := self.named(place)) is not None:
            return found
        if parallel := self.between(place):
            if len(parallel) > 1:
                keys = ", ".join(repr(self.names[link]) for link in parallel)
                raise WorldError(f"{place!r:.60} is {len(parallel)} parallel links: write one of {keys}")
            return parallel[0]
        if number is not None and not self.integers and number < len(self.names):
            return number
        hint = ""
        if number is not None and self.integers:
            hint = ". Names are integers here, so an integer is always a name: write network.names[i] for state i"
        elif number is not None:
            hint = f"; states are numbered 0 to {len(self.names) - 1}"
        raise WorldError(f"{place!r:.60} is not in the network (known: {some(map(repr, self.names))}){hint}")


def words(path: str) -> list[str]:
    """The names in a text, joined by "_" or spaces, or a list as Python prints it; a link in brackets is one name.

    >>> words("3_4 5"), words("(0, 1, 0) ('b c', 'd_e')_x"), words("['Main_St', 'Elm', (0, 1)]")
    (['3', '4', '5'], ['(0, 1, 0)', "('b c', 'd_e')", 'x'], ['Main_St', 'Elm', '(0, 1)'])
    """
    if not path.lstrip().startswith("["):
        return _WORDS.findall(path)
    return [word.strip("'\"") for word in _LISTED.findall(path)]


def _texts_of(place: Any) -> tuple[str, str]:
    """How a file may have it: as it is, and 3.0 as 3."""
    return _spelled(hashable(place)), str(whole(place))


def _spelled(name: Any) -> str:
    """The text of a name; of a link, or what a file has for one, without quotes and spaces around its parts."""
    if isinstance(name, tuple):
        return f"({','.join(map(_spelled, name))})"
    text = str(name).strip()
    return _AROUND.sub(r"\1", text) if text.startswith("(") else text


def hashable(name: Any) -> Hashable:
    """A name as the graph had it: what files hold as lists were tuples."""
    return tuple(map(hashable, name)) if isinstance(name, list | tuple) else name
