"""One fit at work: pure steps from state to state, whatever the method, and the loop that drives them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, Seed
from xmen.engines.law import Law
from xmen.engines.settings import EngineSettings
from xmen.errors import XmenError
from xmen.methods.coordinates import Coordinates, read_l2
from xmen.methods.demonstrations import Demonstrations
from xmen.options import Options, require_number, require_whole
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats, Reward
from xmen.rewards.features import Features, LearnedFeatures
from xmen.storage.checkpoint import Checkpoint, RunState, State
from xmen.storage.models import FOREIGN

DEFAULT_TOL = 1e-7  # of a gradient; a method that measures otherwise has its own in place of it


class Outcome(NamedTuple):
    """What a run hands back: the weights of the features, or a reward that needs none.

    `base` is a compiled distribution that can answer for the model, if there is one. `learned` has what else the model
    will know after the fit, by the name of its attribute.
    """

    answer: Floats | Reward
    converged: bool
    base: Distribution | None
    learned: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Task:
    """What there is to learn: from which demonstrations, with which features, under which rule."""

    demos: Demonstrations
    features: Features
    constraint: Constraint | None = None
    discount: float = 1.0
    given: str | None = None
    policy: Floats | None = None

    def law(self) -> Law:
        """What is fitted, before there is a reward: given the start, from where the demonstrations start."""
        world = self.demos.seen_world(self.given)
        return Law(world, self.constraint, None, self.discount, self.given, self.policy)

    def joint_law(self) -> Law:
        """The same as one distribution: without `given`, which is for laws of several starts."""
        return replace(self.law(), given=None)

    def by_start(self) -> list[tuple[float, Task]]:
        """This task alone; given the start, one for each start of the demonstrations, with the share that it has."""
        if self.given is None:
            return [(1.0, self)]
        shares = self.demos.seen_world(self.given).start
        return [
            (float(shares[start]), replace(self, demos=self.demos.starting_in(start), given=None))
            for start in np.flatnonzero(shares).tolist()
        ]

    @property
    def demo_features(self) -> Floats:
        """The mean of f(tau) over the demonstrations (d,)."""
        return self.features.contract(self.demos.visits(self.discount))


@dataclass(frozen=True, repr=False)
class FitSettings(Options):
    """What a fit has whatever its method: what large weights cost, when to stop, the seed, the engine that answers.

    For max_iter and tol None is the method's own default; `fixed` maps features to weights that are not learned.
    """

    l2: ArrayLike = 0.0
    max_iter: int | None = None
    tol: float | None = None
    seed: Seed = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    fixed: Mapping[int, float] | None = None
    start: Floats | None = None  # the weights to begin with, zeros if not given
    memory: Mapping[str, Any] | None = None  # what the optimiser of the last fit knew

    def __post_init__(self) -> None:
        read_l2(self.l2)
        require_number("tol", self.tol, least=0.0, optional=True)
        require_whole("max_iter", self.max_iter, least=1, optional=True)

    def penalty(self, d: int) -> Floats:
        """l2 of each of d features, or one number for all."""
        return read_l2(self.l2, d)

    def coordinates(self, d: int) -> Coordinates:
        """Which of d weights are learned, and what large ones cost."""
        return Coordinates(d, self.fixed, self.penalty(d))

    def learned(self, task: Task) -> Task:
        """The same task with only those features whose weights are learned."""
        if not self.fixed:
            return task
        coordinates = self.coordinates(task.features.d)
        return replace(task, features=LearnedFeatures(task.features, coordinates.free, coordinates.values))

    def first_weights(self, d: int) -> Floats:
        """Where a fit of d weights begins."""
        return np.zeros(d) if self.start is None else np.array(self.start, dtype=np.float64)

    def most_iterations(self, default: int) -> int:
        """The largest number of iterations."""
        return default if self.max_iter is None else int(self.max_iter)

    def tolerance(self, default: float = DEFAULT_TOL) -> float:
        """Where to stop."""
        return default if self.tol is None else float(self.tol)


class Run(ABC, Generic[State]):
    """A method of fitting, by steps from state to state."""

    state_type: type[State]
    stores_every_step: bool = False  # steps so long that a checkpoint is due after each, whatever was asked for

    @abstractmethod
    def start(self) -> State:
        """The state before the first step."""

    @abstractmethod
    def finished(self, state: State) -> bool:
        """Whether there is nothing left to do."""

    @abstractmethod
    def step(self, state: State) -> tuple[State, dict[str, float]]:
        """One iteration, and what to record of it (the arguments of `Monitor.record`)."""

    def answer(self, state: State) -> Floats | Reward | None:
        """What the answer would be if the run ended here; None where that is nothing to look at."""
        return None

    def may_end(self, state: State) -> bool:
        """Whether that answer is one of the task itself, and not of one on the way to it."""
        return True

    def restored(self, state: State) -> State:
        """A state as the run made it, from what a checkpoint gave back of it."""
        return state

    @abstractmethod
    def conclude(self, state: State, monitor: Monitor) -> Outcome:
        """The answer; warns where it is not what was asked for."""


def drive(run: Run[State], monitor: Monitor, checkpoint: Checkpoint | None) -> Outcome:
    """Steps until the run is finished, the callback says stop, or Ctrl-C; stores the state every so often.

    A step is a pure function of the state, and a checkpoint is the whole state: continuing one gives the numbers of
    a run that was never interrupted.
    """
    stored = None if checkpoint is None else checkpoint.load(run.state_type)
    if stored is None:
        state = run.start()
    else:
        assert checkpoint is not None
        state, history = stored
        try:
            state = run.restored(state)
            wrong = _unlike(state, run.start())
        except FOREIGN as error:
            raise checkpoint.misfit(error) from error
        if wrong:
            raise checkpoint.misfit(ValueError(wrong))
        monitor.resume(history)
    # In one name, so that no Ctrl-C can come between a step, what to record of it, and how many there are then.
    reached: tuple[State, dict[str, float], int] = (state, {}, len(monitor.history))
    with monitor:
        while not run.finished(reached[0]):
            try:
                reached = (*run.step(reached[0]), reached[2] + 1)
            except FOREIGN as error:
                if stored is None or reached[0] is not state or isinstance(error, XmenError):
                    raise
                assert checkpoint is not None
                raise checkpoint.misfit(error) from error
            stop = monitor.record(**reached[1], answer=partial(run.answer, reached[0]))
            if checkpoint is not None and (run.stores_every_step or checkpoint.due(reached[2])):
                checkpoint.save(reached[0], monitor.history)
            if stop:
                break
    state, entry, n_steps = reached
    if len(monitor.history) < n_steps:
        monitor.note(**entry)
    if checkpoint is not None:
        checkpoint.save(state, monitor.history)
    return run.conclude(state, monitor)


def _unlike(state: RunState, fresh: RunState) -> str:
    """What makes a stored state none of this run; '' for nothing. Only the rows of matrices come and go."""
    for name, known in fresh.parts().items():
        value = getattr(state, name)
        if isinstance(known, RunState) and type(value) is type(known):
            if wrong := _unlike(value, known):
                return wrong
            continue
        if isinstance(known, bool | int | np.ndarray) and type(value) is not type(known):
            return f"{name} is a {type(value).__name__}"
        if not isinstance(known, np.ndarray):
            continue
        free = 1 if known.ndim > 1 else 0
        if value.ndim != known.ndim or value.dtype != known.dtype or value.shape[free:] != known.shape[free:]:
            return f"{name} has the shape {value.shape} and not {known.shape}"
    return ""
