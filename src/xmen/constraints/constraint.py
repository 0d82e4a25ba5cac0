"""Constraints: a tree over small machines that watch a trajectory.

A leaf is one deterministic, complete machine: it reads one symbol at each position t = 0 .. L and says at
the end whether it accepts. Every inner node asks one question: do between `least` and `most` of its children
hold? (`&` is all of them, `|` is one or more, `~` is none of one.) The machines are the only definition of
what a constraint means; engines multiply them with a world, list them, or run them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from xmen.errors import ConstraintError, Message, MisuseError, TrajectoryError, with_type, words_here
from xmen.events import EVENT_IS_NO_CONSTRAINT, LARGEST, NO_ACTION, PRECEDENCE, Bools, Event, Ints, Operand
from xmen.options import is_number, require_whole
from xmen.worlds import MDP, Trajectory

LONGEST_LABEL = 200  # characters of a rule that a message can hold
MOST_LEVELS, MOST_BRACKETS = 204, 150  # inside one another: Python reads 200 brackets, and 1,000 calls


class Sure(Enum):
    """States in which a machine has made up its mind: no continuation can change the answer."""

    FAILS = 0
    HOLDS = 2


OPEN = 1  # the verdict of a machine that may still go either way, between Sure.FAILS and Sure.HOLDS


def combine(n_holding: Any, n_open: Any, least: Any, most: Any) -> Any:
    """The verdict (0 fails, 1 open, 2 holds) of "between least and most of the children hold".

    Written without branches so that the same definition serves numbers, arrays and compiled loops.
    """
    n_possible = n_holding + n_open
    holds = (n_holding >= least) & (n_possible <= most)
    fails = (n_possible < least) | (n_holding > most)
    return 1 + holds - fails


class Violation(NamedTuple):
    """Why a trajectory is not valid: the part that fails, and where its failure became certain.

    Attributes
    ----------
    name
        The name of the part, or its text.
    position
        The first position from which on no continuation could have saved it.
    constraint
        The part itself.
    note
        Why it can never hold, where that is so.
    """

    name: str
    position: int
    constraint: Constraint
    note: str = ""

    def __str__(self) -> str:
        text = f"{self.name!r} fails, and is sure to fail from position {self.position} on"
        return f"{text} ({self.note})" if self.note else text


Function = TypeVar("Function", bound=Callable[..., Any])

FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {}
"""The functions that constraint text may use, by name, each with how it is written."""


def word(usage: str) -> Callable[[Function], Function]:
    """Let constraint text call a function, as `usage` shows; its name is what stands before the bracket."""

    def remember(function: Function) -> Function:
        FUNCTIONS[usage.partition("(")[0]] = (function, usage)
        return function

    return remember


@dataclass(frozen=True, repr=False)
class Constraint(Operand, ABC):
    """A rule that a whole trajectory keeps or breaks.

    Made by functions such as `visit`, `count` and `ltlf`. Combine constraints with & (and), | (or), ~ (not), or let one
    follow from another: `a >> b` is short for `~a | b`. `bool(constraint)` raises, because a rule has no truth value
    without a trajectory.

    Examples
    --------
    >>> from xmen import Trajectory, at, never, visit
    >>> rule = (visit(at(1)) >> never(at(2))).named("no lava after water")
    >>> rule.accepts(Trajectory([0, 2], [0])), rule.accepts(Trajectory([0, 1, 2], [0, 0]))
    (True, False)
    """

    name: str | None = field(default=None, kw_only=True)
    brackets = 0  # operators inside one another that take brackets
    _is_operator = False  # whether the bare text needs brackets inside another expression

    @property
    def children(self) -> tuple[Constraint, ...]:
        """The parts below this node; empty for a leaf."""
        return ()

    @abstractmethod
    def _text(self) -> str:
        """The Python spelling without the name."""

    def named(self, name: str) -> Self:
        """This constraint under a name of your own, which messages will use.

        Parameters
        ----------
        name
            Any text that is not empty.

        Returns
        -------
        Constraint
            A copy with the name.

        Raises
        ------
        ConstraintError
            When the name is empty or not a text.
        """
        if not isinstance(name, str) or not name:
            raise ConstraintError(f"a constraint's name is a non-empty string; got {name!r}.")
        return replace(self, name=name)

    @property
    def label(self) -> str:
        """The name, or the text of a constraint without one, shortened to what a message can hold."""
        return Message("{0._shown}", self)

    @property
    def _shown(self) -> str:
        text = self.name or self._text()
        return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 4]} ..."

    def accepts(self, trajectory: Trajectory) -> bool:
        """Whether the trajectory keeps this constraint.

        Parameters
        ----------
        trajectory
            Any trajectory. A constraint knows no world: states that a world does not have are for `distribution` to
            refuse.

        Returns
        -------
        bool
            True when the trajectory keeps the constraint.
        """
        return self.explain(trajectory) is None

    def explain(self, trajectory: Trajectory) -> Violation | None:
        """Why a trajectory breaks this constraint.

        Parameters
        ----------
        trajectory
            Any trajectory.

        Returns
        -------
        Violation | None
            None when the trajectory is valid. Otherwise the named part that fails, and the first position from which on
            no continuation could have saved it.

        Raises
        ------
        TrajectoryError
            When something else than a trajectory is given.

        Examples
        --------
        >>> from xmen import Trajectory, at, never
        >>> print(never(at(2)).named("no lava").explain(Trajectory([0, 2, 1], [0, 0])))
        'no lava' fails, and is sure to fail from position 1 on
        """
        if not (hasattr(trajectory, "states") and hasattr(trajectory, "actions")):
            raise TrajectoryError(f"a constraint judges a Trajectory(states, actions); got {with_type(trajectory)}.")
        history = self.history(trajectory)
        return None if history.verdicts[-1] == Sure.HOLDS.value else history.blame()

    @abstractmethod
    def history(self, trajectory: Trajectory) -> History:
        """The verdicts of this node and of all below it, position by position."""

    def leaves(self) -> Iterator[Leaf]:
        """The machines of the tree, from left to right."""
        for child in self.children:
            yield from child.leaves()

    def check_world(self, world: MDP) -> None:
        """Raise ConstraintError when a part mentions something that the world does not have."""
        for leaf in self.leaves():
            leaf.check_world(world)

    def impossible(self) -> str:
        """Why no trajectory of any world can keep this constraint, where that is plain to see; else ''."""
        return ""

    def relaxations(self, world: MDP) -> Iterable[Iterable[Constraint]]:
        """Ladders of weaker constraints that this one implies over a world, their machines smaller: each weakest first.

        An engine that cannot afford this constraint multiplies in the last one that it can of a ladder, the first that
        has one, and rejects with the rest.
        """
        return ()

    def __and__(self, other: object) -> Constraint:
        return And(And.side_by_side(self, self._checked(other, "&")))

    def __or__(self, other: object) -> Constraint:
        return Or(Or.side_by_side(self, self._checked(other, "|")))

    def __invert__(self) -> Constraint:
        return Not((self,))

    def __rshift__(self, other: object) -> Constraint:
        return ~self | self._checked(other, ">>")

    def __rrshift__(self, other: object) -> Any:
        return self._checked(other, ">>")

    def _checked(self, other: object, operator: str) -> Constraint:
        if isinstance(other, Constraint):
            return other
        reason = EVENT_IS_NO_CONSTRAINT if isinstance(other, Event) else PRECEDENCE
        raise MisuseError(f"cannot apply {operator} to a constraint and {other} ({type(other).__name__}): {reason}.")

    def __bool__(self) -> NoReturn:
        combine = "Combine constraints with & | ~ instead of `and`, `or`, `not`"
        chained = "write a chained comparison such as `1 <= count(e) <= 3` as `(count(e) >= 1) & (count(e) <= 3)`"
        ask = "ask `constraint.accepts(trajectory)` about one trajectory"
        raise MisuseError(f"the constraint `{self}` has no truth value of its own. {combine}; {chained}; {ask}.")

    def __lt__(self, other: object) -> NoReturn:
        raise MisuseError(f"`{self}` is a constraint, not a number: it cannot be compared. {PRECEDENCE}.")

    __le__ = __gt__ = __ge__ = __lt__

    def __str__(self) -> str:
        # From the leaves upwards, each part once: in a deep tree every level would take several nested calls.
        waiting: list[Constraint] = [self]
        order: list[Constraint] = []
        words = words_here()
        while waiting:
            node = waiting.pop()
            if vars(node).get("_spelled", ("", None))[1] is not words:
                order.append(node)
                waiting += node.children
        for node in reversed(order):
            text = f"({node._text()})" if node._is_operator and node.name is not None else node._text()
            text = text if node.name is None else f"{text}.named({node.name!r})"
            object.__setattr__(node, "_spelled", (text, words))
        spelled: str = vars(self)["_spelled"][0]
        return spelled

    def __getstate__(self) -> dict[str, Any]:
        # Without texts in somebody's words, and machines: they hold functions that pickle cannot send.
        return {key: value for key, value in vars(self).items() if key not in ("_spelled", "machine")}

    def bracketed(self) -> str:
        """The text, in brackets where an operator around it would tear it apart."""
        return f"({self})" if self._is_operator and self.name is None else str(self)


def require_constraint(value: object, where: str) -> Constraint:
    """The value, if it is a constraint; otherwise an error that says where one was expected."""
    if isinstance(value, Constraint):
        return value
    hint = f": {EVENT_IS_NO_CONSTRAINT}" if isinstance(value, Event) else ""
    raise ConstraintError(f"{where} takes constraints; got {value} ({type(value).__name__}){hint}.")


class History(NamedTuple):
    """A node with its verdict after each position (L + 1 of them, the last one final), and its children's."""

    node: Constraint
    verdicts: NDArray[np.int64]
    parts: tuple[History, ...]

    @property
    def lost_at(self) -> int:
        return int(np.argmax(self.verdicts == Sure.FAILS.value))

    def blame(self) -> Violation:
        """The most specific part that fails: through conjunctions to the first one lost, then by name."""
        if isinstance(self.node, And):
            failing = [part for part in self.parts if part.verdicts[-1] == Sure.FAILS.value]
            inner = min(failing, key=lambda part: part.lost_at).blame()
            if inner.constraint.name is not None or self.node.name is None:
                return inner
            return inner._replace(name=self.node.label, constraint=self.node)
        return Violation(self.node.label, self.lost_at, self.node, self.node.impossible())


