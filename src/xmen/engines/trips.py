"""All trips through a network at once: log Z of every pair of a start and a goal, and the expected uses of every edge.

Without a horizon one factorisation serves all goals (`ManyGoals`). A goal that it cannot serve, because its numbers
become too small or because cycles through the other goals do not add up, gets a solve of its own, whose weights are
relative to the best way; so do all goals of a network with a horizon, by the layered engine, or on a device all of them
side by side.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, vstack

from xmen.constraints.constraint import Constraint, conjunction, require_hard, units, usual_rules
from xmen.engines.diagnosis import explain_conflict, multiply
from xmen.engines.distribution import Law
from xmen.engines.exact import ExactDistribution
from xmen.engines.seen import explain_unseen, trip_ends
from xmen.engines.settings import find_device, place_product
from xmen.errors import EngineError, InfeasibleError, ProductTooLargeError
from xmen.events import Bools, Ints
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import Product, layer_ends
from xmen.product.legs import Explained, Legs
from xmen.product.many_goals import ManyGoals, build_open_product
from xmen.rewards import Floats
from xmen.worlds import EdgeWeights, Network, Sighting, Walks
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.network import NetworkTask

if TYPE_CHECKING:
    from xmen.product.device.run import OnDevice

LEAST_BUDGET = 20_000  # nodes of a product that all trips of a network share
COPIES = 64  # of the network that its rules may make of it


def trip_budget(max_nodes: int | None, network: Network) -> int:
    """The given budget of product nodes, or some copies of the network: factors need more room than a sweep."""
    return int(max_nodes) if max_nodes is not None else max(LEAST_BUDGET, COPIES * network.n_states)


def have_a_way(network: Network, rules: Constraint | None, starts: Ints, goals: Ints, budget: int | None) -> Bools:
    """Which trips (n,) have a way that keeps the rules, as many of these as fit the product."""
    max_nodes = trip_budget(budget, network)

    def under(rule: Constraint | None) -> Bools:
        found, each = np.zeros(len(starts), dtype=np.bool_), np.unique(goals)
        if network.horizon is None:
            compiled = CompiledConstraint(rule, network.any_task.starting_in(starts))
            product = build_open_product(compiled, each, max_nodes)
            source, target = (ends.astype(np.uint32) for ends in (product.source, product.target))
        for goal in each.tolist():
            its = np.flatnonzero(goals == goal)
            if network.horizon is None:
                on, ends = product.state[source] != goal, product.accepting & (product.state == goal)
                distance = np.append(distance_to(ends, source[on], target[on]), UNREACHABLE)
                found[its] = distance[product.start_of[starts[its]]] < UNREACHABLE  # of no node, -1, it is the last
            else:
                begun = network.any_task.starting_in(starts[its]).start
                own = multiply(NetworkTask(network, int(starts[its[0]]), goal).with_start(begun), rule, max_nodes)
                found[its] = np.isin(starts[its], own.state[own.starts])
        return found

    try:
        return under(rules)
    except ProductTooLargeError:
        return relaxed(rules, under)[0]


T = TypeVar("T")


def relaxed(constraint: Constraint | None, make: Callable[[Constraint | None], T]) -> tuple[T, list[str], list[str]]:
    """The product of the rules that fit, taken in one by one; their names, and the names of those left out."""
    made, chosen, fitting, others = make(None), list[Constraint](), list[str](), list[str]()
    for label, part in units(constraint):
        try:
            made = make(conjunction([*chosen, part]))
            chosen.append(part)
            fitting.append(label)
        except ProductTooLargeError:
            others.append(label)
    return made, fitting, others


class TripValue(NamedTuple):
    """log Z of every pair (P,), and the expected (discounted) uses of world edges (E,), summed with the weights."""

    log_z: Floats
    visits: Floats


class TripEngine:
    """Distinct pairs of start and goal with weights, ready to be evaluated under any reward.

    `pair_of` gives the pair of each of the trips it was made from; `start`, `goal`, `weight` (P,) are the pairs.
    """

    def __init__(
        self,
        network: Network,
        constraint: Constraint | None,
        starts: ArrayLike,
        goals: ArrayLike,
        weights: ArrayLike,
        max_nodes: int | None,
        discount: float = 1.0,
        device: str | None = None,
    ) -> None:
        self.network, self.constraint, self.discount = network, constraint, discount
        self.max_nodes = trip_budget(max_nodes, network)
        starts, goals = np.asarray(starts, dtype=np.int64), np.asarray(goals, dtype=np.int64)
        keys, self.pair_of = np.unique(goals * network.n_states + starts, return_inverse=True)
        self.goal, self.start = np.divmod(keys, network.n_states)
        self.weight: Floats = np.bincount(self.pair_of, weights=np.asarray(weights), minlength=len(keys)).astype(float)
        self._n_rules = len(usual_rules(constraint))
        if self._n_rules and device is not None:
            raise EngineError("rules that are usually kept are counted on the host: leave device out.")
        # Rewards of edges, and after them weights of rules that are usually kept; visits in the same order.
        self.log_dynamics = np.append(np.log(network.probability), np.zeros(self._n_rules))
        self.n_pairs, self._device = len(keys), find_device(device)
        self._alone: dict[int, Product] = {}
        self.shared: ManyGoals | None = None  # the system that all goals share; None with a horizon
        if network.horizon is None:
            compiled = CompiledConstraint(constraint, network.any_task.starting_in(self.start))
            product = build_open_product(compiled, np.unique(self.goal), self.max_nodes)
            origin = product.start_of[self.start]
            if np.any(origin < 0):
                raise self._infeasible(int(np.argmin(origin)))
            self.shared = ManyGoals(product, origin, self.goal)

    def log_z(self, reward: Floats) -> Floats:
        """log Z of every pair (P,) under rewards of world edges (E,), as `value` has it."""
        return self._value(reward, None).log_z

    def value(self, reward: Floats, weights: Floats | None = None) -> TripValue:
        """log Z and visits under rewards of world edges (E,); `weights` (P,) of pairs in place of their own.

        DivergenceError where the weights of some pair's trajectories do not add up.
        """
        return self._value(reward, self.weight if weights is None else weights)

    def _value(self, reward: Floats, weights: Floats | None) -> TripValue:
        """Visits are 0 without weights."""
        reward = self.whole(reward)
        if self.shared is not None:
            log_z, visits, left = self.shared.solve(self.log_dynamics + reward, weights)
        elif self._device is not None:
            return self._value_on_device(reward, weights)
        else:
            log_z, visits, left = np.full(self.n_pairs, np.nan), np.zeros(len(reward)), np.unique(self.goal).tolist()
        for goal in left:
            pairs = np.flatnonzero(self.goal == goal)
            d = self._exact(self._product(goal), reward, given="start")
            log_z[pairs] = d.start_partitions(self.start[pairs])
            if weights is None or not weights[pairs].any():
                continue
            if weights is not self.weight:
                world = d.product.world.with_start(self._shares(pairs, weights))
                d = self._exact(replace(d.product, world=world), reward, given="start")
            visits[self.places(goal)] += weights[pairs].sum() * self.uses(d)
        return TripValue(log_z, visits)

    def offset(self, reward: Floats) -> float:
        """What, added to every move, makes the radius of M 0.9 or less; 0 with a horizon."""
        radius = 0.0 if self.shared is None else self.shared.radius(reward)
        return min(0.0, float(np.log(0.9 / radius))) if radius > 0.0 else 0.0

    def whole(self, reward: Floats) -> Floats:
        """The rewards of edges, and after them the weights of rules: 0 where none are given."""
        return np.append(reward, np.zeros(len(self.log_dynamics) - len(reward)))

    def _shares(self, pairs: Ints, weights: Floats) -> Floats:
        """The shares of states as starts of these pairs (n_states,), equal ones where no pair has a weight."""
        shares, total = np.zeros(self.network.n_states), weights[pairs].sum()
        shares[self.start[pairs]] = weights[pairs] / total if total > 0 else 1.0 / len(pairs)
        return shares

    def each(self, reward: Floats, features: csr_matrix) -> Floats:
        """E[f] of every pair's trajectories (P, d), from features of world edges (E, d)."""
        out, left = np.full((self.n_pairs, features.shape[1]), np.nan), np.unique(self.goal).tolist()
        if self.shared is not None:
            out, left = self.shared.each(self.log_dynamics + reward, features)
        for pair in np.flatnonzero(np.isin(self.goal, left)).tolist():
            d = self.alone(pair, reward)
            out[pair] = features[self.places(self.goal[pair])].T @ self.uses(d)
        return out

    def places(self, goal: int) -> Ints:
        """The edges that do not leave a goal, which its tasks have, and after them all rules usually kept."""
        return np.flatnonzero(np.append(self.network.source != goal, np.ones(self._n_rules, dtype=np.bool_)))

    def uses(self, d: ExactDistribution) -> Floats:
        """The uses of edges, and how often each rule that is usually kept is kept, at `places`."""
        return np.append(d.edge_visits(), d.moments().ravel()[d.world.n_states * d.world.n_actions :])

    def alone(self, pair: int, reward: Floats) -> ExactDistribution:
        """The distribution of one pair, whose world's edges are the network's without those that leave the goal."""
        task = NetworkTask(self.network, int(self.start[pair]), int(self.goal[pair]))
        return self._exact(multiply(task, self.constraint, self.max_nodes), reward)

    @cached_property
    def _moved(self) -> "tuple[OnDevice, Ints]":
        """The products of all goals side by side on the device, and which of its start nodes is that of each pair."""
        assert self._device is not None
        goals, n = np.unique(self.goal).tolist(), self.network.n_states
        products = {goal: self._product(goal) for goal in goals}
        whole = side_by_side(self.network, products)
        keys = np.repeat(goals, [len(one.starts) for one in products.values()]) * n + whole.state[whole.starts]
        order = np.argsort(keys)
        own = order[np.searchsorted(keys, self.goal * n + self.start, sorter=order)]
        return place_product(whole, self._device, "float64"), own

    def _value_on_device(self, reward: Floats, weights: Floats | None) -> TripValue:
        place, own = self._moved
        law = EdgeWeights(self.log_dynamics, reward, np.zeros(self.network.n_states), self.discount, given_start=True)
        run = place.run(place.weights([law]))
        log_z = run.log_completions(0, place.product.starts)[own, 0]
        if weights is None:
            return TripValue(log_z, np.zeros(len(reward)))
        shares = np.zeros(len(place.product.starts))
        shares[own] = weights
        return TripValue(log_z, run.uses(starts=shares[:, None])[1][:, 0].cpu().numpy())

    def _product(self, goal: int) -> Product:
        """The product of one goal, from where its pairs start."""
        if goal not in self._alone:
            pairs = np.flatnonzero(self.goal == goal)
            shares = self._shares(pairs, self.weight)
            task = NetworkTask(self.network, int(self.start[pairs[0]]), goal).with_start(shares)
            product = multiply(task, self.constraint, self.max_nodes)
            without = np.setdiff1d(np.flatnonzero(shares), product.state[product.starts])
            if len(without):
                raise self._infeasible(int(pairs[self.start[pairs] == without[0]][0]))
            self._alone[goal] = product
        return self._alone[goal]

    def _exact(self, product: Product, reward: Floats, given: str | None = None) -> ExactDistribution:
        table = np.zeros((self.network.n_states, self.network.n_actions))
        table[self.network.source, self.network.action] = reward[: len(self.network.source)]
        law = Law(product.world, self.constraint, table, self.discount, given)
        law = law.with_rules(reward[len(self.network.source) :]) if self._n_rules else law
        return ExactDistribution(product, law, None)

    def _infeasible(self, pair: int) -> InfeasibleError:
        """Why no valid trip leads from this pair's start to its goal."""
        network, start, goal = self.network, int(self.start[pair]), int(self.goal[pair])
        where = f"from {network.describe_state(start)} to {network.describe_state(goal)}"
        try:
            error = explain_conflict(NetworkTask(network, start, goal), units(self.constraint), self.max_nodes)
        except ProductTooLargeError:
            return InfeasibleError(f"{where} there is no valid trip")
        error.place = where
        return error


