"""method="cells": rounds of whole hash cells."""

from __future__ import annotations

from dataclasses import dataclass

from xmen.engines.choose import Chooser
from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.engines.xor import XorDistribution
from xmen.errors import EngineError
from xmen.methods.by_start import rounds
from xmen.methods.cell_draws import CellReader
from xmen.methods.cell_plan import CellSource
from xmen.methods.likelihood import CellsLikelihood
from xmen.methods.method import Method
from xmen.methods.network_run import NeuralRun, train
from xmen.methods.network_training import Training
from xmen.methods.rounds import DEFAULT_MAX_ITER, RoundsRun
from xmen.methods.runs import FitSettings, Task
from xmen.options import require_number, require_whole
from xmen.rewards.neural import NeuralReward

LEAST_CELLS = 4  # in a round: a cell of four times as many solutions takes a solver twice as long
CELLS_PER_STEP = 16  # of a network


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

        def make(part: Task) -> tuple[XorDistribution, CellSource]:
            base = Chooser(part.joint_law(), settings.engine).joint_xor()
            n_cells = LEAST_CELLS if self.n_cells is None else int(self.n_cells)
            return base, CellSource(CellReader(base, part.demos), part.features, n_cells, size)

        return rounds(task, settings, make)

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        if len(task.by_start()) > 1:
            raise EngineError(
                "method='cells' trains networks on the joint distribution, and these demonstrations have several "
                "starts: with given='start' use method='exact'."
            )
        visits = task.demos.visits(task.discount)
        size = DEFAULT_CELL_SIZE if self.cell_size is None else float(self.cell_size)
        base = Chooser(task.joint_law(), settings.engine).joint_xor()
        n_cells = CELLS_PER_STEP if self.n_cells is None else int(self.n_cells)
        likelihood = CellsLikelihood(base, visits, n_cells, size)
        return train(likelihood, reward, training, settings, None)
