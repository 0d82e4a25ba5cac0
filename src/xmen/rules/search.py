"""Greedy search for rules: one is added at a time, the reward is refitted, and superfluous rules are dropped again.

Every change raises the likelihood by more, or lowers it by less, than one rule has to be worth: the search ends.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import joblib
import numpy as np
from scipy.optimize import minimize_scalar

from xmen.constraints.constraint import Constraint, Usually, conjunction, usual_rules, usually
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine
from xmen.errors import InfeasibleError, LearningWarning, ProductTooLargeError
from xmen.events import Bools
from xmen.learners.xmen import XMEN
from xmen.machines.tables import CompiledConstraint
from xmen.options import Options
from xmen.product.watch import Machine, join
from xmen.rewards import Floats
from xmen.rules.templates import Candidate
from xmen.worlds import MDP, Network, Trajectory, Walks

# ---- How strong the evidence for a rule is: its gain in nats, and the probability of such a gain by chance.
#
# A rule that the share q of n demonstrations keeps, and that the model keeps with probability P < q, raises their mean
# log-likelihood by
#
#     gain = q log(q / P) + (1 - q) log((1 - q) / (1 - P))          -log P where all of them keep it.
#
# Where some break it the rule is one that is usually kept, and this is what the weight w that makes P equal q gains. Of
# trips with a P_i each it is the most of q w - mean log(1 - P_i + P_i exp(w)).
#
# Were the model true, the rule would be kept that often with probability at most exp(-n gain) (P^n where all keep it).
# The smallest of m such numbers is below level / m with probability at most `level`: that is the correction.

EQUAL = 1e-9  # gains that differ by less are the same


def gain_of(log_kept: float, broken: float, share: float) -> float:
    """The gain of a rule with P = exp(log_kept) and 1 - P = broken, of which the share q of demonstrations is kept."""
    log_p = log_kept if broken > 0.5 else math.log1p(-broken)  # the one that loses no digits
    if share == 1.0:
        return max(0.0, -log_p)
    if log_p >= math.log(share):
        return 0.0
    return share * (math.log(share) - log_p) + (1 - share) * (math.log(1 - share) - math.log(broken))


MOST_NATS = 50.0  # of the weight of a rule that is kept wherever it can be


def gain_of_trips(each: Floats, weights: Floats, share: float) -> float:
    """The gain of a rule that the model keeps with these P_i (n,), in trips with weights (n,), and some break."""

    def loss(w: float) -> float:
        return float(weights @ np.log1p(each * np.expm1(w)) - share * w)

    found = minimize_scalar(loss, bounds=(0.0, MOST_NATS), method="bounded", options={"xatol": 1e-9})
    return max(0.0, -float(found.fun))


def effective_number(weights: Floats) -> float:
    """Kish's number of demonstrations (sum w)^2 / sum w^2: their number where all weights are equal."""
    return float(weights.sum()) ** 2 / float(weights @ weights)


@dataclass(frozen=True)
class Level(Options):
    """When a gain counts: n demonstrations, m candidates tried, the level of the whole search, the least gain."""

    n: float
    m: int
    level: float
    min_gain: float

    @property
    def least(self) -> float:
        """The smallest gain that passes, in nats per demonstration."""
        return max(self.min_gain, self.demonstrations_for(1.0) / self.n)

    def passes(self, gain: float) -> bool:
        """Whether a gain passes both the level and `min_gain`."""
        return gain >= self.least and gain > EQUAL

    def decides(self, increment: float) -> bool:
        """Whether a stronger rule gains so much more than a weaker one that n demonstrations would not by chance.

        One comparison of two rules: nothing to correct for.
        """
        return increment > EQUAL and increment >= max(self.min_gain, -math.log(self.level) / self.n)

    def chance(self, gain: float) -> float:
        """The probability that some rule of the m gains this much by chance, at most 1."""
        return math.exp(min(0.0, math.log(max(1, self.m)) - self.n * gain))

    def demonstrations_for(self, gain: float) -> float:
        """How many demonstrations it takes until this gain per demonstration is significant."""
        return math.log(max(1, self.m) / self.level) / gain


