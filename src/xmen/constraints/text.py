"""Reading constraints and events from text: the inverse of `str(constraint)`.

The text is Python's spelling. It is read through Python's own syntax tree, of which only the nodes below are
understood, and built by calling the functions of this room: nothing is ever evaluated.
"""

import ast
import inspect
import operator
import re
import unicodedata
import warnings
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from itertools import accumulate
from keyword import iskeyword
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.arithmetic import COMPARE, Comparable, LinearForm, total
from xmen.constraints.constraint import FUNCTIONS, Constraint
from xmen.errors import ConstraintError, ConstraintSyntaxError, FileFormatError, Words, WorldError, speaking, with_type
from xmen.events import EVENT_IS_NO_CONSTRAINT, LARGEST, NO_NUMBER, PRECEDENCE, Event, anytime, at, doing
from xmen.worlds.mdp import MDP

# ---- What constraint text may consist of: functions (`words`), and how they are joined and compared

FUNCTIONS["at"] = (at, "at(place, ...)")
FUNCTIONS["doing"] = (doing, "doing(action, ...)")
WITHOUT_TEXT = ("when", "monitor")
ANYTIME = "anytime"

Operators: TypeAlias = dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]]
JOINS: Operators = {
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.RShift: (">>", operator.rshift),
}
ARITHMETIC: Operators = {ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul)}
_COMPARED: list[type[ast.cmpop]] = [ast.LtE, ast.Lt, ast.GtE, ast.Gt, ast.Eq, ast.NotEq]
COMPARISONS = dict(zip(_COMPARED, COMPARE, strict=True))


# ---- Constraint text as a syntax tree that knows where each node stands in the text

TOO_DEEP = "the text is nested too deeply; give parts a name in `names` and use the names"

_CLOSING = {")": "(", "]": "[", "}": "{"}
_STRING = r"""'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^\\\n'])*'|"(?:\\.|[^\\\n"])*\""""
_BRACKET = re.compile(rf"{_STRING}|#[^\n]*|[(){{}}\[\]'\"]", re.DOTALL)  # after texts in quotes and comments


class SourceText:
    """The text, its tree, and errors that put a caret under a spot of it."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._lines = self.text.split("\n")
        self._ends: dict[int, list[int]] = {}  # of lines with more than ASCII, the byte at which each character ends
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def fail(self, message: str, place: int | ast.expr | ast.keyword) -> NoReturn:
        """Raise a ConstraintSyntaxError that shows the spot: an offset, or where a node begins."""
        offset = place if isinstance(place, int) else self.start(place)
        raise ConstraintSyntaxError(message, self.text, offset) from None

    def parse(self) -> ast.expr:
        """The tree of the one expression that the text consists of."""
        self._check_brackets()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's remarks on unusual escapes in names
                # In brackets, so that the text may run over several lines.
                tree = ast.parse(f"(\n{self.text}\n)", mode="eval").body
        except SyntaxError as error:
            self._fail_as_python(error)
        except (RecursionError, MemoryError):
            self.fail(TOO_DEEP, 0)
        except ValueError:
            self.fail("the text has characters that no Python text can have (a null byte, half a pair)", 0)
        if isinstance(tree, ast.Tuple) and not tree.elts:
            self.fail("the text is empty; write a constraint such as visit(at(3))", 0)
        return tree

    def start(self, node: ast.expr | ast.keyword) -> int:
        """Where the node begins in the text."""
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr) -> int:
        """Where the node ends in the text."""
        return self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def between(self, left: ast.expr, right: ast.expr, symbol: str) -> int:
        """Where the symbol stands between two nodes."""
        found = self.text.find(symbol, self.end(left), self.start(right))
        return self.start(right) if found < 0 else found

    def _offset(self, line_number: int, n_bytes: int) -> int:
        line = max(line_number - 2, 0)  # the first line holds the opening bracket only
        if line >= len(self._lines):
            return len(self.text.rstrip())
        text = self._lines[line]
        if not text.isascii():  # Python counts bytes; counted once per line, or long texts take quadratic time
            if line not in self._ends:
                self._ends[line] = list(accumulate(len(character.encode(errors="replace")) for character in text))
            n_bytes = bisect_right(self._ends[line], n_bytes)
        return self._starts[line] + min(n_bytes, len(text))

    def _fail_as_python(self, error: SyntaxError) -> NoReturn:
        line = (error.lineno or 2) - 2
        message = re.sub(r" \(detected at line \d+\)", "", error.msg).replace(" or ':='", "")
        if line >= len(self._lines):
            self.fail("something is missing at the end of the text", len(self.text.rstrip()))
        line = max(line, 0)
        offset = min(self._starts[line] + max((error.offset or 1) - 1, 0), self._starts[line + 1] - 1)
        for wrong, right in (("=<", "<="), ("=>", ">=")):
            if self.text.startswith(wrong, offset):
                message = f"write {right} instead of {wrong}"
        self.fail(message, offset)

    def _check_brackets(self) -> None:
        """Fail at a bracket without a partner: inside the brackets of `parse`, Python would blame another."""
        open_at: list[int] = []
        for match in _BRACKET.finditer(self.text):
            found, offset = match[0], match.start()
            if found in ("'", '"'):
                return  # never ends: Python has a good message for that
            if found in _CLOSING.values():
                open_at.append(offset)
            elif found in _CLOSING:
                if not open_at:
                    self.fail(f"`{found}` closes nothing", offset)
                if self.text[open_at.pop()] != _CLOSING[found]:
                    self.fail(f"`{found}` closes another kind of bracket", offset)
        if open_at:
            self.fail(f"`{self.text[open_at[-1]]}` is never closed", open_at[-1])


# ---- What names of the user's own may stand for in constraint text

Name: TypeAlias = "Event | Constraint | NDArray[Any] | Sequence[Any] | Mapping[Event, int]"
"""What a name of the user's own may stand for in text."""

