"""Rounds of weighted draws: each is minimised over by L-BFGS, and judged by the next one's draws.

Draws serve every theta (`loss`), so that fresh ones for every step would be waste. A round's draws first *judge* the
weights at hand, which were not fitted to them, and end the fit when the gradient is within its noise, the distance from
the optimum is within `tol` nats, and they cannot have missed anything of weight. Else they join the others, and L-BFGS
finds the minimum over all of them: a convex, deterministic problem without a step size. It goes only as far as draws
can be trusted (`Descent`), and the next round draws from where it came to.

How many draws the next round needs follows from the distance that their number lets expect, tr(H^+ V) / 2, which falls
as one over their number. Where they come from, and how, is the business of a `Source`: hash cells or rejection.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import chdtrc, chndtrinc, chndtrix

from xmen.engines.choose import Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.xor import XorDistribution
from xmen.errors import GuaranteeWarning, notify
from xmen.methods.identify import warn_undetermined
from xmen.methods.likelihood import Lbfgs
from xmen.methods.loss import ALL, DrawnLoss, Draws, Relaxation, Spread, Table
from xmen.methods.runs import FitSettings, Outcome, Run, Task, Value, child_seed, seed_sequence, warn_of_end
from xmen.progress import Monitor
from xmen.rewards.linear import Features, Floats
from xmen.sampling import Info
from xmen.storage.models import RunState

Plan: TypeAlias = dict[str, float]
"""What to draw next, in numbers that can be stored; only its source reads it."""


class Batch(NamedTuple):
    """Draws, and what they cost."""

    draws: Draws
    info: Info
    n_lost: int = 0  # cells, on the way
    # Nothing of much weight where they were drawn can have been missed: draws from P there do not miss it, while others
    # tell nothing of what they never met.
    sees_all: bool = True
    details: Mapping[str, float] = MappingProxyType({})  # what else to record of them


class Source(ABC):
    """Draws batches of weighted trajectories; every draw is a function of the plan, the weights and the generator."""

    parts: Floats = ALL  # (P,): the shares of the parts of the loss that it draws for
    relaxation: Relaxation | None = None  # of what it draws from; None where no batch has a control
    first_share: float = 1.0  # of the wanted draws, made in the first round

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        """The plan of the first round, for about `wanted` draws, and what it cost to find."""
        return {"draws": math.ceil(self.first_share * wanted)}, Info()

    @abstractmethod
    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        """One batch, drawn as planned when the weights were found."""

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        """The plan of the next round, to be worth `effective` draws from P at these weights.

        `last`: they are expected to confirm these weights, for which they have to see all.
        """
        return {"draws": math.ceil(effective)}

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        """Further attributes of the model, by name."""
        return {}


# ---- How far weights are from the optimum, in nats, as far as draws can tell that they were not fitted to.
#
# Near the optimum L(theta) - L* = g^T H^+ g / 2, with g the gradient at theta and H the Hessian there (Newton's
# decrement). Draws that theta was not fitted to give g-hat = g + noise with covariance V, so that q = g-hat^T H^+ g-hat
# has the mean 2 (L - L*) + tr(H^+ V). With A = H^+ V, q is about s times a chi-square variable of nu degrees of freedom
# and noncentrality 2 (L - L*) / s, where s = tr(A^2) / tr(A) and nu = tr(A)^2 / tr(A^2): that gives the bound.
#
# Weights that minimise L-hat over draws with noise V have g of covariance V: they are tr(H^+ V) / 2 nats away on
# average, which is what a fit expects of itself before it is judged.

LEVEL = 0.95  # of the bound
SURE = -math.log(1.0 - LEVEL)  # about 3: a rate of which n trials show nothing is below 3 / n 19 times in 20
JUDGES = 2.0 ** np.arange(-6.0, 0.25, 0.25)  # times as many draws as weights were fitted to, from which to choose
EXACT_ERROR = 1e-9  # nats: what an exact answer may be off
FLAT = 1e-10  # share of the largest curvature below which a direction has none


class Judgement(NamedTuple):
    """The loss, its gradient and their spread at some weights, as draws see them that these were not fitted to."""

    value: Value
    spread: Spread
    distance: float  # from the optimum in nats, as estimated
    bound: float  # above the true distance 95 times in 100
    within_noise: bool  # the weights follow their own draws' accidents no more than draws of that number have to
    enough: bool  # these draws are enough to tell


class Metric:
    """H^+ of a Hessian: the inverse on the directions that have curvature, in units of the features' scale.

    Of a diagonal alone, (d,), features count as if each stood alone; so do covariances of these, which come as (d,).
    """

    def __init__(self, hessian: Floats, scale: Floats) -> None:
        self.scale = scale
        if hessian.ndim == 1:
            values = hessian / scale**2
            kept = values > FLAT * max(values.max(initial=0.0), 0.0)
            self.root: Floats = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
            return
        values, vectors = np.linalg.eigh(hessian / scale / scale[:, None])
        kept = values > FLAT * max(values[-1], 0.0)
        self.root = vectors[:, kept] / np.sqrt(values[kept])

    def vector(self, gradient: Floats) -> Floats:
        """y with y . y = g^T H^+ g; of one gradient (d,), or of several as rows (n, d)."""
        scaled = gradient / self.scale
        return np.asarray(scaled * self.root if self.root.ndim == 1 else scaled @ self.root)

    def matrix(self, noise: Floats) -> Floats:
        """The covariance of `vector` of a gradient with this covariance."""
        if self.root.ndim == 1:
            return np.asarray(noise / self.scale**2 * self.root**2)
        return np.asarray(self.root.T @ (noise / self.scale / self.scale[:, None]) @ self.root)

    def weights_std(self, noise: Floats) -> Floats:
        """The standard errors (d,) of weights that minimise a loss with this noise: sqrt diag H^+ V H^+."""
        middle, root = self.matrix(noise), self.root
        squares = middle * root**2 if root.ndim == 1 else np.sum((root @ middle) * root, axis=1)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / self.scale)


def trace(covariance: Floats) -> float:
    """The sum of the variances."""
    return float(variances(covariance).sum())


def judge(weights: Floats, fresh: DrawnLoss, metric: Metric, fitted_noise: Floats, least_seen: float) -> Judgement:
    """Look at weights with draws they were not fitted to; `fitted_noise` is that of the draws they were.

    At least `least_seen` of the fresh ones have to carry the weight.
    """
    fresh = fresh.shared(weights)
    spread, value = Spread(fresh, weights), fresh(weights)
    y = metric.vector(value.gradient)
    here, there = metric.matrix(spread.noise), metric.matrix(fitted_noise)
    q = float(y @ y)
    distance = max(0.5 * (q - trace(here)), 0.0) + spread.unseen
    bound = max(0.5 * largest_decrement(q, here), 0.5 * trace(there)) + (SURE * spread.unseen + EXACT_ERROR)
    scale, freedom = moments(here + there)
    quiet = freedom == 0.0 or float(chdtrc(freedom, q / scale)) > 0.01  # noise exceeds this gradient as often
    return Judgement(value, spread, distance, bound, quiet, freedom == 0.0 or fresh.seen(weights) >= least_seen)


def judges_needed(noise: Floats, distance: float, tol: float, bound: float) -> float:
    """The fewest draws that are expected to agree, in units of those that weights were fitted to, 1 or less.

    They agree 9 times in 10 that weights `distance` nats from the optimum are within `tol`, and surely within `bound`.
    `noise` is that of the draws fitted to, as `Metric.matrix` has it; that of others falls as one over their number.
    """
    scale, freedom = moments(noise)
    if freedom == 0.0:
        return float(JUDGES[0])
    scales = scale / JUDGES
    q = chndtrix(0.9, freedom, 2.0 * distance / scales)
    near, sure = q - freedom <= 2.0 * tol / scales, chndtrinc(q, freedom, 1.0 - LEVEL) <= 2.0 * bound / scales
    enough = np.flatnonzero(near & sure)
    return float(JUDGES[enough[0]]) if len(enough) else 1.0


def variances(covariance: Floats) -> Floats:
    """The diagonal (d,)."""
    return covariance if covariance.ndim == 1 else covariance.diagonal()


def moments(covariance: Floats) -> tuple[float, float]:
    """s and nu of the chi-square that y . y is like, for y of this covariance: (0, 0) where there is no noise."""
    total, square = trace(covariance), float((covariance**2).sum())
    return (square / total, total**2 / square) if total > 0.0 and square > 0.0 else (0.0, 0.0)


def largest_decrement(q: float, noise: Floats) -> float:
    """The largest g^T H^+ g of which a q this small would be seen 5 times in 100."""
    scale, freedom = moments(noise)
    if freedom == 0.0:
        return q
    found = float(chndtrinc(q / scale, freedom, 1.0 - LEVEL))
    return scale * found if np.isfinite(found) else 0.0


# ---- The doubt of a known trajectory is its leverage, from 0 to 1: how little draws tell of others like it.
#
# With u = f(x) - mean f, the leverage of a known x is u^T (G + K)^+ u, where G adds up u u^T over the draws, each by
# the number of draws it is worth, and K over all that is known. For weights per state: of k demonstrations through a
# state that c draws pass, each has about 1 / (k + c). Together they stand for k / (k + c) of a draw, at most for one,
# so that what they add to log Z falls with the number of draws faster than its noise does.


def doubts(loss: DrawnLoss, weights: Floats) -> Floats:
    """The share of a draw (n,) that each known trajectory stands for at these weights, 0 of all others. O(n d^2)."""
    draws, share = loss.draws, np.zeros(len(loss.draws))
    known = np.flatnonzero(draws.known & (draws.noise[draws.batch] > 0.0))
    if len(known):
        batches = np.bincount(draws.part, minlength=len(loss.parts))[draws.part[draws.batch]]
        worth = loss.worth(weights) + draws.known / batches  # every batch of a part has all that is known of it
        table = Table(draws, loss.features, worth, dense=True)
        metric = Metric(table.squares(worth), loss.features.scale)
        for some, away in table.blocks(known):
            share[some] = np.minimum(np.square(metric.vector(away)).sum(axis=1), 1.0)
    return share


# ---- The minimum over draws, as far as they can be trusted: not where few of them carry the weight, nor at infinity.
#
# With a weight per state and some thousand draws there are directions along which every draw loses weight against the
# demonstrations, although other valid trajectories gain it. The loss over the draws falls along them for ever, and
# weights of 100 and more look best, which is ruin for what was not drawn. So small weights are preferred, by
# restraint / 2 * |theta|^2 in units of the features. How much is found on halves of the draws: the weakest restraint
# under which a fit to one half still gains on the other half. More draws bear less restraint, and all valid
# trajectories none.

RESTRAINTS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)  # nats per squared unit of a feature, tried in turn
HALVINGS = 10  # of a step that goes too far


class Descent:
    """L-BFGS on losses over draws; wherever it goes, at least `least_seen` draws carry the weight.

    With a control it ends where less than `left` nats are to be gained. `metric` is as that of `Lbfgs`.
    """

    def __init__(self, features: Features, least_seen: float, left: float = 0.0, metric: Floats | None = None) -> None:
        self.features, self.least_seen, self.left, self.metric = features, least_seen, left, metric

    def __call__(self, loss: DrawnLoss, weights: Floats) -> tuple[Floats, bool]:
        """The minimum, or how far draws carry the weight on the way to it; whether that was all the way."""
        exact = not loss.draws.noise.any()
        # Where nothing holds the loss, the gain that is left is not seen from how it curves here.
        left = self.left if loss.draws.control.any() else -math.inf
        tol = 1e-7 if exact else 1e-6  # of the gradient, in units of the features' scale
        optimiser = Lbfgs(loss, self.features.scale, self.features.reach, tol, self.metric)
        state = optimiser.start(weights)
        # Where older draws had led too far, fresh ones find few that carry the weight: the way back has to be open, to
        # half of them. With 0.25 and 1: no change with one weight per state; with four features 56 and 58 of 60 bounds
        # cover, and 10,544 and 5,557 solutions are read.
        least = min(self.least_seen, 0.5 * loss.seen(weights))
        # Draws that are not valid cannot speak for longer ones that they never saw, and fewer of them have seen less.
        here, most = loss.accepted(weights), 0.02 * math.sqrt(len(loss.draws) / len(loss.parts))

        def trusted(there: Floats) -> bool:
            return exact or (loss.seen(there) >= least and abs(loss.accepted(there) - here) <= most)

        while not state.finished and state.iteration < 500:
            before, state = state.weights, optimiser.step(state)
            if not trusted(state.weights):
                steps = (0.5**k * (state.weights - before) for k in range(1, HALVINGS + 1))
                return next((before + step for step in steps if trusted(before + step)), before), False
            if len(state.steps) >= 8 and optimiser.decrement(state) <= left:  # so many show enough of the curvature
                break
        return state.weights, True

    def restraint(self, loss: DrawnLoss, weights: Floats) -> tuple[float, Floats]:
        """The restraint under which fits to halves of the draws, begun at some weights, are best on the other halves.

        With it comes the mean of these two fits, to begin the fit to all draws at.
        """
        # A relaxation that is known exactly has all trajectories: that of half of the loss holds all of it, as far as
        # the draws are trusted.
        if loss.shares @ (loss.draws.control > 0.0) >= 0.5 or not loss.draws.noise.any():
            return 0.0, weights
        halves = [replace(loss, draws=half, doubt=None) for half in loss.draws.halves()]
        if not all(np.bincount(half.draws.batch, minlength=half.draws.n_batches).all() for half in halves):
            return RESTRAINTS[-1], weights
        halves = [replace(half, doubt=doubts(half, weights)) for half in halves]
        chosen, least, found, fits = 0.0, math.inf, weights, [weights, weights]
        for restraint in RESTRAINTS:
            fits = [self(half.restrained(restraint), fit)[0] for half, fit in zip(halves, fits, strict=True)]
            held_out = sum(half(fit).loss for half, fit in zip(halves, reversed(fits), strict=True))
            if not held_out < least:
                break
            chosen, least, found = restraint, held_out, 0.5 * (fits[0] + fits[1])
        return chosen, found


DEFAULT_MAX_ITER = 20  # rounds
DEFAULT_TOL = 0.005  # nats
# With these, of 100 fits to 8x8 grids that nothing was chosen on: four features to tol = 0.01, 99 answers within it and
# 99 bounds above the distance, 2,709 solutions a fit; one weight per state to 0.02, 98 and 96, 4,746 solutions.
AIMED = 0.7  # of tol: the expected distance that rounds aim at, so that the judge agrees
LEAST_TOL = 1e-12  # nats: what a tol of 0 is taken for
MOST_DRAWS = 2_000_000  # at hand, beyond which no more are made however small tol is; a quarter of them in one round
LOOSE = 2.0  # times tol: the bound of an answer that is good enough


@dataclass(frozen=True)
class RoundsState(RunState):
    """Where a run stands: the weights, all draws so far, and what to draw next."""

    weights: Floats  # those that are learned
    weights_std: Floats
    draws: dict[str, Any]
    plan: Plan
    iteration: int
    distance: float  # of the weights in nats; infinite where the draws were too few to reach a minimum
    bound: float  # on it; infinite until draws have judged that weights were not fitted to, and that miss nothing
    n_lost: int
    seed: np.random.SeedSequence  # round t uses its t-th child
    opening: dict[str, Any]  # where a run before the first round stands; empty where there is none or it is over
    finished: bool = False
    converged: bool = False


class RoundsRun(Run[RoundsState]):
    """Rounds over a source; `warn` tells of weights that nothing determines, `metric` (d,) is as that of `Lbfgs`."""

    state_type = RoundsState

    def __init__(
        self, task: Task, settings: FitSettings, source: Source, warn: Callable[[], None], metric: Floats | None = None
    ) -> None:
        self.settings, self.source, self.warn = settings, source, warn
        self.coordinates, learned = settings.coordinates(task.features.d), settings.learned(task)
        self.l2, self.tol = self.coordinates.l2[self.coordinates.free], settings.tolerance(DEFAULT_TOL)
        self.max_iter = settings.most_iterations(DEFAULT_MAX_ITER)
        self.features, self.demo_features = learned.features, learned.demo_features
        # What fixed weights add to the loss wherever the others are.
        self.constant = self.coordinates.penalised(self.coordinates.values, 0.0, np.zeros(task.features.d)).loss
        self.constant -= float(self.coordinates.values @ task.demo_features)
        self.least_seen = max(2.0 * self.features.d, 50.0)  # draws that carry the weight, wherever L-BFGS may go
        self.descent = Descent(self.features, self.least_seen, 0.03 * self.tol, metric)

    def start(self) -> RoundsState:
        begin = self.coordinates.values if self.settings.start is None else self.settings.start
        first = np.asarray(begin, dtype=np.float64)[self.coordinates.free]
        seed = seed_sequence(self.settings.seed)
        return RoundsState(first, np.zeros(len(first)), {}, {}, 0, math.inf, math.inf, 0, seed, {})

    def finished(self, state: RoundsState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: RoundsState) -> tuple[RoundsState, dict[str, float]]:
        rng = np.random.default_rng(child_seed(state.seed, state.iteration))
        plan, spent = state.plan, Info()
        if not plan:  # as many draws as would do if each were one from P at the optimum, and enough to move away from
            wanted = max(0.5 * self.features.d / max(AIMED * self.tol, LEAST_TOL), 4.0 * self.least_seen)
            plan, spent = self.source.first(min(wanted, MOST_DRAWS / 4), rng)
        batch = self.source.read(plan, state.weights, rng)
        spent += batch.info
        state = replace(state, plan=plan, iteration=state.iteration + 1, n_lost=state.n_lost + batch.n_lost)
        # Draws of a relaxation that weights have left behind would tell little of the next ones.
        left_behind = math.isinf(state.distance) and batch.draws.control.any()
        if not state.draws or left_behind or not batch.draws.noise.any():
            state, value, spread = self._minimise(state, batch.draws)
        else:
            weights, draws = state.weights, Draws(**state.draws)
            both = draws.joined(batch.draws)
            metric = Metric(Spread(self._loss(both).shared(weights), weights).hessian, self.features.scale)
            noise = Spread(self._loss(draws).shared(weights), weights).noise
            judged = judge(weights, self._loss(batch.draws), metric, noise, self.least_seen)
            value, spread, full = judged.value, judged.spread, len(both) > MOST_DRAWS
            near = max(judged.distance, state.distance, judged.bound / LOOSE) <= self.tol
            quiet = judged.within_noise or judged.bound <= self.tol
            agreed = judged.enough and near and quiet and batch.sees_all
            if agreed or full or state.iteration >= self.max_iter:
                bound = judged.bound if batch.sees_all else math.inf
                state = replace(state, distance=judged.distance, bound=bound, finished=agreed or full, converged=agreed)
            else:
                state = self._minimise(state, both)[0]
        noise = np.zeros(1) if spread is None else np.sqrt(np.maximum(variances(spread.noise), 0.0))
        return state, {
            "loss": value.loss + self.constant,
            "loss_std": 0.0 if spread is None else spread.log_partition_std,
            "gradient_norm": float(np.linalg.norm(value.gradient)),
            "gradient_std": float(np.linalg.norm(noise)),
            "round": state.iteration,
            "solutions": spent.n_points,
            "queries": spent.n_queries,
            "cells": batch.info.n_cells,
            "lost": batch.n_lost,
            **batch.details,
            "distance": state.distance,
            "distance_bound": state.bound,
        }

    def _loss(self, draws: Draws) -> DrawnLoss:
        return DrawnLoss(draws, self.features, self.demo_features, self.l2, self.source.parts, self.source.relaxation)

    def _minimise(self, state: RoundsState, draws: Draws) -> tuple[RoundsState, Value, Spread | None]:
        """The state at the minimum over all draws, with the plan of the next round; and loss and spread there."""
        loss, weights, controlled = self._loss(draws).shared(state.weights), state.weights, draws.control.any()
        loss = replace(loss, doubt=doubts(loss, weights))
        restraint, weights = self.descent.restraint(loss, weights)
        weights, reached = self.descent(loss.restrained(restraint), weights)
        if reached or not controlled:  # once more, with shares and doubts of where that came to
            loss = loss.shared(weights)
            loss = replace(loss, doubt=doubts(loss, weights))
            weights, reached = self.descent(loss.restrained(restraint), weights)
        if loss.relaxation is not None:
            # The few draws at hand may lead to where the weights of ever longer trips do not add up, or less than half
            # as many are valid: the next ones are made on the way there.
            least, halvings = 0.5 * float(loss.parts @ loss.acceptance(state.weights)), 0
            while not loss.parts @ loss.acceptance(weights) >= least and halvings < HALVINGS:
                weights, halvings, reached = 0.5 * (state.weights + weights), halvings + 1, False
            weights = weights if halvings < HALVINGS else state.weights
        loss = loss.shared(weights)
        state = replace(state, weights=weights, draws=loss.draws.as_arrays(), distance=math.inf, bound=math.inf)
        value = loss(weights)
        if not reached and controlled:  # as many again, from where these have led
            return state, value, None
        found = Spread(loss, weights)
        metric = Metric(found.hessian, self.features.scale)
        if reached:
            left = 0.5 * float(np.square(metric.vector(value.gradient)).sum())  # by L-BFGS
            state = replace(state, distance=left + 0.5 * trace(metric.matrix(found.error)))
        state = replace(state, weights_std=metric.weights_std(found.error))
        if not loss.draws.noise.any():  # else the bound is infinite: what these draws missed, they cannot tell
            bound, converged = state.distance + EXACT_ERROR, state.distance <= max(self.tol, EXACT_ERROR)
            return replace(state, bound=bound, finished=True, converged=converged), value, found
        last = state.distance <= max(self.tol, LEAST_TOL)
        growth = state.distance / max(AIMED * self.tol, LEAST_TOL) - 1.0  # times as many draws as there are
        if last:  # what they will not have seen may have half of the bound
            missed = SURE * found.unseen
            bound = LOOSE * self.tol - min(missed, self.tol)
            judges = judges_needed(metric.matrix(found.noise), state.distance, self.tol, bound)
            growth = max(growth, judges, missed / max(self.tol, LEAST_TOL))
        seen = min(max(growth, 0.0), 4.0) * max(loss.seen(weights), self.least_seen)
        effective = min(max(seen, 1.5 * self.least_seen), MOST_DRAWS / 4)  # half as many again, so that enough count
        return replace(state, plan=self.source.next(state.plan, weights, loss, effective, last)), value, found

    def answer(self, state: RoundsState) -> Floats:
        return self.coordinates.full(state.weights)

    def conclude(self, state: RoundsState, monitor: Monitor) -> Outcome:
        if not (state.converged or monitor.stopped or monitor.interrupted):
            warn_of_end(
                f"after {'' if state.finished else 'max_iter = '}{state.iteration} rounds the answer is about "
                f"{state.distance:.2g} nats from the optimum, and not surely within tol = {self.tol:g}"
                f"{' (no more draws are made). Raise tol' if state.finished else '. Raise max_iter or tol'}"
            )
        if state.n_lost:
            lost = f"{state.n_lost} cells were lost to a solver that hung or died. Hard cells are not like others"
            advice = "Raise time_limit, or cell_size for fewer parities."
            notify(f"{lost}: the answer may be biased. {advice}", GuaranteeWarning)
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            self.warn()
        std = self.coordinates.direction(state.weights_std)
        learned = {"distance_": state.distance, "distance_bound_": state.bound, "weights_std_": std}
        if state.draws:
            loss = self._loss(Draws(**state.draws)).shared(state.weights)
            learned |= self.source.learned(loss, state.weights)
        return Outcome(self.answer(state), state.converged, None, learned)


# ---- Given the start, log Z is the mean over demonstrations of log Z(s_0): a source and a part of the loss for each
# start, with the share of the demonstrations that start there. Draws are divided in the same shares.


def rounds(
    task: Task, settings: FitSettings, make: Callable[[Task], tuple[XorDistribution | RejectDistribution, Source]]
) -> RoundsRun:
    """Rounds over one source, or over one per start, each with the engine behind it as `make` has them for a task."""
    parts = settings.learned(task).by_start()
    made = [make(part) for _, part in parts]
    base, source = made[0]
    if len(made) > 1:
        base = Chooser(task.law(), settings.engine).joint_reject()  # for questions about all valid trajectories
        source = PartSources([one for _, one in made], np.array([share for share, _ in parts]))
    return RoundsRun(task, settings, source, lambda: warn_undetermined(base, task, settings, "where its steps did"))


class PartSources(Source):
    """Sources side by side as one: batches of all parts in every round."""

    def __init__(self, sources: Sequence[Source], shares: Floats) -> None:
        self.sources, self.parts = sources, shares
        self.relaxation = None if sources[0].relaxation is None else self._relaxation
        self._whole: dict[int, Batch] = {}  # parts that were read as a whole, which are the same every time

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        made = [source.first(share * wanted, rng) for source, share in zip(self.sources, self.parts, strict=True)]
        return _joined([plan for plan, _ in made]), sum((spent for _, spent in made), Info())

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        batches = []
        for part, source in enumerate(self.sources):
            batch = self._whole.get(part) or source.read(_of_part(plan, part), weights, rng)
            batches.append(batch)
            if not batch.draws.noise.any():
                self._whole[part] = batch._replace(info=Info())
        draws = batches[0].draws
        for part, batch in enumerate(batches[1:], start=1):
            draws = draws.joined(replace(batch.draws, part=np.full(batch.draws.n_batches, part)))
        info = sum((batch.info for batch in batches), Info())
        n_lost, sees_all = sum(one.n_lost for one in batches), all(one.sees_all for one in batches)
        details = {name: max(one.details[name] for one in batches) for name in batches[0].details}
        return Batch(draws, info, n_lost, sees_all, details)

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        plans = [_of_part(plan, part) for part in range(len(self.sources))]
        for part in set(range(len(plans))) - set(self._whole):
            share = self.parts[part] * effective
            plans[part] = self.sources[part].next(plans[part], weights, loss.of_part(part), share, last)
        return _joined(plans)

    def _relaxation(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        log_z, mean = np.zeros(len(shares)), np.zeros(len(weights))
        for part in np.flatnonzero(shares if shares.any() else self.parts).tolist():
            known = self.sources[part].relaxation
            assert known is not None
            log_z[part : part + 1], own = known(weights, shares[part : part + 1])
            mean += own
        return log_z, mean


def _joined(plans: Sequence[Plan]) -> Plan:
    return {f"{part}.{name}": value for part, plan in enumerate(plans) for name, value in plan.items()}


def _of_part(plan: Plan, part: int) -> Plan:
    return {name.removeprefix(f"{part}."): value for name, value in plan.items() if name.startswith(f"{part}.")}
