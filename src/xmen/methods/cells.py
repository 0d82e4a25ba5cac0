"""method="cells": rounds of whole hash cells."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_matrix, vstack
from scipy.special import logsumexp

from xmen.engines.choose import Chooser
from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.engines.xor import XorDistribution, walk_function
from xmen.errors import EngineError, OracleError
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.loss import DrawnLoss, Draws
from xmen.methods.rounds import DEFAULT_MAX_ITER, Batch, Plan, RoundsRun, Source, rounds
from xmen.methods.runs import FitSettings, Likelihood, LossEstimate, Method, Task
from xmen.options import require_number, require_whole
from xmen.oracles.formula import Bits, Parities
from xmen.rewards.linear import Features, Floats
from xmen.sampling import Info, Space, UnfinishedError, choose_parities, estimate, run_jobs, spawn
from xmen.sampling.space import read_cell
from xmen.worlds.walks import EdgeWeights

# ---- Draws from whole hash cells: read once by a solver, they serve every theta (see `loss`).
#
# Cells are of the trajectories as they are, or of copies in proportion to exp(R) D at some weights. Many trajectories
# in few cells are cheaper than few in many: to a solver the first solution of a cell costs as much as many further ones
# (14x14, CryptoMiniSat: 100 solutions in 0.8 s, 2,000 in 4 s), and members are pairwise independent however many share
# a matrix.
#
# The draws at hand tell what a plain solution is worth at the weights they led to, and what a copy would be. Copies
# take a larger formula. A cell is taken to cost the root of its size times a power of its number of variables, as
# measured with CryptoMiniSat on 14x14 and 16x16 grids: a rule and not a stopwatch, so that the same seed gives the same
# answer on every machine.
#
# Draws tell of what they met. Where weights differ much, a few hundred trajectories of 10^7 can have a third of the
# weight, and none of 50,000 plain solutions is one of them: on a 14x14 grid such a fit ended 0.36 nats from the
# optimum, and stated 0.02. Copies at the weights themselves are drawn from P there and meet what has weight: a fit ends
# only when these agree, or plain solutions of which none could have more than a small share of the weight.

PROBED = 32.0  # solutions in the cells that tell how many parities are needed
# Solutions. CryptoMiniSat, 14x14: cells of 119, 528, 1,997 take 1.2, 2.5, 5.6 s; 16x16: of 222, 914, 3,802 7, 14, 29 s.
LEAST_CELL, LARGEST_CELL = 256.0, 4096.0
COPY = 0.9  # of a draw's worth is what a copy has: weights per copy differ by up to a factor 2
LEAST_GAIN = 2.0  # in worth, for which the formula of copies is made
# Of Z-hat in one solution: 5 % of the weight in such ones is missed as a whole once in e^5 = 148 times.
MOST_SHARE = 0.01
WORK = 1.6  # the power of the number of variables: copies on 14x14 and 16x16 take 4.4 and 5 times as long as solutions
LOG2 = math.log(2.0)


class CellSource(Source):
    """Whole cells as a source of draws; at least `n_cells` of them a round, of about `cell_size` solutions if given.

    Trajectories that are known from the demonstrations are counted exactly, and left out of the cells.
    """

    def __init__(
        self, base: XorDistribution, demos: Demonstrations, features: Features, n_cells: int, cell_size: float | None
    ) -> None:
        self.base, self.hashed, self.features = base, base.hashed, features
        self.n_cells, self.cell_size = n_cells, cell_size
        self.plain = Space(base.hashed.oracle)
        walks = demos.walks[demos.weights > 0]
        rows = np.column_stack([walks.starts, walks.lengths, walks.as_rows(walks.edges, fill=-1)])
        self.known_walks = walks[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
        self._known = {row.tobytes() for row in np.packbits(self.hashed.decoder.encode(self.known_walks), axis=1)}
        self._kept: tuple[Floats, Space] | None = None

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        # The trajectories are not many fewer than those of the rules that were multiplied: a guess that saves probes.
        guess = max(0, round(self.hashed.log2_count - math.log2(PROBED)))
        m, info = choose_parities(self.plain, PROBED, rng, start=guess)
        log2_count = m + math.log2(PROBED)
        return self._sized(log2_count, log2_count, max(wanted, self.n_cells * DEFAULT_CELL_SIZE), 0.0), info

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        batch = self.read_cells(weights if plan["tilt"] else None, int(plan["cells"]), int(plan["parities"]), rng)
        draws = batch.draws
        scores = draws.visits @ self.features.table(weights).ravel() + draws.log_dynamics
        log_z = logsumexp(np.where(draws.known, 0.0, draws.log_measure) + scores) if len(draws) else -math.inf
        return batch._replace(sees_all=self._largest_share(plan, weights, log_z) <= MOST_SHARE)

    def read_cells(self, tilt: Floats | None, n_cells: int, m: int, rng: np.random.Generator) -> Batch:
        """n_cells whole cells of m parities, 1 of none; of copies at the weights `tilt`, or of the trajectories."""
        space = self.plain if tilt is None else self._tilted(tilt)

        def read(rng: np.random.Generator, _: int) -> tuple[Bits | None, Info]:
            """All solutions of one cell; None where the solver hangs or dies on it, and again with twice the time."""
            parities, spent = Parities.dense(m, space.n_hash, rng), 0
            for attempt in range(2):
                oracle = space.patient(attempt).oracle
                before = oracle.n_queries
                try:
                    rows = read_cell(oracle, parities)
                except OracleError:
                    spent += oracle.n_queries - before
                    continue
                return rows, Info(1, len(rows), spent + oracle.n_queries - before)
            return None, Info(1, 0, spent, 1)

        seeds = spawn(rng, n_cells if m > 0 else 1)
        try:
            found = run_jobs(read, seeds, waiting=space.waits)
        except UnfinishedError as error:  # workers died
            found = list(error.finished.values())
        cells = [rows for rows, _ in found if rows is not None]
        n_lost = len(seeds) - len(cells)
        if len(cells) < min(2, len(seeds)):
            lost = f"{n_lost} of {len(seeds)} cells of {m} parities were lost: the solver hung or died"
            advice = "(time_limit), or make its cells easier: a larger cell_size takes fewer parities"
            raise EngineError(f"{lost}. Give it more time {advice}.")
        rows, width = np.concatenate(cells), self.hashed.decoder.width
        packed = np.packbits(rows[:, :width], axis=1)
        rows = rows[np.array([row.tobytes() not in self._known for row in packed], dtype=np.bool_)]
        both = self.known_walks, self.hashed.decoder.decode(rows[:, :width])
        n_known, n = len(self.known_walks), len(self.known_walks) + len(rows)
        log_measure, dynamics = np.full(n, m * LOG2 - math.log(len(cells))), EdgeWeights.of(self.base.world)
        if tilt is not None:
            # The weight of a copy is that of its trajectory over the number of copies; of known ones it is not read.
            weights = self._weights(tilt)
            known, other = (self.hashed.spelled.scores(weights, each) for each in both)
            log_measure[:n_known] += space.log_max - 0.5 * LOG2 - known
            if len(rows):
                log_measure[n_known:] += space.log_weight(rows) - other
        visits = csr_matrix(vstack([self.hashed.spelled.usual.rows(each, self.base.discount) for each in both]))
        log_dynamics, batch = np.concatenate([each.scores(dynamics) for each in both]), np.zeros(n, dtype=np.int64)
        draws = Draws.of_parts(visits, log_measure, log_dynamics, np.ones(n, dtype=np.bool_), batch, np.zeros(1))
        draws = replace(draws, known=np.arange(n) < n_known, noise=np.array([1.0 - 2.0**-m]))
        return Batch(draws, sum((info for _, info in found), Info()), n_lost, details={"parities": m})

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        draws, log2_plain = loss.draws, plan["log2_count"]
        drawn = np.flatnonzero(~draws.known)
        if not len(drawn):  # nothing but demonstrations was met
            return self._sized(log2_plain, log2_plain, effective, 0.0)
        logs = draws.log_measure[drawn] + np.log(loss.shares[draws.batch[drawn]])
        scores = draws.visits[drawn] @ self.features.table(weights).ravel() + draws.log_dynamics[drawn]
        worth = efficiency(logs, scores, np.zeros(len(drawn)))
        # A few draws that happen to have all the weight say little of what a draw is worth.
        most = 16.0 * len(drawn)
        best = self._sized(log2_plain, log2_plain, min(effective / worth, most), 0.0)
        least = self._cost(best, log2_plain, self.plain)
        if last:
            effective = max(effective, 2.0 / MOST_SHARE)
            if 2.0 * self._largest_share(best, weights, logsumexp(logs + scores)) > MOST_SHARE:
                least, worth = math.inf, 0.0
        if LEAST_GAIN * worth >= COPY:
            return best
        space = self._tilted(weights)
        # Trajectories of little weight have a copy each; weights per copy lie between the largest and half of it.
        copies = np.maximum(scores - space.log_max + 0.5 * LOG2, 0.0)
        log2_count = logsumexp(logs + copies) / LOG2
        of_copy = COPY * efficiency(logs, scores, copies)
        other = self._sized(log2_plain, log2_count, min(effective / of_copy, most), 1.0)
        return other if self._cost(other, log2_count, space) < least else best

    def _largest_share(self, plan: Plan, weights: Floats, log_z: float) -> float:
        """The most that any one solution of a plan's cells could have of Z-hat, whether it was met or not."""
        if plan["parities"] == 0:
            return 0.0
        log_measure = plan["parities"] * LOG2 - math.log(plan["cells"])
        if plan["tilt"]:
            highest = self._tilted(weights).log_max
        else:
            highest = self.hashed.relaxed_range(self._weights(weights), self.base.relaxation.product)[1]
        return math.exp(min(log_measure + highest - log_z, 0.0))

    def _sized(self, log2_plain: float, log2_count: float, wanted: float, tilt: float) -> Plan:
        """The cells that hold about `wanted` of 2^log2_count solutions.

        Where they would read as many solutions as there are trajectories, these are read instead, as one cell without
        parities; in cells of a size that was asked for, only where they would read them eight times over.
        """
        size = self.cell_size or min(max(wanted / self.n_cells, LEAST_CELL), LARGEST_CELL)
        m = max(0, round(log2_count - math.log2(size)))
        n_cells = max(self.n_cells, math.ceil(wanted * 2.0 ** (m - log2_count)))
        if m == 0 or math.log2(n_cells) - m + log2_count >= log2_plain + (0.0 if self.cell_size is None else 3.0):
            n_cells, m, tilt = 1, 0, 0.0
        return {"cells": n_cells, "parities": m, "tilt": tilt, "log2_count": log2_plain}

    def _cost(self, plan: Plan, log2_count: float, space: Space) -> float:
        """What reading these cells of 2^log2_count solutions takes, in some unit."""
        if not plan["tilt"]:  # also where copies would have been more than the trajectories themselves
            log2_count, space = plan["log2_count"], self.plain
        size = 2.0 ** (log2_count - plan["parities"])
        if self.hashed.walks is not None:  # a list answers in place of a solver
            return float(plan["cells"] * size)
        ratio = space.oracle.formula.n_variables / self.plain.oracle.formula.n_variables
        return float(plan["cells"] * math.sqrt(size) * ratio**WORK)

    def _weights(self, weights: Floats) -> EdgeWeights:
        return EdgeWeights.of(self.base.world, self.features.table(weights), self.base.discount)

    def _tilted(self, weights: Floats) -> Space:
        """The copies at some weights; the last one is kept, as the plan and the draw both need it."""
        if self._kept is None or not np.array_equal(self._kept[0], weights):
            self._kept = weights, self.hashed.space(self._weights(weights), self.base.relaxation.product)
        return self._kept[1]