# ---- The model under the rules so far, and how likely it keeps a candidate: exactly where that fits, else estimated

N_DRAWS = 20_000  # trajectories behind an estimate
FEWEST_DRAWS = 200  # accepted ones without which nothing is estimated
KEPT_BYTES = 200_000_000  # of joined machines that are kept between rounds


@dataclass(frozen=True)
class Kept:
    """P(c) as log_kept and 1 - P(c) as broken (exactly 0 only where c is certain), with the error of log_kept.

    Of trips log_kept is a mean, and `each` has the P(c) of every demonstration's pair (n,), and their weights (n,).
    """

    log_kept: float
    broken: float
    std: float = 0.0
    each: tuple[Floats, Floats] | None = field(default=None, compare=False)

    @property
    def exact(self) -> bool:
        """Whether this is no estimate."""
        return self.std == 0.0

    @property
    def certain(self) -> bool:
        """Whether every trajectory is known to keep it."""
        return self.exact and self.broken == 0.0


class Shared:
    """What the models of one search hand on: joined machines, and candidates whose product did not fit before."""

    def __init__(self, world: MDP) -> None:
        self._world, self._room = world, KEPT_BYTES
        self._machines: dict[Constraint, Machine | None] = {}
        self.too_large: set[Constraint] = set()

    def __reduce__(self) -> "tuple[type[Shared], tuple[MDP]]":
        return Shared, (self._world,)  # the rest is found again when it is asked for

    def machine(self, constraint: Constraint) -> Machine | None:
        """The candidate as one machine, joined once for all rounds as far as there is room; None if it is too large."""
        if constraint in self._machines:
            return self._machines[constraint]
        world, machine = self._world, None
        if not world.unbounded:
            machine = join(CompiledConstraint(constraint, world), world.max_length)
        size = 1000 if machine is None else machine.letters.nbytes + machine.step.nbytes + machine.accepts.nbytes
        if size <= self._room:
            self._machines[constraint] = machine
            self._room -= size
        return machine


@dataclass
class Model(ABC):
    """A reward fitted under `multiplied`; the rules in `rejecting` did not fit the product, and reject its draws."""

    setting: Any  # a RuleInference
    fitted: XMEN
    multiplied: list[Constraint]
    rejecting: list[Constraint]
    shared: Shared

    def __getstate__(self) -> dict[str, Any]:
        remade = ("_accepted", "_exact", "_log_z")  # when they are asked for again
        return {name: value for name, value in vars(self).items() if name not in remade}

    def keeps(self, constraint: Constraint) -> Kept:
        """How likely a trajectory of the model keeps the constraint."""
        exact = None if self.rejecting or constraint in self.shared.too_large else self._exactly(constraint)
        return self._by_draws(constraint) if exact is None else exact

    @abstractmethod
    def implies(self, strong: Constraint, weak: Constraint) -> bool:
        """Whether every trajectory of the model that keeps the one keeps the other, as far as that is known."""

    @abstractmethod
    def _exactly(self, constraint: Constraint) -> Kept | None:
        """The answer of an exact engine; None, and a note in `shared`, where there is no room for it."""

    @abstractmethod
    def _draw(self) -> Walks:
        """Trajectories of the model under `multiplied`, the same ones whoever asks."""

    @cached_property
    def _accepted(self) -> Walks:
        drawn = self._draw()
        return drawn[CompiledConstraint(conjunction(self.rejecting), drawn.world).check(drawn)]

    def _by_draws(self, constraint: Constraint) -> Kept:
        drawn, n = self._accepted, len(self._accepted)
        if n < FEWEST_DRAWS:
            return Kept(0.0, 0.0, math.inf)
        share = float(np.mean(CompiledConstraint(constraint, drawn.world).check(drawn)))
        share = max(share, 3.0 / n)  # with none of n, at most 3 / n (19 times of 20): no gain is claimed beyond that
        return Kept(math.log(share), 1.0 - share, math.sqrt(max(1.0 - share, 1.0 / n) / (share * n)))


# ---- The model on one world: candidates by the chain, by a product of their own, or by draws

