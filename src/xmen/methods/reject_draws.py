"""Draws by rejection: of the relaxation at some theta, exactly, which serve every other by their weights (see `draws`).

The relaxation's own log Z is exact at every theta, and takes noise away where enough draws are valid; where few are,
only these are kept, each with the measure Z_relaxed / (n w) of n draws.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.engines.reject import RejectDistribution
from xmen.engines.reject_trips import RejectTrips
from xmen.engines.trips import TripEngine
from xmen.methods.coordinates import Coordinates
from xmen.methods.drawn_loss import ALL, DrawnLoss
from xmen.methods.draws import Draws
from xmen.methods.sources import Batch, Plan
from xmen.methods.spread import Spread, best_relaxed
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import Info
from xmen.worlds.edge_weights import EdgeWeights

ENOUGH_VALID = 0.3  # of the draws: with fewer, those that are not add rows and take away little noise
LEAST_HELP = 0.2  # b below which the relaxation is left out
FIRST = 0.2  # of the draws on a network that would do at the optimum are made on the way there
CHEAP = 4.0  # numbers that an exact sweep may go through for each that the draws have


def helped(draws: Draws, features: Features, parts: Floats) -> Draws:
    """The draws with the best b in place of 1, or without those that are not valid where it hardly helps."""
    if not draws.relaxed.any():
        return draws
    best = best_relaxed(draws, features, parts)
    return draws.relaxed_by(best if best >= LEAST_HELP else 0.0)


class RejectSource:
    """Draws of the reject engine as a source, each round at the weights it starts from."""

    def __init__(self, base: RejectDistribution, features: Features) -> None:
        self.base, self.features, self.parts = base, features, ALL
        self.relaxed = RelaxedWorld(base, features)

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        return {"draws": math.ceil(wanted)}, Info()

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        return {"draws": math.ceil(effective)}

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        table, world, discount = self.features.table(weights), self.base.world, self.base.discount
        present, wanted = self.base.with_reward(table), plan["draws"]
        batches, valid, n_valid, n_drawn, relaxed = [], [], 0, 0, None
        for walks, kept in present.checked(rng):
            n_valid, n_drawn = n_valid + int(kept.sum()), n_drawn + len(kept)
            if relaxed is None:  # by the first draws: where few are valid the others would fill the memory
                relaxed = n_valid >= ENOUGH_VALID * n_drawn and self._cheap(walks.lengths.mean() * wanted)
            batches.append(walks if relaxed else walks[kept])
            valid.append(kept if relaxed else kept[kept])
            if n_valid >= wanted:
                break
        dynamics, weighed = EdgeWeights.of(world), EdgeWeights.of(world, table, discount)
        visits = csr_matrix(vstack([walks.visit_rows(discount) for walks in batches]))
        log_dynamics = np.concatenate([walks.scores(dynamics) for walks in batches])
        proposal = np.concatenate([walks.scores(weighed) for walks in batches])
        measure = float(present.relaxed.log_partition()) - proposal - math.log(n_drawn)
        part = np.zeros(len(proposal), dtype=np.int64)
        own = (visits, measure, log_dynamics, np.concatenate(valid), part)
        draws = helped(Draws.of_relaxed(*own, np.full(1, float(relaxed or 0.0))), self.features, self.parts)
        return Batch(draws, Info(0, n_valid, 0), details={"acceptance": n_valid / n_drawn})

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        return {}

    def _cheap(self, n_steps: float) -> bool:
        """Whether the relaxation's own log Z costs no more than some looks at draws of so many steps."""
        product = self.base.relaxation.product
        sweep = product.n_edges * (1 if product.timeless(self.base.discount) else product.usual_length)
        return bool(sweep <= CHEAP * n_steps)


class RelaxedWorld:
    """log Z and E[f] of a world's relaxation, by dynamic programming."""

    def __init__(self, base: RejectDistribution, features: Features) -> None:
        self.base, self.features = base, features

    def __call__(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        present = self.base.relaxed.with_reward(self.features.table(weights))
        log_z = np.full(1, present.log_partition())
        if not shares.any():
            return log_z, np.zeros(self.features.d)
        return log_z, shares[0] * self.features.contract(present.visits())


class TripSource:
    """Draws of every pair of a start and a goal on a network, `least` of each in a round; each pair is a part."""

    def __init__(self, trips: RejectTrips, features: Features, least: int, coordinates: Coordinates) -> None:
        self.trips, self.features, self.least, self.coordinates = trips, features, least, coordinates
        self.parts = trips.engine.weight
        self.relaxed = RelaxedTrips(trips.engine, features)

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        return {"draws": math.ceil(FIRST * wanted)}, Info()

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        return {"draws": math.ceil(effective)}

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        network = self.trips.network
        reward = self.features.table(weights)[network.source, network.action]
        wanted = np.maximum(np.ceil(plan["draws"] * self.parts).astype(np.int64), self.least)
        found = self.trips.draw(reward, wanted, rng)
        measure = -found.log_prob - np.log(found.n)[found.pair]
        relaxed = np.where(found.acceptance >= ENOUGH_VALID, 1.0, 0.0)
        own = (found.visits, measure, found.log_dynamics, found.valid, found.pair)
        details = {
            "acceptance": float(self.parts @ found.acceptance),
            "least_acceptance": float(found.acceptance.min()),
        }
        draws = helped(Draws.of_relaxed(*own, relaxed), self.features, self.parts)
        return Batch(draws, Info(0, int(found.valid.sum()), 0), details=details)

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        engine, noise, d = self.trips.engine, Spread(loss, weights).error, len(self.coordinates.values)
        whole = np.zeros((d,) * noise.ndim)
        whole[np.ix_(*[self.coordinates.free] * noise.ndim)] = noise
        rows = np.column_stack([engine.start, engine.goal, loss.acceptance(weights)])
        return {"acceptance_": rows, "gradient_noise_": whole}


class RelaxedTrips:
    """log Z and E[f] of all pairs under the rules that fit, by one factorisation for all goals."""

    def __init__(self, engine: TripEngine, features: Features) -> None:
        self.engine, self.features = engine, features
        network = engine.network
        self._columns = features.rows(network.source, network.action).T.tocsr()

    def __call__(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        engine, network = self.engine, self.engine.network
        reward = self.features.table(weights)[network.source, network.action]
        if not shares.any():
            return engine.value(reward, with_visits=False).log_z, np.zeros(self.features.d)
        same = np.allclose(shares, engine.weight, rtol=1e-12, atol=0.0)
        found = engine.value(reward, reweigh=None if same else lambda pairs, _: shares[pairs])
        return found.log_z, self._columns @ found.visits
