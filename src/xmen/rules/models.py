"""How strong the evidence for a rule is: its gain in nats, and the probability of such a gain by chance.

A rule that the share q of n demonstrations keeps, and that the model keeps with probability P < q, raises their mean
log-likelihood by

    gain = q log(q / P) + (1 - q) log((1 - q) / (1 - P))          -log P where all of them keep it.

Were the model true, the rule would be kept that often with probability at most exp(-n gain) (P^n where all keep it).
The smallest of m such numbers is below level / m with probability at most `level`: that is the correction.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine
from xmen.errors import InfeasibleError, LearningWarning, ProductTooLargeError
from xmen.learners.xmen import XMEN
from xmen.machines.tables import CompiledConstraint
from xmen.product.watch import Machine, join
from xmen.rewards import Floats
from xmen.rules.templates import Positions, batch_of
from xmen.worlds import MDP, Network, Trajectory, Walks

EQUAL = 1e-9  # gains that differ by less are the same


def gain_of(log_kept: float, broken: float, share: float) -> float:
    """The gain of a rule with P = exp(log_kept) and 1 - P = broken, of which the share q of demonstrations is kept."""
    log_p = log_kept if broken > 0.5 else math.log1p(-broken)  # the one that loses no digits
    if share == 1.0:
        return max(0.0, -log_p)
    if log_p >= math.log(share):
        return 0.0
    return share * (math.log(share) - log_p) + (1 - share) * (math.log(1 - share) - math.log(broken))


def effective_number(weights: Floats) -> float:
    """Kish's number of demonstrations (sum w)^2 / sum w^2: their number where all weights are equal."""
    total = float(weights.sum())
    return total**2 / float(weights @ weights) if total else 0.0


