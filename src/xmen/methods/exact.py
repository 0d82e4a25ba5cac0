"""method="exact": the exact gradient by dynamic programming, and L-BFGS."""

from __future__ import annotations

import numpy as np

from xmen.engines.exact import ExactDistribution
from xmen.methods.identify import warn_undetermined
from xmen.methods.lbfgs import Lbfgs, LbfgsState
from xmen.methods.objective import Objective
from xmen.methods.runs import Outcome, Run, Task
from xmen.notices import ConvergenceWarning, notify
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats

DEFAULT_MAX_ITER = 1000


class ExactRun(Run[LbfgsState]):
    """L-BFGS on the exact loss; stops where no component of the gradient is above tol times its feature's size."""

    state_type = LbfgsState

    def __init__(self, task: Task, base: ExactDistribution) -> None:
        learner = task.learner
        self.task, self.base, self.coordinates = task, base, task.coordinates
        self.max_iter = DEFAULT_MAX_ITER if learner.max_iter is None else int(learner.max_iter)
        objective = Objective(base, task.features, task.demo_features, coordinates=self.coordinates)
        scale = task.features.scale[self.coordinates.free]
        self.optimiser = Lbfgs(objective, scale, self._reach, float(learner.tol))

    def _reach(self, direction: Floats) -> float:
        return float(np.abs(self.task.features.table(self.coordinates.direction(direction))).max(initial=0.0))

    def start(self) -> LbfgsState:
        return self.optimiser.start(self.coordinates.values[self.coordinates.free])

    def finished(self, state: LbfgsState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: LbfgsState) -> tuple[LbfgsState, dict[str, float]]:
        after = self.optimiser.step(state)
        return after, {"loss": after.loss, "gradient_norm": float(np.linalg.norm(after.gradient))}

    def conclude(self, state: LbfgsState, monitor: Monitor) -> Outcome:
        if not (state.finished or monitor.stopped or monitor.interrupted):
            notify(
                f"stopped after max_iter = {self.max_iter} iterations with a gradient norm of "
                f"{np.linalg.norm(state.gradient):.3g} (tol = {self.optimiser.tol:g} per component). Raise max_iter or "
                "tol; if weights keep growing the optimum may be infinite, and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        warn_undetermined(self.base, self.task, "where the gradient fell below tol")
        return Outcome(self.coordinates.full(state.weights), state.finished, self.base)
