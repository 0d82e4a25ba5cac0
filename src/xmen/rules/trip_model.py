"""The model on a network: every demonstration is a trip, and P(c) is that of trips with its start and goal.

The gain is the mean over demonstrations of log Z - log Z_c of their pairs, by one factorisation for all goals.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import TripEngine
from xmen.errors import InfeasibleError, ProductTooLargeError
from xmen.rewards import Floats
from xmen.rules.model import N_DRAWS, Kept, Model
from xmen.rules.positions import Positions, batch_of
from xmen.worlds import Network, Trajectory, Walks

if TYPE_CHECKING:
    from collections.abc import Sequence

CANDIDATE_NODES = 50_000  # of a product that is built for one candidate alone
CERTAIN = 1e-10  # log Z of all pairs closer than this: no trip makes a difference
MOST_PAIRS = 200  # that trips are drawn for


class TripModel(Model):
    """The model of trips through a network, between the pairs of the demonstrations."""

    trips: Walks
    weights: Floats

    def with_trips(self, demos: Sequence[Trajectory], weights: Floats) -> TripModel:
        """The demonstrations whose pairs count, with weights."""
        self.trips, self.weights = Walks.of(self.setting.world.any_task, demos), weights / weights.sum()
        return self

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
