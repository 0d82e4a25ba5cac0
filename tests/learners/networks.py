"""Small networks for tests of neural rewards and of their training, and one small grid with inputs for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import xmen as xm
from learners.tasks import slopes

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


def network(d: int = 4, k: int = 1, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 5), nn.Tanh(), nn.Linear(5, k))


def linear(d: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(d, 1, bias=False).double()


def parameter_slopes(module: nn.Module, loss: Callable[[], float], n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Some random directions in the space of all parameters, and the slopes of the loss along them."""
    at = nn.utils.parameters_to_vector(module.parameters()).detach()
    directions = np.random.default_rng(0).normal(size=(n, len(at))) / np.sqrt(len(at))

    def moved(steps: np.ndarray) -> float:
        by = torch.as_tensor(steps @ directions, dtype=at.dtype, device=at.device)
        nn.utils.vector_to_parameters(at + by, module.parameters())
        return loss()

    found = slopes(moved, np.zeros(len(directions)))
    nn.utils.vector_to_parameters(at, module.parameters())
    return directions, found


def task() -> tuple[xm.GridWorld, xm.Constraint]:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), horizon=9)
    return grid, xm.visit(grid.at((0, 2), (2, 0))) & (xm.longest_repeat() <= 2)


def inputs(world: xm.MDP, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(world.n_states, world.n_actions, d))


def visits(world: xm.MDP, demos: list[xm.Trajectory], discount: float) -> np.ndarray:
    """Mean discounted visits, counted step by step."""
    out = np.zeros((world.n_states, world.n_actions))
    for tau in demos:
        for t, (s, a) in enumerate(zip(tau.states, tau.actions, strict=False)):
            out[s, a] += discount**t / len(demos)
    return out