COSTS = (np.ndarray, list, tuple, Mapping)  # what total(...) takes


def check_names(names: object, where: str) -> dict[str, Name]:
    """The names, if text can use all of them; otherwise a ConstraintError that says which it cannot."""
    prefix = f"{where}: " if where else ""
    if not isinstance(names, Mapping):
        raise ConstraintError(f"{prefix}names maps names to events and constraints; got {names!r}.")
    found: dict[str, Name] = {}
    for given, value in names.items():
        if not isinstance(given, str) or not given.isidentifier() or iskeyword(given):
            raise ConstraintError(f"{prefix}{given!r} cannot be written in the text; use a Python identifier.")
        name = unicodedata.normalize("NFKC", given)  # as Python reads it
        if name in FUNCTIONS or name in WITHOUT_TEXT or name == ANYTIME:
            raise ConstraintError(f"{prefix}the name {name!r} is taken by xmen's own {name}; choose another.")
        if not isinstance(value, (Event, Constraint, *COSTS)):
            expected = "must stand for an event or a constraint, or for costs in an array"
            raise ConstraintError(f"{prefix}{name!r} {expected}; got {with_type(value)}.")
        if name in found:
            raise ConstraintError(f"{prefix}{given!r} and another are the same to Python: {name!r}; choose others.")
        found[name] = value
    return found


def kind_of(value: object) -> str:
    """What a value is, as messages call it."""
    if isinstance(value, Event | Constraint):
        return f"the {'event' if isinstance(value, Event) else 'constraint'} `{value}`"
    if isinstance(value, Comparable):
        return f"`{value}`, a number that depends on the trajectory"
    return "costs, which stand in total(...)" if isinstance(value, COSTS) else repr(value)


Read = TypeVar("Read", Event, Constraint)
Tables: TypeAlias = Callable[[str], ArrayLike] | None

MAX_DEPTH = 260  # nodes inside one another; far below Python's own limit on nested calls