CANDIDATE_NODES = 50_000  # of a product that is built for one candidate alone
GAIN_ROUNDING = 1e-12  # of a difference of two log Z


class WorldModel(Model):
    """The model of trajectories in one MDP."""

    @cached_property
    def _exact(self) -> ExactDistribution:
        d = self.fitted.distribution()
        assert isinstance(d, ExactDistribution)
        return d

    def _draw(self) -> Walks:
        return Walks.of(self.setting.world, self._exact.sample(N_DRAWS, seed=self.setting.seed or 0))

    def _exactly(self, constraint: Constraint) -> Kept | None:
        mass = self._exact.mass(self.shared.machine(constraint))
        if mass is not None and mass.kept > 0:
            return Kept(math.log(mass.kept), mass.broken)
        # No room, too unlikely for ordinary numbers, or impossible: the product's log space can tell.
        most = CANDIDATE_NODES if self.setting.max_nodes is None else min(CANDIDATE_NODES, self.setting.max_nodes)
        try:
            log_kept = self._exact.log_probability(CompiledConstraint(constraint, self.setting.world), most)
        except ProductTooLargeError:
            self.shared.too_large.add(constraint)
            return None if mass is None else Kept(-math.inf, 1.0)
        return Kept(0.0, 0.0) if log_kept >= -GAIN_ROUNDING else Kept(log_kept, -math.expm1(log_kept))

    def implies(self, strong: Constraint, weak: Constraint) -> bool:
        return not self.rejecting and self.keeps(strong & ~weak) == Kept(-math.inf, 1.0)


# ---- The model on a network: every demonstration is a trip, and P(c) is that of trips with its start and goal.
#
# The gain is the mean over demonstrations of log Z - log Z_c of their pairs, by one factorisation for all goals.

CERTAIN = 1e-10  # log Z of all pairs closer than this: no trip makes a difference
MOST_PAIRS = 200  # that trips are drawn for


@dataclass
class TripModel(Model):
    """The model of trips through a network, between the pairs of the demonstrations with their weights."""

    trips: Walks
    weights: Floats

    @cached_property
    def _log_z(self) -> Floats:
        return self._partitions([])

    def _partitions(self, more: list[Constraint]) -> Floats:
        """log Z of each demonstration's pair, under further rules; InfeasibleError where a pair has no trip left."""
        network, budget = self.setting.world, EngineSettings(max_nodes=self.setting.max_nodes).node_budget
        if more:  # a machine without an end, such as a share, would go on for ever
            budget = min(budget, max(CANDIDATE_NODES, 2 * network.n_states * max(1, len(self.multiplied))))
        rules, (starts, goals) = conjunction([*self.multiplied, *more]), (self.trips.starts, self.trips.last_states)
        engine = TripEngine(network, rules, starts, goals, self.weights, budget, self.setting.discount)
        known = vars(self.fitted).get("rule_weights_", {})
        reward = np.append(
            self.fitted.reward_.table()[network.source, network.action],
            [known.get(one.label, one.weight) for one in usual_rules(rules)],
        )
        return np.asarray(engine.log_z(reward)[engine.pair_of])

    def _exactly(self, constraint: Constraint) -> Kept | None:
        try:
            each = np.minimum(0.0, self._partitions([constraint]) - self._log_z)
        except ProductTooLargeError:
            self.shared.too_large.add(constraint)
            return None
        except InfeasibleError:  # some pairs have no trip that keeps it: the others' weights are counted twice
            twice = self._partitions([usually(constraint, weight=math.log(2.0))]) - self._log_z
            return Kept(-math.inf, 1.0, each=(np.clip(np.expm1(twice), 0.0, 1.0), self.weights))
        if np.abs(each).max() <= CERTAIN:
            return Kept(0.0, 0.0)
        log_kept = float(self.weights @ each)
        return Kept(log_kept, -math.expm1(log_kept), each=(np.exp(each), self.weights))

    def implies(self, strong: Constraint, weak: Constraint) -> bool:
        if self.rejecting:
            return False
        try:
            difference = self._partitions([strong & weak]) - self._partitions([strong])
        except (ProductTooLargeError, InfeasibleError):
            return False
        return bool(np.abs(difference).max() <= CERTAIN)

    def _draw(self) -> Walks:
        """Trips of the demonstrations' pairs, in their shares: of many pairs, some that stand evenly among them."""
        network, ends = self.setting.world, np.stack([self.trips.starts, self.trips.last_states], axis=1)
        pairs, which = np.unique(ends, axis=0, return_inverse=True)
        shares = np.bincount(which.reshape(-1), weights=self.weights)
        chosen = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_PAIRS)).astype(np.int64))
        numbers = np.ceil(N_DRAWS * shares[chosen] / shares[chosen].sum()).astype(np.int64)
        drawn: list[Trajectory] = []
        for (start, goal), n in zip(pairs[chosen].tolist(), numbers.tolist(), strict=True):
            pair = {"start": network.name_of(start), "goal": network.name_of(goal)}
            drawn += self.fitted.sample(n, seed=self.setting.seed or 0, **pair)
        return Walks.of(network.any_task, drawn)