@dataclass(frozen=True, repr=False)
class HowMany(Constraint):
    """A number of children within `bounds` hold: the one inner node."""

    parts: tuple[Constraint, ...]
    _is_operator, _operator = True, "&"

    def __post_init__(self) -> None:
        if not isinstance(self, And) and any(usual_rules(part) for part in self.parts):
            raise ConstraintError(NO_PLACE_FOR_USUALLY)
        self._set_levels(self.parts, MOST_LEVELS, "constraint")
        self._set_levels(self.parts, MOST_BRACKETS, "constraint", "brackets")

    @property
    def children(self) -> tuple[Constraint, ...]:
        return self.parts

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest number of children that must hold, and the largest that may."""
        return len(self.parts), len(self.parts)

    def history(self, trajectory: Trajectory) -> History:
        parts = tuple(child.history(trajectory) for child in self.children)
        verdicts = np.stack([part.verdicts for part in parts])
        n_holding = np.count_nonzero(verdicts == Sure.HOLDS.value, axis=0)
        n_open = np.count_nonzero(verdicts == OPEN, axis=0)
        return History(self, combine(n_holding, n_open, *self.bounds), parts)

    def _text(self) -> str:
        return self.in_a_row([part.bracketed() for part in self.parts], self._operator)


@dataclass(frozen=True, repr=False)
class And(HowMany):
    """All parts hold."""


@dataclass(frozen=True, repr=False)
class Or(HowMany):
    """At least one part holds."""

    _operator = "|"

    @property
    def bounds(self) -> tuple[int, int]:
        return 1, len(self.parts)


@dataclass(frozen=True, repr=False)
class Not(HowMany):
    """The one part does not hold."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "brackets", self.parts[0].brackets)

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, 0

    def _text(self) -> str:
        return f"~{self.parts[0].bracketed()}"

    def bracketed(self) -> str:
        return str(self)  # ~ binds tighter than everything around it, except .named


