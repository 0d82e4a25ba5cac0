"""A fully convolutional reward on the maps of a grid: it sees each cell's neighbourhood, and fits grids of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.errors import RewardError
from xmen.rewards import real_array
from xmen.rewards.neural import NeuralReward
from xmen.rewards.torch_backend import as_floats, require_torch, seeded, torch
from xmen.worlds.grid import GridWorld

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


# ---- The reward


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
