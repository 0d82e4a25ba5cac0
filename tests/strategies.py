"""Random small worlds, formulas and trajectories, for numpy generators and for hypothesis alike.

One set of rules asks a `Choices` for numbers; numpy answers fast, hypothesis answers so that it can shrink.
A formula comes as (description, constraint): the description is what `reference` understands.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

import xmen as xc
from reference import OPERATORS
from xmen.worlds import MDP, Trajectory

T = TypeVar("T")
VERIFY = bool(os.environ.get("XMEN_VERIFY"))

NAMES = ("home", 'it\'s "so"', "two\nlines", "größer", "back\\slash", "a).named('b')")
EVENT_NAMES = ("a", "b", "c")


def cases(n: int) -> int:
    """How many random cases to run: n, or ten times as many in a long run."""
    return 10 * n if VERIFY else n


class Choices(ABC):
    """A source of decisions."""

    @abstractmethod
    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent

    def some(self, n: int) -> tuple[int, ...]:
        """One or two different numbers below n, sometimes more."""
        chosen = {self.integer(0, n - 1) for _ in range(self.integer(1, 3))}
        return tuple(sorted(chosen))


class NumpyChoices(Choices):
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


class DrawnChoices(Choices):
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))


# ---------------------------------------------------------------------------------------------- worlds


def choose_world(c: Choices) -> MDP:
    n_states, n_actions = c.integer(2, 5), c.integer(1, 3)
    stochastic, horizon = c.chance(50), c.integer(1, 5)
    terminal = [s for s in range(n_states) if c.chance(25)] if c.chance(60) else []
    rows: list[tuple[int, int, int, float]] = []
    for state in range(n_states):
        for action in range(n_actions):
            if rows and c.chance(20):
                continue  # this action is not available here
            targets = c.some(n_states) if stochastic else (c.integer(0, n_states - 1),)
            weights = [c.integer(1, 4) for _ in targets]
            shares = zip(targets, weights, strict=True)
            rows += [(state, action, target, weight / sum(weights)) for target, weight in shares]
    start: Any = c.integer(0, n_states - 1)
    if c.chance(50):
        weights = [c.integer(0, 3) for _ in range(n_states)]
        weights[start] += 1
        start = [weight / sum(weights) for weight in weights]
    return MDP(n_states, n_actions, rows, start, terminal=terminal, horizon=horizon)


def choose_trajectory(c: Choices, n_states: int, n_actions: int, longest: int = 7) -> Trajectory:
    length = c.integer(0, longest)
    states = [c.integer(0, n_states - 1) for _ in range(length + 1)]
    return Trajectory(states, [c.integer(0, n_actions - 1) for _ in range(length)])


# ---------------------------------------------------------------------------------------------- formulas


class FormulaRules:
    """Draws descriptions; `spellable` leaves out what has no text form."""

    def __init__(self, c: Choices, n_states: int, n_actions: int, spellable: bool = False) -> None:
        self.c, self.n_states, self.n_actions, self.spellable = c, n_states, n_actions, spellable

    def event(self, depth: int = 2) -> tuple:
        c = self.c
        kinds = ["at", "at", "doing", "anytime"] + ([] if self.spellable else ["pairs"])
        kind = c.one_of(kinds + (["both", "either", "otherwise"] if depth else []))
        match kind:
            case "at":
                return ("at", c.some(self.n_states))
            case "doing":
                return ("doing", c.some(self.n_actions))
            case "pairs":
                actions = [*range(self.n_actions), None]
                pairs = [(c.integer(0, self.n_states - 1), c.one_of(actions)) for _ in range(c.integer(0, 6))]
                return ("pairs", frozenset(pairs))
            case "anytime":
                return ("anytime",)
            case "otherwise":
                return ("otherwise", self.event(depth - 1))
        return (kind, self.event(depth - 1), self.event(depth - 1))

    def quantity(self) -> tuple:
        c = self.c
        match c.one_of(["count", "count", "length", "total", "total by action"]):
            case "count":
                return ("count", self.event())
            case "length":
                return ("length",)
            case "total":
                return ("total", tuple(c.integer(-2, 4) for _ in range(self.n_states)))
        rows = [tuple(c.integer(-2, 3) for _ in range(self.n_actions)) for _ in range(self.n_states)]
        return ("total", tuple(rows))

    def temporal(self, names: Sequence[str], depth: int) -> tuple:
        c = self.c
        if not depth or c.chance(10):
            return ("name", c.one_of(names)) if c.chance(85) else (c.one_of(["true", "false"]),)
        operator = c.one_of(["!", "X", "N", "F", "G", "&", "|", "->", "<->", "U", "R"])
        n_parts = 1 if operator in "!XNFG" else c.integer(2, 3) if operator in "&|" else 2
        return (operator, *(self.temporal(names, depth - 1) for _ in range(n_parts)))

    def leaf(self) -> tuple:
        c = self.c
        word = c.one_of(list(LEAVES))
        op, k = c.one_of(list(OPERATORS)), c.integer(-1, 4)
        match word:
            case "before" | "first":
                return (word, self.event(), self.event())
            case "sequence":
                return (word, *(self.event() for _ in range(c.integer(1, 3))))
            case "response":
                return (word, self.event(), self.event(), c.one_of([None, 0, 1, 2, 3]))
            case "linear":
                terms = [(c.integer(-3, 3), self.quantity()) for _ in range(c.integer(1, 3))]
                return (word, tuple(terms), op, c.integer(-5, 8))
            case "share":
                return (word, self.event(), op, Fraction(c.integer(-1, 7), c.integer(1, 6)))
            case "longest_run":
                return (word, self.event(), op, k)
            case "longest_repeat":
                return (word, op, k)
            case "ltlf":
                names = EVENT_NAMES[: c.integer(1, 3)]
                return (word, self.temporal(names, c.integer(0, 3)), {name: self.event() for name in names})
            case "monitor" if not self.spellable:
                n_events, size = c.integer(0, 2), c.integer(1, 4)
                table = [[c.integer(0, size - 1) for _ in range(2**n_events)] for _ in range(size)]
                accepting = frozenset(q for q in range(size) if c.chance(50))
                return (word, table, c.integer(0, size - 1), accepting, [self.event() for _ in range(n_events)])
            case "monitor":
                return ("visit", self.event())
        return (word, self.event())

    def formula(self, depth: int) -> tuple:
        c = self.c
        if not depth or c.chance(15):
            return self.leaf()
        word = c.one_of(["and", "and", "or", "not", "implies", "named", "exactly", "at_least", "at_most"])
        match word:
            case "and" | "or":
                return (word, *(self.formula(depth - 1) for _ in range(c.integer(2, 3))))
            case "not":
                return (word, self.formula(depth - 1))
            case "named":
                return (word, self.formula(depth - 1), c.one_of(NAMES))
            case "implies":
                return (word, self.formula(depth - 1), self.formula(depth - 1))
        parts = [self.formula(depth - 1) for _ in range(c.integer(1, 3))]
        return (word, c.integer(0, 3), *parts)


LEAVES = {
    "visit": xc.visit,
    "never": xc.never,
    "always": xc.always,
    "no_revisit": xc.no_revisit,
    "before": xc.before,
    "first": xc.first,
    "sequence": xc.sequence,
    "response": xc.response,
    "linear": None,
    "share": xc.share,
    "longest_run": xc.longest_run,
    "longest_repeat": xc.longest_repeat,
    "ltlf": xc.ltlf,
    "monitor": xc.monitor,
}


def build_event(event: tuple) -> xc.Event:
    """xmen's event for a description."""
    match event:
        case ("at", states):
            return xc.at(*states)
        case ("doing", actions):
            return xc.doing(*actions)
        case ("anytime",):
            return xc.anytime
        case ("pairs", pairs):
            return xc.when(lambda state, action: (state, action) in pairs, name="one of some pairs")
        case ("both", one, other):
            return build_event(one) & build_event(other)
        case ("either", one, other):
            return build_event(one) | build_event(other)
        case ("otherwise", one):
            return ~build_event(one)
    raise AssertionError(event)


