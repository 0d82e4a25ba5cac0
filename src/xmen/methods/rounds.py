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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.xor import XorDistribution
from xmen.errors import ConvergenceWarning, GuaranteeWarning, notify
from xmen.methods.draws import Draws
from xmen.methods.identify import warn_undetermined
from xmen.methods.judge import (
    ROUNDING,
    SURE,
    Estimate,
    Judgement,
    Metric,
    doubts,
    estimate,
    expected_distance,
    judge,
    judges_needed,
)
from xmen.methods.likelihood import Lbfgs
from xmen.methods.loss import Batch, DrawnLoss, Plan, Relaxed, Source, Spread
from xmen.methods.runs import FitSettings, Outcome, Run, Task, child_seed, seed_sequence, stored_seed
from xmen.progress import Monitor
from xmen.rewards import Floats
from xmen.rewards.linear import Features
from xmen.sampling import Info
from xmen.storage.checkpoint import RunState

# ---- The minimum over draws, as far as they can be trusted: neither where few of them carry the weight, nor at
# infinity.
#
# With a weight per state and some thousand draws there are directions along which every draw loses weight against the
# demonstrations, although other valid trajectories gain it. The loss over the draws falls along them for ever, and
# weights of 100 and more look best, which is ruin for what was not drawn. So small weights are preferred, by
# restraint / 2 * |theta|^2 in units of the features. How much is found on halves of the draws: the weakest restraint
# under which a fit to one half still gains on the other half. More draws bear less restraint, and all valid
# trajectories none.


RESTRAINTS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)  # tried in turn
MOST_STEPS = 500  # of L-BFGS
FLAT_GRADIENT = 1e-6  # where L-BFGS ends, in units of the features' scale
EXACT_GRADIENT = 1e-7  # ... over all valid trajectories
# Of the draws that carry the weight at the start of a descent. At 0.25 and 1, on the tasks of `rounds`: no change with
# one weight per state; with four features 56 and 58 of 60 bounds cover, and 10,544 and 5,557 solutions are read.
WAY_BACK = 0.5
# Of the log of the acceptance in a descent, times the root of the number of draws of a part: those that are not valid
# cannot speak for longer ones that they never saw, and fewer of them have seen less.
MOST_CHANGE = 0.02
HELD = 0.5  # of the loss is enough to hold all of it
SHOWN = 8  # moves of L-BFGS that show enough of the curvature to say what is left to gain
HALVINGS = 10  # of a step of L-BFGS that goes too far


class Descent:
    """L-BFGS on losses over draws; wherever it goes, at least `least_seen` draws carry the weight.

    With a relaxation it ends where less than `left` nats are to be gained. `metric` is as that of `Lbfgs`.
    """

    def __init__(self, features: Features, least_seen: float, left: float = 0.0, metric: Floats | None = None) -> None:
        self.features, self.least_seen, self.left, self.metric = features, least_seen, left, metric

    def __call__(self, loss: DrawnLoss, weights: Floats) -> tuple[Floats, bool]:
        """The minimum, or how far draws carry the weight on the way to it; whether that was all the way."""
        exact = not loss.draws.noise.any()
        # Where nothing holds the loss, what is left to gain is not seen from how it curves here.
        left = self.left if loss.draws.relaxed.any() else -math.inf
        tol = EXACT_GRADIENT if exact else FLAT_GRADIENT
        optimiser = Lbfgs(loss, self.features.scale, self.features.reach, tol, self.metric)
        state = optimiser.start(weights)
        trusted = self._trust(loss, weights)
        while not state.finished and state.iteration < MOST_STEPS:
            before, state = state.weights, optimiser.step(state)
            if exact or trusted(state.weights):
                if len(state.steps) >= SHOWN and optimiser.decrement(state) <= left:
                    break
                continue
            step = state.weights - before
            for _ in range(HALVINGS):
                step = 0.5 * step
                if trusted(before + step):
                    return before + step, False
            return before, False
        return state.weights, True

    def _trust(self, loss: DrawnLoss, weights: Floats) -> Callable[[Floats], bool]:
        """Whether the draws can be trusted at other weights, for a descent that begins at these."""
        # Where older draws had led too far, fresh ones find few that carry the weight: the way back has to be open.
        least = min(self.least_seen, WAY_BACK * loss.seen(weights))
        here, most = loss.accepted(weights), MOST_CHANGE * math.sqrt(len(loss.draws) / len(loss.parts))
        return lambda there: loss.seen(there) >= least and abs(loss.accepted(there) - here) <= most

    def restraint(self, loss: DrawnLoss, weights: Floats) -> tuple[float, Floats]:
        """The restraint under which fits to halves of the draws, begun at some weights, are best on the other halves.

        With it comes the mean of these two fits, to begin the fit to all draws at.
        """
        # A relaxation that is known exactly has all trajectories, and holds the loss as far as the draws are trusted.
        held = float(loss.shares @ (loss.draws.relaxed > 0.0))
        if held >= HELD or not loss.draws.noise.any():
            return 0.0, weights
        halves = [loss.over(half) for half in loss.draws.halves()]
        if not all(half.draws.whole for half in halves):
            return RESTRAINTS[-1], weights
        for half in halves:
            half.doubt(doubts(half, weights))
        chosen, least, found, fits = 0.0, math.inf, weights, [weights, weights]
        for restraint in RESTRAINTS:
            fits = [self(half.restrained(restraint), fit)[0] for half, fit in zip(halves, fits, strict=True)]
            held_out = sum(half(fit).loss for half, fit in zip(halves, reversed(fits), strict=True))
            if not held_out < least:
                break
            chosen, least, found = restraint, held_out, 0.5 * (fits[0] + fits[1])
        return chosen, found