def efficiency(log_measure: Floats, log_weights: Floats, log_copies: Floats) -> float:
    """(sum w)^2 / (sum c sum w^2 / c) over the space, from draws of any measure: what one drawn copy is worth."""
    log_value = 2.0 * logsumexp(log_measure + log_weights) - logsumexp(log_measure + log_copies)
    return min(1.0, math.exp(log_value - logsumexp(log_measure + 2.0 * log_weights - log_copies)))


class CellsLikelihood(Likelihood):
    """By `n_cells` fresh hash cells of about `cell_size` trajectories: where the product is too large.

    A cell is enumerated completely and weighed exactly, D(tau) included, so no importance weights are left: dL/dr is a
    ratio of unbiased sums, its bias and error by the jackknife over fresh matrices.
    """

    def __init__(self, base: XorDistribution, demo_visits: Floats, n_cells: int, cell_size: float) -> None:
        self._base, self._demo_visits, self._n_cells, self._cell_size = base, demo_visits, n_cells, cell_size

    def __call__(self, table: Floats) -> LossEstimate:
        base, shape = self._base, self._demo_visits.shape
        weights = base.weights.with_table(base.world, table)
        space = base.hashed.space(weights, base.relaxation.product)
        self.parities, _ = choose_parities(space, self._cell_size, self._rng, start=self.parities)
        function = partial(walk_function, base.hashed.spelled, weights)
        found = estimate(space, self.parities, self._n_cells, self._rng, function)
        visits, visits_std = (x[: self._demo_visits.size] for x in (found.expectation, found.expectation_std))
        loss = found.log_partition - float(np.sum(self._demo_visits * table))
        details = {"parities": float(self.parities), "solutions": float(found.info.n_points)}
        difference, std = visits.reshape(shape) - self._demo_visits, float(np.linalg.norm(visits_std))
        return LossEstimate(loss, difference, found.log_partition_std, std, details)


