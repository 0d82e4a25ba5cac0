"""Neural rewards r(s, a), given by a torch module.

d log Z / d r(s, a) is the expected discounted visits of (s, a), whatever the reward is made of. So a gradient is one
backward pass of the network, fed with visits; the dynamic program is never differentiated.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import RewardError
from xmen.rewards import Floats, LinearReward, real_array
from xmen.rewards.torch_backend import as_array, as_floats, choose_device, repeatable, require_torch, seeded, torch
from xmen.worlds.grid import GridWorld


class NeuralReward:
    """A reward given by a torch module: r(s, a) = module(inputs)[s, a].

    The module always runs in evaluation mode: dropout is off, so that a reward is one number.

    Parameters
    ----------
    module
        Any torch module. From inputs (n_states, n_actions, d) it gives (n_states, n_actions), with or without a
        trailing 1. From inputs (n_states, d) it gives one number per state, which all actions share, or one per action.
    inputs
        What the module reads, an array or a tensor. Arrays are given in the type of the module's parameters; a tensor
        of whole numbers stays one, for embeddings.
    n_actions
        The number of actions; needed when the inputs are one row per state.
    device
        Where the module moves; None is the GPU if there is one.

    Raises
    ------
    MissingExtraError
        When torch is not installed.
    RewardError
        When shapes do not fit, with both of them, or a number is not finite.

    Examples
    --------
        network = torch.nn.Sequential(torch.nn.Linear(d, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
        reward = NeuralReward(network, inputs)
        model = xm.XMEN(world, constraint, reward=reward).fit(demos)
    """

    module: torch.nn.Module
    inputs: torch.Tensor
    n_states: int
    n_actions: int
    _available: torch.Tensor | None = None  # a bool for every state and action; the rewards of others are 0
    _shared: tuple[str, ...] = ("inputs",)  # what never changes, and is not copied

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: ArrayLike | torch.Tensor,
        n_actions: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self._hold(module, inputs, device)
        shape = tuple(self.inputs.shape)
        if len(shape) not in (2, 3):
            needed = "inputs of shape (n_states, n_actions, d), or (n_states, d) for a reward of the state alone"
            raise RewardError(f"NeuralReward needs {needed}; got shape {shape}.")
        if len(shape) == 3 and n_actions is not None and n_actions != shape[1]:
            raise RewardError(f"n_actions = {n_actions}, but the inputs of shape {shape} are for {shape[1]} actions.")
        if len(shape) == 2 and n_actions is None:
            advice = "give n_actions=, or inputs of shape (n_states, n_actions, d)"
            raise RewardError(f"inputs of shape {shape} do not say how many actions there are: {advice}.")
        self.n_states = shape[0]
        self.n_actions = shape[1] if n_actions is None else int(n_actions)
        self.table()  # what does not fit is said here, where it was chosen

    def _hold(
        self, module: torch.nn.Module, inputs: ArrayLike | torch.Tensor, device: str | torch.device | None
    ) -> None:
        require_torch(type(self).__name__)
        if not isinstance(module, torch.nn.Module):
            raise RewardError(f"{type(self).__name__} needs a torch.nn.Module; got {type(module).__name__}.")
        self.device = choose_device(device)
        self.module = module.to(self.device)
        dtypes = [p.dtype for p in module.parameters() if p.is_floating_point()]
        dtype = dtypes[0] if dtypes else torch.get_default_dtype()
        given = real_array(as_floats(inputs) if isinstance(inputs, torch.Tensor) else inputs, "inputs")
        if isinstance(inputs, torch.Tensor) and not inputs.is_floating_point():
            dtype = inputs.dtype  # whole numbers stay whole, for embeddings
        held = inputs.detach() if isinstance(inputs, torch.Tensor) else given  # one that fits is shared, not copied
        self.inputs = torch.as_tensor(held, dtype=dtype, device=self.device)

    def table(self) -> Floats:
        """The reward of every state and action, shape (n_states, n_actions)."""
        with torch.no_grad():
            return as_floats(self.forward())

    def forward(self) -> torch.Tensor:
        """The table as a tensor (n_states, n_actions) that remembers how it was made, for torch to differentiate."""
        with repeatable(self.device):
            table = self._arrange(self._read(self.module))
        wrong = ~torch.isfinite(table.detach())
        if wrong.any():
            state, action = (int(i) for i in torch.nonzero(wrong)[0])
            found = f"{float(table[state, action])} for state {state} and action {action}"
            many = f"{int(wrong.sum())} of {table.numel()} rewards are not finite"
            why = "Its parameters have grown too large or its layers cannot take these inputs"
            advice = "lower the learning rate, or scale the inputs"
            raise RewardError(f"the network {self._name} gives {found} ({many}). {why}: {advice}.")
        # Only now: a network that has gone wrong says so even where nobody can act.
        return table if self._available is None else torch.where(self._available, table, torch.zeros_like(table))

    def _read(self, module: torch.nn.Module) -> Any:
        """The output of the module, or of a part of it, for the inputs."""
        try:
            return module.eval()(self.inputs)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            what = f"inputs of shape {tuple(self.inputs.shape)}"
            raise RewardError(f"the network {type(module).__name__} cannot read {what}: {error}") from error

    def backward(self, difference: ArrayLike) -> None:
        """Add dL/dw to the gradient of every parameter w, given dL/dr = model's visits - demonstrations' visits.

        Costs one forward and one backward pass of the network. As everywhere in torch, gradients add up until they are
        set to zero.

        Parameters
        ----------
        difference
            dL/dr, shape (n_states, n_actions).

        Raises
        ------
        RewardError
            When the shape does not fit or a number is not finite.
        """
        given = real_array(difference, "visits_model - visits_demo")
        if given.shape != (self.n_states, self.n_actions):
            wanted = f"shape {(self.n_states, self.n_actions)} (n_states, n_actions)"
            raise RewardError(f"backward takes visits_model - visits_demo of {wanted}; got shape {given.shape}.")
        with torch.enable_grad():
            table = self.forward()
        self.differentiate(table, torch.as_tensor(given))

    def differentiate(self, table: torch.Tensor, difference: torch.Tensor) -> None:
        """Gradients of the parameters, from dL/dr for a table that `forward` gave; both may be on any device."""
        if not table.requires_grad:
            raise RewardError(f"the network {self._name} has no parameter that can be trained.")
        with repeatable(self.device):
            table.backward(difference.to(device=table.device, dtype=table.dtype))  # type: ignore[no-untyped-call,unused-ignore]

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of the network's parameters and buffers by name: what to save."""
        return {name: as_array(tensor) for name, tensor in self.module.state_dict().items()}

    def load_state(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Put back what `state` gave."""
        tensors = {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}
        try:
            self.module.load_state_dict(tensors)
        except RuntimeError as error:
            raise RewardError(f"these numbers belong to another network than {self._name}: {error}") from None

    def copy(self) -> Self:
        """This reward with a module of its own; the inputs, which never change, are shared."""
        try:
            return copy.deepcopy(self, {id(part): part for part in (getattr(self, name) for name in self._shared)})
        except (RuntimeError, TypeError) as error:
            why = "Copying keeps yours as it is; fit_neural trains it in place"
            raise RewardError(f"the network {self._name} cannot be copied: {error}. {why}.") from error

    def structure(self) -> dict[str, Any]:
        """What the reward is made of, without the numbers in its network: equal for rewards that can trade these."""
        parameters = [(key, list(p.shape), str(p.dtype), p.requires_grad) for key, p in self.module.named_parameters()]
        sizes = {"n_states": self.n_states, "n_actions": self.n_actions, "inputs": as_array(self.inputs)}
        return {"kind": type(self).__name__, "network": repr(self.module), "parameters": parameters, **sizes}

    @property
    def _name(self) -> str:
        return type(self.module).__name__

    def _arrange(self, output: Any) -> torch.Tensor:
        """The network's output as (n_states, n_actions)."""
        whole, column = (self.n_states, self.n_actions), (self.n_states, 1)
        of_pairs: list[tuple[int, ...]] = [whole, (*whole, 1)]
        of_states = [column, (self.n_states,)] if self.inputs.ndim == 2 else []
        if not isinstance(output, torch.Tensor) or tuple(output.shape) not in of_pairs + of_states:
            raise self._misfit(output, *of_pairs, *of_states)
        return output.reshape(whole if tuple(output.shape) in of_pairs else column).expand(whole)

    def _misfit(self, output: Any, *wanted: object) -> RewardError:
        got = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"
        turns = f"turns inputs of shape {tuple(self.inputs.shape)} into {got}"
        return RewardError(f"the network {self._name} {turns}; wanted {' or '.join(map(str, wanted))}.")

    def __repr__(self) -> str:
        network = f"{self._name} with {sum(p.numel() for p in self.module.parameters()):,} parameters"
        return f"{type(self).__name__}({network}, {self.n_states} states, {self.n_actions} actions, {self.device})"


class FeatureReward(NeuralReward):
    """A reward that is linear in features which a network learns: r(s, a) = weights . f(s, a).

    Parameters
    ----------
    body
        A torch module that turns the inputs into features (..., k).
    inputs
        Shape (n_states, n_actions, d), or (n_states, d).
    n_actions
        The number of actions; needed when the inputs are one row per state.
    seed
        Draws the first weights.
    device
        Where the network moves; None is the GPU if there is one.
    """

    def __init__(
        self,
        body: torch.nn.Module,
        inputs: ArrayLike | torch.Tensor,
        n_actions: int | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self._hold(body, inputs, device)
        with torch.no_grad():
            features = self._read(body)
        if not isinstance(features, torch.Tensor) or features.shape[:-1] != self.inputs.shape[:-1]:
            raise self._misfit(features, f"({', '.join(map(str, self.inputs.shape[:-1]))}, k)")
        with seeded(seed):
            head = torch.nn.Linear(features.shape[-1], 1, bias=False, dtype=features.dtype)
        self.body, self.head = body, head
        super().__init__(torch.nn.Sequential(body, head), self.inputs, n_actions, self.device)

    @property
    def weights(self) -> Floats:
        """theta, shape (k,)."""
        return as_floats(self.head.weight[0])

    def features(self) -> Floats:
        """The learned features f(s, a), shape (n_states, n_actions, k)."""
        with torch.no_grad():
            features = as_floats(self._read(self.body))
        return features if features.ndim == 3 else np.repeat(features[:, None], self.n_actions, axis=1)

    def linear(self) -> LinearReward:
        """A LinearReward over the learned features: this reward without its network."""
        return LinearReward(self.features(), self.weights)


# ---- Modules made of torch's own layers, as plain settings and back: these can be saved without their code

LAYERS = {
    "Linear": "in_features out_features bias",
    "Conv2d": "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode",
    "Embedding": "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse",
    "LayerNorm": "normalized_shape eps elementwise_affine",
    "Dropout": "p",
    "Flatten": "start_dim end_dim",
    "ELU": "alpha",
    "GELU": "approximate",
    "LeakyReLU": "negative_slope",
    "Softplus": "beta threshold",
    **dict.fromkeys(["Identity", "ReLU", "SELU", "SiLU", "Mish", "Sigmoid", "Tanh", "Softsign", "LogSigmoid"], ""),
}
"""The arguments of each layer that can be described: nothing else is ever made from a file."""


def describe(module: torch.nn.Module) -> dict[str, Any] | None:
    """The settings that `build` makes the same layers from; None when one of them is not torch's own."""
    name = type(module).__name__
    if type(module) is torch.nn.Sequential:
        parts = [(key, describe(part)) for key, part in module.named_children()]
        whole = all(part is not None for _, part in parts) and len(parts) == len(module)
        return {"layer": "Sequential", "parts": parts} if whole else None
    if name not in LAYERS or type(module) is not getattr(torch.nn, name, None):
        return None
    settings = {key: getattr(module, key) for key in LAYERS[name].split()}
    if "bias" in settings:
        settings["bias"] = module.bias is not None
    return {"layer": name, **{k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}}


def build(description: dict[str, Any]) -> torch.nn.Module:
    """Layers with fresh parameters. ValueError, KeyError or TypeError for what is no description."""
    name = description["layer"]
    if name == "Sequential":
        whole = torch.nn.Sequential()
        for key, part in description["parts"]:
            whole.add_module(key, build(part))
        return whole
    if name not in LAYERS:
        raise ValueError(f"unknown layer {name!r}")
    given = {key: description[key] for key in LAYERS[name].split()}
    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    try:
        layer: torch.nn.Module = getattr(torch.nn, name)(**settings)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"no layer {name} with {settings}: {error}") from None
    return layer


# ---- A convolutional reward on the maps of a grid: it sees the neighbourhood of cells, and fits grids of any size


class ConvReward(NeuralReward):
    """A reward from convolutions over maps of a grid: r(cell, move).

    The network has one layer with windows of `kernel_size` x `kernel_size` cells per entry of `channels`, and a last
    one that looks at single cells. It reads the maps, which count as 0 in walls, and one more that is 1 in open cells:
    a wall looks like the world beyond the edge. The reward of a move that is not available is 0.

    Parameters
    ----------
    grid
        The GridWorld. `on` takes the learned network to another one, of any size.
    maps
        Shape (C, height, width). maps[c, y, x] belongs to the cell (x, y): row 0 is the bottom row, as y points up. An
        image whose first row is the top one is maps[:, ::-1].
    channels
        The number of channels of each layer.
    kernel_size
        An odd number of cells.
    per_action
        One reward per move; False: one for all moves of a cell.
    module
        A network of your own instead. It takes (1, C + 1, height, width) and returns (1, n_moves, height, width) or (1,
        1, height, width).
    seed
        Draws the first parameters.
    device
        Where the network moves; None is the GPU if there is one.

    Raises
    ------
    MissingExtraError
        When torch is not installed.
    RewardError
        When the world is not a grid or shapes do not fit.
    """

    _shared = ("inputs", "grid", "_available")

    def __init__(
        self,
        grid: GridWorld,
        maps: ArrayLike | torch.Tensor,
        channels: Sequence[int] = (16, 16),
        kernel_size: int = 3,
        per_action: bool = True,
        module: torch.nn.Module | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        require_torch("ConvReward")
        if not isinstance(grid, GridWorld):
            raise RewardError(f"ConvReward needs a GridWorld; got {type(grid).__name__}. NeuralReward takes any world.")
        given = real_array(as_floats(maps) if isinstance(maps, torch.Tensor) else maps, "maps")
        if given.ndim != 3 or given.shape[1:] != (grid.height, grid.width):
            wanted = f"of width {grid.width} and height {grid.height} have shape (C, {grid.height}, {grid.width})"
            raise RewardError(f"maps of a grid {wanted}; got shape {given.shape}.")
        self.grid, self.n_states, self.n_actions = grid, grid.n_states, grid.n_actions
        is_open = np.ones((1, grid.height, grid.width))
        for x, y in grid.walls:
            is_open[0, y, x] = 0.0
        seen = np.concatenate([given * is_open, is_open])
        if module is None:
            with seeded(seed):
                module = _convolutions(len(seen), channels, kernel_size, grid.n_actions if per_action else 1)
        self._hold(module, seen[None], device)
        self._available = torch.as_tensor(np.array(grid.available), device=self.device)
        self.table()

    def on(self, grid: GridWorld, maps: ArrayLike | torch.Tensor) -> ConvReward:
        """The reward of the network, shared and not copied, on a grid of any size, with as many maps of that size."""
        return ConvReward(grid, maps, module=self.module, device=self.device)

    def _arrange(self, output: Any) -> torch.Tensor:
        height, width = self.grid.height, self.grid.width
        wanted: list[tuple[int, ...]] = [(1, self.n_actions, height, width), (1, 1, height, width)]
        if not isinstance(output, torch.Tensor) or tuple(output.shape) not in wanted:
            raise self._misfit(output, *wanted)
        # State y * width + x is the cell (x, y), so that a map [y, x] read row by row is in the order of states.
        return output[0].permute(1, 2, 0).reshape(self.n_states, -1).expand(self.n_states, self.n_actions)


def _convolutions(n_maps: int, channels: Sequence[int], kernel_size: int, n_outputs: int) -> torch.nn.Module:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise RewardError(f"kernel_size must be odd, so that a window has a middle cell; got {kernel_size}.")
    if any(width < 1 for width in channels):
        raise RewardError(f"channels are numbers of maps, 1 or more; got {tuple(channels)}.")
    layers: list[torch.nn.Module] = []
    for before, after in zip([n_maps, *channels], channels, strict=False):
        layers += [torch.nn.Conv2d(before, after, kernel_size, padding="same"), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Conv2d(channels[-1] if channels else n_maps, n_outputs, 1))
