"""method="reject": learning under rules that do not fit the product, from exact draws of what does."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.engines.choose import LEAST_ACCEPTANCE, Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.trips import RejectTrips
from xmen.errors import ConvergenceWarning, EngineError, notify
from xmen.methods.exact import TripRun, TripState
from xmen.methods.loss import DrawnLoss, Draws, Spread, best_control
from xmen.methods.rounds import DEFAULT_MAX_ITER, Batch, Plan, RoundsRun, RoundsState, Source, rounds
from xmen.methods.runs import Coordinates, FitSettings, Likelihood, Method, Outcome, Task
from xmen.options import require_whole
from xmen.progress import Monitor
from xmen.rewards.linear import Features, Floats
from xmen.sampling import Info
from xmen.worlds import EdgeWeights, Network

# ---- Draws by rejection: of the relaxation at some theta, exactly, which serve every other by their weights (see
# `loss`). The relaxation's own log Z is exact at every theta, and takes noise away where enough draws are valid; where
# few are, only these are kept.

ENOUGH_VALID = 0.3  # of the draws: with fewer, those that are not add rows and take away little noise


def controlled(draws: Draws, features: Features, parts: Floats) -> Draws:
    """The draws with the best b in place of 1, or without those that are not valid where it hardly helps."""
    if not draws.control.any():
        return draws
    best = best_control(draws, features, parts)
    return replace(draws, control=best * draws.control) if best >= 0.2 else draws.valid_alone()


class RejectSource(Source):
    """Draws of the reject engine, each round at the weights it starts from."""

    def __init__(self, base: RejectDistribution, features: Features) -> None:
        self.base, self.features = base, features
        self.relaxation = self._relaxation

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        table, world, discount = self.features.table(weights), self.base.world, self.base.discount
        present, wanted = self.base.with_reward(table), plan["draws"]
        batches, valid, n_valid, n_drawn, every = [], [], 0, 0, None
        for walks, kept in present.checked(rng):
            n_valid, n_drawn = n_valid + int(kept.sum()), n_drawn + len(kept)
            if every is None:  # by the first draws: where few are valid the others would fill the memory
                # The relaxation's own log Z is to cost no more than four looks at the draws.
                product = self.base.relaxation.product
                sweep = product.n_edges * (1 if product.timeless(discount) else product.usual_length)
                cheap = sweep <= 4.0 * walks.lengths.mean() * wanted
                every = cheap and n_valid >= ENOUGH_VALID * n_drawn
            batches.append(walks if every else walks[kept])
            valid.append(kept if every else kept[kept])
            if n_valid >= wanted:
                break
        dynamics, weighed = EdgeWeights.of(world), EdgeWeights.of(world, table, discount)
        visits = csr_matrix(vstack([walks.visit_rows(discount) for walks in batches]))
        log_dynamics = np.concatenate([walks.scores(dynamics) for walks in batches])
        proposal = np.concatenate([walks.scores(weighed) for walks in batches])
        measure = float(present.relaxed.log_partition()) - proposal - math.log(n_drawn)
        part, control = np.zeros(len(proposal), dtype=np.int64), np.full(1, float(every or 0.0))
        draws = Draws.of_parts(visits, measure, log_dynamics, np.concatenate(valid), part, control)
        details = {"acceptance": n_valid / n_drawn}
        return Batch(controlled(draws, self.features, self.parts), Info(0, n_valid, 0), details=details)

    def _relaxation(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """log Z and E[f] of the world's relaxation, by dynamic programming."""
        present = self.base.relaxed.with_reward(self.features.table(weights))
        log_z = np.full(1, present.log_partition())
        if not shares.any():
            return log_z, np.zeros(self.features.d)
        return log_z, shares[0] * self.features.contract(present.visits())


