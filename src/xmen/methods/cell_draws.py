"""Draws from whole hash cells: read once by a solver, they serve every theta (see `draws`).

Cells are of the trajectories as they are, or of copies in proportion to exp(R_tilted) D at some reward. Many
trajectories in few cells are cheaper than few in many: to a solver the first solution of a cell costs as much as many
further ones (14x14, CryptoMiniSat: 100 solutions in 0.8 s, 2,000 in 4 s), and members are pairwise independent however
many share a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.engines.xor import XorDistribution
from xmen.errors import EngineError, OracleError
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.draws import Draws
from xmen.methods.sources import Batch
from xmen.oracles.formula import Bits, Parities
from xmen.product.best import score_range
from xmen.product.inference import pass_messages
from xmen.rewards import Floats
from xmen.sampling import Info, Space, UnfinishedError, UniformWeight, choose_parities, run_jobs, spawn
from xmen.sampling.space import read_cell, waits
from xmen.worlds.edge_weights import EdgeWeights
from xmen.worlds.walks import Walks

PROBED = 32.0  # solutions in the cells that tell how many parities are needed
ATTEMPTS = 2  # at a cell whose solver hangs or dies, the second with twice the time: then it is lost


class CellReader:
    """Cells of the valid trajectories behind one oracle, without those that are known from the demonstrations."""

    def __init__(self, base: XorDistribution, demos: Demonstrations) -> None:
        self.base, self.hashed, self.world, self.discount = base, base.hashed, base.world, base.discount
        self.known_walks = _distinct(demos.walks[demos.weights > 0])
        known = self.hashed.decoder.encode(self.known_walks)
        self._known = {row.tobytes() for row in np.packbits(known, axis=1)}

    @property
    def listed(self) -> bool:
        """Whether a list answers in place of a solver."""
        return self.hashed.walks is not None

    @cached_property
    def plain(self) -> Space:
        """The trajectories as they are."""
        return Space(self.hashed.oracle, UniformWeight(), 0.0)

    def tilted(self, table: Floats) -> Space:
        """Copies in proportion to the weights under a reward table, each with what is left of its weight."""
        weights = EdgeWeights.of(self.world, table, self.discount)
        return self.hashed.space(weights, score_range(self.base.relaxation.product, weights))

    def highest(self, table: Floats) -> float:
        """A bound on the log weight of any trajectory under a reward table."""
        return score_range(self.base.relaxation.product, EdgeWeights.of(self.world, table, self.discount))[1]

    def count(self, space: Space, guess: float, rng: np.random.Generator) -> tuple[float, Info]:
        """About log2 of the number of solutions, near enough to choose parities by; `guess` saves probes."""
        start = max(0, round(guess - math.log2(PROBED)))
        m, info = choose_parities(Space(space.oracle, UniformWeight(), 0.0), PROBED, rng, start=start)
        return m + math.log2(PROBED), info

    @cached_property
    def guess(self) -> float:
        """log2 of a number the trajectories are not far below: those of the rules that were multiplied."""
        counted = pass_messages(self.base.relaxation.product, EdgeWeights.counting(self.world))
        return min(self.hashed.log2_count, counted.log_partition / math.log(2.0))

    def read(self, space: Space, table: Floats | None, n_cells: int, m: int, rng: np.random.Generator) -> Batch:
        """n_cells whole cells of m parities, 1 of none; `table` is that of a `tilted` space, None for the plain one."""
        task, seeds = _ReadCell(space, m), spawn(rng, n_cells if m > 0 else 1)
        try:
            found = dict(enumerate(run_jobs(task, seeds, waiting=waits(space.oracle))))
        except UnfinishedError as error:  # workers died
            found = error.finished
        cells = [cell for cell in found.values() if cell.rows is not None]
        if len(cells) < min(2, len(seeds)):
            raise EngineError(
                f"{len(seeds) - len(cells)} of {len(seeds)} cells of {m} parities were lost: the solver hung or died. "
                "Give it more time (time_limit), or make its cells easier: a larger cell_size takes fewer parities."
            )
        info = sum((cell.info for cell in found.values()), Info())
        rows = np.concatenate([cell.rows for cell in cells if cell.rows is not None])
        draws = self._weighed(space, table, rows, m, len(cells))
        return Batch(draws, info, len(seeds) - len(cells), details={"parities": m})

    def _weighed(self, space: Space, table: Floats | None, rows: Bits, m: int, n_cells: int) -> Draws:
        width = self.hashed.decoder.width
        packed = np.packbits(rows[:, :width], axis=1)
        fresh = np.array([row.tobytes() not in self._known for row in packed], dtype=np.bool_)
        rows = rows[fresh]
        walks = self.hashed.decoder.decode(rows[:, :width])
        dynamics = EdgeWeights.of(self.world)
        base = m * math.log(2.0) - math.log(n_cells)
        measure, of_known = np.full(len(rows), base), np.full(len(self.known_walks), base)
        if table is not None:
            weights = EdgeWeights.of(self.world, table, self.discount)
            # The weight of a copy is that of its trajectory over the number of copies; of known ones it is not read.
            of_known += space.log_max - 0.5 * math.log(2.0) - self.known_walks.scores(weights)
            if len(rows):
                measure += space.log_weight(rows) - walks.scores(weights)
        both = (self.known_walks, walks)
        n_known, n = len(self.known_walks), len(self.known_walks) + len(rows)
        return Draws(
            csr_matrix(vstack([each.visit_rows(self.discount) for each in both])),
            np.concatenate([of_known, measure]),
            np.concatenate([each.scores(dynamics) for each in both]),
            np.arange(n) < n_known,
            np.ones(n, dtype=np.bool_),
            np.zeros(n, dtype=np.int64),
            np.array([1.0 - 2.0**-m]),
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
        )


class _Cell(NamedTuple):
    rows: Bits | None  # None: lost
    info: Info


@dataclass(frozen=True)
class _ReadCell:
    """All solutions of one cell; None where the solver hangs or dies on it."""

    space: Space
    m: int

    def __call__(self, rng: np.random.Generator, attempt: int) -> _Cell:
        parities = Parities.dense(self.m, self.space.n_hash, rng)
        spent = 0
        for tried in range(ATTEMPTS):
            oracle = self.space.patient(tried).oracle
            before = oracle.n_queries
            try:
                rows = read_cell(oracle, parities)
            except OracleError:
                spent += oracle.n_queries - before
                continue
            return _Cell(rows, Info(1, len(rows), spent + oracle.n_queries - before))
        return _Cell(None, Info(1, 0, spent, 1))


def _distinct(walks: Walks) -> Walks:
    """Each walk once."""
    rows = np.column_stack([walks.starts, walks.lengths, walks.as_rows(walks.edges, fill=-1)])
    _, first = np.unique(rows, axis=0, return_index=True)
    return walks[np.sort(first)]