@dataclass(frozen=True)
class Level:
    """When a gain counts: n demonstrations, m candidates tried, the level of the whole search, the least gain."""

    n: float
    m: int
    level: float
    min_gain: float

    @property
    def least(self) -> float:
        """The smallest gain that passes, in nats per demonstration."""
        return max(self.min_gain, math.log(max(1, self.m) / self.level) / self.n) if self.n else np.inf

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
    """P(c) as log_kept and 1 - P(c) as broken (exactly 0 only where c is certain), with the error of log_kept."""

    log_kept: float
    broken: float
    std: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether this is no estimate."""
        return self.std == 0.0

    @property
    def certain(self) -> bool:
        """Whether every trajectory is known to keep it."""
        return self.exact and self.broken == 0.0


@dataclass(frozen=True)
class SearchSettings:
    """What all models of one search share."""

    world: MDP | Network
    features: ArrayLike | None
    discount: float
    l2: float
    max_nodes: int | None
    seed: int


class Shared:
    """What the models of one search hand on: joined machines, and candidates whose product did not fit before."""

    def __init__(self, world: MDP) -> None:
        self._world, self._room = world, KEPT_BYTES
        self._machines: dict[Constraint, Machine | None] = {}
        self.too_large: set[Constraint] = set()

    def __reduce__(self) -> tuple[type[Shared], tuple[MDP]]:
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

    setting: SearchSettings
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

    def implies(self, strong: Constraint, weak: Constraint) -> bool:
        """Whether every trajectory of the model that keeps the one keeps the other, as far as that is known."""
        return not self.rejecting and self._implies(strong, weak)

    def prepare(self) -> None:
        """Compile what all candidates share, before they are tried side by side."""
        if self.rejecting:
            _ = self._accepted
        else:
            self._compile()

    @abstractmethod
    def _compile(self) -> None:
        """Make what `_exactly` needs."""

    @abstractmethod
    def _exactly(self, constraint: Constraint) -> Kept | None:
        """The answer of an exact engine; None, and a note in `shared`, where there is no room for it."""

    @abstractmethod
    def _implies(self, strong: Constraint, weak: Constraint) -> bool:
        """`implies`, where all rules so far fit."""

    @abstractmethod
    def _draw(self) -> Positions:
        """Trajectories of the model under `multiplied`, the same ones whoever asks."""

    @cached_property
    def _accepted(self) -> Positions:
        drawn = self._draw()
        valid = np.ones(len(drawn), dtype=np.bool_)
        for rule in self.rejecting:
            valid &= drawn.keeps(rule)
        return Positions(drawn.walks[valid])

    def _by_draws(self, constraint: Constraint) -> Kept:
        n = len(self._accepted)
        if n < FEWEST_DRAWS:
            return Kept(0.0, 0.0, math.inf)
        share = float(np.mean(self._accepted.keeps(constraint)))
        share = max(share, 3.0 / n)  # with none of n, at most 3 / n (19 times of 20): no gain is claimed beyond that
        return Kept(math.log(share), 1.0 - share, math.sqrt(max(1.0 - share, 1.0 / n) / (share * n)))


# ---- The model on one world: candidates by the chain, by a product of their own, or by draws


CANDIDATE_NODES = 50_000  # of a product that is built for one candidate alone
ROUNDING = 1e-12  # of a difference of two log Z


class WorldModel(Model):
    """The model of trajectories in one MDP."""

    @cached_property
    def _exact(self) -> ExactDistribution:
        d = self.fitted.distribution()
        assert isinstance(d, ExactDistribution)
        return d

    def _compile(self) -> None:
        _ = None if self._exact.world.unbounded else self._exact.chain

    def _draw(self) -> Positions:
        return batch_of(self.setting.world.any_task, self._exact.sample(N_DRAWS, seed=self.setting.seed))

    def _exactly(self, constraint: Constraint) -> Kept | None:
        mass = self._exact.mass(self.shared.machine(constraint))
        if mass is not None and mass.kept > 0:
            return Kept(math.log(mass.kept), mass.broken)
        # No room, too unlikely for ordinary numbers, or impossible: the product's log space can tell.
        most = CANDIDATE_NODES if self.setting.max_nodes is None else min(CANDIDATE_NODES, self.setting.max_nodes)
        try:
            further = CompiledConstraint(constraint, self.setting.world.any_task)
            log_kept = self._exact.log_probability(further, most)
        except ProductTooLargeError:
            self.shared.too_large.add(constraint)
            return None if mass is None else Kept(-math.inf, 1.0)
        return Kept(0.0, 0.0) if log_kept >= -ROUNDING else Kept(log_kept, -math.expm1(log_kept))

    def _implies(self, strong: Constraint, weak: Constraint) -> bool:
        kept = self.keeps(strong & ~weak)
        return kept.exact and kept.log_kept == -math.inf


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

    def _compile(self) -> None:
        _ = self._log_z

    @cached_property
    def _log_z(self) -> Floats:
        return self._partitions([])

    def _partitions(self, more: list[Constraint]) -> Floats:
        """log Z of each demonstration's pair, under further rules; InfeasibleError where a pair has no trip left."""
        network = self.setting.world
        assert isinstance(network, Network)
        reward = self.fitted.reward_.table()[network.source, network.action]
        engine = TripEngine(
            network,
            conjunction([*self.multiplied, *more]),
            self.trips.starts,
            self.trips.last_states,
            self.weights,
            self._budget if more else EngineSettings(max_nodes=self.setting.max_nodes).node_budget,
            self.setting.discount,
        )
        partitions: Floats = engine.value(reward, with_visits=False).log_z[engine.pair_of]
        return partitions

    @property
    def _budget(self) -> int:
        """Nodes of a product for one candidate: a machine without an end, such as a share, would go on for ever."""
        least = 2 * self.setting.world.any_task.n_states * max(1, len(self.multiplied))
        return min(EngineSettings(max_nodes=self.setting.max_nodes).node_budget, max(CANDIDATE_NODES, least))

    def _exactly(self, constraint: Constraint) -> Kept | None:
        try:
            difference = self._partitions([constraint]) - self._log_z
        except ProductTooLargeError:
            self.shared.too_large.add(constraint)
            return None
        except InfeasibleError:
            return Kept(-math.inf, 1.0)
        if np.abs(difference).max() <= CERTAIN:
            return Kept(0.0, 0.0)
        log_kept = min(0.0, float(self.weights @ difference))
        return Kept(log_kept, -math.expm1(log_kept))

    def _implies(self, strong: Constraint, weak: Constraint) -> bool:
        try:
            difference = self._partitions([strong & weak]) - self._partitions([strong])
        except (ProductTooLargeError, InfeasibleError):
            return False
        return bool(np.abs(difference).max() <= CERTAIN)

    def _draw(self) -> Positions:
        """Trips of the demonstrations' pairs, in their shares: of many pairs, some that stand evenly among them."""
        pairs, which = np.unique(
            np.stack([self.trips.starts, self.trips.last_states], axis=1), axis=0, return_inverse=True
        )
        shares = np.bincount(which.reshape(-1), weights=self.weights)
        chosen = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_PAIRS)).astype(np.int64))
        numbers = np.ceil(N_DRAWS * shares[chosen] / shares[chosen].sum()).astype(np.int64)
        network = self.setting.world
        assert isinstance(network, Network)
        drawn: list[Trajectory] = []
        for (start, goal), n in zip(pairs[chosen].tolist(), numbers.tolist(), strict=True):
            pair = {"start": network.name_of(start), "goal": network.name_of(goal)}
            drawn += self.fitted.sample(n, seed=self.setting.seed, **pair)
        return batch_of(self.setting.world.any_task, drawn)


# ---- Fitting a model under the rules so far, as many of them as fit the product


def fit_model(
    setting: SearchSettings,
    rules: Sequence[Constraint],
    demos: Sequence[Trajectory],
    weights: Floats,
    shared: Shared,
) -> Model:
    """The reward fitted under the rules, in their order; what was found last is left out where they do not all fit."""
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
            if not multiplied:
                raise
            rejecting.insert(0, multiplied.pop())
            continue
        if isinstance(setting.world, Network):
            trips = Walks.of(setting.world.any_task, demos)
            return TripModel(setting, fitted, multiplied, rejecting, shared, trips, weights / weights.sum())
        return WorldModel(setting, fitted, multiplied, rejecting, shared)
