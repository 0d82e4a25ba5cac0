"""Training a neural reward: its settings, steps that can be taken back, saved and taken up again, and their run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.engines.distribution import Distribution
from xmen.errors import ConvergenceWarning, EngineError, RewardError, notify
from xmen.methods.likelihood import DeviceLikelihood, Likelihood, LossEstimate
from xmen.methods.runs import FitSettings, Outcome, Run, child_seed, seed_sequence, stored_seed
from xmen.options import Options, Unsaved, listed, require_number, require_whole
from xmen.progress import Monitor, Record
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import as_array, seeded, threads, torch
from xmen.storage.checkpoint import RunState
from xmen.worlds.mdp import MDP

Arrays = dict[str, NDArray[Any]]

# ---- The state of a torch optimiser as named arrays, and back, with every number in the type it had.
#
# A tensor is an array under its name; other values have names that end in their kind: `t?number`, `al?none`,
# `old_dirs?list` (the length), whose parts follow as `old_dirs.0`, `old_dirs.1`, and so on.


def flatten(value: Any, name: str) -> Arrays:
    """The arrays that a value is made of; RewardError for what is not made of numbers."""
    if isinstance(value, torch.Tensor):
        return {name: as_array(value)}
    if value is None:
        return {f"{name}?none": np.zeros(0)}
    if isinstance(value, bool | int | float):
        return {f"{name}?number": np.array(value)}
    if isinstance(value, list | tuple):
        out = {f"{name}?list": np.array(len(value))}
        for i, part in enumerate(value):
            out |= flatten(part, f"{name}.{i}")
        return out
    raise RewardError(f"the optimiser keeps a {type(value).__name__} as {name}, which cannot be saved as numbers.")


def unflatten(arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """The value that `flatten` took apart."""
    if name in arrays:
        return torch.as_tensor(np.array(arrays[name]))
    if f"{name}?none" in arrays:
        return None
    if f"{name}?number" in arrays:
        return arrays[f"{name}?number"].item()
    return [unflatten(arrays, f"{name}.{i}") for i in range(int(arrays[f"{name}?list"].item()))]


def optimiser_arrays(optimiser: Any) -> Arrays:
    """The state of an optimiser, as `optimiser.<parameter>.<name>`."""
    out: Arrays = {}
    for index, values in optimiser.state_dict()["state"].items():
        for name, value in values.items():
            out |= flatten(value, f"optimiser.{index}.{name}")
    return out


def load_optimiser(optimiser: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what `optimiser_arrays` gave, in an optimiser made in the same way."""
    names = {(key.split(".")[1], key.split(".")[2].split("?")[0]) for key in arrays if key.startswith("optimiser.")}
    inner: dict[int, dict[str, Any]] = {}
    for index, name in sorted(names):
        inner.setdefault(int(index), {})[name] = unflatten(arrays, f"optimiser.{index}.{name}")
    optimiser.load_state_dict({**optimiser.state_dict(), "state": inner})


# ---- Steps of gradient descent on a neural reward's parameters, each of which can be taken back, saved and taken up


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
        if self.optimiser == "adam":
            return torch.optim.Adam(parameters, lr=self.step_size)
        if self.optimiser == "sgd":
            return torch.optim.SGD(parameters, lr=self.step_size)
        if self.optimiser == "lbfgs":
            # Gradients are exact, so that it pays to go on until they vanish.
            return torch.optim.LBFGS(
                parameters,
                lr=self.step_size,
                tolerance_grad=1e-9,
                tolerance_change=1e-14,
                line_search_fn="strong_wolfe",
            )
        raise unknown_optimiser(self.optimiser)

    def identity(self) -> list[Any]:
        """What a checkpoint has to agree on; a function by its name."""
        made = self.optimiser
        named = f"{made.__module__}.{made.__qualname__}" if hasattr(made, "__qualname__") else type(made).__name__
        return [named if callable(made) else repr(made), self.step_size, self.n_threads]


def unknown_optimiser(optimiser: object) -> RewardError:
    """The refusal of an optimiser, with those there are."""
    known = listed(OPTIMISERS)
    return RewardError(f"unknown optimiser {optimiser!r}: choose one of {known}, or a function from parameters to one.")