@dataclass(frozen=True, repr=False)
class Cardinality(HowMany):
    """Exactly, at least or at most k of the parts hold, as `word` says."""

    word: str
    k: int
    _is_operator = False

    @property
    def bounds(self) -> tuple[int, int]:
        return 0 if self.word == "at_most" else self.k, len(self.parts) if self.word == "at_least" else self.k

    def _text(self) -> str:
        return f"{self.word}({', '.join([str(self.k), *map(str, self.parts)])})"

    def impossible(self) -> str:
        n, least = len(self.parts), self.bounds[0]
        return f"it asks for {least} of only {n} constraints" if least > n else ""


def _cardinality(word: str, k: int, constraints: tuple[Constraint, ...]) -> Constraint:
    where = f"{word}(k, *constraints)"
    number = require_whole(f"{where}: k", k, least=0, most=LARGEST, refusal=ConstraintError)
    if not constraints:
        raise ConstraintError(f"{where} needs at least one constraint after k = {number}.")
    return Cardinality(tuple(require_constraint(c, where) for c in constraints), word, number)


@word("exactly(k, constraint, ...)")
def exactly(k: int, *constraints: Constraint) -> Constraint:
    """Exactly k of these constraints hold.

    Parameters
    ----------
    k
        How many.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k of them are kept and the others are broken.

    Raises
    ------
    ConstraintError
        When k is not a whole number from 0, or no constraint is given.

    Examples
    --------
    >>> from xmen import at, exactly, visit
    >>> exactly(1, visit(at(1)), visit(at(2)))
    exactly(1, visit(at(1)), visit(at(2)))
    """
    return _cardinality("exactly", k, constraints)


