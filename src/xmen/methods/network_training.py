"""Steps of gradient descent on a network's parameters, each of which can be taken back, saved and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import EngineError, RewardError
from xmen.methods.likelihood import DeviceLikelihood, Likelihood, LossEstimate
from xmen.methods.optimiser_state import load_optimiser, optimiser_arrays
from xmen.options import Options, Unsaved, listed, require_number, require_whole
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import threads, torch
from xmen.worlds.mdp import MDP

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


def check_network(reward: object, world: MDP, features: object) -> None:
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

    `likelihood` gives the loss and dL/dr of a reward table. Parameters of the network that do not require a gradient
    stay as they are.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        reward: NeuralReward,
        training: Training | None = None,
        l2: float = 0.0,
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
        found = self._through_network()
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

    def _through_network(self) -> LossEstimate:
        """The estimate at the network's table, whose gradient is left in the parameters."""
        if isinstance(self.likelihood, DeviceLikelihood):
            return self.likelihood.through(self.reward)
        found = self.likelihood(self.reward.table())
        self.reward.backward(found.difference)
        return found

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
            self._put_back(before)
            if isinstance(error, RewardError):
                raise RewardError(f"step {self.n_steps + 1} of training: {error}") from error
            raise
        self.n_steps += 1
        return found[0]

    def _put_back(self, values: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(value)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training needs to go on as if it had not stopped, as named arrays."""
        network = {f"network.{name}": array for name, array in self.reward.state().items()}
        return network | optimiser_arrays(self.optimiser) | {"n_steps": np.array(self.n_steps)}

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
