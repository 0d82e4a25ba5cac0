"""Which cells a round draws: how many, of how many parities, of the trajectories as they are or of copies by weight.

The draws at hand tell what a plain solution is worth at the weights they led to, and what a copy drawn in proportion to
exp(share * R) D would be. Copies take a larger formula. What a solution costs is taken to grow as the cube of its
number of variables, as measured with CryptoMiniSat on grids from 9x9 to 14x14: a rule and not a stopwatch, so that the
same seed gives the same answer on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.methods.cell_draws import CellReader
from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.sources import Batch, Plan
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import Info, Space

LEAST_CELL = 256.0  # solutions: 14x14, CryptoMiniSat, a cell of 126 takes 0.9 s, one of 500 takes 1.5 s
LARGEST_CELL = 2048.0  # solutions: beyond, a cell's own clauses slow the solver
MOST_TIMES = 8  # that cells of a given size read the whole space, before it is read as one
TILTS = (0.5, 1.0)  # shares of theta at which copies may be drawn
COPY = 0.9  # of a draw's worth is what a copy has: weights per copy differ by up to a factor 2
HALF_A_BUCKET = 0.5  # bits: weights per copy lie between the largest and half of it
LEAST_GAIN = 2.0
GOOD_ENOUGH = 0.5  # effective solutions per plain solution, above which nothing else is tried
MOST_MORE = 16.0  # times as many solutions as there are, in one round
WORK = 3.0  # the power of the number of variables that a solution costs


class CellSource:
    """Whole cells as a source of draws; at least `n_cells` of them a round, of about `cell_size` solutions if given."""

    def __init__(self, reader: CellReader, features: Features, n_cells: int, cell_size: float | None) -> None:
        self.reader, self.features, self.n_cells, self.cell_size = reader, features, n_cells, cell_size
        self._kept: tuple[Floats, Space] | None = None

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        log2_count, info = self.reader.count(self.reader.plain, self.reader.guess, rng)
        wanted = max(wanted, self.n_cells * DEFAULT_CELL_SIZE)
        return self._sized(log2_count, log2_count, wanted, 0.0), info

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        tilted = plan["tilt"] * weights
        table = self.features.table(tilted) if plan["tilt"] else None
        space = self.reader.plain if table is None else self._tilted(tilted)
        return self.reader.read(space, table, int(plan["cells"]), int(plan["parities"]), rng)

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float) -> Plan:
        draws, log2_plain = loss.draws, plan["log2_count"]
        drawn = np.flatnonzero(~draws.known)
        if not len(drawn):  # nothing but demonstrations was met
            return self._sized(log2_plain, log2_plain, effective, 0.0)
        logs = draws.log_measure[drawn] + np.log(loss.shares[draws.batch[drawn]])
        reward, dynamics = draws.visits[drawn] @ self.features.table(weights).ravel(), draws.log_dynamics[drawn]
        worth = efficiency(logs, reward + dynamics, np.zeros(len(drawn)))
        best, tilt, log2_count = worth, 0.0, log2_plain
        for share in TILTS if worth < GOOD_ENOUGH else ():
            copies = share * reward + dynamics
            of_copy = COPY * efficiency(logs, reward + dynamics, copies)
            if of_copy <= LEAST_GAIN * best:  # what the larger formula costs, at the very least
                continue
            space = self._tilted(share * weights)
            if of_copy / self._work(space) > best:
                best, tilt, worth = of_copy / self._work(space), share, of_copy
                log2_count = (log_sum(logs + copies) - space.log_max) / math.log(2.0) + HALF_A_BUCKET
        # A few draws that happen to have all the weight say little of what a draw is worth.
        wanted = min(effective / worth, MOST_MORE * len(drawn))
        return self._sized(log2_plain, log2_count, wanted, tilt)

    def _sized(self, log2_plain: float, log2_count: float, wanted: float, tilt: float) -> Plan:
        """The cells that hold about `wanted` of 2^log2_count solutions.

        Where they would read as many solutions as there are trajectories, these are read instead, as one cell without
        parities; in cells of a size that was asked for, only where they would read them several times over.
        """
        size = self.cell_size or min(max(wanted / self.n_cells, LEAST_CELL), LARGEST_CELL)
        m = max(0, round(log2_count - math.log2(size)))
        n_cells = max(self.n_cells, math.ceil(wanted * 2.0 ** (m - log2_count)))
        times = 0.0 if self.cell_size is None else math.log2(MOST_TIMES)
        if m == 0 or math.log2(n_cells) - m + log2_count >= log2_plain + times:
            n_cells, m, tilt = 1, 0, 0.0
        return {"cells": n_cells, "parities": m, "tilt": tilt, "log2_count": log2_plain}

    def _tilted(self, weights: Floats) -> Space:
        """The copies at some weights; the last one is kept, as the plan and the draw both need it."""
        if self._kept is None or not np.array_equal(self._kept[0], weights):
            self._kept = weights, self.reader.tilted(self.features.table(weights))
        return self._kept[1]

    def _work(self, space: Space) -> float:
        """What a solution of this space costs, in solutions of the plain one."""
        if self.reader.listed:
            return 1.0
        ratio = space.oracle.formula.n_variables / self.reader.plain.oracle.formula.n_variables
        return float(ratio**WORK)


def efficiency(log_measure: Floats, log_weights: Floats, log_copies: Floats) -> float:
    """(sum w)^2 / (sum c sum w^2 / c) over the space, from draws of any measure: what one drawn copy is worth."""
    log_value = 2.0 * log_sum(log_measure + log_weights) - log_sum(log_measure + log_copies)
    return min(1.0, math.exp(log_value - log_sum(log_measure + 2.0 * log_weights - log_copies)))


def log_sum(logs: Floats) -> float:
    """log sum exp."""
    highest = float(logs.max())
    return highest + math.log(float(np.exp(logs - highest).sum()))