def build(formula: tuple) -> xc.Constraint:
    """xmen's constraint for a description."""
    match formula:
        case ("linear", terms, op, bound):
            forms = [coefficient * build_quantity(what) for coefficient, what in terms]
            return OPERATORS[op](sum(forms), bound)
        case ("share", e, op, threshold):
            return OPERATORS[op](xc.share(build_event(e)), threshold)
        case ("longest_run", e, op, k):
            return OPERATORS[op](xc.longest_run(build_event(e)), k)
        case ("longest_repeat", op, k):
            return OPERATORS[op](xc.longest_repeat(), k)
        case ("first", a, b):
            return xc.first(build_event(a), among=build_event(b))
        case ("response", a, b, within):
            return xc.response(build_event(a), build_event(b), within=within)
        case ("ltlf", temporal, events):
            return xc.ltlf(spell(temporal), **{name: build_event(e) for name, e in events.items()})
        case ("monitor", table, start, accepting, events):

            def step(state: int, row: tuple[bool, ...]) -> int:
                return table[state][sum(2**i for i, here in enumerate(row) if here)]

            return xc.monitor(start, step, lambda q: q in accepting, [build_event(e) for e in events])
        case ("and", one, *more):
            result = build(one)
            for other in more:
                result = result & build(other)
            return result
        case ("or", one, *more):
            result = build(one)
            for other in more:
                result = result | build(other)
            return result
        case ("not", part):
            return ~build(part)
        case ("implies", one, other):
            return build(one) >> build(other)
        case ("named", part, name):
            return build(part).named(name)
        case ("exactly" | "at_least" | "at_most" as word, k, *parts):
            return getattr(xc, word)(k, *map(build, parts))
        case (word, *events):
            return LEAVES[word](*map(build_event, events))
    raise AssertionError(formula)