def check_neural(reward: object, world: MDP, features: object) -> None:
    """Refuse a reward that cannot be trained in this world, or not beside features."""
    if not isinstance(reward, NeuralReward):
        is_module = hasattr(reward, "parameters") and hasattr(reward, "forward")
        raise RewardError(
            "reward takes a network to be trained, a NeuralReward, ConvReward or FeatureReward; got "
            f"{type(reward).__name__}. "
            + ("Write NeuralReward(module, inputs)." if is_module else "For a linear reward give features.")
        )
    if features is not None:
        raise EngineError(
            "features and reward are both given: features are for a linear reward, and a reward by a network has its "
            f"own inputs. Leave out one of features and reward={reward!r}."
        )
    if (reward.n_states, reward.n_actions) != (world.n_states, world.n_actions):
        raise RewardError(
            f"reward is for {reward.n_states} states and {reward.n_actions} actions, but the world has "
            f"{world.n_states} states and {world.n_actions} actions: give inputs of shape "
            f"({world.n_states}, {world.n_actions}, d)."
        )


class Evaluation(NamedTuple):
    """The loss, the norm of its gradient, and what they came from, before a step."""

    loss: float
    gradient_norm: float
    estimate: LossEstimate


class NeuralTraining:
    """Training that can be driven step by step, stopped, saved and taken up again.

    `likelihood` gives the loss and dL/dr of a reward table. Parameters that do not require a gradient stay as they are.
    """

    def __init__(
        self, likelihood: Likelihood, reward: NeuralReward, training: Training | None = None, l2: float = 0.0
    ) -> None:
        if not isinstance(reward, NeuralReward):
            raise RewardError(f"neural training needs a NeuralReward; got {type(reward).__name__}.")
        training = training or Training()
        if not (np.isfinite(l2) and l2 >= 0):
            raise RewardError(f"l2 is a number, 0 or more; got {l2!r}.")
        if training.optimiser == "lbfgs" and not likelihood.exact:
            raise RewardError(
                "optimiser='lbfgs' searches along lines, which needs exact losses, and here they are estimates: use "
                "'adam' or 'sgd', or raise max_nodes until the exact engine can be used."
            )
        self.likelihood, self.reward, self.l2 = likelihood, reward, float(l2)
        self.parameters = [p for p in reward.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise RewardError(f"the network of {reward!r} has no parameter that can be trained.")
        self.optimiser = training.make(self.parameters)
        self.n_steps, self.n_threads = 0, training.n_threads

    def evaluate(self) -> Evaluation:
        """The loss and its gradient, which is left in the parameters; one estimate of the likelihood."""
        self.optimiser.zero_grad(set_to_none=True)
        if isinstance(self.likelihood, DeviceLikelihood):
            found = self.likelihood.through(self.reward)
        else:
            found = self.likelihood(self.reward.table())
            self.reward.backward(found.difference)
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
            raise RewardError(
                f"the gradient of {self.reward!r} is not finite, although its rewards are: one of its layers has no "
                "derivative there (a root or a logarithm at 0, say)."
            )
        return Evaluation(loss, squares**0.5, found)

    def step(self) -> Evaluation:
        """Evaluate, and move the parameters once; returns what was found before the move.

        When anything goes wrong (the network gives NaN, Ctrl-C), the parameters are as they were before the step.
        """
        found: list[Evaluation] = []

        def closure() -> float:
            found.append(self.evaluate())
            return found[-1].loss

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
                raise RewardError(f"step {self.n_steps + 1} of training: {error}") from error
            raise
        self.n_steps += 1
        return found[0]

    def state(self) -> Arrays:
        """Everything that training needs to go on as if it had not stopped, as named arrays."""
        neural = {f"network.{name}": array for name, array in self.reward.state().items()}
        return neural | optimiser_arrays(self.optimiser) | {"n_steps": np.array(self.n_steps)}

    def memory(self) -> dict[str, Any]:
        """What the optimiser has seen, for a further training of the same network by one of its kind."""
        return {"kind": type(self.optimiser).__name__, **optimiser_arrays(self.optimiser)}

    def load_memory(self, memory: Mapping[str, Any]) -> None:
        """Begin with what `memory` gave; that of another kind of optimiser is of no use."""
        if memory.get("kind") == type(self.optimiser).__name__:
            load_optimiser(self.optimiser, memory)

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` gave, in a training made with the same settings."""
        self.reward.load_state({k.removeprefix("network."): v for k, v in arrays.items() if k.startswith("network.")})
        load_optimiser(self.optimiser, arrays)
        self.n_steps = int(arrays["n_steps"].item())


# ---- The training of a neural reward as a run: pure steps from state to state, driven like those of every learner


DEFAULT_MAX_ITER = 300
STILL_FALLING = 0.01  # nats per demonstration over the last tenth of the steps: more of them would help


@dataclass(frozen=True)
class NeuralState(RunState):
    """Where a run stands: what `NeuralTraining.state` gives, and the seed, of which step t uses the t-th child."""

    arrays: Arrays
    iteration: int
    parities: int
    seed: dict[str, Any]
    finished: bool  # no gradient above tol is left, or a step that moves nothing


class NeuralRun(Run[NeuralState]):
    """`max_iter` steps of a training, fewer where the norm of the gradient falls to `tol` or nothing moves any more.

    `base` can answer for the model afterwards; with `advise`, a loss that was still falling at the end is a warning.
    """

    state_type = NeuralState

    def __init__(
        self,
        training: NeuralTraining,
        seeds: np.random.SeedSequence,
        max_iter: int,
        tol: float = 0.0,
        base: Distribution | None = None,
        advise: bool = False,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        self.training, self.seeds, self.max_iter, self.tol = training, seeds, max_iter, tol
        self.base, self.advise, self.memory = base, advise, memory
        self._present: NeuralState | None = None  # the state that the training is in

    def start(self) -> NeuralState:
        if self.memory is not None:
            self.training.load_memory(self.memory)
        self._present = NeuralState(self.training.state(), 0, 0, stored_seed(self.seeds), False)
        return self._present

    def finished(self, state: NeuralState) -> bool:
        return state.finished or state.iteration >= self.max_iter

    def step(self, state: NeuralState) -> tuple[NeuralState, dict[str, float]]:
        self.answer(state)
        self._present = None  # until the step is complete
        seeds = child_seed(state.seed, state.iteration)
        likelihood = self.training.likelihood
        likelihood.begin(np.random.default_rng(seeds), state.parities)
        with seeded(int(seeds.generate_state(1)[0])):  # for networks and optimisers that draw numbers
            found = self.training.step()
        entry = {"loss": found.loss, "gradient_norm": found.gradient_norm, **found.estimate.details}
        if not likelihood.exact:
            # The error of dL/dw is not known: that of dL/dr is.
            entry |= {"loss_std": found.estimate.loss_std, "gradient_std": np.nan}
            entry["visits_std"] = found.estimate.visits_std
        after = replace(state, iteration=state.iteration + 1, parities=likelihood.parities)
        if found.gradient_norm <= self.tol:
            return replace(after, finished=True), entry  # where the gradient vanishes, and not one step away
        arrays = self.training.state()
        unmoved = (np.array_equal(arrays[name], state.arrays[name]) for name in arrays if name.startswith("network."))
        self._present = replace(after, arrays=arrays, finished=likelihood.exact and all(unmoved))
        return self._present, entry

    def answer(self, state: NeuralState) -> NeuralReward:
        if self._present is not state:
            self._present = None
            self.training.load_state(state.arrays)
            self._present = state
        return self.training.reward

    def conclude(self, state: NeuralState, monitor: Monitor) -> Outcome:
        reward = self.answer(state)
        fell = _fell_at_the_end(monitor.history)
        if self.advise and not (state.finished or monitor.stopped or monitor.interrupted) and fell > STILL_FALLING:
            notify(
                f"after max_iter = {self.max_iter} steps the loss was still falling, by {fell:.3g} nats over the last "
                "tenth of them. Raise max_iter or learning_rate; if rewards keep growing the optimum may be infinite, "
                "and l2 > 0 makes it finite.",
                ConvergenceWarning,
            )
        return Outcome(reward, state.finished, self.base, {"optimiser_state_": self.training.memory()})


def train(
    likelihood: Likelihood, reward: NeuralReward, training: Training, settings: FitSettings, base: Distribution | None
) -> NeuralRun:
    """The run of a fit that trains a copy of `reward`; `base` can answer for the model afterwards, if there is one."""
    steps = NeuralTraining(likelihood, reward.copy(), training, float(settings.penalty(1)))
    max_iter = settings.most_iterations(DEFAULT_MAX_ITER)
    return NeuralRun(steps, seed_sequence(settings.seed), max_iter, settings.tolerance(), base, True, settings.memory)


def _fell_at_the_end(history: list[Record]) -> float:
    """By how much the loss fell over the last tenth of the steps, beyond what may be noise."""
    if len(history) < 2:
        return 0.0
    first, last = history[-1 - max(1, len(history) // 10)], history[-1]
    noise = 2.0 * float(np.hypot(first.loss_std, last.loss_std))
    return first.loss - last.loss - noise
