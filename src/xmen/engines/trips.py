"""All trips through a network at once: log Z of every pair of a start and a goal, and the expected uses of every edge.

Without a horizon one factorisation serves all goals (`ManyGoals`). A goal that it cannot serve, because its numbers
become too small or because cycles through the other goals do not add up, gets a solve of its own, whose weights are
relative to the best way; so do all goals of a network with a horizon, by the layered engine, or on a device all of them
side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, vstack

from xmen.constraints.constraint import Constraint, conjunction, units
from xmen.engines.diagnosis import explain_conflict, multiply
from xmen.engines.distribution import Law
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import find_device, place_product
from xmen.errors import EngineError, InfeasibleError, ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import Product, layer_ends
from xmen.product.many_goals import ManyGoals, Reweigh, Trips, build_open_product
from xmen.rewards import Floats
from xmen.worlds import MDP, EdgeWeights, Network, Walks
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.network import NetworkTask

if TYPE_CHECKING:
    from torch import device as Device

LEAST_BUDGET = 20_000  # nodes of a product that all trips of a network share
COPIES = 64  # of the network that its rules may make of it


def trip_budget(max_nodes: int | None, network: Network) -> int:
    """The given budget of product nodes, or some copies of the network: factors need more room than a sweep."""
    return int(max_nodes) if max_nodes is not None else max(LEAST_BUDGET, COPIES * network.n_states)


def have_a_way(
    network: Network, constraint: Constraint | None, starts: NDArray[np.int64], goals: NDArray[np.int64], max_nodes: int
) -> NDArray[np.bool_]:
    """Which trips (n,) have a way that keeps the rules, as many of these as fit the product."""

    def under(rule: Constraint | None) -> NDArray[np.bool_]:
        found = np.zeros(len(starts), dtype=np.bool_)
        if network.horizon is None:
            compiled = CompiledConstraint(rule, network.any_task.starting_in(starts))
            product = build_open_product(compiled, np.unique(goals), max_nodes)
            origin, left = product.start_of[starts], product.state[product.source]
        for goal in np.unique(goals).tolist():
            its = np.flatnonzero(goals == goal)
            if network.horizon is None:
                its, on = its[origin[its] >= 0], left != goal
                ends = product.accepting & (product.state == goal)
                distance = distance_to(ends, product.source[on].astype(np.uint32), product.target[on].astype(np.uint32))
                found[its] = distance[origin[its]] < UNREACHABLE
            else:
                begun = network.any_task.starting_in(starts[its]).start
                own = multiply(NetworkTask(network, int(starts[its[0]]), goal).with_start(begun), rule, max_nodes)
                found[its] = np.isin(starts[its], own.state[own.starts])
        return found

    try:
        return under(constraint)
    except ProductTooLargeError:
        chosen, found = list[Constraint](), under(None)
    for _, part in units(constraint):
        with suppress(ProductTooLargeError):
            found = under(conjunction([*chosen, part]))
            chosen.append(part)
    return found


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
        max_nodes: int,
        discount: float = 1.0,
        device: str | None = None,
    ) -> None:
        self.network, self.constraint = network, constraint
        self.max_nodes, self.discount = max_nodes, discount
        starts, goals = np.asarray(starts, dtype=np.int64), np.asarray(goals, dtype=np.int64)
        keys, self.pair_of = np.unique(goals * network.n_states + starts, return_inverse=True)
        self.goal, self.start = np.divmod(keys, network.n_states)
        self.weight: Floats = np.bincount(self.pair_of, weights=np.asarray(weights), minlength=len(keys)).astype(float)
        self._log_dynamics = np.log(network.probability)
        self._alone: dict[int, Product] = {}
        self.n_pairs = len(keys)
        self.shared: ManyGoals | None = None  # the system that all goals share; None with a horizon
        self._device = find_device(device)
        if network.horizon is None:
            compiled = CompiledConstraint(constraint, network.any_task.starting_in(self.start))
            product = build_open_product(compiled, np.unique(self.goal), max_nodes)
            origin = product.start_of[self.start]
            if np.any(origin < 0):
                raise self._infeasible(int(np.argmin(origin)))
            self.shared = ManyGoals(product, Trips(origin, self.goal, self.weight))

    def value(self, reward: Floats, with_visits: bool = True, reweigh: Reweigh | None = None) -> TripValue:
        """log Z and visits under rewards of world edges (E,).

        `reweigh(pairs, log_z)` gives other weights to pairs, once their log Z is known.
        DivergenceError where the weights of some pair's trajectories do not add up.
        """
        if self.shared is None and self._device is not None:
            return TripValue(*self._moved.value(reward, self.discount, self.weight, with_visits, reweigh))
        if self.shared is None:
            log_z, visits = np.full(self.n_pairs, np.nan), np.zeros(len(reward))
            left = np.unique(self.goal).tolist()
        else:
            log_z, visits, left = self.shared.solve(self._log_dynamics + reward, with_visits, reweigh)
        for goal in left:
            pairs = np.flatnonzero(self.goal == goal)
            d = self._exact(self._product(goal), reward, given="start")
            log_z[pairs] = d.start_partitions(self.start[pairs])
            weights = self.weight[pairs] if reweigh is None or not with_visits else reweigh(pairs, log_z[pairs])
            if not with_visits or not weights.any():
                continue
            if reweigh is not None:
                shares = np.zeros(self.network.n_states)
                shares[self.start[pairs]] = weights / weights.sum()
                product = replace(d.product, world=d.product.world.with_start(shares))
                d = self._exact(product, reward, given="start")
            visits[self.network.source != goal] += weights.sum() * d.edge_visits()
        return TripValue(log_z, visits)

    def each(self, reward: Floats, features: csr_matrix) -> Floats:
        """E[f] of every pair's trajectories (P, d), from features of world edges (E, d)."""
        if self.shared is None:
            out = np.full((self.n_pairs, features.shape[1]), np.nan)
            left = np.unique(self.goal).tolist()
        else:
            out, left = self.shared.each(self._log_dynamics + reward, features)
        for pair in np.flatnonzero(np.isin(self.goal, left)).tolist():
            goal = int(self.goal[pair])
            visits = self.alone(pair, reward).edge_visits()
            out[pair] = features[np.flatnonzero(self.network.source != goal)].T @ visits
        return out

    def alone(self, pair: int, reward: Floats) -> ExactDistribution:
        """The distribution of one pair, whose world's edges are the network's without those that leave the goal."""
        task = NetworkTask(self.network, int(self.start[pair]), int(self.goal[pair]))
        product = multiply(task, self.constraint, self.max_nodes)
        return self._exact(product, reward)

    @cached_property
    def _moved(self) -> TripsOnDevice:
        assert self._device is not None
        products = {goal: self._product(goal) for goal in np.unique(self.goal).tolist()}
        return TripsOnDevice(self.network, products, self.start, self.goal, self._device)

    def _product(self, goal: int) -> Product:
        """The product of one goal, from where its pairs start."""
        if goal not in self._alone:
            pairs = np.flatnonzero(self.goal == goal)
            shares = np.zeros(self.network.n_states)
            total = self.weight[pairs].sum()
            shares[self.start[pairs]] = self.weight[pairs] / total if total > 0 else 1.0 / len(pairs)
            task = NetworkTask(self.network, int(self.start[pairs[0]]), goal).with_start(shares)
            product = multiply(task, self.constraint, self.max_nodes)
            without = np.setdiff1d(np.flatnonzero(shares), product.state[product.starts])
            if len(without):
                raise self._infeasible(int(pairs[self.start[pairs] == without[0]][0]))
            self._alone[goal] = product
        return self._alone[goal]

    def _exact(self, product: Product, reward: Floats, given: str | None = None) -> ExactDistribution:
        table = np.zeros((self.network.n_states, self.network.n_actions))
        table[self.network.source, self.network.action] = reward
        return ExactDistribution(product, Law(product.world, self.constraint, table, self.discount, given), None)

    def _infeasible(self, pair: int) -> InfeasibleError:
        """Why no valid trip leads from this pair's start to its goal."""
        network, start, goal = self.network, int(self.start[pair]), int(self.goal[pair])
        where = f"from {network.describe_state(start)} to {network.describe_state(goal)}"
        try:
            error = explain_conflict(NetworkTask(network, start, goal), units(self.constraint), self.max_nodes)
        except ProductTooLargeError:
            return InfeasibleError(f"{where} there is no valid trip")
        return InfeasibleError(f"{where}: {error}", conflict=error.conflict)