# ---- Rounds of weighted draws: each is minimised over by L-BFGS, and judged by the next one's draws


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


# ---- Rounds given the start: one source of draws for each start of the demonstrations, side by side.
#
# log Z is then the mean over demonstrations of log Z(s_0): a part for each start, with the share of the
# demonstrations that start there (see `draws`). Draws are divided in the same shares.


MakeSource = Callable[[Task], tuple[XorDistribution | RejectDistribution, Source]]
"""A source of draws for a task of one start or a joint one, and the engine behind it."""


def rounds(task: Task, settings: FitSettings, make: MakeSource) -> RoundsRun:
    """Rounds over one source, or over one per start."""
    parts = settings.learned(task).by_start()
    made = [make(part) for _, part in parts]
    base, source = made[0]
    if len(made) > 1:
        base = Chooser(task.law(), settings.engine).joint_reject()  # for questions about all valid trajectories
        source = PartSources([one for _, one in made], np.array([share for share, _ in parts]))
    return RoundsRun(task, settings, source, lambda: warn_undetermined(base, task, settings, "where its steps did"))


class PartSources:
    """Sources side by side as one: batches of all parts in every round."""

    def __init__(self, sources: Sequence[Source], shares: Floats) -> None:
        self.sources, self.parts = sources, shares
        self._whole: dict[int, Batch] = {}  # parts that were read as a whole, which are the same every time

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        plan, info = Plan(), Info()
        for part, source in enumerate(self.sources):
            own, spent = source.first(self.parts[part] * wanted, rng)
            plan |= _named(own, part)
            info += spent
        return plan, info

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        batches = []
        for part, source in enumerate(self.sources):
            if part not in self._whole:
                batch = source.read(_own(plan, part), weights, rng)
                if not batch.draws.noise.any():
                    self._whole[part] = batch._replace(info=Info())
            else:
                batch = self._whole[part]
            batches.append(batch)
        draws = batches[0].draws
        for part, batch in enumerate(batches[1:], start=1):
            draws = draws.joined(batch.draws.of_part(part))
        info = sum((batch.info for batch in batches), Info())
        n_lost, sees_all = sum(one.n_lost for one in batches), all(one.sees_all for one in batches)
        details = {name: max(one.details[name] for one in batches) for name in batches[0].details}
        return Batch(draws, info, n_lost, sees_all, details)

    @property
    def relaxed(self) -> Relaxed | None:
        return None if self.sources[0].relaxed is None else self._relaxed

    def _relaxed(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        log_z, mean = np.zeros(len(shares)), np.zeros(len(weights))
        for part in np.flatnonzero(shares if shares.any() else self.parts).tolist():
            known = self.sources[part].relaxed
            assert known is not None
            log_z[part : part + 1], own = known(weights, shares[part : part + 1])
            mean += own
        return log_z, mean

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        after = Plan()
        for part, source in enumerate(self.sources):
            own = _own(plan, part)
            if part not in self._whole:
                own = source.next(own, weights, loss.of_part(part), self.parts[part] * effective, last)
            after |= _named(own, part)
        return after

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        return {}


def _named(plan: Plan, part: int) -> Plan:
    return {f"{part}.{name}": value for name, value in plan.items()}


def _own(plan: Plan, part: int) -> Plan:
    return {name.removeprefix(f"{part}."): value for name, value in plan.items() if name.startswith(f"{part}.")}