def fit_model(
    setting: Any, rules: Sequence[Constraint], demos: Sequence[Trajectory], weights: Floats, shared: Shared
) -> Model:
    """The reward fitted under the rules, in their order; the last hard one is left out where they do not all fit."""
    multiplied, rejecting = list(rules), list[Constraint]()
    of_all: dict[str, Any] = {"discount": setting.discount, "l2": setting.l2, "max_nodes": setting.max_nodes}
    while True:
        fitted = XMEN(setting.world, conjunction(multiplied), setting.features, method="exact", **of_all)
        try:
            with warnings.catch_warnings():
                # That weights run to infinity, or mean nothing, is no news to a search for rules.
                warnings.simplefilter("ignore", LearningWarning)
                fitted.fit(demos, sample_weight=weights)
        except ProductTooLargeError:
            hard = [k for k, rule in enumerate(multiplied) if not isinstance(rule, Usually)]
            if not hard:
                raise
            rejecting.insert(0, multiplied.pop(hard[-1]))
            continue
        if isinstance(setting.world, Network):
            trips = Walks.of(setting.world.any_task, demos)
            return TripModel(setting, fitted, multiplied, rejecting, shared, trips, weights / weights.sum())
        return WorldModel(setting, fitted, multiplied, rejecting, shared)


ERRORS = 3.0  # standard errors by which an estimated gain is lowered before it counts


@dataclass(frozen=True)
class Scored:
    """A candidate under one model: the share of the demonstrations that keeps it, and how likely it is."""

    candidate: Candidate
    share: float
    kept: Kept
    instead_of: "Scored | None" = None  # where it was taken: the stronger rule that adds too little

    @property
    def gain(self) -> float:
        """Its gain, in nats per demonstration."""
        if self.share == 1.0 or self.kept.each is None:
            return gain_of(self.kept.log_kept, self.kept.broken, self.share)
        return gain_of_trips(*self.kept.each, self.share)

    @property
    def sure(self) -> float:
        """The gain, less three standard errors where it is an estimate: what it is ranked and judged by."""
        return self.gain - ERRORS * self.kept.std if self.kept.std else self.gain

    @property
    def rule(self) -> Constraint:
        """The rule; one that is usually kept where some demonstrations break it."""
        return self.candidate.rule if self.share == 1.0 else usually(self.candidate.rule)

    @property
    def text(self) -> str:
        """The rule in the user's names."""
        return self.candidate.text if self.share == 1.0 else f"usually({self.candidate.text})"


@dataclass(frozen=True)
class Found:
    """The answer: the rules in the order taken, the models without and with them, and the first and last ranking."""

    taken: list[Scored]
    start: Model
    model: Model
    first: list[Scored]  # every admissible candidate under the model without rules
    last: list[Scored]  # ... and under all rules found
    level: Level


