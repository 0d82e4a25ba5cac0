"""Rounds of weighted draws: each is minimised over by L-BFGS, and judged by the next one's draws.

Draws serve every theta (`draws`), so that fresh ones for every step would be waste. A round's draws first *judge* the
weights at hand, which were not fitted to them, and end the fit when the gradient is within its noise, the distance from
the optimum is within `tol` nats, and they cannot have missed anything of weight. Else they join the others, and L-BFGS
finds the minimum over all of them: a convex, deterministic problem without a step size. It goes only as far as draws
can be trusted (`descent`), and the next round draws from where it came to.

How many draws the next round needs follows from the distance that their number lets expect, tr(H^+ V) / 2, which falls
as one over their number. Where they come from, and how, is the source's business (`sources`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from xmen.methods.descent import HALVINGS, Descent
from xmen.methods.doubt import doubts
from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.draws import Draws
from xmen.methods.judge import (
    ROUNDING,
    SURE,
    Estimate,
    Judgement,
    Metric,
    estimate,
    expected_distance,
    judge,
    judges_needed,
)
from xmen.methods.runs import FitSettings, Outcome, Run, Task
from xmen.methods.seeds import child_seed, seed_sequence, stored_seed
from xmen.methods.sources import Batch, Plan, Source
from xmen.methods.spread import Spread
from xmen.notices import ConvergenceWarning, GuaranteeWarning, notify
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats
from xmen.sampling import Info
from xmen.storage.checkpoint import RunState

DEFAULT_MAX_ITER = 20  # rounds
DEFAULT_TOL = 0.005  # nats
# With these, of 100 fits to 8x8 grids that nothing was chosen on: four features to tol = 0.01, 99 answers within it and
# 99 bounds above the distance, 2,709 solutions a fit; one weight per state to 0.02, 98 and 96, 4,746 solutions.
AIMED = 0.7  # of tol: the expected distance that rounds aim at, so that the judge agrees
LEAST_TOL = 1e-12  # what a tol of 0 is taken for
MOST_GROWTH = 4.0  # times as many draws as there are, in one round
MOST_DRAWS = 2_000_000  # at hand, beyond which no more are made however small tol is; a quarter of them in one round
LOOSE = 2.0  # times tol: the bound of an answer that is good enough
LEFT = 0.03  # of tol may be left to gain where L-BFGS ends
HELPING = 0.01  # share of a batch in the estimate below which it is dropped
SEEN_PER_FEATURE, LEAST_SEEN = 2.0, 50.0  # draws that have to carry the weight, wherever L-BFGS may go
SEEING = 1.5  # times as many are aimed at, so that they do
FIRST_PER_SEEN = 4.0  # times as many are drawn in the first round, from which it has to move away
LEAST_LEFT = 0.5  # of the acceptance where a round's draws were made: with less, the next ones are made nearer to it
PASSES = 1  # further minimisations per round, by shares at the weights that the one before has found


@dataclass(frozen=True)
class RoundsState(RunState):
    """Where a run stands: the weights, all draws so far, and what to draw next.

    `weights` are those that are learned; `distance` and `bound` are of them, in nats. `distance` is infinite where the
    draws were too few to reach a minimum, `bound` until draws have judged that the weights were not fitted to and that
    cannot have missed anything. `seed` is the entropy and key of the run's SeedSequence: round t uses its t-th child.
    `opening` is where the run before the first round stands, empty where there is none or it is over.
    """

    weights: Floats
    weights_std: Floats
    draws: dict[str, Any]
    plan: Plan
    iteration: int
    distance: float
    bound: float
    n_lost: int
    seed: dict[str, Any]
    opening: dict[str, Any]
    finished: bool = False
    converged: bool = False


class Opening(Protocol):
    """What finds the weights that rounds begin with, step by step, from states that can be stored.

    `metric` (d,) is about the root of the curvature of each weight.
    """

    metric: Floats

    def start(self) -> dict[str, Any]:
        """The state before the first step."""

    def step(self, state: dict[str, Any]) -> tuple[dict[str, Any], Floats, dict[str, float], bool]:
        """The state after a step, the weights there, what to record of it, and whether it was the last one."""

    def conclude(self, state: dict[str, Any], monitor: Monitor) -> Outcome:
        """The answer of a run that was stopped before its first round."""


class RoundsRun(Run[RoundsState]):
    """Rounds until the answer is within `tol` nats of the optimum, as draws that it was not fitted to see it.

    `warn` says what the demonstrations cannot tell.
    """

    state_type = RoundsState
    stores_every_step = True

    def __init__(
        self,
        task: Task,
        settings: FitSettings,
        source: Source,
        warn: Callable[[], None],
        opening: Opening | None = None,
    ) -> None:
        self.settings, self.source, self.warn, self.opening = settings, source, warn, opening
        self.coordinates, learned = settings.coordinates(task.features.d), settings.learned(task)
        self.l2, self.tol = self.coordinates.l2[self.coordinates.free], settings.tolerance(DEFAULT_TOL)
        self.max_iter = settings.most_iterations(DEFAULT_MAX_ITER)
        self.features, self.demo_features = learned.features, learned.demo_features
        # What fixed weights add to the loss wherever the others are.
        self.constant = self.coordinates.penalised(self.coordinates.values, 0.0, np.zeros(task.features.d)).loss
        self.constant -= float(self.coordinates.values @ task.demo_features)
        self.least_seen = max(SEEN_PER_FEATURE * self.features.d, LEAST_SEEN)
        metric = None if opening is None else opening.metric
        self.descent = Descent(self.features, self.least_seen, LEFT * self.tol, metric)

    def start(self) -> RoundsState:
        first = self.settings.first_weights(len(self.coordinates.values))[self.coordinates.free]
        seed, opening = stored_seed(seed_sequence(self.settings.seed)), self.opening.start() if self.opening else {}
        return RoundsState(first, np.zeros(len(first)), {}, {}, 0, math.inf, math.inf, 0, seed, opening)

    def finished(self, state: RoundsState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def may_end(self, state: RoundsState) -> bool:
        return not state.opening

    def step(self, state: RoundsState) -> tuple[RoundsState, dict[str, float]]:
        if state.opening:
            assert self.opening is not None
            opening, weights, entry, over = self.opening.step(state.opening)
            return replace(state, weights=weights, opening={} if over else opening), entry
        rng = np.random.default_rng(child_seed(state.seed, state.iteration))
        plan, spent = (state.plan, Info()) if state.plan else self.source.first(self._wanted(), rng)
        batch = self.source.read(plan, state.weights, rng)
        spent += batch.info
        state = replace(state, plan=plan, iteration=state.iteration + 1, n_lost=state.n_lost + batch.n_lost)
        first, exact = not state.draws, not batch.draws.noise.any()
        # Draws of a relaxation that weights have left behind would tell little of the next ones.
        left_behind = math.isinf(state.distance) and batch.draws.relaxed.any()
        judged = None if first or exact or left_behind else self._judge(state, batch.draws)
        if judged is not None:
            near = max(judged.distance, state.distance, judged.bound / LOOSE) <= self.tol
            quiet = judged.within_noise or judged.bound <= self.tol
            agreed = judged.enough and near and quiet and batch.sees_all
            enough = len(state.draws["log_measure"]) + len(batch.draws) > MOST_DRAWS
            if agreed or enough or state.iteration >= self.max_iter:
                ended = replace(state, distance=judged.distance, bound=judged.bound if batch.sees_all else math.inf)
                ended = replace(ended, finished=agreed or enough, converged=agreed)
                return ended, self._entry(ended, judged.estimate, batch, spent)
        alone = first or exact or left_behind
        draws = batch.draws if alone else Draws.from_arrays(state.draws).joined(batch.draws)
        after, own = self._minimise(state, draws)
        return after, self._entry(after, own if judged is None else judged.estimate, batch, spent)

    def _wanted(self) -> float:
        """Draws of the first round: as many as would do if each were a draw from P at the optimum."""
        wanted = max(0.5 * self.features.d / max(AIMED * self.tol, LEAST_TOL), FIRST_PER_SEEN * self.least_seen)
        return min(wanted, MOST_DRAWS / 4)

    def _loss(self, draws: Draws) -> DrawnLoss:
        return DrawnLoss(draws, self.features, self.demo_features, self.l2, self.source.parts, self.source.relaxed)

    def _judge(self, state: RoundsState, fresh: Draws) -> Judgement:
        draws = Draws.from_arrays(state.draws)
        fitted, both = self._loss(draws), self._loss(draws.joined(fresh))
        fitted.share_by_size(state.weights)
        both.share_by_size(state.weights)
        metric = Metric(Spread(both, state.weights).hessian, self.features.scale)
        noise = Spread(fitted, state.weights).noise
        return judge(state.weights, self._loss(fresh), metric, noise, self.least_seen)

    def _minimise(self, state: RoundsState, draws: Draws) -> tuple[RoundsState, Estimate]:
        """The state at the minimum over all draws, with the plan of the next round; and what the draws say of it.

        Batches are shared by their sizes at the minimum, and those that no longer help are left out.
        """
        loss, weights = self._loss(draws), state.weights
        # The weights were fitted to the older batches, which look better at them than they are: before anything is
        # judged by sizes, the newest batch gets its share by number.
        loss.share_by_size(weights)
        loss.lift_newest()
        loss.doubt(doubts(loss, weights))
        restraint, weights = self.descent.restraint(loss, weights)
        weights, reached = self.descent(loss.restrained(restraint), weights)
        for _ in range(PASSES if reached or not loss.draws.relaxed.any() else 0):
            loss.share_by_size(weights)
            helping = loss.helping(HELPING)
            if not helping.all():
                loss = self._loss(loss.draws.keeping(helping))
                loss.share_by_size(weights)
            loss.doubt(doubts(loss, weights))
            weights, reached = self.descent(loss.restrained(restraint), weights)
        weights, reached = self._drawable(loss, state.weights, weights, reached)
        loss.share_by_size(weights)
        if not reached and loss.draws.relaxed.any():  # as many again, from where these have led
            value = loss(weights)
            own = Estimate(value.loss, 0.0, value.gradient, np.zeros(1))
            return replace(state, weights=weights, draws=loss.draws.as_arrays(), distance=math.inf, bound=math.inf), own
        found = Spread(loss, weights)
        own = estimate(loss, weights, found)
        metric = Metric(found.hessian, self.features.scale)
        left = 0.5 * float(np.square(metric.vector(own.gradient)).sum())  # by L-BFGS
        distance = left + expected_distance(found.error, metric) if reached else math.inf
        exact = not loss.draws.noise.any()
        state = replace(
            state,
            weights=weights,
            weights_std=metric.weights_std(found.error),
            draws=loss.draws.as_arrays(),
            distance=distance,
            bound=distance + ROUNDING if exact else math.inf,  # what these draws missed, they cannot tell
        )
        if exact:
            return replace(state, finished=True, converged=distance <= max(self.tol, ROUNDING)), own
        needed = distance / max(AIMED * self.tol, LEAST_TOL) - 1.0  # times as many draws as there are
        last = distance <= max(self.tol, LEAST_TOL)
        missed, judges = SURE * found.unseen, 0.0
        if last:  # what they will not have seen may have half of the bound
            bound = LOOSE * self.tol - min(missed, self.tol)
            judges = judges_needed(metric.matrix(found.noise), distance, self.tol, bound)
            judges = max(judges, missed / max(self.tol, LEAST_TOL))
        growth = min(max(needed, judges), MOST_GROWTH)
        effective = max(growth * max(loss.seen(weights), self.least_seen), SEEING * self.least_seen)
        plan = self.source.next(state.plan, weights, loss, min(effective, MOST_DRAWS / 4), last)
        return replace(state, plan=plan), own

    def _drawable(self, loss: DrawnLoss, drawn: Floats, weights: Floats, reached: bool) -> tuple[Floats, bool]:
        """Weights at which the next draws can be made, on the way from the last ones' to these; whether it is these.

        The few draws at hand may lead to where the weights of ever longer trips do not add up, or hardly one is valid.
        """
        if loss.relaxed is None:
            return weights, reached
        least = LEAST_LEFT * float(loss.parts @ loss.acceptance(drawn))
        for _ in range(HALVINGS):
            if loss.parts @ loss.acceptance(weights) >= least:
                return weights, reached
            weights, reached = 0.5 * (drawn + weights), False
        return drawn, False

    def answer(self, state: RoundsState) -> Floats:
        return self.coordinates.full(state.weights)

    def conclude(self, state: RoundsState, monitor: Monitor) -> Outcome:
        if state.opening:
            assert self.opening is not None
            return self.opening.conclude(state.opening, monitor)
        if not (state.converged or monitor.stopped or monitor.interrupted):
            notify(
                f"after {'' if state.finished else 'max_iter = '}{state.iteration} rounds the answer is about "
                f"{state.distance:.2g} nats from the optimum, and not surely within tol = {self.tol:g}"
                f"{' (no more draws are made)' if state.finished else ''}. Raise "
                f"{'' if state.finished else 'max_iter or '}tol; if weights keep growing the optimum may be infinite, "
                "and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        if state.n_lost:
            notify(
                f"{state.n_lost} cells were lost to a solver that hung or died. Hard cells are not like others: the "
                "answer may be biased. Raise time_limit, or cell_size for fewer parities.",
                GuaranteeWarning,
            )
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            self.warn()
        learned: dict[str, Any] = {"distance_": state.distance, "distance_bound_": state.bound}
        learned["weights_std_"] = self.coordinates.direction(state.weights_std)
        if state.draws:
            loss = self._loss(Draws.from_arrays(state.draws))
            loss.share_by_size(state.weights)
            learned |= self.source.learned(loss, state.weights)
        return Outcome(self.answer(state), state.converged, None, learned)

    def _entry(self, state: RoundsState, seen: Estimate, batch: Batch, spent: Info) -> dict[str, float]:
        return {
            "loss": seen.loss + self.constant,
            "loss_std": seen.loss_std,
            "gradient_norm": float(np.linalg.norm(seen.gradient)),
            "gradient_std": float(np.linalg.norm(seen.gradient_std)),
            "round": state.iteration,
            "solutions": spent.n_points,
            "queries": spent.n_queries,
            "cells": batch.info.n_cells,
            "lost": batch.n_lost,
            **batch.details,
            "distance": state.distance,
            "distance_bound": state.bound,
        }