class SeenTrips:
    """Trips that were seen in part: the pair of an engine (n,) and the sighting of each."""

    def __init__(self, engine: TripEngine, pair: Ints, sightings: Sequence[Sighting]) -> None:
        self.engine, self.pair, self.sightings = engine, pair, sightings
        self._legs: Legs | None = None
        if (shared := engine.shared) is not None and len(pair):
            self._legs = Legs(shared.product, shared.origin[pair], engine.goal[pair], sightings)

    def value(self, reward: Floats, weights: Floats | None = None, features: csr_matrix | None = None) -> Explained:
        """log p(y) Z of each under rewards of world edges, -inf where no trip explains what was seen; uses by weights.

        With features (E, d) also those of each. DivergenceError as for `TripEngine.value`.
        """
        engine, n, reward = self.engine, len(self.pair), self.engine.whole(reward)
        if self._legs is not None:
            log_z, uses, each = self._legs.solve(engine.log_dynamics + reward, weights, features)
        else:
            log_z, uses = np.full(n, np.nan), np.zeros(len(reward))
            each = np.zeros((n, 0 if features is None else features.shape[1]))
        for k in np.flatnonzero(np.isnan(log_z)).tolist():
            prior, places = engine.alone(self.pair[k], reward), engine.places(engine.goal[self.pair[k]])
            log_z[k] = prior.log_partition() + prior.log_seen(self.sightings[k])
            if log_z[k] > -np.inf and (weights is not None or features is not None):
                own = engine.uses(prior.seen(self.sightings[k]))
                uses[places] += 0.0 if weights is None else weights[k] * own
                each[k] = 0.0 if features is None else features[places].T @ own
        return Explained(log_z, uses, each)

    def require_explained(self, found: Explained, numbers: Ints) -> None:
        """InfeasibleError for the first that no valid trip explains, by its number (n,)."""
        for k in np.flatnonzero(found.log_z == -np.inf).tolist():
            prior = self.engine.alone(self.pair[k], np.zeros(len(self.engine.log_dynamics)))
            error = explain_unseen(prior.product, self.sightings[k])
            error.place = f"demonstration {numbers[k]}"
            raise error


