"""The exact engine: multiply the machines with the world, and run dynamic programming on the product."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.constraint import Constraint, usual_rules
from xmen.engines.distribution import Distribution, Guarantee, Law, Rules, Seed
from xmen.errors import DivergenceError, InfeasibleError, Message, ProductTooLargeError, joined
from xmen.machines.tables import CompiledConstraint, as_trajectories, release, require_valid
from xmen.options import require_whole
from xmen.product.best import best_walk, best_walks
from xmen.product.graph import DEFAULT_MAX_NODES, Product, build_product
from xmen.product.layered import SIDE_BY_SIDE, pass_messages
from xmen.product.messages import NO_EDGE, Flow, Messages
from xmen.product.watch import Chain, Machine, Mass, chain_of, join
from xmen.rewards import Floats, Reward
from xmen.sharing import once
from xmen.worlds.sightings import Sighting
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.walks import EdgeWeights, Walks, require_count, require_room

if TYPE_CHECKING:
    from xmen.product.device.run import OnDevice

FEW = 1_000  # trajectories that fit in memory, whatever they are
SAMPLE_CELLS = 20_000_000  # states held at once while sampling; larger requests are drawn in batches

SHARE_ERROR = 1e-12  # of the probability of a rule whose share was given
MOST_STEPS, LONGEST_STEP, LARGEST_WEIGHT = 500, 5.0, 100.0  # of the search for weights that give shares, in nats


class AtHand(NamedTuple):
    """The product with some of the rules, which is multiplied with further ones instead of the world with all."""

    product: Product
    further: Constraint


class ExactDistribution(Distribution):
    """All answers exact: dynamic programming on the product of the world and the constraint's machines."""

    engine = "exact"
    guarantee = Guarantee(delta=1.0, failure=0.0)

    def __init__(self, product: Product, law: Law, seed: Seed, place: OnDevice | None = None) -> None:
        super().__init__(law, seed)
        self.product, self.place = product, place

    def __repr__(self) -> str:
        product = self.product
        where = "" if self.place is None else f"; {self.place.describe()}"
        return f"{super().__repr__()[:-1]}; product of {product.n_nodes:,} nodes and {product.n_edges:,} edges{where}>"

    def sizes(self) -> dict[str, Any]:
        where = {} if self.place is None else {"device": self.place.describe()}
        return {"product nodes": self.product.n_nodes, "product edges": self.product.n_edges, **where}

    @once
    def _messages(self) -> Messages:
        if self.place is None:
            return pass_messages(self.product, self.weights)
        return self.place.messages([self.weights])[0]

    @once
    def _flow(self) -> Flow:
        return self._messages.flow()

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        """log of the total weight of all valid completions from product nodes that were reached by t actions."""
        return self._messages.log_completions(t, nodes)

    @property
    def _log_partition(self) -> tuple[float, float]:
        return self._messages.log_partition, 0.0

    @once
    def _start_partitions(self) -> Floats:
        """log Z(s_0) of each start node of the product."""
        return self.log_completions(0, self.product.starts)

    def start_partitions(self, starts: NDArray[np.int64]) -> Floats:
        """log Z(s_0) of these start states."""
        own = self.product.state[self.product.starts]
        order = np.argsort(own)
        return self._start_partitions[order[np.searchsorted(own, starts, sorter=order)]]

    def edge_visits(self) -> Floats:
        """Expected discounted uses of each of the world's transitions, shape (E,)."""
        return self._flow.discounted

    def _log_normaliser(self, start: int) -> float:
        if self.given is None:
            return float(self.log_partition())
        return float(self.start_partitions(np.array([start]))[0])

    @property
    def _visits(self) -> tuple[Floats, Floats]:
        world = self.product.world
        pairs = world.source.astype(np.int64) * world.n_actions + world.action
        flat = np.bincount(pairs, weights=self._flow.discounted, minlength=world.n_states * world.n_actions)
        visits: Floats = flat.astype(np.float64).reshape(world.n_states, world.n_actions)
        return visits, np.zeros_like(visits)

    def moments(self, return_std: bool = False) -> Any:
        if not len(self.weights.rules):
            return super().moments(return_std)
        found = np.concatenate([self.visits().ravel(), np.diag(self._flow.kept)])
        return (found, np.zeros_like(found)) if return_std else found

    def solved(self) -> ExactDistribution:
        """This law with the weights under which every rule with a share is kept with that probability.

        They minimise log Z - sum of weight times share, which is convex; its curvature is how the rules vary together,
        or given the start a bound on that. InfeasibleError where no weights do.
        """
        usual = usual_rules(self.law.constraint)
        free = [k for k, rule in enumerate(usual) if rule.share is not None]
        if not free:
            return self
        wanted, d, step = np.array([usual[k].share for k in free]), self, 1.0
        for _ in range(MOST_STEPS):
            both = d._flow.kept[np.ix_(free, free)]
            away = wanted - np.diag(both)
            if np.abs(away).max() <= SHARE_ERROR:
                return d
            rules, varying = d.weights.rules.copy(), both - np.outer(np.diag(both), np.diag(both))
            move = np.linalg.lstsq(varying, away, rcond=1e-14)[0]
            move *= min(1.0, LONGEST_STEP / max(float(np.abs(move).max()), 1e-300))
            step = min(1.0, 2.0 * step)
            while step > 1e-6:
                rules[free] = d.weights.rules[free] + step * move
                tried = ExactDistribution(self.product, self.law.with_rules(rules), self._rng, self.place)
                left = wanted - np.diag(tried._flow.kept)[free]
                if np.linalg.norm(left) < np.linalg.norm(away) or left @ move > 0.0:  # not beyond the least along it
                    break
                step /= 2.0
            else:
                break
            if not np.abs(rules).max() <= LARGEST_WEIGHT:
                break
            d = tried
        names = joined([Message("{!r} with share={:g}", usual[k].label, usual[k].share) for k in free], " and ")
        found = ", ".join(f"{p:.6g}" for p in np.diag(d._flow.kept)[free])
        sentence = "no weights keep {}: the nearest found give {}. Other rules, or these together, decide how often."
        raise InfeasibleError(Message(sentence, names, found))

    def start_probabilities(self) -> Floats:
        """How likely trajectories start in each state, shape (n_states,)."""
        starts = np.zeros(self.world.n_states)
        np.add.at(starts, self.product.state[self.product.starts], self._flow.starts)
        return starts

    def state_visits(self) -> Floats:
        world, flow = self.product.world, self._flow
        arrivals = np.bincount(world.target, weights=flow.counts, minlength=world.n_states)
        return arrivals + self.start_probabilities()

    def entropy(self) -> float:
        """The sum of the entropies of all choices along the way, which large rewards cannot cancel out."""
        return max(0.0, float(self._messages.flow(with_entropy=True).entropy))

    @once
    def chain(self) -> Chain:
        """The law as a Markov chain over the product's nodes, through which further rules are watched."""
        return chain_of(self.product, self.weights, self._messages)

    def mass(self, machine: Machine | None) -> Mass | None:
        """How probability divides under a machine; None where multiplying the product with it is the better way."""
        return None if machine is None or not self.chain.kept else self.chain.mass(machine)

    def probability(self, rules: Rules, return_std: bool = False, n: int = 1000, seed: Seed = None) -> Any:
        further = CompiledConstraint(self._further(rules), self.world, known=self.product.compiled.tables)
        machine = None if self.world.unbounded else join(further, self.world.max_length)
        mass = self.mass(machine)
        if mass is None or mass.kept == 0.0 < mass.broken:  # no room, or too unlikely for ordinary numbers
            try:
                share = math.exp(min(0.0, self.log_probability(further, DEFAULT_MAX_NODES)))
            except ProductTooLargeError:
                return super().probability(rules, return_std, n, seed)  # type: ignore[call-overload]
        else:
            share = mass.kept if mass.broken > 0.5 else 1.0 - mass.broken  # the one that loses no digits
        return (share, 0.0) if return_std else share

    def log_probability(self, further: CompiledConstraint, max_nodes: int) -> float:
        """log P(further rules), by multiplying the product with them; ProductTooLargeError past `max_nodes`."""
        product = build_product(further, max(max_nodes, self.product.n_nodes), self.product)
        if not product.feasible():
            return -math.inf
        log_mass = pass_messages(product, self._joint_weights()).log_partition
        return float(log_mass - (0.0 if self.given else self.log_partition()))

    def mode(self) -> Trajectory:
        weights = self._joint_weights()
        operations = None if self.place is None else self.place.operations(self.place.weights([weights]))
        return release(best_walk(self.product, weights, operations)[1], self.product.compiled)[0]

    def best(self, k: int) -> list[Trajectory]:
        require_whole("k of best(k)", k, least=0)
        if k > FEW:  # to ask for more than there are is not to ask for too many
            require_room(min(int(k), math.exp(min(self.log_count, 700.0))), self.world)
        return release(best_walks(self.product, self._joint_weights(), int(k)), self.product.compiled)

    @once
    def log_count(self) -> float:
        """The log of the number of valid trajectories; inf where there is no end of them."""
        try:
            return float(pass_messages(self.product, EdgeWeights.counting(self.world)).log_partition)
        except DivergenceError:
            return math.inf

    def _joint_weights(self) -> EdgeWeights:
        """The weights of a joint law that is this one: given the start, each start pays for its own completions."""
        if not self.given:
            return self.weights
        log_start = self.weights.log_start.copy()
        log_start[self.product.state[self.product.starts]] -= self._start_partitions
        return replace(self.weights, log_start=log_start, given_start=False)

    def with_reward(self, reward: Reward | ArrayLike | None) -> ExactDistribution:
        return ExactDistribution(self.product, self.law.with_reward(reward), self._rng, self.place).solved()

    def seen(self, sighting: Sighting) -> ExactDistribution:
        from xmen.engines.seen import given_sightings  # which is made of this

        return given_sightings(self, (sighting,))

    def log_seen(self, sighting: Sighting) -> float:
        from xmen.engines.seen import Posterior

        return Posterior(self, (sighting,)).log_seen_mass

    def with_rewards(self, rewards: Iterable[Reward | ArrayLike | None]) -> list[ExactDistribution]:
        """The distribution under each reward; on a device they are worked out side by side, sixteen at a time."""
        return list(self.under_each(rewards))

    def under_each(self, rewards: Iterable[Reward | ArrayLike | None]) -> Iterator[ExactDistribution]:
        """The distribution under each reward in turn; on a device sixteen share the memory of the sixteen before."""
        left = list(rewards)
        for begin in range(0, len(left), SIDE_BY_SIDE):
            found = [self.with_reward(reward) for reward in left[begin : begin + SIDE_BY_SIDE]]
            if self.place is not None:
                for d, messages in zip(found, self.place.messages([d.weights for d in found]), strict=True):
                    vars(d)["_messages"] = messages
            yield from found

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        n, rng = require_count(n, self.world), self._generator(seed)
        batch = max(1, SAMPLE_CELLS // (self.product.usual_length + 1))
        out: list[Trajectory] = []
        for begin in range(0, n, batch):
            out += as_trajectories(self.checked(min(batch, n - begin), rng))
        return out

    def checked(self, n: int, rng: np.random.Generator) -> Walks:
        """n independent walks, each checked: by the world, and by the constraint's machines where they were drawn."""
        if self.place is None:
            walks = self.draw(n, rng)
            valid = self.product.compiled.check(walks)
        else:
            walks, valid = self._messages.checked_walks(n, rng)  # type: ignore[attr-defined]
        require_valid(walks, valid)
        return walks

    def draw(self, n: int, rng: np.random.Generator) -> Walks:
        """n independent walks through the product, not checked yet."""
        return as_walks(self.product, *self._messages.walk(n, rng))


def as_walks(product: Product, starts: NDArray[np.uint32], taken: NDArray[np.uint32]) -> Walks:
    """Walks from start nodes along product edges (n, longest), which are `NO_EDGE` after the end, in the world."""
    going = taken != NO_EDGE
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(going, axis=1))])
    return Walks(product.world, product.state[starts], product.edge[taken[going]].astype(np.int32), offsets)