@word("at_least(k, constraint, ...)")
def at_least(k: int, *constraints: Constraint) -> Constraint:
    """k or more of these constraints hold.

    Parameters
    ----------
    k
        How many at least.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k or more of them are kept.
    """
    return _cardinality("at_least", k, constraints)


@word("at_most(k, constraint, ...)")
def at_most(k: int, *constraints: Constraint) -> Constraint:
    """k or fewer of these constraints hold.

    Parameters
    ----------
    k
        How many at most.
    *constraints
        The constraints that are counted.

    Returns
    -------
    Constraint
        Kept when k or fewer of them are kept.
    """
    return _cardinality("at_most", k, constraints)


NO_PLACE_FOR_USUALLY = (
    "usually(rule) stands at the top of a conjunction, beside hard rules: hard & usually(rule). It cannot be negated "
    "or be a part of |, >>, exactly, at_least, at_most or another usually, because every trajectory keeps it."
)


@dataclass(frozen=True, repr=False)
class Usually(Constraint):
    """A rule that may be broken: trajectories that keep it weigh exp(weight) times as much. See `usually`."""

    rule: Constraint
    weight: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        self._set_levels((self.rule,), MOST_LEVELS, "constraint")
        self._set_levels((self.rule,), MOST_BRACKETS, "constraint", "brackets")

    @property
    def children(self) -> tuple[Constraint, ...]:
        return (self.rule,)

    @property
    def _shown(self) -> str:
        return super()._shown if self.name else self.rule._shown

    def history(self, trajectory: Trajectory) -> History:
        verdicts = np.full(len(trajectory.states), OPEN)
        verdicts[-1] = Sure.HOLDS.value
        return History(self, verdicts, ())

    def _text(self) -> str:
        given = [f"{name}={value!r}" for name in ("weight", "share") if (value := getattr(self, name)) is not None]
        return f"usually({', '.join([str(self.rule), *given])})"


@word("usually(constraint, weight=nats, share=p)")
def usually(rule: Constraint, weight: float | None = None, share: float | None = None) -> Usually:
    """A rule that is usually kept: a trajectory that keeps it weighs exp(weight) times as much as one that does not.

    It stands at the top of a conjunction, beside hard rules. All trajectories keep it: `accepts` is True and `explain`
    None always, and `.rule.explain(trajectory)` says whether the rule was kept. In a learner neither number is given:
    the weight is learned, and the model keeps the rule as often as the demonstrations do.

    Parameters
    ----------
    rule
        Any constraint without a `usually` in it. Its name is the name of this, unless it gets one of its own.
    weight
        In nats, what breaking the rule costs. Above 0 it is kept more often than chance would, below 0 less often.
    share
        In place of a weight: the probability with which the rule is kept, above 0 and below 1. The weight follows from
        it, anew for every reward. In a learner it takes the place of the demonstrations' share.

    Returns
    -------
    Usually
        With `.rule`, `.weight` and `.share`.

    Raises
    ------
    ConstraintError
        When both numbers are given, one is out of its range, or the rule is not a hard one.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> centre = xm.visit(grid.at((1, 1)))
    >>> d = xm.distribution(grid, xm.usually(centre, share=0.9))  # by chance 4 of 6 ways pass it
    >>> round(d.probability(centre), 9)
    0.9
    >>> round(xm.distribution(grid, xm.usually(centre, weight=1.0)).probability(centre), 6)  # 4 e / (4 e + 2)
    0.844638
    """
    where = "usually(rule)"
    if usual_rules(require_constraint(rule, where)):
        raise ConstraintError(NO_PLACE_FOR_USUALLY)
    if weight is not None and share is not None:
        raise ConstraintError(f"{where}: a weight and a share are two ways to say the same; give one of them.")
    if weight is not None and not (is_number(weight) and np.isfinite(weight)):
        raise ConstraintError(f"{where}: weight is a finite number of nats; got {weight!r:.60}. Or use the rule.")
    if share is not None and not (is_number(share) and 0 < share < 1):
        hint = "make the rule hard for 1, its negation for 0"
        raise ConstraintError(f"{where}: share is a probability above 0 and below 1; got {share!r:.60} ({hint}).")
    return Usually(rule, None if weight is None else float(weight), None if share is None else float(share))


