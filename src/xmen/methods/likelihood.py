"""The loss L = -mean R + log Z of a reward table, on which every reward is trained, and L-BFGS for linear ones.

dL/dr = expected visits - the demonstrations' visits. A linear reward takes its gradient from there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np

from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.seen import SeenTogether
from xmen.methods.runs import Coordinates, FitSettings, Likelihood, LossEstimate, Outcome, Run, Value, warn_of_end
from xmen.progress import Monitor
from xmen.rewards.linear import Features, Floats
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import torch
from xmen.storage.models import RunState

Seen: TypeAlias = tuple[SeenTogether, Floats]
"""Demonstrations seen in part, and their weights (n,)."""


class DistributionLikelihood(Likelihood):
    """By a distribution's own log Z and expected visits: one dynamic program where the engine is exact.

    A sighting y has log Z_y in place of R, and what is expected given y in place of visits.
    On a device, a neural reward's table and dL/dr do not leave it.
    """

    answering: Distribution

    def __init__(self, base: Distribution, demo_visits: Floats, seen: Seen | None = None) -> None:
        self.answering, self.demo_visits, self.exact = base, demo_visits, base.engine == "exact"
        self._seen = seen
        self._place = base.place if isinstance(base, ExactDistribution) and seen is None else None
        if self._place is not None:
            self._gradient = self._place.gradient(base.weights)
            self._wanted = torch.as_tensor(demo_visits, device=self._place.device)

    def __call__(self, table: Floats) -> LossEstimate:
        present = self.answering.with_reward(table)
        log_partition, loss_std = present.log_partition(return_std=True)
        visits, visits_std = present.moments(return_std=True)
        loss, wanted = log_partition - float(np.sum(self.demo_visits * table)), self.demo_visits
        if self._seen is not None:
            assert isinstance(present, ExactDistribution)
            together, weights = self._seen
            log_z, moments = together(present)
            loss, wanted = loss - float(weights @ log_z), wanted + moments(weights)
        return LossEstimate(loss, visits - wanted, loss_std, float(np.linalg.norm(visits_std)), {})

    def through(self, reward: NeuralReward) -> LossEstimate:
        if self._place is None:
            return super().through(reward)
        with torch.enable_grad():
            table = reward.forward()
        log_partition, visits = self._gradient(table)
        loss = log_partition - float((self._wanted * table.detach().to(visits.device)).sum())
        reward.differentiate(table, visits - self._wanted)
        return LossEstimate(loss, visits - self._wanted, 0.0, 0.0, {})


class Objective:
    """L and grad L = f contracted with dL/dr, along the weights that move; what large weights cost is added."""

    def __init__(self, likelihood: Likelihood, features: Features, coordinates: Coordinates) -> None:
        self.likelihood, self.features, self.coordinates = likelihood, features, coordinates
        self.metric = features.scale

    def reach(self, direction: Floats) -> float:
        """The largest change of a reward along a direction of the weights that move."""
        return self.features.reach(self.coordinates.direction(direction))

    def __call__(self, moved: Floats) -> Value:
        weights = self.coordinates.full(moved)
        found = self.likelihood(self.features.table(weights))
        return self.coordinates.penalised(weights, found.loss, self.features.contract(found.difference))


# ---- L-BFGS as a pure step from state to state, so that a run can be stopped, stored and continued bit for bit

MEMORY = 20  # pairs kept
MOST_CHANGE = 10.0  # no reward r(s, a) changes by more than this in one step, however flat the loss is
SUFFICIENT, CURVATURE = 1e-4, 0.9  # of the Wolfe conditions
DEFAULT_MAX_ITER = 1000
LOSS_ROUNDING = 1e-13  # relative; differences of the loss below this say nothing


@dataclass(frozen=True)
class LbfgsState(RunState):
    """Where a run stands. `steps` and `changes` (k, d): the last moves and what they did to the gradient."""

    weights: Floats
    loss: float
    gradient: Floats
    steps: Floats
    changes: Floats
    finished: bool  # the tolerance is met, or rounding errors are all that is left
    iteration: int

    def forgetting(self) -> Self:
        """This state without the moves that it remembers."""
        return replace(self, steps=self.steps[:0], changes=self.changes[:0])


Moved = TypeVar("Moved", bound=LbfgsState)


class Lbfgs:
    """Minimises a smooth convex loss; ends when no component of gradient / scale is above `tol`.

    `scale` (d,) is the size of each feature, so that units do not matter. The run works in weights times `metric` (d,),
    which is scale unless something nearer to the root of the curvature is known. `reach(direction)` is the largest
    change of a reward along a direction. The line search asks for less loss and a flatter slope (Wolfe); where the loss
    cannot resolve the difference any more, it trusts the slopes.
    """

    def __init__(
        self,
        objective: Callable[[Floats], Value],
        scale: Floats,
        reach: Callable[[Floats], float],
        tol: float,
        metric: Floats | None = None,
    ) -> None:
        self.objective, self.scale, self.reach, self.tol = objective, scale, reach, tol
        self.metric = scale if metric is None else metric

    def start(self, weights: Floats, memory: Mapping[str, Any] | None = None) -> LbfgsState:
        """The state before the first step; `memory` has the steps and changes of a fit of the same features."""
        value = self.objective(weights)
        steps = changes = np.empty((0, len(weights)))
        if memory is not None and np.shape(memory.get("steps", 0))[1:] == weights.shape:
            steps, changes = memory["steps"], memory["changes"]
        return LbfgsState(weights, value.loss, value.gradient, steps, changes, self.small(value.gradient), 0)

    def small(self, gradient: Floats) -> bool:
        """Whether a gradient meets the tolerance."""
        return float(np.abs(gradient / self.scale).max(initial=0.0)) <= self.tol

    def decrement(self, state: LbfgsState) -> float:
        """How much less the loss would be at its minimum, as far as the moves so far have shown its curvature."""
        return 0.5 * float(self._inverse_hessian(state) @ (state.gradient / self.metric))

    def step(self, state: Moved) -> Moved:
        """One step down; whatever else a state has stays."""
        state = replace(state, iteration=state.iteration + 1)
        direction = -self._inverse_hessian(state) / self.metric
        if state.gradient @ direction >= 0.0:  # rounding has spoilt the memory
            state = state.forgetting()
            direction = -state.gradient / self.metric**2
        slope, reach = float(state.gradient @ direction), self.reach(direction)
        if abs(slope) <= LOSS_ROUNDING**1.5:
            return replace(state, finished=True)
        longest = MOST_CHANGE / reach if reach > 0.0 else np.inf  # a penalty alone may change
        first = 1.0 if len(state.steps) or reach == 0.0 else 1.0 / reach  # the length of the first step is a guess
        found = self._search(state, direction, slope, min(first, longest), longest)
        if found is None:
            return replace(state, finished=True)
        weights, value = found
        move, change = (weights - state.weights) * self.metric, (value.gradient - state.gradient) / self.metric
        steps, changes = state.steps, state.changes
        if move @ change > 1e-12 * np.linalg.norm(move) * np.linalg.norm(change):
            steps = np.concatenate([steps, move[None]])[-MEMORY:]
            changes = np.concatenate([changes, change[None]])[-MEMORY:]
        moved = replace(state, weights=weights, **value._asdict(), steps=steps, changes=changes)
        return replace(moved, finished=self.small(value.gradient))

    def _inverse_hessian(self, state: LbfgsState) -> Floats:
        """The two-loop recursion: an approximate inverse Hessian times the (scaled) gradient."""
        out = state.gradient / self.metric
        kept = [(s, y, 1.0 / float(s @ y)) for s, y in zip(state.steps, state.changes, strict=True)]
        amounts = []
        for s, y, rho in reversed(kept):
            amounts.append(rho * float(s @ out))
            out = out - amounts[-1] * y
        if kept:
            s, y, _ = kept[-1]
            out = out * (float(s @ y) / float(y @ y))
        for (s, y, rho), amount in zip(kept, reversed(amounts), strict=True):
            out = out + (amount - rho * float(y @ out)) * s
        return out

    def _search(
        self, state: LbfgsState, direction: Floats, slope: float, length: float, longest: float
    ) -> tuple[Floats, Value] | None:
        """A step length that satisfies the Wolfe conditions; along a line, the slopes of a convex loss increase."""
        blur = LOSS_ROUNDING * (1.0 + abs(state.loss))
        low, low_slope, high, high_slope = 0.0, slope, np.inf, np.nan
        best = None
        for _ in range(40):
            weights = state.weights + length * direction
            value = self.objective(weights)
            here = float(value.gradient @ direction)
            lower = value.loss <= state.loss + SUFFICIENT * length * slope
            if not lower and abs(value.loss - state.loss) <= blur:
                lower = here <= (2.0 * SUFFICIENT - 1.0) * slope
            if not lower:
                high, high_slope = length, here
            else:
                best = weights, value
                if here >= CURVATURE * slope or length >= longest:
                    return best
                low, low_slope = length, here
            if high == np.inf:
                length = min(2.0 * length, longest)
            else:
                # The zero of the slope by a secant, kept away from both ends.
                share = low_slope / (low_slope - high_slope) if high_slope > 0.0 else 0.5
                length = low + (high - low) * min(max(share, 0.1), 0.9)
        return best


class LbfgsRun(Run[Moved]):
    """L-BFGS on a loss of the weights that move; stops where no gradient / feature's size is above tol."""

    def __init__(self, objective: Objective, settings: FitSettings) -> None:
        self.objective, self.features, self.coordinates = objective, objective.features, objective.coordinates
        self.memory, self.max_iter = settings.memory, settings.most_iterations(DEFAULT_MAX_ITER)
        free = self.coordinates.free
        self.first = (self.coordinates.values if settings.start is None else settings.start)[free]
        scale, metric = self.features.scale[free], objective.metric[free]
        self.optimiser = Lbfgs(objective, scale, objective.reach, settings.tolerance(), metric)

    def start(self) -> Moved:
        return self.state_type(**vars(self.optimiser.start(self.first, self.memory)))

    def finished(self, state: Moved) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: Moved) -> tuple[Moved, dict[str, float]]:
        after = self.optimiser.step(state)
        return after, {"loss": after.loss, "gradient_norm": float(np.linalg.norm(after.gradient))}

    def answer(self, state: Moved) -> Floats:
        return self.coordinates.full(state.weights)

    def conclude(self, state: Moved, monitor: Monitor) -> Outcome:
        if not (state.finished or monitor.stopped or monitor.interrupted):
            norm, tol = np.linalg.norm(state.gradient), f"tol = {self.optimiser.tol:g} per component"
            end = f"stopped after max_iter = {self.max_iter} iterations with a gradient norm of {norm:.3g} ({tol})"
            warn_of_end(f"{end}. Raise max_iter or tol")
        memory = {"steps": state.steps, "changes": state.changes}
        return Outcome(self.answer(state), state.finished, None, {"optimiser_state_": memory})
