"""Reading constraints and events from text: the inverse of `str(constraint)`.

The text is Python's spelling. It is read through Python's own syntax tree, of which only the nodes below are
understood, and built by calling the functions of this room: nothing is ever evaluated.
"""

import ast
import inspect
import operator
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from keyword import iskeyword
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints._source import TOO_DEEP, SourceText
from xmen.constraints.arithmetic import COMPARE, Comparable, LinearForm, total
from xmen.constraints.constraint import FUNCTIONS, Constraint
from xmen.constraints.ltlf import ltlf
from xmen.errors import ConstraintError, ConstraintSyntaxError, FileFormatError, Words, WorldError, speaking
from xmen.events import EVENT_IS_NO_CONSTRAINT, LARGEST, NO_NUMBER, PRECEDENCE, Event, anytime, at, doing
from xmen.worlds.mdp import MDP

# ---- What constraint text may consist of: functions (`words`), and how they are joined and compared


FUNCTIONS["at"] = (at, "at(place, ...)")
FUNCTIONS["doing"] = (doing, "doing(action, ...)")
WITHOUT_TEXT = ("when", "monitor")
ANYTIME = "anytime"

JOINS: dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]] = {
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.RShift: (">>", operator.rshift),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], object]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
}
COMPARISONS: dict[type[ast.cmpop], str] = dict(
    zip((ast.LtE, ast.Lt, ast.GtE, ast.Gt, ast.Eq, ast.NotEq), COMPARE, strict=True)
)


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
        name = as_identifier(given)
        if name is None:
            raise ConstraintError(f"{prefix}{given!r} cannot be written in the text; use a Python identifier.")
        if name in FUNCTIONS or name in WITHOUT_TEXT or name == ANYTIME:
            raise ConstraintError(f"{prefix}the name {name!r} is taken by xmen's own {name}; choose another.")
        if not isinstance(value, (Event, Constraint, *COSTS)):
            raise ConstraintError(
                f"{prefix}{name!r} must stand for an event or a constraint, or for costs in an array; got "
                f"{value!r:.60} ({type(value).__name__})."
            )
        if name in found:
            raise ConstraintError(f"{prefix}{given!r} and another are the same to Python: {name!r}; choose others.")
        found[name] = value
    return found


def as_identifier(name: object) -> str | None:
    """The name as Python reads it (letters in their NFKC form), or None where it cannot be an identifier."""
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
        return None
    return unicodedata.normalize("NFKC", name)


def kind_of(value: object) -> str:
    """What a value is, as messages call it."""
    if isinstance(value, Event):
        return f"the event `{value}`"
    if isinstance(value, Constraint):
        return f"the constraint `{value}`"
    if isinstance(value, Comparable):
        return f"`{value}`, a number that depends on the trajectory"
    if isinstance(value, COSTS):
        return "costs, which stand in total(...)"
    return f"{value!r}"


# ---- Reading constraints and events from text: the inverse of `str(constraint)`


Read = TypeVar("Read", Event, Constraint)

MAX_DEPTH = 260  # nodes inside one another; far below Python's own limit on nested calls


def parse_constraint(
    text: str,
    names: Mapping[str, Name] | None = None,
    tables: Callable[[str], ArrayLike] | None = None,
    world: MDP | None = None,
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
        a node at("bank") of a graph, and at(state(59)) by its number. None: states are numbers.

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
    read: "Callable[[_Reader, ast.expr], Read]",
    text: object,
    names: Mapping[str, Name] | None,
    tables: Callable[[str], ArrayLike] | None,
    world: MDP | None,
) -> "Read":
    """The constraint or the event that the text spells."""
    where = f"parse_{read.__name__}(text, names)"
    if not isinstance(text, str):
        raise ConstraintSyntaxError(f"{where} reads text; got {text!r} ({type(text).__name__}).")
    source = SourceText(text)
    reader = _Reader(source, check_names({} if names is None else names, where), tables, world)
    if read is _Reader.event and not source.text.strip():
        source.fail("the text is empty; write an event such as at(3)", 0)
    with speaking(Words(world)):
        try:
            return read(reader, source.parse())
        except RecursionError:
            source.fail(TOO_DEEP, 0)


