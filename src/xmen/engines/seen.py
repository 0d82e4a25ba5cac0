"""Distributions given what was seen: P(tau | y) = P(tau) p(y | tau) / p(y), by the exact and by the reject engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import conjunction, units
from xmen.engines.diagnosis import multiply
from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.reject import RejectDistribution
from xmen.errors import EngineError, InfeasibleError, Message, ProductTooLargeError, TrajectoryError, XmenError, joined
from xmen.events import Ints
from xmen.machines.tables import CompiledConstraint, release, require_valid
from xmen.options import require_whole
from xmen.product.best import best_readings, best_walks
from xmen.product.graph import DEFAULT_MAX_NODES, Product, build_product
from xmen.product.layered import pass_messages
from xmen.product.messages import Messages
from xmen.product.readings import Reading, Script, determined, log_likelihoods, read_along, script_of
from xmen.rewards import Floats, Reward
from xmen.sharing import once
from xmen.worlds import MDP, EdgeWeights, Network, Sighting, Trajectory, Walks
from xmen.worlds.network import NetworkTask
from xmen.worlds.sightings import read_state

if TYPE_CHECKING:
    from xmen.product.device.run import OnDevice

MOST_RANKED = 20_000  # trajectories among which those that keep all rules are looked for
LOST = 1e-10  # nats of log Z in trajectories that are next to impossible


def require_sighting(sighting: object) -> Sighting:
    """A sighting; an error where it is none."""
    if not isinstance(sighting, Sighting):
        kind = type(sighting).__name__
        raise XmenError(f"what was seen is a Sighting: write xm.Sighting([state, None, state]); got {kind}.")
    return sighting


def read_sighting(sighting: object, world: MDP) -> Script:
    """The machine of a sighting in a world; an error where it is none, or none of this world's."""
    sighting = require_sighting(sighting)
    if not isinstance(world, NetworkTask) and (sighting.start is not None or sighting.goal is not None):
        raise XmenError("start= and goal= of a sighting are for networks: here the world has its own.")
    return script_of(sighting, world)


def explain_unseen(product: Product, sighting: Sighting) -> InfeasibleError:
    """The error that names the position from which nothing fits, and rules without which something would."""
    world, rule = product.world, product.compiled.constraint

    def fits(seen: Sighting, within: Product = product) -> bool:
        read = read_along(within, EdgeWeights.counting(world), [script_of(seen, world)])
        return read.product.feasible()

    def begins(n: int) -> bool:
        return fits(replace(sighting, seen=sighting.seen[:n], more=True))

    low, high = 0, len(sighting)  # the first `low` entries fit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if begins(middle) else (low, middle - 1)
    what = "position" if sighting.each is None else "entry"
    if low == len(sighting):
        where: Message = Message("all of it fits a beginning, and none ends at {} {}", what, low - 1)
    else:
        before = f"fits up to {what} {low - 1}, and" if low else "begins so that"
        where = Message("it {} nothing fits from {} {} on ({})", before, what, low, repr(sighting.seen[low])[:60])
    ways, parts = list[str](), units(rule) if world is product.compiled.world else []
    for i, (label, _) in enumerate(parts):
        with suppress(ProductTooLargeError):
            rest = conjunction([part for j, (_, part) in enumerate(parts) if j != i])
            if fits(sighting, multiply(world, rest, DEFAULT_MAX_NODES)):
                ways.append(label)
    noise = " Noise allows for wrong entries." if sighting.certain else ""
    advice = Message(" Without {} it would.", joined(ways, " or ", "{!r}")) if ways else noise
    what = "this sighting" if world is product.compiled.world else "this sighting beside those before it"
    sentence = "no valid trajectory explains {}: {}.{}"
    error = InfeasibleError(Message(sentence, what, where, advice, world=world), conflict=tuple(ways))
    error.position = min(low, len(sighting) - 1)
    return error


