"""method="paper": Algorithm 1 of X-MEN (Ding and Xue, 2022), with rewards in place of costs; linear, and neural.

Per iteration k = 1 .. K: M1 demonstrations; 2 M2 draws from Q(tau) in proportion to exp(theta . f) I_C by PAWS within
delta; E_P[f] from the split sample with the dynamics D as importance weights; a step of size eta; the answer is the
mean of iterates. Where D is constant Q is P: all draws count, without weights. All K searches for the number of
parities share `failure` equally, so that together they fail with at most that probability.

What is added, and left out again by `letter=True`:

- Features are divided by their span over valid trajectories: other units of theta.
- Steps are taken in the metric of the draws so far (`PaperRun.move`): as long in every direction as the loss is curved
  there, and not as short in all as the worst theta needs. A learning_rate, and burn_in=0, have one plain step for all
  iterations, as the theorem below has it.
- They are counted from the mean of the demonstrations, which changes neither P nor its gradient: bias and noise of a
  ratio of two means grow with the distance of f from 0, and at the optimum E_P[f] is that mean.
- An estimate of E_P[f] outside the range of f is moved to its border, which only brings it nearer to the truth: a ratio
  of two means has no bound of its own.
- Where D is constant, the draws of both halves are in one mean.
- The mean is of the iterates after the first `burn_in` share of them: Algorithm 1 with the rest of the iterations,
  started where the first ones ended. burn_in=0 has all of them, in units of the spans.

A run that has taken its K steps converged if the averaged iterates had stopped going anywhere (`PaperRun.drift`).

**What is true of it** (docs/theory.md has the proof). With steps eta <= 1 / Lambda on a convex, Lambda-smooth loss, and
gradients whose bias and mean squared noise, given the past, are at most B and V, while E|theta_k - theta*| <= R,

    E L(mean of theta_1 .. theta_K) - L* <= |theta_0 - theta*|^2 / (2 eta K) + eta V (1 + eta Lambda) / 2 + B R.

A larger delta is a larger B, and asks for no shorter steps.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.settings import EngineSettings
from xmen.engines.xor import XorDistribution
from xmen.errors import EngineError, GuaranteeWarning, notify
from xmen.methods import runs
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.identify import warn_undetermined
from xmen.methods.neural import DEFAULT_MAX_ITER as NETWORK_MAX_ITER
from xmen.methods.runs import FitSettings, Likelihood, LossEstimate, Method, Outcome, Run, Task
from xmen.options import require_choice, require_number, require_whole
from xmen.oracles.formula import Bits
from xmen.progress import Monitor
from xmen.rewards.linear import DenseFeatures, Features, Floats
from xmen.sampling import CellPlan, Info, PartitionBound, PawsPlan, Space, find_level, sample_cells
from xmen.sampling.paws import OPENING, largest_mean
from xmen.storage.models import RunState
from xmen.worlds import EdgeWeights, Walks

# ---- The proposal of the paper: Q(tau) in proportion to exp(theta-hat . f) I_C, drawn by PAWS, without the dynamics D.
#
# A draw from Q stands for P by its importance weight P/Q, which is D(tau) up to a constant where theta-hat = theta. One
# coordinate more than the paper has lets Q carry a power of the dynamics, D^beta: weights are then D^(1 - beta).
#
# **Certificates.** A number of parities that was certified at one theta-hat serves those nearby. A level search
# certifies, but for its failure probability, that k parities leave cells of mean size Z / (u 2^k) <= mu, copies being
# thinned to sizes of their weights over the largest possible weight u of a copy. So
#
#     log Z <= log mu + k log 2 + log u,
#
# which says nothing of copies any more. At another theta-hat every trajectory's weight has changed by at most the
# *drift*, the largest (theta-hat' - theta-hat) . f(tau) + (beta' - beta) log D(tau), and so has Z. A bound on Z is all
# that a draw needs: it has the number of parities and the size P - 1 at which cells are given up that suit the bound
# best (`CellPlan`, over thinned copies), without a question to the oracle and within the same failure probability. The
# drift makes draws fail more often, until a fresh search is cheaper.

SPAN_STEP = 0.25  # nats; spans are rounded up to multiples of it, so that plans are solved once for many rewards
ADDER_ERROR = 0.05  # nats by which a solver's adder may misjudge a weight; it costs draws, and nothing of delta
PATIENCE = 2.0  # bits of drift after which a fresh search is cheaper
PER_UNIT = 1.4  # thinned copies count for 1/2 to 1 each
LOG2 = math.log(2.0)


class Certificate(NamedTuple):
    """log Z of Q at a place is at most `log_mass`."""

    log_mass: float
    place: Floats  # (d + 1,): theta-hat and beta
    centre: Floats  # (d + 1,): the mean of f and log D over the draws there, by which the costs of drifting are judged

    def paid(self, place: Floats, drift: float) -> float:
        """The bits by which the bound has moved away from what Z is likely to have done."""
        return (drift - float((place - self.place) @ self.centre)) / LOG2


def certify(plan: PawsPlan, log_unit: float, k: int) -> float:
    """The bound on log Z that k, found by a search over copies of a weight of at most exp(log_unit), certifies."""
    return math.log(largest_mean(plan.pivot, plan.faithful)) + k * LOG2 + log_unit


class Pool(NamedTuple):
    """Draws from Q, and the cost."""

    walks: Walks
    features: Floats  # f(tau) (n, d)
    log_dynamics: Floats  # log D (n,)
    log_weights: Floats  # log of P/Q up to a constant (n,)
    k: int  # parities that cut the cells
    log2_mass: float  # about log2 Z of Q, from what the cells held
    search: Info
    draws: Info
    certificate: Certificate  # what k rests on

    @property
    def account(self) -> dict[str, float]:
        """For the history: what the draws cost, and how many of P they are worth."""
        spent = self.search + self.draws
        return {
            "parities": self.k,
            "cells": spent.n_cells,
            "search_cells": self.search.n_cells,
            "queries": spent.n_queries,
            "solutions": spent.n_points,
            "failures": spent.n_failures,
            "effective_sample_size": effective_sample_size(self.log_weights),
        }


class Proposal:
    """Q for any theta-hat over the trajectories behind one oracle."""

    def __init__(self, base: XorDistribution, features: Features) -> None:
        self.hashed, self.product = base.hashed, base.relaxation.product
        self.world, self.discount, self.features = base.world, base.discount, features

    @cached_property
    def constant_dynamics(self) -> bool:
        """Whether D(tau) is the same for all trajectories: then Q is P, and no weights are needed."""
        starts = self.world.start[self.world.start > 0]
        return self.world.deterministic and bool(np.all(starts == starts[0]))

    @cached_property
    def listed_features(self) -> Floats | None:
        """f(tau) of all valid trajectories (n, d), where they are listed."""
        walks = self.hashed.walks
        return None if walks is None else self.rows(walks)

    @cached_property
    def _listed_dynamics(self) -> Floats:
        assert self.hashed.walks is not None
        return self.log_dynamics(self.hashed.walks)

    def rows(self, walks: Walks) -> Floats:
        """f(tau) of each walk (n, d)."""
        return self.features.contract(self.hashed.spelled.usual.rows(walks, self.discount))

    def log_dynamics(self, walks: Walks) -> Floats:
        """log D(tau) of each walk (n,)."""
        return walks.scores(EdgeWeights.of(self.world))

    def range_of(self, table: Floats, beta: float) -> tuple[float, float]:
        """Bounds on R + beta log D over valid trajectories: attained where they are listed, else by relaxation."""
        return self.hashed.log_range(EdgeWeights.of(self.world, table, self.discount).tempered(beta), self.product)

    def draw(
        self,
        weights: Floats,
        shift: Floats,
        beta: float,
        n: int,
        delta: float,
        failure: float,
        rng: np.random.Generator,
        log2_mass: float = math.nan,
        certificate: Certificate | None = None,
    ) -> Pool:
        """n draws from Q with theta-hat = weights + shift, within `delta` of Q except with probability `failure`.

        `log2_mass` of an earlier pool says where the search for k starts (nan: at 0): a level is tested once wherever
        that is, so that it costs nothing of the guarantee. Its `certificate` saves the search while theta-hat is near.
        """
        hashed, table, scores = self.hashed, self.features.table(weights + shift), None
        if self.listed_features is None:
            (low, high), rounding = self.range_of(table, beta), ADDER_ERROR
        else:
            scores = self.listed_features @ (weights + shift) + (beta * self._listed_dynamics if beta else 0.0)
            low, high, rounding = float(scores.min()), float(scores.max()), 0.0
        span = SPAN_STEP * math.ceil((high - low) / SPAN_STEP)
        plan = _solve(delta, failure, log_span=span, n_hash=hashed.decoder.width, rounding=rounding)
        edges = EdgeWeights.of(self.world, table, self.discount).tempered(beta)
        embedding = hashed.embedding(edges, plan.levels(high), scores, rounding)
        copies = embedding.residual()  # of a size of Z / u in all, of which k leaves about P
        log_unit = copies.log_max
        offset = math.log2(plan.pivot) + log_unit / LOG2
        place, search, drawn, log_mass = np.append(weights + shift, beta), Info(), None, math.nan
        if certificate is not None and (carried := self._carried(certificate, place)) is not None:
            with suppress(EngineError):  # the bound has drifted far above the truth: cells are empty
                drawn = _draw(copies, delta, carried, log2_mass, n, rng)
        if drawn is None or certificate is None:
            start = 0 if math.isnan(log2_mass) else max(0, round(log2_mass - offset))
            k, search = find_level(embedding, plan, rng, start=start)
            log_mass, certificate = certify(plan, log_unit, k), None
            drawn = _draw(copies, delta, log_mass, k + offset, n, rng)
        m, bits, draws = drawn
        walks = hashed.decoder.decode(embedding.project(bits))
        rows, log_dynamics = self.rows(walks), self.log_dynamics(walks)
        log_weights = (1.0 - beta) * log_dynamics - rows @ shift
        if certificate is None:
            centre = np.append(rows.mean(axis=0), log_dynamics.mean())
            certificate = Certificate(log_mass, place, centre)
        held = math.log2(max(draws.n_points, 1) / draws.n_cells / PER_UNIT) + m + log_unit / LOG2
        return Pool(walks, rows, log_dynamics, log_weights, m, held, search, draws, certificate)

    def _carried(self, certificate: Certificate, place: Floats) -> float | None:
        """The bound on log Z that a certificate gives here; None where a search is due."""
        moved = place - certificate.place
        drift = self.range_of(self.features.table(moved[:-1]), float(moved[-1]))[1]
        return None if certificate.paid(place, drift) > PATIENCE else certificate.log_mass + drift


def _draw(
    copies: Space, delta: float, log_mass: float, log2_mass: float, n: int, rng: np.random.Generator
) -> tuple[int, Bits, Info]:
    """Parities, n copies within delta of their probability where log Z <= log_mass, and the cost."""
    likely = min((log2_mass - 1.0) * LOG2, log_mass)  # a bit less, so that cells may be emptier than expected
    bound = PartitionBound(-math.inf, likely, log_mass, copies.log_max, 0.0, 0, PER_UNIT, Info())
    plan = CellPlan.solve(delta, bound, overhead=OPENING)
    return plan.m, *sample_cells(copies, plan, n, rng)


_solve = lru_cache(maxsize=256)(partial(PawsPlan.solve, thinned=True))


def split_shares(log_weights: Floats) -> Floats:
    """What each draw counts in Algorithm 1's E_P[f]: mean of w f over the first half, over the mean of w of the second.

    A ratio of two independent means: biased by O(1/M2) unless w is constant, and without a bound of its own.
    """
    half = len(log_weights) // 2
    w = np.exp(np.minimum(log_weights - log_weights[half:].max(), 300.0))  # far from overflow
    return np.where(np.arange(len(w)) < half, w / half / w[half:].mean(), 0.0)


def self_normalised_shares(log_weights: Floats) -> Floats:
    """w over the sum of w, all draws in both: biased by O(1/n) too, but a mean of features that were drawn."""
    w = np.exp(log_weights - log_weights.max())
    return np.asarray(w / w.sum())


def effective_sample_size(log_weights: Floats) -> float:
    """(sum w)^2 / sum w^2: how many draws from P the weighted draws from Q are worth."""
    return float(1.0 / (self_normalised_shares(log_weights) ** 2).sum())


DEFAULT_DELTA = 1.1  # 1.03 asks a solver 1.6 times as often, 1.5 0.7 times
DEFAULT_FAILURE = 0.05  # of all iterations together
PROPOSALS = ("fixed", "appendix", "adaptive", "dynamics")
STEP = 0.4  # of Newton's: half of it ends 1.2 to 1.5 times as far off on 9x9, 0.5 asks a solver a sixth more often
MOST_CURVED = 2_000  # features, beyond which their curvature is too large a matrix: steps are plain
LEAST_AVERAGED = 20  # iterates, below which noise hides any drift


@dataclass(frozen=True)
class PaperState(RunState):
    """Where a run stands."""

    weights: Floats  # (d,): theta times the features' spans, as is `average`
    average: Floats
    shift: Floats  # (d + 1,): theta-hat less theta in the same units, then beta times the span of log D
    log2_mass: float
    certificate: dict[str, Any]
    curvature: Floats  # (d, d): of the loss in the same units, where the run has been, as far as its draws tell
    iteration: int
    seed: np.random.SeedSequence  # iteration k draws from its k-th stream, so that no generator needs to be stored
    slopes: Floats  # (d,): the sum of the gradients, in the units of `weights`, at the iterates that are averaged
    slopes_squared: Floats


@dataclass(frozen=True, repr=False)
class Paper(Method):
    """Algorithm 1 of the paper: draws from exp(theta . f) I_C by PAWS, importance weights, plain gradient steps.

    The answer is the mean of the learner's `max_iter` iterates after the first `burn_in` share of them.

    Parameters
    ----------
    n_samples : int
        Draws per iteration, 2 M2, 2 or more.
    n_demonstrations : int, optional
        Demonstrations per iteration, M1; all of them if not given, which costs nothing and has no noise.
    delta : float, optional
        The factor within which draws have their probabilities; 1.1 if not given.
    failure : float, optional
        The probability that the guarantee fails in any of the iterations; 0.05 if not given.
    proposal : {"fixed", "appendix", "adaptive", "dynamics"}
        Theta-hat: theta itself, as in the paper's experiments; moved down E_Q[|f|^2 w^2], as its appendix proposes;
        down E_Q[w^2], the variance of the weights w themselves; or with a power of D as well.
    self_normalised : bool
        One ratio over all draws in place of the split sample.
    burn_in : float
        The share of iterations left out of the mean.
    learning_rate : float, optional
        One plain step for all iterations, in units of the spans. If not given, 0.4 of a Newton step in the metric of
        the draws; with burn_in=0 or by the letter 1 / smoothness, the largest for which a theorem is known.
    start : sequence of float, optional
        theta_0, one number per feature; zeros if not given.
    letter : bool
        Algorithm 1 as printed: f in the user's units and counted from 0, the split sample whatever the world, no
        estimate moved to the range of f, and the mean of all iterates.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Paper(n_samples=32, delta=1.05)
    Paper(n_samples=32, delta=1.05)
    """

    n_samples: int = 16
    n_demonstrations: int | None = None
    delta: float | None = None
    failure: float | None = None
    proposal: str = "fixed"
    self_normalised: bool = False
    burn_in: float = 0.5
    learning_rate: float | None = None
    start: Sequence[float] | None = None
    letter: bool = False

    name = "paper"
    default_max_iter = 500
    plans_with_max_iter = True
    takes_every_step = True

    def __post_init__(self) -> None:
        require_whole("n_samples", self.n_samples, least=2)
        require_whole("n_demonstrations", self.n_demonstrations, least=1, optional=True)
        EngineSettings(delta=self.delta, failure=self.failure)  # refuses what no sampler can promise
        require_choice("proposal", self.proposal, PROPOSALS)
        if self.letter and (self.self_normalised or self.proposal != "fixed"):
            raise EngineError("letter=True is Algorithm 1 as printed: leave self_normalised and proposal out.")
        require_number("burn_in", self.burn_in, least=0.0, below=1.0)
        require_number("learning_rate", self.learning_rate, above=0.0, optional=True)
        if self.start is not None:
            try:
                values = np.asarray(self.start, dtype=np.float64)
            except (TypeError, ValueError):
                values = np.empty((0, 0))
            if values.ndim != 1 or not np.isfinite(values).all():
                raise EngineError(f"start is a list of finite numbers, one per feature; got {self.start!r:.60}.")
            object.__setattr__(self, "start", tuple(values.tolist()))  # records of equal numbers are equal

    def check(self, engine: EngineSettings, given: str | None, neural: bool) -> None:
        if given is not None:
            why = "method='paper' with given='start' makes no sense: Algorithm 1 draws from the joint distribution"
            raise EngineError(f"{why}. Use method='exact' or 'cells', or leave given out.")
        linear = self.letter or self.proposal != "fixed" or self.learning_rate is not None or self.start is not None
        if neural and linear:
            raise EngineError(
                "method='paper' with a network takes the steps of its training: letter, proposal, learning_rate and "
                "start are for linear rewards. Leave them out, and set training=xm.Training(...)."
            )

    def accuracy(self, n_iterations: int) -> tuple[float, float]:
        """delta, and the failure that each iteration may have so that all together have `failure` (union bound)."""
        delta = DEFAULT_DELTA if self.delta is None else float(self.delta)
        return delta, (DEFAULT_FAILURE if self.failure is None else float(self.failure)) / n_iterations

    def shares(self, log_weights: Floats, weighted: bool) -> Floats:
        """What each draw counts in E_P[f] (n,): as its weight says; where Q is P, all alike unless by the letter."""
        if not (weighted or self.letter):
            return np.full(len(log_weights), 1.0 / len(log_weights))
        return (self_normalised_shares if self.self_normalised else split_shares)(log_weights)

    def run(self, task: Task, settings: FitSettings) -> "PaperRun":
        return PaperRun(task, self, settings, Chooser(task.joint_law(), settings.engine).joint_xor())

    def likelihood(self, task: Task, settings: FitSettings) -> "PaperLikelihood":
        base = Chooser(task.joint_law(), settings.engine).joint_xor()
        return PaperLikelihood(base, task.demos, self, settings.most_iterations(NETWORK_MAX_ITER))


class PaperRun(Run[PaperState]):
    """K steps of stochastic gradient descent by draws from the proposal; after them the average is the answer."""

    state_type = PaperState

    def __init__(self, task: Task, method: Paper, settings: FitSettings, base: XorDistribution) -> None:
        self.task, self.method, self.settings, self.base = task, method, settings, base
        features, self.l2, self.tol = task.features, runs.read_l2(settings.l2, task.features.d), settings.tolerance()
        self.proposal = Proposal(base, features)
        self.weighted = not self.proposal.constant_dynamics
        self.demo_rows = features.contract(task.demos.rows(task.discount))
        self.demo_rows += task.demo_features - task.demos.weights @ self.demo_rows  # shares that were given
        self.centre: Floats = 0.0 * task.demo_features if method.letter else task.demo_features
        self.max_iter = settings.most_iterations(method.default_max_iter)
        self.n_skipped = 0 if method.letter else int(float(method.burn_in) * self.max_iter)
        self.bounds = compute_bounds(self.proposal, not method.letter)
        self.delta, self.failure = method.accuracy(self.max_iter)
        if method.start is not None and len(method.start) != features.d:
            raise EngineError(f"start has {len(method.start)} numbers, and there are {features.d} features: one each.")
        # l2/2 theta^2 of each feature adds its curvature in these units.
        self.penalty: Floats = self.l2 / self.bounds.span**2
        self.smoothness = self.bounds.sigma2_squared + float(self.penalty.max())
        plain = method.letter or float(method.burn_in) == 0.0 or method.learning_rate is not None
        self.plain = plain or features.d > MOST_CURVED or self.bounds.sigma2_squared == 0.0
        largest = 1.0 / self.smoothness if self.smoothness > 0.0 else 1.0  # anything goes where the loss is constant
        self.step_size = largest if method.learning_rate is None else float(method.learning_rate)
        if self.step_size > largest * (1.0 + SAME) and self.smoothness > 0.0:
            told = f"learning_rate = {self.step_size:g} is above {largest:.4g} = 1 / smoothness, the largest step for"
            notify(f"{told} which there is a guarantee. Leave learning_rate out to have that step.", GuaranteeWarning)

    def start(self) -> PaperState:
        zeros = np.zeros(self.task.features.d)
        given = self.settings.start if self.method.start is None else np.array(self.method.start)
        first = zeros if given is None else given * self.bounds.span
        seed = runs.seed_sequence(self.settings.seed)
        curvature = self.bounds.sigma2_squared * np.eye(0 if self.plain else len(zeros))
        return PaperState(first, first, np.zeros(len(zeros) + 1), math.nan, {}, curvature, 0, seed, zeros, zeros)

    def finished(self, state: PaperState) -> bool:
        return state.iteration >= self.max_iter

    def step(self, state: PaperState) -> tuple[PaperState, dict[str, float]]:
        rng = np.random.default_rng(runs.child_seed(state.seed, state.iteration))
        m1, demos, span = self.method.n_demonstrations, self.task.demos, self.bounds.span
        demo_mean: Floats = self.task.demo_features
        if m1 is not None:
            demo_mean = self.demo_rows[rng.choice(len(demos), size=int(m1), p=demos.weights)].mean(axis=0)
        theta, shift = state.weights / span, state.shift[:-1] / span
        beta = min(1.0, max(0.0, float(state.shift[-1]) / self._dynamics_span))
        known = state.log2_mass, Certificate(**state.certificate) if state.certificate else None
        n = int(self.method.n_samples)
        pool = self.proposal.draw(theta, shift, beta, n, self.delta, self.failure, rng, *known)
        gradient = self.estimate(pool) - demo_mean + self.l2 * theta
        slope = gradient / span
        weights = state.weights + self.move(slope, state.curvature)
        k = state.iteration + 1
        n_averaged = k - self.n_skipped if k > self.n_skipped else k  # a run may be stopped before there is a burn-in
        average = weights if n_averaged <= 1 else state.average + (weights - state.average) / n_averaged
        moved = replace(state, weights=weights, average=average, shift=self._move(state.shift, pool), iteration=k)
        moved = replace(moved, log2_mass=pool.log2_mass, certificate=pool.certificate._asdict())
        if not self.plain:
            away = (pool.features - self.centre) / span
            share = n / (min(n, len(span)) + k * n)  # sigma2^2 counts as one iteration, or as a draw for each feature
            moved = replace(moved, curvature=state.curvature + share * (away.T @ away / n - state.curvature))
        if k > self.n_skipped:
            moved = replace(moved, slopes=state.slopes + slope, slopes_squared=state.slopes_squared + slope**2)
        # PAWS gives samples, not log Z: the loss is not known.
        return moved, {"loss": math.nan, "gradient_norm": float(np.linalg.norm(gradient)), **pool.account}

    def estimate(self, pool: Pool) -> Floats:
        """E_P[f] from draws of Q (d,), inside the range of f unless by the letter."""
        shares = self.method.shares(pool.log_weights, self.weighted)
        mean = self.centre + shares @ (pool.features - self.centre)
        return np.asarray(mean) if self.method.letter else np.clip(mean, self.bounds.low, self.bounds.high)

    def move(self, slope: Floats, curvature: Floats) -> Floats:
        """The step against a gradient, in units of the spans.

        Plain, or STEP of Newton's with the mean square by which all draws before this iteration's differ from the
        demonstrations' mean. The Hessian is the variance of P alone; to it that adds how far the model still had to
        go, since on its way it is a mixture of what it draws and what was demonstrated.
        """
        if self.plain:
            return -self.step_size * slope
        return np.asarray(-STEP * np.linalg.solve(curvature + np.diag(self.penalty), slope))

    @cached_property
    def _dynamics_span(self) -> float:
        """The span of log D, in nats."""
        zero = np.zeros((self.proposal.world.n_states, self.proposal.world.n_actions))
        low, high = self.proposal.range_of(zero, 1.0)
        return max(high - low, 1e-12)

    def _move(self, shift: Floats, pool: Pool) -> Floats:
        """The next theta-hat: one step down log E_Q[(P/Q)^2], or log E_Q[|f|^2 (P/Q)^2], the appendix's.

        That is convex, and its Hessian, the sum of the covariances under P^2/Q and Q, is at most (d + 1)/2 in units of
        the spans: the step is one that never overshoots.
        """
        kind = self.method.proposal
        if kind == "fixed" or not self.weighted:
            return shift
        rows = np.column_stack([pool.features / self.bounds.span, pool.log_dynamics / self._dynamics_span])
        log_weights = pool.log_weights
        if kind == "appendix":  # |grad R|^2 = |f|^2, of which half joins the log of the weights that will be squared
            log_weights = log_weights + np.log(np.maximum(np.linalg.norm(rows[:, :-1], axis=1), 1e-300))
        # E_Q[w^2] = E_P[w] has the gradient -E_P[w (f - E_Q[f])] in theta-hat; both means are of the draws at hand.
        descent = self_normalised_shares(2.0 * log_weights) @ rows - rows.mean(axis=0)
        moved: Floats = shift + 2.0 / len(shift) * descent
        moved[-1] = np.clip(moved[-1], 0.0, self._dynamics_span) if kind == "dynamics" else 0.0
        return moved

    def drift(self, state: PaperState) -> tuple[float, float]:
        """The norm of the mean gradient over the averaged iterates, in units of the spans, and its standard error.

        That mean, times the steps, is the way from the first of these iterates to the last. While they are on their
        way to the optimum it is above the error; around the optimum they turn back, and it falls below. They stop where
        the mean of the draws meets the demonstrations: what draws are off, within delta, is not seen. (nan, nan) for
        fewer than two iterates.
        """
        n = state.iteration - self.n_skipped
        if n < 2:
            return math.nan, math.nan
        mean = state.slopes / n
        variance = np.maximum(state.slopes_squared / n - mean**2, 0.0) / (n - 1)
        return float(np.linalg.norm(mean)), math.sqrt(float(variance.sum()))

    def answer(self, state: PaperState) -> Floats:
        return state.average / self.bounds.span

    def conclude(self, state: PaperState, monitor: Monitor) -> Outcome:
        n, (size, noise) = state.iteration - self.n_skipped, self.drift(state)
        converged = self.finished(state) and n >= LEAST_AVERAGED and size <= noise + self.tol
        if not (converged or monitor.stopped or monitor.interrupted):
            why = (
                f"their gradients have a mean of norm {size:.3g}, above its standard error of {noise:.3g} (in units of "
                "the features' spans): the iterates are still on their way"
                if n >= LEAST_AVERAGED
                else f"fewer than {LEAST_AVERAGED} iterates cannot tell whether they are still on their way"
            )
            end = f"after max_iter = {self.max_iter} iterations, of which the last {n} are averaged"
            runs.warn_of_end(f"{end}, {why}. Raise max_iter")
        if not monitor.stopped:  # short of the optimum, weights are finite whatever they are
            warn_undetermined(self.base, self.task, self.settings, "where its steps did")
        return Outcome(self.answer(state), converged, None)


# ---- The constants of the theorems, computed: the range of f(tau), sigma2, and with it the smoothness of the loss.
#
# In units in which each feature spans 1 over the valid trajectories, theta is multiplied by the same spans. The loss is
# as smooth as the largest eigenvalue of its Hessian, which the paper's sigma2^2, a sum of variances, is at least.

SAME = 1e-9  # spans below this share of a feature's size are rounding errors


@dataclass(frozen=True)
class Bounds:
    """What is known of a task whatever theta is."""

    low: Floats  # (d,): the range of f_k(tau) over valid trajectories, in the user's units
    high: Floats
    span: Floats  # high - low, 1 where that is 0
    sigma2_squared: float  # a bound on the sum of the variances of f / span under P for *every* theta


def compute_bounds(proposal: Proposal, scaled: bool = True) -> Bounds:
    """In units of the spans, or the user's own.

    Ranges come from the list of trajectories, or from two dynamic programs per feature over the relaxation. For any
    distribution, the variances of f add up to E|f - E f|^2 <= E|f - m|^2 for every point m. With m in the middle of
    the ranges this is at most the largest |f(tau) - m|^2 in the list, or d/4 from the ranges alone, in their units.
    """
    listed = proposal.listed_features
    if listed is not None:
        low, high = listed.min(axis=0), listed.max(axis=0)
    else:
        pairs = [proposal.range_of(proposal.features.table(unit), 0.0) for unit in np.eye(proposal.features.d)]
        low, high = np.array(list(zip(*pairs, strict=True)))
    varies = high - low > SAME * np.maximum(np.abs(low), np.abs(high))
    span = np.where(varies, high - low, 1.0)
    ranges = varies.astype(np.float64) if scaled else (high - low) * varies
    span = span if scaled else np.ones(len(span))
    if listed is None:
        return Bounds(low, high, span, float(ranges @ ranges) / 4.0)
    away = ((listed - (low + high) / 2.0) / span)[:, varies]
    return Bounds(low, high, span, float((away**2).sum(axis=1).max(initial=0.0)))


# ---- Algorithm 1 with a neural reward in the place of theta . f: a variant that the paper mentions and does not run.
#
# The gradient of the loss in the parameters is that of sum r(s, a) (visits under P - demonstrated visits). The expected
# visits come from PAWS draws of exp(R) I_C within delta, with the dynamics as importance weights, as in the linear
# case; the steps are those of the training's optimiser. The theorem, about convex losses, says nothing here.


class PaperLikelihood(Likelihood):
    """dL/dr by PAWS draws and demonstrations, as many of each as the method says; the loss itself is not known."""

    def __init__(self, base: XorDistribution, demos: Demonstrations, method: Paper, n_iterations: int) -> None:
        self.base, self.demos, self.method = base, demos, method
        self.delta, self.failure = method.accuracy(n_iterations)

    def __call__(self, table: Floats) -> LossEstimate:
        proposal, demos = Proposal(self.base, DenseFeatures(table[:, :, None])), self.demos
        start = float(self.parities) if self.parities else math.nan
        n, one = int(self.method.n_samples), np.ones(1)
        pool = proposal.draw(one, 0.0 * one, 0.0, n, self.delta, self.failure, self._rng, log2_mass=start)
        self.parities = max(1, round(pool.log2_mass))
        shares = self.method.shares(pool.log_weights, weighted=not proposal.constant_dynamics)
        rows = pool.walks.visit_rows(self.base.discount)
        visits = np.asarray(shares @ rows)
        squares = shares**2
        variances = squares @ rows.power(2) - 2.0 * visits * (squares @ rows) + squares.sum() * visits**2
        m1 = self.method.n_demonstrations
        if m1 is None:
            demonstrated = demos.visits(self.base.discount)
        else:
            chosen = self._rng.choice(len(demos), size=m1, p=demos.weights)
            demonstrated = demos.walks[chosen].visits(self.base.discount, np.full(m1, 1.0 / m1))
        spread = float(np.sqrt(np.maximum(variances, 0.0).sum()))
        return LossEstimate(math.nan, visits.reshape(table.shape) - demonstrated, math.nan, spread, pool.account)