def parse_constraint(
    text: str, names: Mapping[str, Name] | None = None, tables: Tables = None, world: MDP | None = None
) -> Constraint:
    """The constraint that a text spells: the inverse of `str(constraint)`.

    Parameters
    ----------
    text
        The Python spelling of a constraint, `.named("...")` included. It is read through a whitelist and never run.
        `when` and `monitor` have no text form.
    names
        Events and constraints of your own, by the names that the text uses; and costs for `total(name)`: arrays, or
        events with their weights.
    tables
        Reads the costs that the text names as a file, as in total("energy.csv"). None: text opens no files.
    world
        The world for which the text is written: a state is then what the world calls it, a cell at((5, 6)) of a grid or
        a node at("bank") of a graph, and at(state(59)) by its number; `start` and `goal` are the states where its
        trajectories begin and end, unless `names` has others. None: states are numbers.

    Returns
    -------
    Constraint
        Equal to the constraint that was written.

    Raises
    ------
    ConstraintSyntaxError
        When the text cannot be read, with a caret at the spot.

    Examples
    --------
    >>> from xmen import at
    >>> parse_constraint("visit(shop) & (count(at(3)) <= 2)", {"shop": at(7, 8)})
    visit(at(7, 8)) & (count(at(3)) <= 2)
    """
    return _read(_Reader.constraint, text, names, tables, world)


def parse_event(text: str, names: Mapping[str, Event] | None = None, world: MDP | None = None) -> Event:
    """The event that the text spells: the inverse of `str(event)`; `names` and `world` as in `parse_constraint`.

    >>> from xmen import at
    >>> parse_event("~shop & doing(0)", {"shop": at(7, 8)})
    ~at(7, 8) & doing(0)
    """
    return _read(_Reader.event, text, names, None, world)


def _read(
    read: "Callable[[_Reader, ast.expr], Read]", text: object, names: object, tables: Tables, world: MDP | None
) -> Read:
    """The constraint or the event that the text spells."""
    where = f"parse_{read.__name__}(text, names)"
    if not isinstance(text, str):
        raise ConstraintSyntaxError(f"{where} reads text; got {with_type(text)}.")
    own = {} if world is None else _ends(world)
    reader = _Reader(text, {**own, **check_names({} if names is None else names, where)}, tables, world)
    if read is _Reader.event and not text.strip():
        reader.fail("the text is empty; write an event such as at(3)", 0)
    with speaking(Words(world)):
        try:
            return read(reader, reader.parse())
        except RecursionError:
            reader.fail(TOO_DEEP, 0)


def _ends(world: MDP) -> dict[str, Name]:
    """`start` and `goal`, which a text for a world may use without having declared them."""
    states = {"start": np.flatnonzero(world.start), "goal": np.flatnonzero(world.terminal)}
    return {name: at(*found.tolist()) for name, found in states.items() if len(found)}