# ---- All trips of a network with a horizon in one pass: the products of all goals side by side on a device


class Tasks(Product):
    """Products next to each other, each of which ends where its own task does."""

    @property
    def fixed_length(self) -> bool:
        """Trajectories end at the goals of their tasks, which the world itself does not know."""
        return False


def side_by_side(world: MDP, products: Sequence[Product], edges: Sequence[NDArray[np.int64]]) -> Tasks:
    """Products of one horizon next to each other, over a world that has all their edges; starts stay in their order.

    edges[k] gives the world's edge for each edge of the k-th product's own world. No edge leads from one to another.
    """
    sizes = [product.n_nodes for product in products]
    first = np.cumsum([0, *sizes])
    depth = np.concatenate([product.depth for product in products])
    order = np.argsort(depth, kind="stable")  # nodes of a product are numbered by depth
    number = np.empty(len(order), dtype=np.uint32)
    number[order] = np.arange(len(order), dtype=np.uint32)
    degree = np.concatenate([np.diff(product.indptr.astype(np.int64)) for product in products])
    begin = np.concatenate([[0], np.cumsum(degree)])
    indptr = np.concatenate([[0], np.cumsum(degree[order])])
    moved = np.arange(indptr[-1]) + np.repeat(begin[order] - indptr[:-1], degree[order])
    target = number[np.concatenate([product.target + first[k] for k, product in enumerate(products)])]
    edge = np.concatenate([edges[k][product.edge] for k, product in enumerate(products)])
    starts = np.concatenate([product.starts + first[k] for k, product in enumerate(products)])
    one = products[0]
    return Tasks(
        world=world,
        compiled=one.compiled,
        horizon=one.horizon,
        state=np.concatenate([product.state for product in products])[order],
        depth=depth[order],
        distance=np.concatenate([product.distance for product in products])[order],
        accepting=np.concatenate([product.accepting for product in products])[order],
        indptr=indptr.astype(np.uint32),
        target=target[moved],
        edge=edge[moved].astype(np.uint32),
        starts=number[starts],
        layer_ends=layer_ends(depth[order], one.horizon),
    )


