"""method="cells": rounds of whole hash cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.law import Law
from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.engines.xor import XorDistribution
from xmen.errors import EngineError
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


@dataclass(frozen=True, repr=False)
class Cells(Method):
    """Rounds of whole hash cells, each minimised over by L-BFGS and judged by the next round's cells.

    A fit ends where the answer is within the learner's `tol` nats of the optimum (0.005 if not given), after at most
    `max_iter` rounds (20). For products that are too large for `xm.Exact`; the oracle is the learner's. A network is
    trained on fresh cells for every step instead.

    Parameters
    ----------
    n_cells : int
        The least number of cells in a round, 2 or more; per step for a network.
    cell_size : float, optional
        The expected number of solutions in a cell. If not given, as suits: where cells would hold everything, all is
        read as one. For a network 48.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Cells(n_cells=64)
    Cells(n_cells=64)
    """

    n_cells: int = 16
    cell_size: float | None = None

    name = "cells"
    default_max_iter = DEFAULT_MAX_ITER
    plans_with_max_iter = True  # the last round only judges

    def __post_init__(self) -> None:
        require_whole("n_cells", self.n_cells, least=2)
        require_number("cell_size", self.cell_size, above=0.0, optional=True)

    def run(self, task: Task, settings: FitSettings) -> RoundsRun:
        base = self._hash(task, settings)
        size = None if self.cell_size is None else float(self.cell_size)
        source = CellSource(CellReader(base, task.demos), task.features, int(self.n_cells), size)
        return RoundsRun(task, settings, base, source)

    def neural_run(self, task: Task, settings: FitSettings, reward: NeuralReward, training: Training) -> NeuralRun:
        visits = task.demos.visits(task.discount)
        size = DEFAULT_CELL_SIZE if self.cell_size is None else float(self.cell_size)
        likelihood = CellsLikelihood(self._hash(task, settings), visits, self.n_cells, size)
        return train(likelihood, reward, training, settings, None)

    def _hash(self, task: Task, settings: FitSettings) -> XorDistribution:
        world = task.demos.walks.world
        if task.given is not None and np.count_nonzero(world.start) > 1:
            raise EngineError(
                "method='cells' learns from the joint distribution, and this world has several starts: with "
                "given='start' use method='exact', or a world with one start."
            )
        return Chooser(Law(world, task.constraint, None, task.discount), settings.engine).joint_xor()
