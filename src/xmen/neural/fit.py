"""Maximum likelihood for neural rewards: L(w) = -mean over demonstrations of R(tau) + log Z + l2/2 |w|^2.

Each step asks an engine for log Z and expected visits under the present reward, over one product that is compiled
once, and backpropagates visits_model - visits_demo through the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, as_constraint, distribution
from xmen.errors import RewardError
from xmen.learners.demonstrations import gather
from xmen.learners.progress import Callback, Monitor, Record
from xmen.neural._torch import as_array, seeded, threads
from xmen.neural.reward import NeuralReward
from xmen.rewards import Floats
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    import torch

OPTIMISERS = ("adam", "sgd", "lbfgs")

Optimiser: TypeAlias = "str | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]"


class NeuralTraining:
    """Training that can be driven step by step, stopped, saved and taken up again.

    `distribution` holds the world, the constraint and the compiled product; `demo_visits`, shape
    (n_states, n_actions), the mean discounted visits of the demonstrations. Parameters of the network that do not
    require a gradient stay as they are.

    On a CPU the network runs on `n_threads` threads. One is the default: results are then the same on every machine,
    and with networks of this size more threads wait for each other longer than they work. None is torch's own number.
    """

    def __init__(
        self,
        distribution: Distribution,
        reward: NeuralReward,
        demo_visits: Floats,
        optimiser: Optimiser = "adam",
        learning_rate: float | None = None,
        l2: float = 0.0,
        n_threads: int | None = 1,
    ) -> None:
        if not isinstance(reward, NeuralReward):
            raise RewardError(f"neural training needs a NeuralReward; got {type(reward).__name__}.")
        if learning_rate is None:
            learning_rate = 1.0 if optimiser == "lbfgs" else 0.01
        if not (np.isfinite(learning_rate) and learning_rate > 0):
            raise RewardError(f"learning_rate is a positive number; got {learning_rate!r}.")
        if not (np.isfinite(l2) and l2 >= 0):
            raise RewardError(f"l2 is a number, 0 or more; got {l2!r}.")
        self.reward, self.demo_visits, self.l2 = reward, demo_visits, float(l2)
        self.parameters = [p for p in reward.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise RewardError(f"the network of {reward!r} has no parameter that can be trained.")
        self.optimiser = _make_optimiser(optimiser, self.parameters, float(learning_rate))
        self.n_steps, self.n_threads = 0, n_threads
        self._distribution = distribution

    def evaluate(self) -> tuple[float, float]:
        """The loss and the norm of its gradient, which is left in the parameters; one dynamic program."""
        import torch

        self.optimiser.zero_grad(set_to_none=True)
        table = self.reward.table()
        present = self._distribution.with_reward(table)
        loss = present.log_partition() - float(np.sum(self.demo_visits * table))
        self.reward.backward(present.visits() - self.demo_visits)
        with torch.no_grad():
            squares = 0.0
            for parameter in self.parameters:
                if parameter.grad is None:  # a part of the network that this reward does not use
                    continue
                if self.l2:
                    loss += 0.5 * self.l2 * float(parameter.square().sum())
                    parameter.grad.add_(parameter, alpha=self.l2)
                squares += float(parameter.grad.square().sum())
        if not np.isfinite(squares):
            raise RewardError(
                f"the gradient of {self.reward!r} is not finite, although its rewards are: one of its layers has no "
                "derivative there (a root or a logarithm at 0, say)."
            )
        return loss, squares**0.5

    def step(self) -> tuple[float, float]:
        """Evaluate, and move the parameters once; returns the loss and the norm of its gradient before the move.

        When anything goes wrong (the network gives NaN, Ctrl-C), the parameters are as they were before the step.
        """
        found: list[tuple[float, float]] = []

        def closure() -> float:
            found.append(self.evaluate())
            return found[-1][0]

        before = self._copy()
        try:
            with threads(self.n_threads):
                self.optimiser.step(closure)  # type: ignore[arg-type,unused-ignore]
                self.reward.table()  # a step into numbers that are not finite is not taken
        except BaseException as error:
            self._put_back(before)
            if isinstance(error, RewardError):
                raise RewardError(f"step {self.n_steps + 1} of training: {error}") from error
            raise
        self.n_steps += 1
        return found[0]

    def _copy(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.parameters]

    def _put_back(self, values: list[torch.Tensor]) -> None:
        import torch

        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(value)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that training needs to go on as if it had not stopped, as named arrays."""
        arrays = {f"network.{name}": array for name, array in self.reward.state().items()}
        for index, values in self.optimiser.state_dict()["state"].items():
            for name, value in values.items():
                array = _as_plain_array(value)
                if array is None:
                    raise RewardError(f"the state of {type(self.optimiser).__name__} cannot be saved as plain numbers.")
                arrays[f"optimiser.{index}.{name}"] = array
        arrays["n_steps"] = np.array(self.n_steps)
        return arrays

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` gave, in a training made with the same settings."""
        import torch

        self.reward.load_state({k.removeprefix("network."): v for k, v in arrays.items() if k.startswith("network.")})
        inner: dict[int, dict[str, Any]] = {}
        for key, array in arrays.items():
            if key.startswith("optimiser."):
                _, index, name = key.split(".", 2)
                inner.setdefault(int(index), {})[name] = torch.as_tensor(np.array(array))
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": inner})
        self.n_steps = int(arrays["n_steps"])


def fit_neural(
    world: MDP,
    constraint: Constraint | Iterable[Constraint] | None,
    reward: NeuralReward,
    demos: Iterable[Trajectory],
    *,
    discount: float = 1.0,
    sample_weight: ArrayLike | None = None,
    optimiser: Optimiser = "adam",
    learning_rate: float | None = None,
    n_steps: int = 100,
    l2: float = 0.0,
    callback: Callback | None = None,
    seed: int | None = None,
    engine: str = "auto",
    max_nodes: int | None = None,
    n_threads: int | None = 1,
) -> list[Record]:
    """Train the network of `reward` in place on demonstrations, `n_steps` steps of gradient descent.

    `optimiser` is "adam", "sgd", "lbfgs" (several evaluations per step, with a line search), or a function from
    parameters to a torch optimiser; `learning_rate` is 0.01 unless given, and 1 for "lbfgs". `l2` penalises l2/2 times
    the sum of squared parameters. `callback` gets a Record after each step, and ends training by returning True. With a
    `seed`, two runs from the same parameters give the same result (`n_threads`: see `NeuralTraining`). Ctrl-C ends
    training early; the network is then as it was after the last whole step.

    Returns one Record per step: the loss L and the norm of its gradient before the step.
    """
    rule = as_constraint(constraint)
    found = gather(world, rule, demos, sample_weight)
    compiled = distribution(world, rule, reward, discount, engine=engine, seed=seed, max_nodes=max_nodes)
    training = NeuralTraining(
        compiled, reward, found.visits(compiled.discount), optimiser, learning_rate, l2, n_threads
    )
    with seeded(seed), Monitor(callback) as monitor:
        for _ in range(n_steps):
            if monitor.record(*training.step()):
                break
    return monitor.history


def _make_optimiser(
    optimiser: Optimiser, parameters: list[torch.nn.Parameter], learning_rate: float
) -> torch.optim.Optimizer:
    import torch

    if callable(optimiser):
        made = optimiser(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise RewardError(f"optimiser(parameters) must return a torch optimiser; got {type(made).__name__}.")
        return made
    if optimiser == "adam":
        return torch.optim.Adam(parameters, lr=learning_rate)
    if optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate)
    if optimiser == "lbfgs":
        # Gradients are exact, so that it pays to go on until they vanish.
        return torch.optim.LBFGS(
            parameters, lr=learning_rate, tolerance_grad=1e-9, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )
    known = ", ".join(map(repr, OPTIMISERS))
    raise RewardError(f"unknown optimiser {optimiser!r}: choose one of {known}, or a function from parameters to one.")


def _as_plain_array(value: Any) -> NDArray[Any] | None:
    import torch

    if isinstance(value, torch.Tensor):
        return as_array(value)
    return np.array(value) if isinstance(value, int | float) else None