class Posterior(ExactDistribution):
    """An exact distribution given sightings; all that is summed is summed over the ways to read them."""

    def __init__(self, prior: ExactDistribution, sightings: tuple[Sighting, ...]) -> None:
        self.prior, self.sightings = prior, sightings
        self._scripts = [read_sighting(sighting, prior.world) for sighting in sightings]
        self._reading = self._read(prior.product)
        law, read = replace(prior.law, given=None), self._reading.product
        vars(law).update(weights=self._reading.weights, compiled=prior.law.compiled)
        place = prior.place.beside(read) if prior.place and read.feasible() else None
        super().__init__(read, law, prior._rng, place)

    def _read(self, product: Product) -> Reading:
        """A product read along all sightings."""
        weights, firsts = self.prior._joint_weights(), [script.first for script in self._scripts]
        weights = replace(weights, log_start=np.sum([weights.log_start, *firsts], axis=0))
        reading = read_along(product, weights, self._scripts[:1])
        for script in self._scripts[1:]:
            after = read_along(reading.product, reading.weights, [script])
            factor = reading.log_factor[after.edge] + after.log_factor
            reading = after._replace(edge=reading.edge[after.edge], node=reading.node[after.node], log_factor=factor)
        return reading

    @property
    def log_seen_mass(self) -> float:
        """log p(y), -inf where no valid trajectory explains it."""
        total = self._messages.log_partition if self.product.feasible() else -math.inf
        return float(total if self.prior.given else total - self.prior.log_partition())

    @property
    def _log_partition(self) -> tuple[float, float]:
        return self.prior.log_partition() + self.log_seen_mass, 0.0

    def _log_likelihoods(self, walks: Walks) -> Floats:
        """log p(y | tau) of walks in the world (n,)."""
        return np.asarray(np.sum([log_likelihoods(script, walks) for script in self._scripts], axis=0))

    def score(self, trajectory: Trajectory) -> float:
        own = self._log_likelihoods(Walks.of(self.world, [trajectory]))[0]
        return self.prior.score(trajectory) + float(own)

    def _log_normaliser(self, start: int) -> float:
        return self.prior._log_normaliser(start) + self.log_seen_mass

    def edge_visits(self) -> Floats:
        below = self.prior.product.edge[self._reading.edge]
        uses = np.bincount(below, weights=self._flow.discounted, minlength=len(self.world.source))
        return uses.astype(np.float64)

    def checked(self, n: int, rng: np.random.Generator) -> Walks:
        walks = self.draw(n, rng)
        possible = self._log_likelihoods(walks) > -math.inf
        require_valid(walks, self.product.compiled.check(walks) & possible)
        return walks

    def draw(self, n: int, rng: np.random.Generator) -> Walks:
        return self._reading.below(self.prior.product, super().draw(n, rng))

    @once
    def _paths(self) -> Reading:
        """The law with one walk for each trajectory."""
        if all(sighting.each is None for sighting in self.sightings):
            return self._reading
        product, weights = self.prior.product, self.prior._joint_weights()
        completions = None
        if self.world.unbounded:
            completions = self._messages.log_completions(0, np.arange(self.product.n_nodes, dtype=np.uint32))
        return determined(self._reading, product, weights, completions)

    def best(self, k: int) -> list[Trajectory]:
        require_whole("k of best(k)", k, least=0)
        if self.world.unbounded:
            reading, walks = self._reading, best_readings(self._reading, int(k))
        else:
            reading, walks = self._paths, best_walks(self._paths.product, self._paths.weights, int(k))
        return release(reading.below(self.prior.product, walks), self.product.compiled)

    def mode(self) -> Trajectory:
        return self.best(1)[0]

    def entropy(self) -> float:
        if self._paths is self._reading:
            return super().entropy()
        messages = pass_messages(self._paths.product, self._paths.weights)
        if messages.log_partition - self._messages.log_partition < -LOST:
            what = "trajectories can be read in too many ways for the entropy to be exact"
            raise EngineError(f"{what}: the mean of -log_prob over samples estimates it.")
        return max(0.0, float(messages.flow(with_entropy=True).entropy))

    def log_probability(self, further: CompiledConstraint, max_nodes: int) -> float:
        product = build_product(further, max(max_nodes, self.prior.product.n_nodes), self.prior.product)
        reading = self._read(product)
        if not reading.product.feasible():
            return -math.inf
        return float(pass_messages(reading.product, reading.weights).log_partition - self._messages.log_partition)

    def seen(self, sighting: Sighting) -> Posterior:
        return given_sightings(self.prior, (*self.sightings, sighting))

    def log_seen(self, sighting: Sighting) -> float:
        return Posterior(self.prior, (*self.sightings, sighting)).log_seen_mass - self.log_seen_mass

    def with_reward(self, reward: Reward | ArrayLike | None) -> Posterior:
        return given_sightings(self.prior.with_reward(reward), self.sightings)