class TripSource(Source):
    """Draws of every pair of a start and a goal on a network, `least` of each in a round; each pair is a part."""

    first_share = 0.2  # of what would do at the optimum is made on the way there

    def __init__(self, trips: RejectTrips, features: Features, least: int, coordinates: Coordinates) -> None:
        self.trips, self.features, self.least, self.coordinates = trips, features, least, coordinates
        self.parts, self.relaxation = trips.engine.weight, self._relaxation
        self._columns = features.rows(trips.network.source, trips.network.action).T.tocsr()

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        wanted = np.maximum(np.ceil(plan["draws"] * self.parts).astype(np.int64), self.least)
        acceptance, found = self.trips.draw(self._reward(weights), wanted, rng)
        control = np.where(acceptance >= ENOUGH_VALID, 1.0, 0.0)
        draws = controlled(Draws.of_parts(*found, control), self.features, self.parts)
        details = {"acceptance": float(self.parts @ acceptance), "least_acceptance": float(acceptance.min())}
        return Batch(draws, Info(0, int(found[3].sum()), 0), details=details)

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        engine, noise, d = self.trips.engine, Spread(loss, weights).error, len(self.coordinates.values)
        whole = np.zeros((d,) * noise.ndim)
        whole[np.ix_(*[self.coordinates.free] * noise.ndim)] = noise
        rows = np.column_stack([engine.start, engine.goal, loss.acceptance(weights)])
        return {"acceptance_": rows, "gradient_noise_": whole}

    def _reward(self, weights: Floats) -> Floats:
        """Of every link."""
        network = self.trips.network
        return self.features.table(weights)[network.source, network.action]

    def _relaxation(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """log Z and E[f] of all pairs under the rules that fit, by one factorisation for all goals."""
        engine, reward = self.trips.engine, self._reward(weights)
        if not shares.any():
            return engine.log_z(reward), np.zeros(self.features.d)
        same = np.allclose(shares, engine.weight, rtol=1e-12, atol=0.0)
        found = engine.value(reward, None if same else shares)
        return found.log_z, self._columns @ found.visits


@dataclass(frozen=True, repr=False)
class Reject(Method):
    """Learn from rejection's exact draws: for rules that do not fit the product, such as no link twice.

    In rounds as those of `xm.Cells`, with the same `tol` in nats and `max_iter` in rounds. On a network they begin at
    the optimum of the rules that fit, which is exact.

    Parameters
    ----------
    n_draws
        On a network, the least number of draws of every distinct pair of a start and a goal in a round; `tol` may ask
        for more, and pairs of which few draws are valid get ten times as many.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Reject(n_draws=200)
    Reject(n_draws=200)
    """

    n_draws: int = 16

    name = "reject"
    default_max_iter = DEFAULT_MAX_ITER
    plans_with_max_iter = True  # the last round only judges
    keeps_fixed = True

    def __post_init__(self) -> None:
        require_whole("n_draws", self.n_draws, least=2)

    def run(self, task: Task, settings: FitSettings) -> RoundsRun:
        def make(part: Task) -> tuple[RejectDistribution, RejectSource]:
            base = Chooser(part.joint_law(), settings.engine).joint_reject()
            return base, RejectSource(base, part.features)

        return rounds(task, settings, make)

    def suits(self, task: Task, settings: FitSettings) -> bool:
        """Whether enough relaxed draws are valid, as engine="auto" asks."""
        with suppress(EngineError):
            base = Chooser(task.law(), settings.engine).by_start(Chooser.joint_reject)
            return base.acceptance_or_less(LEAST_ACCEPTANCE) >= LEAST_ACCEPTANCE
        return False

    def likelihood(self, task: Task, settings: FitSettings) -> Likelihood:
        raise EngineError("method='reject' is for linear rewards: train a network with method='exact' or 'cells'.")

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> RoundsRun:
        if task.discount != 1.0:
            raise EngineError("method='reject' needs discount = 1: raise max_nodes so that the rules fit the product.")
        trips = RejectTrips(network, task.constraint, *task.demos.trips(), settings.engine.max_nodes)
        coordinates = settings.coordinates(task.features.d)
        source = TripSource(trips, settings.learned(task).features, int(self.n_draws), coordinates)
        return TripRounds(task, settings, source)


class TripRounds(RoundsRun):
    """Rounds that begin at the optimum of the rules that fit, which is exact."""

    def __init__(self, task: Task, settings: FitSettings, source: TripSource) -> None:
        self.trips, opening = source.trips, settings.changed(tol=1e-4, max_iter=None)  # only where rounds begin
        self.opening = TripRun(task, opening, source.trips.engine)
        super().__init__(task, settings, source, self.opening.warn_undetermined, self.opening.optimiser.metric)

    def start(self) -> RoundsState:
        return replace(super().start(), opening=dict(vars(self.opening.start())))

    def may_end(self, state: RoundsState) -> bool:
        return not state.opening

    def step(self, state: RoundsState) -> tuple[RoundsState, dict[str, float]]:
        if not state.opening:
            return super().step(state)
        after, entry = self.opening.step(TripState(**state.opening))
        over = self.opening.finished(after)
        if over:
            self.opening.require_feasible(after)
        return replace(state, weights=after.weights, opening={} if over else dict(vars(after))), entry

    def conclude(self, state: RoundsState, monitor: Monitor) -> Outcome:
        if not state.opening:
            return super().conclude(state, monitor)
        multiplied = ", ".join(map(repr, self.trips.multiplied)) or "none"
        end = f"stopped after {state.opening['iteration']} iterations, before any draw"
        notify(f"{end}: these are the weights of the rules that fit ({multiplied}).", ConvergenceWarning)
        return self.opening.conclude(TripState(**state.opening), monitor)