class TripsOnDevice:
    """Pairs of a start and a goal, given the product of each goal."""

    def __init__(
        self,
        network: Network,
        products: dict[int, Product],
        start: NDArray[np.int64],
        goal: NDArray[np.int64],
        device: Device,
    ) -> None:
        edges = [np.flatnonzero(network.source != its) for its in products]
        whole = side_by_side(network.any_task, list(products.values()), edges)
        self._network, self._place = network, place_product(whole, device, "float64")
        of = np.repeat(list(products), [len(product.starts) for product in products.values()])
        keys = of * network.n_states + whole.state[whole.starts]
        order = np.argsort(keys)
        self._pair = order[np.searchsorted(keys, goal * network.n_states + start, sorter=order)]  # its start node

    def value(
        self, reward: Floats, discount: float, weight: Floats, with_visits: bool, reweigh: Reweigh | None
    ) -> tuple[Floats, Floats]:
        """log Z of every pair (P,), and the expected uses of the network's edges (E,), summed with the weights."""
        network, starts = self._network, self._place.product.starts
        law = EdgeWeights(np.log(network.probability), reward, np.zeros(network.n_states), discount, given_start=True)
        run = self._place.run(law, self._place.weights([law]))
        log_z = run.log_completions(0, starts)[self._pair, 0]
        if not with_visits:
            return log_z, np.zeros(len(reward))
        shares = np.zeros(len(starts))
        shares[self._pair] = weight if reweigh is None else reweigh(np.arange(len(weight)), log_z)
        _, discounted, _ = run.uses(starts=shares[:, None])
        visits: Floats = discounted[:, 0].cpu().numpy()
        return log_z, visits


# ---- Trips under rules that do not fit the product: draws from the relaxation, of which those are kept that are
# valid.
#
# With z the exact weight of a pair's trips under the rules that fit, and A the share of these that keep the rest too,
# log Z = log z + log A: only A is estimated.


