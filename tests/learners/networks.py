"""Small networks for tests of neural rewards and of their training."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


def network(d: int = 4, k: int = 1, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, 5), nn.Tanh(), nn.Linear(5, k))


def linear(d: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(d, 1, bias=False).double()
