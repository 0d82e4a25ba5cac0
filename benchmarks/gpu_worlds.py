"""The worlds of `gpu.py`: networks of streets, and products of up to 10^9 edges, written down and not searched for."""

from __future__ import annotations

import numpy as np
import torch

import xmen as xm
from xmen.product.graph import Product

EIGHT_MOVES = ("up", "right", "down", "left", "up-right", "up-left", "down-right", "down-left")


def streets(side: int, horizon: int | None) -> xm.Network:
    """A network of side x side crossings, each with a street to its neighbours."""
    rows = []
    for x in range(side):
        for y in range(side):
            for action, (dx, dy) in enumerate(((0, 1), (1, 0), (0, -1), (-1, 0))):
                if 0 <= x + dx < side and 0 <= y + dy < side:
                    rows.append((y * side + x, action, (y + dy) * side + x + dx, 1.0))
    return xm.Network(side * side, 4, rows, horizon=horizon)


def generated(side: int, n_cells: int, horizon: int, device: str) -> Product:
    """The product of an open grid with must-visit cells, written down instead of searched for: (set, state) nodes.

    The cells lie near the start, so that a round through them and to the goal is not long.
    """
    grid = xm.GridWorld(side, side, (0, 0), (side - 1, side - 1), moves=EIGHT_MOVES, horizon=horizon)
    n_states, goal = grid.n_states, grid.n_states - 1
    near = [grid.state((x, y)) for x in range(12) for y in range(12) if (x, y) != (0, 0)]
    cells = np.random.default_rng(0).choice(near, n_cells, replace=False)
    bit = np.zeros(n_states, dtype=np.uint32)
    bit[cells] = 1 << np.arange(n_cells, dtype=np.uint32)
    n_sets, full = 1 << n_cells, (1 << n_cells) - 1
    open_edges = np.flatnonzero((grid.source != goal) & (grid.target != goal)).astype(np.uint32)
    last_edges = np.flatnonzero(grid.source != goal).astype(np.uint32)  # with all cells seen, the goal may be entered
    n_open = len(open_edges)
    n_edges = n_open * full + len(last_edges)
    target, edge = np.empty(n_edges, dtype=np.uint32), np.empty(n_edges, dtype=np.uint32)
    to, new = grid.target[open_edges].astype(np.uint32), bit[grid.target[open_edges]]
    for seen in range(full):
        target[seen * n_open : (seen + 1) * n_open] = (np.uint32(seen) | new) * np.uint32(n_states) + to
        edge[seen * n_open : (seen + 1) * n_open] = open_edges
    target[full * n_open :] = full * n_states + grid.target[last_edges]
    edge[full * n_open :] = last_edges
    degrees = np.tile(np.bincount(grid.source[open_edges], minlength=n_states), n_sets)
    degrees[full * n_states :] = np.bincount(grid.source[last_edges], minlength=n_states)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.uint32)
    n_nodes = n_sets * n_states
    accepting = np.zeros(n_nodes, dtype=np.bool_)
    accepting[full * n_states + goal] = True
    return Product(
        world=grid,
        compiled=None,  # type: ignore[arg-type]
        horizon=horizon,
        state=np.tile(np.arange(n_states, dtype=np.int32), n_sets),
        depth=np.zeros(n_nodes, dtype=np.int32),
        distance=distances(grid, bit, n_sets, device),
        accepting=accepting,
        indptr=indptr,
        target=target,
        edge=edge,
        starts=np.zeros(1, dtype=np.uint32),
        layer_ends=np.full(horizon + 1, n_nodes),
    )


def distances(grid: xm.GridWorld, bit: np.ndarray, n_sets: int, device: str) -> np.ndarray:
    """The least number of actions from each node to acceptance; 0 where there is no way, which leaves it alone."""
    n_states, far = grid.n_states, 30_000
    neighbour = np.full((n_states, 8), -1, dtype=np.int64)
    neighbour[grid.source, grid.action] = grid.target
    there = torch.as_tensor(np.where(neighbour < 0, np.arange(n_states)[:, None], neighbour), device=device)
    bits = torch.as_tensor(np.where(neighbour < 0, 0, bit[neighbour]).astype(np.int64), device=device)
    distance = torch.full((n_sets, n_states), far, dtype=torch.int16, device=device)
    distance[-1, -1] = 0
    sets = torch.arange(n_sets, device=device)
    flat, chunk = distance.view(-1), max(1, 2**25 // (8 * n_states))
    moved = True
    while moved:
        moved = False
        for begin in range(0, n_sets, chunk):
            some = sets[begin : begin + chunk, None, None]
            onward = flat[(some | bits) * n_states + there].amin(2) + 1
            onward[:, -1] = distance[begin : begin + chunk, -1]  # the goal ends every trajectory
            closer = torch.minimum(distance[begin : begin + chunk], onward)
            moved |= bool((closer != distance[begin : begin + chunk]).any())
            distance[begin : begin + chunk] = closer
    found = distance.view(-1).int()
    return torch.where(found < far, found, torch.zeros_like(found)).cpu().numpy()