def given_sightings(prior: ExactDistribution, sightings: tuple[Sighting, ...]) -> Posterior:
    """The posterior; InfeasibleError where nothing explains what was seen."""
    found, before = Posterior(prior, sightings), sightings[:-1]
    if found.log_seen_mass == -math.inf:
        raise explain_unseen(Posterior(prior, before).product if before else prior.product, sightings[-1])
    return found


class RejectPosterior(RejectDistribution):
    """The relaxation's exact posterior, rejecting with the other rules: what they refuse is as unlikely as before."""

    def __init__(self, prior: RejectDistribution, sightings: tuple[Sighting, ...]) -> None:
        super().__init__(prior.relaxation, prior.law, prior._rng, prior.time_limit)
        self.prior, self.sightings = prior, sightings
        self.relaxed: Posterior = given_sightings(prior.relaxed, sightings)

    def _scores(self, walks: Walks) -> Floats:
        return super()._scores(walks) + self.relaxed._log_likelihoods(walks)

    def score(self, trajectory: Trajectory) -> float:
        return float(self._scores(Walks.of(self.world, [trajectory]))[0])

    def best(self, k: int) -> list[Trajectory]:
        """The valid ones among the best of the relaxation, of which more and more are asked for."""
        super().best(0)  # refuses to rank where rules that are usually kept are not in the relaxation
        rule, n = self.constraint, 2 * require_whole("k of best(k)", k, least=0) + 10
        while n <= MOST_RANKED:
            ranked = self.relaxed.best(n)
            found = [tau for tau in ranked if rule is None or rule.accepts(tau)][:k]
            if len(found) == k or len(ranked) < n:
                return found
            n *= 4
        raise EngineError(f"fewer than {k} of the {n // 4:,} best keep the rules that reject: raise max_nodes.")

    def seen(self, sighting: Sighting) -> RejectPosterior:
        return RejectPosterior(self.prior, (*self.sightings, sighting))

    def with_reward(self, reward: Reward | ArrayLike | None) -> RejectPosterior:
        return RejectPosterior(self.prior.with_reward(reward), self.sightings)


BATCH = 4_000_000  # nodes times states of machines that are read in one pass