class _Reader(SourceText):
    """Builds the value of each node of the text; one method per kind of node."""

    def __init__(self, text: str, names: dict[str, Name], tables: Tables, world: MDP | None) -> None:
        super().__init__(text)
        self.names, self.tables, self.world, self.depth = names, tables, world, 0

    def constraint(self, tree: ast.expr) -> Constraint:
        value = self.value(tree)
        if isinstance(value, Constraint):
            return value
        said = ", not a constraint such as visit(at(3))"
        if isinstance(value, Event):
            said = f", not a constraint: {EVENT_IS_NO_CONSTRAINT}"
        elif isinstance(value, Comparable):
            said = f": compare it, as in `{value} >= 1`"
        self.fail(f"this is {kind_of(value)}{said}", tree)

    def event(self, tree: ast.expr) -> Event:
        value = self.value(tree)
        if isinstance(value, Event):
            return value
        self.fail(f"this is {kind_of(value)}, not an event such as at(3)", tree)

    def value(self, node: ast.expr) -> object:
        """What the node stands for: an event, a constraint, a form, a number, a text or a list."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(TOO_DEEP, node)
        value = self._by_kind.get(type(node), _Reader._refuse)(self, node)
        self.depth -= 1
        return value

    def _refuse(self, node: ast.expr) -> NoReturn:
        match node:
            case ast.BoolOp():
                message = "write & for `and` and | for `or`, with each comparison in brackets"
            case ast.Attribute(attr="csv"):
                message = f'write the name of a file in quotes: total("{self._spelled(node)}")'
            case ast.Attribute():
                message = f'only .named("...") can follow a constraint, not .{node.attr}'
            case ast.Tuple(elts=[before_comma, *_]):
                said = "one value is expected here, not several; join constraints with & or |"
                self.fail(said, self.end(before_comma))
            case ast.Starred():
                message = "write the arguments one by one, without *"
            case _:
                message = f"{type(node).__name__} is Python, but not part of the constraint language"
        self.fail(message, node)

    def _spelled(self, node: ast.expr) -> str:
        """The node as the user wrote it."""
        return self.text[self.start(node) : self.end(node)]

    def _guarded(self, place: int | ast.expr, function: Callable[..., object], *args: Any, **keywords: Any) -> Any:
        """Call the function; its own complaints get the text and a caret."""
        try:
            return function(*args, **keywords)
        except (ConstraintError, WorldError) as error:
            self.fail(error.reason, place)

    def _constant(self, node: ast.Constant) -> object:
        value = node.value
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float | str)):
            self.fail(f"{value!r} is not part of the constraint language", node)
        return self._in_range(value, node)

    def _in_range(self, value: object, place: int | ast.expr) -> object:
        if isinstance(value, int) and abs(value) > LARGEST:
            self.fail(f"this number is too large: at most {LARGEST}", place)
        return value

    def _list(self, node: ast.List) -> object:
        values = []
        for item in node.elts:
            values.append(self.value(item))
            if not isinstance(values[-1], int | float | list):
                self.fail(f"a list holds weights, not {kind_of(values[-1])}", item)
        return values

    def _event_weights(self, node: ast.Dict) -> dict[Event, object]:
        weights: dict[Event, object] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                self.fail("write the events one by one, without **", item)
            event = self.event(key)
            if event in weights:
                self.fail(f"{kind_of(event)} is given twice", key)
            weights[event] = self.value(item)
        return weights

    def _table(self, node: ast.expr, name: str) -> ArrayLike:
        """The costs in a file that the text names."""
        if self.tables is None:
            advice = f"names={{'costs': ...}} and total(costs), or total({name!r}, world)"
            beside = "a file of costs can be named in a problem file, and is found beside it"
            self.fail(f"{beside}; in Python write {advice}", node)
        try:
            return self.tables(name)
        except OSError as error:
            self.fail(f"{name!r} cannot be read: {error.strerror}", node)
        except FileFormatError as error:
            self.fail(error.reason, node)

    def _name(self, node: ast.Name) -> object:
        if node.id in self.names:
            return self.names[node.id]
        if node.id == ANYTIME:
            return anytime
        if node.id in FUNCTIONS:
            self.fail(f"`{node.id}` is a function: write {FUNCTIONS[node.id][1]}", node)
        self._unknown(node.id, node)

    def _unknown(self, name: str, node: ast.expr) -> NoReturn:
        if name in WITHOUT_TEXT:
            under = f"parse_constraint(text, names={{'my_{name}': ...}})"
            why = "has no text form, because it holds a function"
            self.fail(f"{name}(...) {why}: build it in Python and pass it under a name, as in {under}", node)
        close = get_close_matches(name, [*self.names, ANYTIME, *FUNCTIONS], n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        yours = ", ".join(sorted(self.names)) or "none given"
        built_in = ", ".join(sorted([ANYTIME, *FUNCTIONS]))
        self.fail(f"unknown name `{name}`{hint} (in names: {yours}; built in: {built_in})", node)

    def _named(self, node: ast.Call, attribute: ast.Attribute) -> object:
        if attribute.attr != "named":
            self._refuse(attribute)
        value = self.value(attribute.value)
        if not isinstance(value, Constraint):
            self.fail(f'.named("...") belongs to constraints; this is {kind_of(value)}', node)
        match node:
            case ast.Call(args=[ast.Constant(value=str(name))], keywords=[]):
                return self._guarded(node, value.named, name)
        self.fail('write the name as one text in quotes: .named("...")', self.end(attribute))

    def _call(self, node: ast.Call) -> object:
        if isinstance(node.func, ast.Attribute):
            return self._named(node, node.func)
        if not isinstance(node.func, ast.Name):
            self.fail("only the functions of the constraint language can be called", node)
        name = node.func.id
        if name in self.names or name == ANYTIME:
            self.fail(f"`{name}` is not a function: write it without brackets", node)
        if name not in FUNCTIONS:
            self._unknown(name, node)
        function, usage = FUNCTIONS[name]
        if self.world is not None and function in (at, doing) and not node.keywords:
            read = self._states if function is at else self._actions
            return self._guarded(node, function, *read(node, self.world))
        costs = function is total
        arguments: list[Any] = [
            self._event_weights(one) if costs and isinstance(one, ast.Dict) else self.value(one) for one in node.args
        ]
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail("write the arguments one by one, without **", keyword)
            if keyword.arg in keywords:
                self.fail(f"{keyword.arg}= is given twice", keyword)
            keywords[keyword.arg] = self.value(keyword.value)
        try:
            inspect.signature(function).bind(*arguments, **keywords)
        except TypeError as error:
            self.fail(f"{name}(...): {error}; write {usage}", node)
        if costs and isinstance(arguments[0], str):
            arguments[0] = self._table(node.args[0], arguments[0])
        try:
            return function(*arguments, **keywords)
        except ConstraintSyntaxError as error:  # of the formula of ltlf(...)
            literal = self.start(node.args[0])
            if error.offset is not None and self._spelled(node.args[0])[1:-1] == arguments[0]:  # plain, no escapes
                literal += 1 + error.offset
            self.fail(error.reason, literal)
        except (ConstraintError, WorldError) as error:
            self.fail(error.reason, node)

    def _states(self, node: ast.Call, world: MDP) -> list[object]:
        """What at(...) lists in text for a world: its own names of states, and state(59) by number."""
        states: list[object] = []
        bare: list[int] = []
        for place in node.args:
            match place:
                case ast.Call(func=ast.Name(id="state"), args=[number], keywords=[]):
                    states.append(self.value(number))
                case ast.Tuple() | ast.List() | ast.Constant(value=str()):
                    states.append(self._guarded(place, _named_state, place, world))
                case _:
                    states.append(self.value(place))
                    bare += [state for state in states[-1:] if isinstance(state, int)]
        if bare and not world.numbers_are_states:
            meant = _meant(bare, world)
            places, said = ", ".join(map(world.state_name, meant)), " and ".join(map(world.describe_state, meant))
            numbers = ", ".join(f"state({number})" for number in bare)
            either = f"write at({places}) for {said}, or at({numbers}) for a state by its number"
            self.fail(f"a number alone does not say where: {either}", node)
        return states

    def _actions(self, node: ast.Call, world: MDP) -> list[object]:
        """What doing(...) lists in text for a world: names of actions, as they are or in quotes, and numbers."""

        def read(action: ast.expr) -> object:
            parts = ast.walk(action)
            if any(isinstance(part, ast.Name) or isinstance(getattr(part, "value", 0), str) for part in parts):
                return self._guarded(action, world.read_action, self._spelled(action).strip("'\""))
            return self.value(action)

        return [read(action) for action in node.args]

    def _chain(self, node: ast.BinOp) -> object:
        """Operators from left to right, in a loop: a long conjunction is a deep tree."""
        steps = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            steps.append(left)
            left = left.left
        value = self.value(left)
        for step in reversed(steps):
            value = self._binary(step, value, self.value(step.right))
        return value

    def _binary(self, node: ast.BinOp, left: object, right: object) -> object:
        kind = type(node.op)
        if isinstance(node.op, ast.Div):
            return self._fraction(node, left, right)
        if kind not in JOINS and kind not in ARITHMETIC:
            self.fail(f"the operator {kind.__name__} is not one of & | ~ >> + - *", self.end(node.left))
        symbol, function = JOINS[kind] if kind in JOINS else ARITHMETIC[kind]
        offset = self.between(node.left, node.right, symbol)
        if kind in JOINS:
            if not any(isinstance(side, Event | Constraint | Comparable) for side in (left, right)):
                self.fail(f"cannot apply {symbol} to {kind_of(left)} and {kind_of(right)}: {PRECEDENCE}", offset)
            return self._guarded(offset, function, left, right)
        if isinstance(left, int) and isinstance(right, int):
            return self._in_range(function(left, right), offset)
        for side, part in ((left, node.left), (right, node.right)):
            if isinstance(side, Event):
                self.fail(NO_NUMBER.format(event=self._spelled(part)), offset)
        if not any(isinstance(side, Comparable) for side in (left, right)):
            joins = "it joins whole numbers and count(event), length(), total([...])"
            self.fail(f"cannot apply {symbol} to {kind_of(left)} and {kind_of(right)}: {joins}", offset)
        return self._guarded(offset, function, left, right)

    def _fraction(self, node: ast.BinOp, left: object, right: object) -> object:
        offset = self.between(node.left, node.right, "/")
        if not (isinstance(left, int) and isinstance(right, int)):
            written = "/ writes fractions of whole numbers, as in share(e) >= 1/3"
            self.fail(f"{written}; multiply out instead: 2*count(e) >= length()", offset)
        if right == 0:
            self.fail("division by zero", offset)
        return Fraction(left, right)

    def _unary(self, node: ast.UnaryOp) -> object:
        value = self.value(node.operand)
        match node.op:
            case ast.Invert() if isinstance(value, Event | Constraint):
                return self._guarded(node, operator.invert, value)
            case ast.USub() if isinstance(value, int | float | Fraction | LinearForm):
                return -value
            case ast.UAdd() if isinstance(value, int | float | Fraction):
                return value
            case ast.Not():
                self.fail("write ~ for `not`, as in ~visit(at(3))", node)
        self.fail(f"cannot apply {self._spelled(node)[0]} to {kind_of(value)}", node)

    def _compare(self, node: ast.Compare) -> object:
        sides = [node.left, *node.comparators]
        if len(sides) > 2:
            offset = self.end(node.comparators[0])
            if any(isinstance(side, ast.BinOp) and type(side.op) in JOINS for side in sides):
                self.fail(PRECEDENCE, offset)
            self.fail("comparisons cannot be chained: write (a >= 1) & (a <= 3) instead of 1 <= a <= 3", offset)
        symbol = COMPARISONS.get(type(node.ops[0]))
        if symbol is None:
            self.fail("compare with <= < >= > == or !=", self.end(node.left))
        left, right = (self.value(side) for side in sides)
        offset = self.between(sides[0], sides[1], symbol)
        if isinstance(left, Comparable) or isinstance(right, Comparable):
            return self._guarded(offset, COMPARE[symbol], left, right)
        for side, written in zip((left, right), sides, strict=True):
            if isinstance(side, COSTS) and isinstance(written, ast.Name):
                name = written.id
                self.fail(f"{name} is a table of costs: compare their sum along the way, total({name})", offset)
            if isinstance(side, Event):
                self.fail(f"cannot compare {kind_of(side)}: count it, as in count({side}) >= 1", offset)
            if isinstance(side, Constraint):
                self.fail(f"cannot compare {kind_of(side)}. {PRECEDENCE}", offset)
        self.fail(f"{kind_of(left)} {symbol} {kind_of(right)} says nothing about a trajectory", offset)

    _by_kind: ClassVar[dict[type[ast.expr], Callable[[Any, Any], object]]] = {
        ast.Name: _name,
        ast.Constant: _constant,
        ast.Call: _call,
        ast.BinOp: _chain,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.List: _list,
    }


def _named_state(place: ast.expr, world: MDP) -> int:
    try:
        name = ast.literal_eval(place)
    except ValueError:
        raise ConstraintError(f"a place is written as it is called, as in at({world.state_name(0)})") from None
    return world.read_state(name)


def _meant(numbers: list[int], world: MDP) -> list[int]:
    """The states that a user may have meant by bare numbers: two are one cell where there is such a cell."""
    try:
        if len(numbers) == 2:
            return [world.read_state(tuple(numbers))]
    except WorldError:
        pass
    return [number for number in numbers if 0 <= number < world.n_states] or [0]