class _Reader:
    """Builds the value of each node; one method per kind of node."""

    def __init__(
        self, source: SourceText, names: dict[str, Name], tables: Callable[[str], ArrayLike] | None, world: MDP | None
    ) -> None:
        self.source, self.names, self.tables, self.world = source, names, tables, world
        self.depth = 0

    def constraint(self, tree: ast.expr) -> Constraint:
        value = self.value(tree)
        if isinstance(value, Constraint):
            return value
        offset = self.source.start(tree)
        if isinstance(value, Event):
            self.source.fail(f"this is {kind_of(value)}, not a constraint: {EVENT_IS_NO_CONSTRAINT}", offset)
        if isinstance(value, Comparable):
            self.source.fail(f"this is {kind_of(value)}: compare it, as in `{value} >= 1`", offset)
        self.source.fail(f"this is {kind_of(value)}, not a constraint such as visit(at(3))", offset)

    def event(self, tree: ast.expr) -> Event:
        value = self.value(tree)
        if isinstance(value, Event):
            return value
        self.source.fail(f"this is {kind_of(value)}, not an event such as at(3)", self.source.start(tree))

    def value(self, node: ast.expr) -> object:
        """What the node stands for: an event, a constraint, a form, a number, a text or a list."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.source.fail(TOO_DEEP, self.source.start(node))
        value = self._dispatch(node)
        self.depth -= 1
        return value

    def _dispatch(self, node: ast.expr) -> object:
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Constant():
                return self._constant(node)
            case ast.Call(func=ast.Attribute() as attribute):
                return self._named(node, attribute)
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                return self._chain(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.List():
                return [self._weight(item) for item in node.elts]
        self._refuse(node)

    def _refuse(self, node: ast.expr) -> NoReturn:
        match node:
            case ast.BoolOp():
                message = "write & for `and` and | for `or`, with each comparison in brackets"
            case ast.Attribute(attr="csv"):
                message = f'write the name of a file in quotes: total("{self._spelled(node)}")'
            case ast.Attribute():
                message = f'only .named("...") can follow a constraint, not .{node.attr}'
            case ast.Tuple(elts=[before_comma, *_]):
                self.source.fail(
                    "one value is expected here, not several; join constraints with & or |",
                    self.source.end(before_comma),
                )
            case ast.Starred():
                message = "write the arguments one by one, without *"
            case _:
                message = f"{type(node).__name__} is Python, but not part of the constraint language"
        self.source.fail(message, self.source.start(node))

    def _spelled(self, node: ast.expr) -> str:
        """The node as the user wrote it."""
        return self.source.text[self.source.start(node) : self.source.end(node)]

    def _guarded(self, offset: int, function: Callable[..., object], *args: Any, **keywords: Any) -> Any:
        """Call the function; its own complaints get the text and a caret."""
        try:
            return function(*args, **keywords)
        except (ConstraintError, WorldError) as error:
            self.source.fail(error.reason, offset)

    def _constant(self, node: ast.Constant) -> object:
        value = node.value
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float | str)):
            self.source.fail(f"{value!r} is not part of the constraint language", self.source.start(node))
        return self._in_range(value, self.source.start(node))

    def _in_range(self, value: object, offset: int) -> object:
        if isinstance(value, int) and abs(value) > LARGEST:
            self.source.fail(f"this number is too large: at most {LARGEST}", offset)
        return value

    def _weight(self, node: ast.expr) -> object:
        value = self.value(node)
        if not isinstance(value, int | float | list):
            self.source.fail(f"a list holds weights, not {kind_of(value)}", self.source.start(node))
        return value

    def _event_weights(self, node: ast.Dict) -> dict[Event, object]:
        weights: dict[Event, object] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                self.source.fail("write the events one by one, without **", self.source.start(item))
            event = self.event(key)
            if event in weights:
                self.source.fail(f"{kind_of(event)} is given twice", self.source.start(key))
            weights[event] = self.value(item)
        return weights

    def _table(self, node: ast.expr, name: str) -> ArrayLike:
        """The costs in a file that the text names."""
        if self.tables is None:
            self.source.fail(
                "a file of costs can be named in a problem file, and is found beside it; in Python write "
                f"names={{'costs': ...}} and total(costs), or total({name!r}, world)",
                self.source.start(node),
            )
        try:
            return self.tables(name)
        except OSError as error:
            self.source.fail(f"{name!r} cannot be read: {error.strerror}", self.source.start(node))
        except FileFormatError as error:
            self.source.fail(error.reason, self.source.start(node))

    def _name(self, node: ast.Name) -> object:
        name, offset = node.id, self.source.start(node)
        if name in self.names:
            return self.names[name]
        if name == ANYTIME:
            return anytime
        if name in FUNCTIONS:
            self.source.fail(f"`{name}` is a function: write {FUNCTIONS[name][1]}", offset)
        if name in WITHOUT_TEXT:
            self._without_text(name, offset)
        self._unknown(name, offset)

    def _without_text(self, name: str, offset: int) -> NoReturn:
        self.source.fail(
            f"{name}(...) has no text form, because it holds a function: build it in Python and pass it "
            f"under a name, as in parse_constraint(text, names={{'my_{name}': ...}})",
            offset,
        )

    def _unknown(self, name: str, offset: int) -> NoReturn:
        known = [*self.names, ANYTIME, *FUNCTIONS]
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        yours = ", ".join(sorted(self.names)) or "none given"
        built_in = ", ".join(sorted([ANYTIME, *FUNCTIONS]))
        self.source.fail(f"unknown name `{name}`{hint} (in names: {yours}; built in: {built_in})", offset)

    def _named(self, node: ast.Call, attribute: ast.Attribute) -> object:
        if attribute.attr != "named":
            self._refuse(attribute)
        offset = self.source.start(node)
        value = self.value(attribute.value)
        if not isinstance(value, Constraint):
            self.source.fail(f'.named("...") belongs to constraints; this is {kind_of(value)}', offset)
        match node:
            case ast.Call(args=[ast.Constant(value=str(name))], keywords=[]):
                return self._guarded(offset, value.named, name)
        self.source.fail('write the name as one text in quotes: .named("...")', self.source.end(attribute))

    def _call(self, node: ast.Call) -> object:
        offset = self.source.start(node)
        if not isinstance(node.func, ast.Name):
            self.source.fail("only the functions of the constraint language can be called", offset)
        name = node.func.id
        if name in self.names or name == ANYTIME:
            self.source.fail(f"`{name}` is not a function: write it without brackets", offset)
        if name in WITHOUT_TEXT:
            self._without_text(name, offset)
        if name not in FUNCTIONS:
            self._unknown(name, offset)
        function, usage = FUNCTIONS[name]
        if self.world is not None and function in (at, doing) and not node.keywords:
            read = self._states if function is at else self._actions
            return self._guarded(offset, function, *read(node, self.world))
        costs = function is total
        arguments = [
            self._event_weights(one) if costs and isinstance(one, ast.Dict) else self.value(one) for one in node.args
        ]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                self.source.fail("write the arguments one by one, without **", self.source.start(keyword))
            if keyword.arg in keywords:
                self.source.fail(f"{keyword.arg}= is given twice", self.source.start(keyword))
            keywords[keyword.arg] = self.value(keyword.value)
        try:
            inspect.signature(function).bind(*arguments, **keywords)
        except TypeError as error:
            self.source.fail(f"{name}(...): {error}; write {usage}", offset)
        if function is ltlf:
            return self._ltlf(node, arguments, keywords)
        if costs and isinstance(arguments[0], str):
            arguments[0] = self._table(node.args[0], arguments[0])
        return self._guarded(offset, function, *arguments, **keywords)

    def _states(self, node: ast.Call, world: MDP) -> list[object]:
        """What at(...) lists in text for a world: its own names of states, and state(59) by number."""
        states: list[object] = []
        bare: list[int] = []
        for place in node.args:
            match place:
                case ast.Call(func=ast.Name(id="state"), args=[number], keywords=[]):
                    states.append(self.value(number))
                case ast.Tuple() | ast.List() | ast.Constant(value=str()):
                    states.append(self._guarded(self.source.start(place), _named_state, place, world))
                case _:
                    states.append(self.value(place))
                    bare += [state for state in states[-1:] if isinstance(state, int)]
        if bare and not world.numbers_are_states:
            meant = _meant(bare, world)
            self.source.fail(
                f"a number alone does not say where: write at({', '.join(map(world.state_name, meant))}) for "
                f"{' and '.join(map(world.describe_state, meant))}, or "
                f"at({', '.join(f'state({number})' for number in bare)}) for a state by its number",
                self.source.start(node),
            )
        return states

    def _actions(self, node: ast.Call, world: MDP) -> list[object]:
        """What doing(...) lists in text for a world: names of actions, as they are or in quotes, and numbers."""
        return [
            self._guarded(self.source.start(action), world.read_action, self._spelled(action).strip("'\""))
            if any(
                isinstance(part, ast.Name) or isinstance(getattr(part, "value", 0), str) for part in ast.walk(action)
            )
            else self.value(action)
            for action in node.args
        ]

    def _ltlf(self, node: ast.Call, arguments: list[Any], events: dict[str, Any]) -> object:
        try:
            return ltlf(*arguments, **events)
        except ConstraintSyntaxError as error:
            literal = self.source.start(node.args[0])
            quoted = self.source.text[literal : self.source.end(node.args[0])]
            if error.offset is not None and quoted[1:-1] == arguments[0]:  # plain quotes, no escapes
                literal += 1 + error.offset
            self.source.fail(error.reason, literal)
        except ConstraintError as error:
            self.source.fail(error.reason, self.source.start(node))

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
            self.source.fail(f"the operator {kind.__name__} is not one of & | ~ >> + - *", self.source.end(node.left))
        symbol, function = JOINS[kind] if kind in JOINS else ARITHMETIC[kind]
        offset = self.source.between(node.left, node.right, symbol)
        if kind in JOINS:
            if not any(isinstance(side, Event | Constraint | Comparable) for side in (left, right)):
                self.source.fail(f"cannot apply {symbol} to {kind_of(left)} and {kind_of(right)}: {PRECEDENCE}", offset)
            return self._guarded(offset, function, left, right)
        if isinstance(left, int) and isinstance(right, int):
            return self._in_range(function(left, right), offset)
        for side, part in ((left, node.left), (right, node.right)):
            if isinstance(side, Event):
                self.source.fail(NO_NUMBER.format(event=self._spelled(part)), offset)
        if not any(isinstance(side, Comparable) for side in (left, right)):
            self.source.fail(
                f"cannot apply {symbol} to {kind_of(left)} and {kind_of(right)}: it joins whole numbers and "
                "count(event), length(), total([...])",
                offset,
            )
        return self._guarded(offset, function, left, right)

    def _fraction(self, node: ast.BinOp, left: object, right: object) -> object:
        offset = self.source.between(node.left, node.right, "/")
        if not (isinstance(left, int) and isinstance(right, int)):
            self.source.fail(
                "/ writes fractions of whole numbers, as in share(e) >= 1/3; multiply out instead: "
                "2*count(e) >= length()",
                offset,
            )
        if right == 0:
            self.source.fail("division by zero", offset)
        return Fraction(left, right)

    def _unary(self, node: ast.UnaryOp) -> object:
        offset = self.source.start(node)
        value = self.value(node.operand)
        match node.op:
            case ast.Invert() if isinstance(value, Event | Constraint):
                return ~value
            case ast.USub() if isinstance(value, int | float | Fraction | LinearForm):
                return -value
            case ast.UAdd() if isinstance(value, int | float | Fraction):
                return value
            case ast.Not():
                self.source.fail("write ~ for `not`, as in ~visit(at(3))", offset)
        symbol = self.source.text[offset]
        self.source.fail(f"cannot apply {symbol} to {kind_of(value)}", offset)

    def _compare(self, node: ast.Compare) -> object:
        sides = [node.left, *node.comparators]
        if len(sides) > 2:
            offset = self.source.end(node.comparators[0])
            if any(isinstance(side, ast.BinOp) and type(side.op) in JOINS for side in sides):
                self.source.fail(PRECEDENCE, offset)
            self.source.fail("comparisons cannot be chained: write (a >= 1) & (a <= 3) instead of 1 <= a <= 3", offset)
        symbol = COMPARISONS.get(type(node.ops[0]))
        if symbol is None:
            self.source.fail("compare with <= < >= > == or !=", self.source.end(node.left))
        left, right = (self.value(side) for side in sides)
        offset = self.source.between(sides[0], sides[1], symbol)
        if isinstance(left, Comparable) or isinstance(right, Comparable):
            return self._guarded(offset, COMPARE[symbol], left, right)
        for side, written in zip((left, right), sides, strict=True):
            if isinstance(side, COSTS) and isinstance(written, ast.Name):
                name = written.id
                self.source.fail(f"{name} is a table of costs: compare their sum along the way, total({name})", offset)
            if isinstance(side, Event):
                self.source.fail(f"cannot compare {kind_of(side)}: count it, as in count({side}) >= 1", offset)
            if isinstance(side, Constraint):
                self.source.fail(f"cannot compare {kind_of(side)}. {PRECEDENCE}", offset)
        self.source.fail(f"{kind_of(left)} {symbol} {kind_of(right)} says nothing about a trajectory", offset)


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
