"""Greedy search for rules: one is added at a time, the reward is refitted, and superfluous rules are dropped again.

Each round takes the candidate with the largest gain under the model so far, except that a stronger rule is taken over
a simpler, weaker one that it implies only if the increment passes the level by itself. A rule that a later one has made
superfluous is dropped again. Every change raises the likelihood by more, or lowers it by less, than one rule has to be
worth, so that the search ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import joblib
import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.rewards import Floats
from xmen.rules.models import EQUAL, Kept, Level, Model, SearchSettings, Shared, effective_number, fit_model, gain_of
from xmen.rules.templates import Candidate
from xmen.worlds.trajectory import Trajectory

Bools = NDArray[np.bool_]

ERRORS = 3.0  # standard errors by which an estimated gain is lowered before it counts


@dataclass(frozen=True)
class Scored:
    """A candidate under one model: the share of the demonstrations that keeps it, how likely it is, its gain."""

    candidate: Candidate
    share: float
    kept: Kept
    gain: float

    @property
    def sure(self) -> float:
        """The gain, less three standard errors where it is an estimate: what it is ranked and judged by."""
        return self.gain - ERRORS * self.kept.std if self.kept.std else self.gain


@dataclass(frozen=True)
class Taken:
    """A rule of the answer: its gain when it was taken, the level it passed, and what it was taken instead of."""

    scored: Scored
    level: Level
    instead_of: Scored | None

    @property
    def candidate(self) -> Candidate:
        """The rule."""
        return self.scored.candidate


@dataclass(frozen=True)
class Found:
    """The answer: the rules in the order taken, the models without and with them, and the first and last ranking."""

    taken: list[Taken]
    start: Model
    model: Model
    first: list[Scored]  # every admissible candidate under the model without rules
    last: list[Scored]  # ... and under all rules found
    level: Level
    demos: Bools  # the demonstrations that keep all rules


@dataclass(frozen=True)
class Search:
    """What is searched: candidates with the demonstrations (m, n) that keep each, and when to stop."""

    setting: SearchSettings
    known: list[Constraint]
    demos: Sequence[Trajectory]
    weights: Floats
    candidates: list[Candidate]
    keeps: Bools
    tolerance: float
    level: float
    min_gain: float
    max_rules: int
    n_jobs: int | None = None

    def run(self) -> Found:
        """Rules until none passes."""
        taken: list[Taken] = []
        alive = self.weights > 0
        start = model = self._model(taken, alive)
        first = ranking = self._rank(model, alive)
        while len(taken) < self.max_rules:
            level = self._level(alive)
            choice = self._choose(model, ranking, level)
            if choice is None:
                break
            taken.append(choice)
            taken, alive, model = self._without_superfluous(taken)
            ranking = self._rank(model, alive)
        return Found(taken, start, model, first, ranking, self._level(alive), alive)

    def _level(self, alive: Bools) -> Level:
        return Level(effective_number(self.weights[alive]), len(self.candidates), self.level, self.min_gain)

    def _model(self, taken: list[Taken], alive: Bools) -> Model:
        rules = [*self.known, *(one.candidate.rule for one in taken)]
        demos = [tau for tau, here in zip(self.demos, alive.tolist(), strict=True) if here]
        return fit_model(self.setting, rules, demos, self.weights[alive], self._shared)

    def _alive(self, taken: list[Taken]) -> Bools:
        """The demonstrations that keep these rules."""
        alive = self.weights > 0
        for one in taken:
            alive = alive & self.keeps[self._rows[one.candidate.text]]
        return alive

    @cached_property
    def _shared(self) -> Shared:
        return Shared(self.setting.world.any_task)

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Where each candidate stands, by its text."""
        return {one.text: row for row, one in enumerate(self.candidates)}

    def _rank(self, model: Model, alive: Bools) -> list[Scored]:
        """All candidates that enough demonstrations keep, by falling gain, the simplest of equals first."""
        weights = self.weights * alive
        shares = self.keeps @ weights / weights.sum()
        shares[np.all(self.keeps[:, alive], axis=1)] = 1.0  # not 1 - 1e-16
        admitted = [i for i, share in enumerate(shares.tolist()) if share >= 1.0 - self.tolerance - 1e-12]
        model.prepare()
        kept = joblib.Parallel(n_jobs=self.n_jobs, prefer="threads")(
            joblib.delayed(model.keeps)(self.candidates[i].tabled) for i in admitted
        )
        scored = [
            Scored(self.candidates[i], float(shares[i]), one, gain_of(one.log_kept, one.broken, float(shares[i])))
            for i, one in zip(admitted, kept, strict=True)
        ]
        return by_gain(scored)

    def _choose(self, model: Model, ranking: list[Scored], level: Level) -> Taken | None:
        """The best candidate, or a simpler one that it implies and is hardly better than; None if none passes."""
        if not ranking or not level.passes(ranking[0].sure):
            return None
        best = ranking[0]
        near = [one for one in ranking[1:] if level.passes(one.sure) and not level.decides(best.sure - one.sure)]
        pool = [best, *(one for one in near if model.implies(best.candidate.tabled, one.candidate.tabled))]
        choice = min(pool, key=lambda one: one.candidate.simplicity)
        stronger = best if best.sure > choice.sure + EQUAL else None
        return Taken(choice, level, stronger)

    def _without_superfluous(self, taken: list[Taken]) -> tuple[list[Taken], Bools, Model]:
        """Drop, one after the other, the rule that is worth the least next to the others, if it no longer passes."""
        while True:
            alive = self._alive(taken)
            model = self._model(taken, alive)
            worth = [self._worth(taken, i) for i in range(len(taken) - 1)]
            if not worth:
                return taken, alive, model
            least = min(range(len(worth)), key=lambda i: worth[i].sure)
            if taken[least].level.passes(worth[least].sure):
                return taken, alive, model
            del taken[least]
            # What came after it was gained next to it, and is now gained without it.
            taken = [replace(one, scored=self._worth(taken[: i + 1], i)) for i, one in enumerate(taken)]

    def _worth(self, taken: list[Taken], which: int) -> Scored:
        """One of the rules as if it were the last to be taken."""
        others = [one for i, one in enumerate(taken) if i != which]
        alive = self._alive(others)
        candidate = taken[which].candidate
        row = self.keeps[self._rows[candidate.text]]
        alone = replace(self, candidates=[candidate], keeps=row[None], tolerance=1.0)
        return alone._rank(self._model(others, alive), alive)[0]  # the model, and what it shares, are this search's


def by_gain(scored: list[Scored]) -> list[Scored]:
    """By falling gain; among gains that are equal up to rounding, the simplest first."""
    rest = sorted(scored, key=lambda one: -one.sure)
    out: list[Scored] = []
    while rest:
        same = [one for one in rest if one.sure >= rest[0].sure - EQUAL]
        out += sorted(same, key=lambda one: one.candidate.simplicity)
        rest = rest[len(same) :]
    return out