@dataclass(frozen=True)
class Search:
    """What is searched: candidates with the demonstrations (m, n) that keep each."""

    setting: Any  # a RuleInference: what all models share, and when to stop
    known: list[Constraint]
    demos: Sequence[Trajectory]
    weights: Floats
    candidates: list[Candidate]
    keeps: Bools

    def run(self) -> Found:
        """Rules until none passes."""
        taken: list[Scored] = []
        model = start = self._fitted(taken)
        first = ranking = self._rank(model)
        while len(taken) < self.setting.max_rules:
            choice = self._choose(model, ranking)
            if choice is None:
                break
            taken = self._without_superfluous([*taken, choice])
            model = self._fitted(taken)
            ranking = self._rank(model)
        return Found(taken, start, model, first, ranking, self._level)

    @property
    def _level(self) -> Level:
        return Level(effective_number(self.weights), len(self.candidates), self.setting.level, self.setting.min_gain)

    def _fitted(self, taken: list[Scored]) -> Model:
        rules, alive = [*self.known, *(one.rule.named(one.text) for one in taken)], self.weights > 0
        demos = [tau for tau, here in zip(self.demos, alive.tolist(), strict=True) if here]
        return fit_model(self.setting, rules, demos, self.weights[alive], self._shared)

    @cached_property
    def _shared(self) -> Shared:
        return Shared(self.setting.world.any_task)

    def _rank(self, model: Model, only: int | None = None) -> list[Scored]:
        """All candidates that enough demonstrations keep, by falling gain, the simplest of equals first; or one."""
        shares = self.keeps @ self.weights / self.weights.sum()
        shares[np.all(self.keeps[:, self.weights > 0], axis=1)] = 1.0  # not 1 - 1e-16
        rows = [only] if only is not None else np.flatnonzero(shares >= 1.0 - self.setting.tolerance - 1e-12).tolist()
        asked = [self.candidates[row].tabled for row in rows]
        kept = list(map(model.keeps, asked[:1]))  # by itself: it compiles what the others share
        threads = joblib.Parallel(n_jobs=self.setting.n_jobs, prefer="threads")
        kept += threads(joblib.delayed(model.keeps)(one) for one in asked[1:])
        scored = (Scored(self.candidates[row], float(shares[row]), one) for row, one in zip(rows, kept, strict=True))
        rest = sorted(scored, key=lambda one: -one.sure)
        ranking: list[Scored] = []
        while rest:
            same = [one for one in rest if one.sure >= rest[0].sure - EQUAL]
            ranking += sorted(same, key=lambda one: one.candidate.simplicity)
            rest = rest[len(same) :]
        return ranking

    def _choose(self, model: Model, ranking: list[Scored]) -> Scored | None:
        """The best candidate, or a simpler one that it implies and is hardly better than; None if none passes."""
        level = self._level
        ranking = [one for one in ranking if one.share == 1.0 or one.kept.exact]  # a weight that is learned has to fit
        if not ranking or not level.passes(ranking[0].sure):
            return None
        best = ranking[0]
        near = [one for one in ranking[1:] if level.passes(one.sure) and not level.decides(best.sure - one.sure)]
        pool = [best, *(one for one in near if model.implies(best.candidate.tabled, one.candidate.tabled))]
        choice = min(pool, key=lambda one: one.candidate.simplicity)
        return replace(choice, instead_of=best if best.sure > choice.sure + EQUAL else None)

    def _without_superfluous(self, taken: list[Scored]) -> list[Scored]:
        """Drop, one after the other, the rule that is worth the least next to the others, if it no longer passes."""
        while len(taken) > 1:
            worth = [self._worth(taken, i) for i in range(len(taken) - 1)]
            least = min(range(len(worth)), key=lambda i: worth[i].sure)
            if self._level.passes(worth[least].sure):
                break
            del taken[least]
            # What came after it was gained next to it, and is now gained without it.
            taken = [replace(self._worth(taken[: i + 1], i), instead_of=one.instead_of) for i, one in enumerate(taken)]
        return taken

    def _worth(self, taken: list[Scored], which: int) -> Scored:
        """One of the rules as if it were the last to be taken."""
        model = self._fitted(taken[:which] + taken[which + 1 :])
        texts = [one.text for one in self.candidates]
        return self._rank(model, only=texts.index(taken[which].candidate.text))[0]