class Tasks(Product):
    """Products next to each other, each of which ends where its own task does."""

    @property
    def fixed_length(self) -> bool:
        """Trajectories end at the goals of their tasks, which the world itself does not know."""
        return False


def side_by_side(network: Network, by_goal: dict[int, Product]) -> Tasks:
    """The products of goals next to each other, over all edges of the network; starts stay in their order."""
    products = list(by_goal.values())
    first = np.cumsum([0, *(product.n_nodes for product in products)])
    depth = np.concatenate([product.depth for product in products])
    order = np.argsort(depth, kind="stable")  # nodes of a product are numbered by depth
    number = np.empty(len(order), dtype=np.uint32)
    number[order] = np.arange(len(order), dtype=np.uint32)
    degree = np.concatenate([np.diff(product.indptr.astype(np.int64)) for product in products])
    begin = np.concatenate([[0], np.cumsum(degree)])
    indptr = np.concatenate([[0], np.cumsum(degree[order])])
    moved = np.arange(indptr[-1]) + np.repeat(begin[order] - indptr[:-1], degree[order])
    # The edges of a task are the network's without those that leave its goal.
    edge = [np.flatnonzero(network.source != goal)[product.edge] for goal, product in by_goal.items()]

    def nodes(of: str) -> NDArray[Any]:
        """The new numbers of nodes that each product has numbered for itself."""
        return np.asarray(number[np.concatenate([getattr(one, of) + first[k] for k, one in enumerate(products)])])

    def each(of: str) -> NDArray[Any]:
        return np.concatenate([getattr(product, of) for product in products])[order]

    return Tasks(
        world=network.any_task,
        compiled=products[0].compiled,
        horizon=products[0].horizon,
        state=each("state"),
        depth=depth[order],
        distance=each("distance"),
        accepting=each("accepting"),
        indptr=indptr.astype(np.uint32),
        target=nodes("target")[moved],
        edge=np.concatenate(edge)[moved].astype(np.uint32),
        starts=nodes("starts"),
        layer_ends=layer_ends(depth[order], products[0].horizon),
        keeps=each("keeps"),
    )