@dataclass(frozen=True, repr=False)
class Cells(Method):
    """Rounds of whole hash cells, each minimised over by L-BFGS and judged by the next round's cells.

    A fit ends where the answer is within the learner's `tol` nats of the optimum (0.005 if not given), after at most
    `max_iter` rounds (20). For products that are too large for `xm.Exact`; the oracle is the learner's. A network is
    trained on fresh cells for every step instead.

    Parameters
    ----------
    n_cells : int, optional
        The least number of cells in a round, 2 or more; per step for a network. If not given, 4 and 16.
    cell_size : float, optional
        The expected number of solutions in a cell. If not given, as suits: where cells would hold everything, all is
        read as one. For a network 48.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Cells(n_cells=64)
    Cells(n_cells=64)
    """

    n_cells: int | None = None
    cell_size: float | None = None

    name = "cells"
    default_max_iter = DEFAULT_MAX_ITER
    plans_with_max_iter = True  # the last round only judges

    def __post_init__(self) -> None:
        require_whole("n_cells", self.n_cells, least=2, optional=True)
        require_number("cell_size", self.cell_size, above=0.0, optional=True)

    def run(self, task: Task, settings: FitSettings) -> RoundsRun:
        size = None if self.cell_size is None else float(self.cell_size)
        # A few large ones: a cell of four times as many solutions takes a solver twice as long.
        n_cells = 4 if self.n_cells is None else int(self.n_cells)

        def make(part: Task) -> tuple[XorDistribution, CellSource]:
            base = Chooser(part.joint_law(), settings.engine).joint_xor()
            return base, CellSource(base, part.demos, part.features, n_cells, size)

        return rounds(task, settings, make)

    def likelihood(self, task: Task, settings: FitSettings) -> CellsLikelihood:
        if len(task.by_start()) > 1:
            why = "on the joint distribution, and these demonstrations have several starts"
            raise EngineError(f"method='cells' trains networks {why}: with given='start' use method='exact'.")
        size = DEFAULT_CELL_SIZE if self.cell_size is None else float(self.cell_size)
        n_cells = 16 if self.n_cells is None else int(self.n_cells)
        base = Chooser(task.joint_law(), settings.engine).joint_xor()
        return CellsLikelihood(base, task.demos.visits(task.discount), n_cells, size)
