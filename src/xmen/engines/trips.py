"""All trips through a network at once: log Z of every pair of a start and a goal, and the expected uses of every edge.

Without a horizon one factorisation serves all goals (`ManyGoals`). A goal that it cannot serve, because its numbers
become too small or because cycles through the other goals do not add up, gets a solve of its own, whose weights are
relative to the best way; so do all goals of a network with a horizon, by the layered engine, or on a device all of them
side by side.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from xmen.constraints.constraint import Constraint, conjunction, units
from xmen.engines.diagnosis import explain_conflict, multiply
from xmen.engines.exact import ExactDistribution
from xmen.engines.law import Law
from xmen.engines.place import find_device
from xmen.errors import InfeasibleError, ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.goal_batches import Reweigh, Trips
from xmen.product.graph import Product
from xmen.product.many_goals import ManyGoals
from xmen.product.open_product import build_open_product
from xmen.rewards import Floats
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.network import Network, NetworkTask

if TYPE_CHECKING:
    from xmen.engines.trips_on_device import TripsOnDevice

LEAST_BUDGET = 20_000  # nodes of a product that all trips of a network share
COPIES = 64  # of the network that its rules may make of it


def trip_budget(max_nodes: int | None, network: Network) -> int:
    """The given budget of product nodes, or some copies of the network: factors need more room than a sweep."""
    return int(max_nodes) if max_nodes is not None else max(LEAST_BUDGET, COPIES * network.n_states)


def have_a_way(
    network: Network,
    constraint: Constraint | None,
    starts: NDArray[np.int64],
    goals: NDArray[np.int64],
    max_nodes: int,
) -> NDArray[np.bool_]:
    """Which trips (n,) have a way that keeps the rules, as many of these as fit the product."""
    try:
        return _have_a_way(network, constraint, starts, goals, max_nodes)
    except ProductTooLargeError:
        chosen, found = list[Constraint](), _have_a_way(network, None, starts, goals, max_nodes)
    for _, part in units(constraint):
        with suppress(ProductTooLargeError):
            found = _have_a_way(network, conjunction([*chosen, part]), starts, goals, max_nodes)
            chosen.append(part)
    return found


def _have_a_way(
    network: Network,
    constraint: Constraint | None,
    starts: NDArray[np.int64],
    goals: NDArray[np.int64],
    max_nodes: int,
) -> NDArray[np.bool_]:
    found = np.zeros(len(starts), dtype=np.bool_)
    if network.horizon is None:
        compiled = CompiledConstraint(constraint, network.any_task.starting_in(starts))
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
            own = multiply(NetworkTask(network, int(starts[its[0]]), goal).with_start(begun), constraint, max_nodes)
            found[its] = np.isin(starts[its], own.state[own.starts])
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
        self._shared: ManyGoals | None = None
        self._device = find_device(device)
        if network.horizon is None:
            compiled = CompiledConstraint(constraint, network.any_task.starting_in(self.start))
            product = build_open_product(compiled, np.unique(self.goal), max_nodes)
            origin = product.start_of[self.start]
            if np.any(origin < 0):
                raise self._infeasible(int(np.argmin(origin)))
            self._shared = ManyGoals(product, Trips(origin, self.goal, self.weight))

    @property
    def n_pairs(self) -> int:
        """The number of distinct pairs."""
        return len(self.start)

    @property
    def shared(self) -> ManyGoals | None:
        """The system that all goals share; None with a horizon."""
        return self._shared

    def value(self, reward: Floats, with_visits: bool = True, reweigh: Reweigh | None = None) -> TripValue:
        """log Z and visits under rewards of world edges (E,).

        `reweigh(pairs, log_z)` gives other weights to pairs, once their log Z is known.
        DivergenceError where the weights of some pair's trajectories do not add up.
        """
        if self._shared is None and self._device is not None:
            return TripValue(*self._moved.value(reward, self.discount, self.weight, with_visits, reweigh))
        if self._shared is None:
            log_z, visits = np.full(self.n_pairs, np.nan), np.zeros(len(reward))
            left = np.unique(self.goal).tolist()
        else:
            log_z, visits, left = self._shared.solve(self._log_dynamics + reward, with_visits, reweigh)
        for goal in left:
            pairs = np.flatnonzero(self.goal == goal)
            d = self._goal(goal, reward)
            log_z[pairs] = d.start_partitions(self.start[pairs])
            if with_visits and reweigh is None:
                visits[self.network.source != goal] += self.weight[pairs].sum() * d.edge_visits()
            elif with_visits and reweigh is not None:
                weights = reweigh(pairs, log_z[pairs])
                if not weights.any():
                    continue
                shares = np.zeros(self.network.n_states)
                shares[self.start[pairs]] = weights / weights.sum()
                product = replace(self._alone[goal], world=self._alone[goal].world.with_start(shares))
                again = self._exact(product, reward, given="start")
                visits[self.network.source != goal] += weights.sum() * again.edge_visits()
        return TripValue(log_z, visits)

    def each(self, reward: Floats, features: csr_matrix) -> Floats:
        """E[f] of every pair's trajectories (P, d), from features of world edges (E, d)."""
        if self._shared is None:
            out = np.full((self.n_pairs, features.shape[1]), np.nan)
            left = np.unique(self.goal).tolist()
        else:
            out, left = self._shared.each(self._log_dynamics + reward, features)
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
        from xmen.engines.trips_on_device import TripsOnDevice

        assert self._device is not None
        products = {goal: self._product(goal) for goal in np.unique(self.goal).tolist()}
        return TripsOnDevice(self.network, products, self.start, self.goal, self._device)

    def _goal(self, goal: int, reward: Floats) -> ExactDistribution:
        """Trips to one goal, given where they start, in the shares of the pairs' weights."""
        return self._exact(self._product(goal), reward, given="start")

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
