"""A second definition of everything, written from the sentences of the documentation alone.

Formulas are nested tuples, trajectories are lists of positions, and every question is answered by looking at
whole trajectories or by listing all of them. Nothing here knows machines, tables or dynamic programs, and
nothing is imported from xmen: agreement between the two is evidence.

Events:    ("at", states) ("doing", actions) ("anytime",) ("pairs", {(state, action), ...})
           ("both", e, f) ("either", e, f) ("otherwise", e)
Formulas:  ("visit", e) ("never", e) ("always", e) ("before", a, b) ("first", a, b) ("sequence", e, ...)
           ("response", a, b, k or None) ("linear", ((c, quantity), ...), op, bound) ("share", e, op, fraction)
           ("longest_run", e, op, k) ("longest_repeat", op, k) ("no_revisit", e)
           ("ltlf", formula, {name: event}) ("monitor", table, start, accepting, events)
           ("and", x, ...) ("or", x, ...) ("not", x) ("implies", x, y) ("named", x, name)
           ("exactly" | "at_least" | "at_most", k, x, ...)
Quantities: ("count", e) ("length",) ("total", weights)
Temporal:  ("name", n) ("true",) ("false",) ("!", p) ("X", p) ... ("U", p, q) ("R", p, q) ("->", p, q) ...
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Position = tuple[int, "int | None"]
"""(state, action); the action at the last position is None."""

OPERATORS = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def positions(states: Any, actions: Any) -> list[Position]:
    """The positions t = 0 .. L of a trajectory."""
    return list(zip(states, [*actions, None], strict=True))


def happens(event: tuple, position: Position) -> bool:
    """Whether the event holds at the position."""
    state, action = position
    match event:
        case ("at", states):
            return state in states
        case ("doing", actions):
            return action is not None and action in actions
        case ("anytime",):
            return True
        case ("pairs", pairs):
            return position in pairs
        case ("both", one, other):
            return happens(one, position) and happens(other, position)
        case ("either", one, other):
            return happens(one, position) or happens(other, position)
        case ("otherwise", one):
            return not happens(one, position)
    raise AssertionError(event)


def holds(formula: tuple, walk: list[Position]) -> bool:
    """Whether the whole trajectory keeps the formula."""
    last = len(walk) - 1

    def where(event: tuple) -> list[int]:
        return [t for t in range(last + 1) if happens(event, walk[t])]

    match formula:
        case ("visit", e):
            return len(where(e)) > 0
        case ("never", e):
            return len(where(e)) == 0
        case ("always", e):
            return len(where(e)) == last + 1
        case ("before", a, b):
            return all(any(u <= t for u in where(a)) for t in where(b))
        case ("first", a, b):
            return holds(("visit", a), walk) and holds(("before", a, b), walk)
        case ("sequence", *events):
            chosen = itertools.combinations(range(last + 1), len(events))
            return any(all(happens(e, walk[t]) for e, t in zip(events, ts, strict=True)) for ts in chosen)
        case ("response", a, b, within):
            reach = last if within is None else within
            return all(any(happens(b, walk[u]) for u in range(t, min(t + reach, last) + 1)) for t in where(a))
        case ("linear", terms, op, bound):
            return OPERATORS[op](sum(c * quantity(q, walk) for c, q in terms), bound)
        case ("share", e, op, threshold):
            return OPERATORS[op](Fraction(len(where(e)), last + 1), threshold)
        case ("longest_run", e, op, k):
            return OPERATORS[op](longest(last + 1, lambda ts: all(happens(e, walk[t]) for t in ts)), k)
        case ("longest_repeat", op, k):
            actions = [action for _, action in walk if action is not None]
            return OPERATORS[op](longest(len(actions), lambda ts: len({actions[t] for t in ts}) == 1), k)
        case ("no_revisit", e):
            return all(walk[t][0] != walk[u][0] for t, u in itertools.combinations(where(e), 2))
        case ("ltlf", temporal, events):
            return temporally(temporal, events, walk, 0)
        case ("monitor", table, start, accepting, events):
            state = start
            for position in walk:
                state = table[state][sum(2**i for i, e in enumerate(events) if happens(e, position))]
            return state in accepting
        case ("and", *parts):
            return all(holds(part, walk) for part in parts)
        case ("or", *parts):
            return any(holds(part, walk) for part in parts)
        case ("not", part):
            return not holds(part, walk)
        case ("implies", one, other):
            return holds(other, walk) if holds(one, walk) else True
        case ("named", part, _):
            return holds(part, walk)
        case ("exactly" | "at_least" | "at_most" as word, k, *parts):
            op = {"exactly": "==", "at_least": ">=", "at_most": "<="}[word]
            return OPERATORS[op](sum(holds(part, walk) for part in parts), k)
    raise AssertionError(formula)


def longest(n: int, fits: Any) -> int:
    """The length of the longest stretch of 0 .. n-1 that fits."""
    stretches = [range(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    return max((len(stretch) for stretch in stretches if fits(stretch)), default=0)


def quantity(what: tuple, walk: list[Position]) -> int:
    """The number that the trajectory gives to a count, a length or a total."""
    match what:
        case ("count", e):
            return sum(happens(e, position) for position in walk)
        case ("length",):
            return len(walk)
        case ("total", weights) if isinstance(weights[0], int):
            return sum(weights[state] for state, _ in walk)
        case ("total", weights):
            return sum(weights[state][action] for state, action in walk if action is not None)
    raise AssertionError(what)


def temporally(formula: tuple, events: dict[str, tuple], walk: list[Position], t: int) -> bool:
    """The textbook semantics of LTLf at position t."""
    last = len(walk) - 1

    def at(part: tuple, u: int) -> bool:
        return temporally(part, events, walk, u)

    match formula:
        case ("true",):
            return True
        case ("false",):
            return False
        case ("name", name):
            return happens(events[name], walk[t])
        case ("!", p):
            return not at(p, t)
        case ("&", *parts):
            return all(at(p, t) for p in parts)
        case ("|", *parts):
            return any(at(p, t) for p in parts)
        case ("->", p, q):
            return at(q, t) or not at(p, t)
        case ("<->", p, q):
            return at(p, t) == at(q, t)
        case ("X", p):
            return t < last and at(p, t + 1)
        case ("N", p):
            return t == last or at(p, t + 1)
        case ("F", p):
            return any(at(p, u) for u in range(t, last + 1))
        case ("G", p):
            return all(at(p, u) for u in range(t, last + 1))
        case ("U", p, q):
            return any(at(q, u) and all(at(p, v) for v in range(t, u)) for u in range(t, last + 1))
        case ("R", p, q):
            return all(at(q, u) or any(at(p, v) for v in range(t, u)) for u in range(t, last + 1))
    raise AssertionError(formula)


def enumerate_trajectories(world: Any) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """All complete trajectories of the world as (states, actions, D), by brute force."""
    steps: dict[int, list[tuple[int, int, float]]] = {}
    for state, action, target, probability in np.asarray(world.transitions).tolist():
        steps.setdefault(int(state), []).append((int(action), int(target), probability))
    terminal = np.asarray(world.terminal).tolist()
    horizon = math.inf if world.horizon is None else world.horizon

    def extend(states: tuple, actions: tuple, weight: float) -> Iterator[tuple[tuple, tuple, float]]:
        ended = terminal[states[-1]] if any(terminal) else len(actions) == horizon
        if ended:
            yield states, actions, weight
        elif len(actions) < horizon:
            for action, target, probability in steps.get(states[-1], []):
                if probability > 0:
                    yield from extend((*states, target), (*actions, action), weight * probability)

    for state, probability in enumerate(np.asarray(world.start).tolist()):
        if probability > 0:
            yield from extend((state,), (), probability)


@dataclass
class ExactDistribution:
    """What an exact engine must say; `log_weights` has R + log D of every valid trajectory.

    `log_partition` is -inf, and the rest is meaningless, when no trajectory is valid.
    """

    log_weights: dict[tuple[tuple[int, ...], tuple[int, ...]], float]
    log_partition: float
    visits: np.ndarray
    state_visits: np.ndarray
    entropy: float
    modes: set[tuple[tuple[int, ...], tuple[int, ...]]]

    def log_prob(self, states: Any, actions: Any) -> float:
        """log P(tau); -inf for a trajectory that is not valid."""
        weight = self.log_weights.get((tuple(states), tuple(actions)))
        return -math.inf if weight is None else weight - self.log_partition


def exact_distribution(
    world: Any, formula: tuple | None, reward: np.ndarray, discount: float = 1.0
) -> ExactDistribution:
    """P(tau) = exp(R) D I_C / Z by listing all trajectories; reward has shape (n_states, n_actions).

    `modes` are all trajectories within 1e-9 of the largest log-weight.
    """
    log_weights = {}
    for states, actions, dynamics in enumerate_trajectories(world):
        if formula is None or holds(formula, positions(states, actions)):
            steps = zip(states, actions, strict=False)
            value = math.fsum(discount**t * reward[s, a] for t, (s, a) in enumerate(steps))
            log_weights[states, actions] = value + math.log(dynamics)
    visits, state_visits = np.zeros((world.n_states, world.n_actions)), np.zeros(world.n_states)
    if not log_weights:
        return ExactDistribution({}, -math.inf, visits, state_visits, math.nan, set())
    most = max(log_weights.values())
    log_partition = most + math.log(math.fsum(math.exp(w - most) for w in log_weights.values()))
    entropy = 0.0
    for (states, actions), weight in log_weights.items():
        probability = math.exp(weight - log_partition)
        entropy -= probability * (weight - log_partition)
        for t, (s, a) in enumerate(zip(states, actions, strict=False)):
            visits[s, a] += discount**t * probability
        for s in states:
            state_visits[s] += probability
    modes = {tau for tau, weight in log_weights.items() if weight >= most - 1e-9}
    return ExactDistribution(log_weights, log_partition, visits, state_visits, entropy, modes)
