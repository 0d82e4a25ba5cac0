"""One small grid with its inputs for tests of neural rewards."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


def task() -> tuple[xm.GridWorld, xm.Constraint]:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), horizon=9)
    return grid, xm.visit(grid.at((0, 2), (2, 0))) & (xm.longest_repeat() <= 2)


def network(d: int, k: int = 1, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 5), nn.Tanh(), nn.Linear(5, k)).to(dtype)


def inputs(world: xm.MDP, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(world.n_states, world.n_actions, d))


def visits(world: xm.MDP, demos: list[xm.Trajectory], discount: float) -> np.ndarray:
    """Mean discounted visits, counted step by step."""
    out = np.zeros((world.n_states, world.n_actions))
    for tau in demos:
        for t, (s, a) in enumerate(zip(tau.states, tau.actions, strict=False)):
            out[s, a] += discount**t / len(demos)
    return out