class SeenTogether:
    """log p(y) of many sightings, and what is expected given them, under any reward: readings are made once.

    Given the start (`base.given`), p(y) is that of trajectories from the sighting's own start.
    """

    def __init__(self, base: ExactDistribution, sightings: Sequence[Sighting]) -> None:
        number = dict[Sighting, int]()
        self._which = np.array([number.setdefault(sighting, len(number)) for sighting in sightings], dtype=np.int64)
        self._base, self._sightings = base, sightings
        scripts = [read_sighting(sighting, base.world) for sighting in number]
        self._batches: list[tuple[Reading, Ints, OnDevice | None, Ints, Floats]] = []
        self._n, room = len(scripts), max(1, BATCH // base.product.n_nodes)
        ends = np.cumsum([script.n for script in scripts]) // room
        for batch in np.unique(ends):
            among = np.flatnonzero(ends == batch)
            self._batches.append(self._read(base, among, [scripts[i] for i in among]))

    def _read(
        self, base: ExactDistribution, among: Ints, scripts: list[Script]
    ) -> tuple[Reading, Ints, OnDevice | None, Ints, Floats]:
        """Readings of some of them, the world edges below, the device if any; of each start its own, and its weight."""
        begin = np.where(base.weights.log_start > -np.inf, 0.0, -np.inf) if base.given else base.weights.log_start
        weights = replace(base.weights, log_start=begin, given_start=False)
        reading = read_along(base.product, weights, scripts)
        read, state = (column[reading.product.starts] for column in (reading.place, reading.product.state))
        owner = np.searchsorted(np.cumsum([script.n for script in scripts]), read, side="right")
        first = np.stack([script.first for script in scripts])[owner, state]
        place = base.place.beside(reading.product) if base.place and len(owner) else None
        below = base.product.edge[reading.edge].astype(np.int64)
        return reading, below, place, among[owner], begin[state] + first

    def __call__(self, d: ExactDistribution) -> tuple[Floats, Callable[[Floats], Floats]]:
        """log Z_y of each (n,) under a distribution of the base; and the moments given y, summed with weights (n,)."""
        log_z, passes = np.full(self._n, -np.inf), list[tuple[Ints, Ints, Floats, Messages]]()
        for reading, below, place, owner, first in self._batches:
            if len(owner):
                law = replace(reading.weights, reward=d.weights.reward[below], rules=d.weights.rules)
                messages = place.messages([law])[0] if place else pass_messages(reading.product, law)
                values = first + messages.log_completions(0, reading.product.starts)
                np.logaddexp.at(log_z, owner, values)
                passes.append((below, owner, values, messages))

        def moments(weights: Floats) -> Floats:
            shares = np.bincount(self._which, weights, minlength=self._n)
            world, total, uses = d.world, np.zeros(d.moments().size), np.zeros(len(d.world.source))
            n_pairs, pairs = world.n_states * world.n_actions, world.source.astype(np.int64) * world.n_actions
            for below, owner, values, messages in passes:
                flow = messages.flow(starts=shares[owner] * np.exp(values - log_z[owner]))
                uses += np.bincount(below, flow.discounted, minlength=len(uses))
                total[n_pairs:] += np.diag(flow.kept)
            total[:n_pairs] = np.bincount(pairs + world.action, uses, minlength=n_pairs)
            return total.reshape(d.moments().shape)

        return log_z[self._which], moments

    def require_explained(self, d: ExactDistribution, numbers: Ints) -> None:
        """InfeasibleError for the first that no valid trajectory explains, by its number (n,)."""
        wrong = np.flatnonzero(self(d)[0] == -np.inf)
        if len(wrong):
            error = explain_unseen(d.product, self._sightings[wrong[0]])
            error.place = f"demonstration {numbers[wrong[0]]}"
            raise error


def first_state(sighting: Sighting, world: MDP) -> int:
    """Where a sighting begins for certain, as given="start" needs it."""
    states = np.flatnonzero(sighting.log_rows(world)[0] > -np.inf)
    if len(states) != 1:
        what = 'given="start" takes the start of each demonstration for known'
        raise TrajectoryError(f"{what}: the first entry of {sighting!r:.60} has to be a state for certain.")
    return int(states[0])


def trip_ends(sighting: Sighting, network: Network) -> tuple[int, int]:
    """Start and goal of a trip: the first and the last entry where these are certain, else those given with it."""
    states = [np.flatnonzero(row > -np.inf) for row in require_sighting(sighting).log_rows(network)[[0, -1]]]
    ends = list[int]()
    for name, found, given in (("start", states[0], sighting.start), ("goal", states[1], sighting.goal)):
        if len(found) == 1 and (name == "start" or not sighting.more):
            ends.append(int(found[0]))
        elif given is not None:
            ends.append(read_state(network, given))
        else:
            entry = "it is a beginning" if name == "goal" and sighting.more else "its entry there is not certain"
            raise TrajectoryError(f"the {name} of a trip has to be known, and {entry}: write Sighting(..., {name}=).")
    return ends[0], ends[1]


def log_seen(d: Distribution, sightings: Sequence[Sighting]) -> Floats:
    """log p(y) of sightings (n,), by any engine that weighs them; given the start without its probability."""
    exact = d if isinstance(d, ExactDistribution) and len(sightings) else None
    values = np.array([d.log_seen(y) for y in sightings]) if exact is None else SeenTogether(exact, sightings)(exact)[0]
    if d.given is None:
        return values - (0.0 if exact is None else exact.log_partition())
    starts = np.array([first_state(sighting, d.world) for sighting in sightings], dtype=np.int64)
    some = np.flatnonzero(values > -np.inf)
    values[some] -= d.weights.log_start[starts[some]] if exact is None else exact.start_partitions(starts[some])
    return values
