"""Training a neural reward: its settings, steps that can be taken back, saved and taken up again, and their run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import EngineError, RewardError
from xmen.methods import runs
from xmen.methods.runs import FitSettings, Likelihood, LossEstimate, Outcome, Run
from xmen.options import Options, Unsaved, listed, require_number, require_whole
from xmen.progress import Monitor
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import as_array, seeded, threads, torch
from xmen.storage.models import RunState


def as_arrays(value: Any) -> Any:
    """The state of a torch optimiser, with an array for every tensor; RewardError for what is not made of numbers."""
    if isinstance(value, torch.Tensor):
        return as_array(value)
    if isinstance(value, dict):
        return {key: as_arrays(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_arrays(part) for part in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise RewardError(f"the optimiser keeps a {type(value).__name__}, which cannot be saved as numbers.")


def as_tensors(value: Any) -> Any:
    """The state that `as_arrays` took apart, with every number in the type it had."""
    if isinstance(value, np.ndarray):
        return torch.as_tensor(np.array(value))
    if isinstance(value, dict):
        return {key: as_tensors(part) for key, part in value.items()}
    return [as_tensors(part) for part in value] if isinstance(value, list) else value


Optimiser: TypeAlias = "str | Unsaved | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]"

OPTIMISERS = ("adam", "sgd", "lbfgs")


@dataclass(frozen=True, repr=False)
class Training(Options):
    """How a network is trained; the gradient is the method's.

    Parameters
    ----------
    optimiser : str or function
        "adam", "sgd", "lbfgs" (several evaluations per step, with a line search; needs exact gradients), or a function
        from parameters to a torch optimiser.
    learning_rate : float, optional
        0.01 if not given, and 1 for "lbfgs". A function has its own.
    n_threads : int, optional
        Threads of the network on a CPU. One is the default: results are then the same on every machine, and with
        networks of this size more threads wait for each other longer than they work. None is torch's own number.

    Raises
    ------
    RewardError
        A setting that makes no sense.

    Examples
    --------
    >>> import xmen as xm
    >>> xm.Training("lbfgs").step_size
    1.0
    """

    optimiser: Optimiser = "adam"
    learning_rate: float | None = None
    n_threads: int | None = 1

    def __post_init__(self) -> None:
        if self.optimiser not in OPTIMISERS and not (callable(self.optimiser) or isinstance(self.optimiser, Unsaved)):
            raise unknown_optimiser(self.optimiser)
        try:
            require_number("learning_rate", self.learning_rate, above=0.0, optional=True)
            require_whole("n_threads", self.n_threads, least=1, optional=True)
        except EngineError as error:
            raise RewardError(str(error)) from None

    @property
    def step_size(self) -> float:
        """The learning rate, with the optimiser's default where none was given."""
        default = 1.0 if self.optimiser == "lbfgs" else 0.01
        return default if self.learning_rate is None else float(self.learning_rate)

    def make(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """The torch optimiser of these parameters."""
        if callable(self.optimiser):
            made = self.optimiser(parameters)
            if not isinstance(made, torch.optim.Optimizer):
                raise RewardError(f"optimiser(parameters) must return a torch optimiser; got {type(made).__name__}.")
            return made
        if self.optimiser == "lbfgs":  # gradients are exact, so that it pays to go on until they vanish
            kind = partial(torch.optim.LBFGS, tolerance_grad=1e-9, tolerance_change=1e-14)
            return kind(parameters, lr=self.step_size, line_search_fn="strong_wolfe")
        if self.optimiser not in OPTIMISERS:
            raise unknown_optimiser(self.optimiser)
        descent = torch.optim.Adam if self.optimiser == "adam" else torch.optim.SGD
        return descent(parameters, lr=self.step_size)

    def identity(self) -> list[Any]:
        """What a checkpoint has to agree on; a function by its name."""
        made = self.optimiser
        named = f"{made.__module__}.{made.__qualname__}" if hasattr(made, "__qualname__") else type(made).__name__
        return [named if callable(made) else repr(made), self.step_size, self.n_threads]


def unknown_optimiser(optimiser: object) -> RewardError:
    """The refusal of an optimiser, with those there are."""
    known = listed(OPTIMISERS)
    return RewardError(f"unknown optimiser {optimiser!r}: choose one of {known}, or a function from parameters to one.")


DEFAULT_MAX_ITER = 300


@dataclass(frozen=True)
class NeuralState(RunState):
    """Where a run stands: the numbers of network and optimiser, and the seed, of which step t uses the t-th child."""

    network: dict[str, NDArray[Any]]
    optimiser: dict[int, Any]
    iteration: int
    parities: int
    seed: np.random.SeedSequence
    finished: bool  # no gradient above tol is left, or a step that moves nothing


class NeuralRun(Run[NeuralState]):
    """Steps of an optimiser on the parameters of a neural reward, of which those without a gradient stay as they are.

    The network is trained in place. There are `max_iter` steps, fewer where the norm of the gradient falls to `tol` or
    nothing moves any more. With `warn`, a loss that was still falling at the end is a warning.
    """

    state_type = NeuralState

    def __init__(
        self, likelihood: Likelihood, reward: NeuralReward, training: Training, settings: FitSettings, warn: bool = True
    ) -> None:
        self.l2, self.seeds = float(runs.read_l2(settings.l2, 1)), runs.seed_sequence(settings.seed)
        self.max_iter, self.tol = settings.most_iterations(DEFAULT_MAX_ITER), settings.tolerance()
        if training.optimiser == "lbfgs" and not likelihood.exact:
            what = "optimiser='lbfgs' searches along lines, which needs exact losses, and here they are estimates"
            raise RewardError(f"{what}: use 'adam' or 'sgd', or raise max_nodes until the exact engine can be used.")
        self.likelihood, self.reward, self.n_threads = likelihood, reward, training.n_threads
        self.warn, self.memory = warn, settings.memory or {}
        self.parameters = [p for p in reward.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise RewardError(f"the network of {reward!r} has no parameter that can be trained.")
        self.optimiser = training.make(self.parameters)
        self.kind = type(self.optimiser).__name__
        self._present: NeuralState | None = None  # the state that reward and optimiser are in

    def start(self) -> NeuralState:
        if self.memory.get("kind") == self.kind:  # that of another kind of optimiser is of no use
            self._remember(self.memory["state"])
        self._present = NeuralState(*self._numbers(), 0, 0, self.seeds, False)
        return self._present

    def _numbers(self) -> tuple[dict[str, NDArray[Any]], dict[int, Any]]:
        """Everything that training needs to go on as if it had not stopped."""
        return self.reward.state(), as_arrays(self.optimiser.state_dict()["state"])

    def _remember(self, state: Mapping[int, Any]) -> None:
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": as_tensors(state)})

    def finished(self, state: NeuralState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: NeuralState) -> tuple[NeuralState, dict[str, float]]:
        self.answer(state)
        self._present = None  # until the step is complete
        seeds, likelihood = runs.child_seed(state.seed, state.iteration), self.likelihood
        likelihood.begin(np.random.default_rng(seeds), state.parities)
        with seeded(int(seeds.generate_state(1)[0])):  # for networks and optimisers that draw numbers
            found, norm = self._move(state.iteration + 1)
        entry = {"loss": found.loss, "gradient_norm": norm, **found.details}
        if not likelihood.exact:
            # The error of dL/dw is not known: that of dL/dr is.
            entry |= {"loss_std": found.loss_std, "gradient_std": np.nan, "visits_std": found.visits_std}
        after = replace(state, iteration=state.iteration + 1, parities=likelihood.parities)
        if norm <= self.tol:
            return replace(after, finished=True), entry  # where the gradient vanishes, and not one step away
        network, optimiser = self._numbers()
        unmoved = all(np.array_equal(array, state.network[name]) for name, array in network.items())
        finished = likelihood.exact and unmoved
        self._present = replace(after, network=network, optimiser=optimiser, finished=finished)
        return self._present, entry

    def _move(self, number: int) -> tuple[LossEstimate, float]:
        """Move the parameters once; what was found before the move, and the norm of the gradient.

        When anything goes wrong (the network gives NaN, Ctrl-C), the parameters are as they were before the step.
        """
        found: list[tuple[LossEstimate, float]] = []

        def closure() -> float:
            found.append(self._evaluate())
            return found[-1][0].loss

        before = [parameter.detach().clone() for parameter in self.parameters]
        try:
            with threads(self.n_threads):
                self.optimiser.step(closure)  # type: ignore[arg-type,unused-ignore]
                with torch.no_grad():
                    self.reward.forward()  # a step into numbers that are not finite is not taken
        except BaseException as error:
            with torch.no_grad():
                for parameter, value in zip(self.parameters, before, strict=True):
                    parameter.copy_(value)
            if isinstance(error, RewardError):
                raise RewardError(f"step {number} of training: {error}") from error
            raise
        return found[0]

    def _evaluate(self) -> tuple[LossEstimate, float]:
        """The loss, penalty included, and the norm of its gradient, which is left in the parameters."""
        self.optimiser.zero_grad(set_to_none=True)
        found = self.likelihood.through(self.reward)
        loss, terms = found.loss, []
        with torch.no_grad():
            for parameter in self.parameters:
                if parameter.grad is None:  # a part of the network that this reward does not use
                    continue
                if self.l2:
                    loss += 0.5 * self.l2 * float(parameter.square().sum())
                    parameter.grad.add_(parameter, alpha=self.l2)
                terms.append(parameter.grad.square().sum().double())
        squares = float(sum(terms))  # one look at the device for all of them
        if not np.isfinite(squares):
            why = "one of its layers has no derivative there (a root or a logarithm at 0, say)"
            raise RewardError(f"the gradient of {self.reward!r} is not finite, although its rewards are: {why}.")
        return found._replace(loss=loss), squares**0.5

    def answer(self, state: NeuralState) -> NeuralReward:
        if self._present is not state:
            self._present = None
            self.reward.load_state(state.network)
            self._remember(state.optimiser)
            self._present = state
        return self.reward

    def conclude(self, state: NeuralState, monitor: Monitor) -> Outcome:
        reward, history, fell = self.answer(state), monitor.history, 0.0
        if len(history) > 1:  # in nats per demonstration over the last tenth of the steps, beyond what may be noise
            first, last = history[-1 - max(1, len(history) // 10)], history[-1]
            fell = first.loss - last.loss - 2.0 * float(np.hypot(first.loss_std, last.loss_std))
        if self.warn and not (state.finished or monitor.stopped or monitor.interrupted) and fell > 0.01:
            falling = f"the loss was still falling, by {fell:.3g} nats over the last tenth of them"
            runs.warn_of_end(f"after max_iter = {self.max_iter} steps {falling}. Raise max_iter or learning_rate")
        memory = {"kind": self.kind, "state": as_arrays(self.optimiser.state_dict()["state"])}
        return Outcome(reward, state.finished, self.likelihood.answering, {"optimiser_state_": memory})
