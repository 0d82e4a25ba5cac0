"""Policies by brute force: the tree of all histories, one node per history. No product, no machines, no xmen.

A history is (states, actions). Values, chances and shares are computed for each one from the definition, leaf by leaf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

from reference import holds, positions

History = tuple[tuple[int, ...], tuple[int, ...]]


class TooLarge(Exception):
    """More histories than a test should look at."""


@dataclass
class Tree:
    """All histories of a small world; `won` says of each ended one whether it arrived and kept the rule."""

    world: Any
    formula: tuple | None
    most: int = 30_000
    starts: dict[History, float] = field(default_factory=dict)
    outcomes: dict[History, dict[int, list[tuple[History, float]]]] = field(default_factory=dict)
    won: dict[History, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps: dict[int, dict[int, list[tuple[int, float]]]] = {}
        for state, action, target, probability in np.asarray(self.world.transitions).tolist():
            self.steps.setdefault(int(state), {}).setdefault(int(action), []).append((int(target), probability))
        self.terminal = np.asarray(self.world.terminal).tolist()
        for state, probability in enumerate(np.asarray(self.world.start).tolist()):
            if probability > 0:
                self.starts[(state,), ()] = probability
                self._expand(((state,), ()))

    def _expand(self, history: History) -> None:
        if len(self.outcomes) + len(self.won) > self.most:
            raise TooLarge
        states, actions = history
        horizon = math.inf if self.world.horizon is None else self.world.horizon
        arrived = self.terminal[states[-1]] if any(self.terminal) else len(actions) == horizon
        choices = self.steps.get(states[-1], {})
        if arrived or not choices or len(actions) >= horizon:
            kept = self.formula is None or holds(self.formula, positions(states, actions))
            self.won[history] = bool(arrived and kept)
            return
        after = {
            action: [(((*states, target), (*actions, action)), p) for target, p in targets]
            for action, targets in choices.items()
        }
        self.outcomes[history] = after
        for targets in after.values():
            for following, _ in targets:
                self._expand(following)


@dataclass
class Solved:
    """Value, chance of winning, and the shares of actions of every history."""

    tree: Tree
    value: dict[History, float]
    chance: dict[History, float]
    shares: dict[History, dict[int, float]]

    @property
    def validity(self) -> float:
        return math.fsum(p * self.chance[start] for start, p in self.tree.starts.items())

    def mean_value(self) -> float:
        return math.fsum(p * self.value[start] for start, p in self.tree.starts.items())

    def reached(self) -> dict[History, float]:
        """The probability of every history."""
        mass = dict(self.tree.starts)
        queue = list(mass)
        while queue:
            history = queue.pop()
            for action, share in self.shares.get(history, {}).items():
                for following, p in self.tree.outcomes[history][action]:
                    mass[following] = mass[history] * share * p
                    queue.append(following)
        return mass

    def visits(self, discount: float) -> np.ndarray:
        out = np.zeros((self.tree.world.n_states, self.tree.world.n_actions))
        for history, mass in self.reached().items():
            for action, share in self.shares.get(history, {}).items():
                out[history[0][-1], action] += discount ** len(history[1]) * mass * share
        return out

    def state_visits(self) -> np.ndarray:
        out = np.zeros(self.tree.world.n_states)
        for history, mass in self.reached().items():
            out[history[0][-1]] += mass
        return out

    def largest(self) -> float:
        """The probability of the likeliest episode."""
        return max(mass for history, mass in self.reached().items() if history in self.tree.won)

    def entropy(self) -> float:
        return -math.fsum(
            mass * share * math.log(share)
            for history, mass in self.reached().items()
            for share in self.shares.get(history, {}).values()
            if share > 0 and mass > 0
        )

    def log_prob(self, history: History) -> float:
        states, actions = history
        total = 0.0
        for t, action in enumerate(actions):
            share = self.shares[states[: t + 1], actions[:t]][action]
            total += math.log(share) if share > 0 else -math.inf
        return total

    def breaking(self, formula: tuple) -> float:
        """The probability that an episode, as far as it went, does not keep a rule."""
        mass = self.reached()
        return math.fsum(p for h, p in mass.items() if h in self.tree.won and not holds(formula, positions(*h)))


def solve(tree: Tree, reward: np.ndarray, discount: float, kind: str, bonus: float = 0.0) -> Solved:
    """Maximum causal entropy by its definition, over histories; kind is "sure", "best" or "bonus"."""
    value: dict[History, float] = {}
    chance: dict[History, float] = {}
    shares: dict[History, dict[int, float]] = {}

    def visit(history: History) -> None:
        if history in tree.won:
            won = tree.won[history]
            chance[history] = float(won)
            lost_value = -math.inf if kind == "sure" else 0.0
            value[history] = (bonus if kind == "bonus" else 0.0) if won else lost_value
            return
        logits, odds = {}, {}
        for action, targets in tree.outcomes[history].items():
            for following, _ in targets:
                visit(following)
            gain = discount ** len(history[1]) * reward[history[0][-1], action]
            logits[action] = gain + sum(p * value[following] for following, p in targets)
            odds[action] = math.fsum(p * chance[following] for following, p in targets)
        if kind == "best":
            most = max(odds.values())
            logits = {a: x if odds[a] >= most - 1e-12 else -math.inf for a, x in logits.items()}
        top = max(logits.values())
        if top == -math.inf:
            value[history], shares[history] = -math.inf, dict.fromkeys(logits, 0.0)
        else:
            total = math.fsum(math.exp(x - top) for x in logits.values())
            value[history] = top + math.log(total)
            shares[history] = {a: math.exp(x - top) / total for a, x in logits.items()}
        chance[history] = math.fsum(shares[history][a] * odds[a] for a in odds)

    for start in tree.starts:
        visit(start)
    return Solved(tree, value, chance, shares)


def best_chance(tree: Tree) -> float:
    """The largest probability of keeping the rule that any behaviour has."""
    nothing = np.zeros((tree.world.n_states, tree.world.n_actions))
    return solve(tree, nothing, 1.0, "best").validity


def solve_for(tree: Tree, reward: np.ndarray, discount: float, p: float) -> Solved:
    """The bonus at which the rule is kept with probability p, by a root finder over whole trees."""
    free = solve(tree, reward, discount, "bonus", 0.0)
    if free.validity >= p:
        return free

    def surplus(bonus: float) -> float:
        return solve(tree, reward, discount, "bonus", bonus).validity - p

    high = 1.0
    while surplus(high) < 0:
        high *= 2.0
    return solve(tree, reward, discount, "bonus", brentq(surplus, 0.0, high, xtol=1e-13, rtol=1e-14))
