"""Which cells a round draws: how many, of how many parities, of the trajectories as they are or of copies by weight.

The draws at hand tell what a plain solution is worth at the weights they led to, and what a copy drawn in proportion to
exp(tilt * R) D would be. Copies take a larger formula. A cell is taken to cost the root of its size times a power of
its number of variables, as measured with CryptoMiniSat on 14x14 and 16x16 grids: a rule and not a stopwatch, so that
the same seed gives the same answer on every machine.

What draws tell is of what they met. Where weights differ much, a few hundred trajectories of 10^7 can have a third of
the weight, and none of 50,000 plain solutions is one of them: on a 14x14 grid such a fit ended 0.36 nats from the
optimum, and stated 0.02. Copies at the weights themselves are drawn from P there, so that what has weight is met: a fit
ends only when these agree, or plain solutions of which none could have more than a small share of the weight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.methods.cell_draws import CellReader
from xmen.methods.drawn_loss import ALL, DrawnLoss
from xmen.methods.sources import Batch, Plan
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.sampling import Info, Space

# Solutions. CryptoMiniSat, 14x14: cells of 119, 528, 1,997 take 1.2, 2.5, 5.6 s; 16x16: of 222, 914, 3,802 7, 14, 29 s.
LEAST_CELL, LARGEST_CELL = 256.0, 4096.0
MOST_TIMES = 8  # that cells of a given size read the whole space, before it is read as one
TILTS = (0.5, 1.0)  # shares of theta at which copies may be drawn
COPY = 0.9  # of a draw's worth is what a copy has: weights per copy differ by up to a factor 2
HALF_A_BUCKET = 0.5  # bits: weights per copy lie between the largest and half of it
LEAST_GAIN = 2.0  # in worth, for which the formula of copies is made
GOOD_ENOUGH = 0.5  # effective solutions per plain solution, above which nothing else is tried
# Of Z-hat in one solution: 5 % of the weight in such ones is missed as a whole once in e^5 = 148 times.
MOST_SHARE = 0.01
MOST_MORE = 16.0  # times as many solutions as there are, in one round
WORK = 1.6  # the power of the number of variables: copies on 14x14 and 16x16 take 4.4 and 5 times as long as solutions


class CellSource:
    """Whole cells as a source of draws; at least `n_cells` of them a round, of about `cell_size` solutions if given."""

    parts, relaxed = ALL, None

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
        batch = self.reader.read(space, table, int(plan["cells"]), int(plan["parities"]), rng)
        draws = batch.draws
        scores = draws.visits @ self.features.table(weights).ravel() + draws.log_dynamics
        log_z = log_sum(np.where(draws.known, 0.0, draws.log_measure) + scores) if len(draws) else -math.inf
        return batch._replace(sees_all=self._largest_share(plan, weights, log_z) <= MOST_SHARE)

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        draws, log2_plain = loss.draws, plan["log2_count"]
        drawn = np.flatnonzero(~draws.known)
        if not len(drawn):  # nothing but demonstrations was met
            return self._sized(log2_plain, log2_plain, effective, 0.0)
        logs = draws.log_measure[drawn] + np.log(loss.shares[draws.batch[drawn]])
        reward, dynamics = draws.visits[drawn] @ self.features.table(weights).ravel(), draws.log_dynamics[drawn]
        worth = efficiency(logs, reward + dynamics, np.zeros(len(drawn)))
        # A few draws that happen to have all the weight say little of what a draw is worth.
        most = MOST_MORE * len(drawn)
        best = self._sized(log2_plain, log2_plain, min(effective / worth, most), 0.0)
        least = self._cost(best, log2_plain, self.reader.plain)
        tilts: Sequence[float] = TILTS if worth < GOOD_ENOUGH else ()
        if last:
            tilts, effective = TILTS[-1:], max(effective, 2.0 / MOST_SHARE)
            if 2.0 * self._largest_share(best, weights, log_sum(logs + reward + dynamics)) > MOST_SHARE:
                least, worth = math.inf, 0.0
        for tilt in tilts:
            if COPY * efficiency(logs, reward + dynamics, tilt * reward + dynamics) <= LEAST_GAIN * worth:
                continue
            space = self._tilted(tilt * weights)
            # Trajectories of little weight have a copy each.
            copies = np.maximum(tilt * reward + dynamics - space.log_max + HALF_A_BUCKET * math.log(2.0), 0.0)
            log2_count = log_sum(logs + copies) / math.log(2.0)
            of_copy = COPY * efficiency(logs, reward + dynamics, copies)
            other = self._sized(log2_plain, log2_count, min(effective / of_copy, most), tilt)
            cost = self._cost(other, log2_count, space)
            if cost < least:
                best, least = other, cost
        return best

    def _largest_share(self, plan: Plan, weights: Floats, log_z: float) -> float:
        """The most that any one solution of a plan's cells could have of Z-hat, whether it was met or not."""
        if plan["parities"] == 0 or 0.0 < plan["tilt"] < 1.0:
            return float(plan["parities"] > 0)
        log_measure = plan["parities"] * math.log(2.0) - math.log(plan["cells"])
        highest = self._tilted(weights).log_max if plan["tilt"] else self.reader.highest(self.features.table(weights))
        return math.exp(min(log_measure + highest - log_z, 0.0))

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        return {}

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

    def _cost(self, plan: Plan, log2_count: float, space: Space) -> float:
        """What reading these cells of 2^log2_count solutions takes, in some unit."""
        if not plan["tilt"]:  # also where copies would have been more than the trajectories themselves
            log2_count, space = plan["log2_count"], self.reader.plain
        size = 2.0 ** (log2_count - plan["parities"])
        if self.reader.listed:
            return float(plan["cells"] * size)
        ratio = space.oracle.formula.n_variables / self.reader.plain.oracle.formula.n_variables
        return float(plan["cells"] * math.sqrt(size) * ratio**WORK)

    def _tilted(self, weights: Floats) -> Space:
        """The copies at some weights; the last one is kept, as the plan and the draw both need it."""
        if self._kept is None or not np.array_equal(self._kept[0], weights):
            self._kept = weights, self.reader.tilted(self.features.table(weights))
        return self._kept[1]


def efficiency(log_measure: Floats, log_weights: Floats, log_copies: Floats) -> float:
    """(sum w)^2 / (sum c sum w^2 / c) over the space, from draws of any measure: what one drawn copy is worth."""
    log_value = 2.0 * log_sum(log_measure + log_weights) - log_sum(log_measure + log_copies)
    return min(1.0, math.exp(log_value - log_sum(log_measure + 2.0 * log_weights - log_copies)))


def log_sum(logs: Floats) -> float:
    """log sum exp."""
    highest = float(logs.max())
    return highest + math.log(float(np.exp(logs - highest).sum()))