def build_quantity(what: tuple) -> Any:
    match what:
        case ("count", e):
            return xc.count(build_event(e))
        case ("length",):
            return xc.length()
        case ("total", weights):
            return xc.total(weights)
    raise AssertionError(what)


def spell(temporal: tuple) -> str:
    """The text of a temporal formula, every operand in brackets."""
    match temporal:
        case ("name", name):
            return name
        case ("true" | "false" as constant,):
            return constant
        case (operator, part):
            return f"{operator}({spell(part)})"
        case (operator, *parts):
            return f" {operator} ".join(f"({spell(part)})" for part in parts)
    raise AssertionError(temporal)


# ---------------------------------------------------------------------------------------------- entrances


def random_world(rng: np.random.Generator) -> MDP:
    """2 to 5 states, 1 to 3 actions, horizon 1 to 5; it may have no complete trajectory at all."""
    return choose_world(NumpyChoices(rng))


def random_formula(
    rng: np.random.Generator, n_states: int, n_actions: int, depth: int = 2, spellable: bool = False
) -> tuple[tuple, xc.Constraint]:
    """(description, constraint) over all primitives."""
    description = FormulaRules(NumpyChoices(rng), n_states, n_actions, spellable).formula(depth)
    return description, build(description)


def random_trajectory(rng: np.random.Generator, n_states: int, n_actions: int, longest: int = 7) -> Trajectory:
    """Any states and actions of these numbers, whatever a world would say."""
    return choose_trajectory(NumpyChoices(rng), n_states, n_actions, longest)


@st.composite
def worlds(draw: Any) -> MDP:
    return choose_world(DrawnChoices(draw))


@st.composite
def trajectories(draw: Any, n_states: int, n_actions: int, longest: int = 7) -> Trajectory:
    return choose_trajectory(DrawnChoices(draw), n_states, n_actions, longest)


@st.composite
def formulas(
    draw: Any, n_states: int, n_actions: int, depth: int = 2, spellable: bool = False
) -> tuple[tuple, xc.Constraint]:
    description = FormulaRules(DrawnChoices(draw), n_states, n_actions, spellable).formula(depth)
    return description, build(description)