def usual_rules(constraint: Constraint | None) -> list[Usually]:
    """The rules of a conjunction that are usually kept, from left to right."""
    if isinstance(constraint, Usually):
        return [constraint]
    return [one for part in constraint.children for one in usual_rules(part)] if isinstance(constraint, And) else []


def usual_among(part: Constraint | None, whole: Constraint | None) -> list[int]:
    """The numbers that the rules of a part of a conjunction that are usually kept have in the whole."""
    numbers = {id(rule): k for k, rule in enumerate(usual_rules(whole))}
    return [numbers[id(rule)] for rule in usual_rules(part)]


def with_rule_weights(constraint: Constraint | None, weights: Iterable[float | None]) -> Constraint | None:
    """This conjunction with these weights of its rules that are usually kept, from left to right; None: its own."""
    left = iter(weights)

    def put(node: Constraint) -> Constraint:
        if isinstance(node, Usually):
            return node if (weight := next(left)) is None else replace(node, weight=float(weight), share=None)
        return replace(node, parts=tuple(map(put, node.parts))) if isinstance(node, And) else node

    return constraint if constraint is None or not usual_rules(constraint) else put(constraint)


def require_hard(constraint: Constraint | None, who: str) -> None:
    """Refuse rules that are usually kept where only hard ones are served."""
    for rule in usual_rules(constraint):
        what = "{} takes hard rules only, and {!r} is usually kept: make it hard, or leave it out."
        raise ConstraintError(Message(what, who, rule.label))


def hard_part(constraint: Constraint | None) -> Constraint | None:
    """What has to hold of a conjunction: all but the rules that are usually kept."""
    return conjunction(part for _, part in units(constraint) if not isinstance(part, Usually))


def conjunction(constraints: Iterable[Constraint | None]) -> Constraint | None:
    """All of these that are not None; None when there are none."""
    parts = tuple(part for part in constraints if part is not None)
    return And(parts) if len(parts) > 1 else parts[0] if parts else None


def units(constraint: Constraint | None, above: str | None = None) -> list[tuple[str, Constraint]]:
    """The parts of a conjunction that a user would name, each with its label; none of no constraint.

    Conjunctions are opened, except one that carries a name while nothing inside it does, and all of it is hard.
    """

    def names_inside(node: Constraint) -> bool:
        return any(child.name is not None or names_inside(child) for child in node.children)

    if constraint is None:
        return []
    if isinstance(constraint, And) and (constraint.name is None or names_inside(constraint) or usual_rules(constraint)):
        return [unit for child in constraint.children for unit in units(child, constraint.name or above)]
    label = constraint.label
    return [(label if constraint.name or above is None else Message("{}: {}", above, label), constraint)]


class Leaf(Constraint):
    """One deterministic machine: a start state, a step per position, an accepting test.

    States are any hashable values. A step returns `Sure.FAILS` or `Sure.HOLDS` as soon as no continuation can
    change the answer; these two absorb everything and are never stepped again.
    """

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
        """The next state from any state: sure ones stay as they are."""
        return state if isinstance(state, Sure) else self.step(state, symbol)

    def final(self, state: Hashable) -> bool:
        """Whether a trajectory may end in a state, sure ones included."""
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