# ---- Trips under rules that do not fit the product: valid draws from the relaxation.
#
# With z the exact weight of a pair's trips under the rules that fit, and A the share of these that keep the rest too,
# log Z = log z + log A: only A is estimated.

TRIES = ((1, 0.2), (10, 0.02), (100, 0.001))  # times as many draws, and the share of valid ones that is enough then
FEW = 64  # draws of which a number of times are made again, at the least
PILOT_DRAWS = 100  # of every pair, which say only how many it takes to know log A well
LEAST_DRAWS, MOST_DRAWS = 300, 500_000  # behind a likelihood: of every pair, and of all together beyond these
PIECE = 50_000  # draws to one goal that are made at once for it
CELLS = 4_000_000  # edges held at once while draws are checked


Checked: TypeAlias = tuple[Ints, Walks, Bools]
"""Draws: the pair of each, the walks, and which of them keep the rules."""


class RejectTrips:
    """Trips of a network (starts, goals, weights, max_nodes, as of `TripEngine`) under rules of which some reject."""

    def __init__(self, network: Network, constraint: Constraint | None, *trips: Any) -> None:
        require_hard(constraint, "rejection of trips, where the rules do not fit max_nodes,")
        self.network, self.compiled = network, CompiledConstraint(constraint, network.any_task)
        made = relaxed(constraint, lambda rule: TripEngine(network, rule, *trips))
        self.engine, self.multiplied, self.rejecting = made

    def draw(
        self, reward: Floats, wanted: Ints | int, rng: np.random.Generator
    ) -> tuple[Floats, tuple[csr_matrix, Floats, Floats, Bools, Ints]]:
        """So many of every pair (P,) under rewards of world edges (E,), ten times as many where few are valid.

        The share of valid ones of each pair (P,); and visits, measure, log-dynamics, validity and pair of all draws, by
        pairs: measure is -log of the expected number of each, under the rules that fit and their reward.
        """
        found = list(self._tried(reward, wanted, rng))
        pair, valid = (np.concatenate([each[k] for each in found]) for k in (0, 2))
        dynamics = np.concatenate([walks.totals(self.engine.log_dynamics) for _, walks, _ in found])
        gained = np.concatenate([walks.totals(reward) for _, walks, _ in found])
        visits = vstack([walks.visit_rows() for _, walks, _ in found], format="csr")
        n, n_valid = self._counts(found)
        measure = -(dynamics + gained - self.engine.log_z(reward)[pair]) - np.log(n)[pair]
        order = np.argsort(pair, kind="stable")
        return n_valid / n, (visits[order], measure[order], dynamics[order], valid[order], pair[order])

    def value(self, reward: Floats, n_draws: int, rng: np.random.Generator) -> TripValue:
        """log Z of every pair and the uses of edges, summed with the pairs' weights, by so many draws of each pair.

        Both are exact under the rules that fit; draws only say what the others change.
        """
        found, known = list(self._tried(reward, n_draws, rng)), self.engine.value(reward)
        n, n_valid = self._counts(found)
        visits, weight = known.visits, self.engine.weight
        for pair, walks, valid in found:
            visits = visits + walks.edge_uses(weights=weight[pair] * (valid / n_valid[pair] - 1.0 / n[pair]))
        return TripValue(known.log_z + np.log(n_valid / n), visits)

    def _tried(self, reward: Floats, wanted: Ints | int, rng: np.random.Generator) -> Iterator[Checked]:
        """Checked draws, and more of them for pairs of which few were valid; an error where that does not help."""
        counts, few = np.zeros((2, self.engine.n_pairs), dtype=np.int64), np.ones(self.engine.n_pairs, dtype=np.bool_)
        for times, enough in TRIES:
            now = wanted if times == 1 else times * np.maximum(wanted, FEW)
            for batch in self._checked(reward, np.where(few, now, 0), rng):
                counts += self._counts([batch])
                yield batch
            few = counts[1] < enough * counts[0]
            if not few.any():
                return
        hopeless, network = np.flatnonzero(few), self.network
        pair = int(hopeless[np.argmin((counts[1] / counts[0])[hopeless])])
        more = f" ({len(hopeless) - 1} more such pairs)" if len(hopeless) > 1 else ""
        start, goal = (network.describe_state(int(ends[pair])) for ends in (self.engine.start, self.engine.goal))
        raise EngineError(
            f"rejection is hopeless for trips from {start} to {goal}{more}: {counts[1, pair]} of {counts[0, pair]} "
            f"draws also kept {', '.join(map(repr, self.rejecting))}. Raise max_nodes so that more is multiplied in, "
            "give the network a horizon (a share or a sum without bound fits only with one), loosen a rule, or leave "
            "these trips out."
        )

    def _counts(self, batches: Iterable[Checked]) -> Ints:
        """How many of each pair there are, and how many valid ones (2, P)."""
        counts = np.zeros((2, self.engine.n_pairs), dtype=np.int64)
        for pair, _, valid in batches:
            counts += [np.bincount(which, minlength=self.engine.n_pairs) for which in (pair, pair[valid])]
        return counts

    def partitions(self, reward: Floats, error: float) -> tuple[Floats, Floats]:
        """log Z of every pair and its variance (P,), the sum of all with their weights to this standard error.

        That takes MOST_DRAWS at the most: with more trips than these can serve, the variance is larger. The draws that
        chose the numbers are not counted again, which would favour acceptances that they saw too high.
        """
        engine, rng = self.engine, np.random.default_rng(0)  # the same question has the same answer
        n, n_valid = self._counts(self._tried(reward, PILOT_DRAWS, rng))
        # The fewest draws for this error are in proportion to weight times deviation; a pair that saw no invalid draw
        # may still have some.
        deviation = engine.weight * np.sqrt((n - n_valid + 0.5) / np.maximum(n_valid, 1))
        total = float(deviation.sum())
        enough = np.ceil(deviation * min(total / error**2, MOST_DRAWS / max(total, 1e-300))).astype(np.int64)
        wanted = np.maximum(enough, np.maximum(n, LEAST_DRAWS))
        n_pieces = -(-int(np.bincount(engine.goal, weights=wanted).max()) // PIECE)
        pieces = (wanted // n_pieces + (piece < wanted % n_pieces) for piece in range(n_pieces))
        _, n_valid = self._counts(batch for piece in pieces for batch in self._checked(reward, piece, rng))
        acceptance = np.maximum(n_valid, 1) / wanted  # the pilot saw valid ones of every pair
        log_z = engine.log_z(reward)
        return log_z + np.log(acceptance), (1.0 - acceptance) / (acceptance * wanted)

    def valid_moments(
        self, reward: Floats, features: csr_matrix, n_draws: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """E[f | valid] of every pair (P, d), and the mean of Var[f | valid] over pairs with their weights (d, d)."""
        engine, d = self.engine, features.shape[1]
        means, variance = np.zeros((engine.n_pairs, d)), np.zeros((d, d))
        for pair, walks, valid in self._checked(reward, np.full(engine.n_pairs, n_draws), rng):
            own, kept = pair[valid], walks[valid]
            shape = (len(kept), len(self.network.source))
            uses = csr_matrix((np.ones(len(kept.edges)), kept.edges, kept.offsets), shape=shape)
            rows = np.asarray((uses @ features).todense())
            n = np.bincount(own, minlength=engine.n_pairs)
            share = 1.0 / np.maximum(n, 1)
            np.add.at(means, own, rows * share[own][:, None])
            centred = (rows - means[own]) * np.sqrt((engine.weight / np.maximum(n - 1, 1))[own])[:, None]
            variance += centred.T @ centred
        return means, variance

    def _checked(self, reward: Floats, wanted: Ints, rng: np.random.Generator) -> Iterator[Checked]:
        """Draws in batches whose padded table stays small, all of a pair's in one."""
        kept: list[tuple[Ints, ...]] = []
        longest, n = 0, 0

        def checked() -> Checked:
            pair, edges, lengths = (np.concatenate(part) for part in zip(*kept, strict=True))
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            walks = Walks(self.network.any_task, self.engine.start[pair], edges, offsets)
            return pair, walks, self.compiled.check(walks)

        for drawn in self._drawn(reward, wanted, rng):
            if longest * n > CELLS:
                yield checked()
                kept, longest, n = [], 0, 0
            kept.append(drawn)
            longest, n = max(longest, int(drawn[2].max(initial=0))), n + len(drawn[0])
        if kept:
            yield checked()

    def _drawn(self, reward: Floats, wanted: Ints, rng: np.random.Generator) -> Iterator[tuple[Ints, ...]]:
        """The pair of each draw, their world edges in a row, and their lengths; last of pairs that no system serves."""
        engine = self.engine
        served = np.zeros(engine.n_pairs, dtype=np.bool_)
        if engine.shared is not None:
            for drawn in engine.shared.draw(self.engine.log_dynamics + reward, wanted, rng):
                served[drawn[0]] = True
                yield drawn
        for left in np.flatnonzero(~served & (wanted > 0)).tolist():
            walks = engine.alone(left, reward).draw(int(wanted[left]), rng)
            own = np.flatnonzero(self.network.source != engine.goal[left])
            yield np.full(len(walks), left), own[walks.edges], walks.lengths.astype(np.int64)


def edge_rewards(network: Network, table: Floats) -> Floats:
    """Rewards of edges (E,) from a table; from a flat one, the weights of rules that are usually kept after them."""
    pairs = network.source.astype(np.int64) * network.n_actions + network.action
    return np.append(table.ravel()[pairs], table.ravel()[network.n_states * network.n_actions :])


def trip_likelihoods(
    network: Network,
    constraint: Constraint | None,
    max_nodes: int | None,
    discount: float,
    trips: Walks,
    sightings: Sequence[Sighting],
    error: float,
) -> Callable[[Floats], tuple[Floats, Floats]]:
    """log P(tau | start, goal) of each trip, and of each sighting after them, under any reward table; and their errors.

    The error is 0 where the rules fit the product. Elsewhere draws decide, so many that the sum over all trips has a
    standard error of `error` or so.
    """
    seen = seen_likelihoods(network, constraint, max_nodes, discount, sightings)
    asked = network, constraint, trips.starts, trips.last_states, np.ones(len(trips)), max_nodes
    dynamics = trips.totals(np.log(network.probability))
    kept = CompiledConstraint(constraint, network.any_task).kept(trips)
    engine: TripEngine | RejectTrips | None = None

    def under(table: Floats) -> tuple[Floats, Floats]:
        nonlocal engine
        values, certain = seen(table), np.zeros(len(sightings))
        if not len(trips):
            return values, certain
        reward = edge_rewards(network, table)
        scores = dynamics + trips.totals(reward[: len(network.source)], discount) + kept @ reward[len(network.source) :]
        if not isinstance(engine, RejectTrips):
            try:
                engine = engine or TripEngine(*asked, discount)
                whole = scores - engine.log_z(reward)[engine.pair_of]
                return np.append(whole, values), np.zeros(len(whole) + len(values))
            except ProductTooLargeError:  # with a horizon, each goal's product is made when it is asked for
                if discount != 1.0:
                    raise
            engine = RejectTrips(*asked)
        log_z, variance = engine.partitions(reward, error)
        whole, errors = scores - log_z[engine.engine.pair_of], np.sqrt(variance[engine.engine.pair_of])
        return np.append(whole, values), np.append(errors, certain)

    return under


def seen_likelihoods(
    network: Network, rules: Constraint | None, max_nodes: int | None, discount: float, sightings: Sequence[Sighting]
) -> Callable[[Floats], Floats]:
    """log p(y | start, goal) of each sighting (n,) under any reward table; one product for all."""
    out = np.full(len(sightings), -np.inf)
    if not len(sightings):
        return lambda table: out
    starts, goals = np.array([trip_ends(y, network) for y in sightings]).T
    some = np.flatnonzero(have_a_way(network, rules, starts, goals, max_nodes))
    engine = TripEngine(network, rules, starts[some], goals[some], np.ones(len(some)), max_nodes, discount)
    seen = SeenTrips(engine, engine.pair_of, [sightings[k] for k in some.tolist()])

    def under(table: Floats) -> Floats:
        reward, values = edge_rewards(network, table), out.copy()
        values[some] = seen.value(reward).log_z - engine.log_z(reward)[engine.pair_of]
        return values

    return under