TRIES = ((1, 0.2), (10, 0.02), (100, 0.001))  # times as many draws, and the share of valid ones that is enough then
FEW = 64  # draws of which a number of times are made again, at the least
PILOT_DRAWS = 100  # of every pair, which say only how many it takes to know log A well
LEAST_DRAWS, MOST_DRAWS = 300, 500_000  # behind a likelihood: of every pair, and of all together beyond these
PIECE = 50_000  # draws to one goal that are made at once for it
CELLS = 4_000_000  # edges held at once while draws are checked


class TripDraws(NamedTuple):
    """How many were drawn of each pair and how many of these are valid; and all of them, in the order of their pairs.

    log_prob (n,) is that of each under the rules that fit and the reward of the draws; `visits` as `Walks.visit_rows`.
    """

    n: NDArray[np.int64]  # (P,)
    n_valid: NDArray[np.int64]  # (P,)
    pair: NDArray[np.int64]  # (n,)
    valid: NDArray[np.bool_]  # (n,)
    visits: csr_matrix  # (n, n_states * n_actions)
    log_dynamics: Floats  # (n,)
    log_prob: Floats  # (n,)

    @property
    def acceptance(self) -> Floats:
        """The share of valid draws of each pair."""
        return self.n_valid / self.n


class RejectTrips:
    """All trips of a network under rules of which some reject."""

    def __init__(
        self,
        network: Network,
        constraint: Constraint | None,
        starts: ArrayLike,
        goals: ArrayLike,
        weights: ArrayLike,
        max_nodes: int,
    ) -> None:
        self.network = network
        self.compiled = CompiledConstraint(constraint, network.any_task)
        self.multiplied: list[str] = []
        self.rejecting: list[str] = []
        chosen: list[Constraint] = []
        self.engine = TripEngine(network, None, starts, goals, weights, max_nodes)
        for label, part in units(constraint):
            try:
                self.engine = TripEngine(network, conjunction([*chosen, part]), starts, goals, weights, max_nodes)
            except ProductTooLargeError:
                self.rejecting.append(label)
                continue
            chosen.append(part)
            self.multiplied.append(label)
        self._log_dynamics = np.log(network.probability)

    def draw(self, reward: Floats, wanted: NDArray[np.int64] | int, rng: np.random.Generator) -> TripDraws:
        """So many of every pair (P,) under rewards of world edges (E,), ten times as many where few are valid."""
        found = list(self._tried(reward, wanted, rng))
        pair, valid = (np.concatenate([each[k] for each in found]) for k in (0, 2))
        dynamics = np.concatenate([walks.totals(self._log_dynamics) for _, walks, _ in found])
        gained = np.concatenate([walks.totals(reward) for _, walks, _ in found])
        visits = vstack([walks.visit_rows() for _, walks, _ in found], format="csr")
        log_z = self.engine.value(reward, with_visits=False).log_z
        order = np.argsort(pair, kind="stable")
        rows = (each[order] for each in (pair, valid, visits, dynamics, dynamics + gained - log_z[pair]))
        return TripDraws(*self._counts(pair, valid), *rows)

    def value(self, reward: Floats, n_draws: int, rng: np.random.Generator) -> TripValue:
        """log Z of every pair and the uses of edges, summed with the pairs' weights, by so many draws of each pair.

        Both are exact under the rules that fit; draws only say what the others change.
        """
        found, known = list(self._tried(reward, n_draws, rng)), self.engine.value(reward)
        n, n_valid = np.sum([self._counts(pair, valid) for pair, _, valid in found], axis=0)
        visits, weight = known.visits, self.engine.weight
        for pair, walks, valid in found:
            visits = visits + walks.edge_uses(weights=weight[pair] * (valid / n_valid[pair] - 1.0 / n[pair]))
        return TripValue(known.log_z + np.log(n_valid / n), visits)

    def _tried(self, reward: Floats, wanted: NDArray[np.int64] | int, rng: np.random.Generator) -> Iterator[Checked]:
        """`_checked`, and again for pairs of which few were valid; an error where that does not help."""
        n, n_valid = np.zeros((2, self.engine.n_pairs), dtype=np.int64)
        few = np.ones(self.engine.n_pairs, dtype=np.bool_)
        for times, enough in TRIES:
            now = wanted if times == 1 else times * np.maximum(wanted, FEW)
            for pair, walks, valid in self._checked(reward, np.where(few, now, 0), rng):
                drawn, good = self._counts(pair, valid)
                n, n_valid = n + drawn, n_valid + good
                yield pair, walks, valid
            few = n_valid < enough * n
            if not few.any():
                return
        self._refuse_hopeless(np.flatnonzero(few), n, n_valid)

    def _counts(self, pair: NDArray[np.int64], valid: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of each pair there are, and how many valid ones."""
        n_pairs = self.engine.n_pairs
        return np.bincount(pair, minlength=n_pairs), np.bincount(pair[valid], minlength=n_pairs)

    def partitions(self, reward: Floats, error: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """log Z of every pair and its variance (P,), the sum of all with their weights to this standard error.

        That takes MOST_DRAWS at the most: with more trips than these can serve, the variance is larger. The draws that
        chose the numbers are not counted again, which would favour acceptances that they saw too high.
        """
        n, n_valid = np.zeros((2, self.engine.n_pairs), dtype=np.int64)
        for pair, _, valid in self._tried(reward, PILOT_DRAWS, rng):
            drawn, good = self._counts(pair, valid)
            n, n_valid = n + drawn, n_valid + good
        wanted = self._enough(n, n_valid, error)
        n_pieces = -(-int(np.bincount(self.engine.goal, weights=wanted).max()) // PIECE)
        n_valid = np.zeros(self.engine.n_pairs, dtype=np.int64)
        for piece in range(n_pieces):
            now = wanted // n_pieces + (piece < wanted % n_pieces)
            for pair, _, valid in self._checked(reward, now, rng):
                n_valid += self._counts(pair, valid)[1]
        acceptance = np.maximum(n_valid, 1) / wanted  # the pilot saw valid ones of every pair
        log_z = self.engine.value(reward, with_visits=False).log_z
        return log_z + np.log(acceptance), (1.0 - acceptance) / (acceptance * wanted)

    def _enough(self, n: NDArray[np.int64], n_valid: NDArray[np.int64], error: float) -> NDArray[np.int64]:
        """Draws of each pair (P,): the fewest for this error are in proportion to weight times deviation."""
        n_invalid = n - n_valid + 0.5  # one that saw no invalid draw may still have some
        deviation = self.engine.weight * np.sqrt(n_invalid / np.maximum(n_valid, 1))
        total = float(deviation.sum())
        wanted = np.ceil(deviation * min(total / error**2, MOST_DRAWS / max(total, 1e-300)))
        return np.maximum(wanted.astype(np.int64), np.maximum(n, LEAST_DRAWS))

    def valid_moments(
        self, reward: Floats, features: csr_matrix, n_draws: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        """E[f | valid] of every pair (P, d), and the mean of Var[f | valid] over pairs with their weights (d, d)."""
        engine = self.engine
        means = np.zeros((engine.n_pairs, features.shape[1]))
        variance = np.zeros((features.shape[1],) * 2)
        wanted = np.full(engine.n_pairs, n_draws, dtype=np.int64)
        for pair, walks, valid in self._checked(reward, wanted, rng):
            rows = np.asarray((_uses(walks[valid]) @ features).todense())
            own = pair[valid]
            n = np.bincount(own, minlength=engine.n_pairs)
            share = 1.0 / np.maximum(n, 1)
            np.add.at(means, own, rows * share[own][:, None])
            centred = (rows - means[own]) * np.sqrt((engine.weight / np.maximum(n - 1, 1))[own])[:, None]
            variance += centred.T @ centred
        return means, variance

    def _checked(self, reward: Floats, wanted: NDArray[np.int64], rng: np.random.Generator) -> Iterator[Checked]:
        """Draws in batches, all of a pair's in one: the pair of each, the walks, and which of them keep the rules."""
        for pair, edges, lengths in self._drawn(reward, wanted, rng):
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            walks = Walks(self.network.any_task, self.engine.start[pair], edges, offsets)
            yield pair, walks, self.compiled.check(walks)

    def _drawn(self, reward: Floats, wanted: NDArray[np.int64], rng: np.random.Generator) -> Iterator[Batch]:
        """Draws of the goals that share a system, then of each pair that it could not serve."""
        engine, log_weight = self.engine, self._log_dynamics + reward
        served = np.zeros(engine.n_pairs, dtype=np.bool_)
        for batch in _gathered(iter(()) if engine.shared is None else engine.shared.draw(log_weight, wanted, rng)):
            served[batch[0]] = True
            yield batch
        for left in np.flatnonzero(~served & (wanted > 0)).tolist():
            walks = engine.alone(left, reward).draw(int(wanted[left]), rng)
            kept = np.flatnonzero(self.network.source != engine.goal[left])
            yield np.full(len(walks), left), kept[walks.edges], walks.lengths.astype(np.int64)

    def _refuse_hopeless(self, hopeless: NDArray[np.int64], n: NDArray[np.int64], n_valid: NDArray[np.int64]) -> None:
        pair, network = int(hopeless[np.argmin((n_valid / n)[hopeless])]), self.network
        more = f" ({len(hopeless) - 1} more such pairs)" if len(hopeless) > 1 else ""
        raise EngineError(
            f"rejection is hopeless for trips from {network.describe_state(int(self.engine.start[pair]))} to "
            f"{network.describe_state(int(self.engine.goal[pair]))}{more}: {n_valid[pair]} of {n[pair]} draws also "
            f"kept {', '.join(map(repr, self.rejecting))}. Raise max_nodes so that more is multiplied in, give the "
            "network a horizon (a share or a sum without bound fits only with one), loosen a rule, or leave these "
            "trips out."
        )


class TripPartitions:
    """log Z of each trip's pair under any reward; the product of network and rules is made once."""

    def __init__(
        self,
        network: Network,
        constraint: Constraint | None,
        starts: NDArray[np.int64],
        goals: NDArray[np.int64],
        max_nodes: int | None,
        discount: float,
        error: float,
    ) -> None:
        self._asked = network, constraint, starts, goals, np.ones(len(starts)), trip_budget(max_nodes, network)
        self._discount, self._error = discount, error
        self._exact: TripEngine | None = None
        self._rejecting: RejectTrips | None = None

    def __call__(self, reward: Floats) -> tuple[Floats, Floats]:
        """log Z of each trip (n,) and its standard error: 0 where the rules fit the product, else by rejection.

        Rejection draws with a seed of its own, so that the same question has the same answer, and so often that the
        sum over all trips has a standard error of `error` or so.
        """
        if self._rejecting is None:
            try:
                engine = self._exact = self._exact or TripEngine(*self._asked, self._discount)
                log_z = engine.value(reward, with_visits=False).log_z[engine.pair_of]
                return log_z, np.zeros(len(log_z))
            except ProductTooLargeError:  # with a horizon, each goal's product is made when it is asked for
                if self._discount != 1.0:
                    raise
            self._rejecting = RejectTrips(*self._asked)
        trips, pair_of = self._rejecting, self._rejecting.engine.pair_of
        log_z, variance = trips.partitions(reward, self._error, np.random.default_rng(0))
        return log_z[pair_of], np.sqrt(variance[pair_of])


Checked: TypeAlias = tuple[NDArray[np.int64], Walks, NDArray[np.bool_]]
"""Draws: the pair of each, the walks, and which of them keep the rules."""

Batch: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Walks in a row: the pair of each, their world edges one after the other, their lengths."""


def _uses(walks: Walks) -> csr_matrix:
    """How often each of these walks uses each world edge, as sparse rows."""
    shape = (len(walks), len(walks.world.source))
    return csr_matrix((np.ones(len(walks.edges)), (walks.owner, walks.edges)), shape=shape)


def _gathered(walks: Iterator[Batch]) -> Iterator[Batch]:
    """The walks of several goals together, in pieces whose padded table stays small."""
    kept: list[Batch] = []
    longest, n = 0, 0
    for batch in walks:
        if kept and longest * n > CELLS:
            yield _joined(kept)
            kept, longest, n = [], 0, 0
        kept.append(batch)
        longest, n = max(longest, int(batch[2].max(initial=0))), n + len(batch[0])
    if kept:
        yield _joined(kept)


def _joined(batches: list[Batch]) -> Batch:
    pair, edges, lengths = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return pair, edges, lengths
