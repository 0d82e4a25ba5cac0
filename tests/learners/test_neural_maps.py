"""Convolutions over grids: maps and states are the same way up, walls hide what is in them."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from xmen import ConvReward

torch = pytest.importorskip("torch", reason="neural rewards need torch, the extra xmen-irl[neural]")
nn = torch.nn
torch.set_num_threads(1)  # small networks gain nothing from threads, and tests share their cores


def shift(dx: int, dy: int, n_channels: int, n_outputs: int = 1) -> nn.Module:
    """A convolution whose output at (x, y) is channel 0 at (x + dx, y + dy)."""
    layer = nn.Conv2d(n_channels, n_outputs, 3, padding="same", bias=False)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.weight[:, 0, 1 + dy, 1 + dx] = 1.0
    return layer


def test_maps_and_states_are_the_same_way_up() -> None:
    """On an asymmetric grid each cell gets the map's value at the right neighbour, and not at a mirror image of it."""
    grid = xm.GridWorld(5, 3, start=(0, 0), goal=(4, 2), moves=("right", "up", "stay"), horizon=10)
    heights = np.arange(15.0).reshape(1, 3, 5) ** 2  # [y, x], all different
    for dx, dy in [(0, 0), (1, 0), (0, 1), (-1, 1)]:
        table = ConvReward(grid, heights, module=shift(dx, dy, 2)).table()
        for x in range(5):
            for y in range(3):
                inside = 0 <= x + dx < 5 and 0 <= y + dy < 3
                wanted = heights[0, y + dy, x + dx] if inside else 0.0
                state = grid.state((x, y))
                assert list(table[state]) == [wanted if ok else 0.0 for ok in grid.available[state]]


def test_each_move_has_its_own_output_map() -> None:
    grid = xm.GridWorld(4, 2, start=(0, 0), goal=None, moves=("up", "right", "stay"), horizon=3)
    layer = nn.Conv2d(2, 3, 1)
    nn.init.zeros_(layer.weight)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    table = ConvReward(grid, np.zeros((1, 2, 4)), module=layer).table()
    assert np.array_equal(table, np.where(grid.available, [1.0, 2.0, 3.0], 0.0))


def test_walls_hide_what_is_in_them_and_have_no_reward() -> None:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), walls=[(1, 1), (2, 0)], horizon=9)
    maps = np.random.default_rng(0).normal(size=(2, 3, 4))
    other = maps.copy()
    other[:, 1, 1], other[:, 0, 2] = 99.0, -99.0
    reward = ConvReward(grid, maps, seed=0)
    assert np.array_equal(reward.table(), ConvReward(grid, other, seed=0).table())
    assert not reward.table()[~grid.available].any()
    assert reward.table()[grid.available].all()
    seen = reward.inputs[0, -1].cpu().numpy()
    assert {(x, y) for y, x in np.argwhere(seen == 0)} == grid.walls


def test_one_network_serves_grids_of_other_sizes() -> None:
    small, large = (xm.GridWorld(w, h, start=(0, 0), goal=None, horizon=4) for w, h in [(5, 4), (9, 7)])
    maps = np.random.default_rng(0).normal(size=(2, 7, 9))
    reward = ConvReward(small, maps[:, :4, :5], channels=(3,), seed=0)
    wide = reward.on(large, maps)
    assert wide.module is reward.module
    # Away from the edges of both, a cell sees the same neighbourhood and gets the same reward.
    for cell in [(1, 1), (3, 2), (2, 1)]:
        assert wide.table()[large.state(cell)] == pytest.approx(reward.table()[small.state(cell)], abs=1e-6)
