"""One fit at work: pure steps from state to state, whatever the method, and the loop that drives them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, Law, Seed
from xmen.engines.settings import EngineSettings
from xmen.errors import ConvergenceWarning, DivergenceError, EngineError, Message, Setting, XmenError, notify
from xmen.methods.demonstrations import Demonstrations
from xmen.options import Options, require_number, require_whole
from xmen.progress import VALIDATION_LOSS, Monitor
from xmen.rewards.linear import Features, Floats, LearnedFeatures, Reward
from xmen.rewards.neural import NeuralReward
from xmen.storage.models import FOREIGN, Checkpoint, RunState, State
from xmen.worlds import Network


def warn_of_end(where: str) -> None:
    """Warn that a fit stopped before its tolerance was met; `where` says how far it was, and what to raise."""
    sentence = "{}; if weights keep growing the optimum may be infinite, and {} > 0 makes it finite."
    notify(Message(sentence, where, Setting("l2")), ConvergenceWarning)


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """The seed of a learning run: one number drawn from a Generator, a child of a SeedSequence."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return child_seed(seed, 0)
    return np.random.SeedSequence(seed, spawn_key=(0,))


def child_seed(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """The stream of one step or round: a child of the run's seed, by its number."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))


class Value(NamedTuple):
    """The loss at some weights, and its gradient along those that move."""

    loss: float
    gradient: Floats


def read_l2(l2: Any, d: int | None = None) -> Floats:
    """A number, or one per feature (d,), as an array; the loss gains sum l2 theta^2 / 2."""
    expected = "l2 is a number, 0 or more, or one per feature"
    try:
        penalty = np.array(l2, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EngineError(f"{expected}; got {l2!r:.60}.") from None
    if isinstance(l2, bool) or penalty.ndim > 1 or not np.isfinite(penalty).all() or np.any(penalty < 0):
        raise EngineError(f"{expected}; got {l2!r:.60}.")
    if d is not None and penalty.ndim == 1 and penalty.shape != (d,):
        raise EngineError(f"{expected}: got {len(penalty)} numbers for {d} features.")
    return penalty


class Coordinates:
    """The d weights of a reward: some are fixed, and the others are what an optimiser moves."""

    def __init__(self, d: int, fixed: Mapping[int, float] | None, l2: Floats) -> None:
        self.values: Floats = np.zeros(d)
        free = np.ones(d, dtype=np.bool_)
        for feature, value in ({} if fixed is None else dict(fixed)).items():
            if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < d:
                raise EngineError(f"fixed names feature {feature!r}, but features are numbered 0 to {d - 1}.")
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise EngineError(f"fixed: the value of feature {feature} is a finite number; got {value!r}.")
            self.values[feature] = value
            free[feature] = False
        self.free = np.flatnonzero(free)
        self.l2 = np.broadcast_to(l2, d)

    def full(self, moved: Floats) -> Floats:
        """All d weights, from those that move."""
        weights = self.values.copy()
        weights[self.free] = moved
        return weights

    def direction(self, moved: Floats) -> Floats:
        """A direction of all d weights, 0 where they are fixed."""
        return self.full(moved) - self.values

    def penalised(self, weights: Floats, loss: float, gradient: Floats) -> Value:
        """The loss with its penalty at all weights (d,), and its gradient along those that move."""
        penalty = 0.5 * float(np.sum(self.l2 * weights**2))
        return Value(loss + penalty, (gradient + self.l2 * weights)[self.free])


DEFAULT_TOL = 1e-7  # of a gradient; a method that measures otherwise has its own in place of it


class Outcome(NamedTuple):
    """What a run hands back: the weights of the features, or a reward that needs none."""

    answer: Floats | Reward
    converged: bool
    base: Distribution | None  # a compiled one that can answer for the model
    learned: Mapping[str, Any] = MappingProxyType({})  # what else the model will know, by the name of its attribute


@dataclass(frozen=True)
class Task:
    """What there is to learn: from which demonstrations, with which features, under which rule."""

    demos: Demonstrations
    features: Features
    constraint: Constraint | None = None
    discount: float = 1.0
    given: str | None = None
    policy: Floats | None = None
    shares: Floats = field(default_factory=lambda: np.zeros(0))  # how often rules that are usually kept are to be kept

    def visits(self) -> Floats:
        """Mean visits of the demonstrations; flat, with the shares after them, where rules are usually kept."""
        visits = self.demos.visits(self.discount)
        return np.append(visits, self.shares) if len(self.shares) else visits

    def law(self) -> Law:
        """What is fitted, before there is a reward: given the start, from where the demonstrations start."""
        world = self.demos.seen_world(self.given)
        return Law(world, self.constraint, None, self.discount, self.given, self.policy, self.demos.machines)

    def joint_law(self) -> Law:
        """What is fitted as one distribution: without `given`, which is for laws of several starts."""
        return replace(self.law(), given=None)

    def by_start(self) -> "list[tuple[float, Task]]":
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
        return self.features.contract(self.visits())


@dataclass(frozen=True, repr=False)
class FitSettings(Options):
    """What a fit has whatever its method: what large weights cost, when to stop, the seed, the engine that answers."""

    l2: ArrayLike = 0.0
    max_iter: int | None = None  # the method's own default, and so for tol
    tol: float | None = None
    seed: Seed = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    fixed: Mapping[int, float] | None = None  # features with weights that are not learned
    start: Floats | None = None  # the weights to begin with, zeros if not given
    memory: Mapping[str, Any] | None = None  # what the optimiser of the last fit knew

    def __post_init__(self) -> None:
        read_l2(self.l2)
        require_number("tol", self.tol, least=0.0, optional=True)
        require_whole("max_iter", self.max_iter, least=0, optional=True)

    def coordinates(self, d: int) -> Coordinates:
        """Which of d weights are learned, and what large ones cost."""
        return Coordinates(d, self.fixed, read_l2(self.l2, d))

    def learned(self, task: Task) -> Task:
        """The task with only those features whose weights are learned."""
        if not self.fixed:
            return task
        coordinates = self.coordinates(task.features.d)
        return replace(task, features=LearnedFeatures(task.features, coordinates.free, coordinates.values))

    def most_iterations(self, default: int) -> int:
        """The largest number of iterations."""
        return default if self.max_iter is None else int(self.max_iter)

    def tolerance(self, default: float = DEFAULT_TOL) -> float:
        """Where to stop."""
        return default if self.tol is None else float(self.tol)


class Run(ABC, Generic[State]):
    """A method of fitting, by steps from state to state."""

    state_type: type[State]

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


class LossEstimate(NamedTuple):
    """The loss at a reward table, and its derivative."""

    loss: float
    difference: Any  # dL/dr (n_states, n_actions), an array, or a tensor where a device found it
    loss_std: float
    visits_std: float  # the norm of the standard errors of dL/dr, 0 where it is exact
    details: dict[str, float]  # what else to record


class Likelihood(ABC):
    """Finds loss and dL/dr of tables; `exact` where they carry no noise."""

    exact: bool = False
    answering: Distribution | None = None  # that can answer for the model after the fit, if there is one
    parities: int = 0  # how finely the last estimate cut the trajectories; where the next one starts to search
    _rng: np.random.Generator

    def begin(self, rng: np.random.Generator, parities: int) -> None:
        """Estimates from here on depend on these and on the table, and on nothing else."""
        self._rng, self.parities = rng, parities

    @abstractmethod
    def __call__(self, table: Floats) -> LossEstimate:
        """The estimate at a table (n_states, n_actions)."""

    def through(self, reward: NeuralReward) -> LossEstimate:
        """The estimate at the table of a neural reward, whose parameters get their gradient."""
        found = self(reward.table())
        reward.backward(found.difference)
        return found


class Method(Options, ABC):
    """How the gradient of a fit is found, as a frozen record of its settings; one subclass per method, by its run."""

    name: ClassVar[str]  # what `method="..."` calls it with all its defaults
    default_max_iter: ClassVar[int]  # where the learner's max_iter is None
    takes_every_step: ClassVar[bool] = False  # does all of max_iter iterations, and does not stop before
    plans_with_max_iter: ClassVar[bool] = False  # steps depend on how many there will be: none can be added later
    keeps_fixed: ClassVar[bool] = False  # learns some weights while others are fixed
    takes_sightings: ClassVar[bool] = False  # learns from demonstrations seen in part

    @abstractmethod
    def run(self, task: Task, settings: FitSettings) -> Run[Any]:
        """The run that learns the weights of a linear reward."""

    @abstractmethod
    def likelihood(self, task: Task, settings: FitSettings) -> Likelihood:
        """The likelihood on which a neural reward is trained."""

    def trip_run(self, task: Task, settings: FitSettings, network: Network) -> Run[Any]:
        """The run that learns from trips through a network."""
        what = "hashes the trajectories of one world, and every trip through a network has its own"
        raise EngineError(f"method={self.name!r} {what}: use method='exact' or 'auto'.")

    def suits(self, task: Task, settings: FitSettings) -> bool:
        """Whether method="auto" tries it."""
        return True

    def check(self, engine: EngineSettings, given: str | None, neural: bool) -> None:
        """Refuse what makes no sense with this method (an engine, given="start", a neural reward) before any work."""


def drive(run: Run[State], monitor: Monitor, checkpoint: Checkpoint | None) -> Outcome:
    """Steps until the run is finished, the callback says stop, or Ctrl-C; stores the state every so often.

    A step is a pure function of the state, and a checkpoint is the whole state: continuing one gives the numbers of
    a run that was never interrupted.
    """
    stored = None if checkpoint is None else checkpoint.load(run.state_type)
    if checkpoint is None or stored is None:
        state = run.start()
    else:
        try:
            state = run.restored(stored[0])
            if wrong := _unlike(state, run.start()):
                raise ValueError(wrong)
        except FOREIGN as error:
            raise checkpoint.misfit(error) from error
        monitor.resume(stored[1])
    # In one name, so that no Ctrl-C can come between a step, what to record of it, and how many there are then.
    reached: tuple[State, dict[str, float], int] = (state, {}, len(monitor.history))
    with monitor:
        while not run.finished(reached[0]):
            try:
                reached = (*run.step(reached[0]), reached[2] + 1)
            except FOREIGN as error:
                if checkpoint is None or stored is None or reached[0] is not state or isinstance(error, XmenError):
                    raise
                raise checkpoint.misfit(error) from error
            stop = monitor.record(**reached[1], answer=partial(run.answer, reached[0]))
            if checkpoint is not None and reached[2] % checkpoint.every == 0:
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
    for name, known in vars(fresh).items():
        value = getattr(state, name)
        if isinstance(known, RunState) and type(value) is type(known):
            if wrong := _unlike(value, known):
                return wrong
            continue
        if isinstance(known, bool | int | np.ndarray) and type(value) is not type(known):
            return f"{name} is a {type(value).__name__}"
        if isinstance(known, np.ndarray):
            free = 1 if known.ndim > 1 else 0
            if value.ndim != known.ndim or value.dtype != known.dtype or value.shape[free:] != known.shape[free:]:
                return f"{name} has the shape {value.shape} and not {known.shape}"
    return ""


# ---- Validation: the loss of held-out demonstrations after each step, an early end, and the answer that was best on
# them.
#
# A run that is watched in this way is again a run: its state is that of the run inside, now and where it was best.

DEFAULT_PATIENCE = 10


@dataclass(frozen=True)
class Validation:
    """Demonstrations that are not learned from, and how many steps without a better loss of theirs end a fit."""

    demos: Demonstrations
    log_likelihoods: Callable[[Floats], Floats]  # those of each under a reward table
    patience: int | None = DEFAULT_PATIENCE  # with none nothing ends early

    def loss(self, table: Floats) -> float:
        """Minus the mean log-likelihood; infinite where the weights of ever longer trips do not add up."""
        try:
            return -self.demos.mean(self.log_likelihoods(table))
        except DivergenceError:
            return math.inf


@dataclass(frozen=True)
class ValidatedState(RunState):
    """Where the run inside stands, and where it stood after the step that was best."""

    inner: Any
    best: Any
    best_loss: float
    best_iteration: int
    iteration: int


class ValidatedRun(Run[ValidatedState]):
    """A run that ends when validation has not become better for `patience` steps, with the best answer it had."""

    state_type = ValidatedState

    def __init__(self, run: Run[Any], features: Features, validation: Validation) -> None:
        self.run, self.features, self.validation = run, features, validation

    def start(self) -> ValidatedState:
        inner = self.run.start()
        return ValidatedState(inner, inner, math.inf, 0, 0)

    def restored(self, state: ValidatedState) -> ValidatedState:
        inner, best = (self.run.state_type(*part) for part in (state.inner, state.best))
        return replace(state, inner=inner, best=inner if state.best_iteration == state.iteration else best)

    def finished(self, state: ValidatedState) -> bool:
        patience = self.validation.patience
        waited = 0 if state.best_loss == math.inf else state.iteration - state.best_iteration
        return self.run.finished(state.inner) or (patience is not None and waited >= patience)

    def step(self, state: ValidatedState) -> tuple[ValidatedState, dict[str, float]]:
        inner, entry = self.run.step(state.inner)
        answer, loss = self.run.answer(inner), math.inf
        if self.run.may_end(inner) and answer is not None:
            loss = self.validation.loss(answer.table() if isinstance(answer, Reward) else self.features.table(answer))
        after = replace(state, inner=inner, iteration=state.iteration + 1)
        if loss < state.best_loss:
            after = replace(after, best=inner, best_loss=loss, best_iteration=after.iteration)
        return after, {**entry, VALIDATION_LOSS: loss}

    def answer(self, state: ValidatedState) -> Floats | Reward | None:
        return self.run.answer(state.inner)

    def conclude(self, state: ValidatedState, monitor: Monitor) -> Outcome:
        if state.best_loss == math.inf or state.best is state.inner:
            outcome = self.run.conclude(state.inner, monitor)
        else:
            monitor.stopped = True  # on purpose, short of the optimum: nothing to warn of
            outcome = self.run.conclude(state.best, monitor)
        chosen = {"best_iteration_": state.best_iteration or state.iteration} if state.iteration else {}
        return outcome._replace(learned={**outcome.learned, **chosen})
