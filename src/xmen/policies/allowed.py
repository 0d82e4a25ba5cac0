"""Which choices a promise leaves open, and the game in which only those are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from xmen.policies.behaviour import Behaviour
from xmen.policies.game import Game, counts, game_of
from xmen.policies.operations import Bools
from xmen.product.graph import layer_ends


def ever_allowed(behaviour: Behaviour) -> Bools:
    """Which choices may be made at some time, shape (n_choices,)."""
    game, ever = behaviour.game, np.zeros(behaviour.game.n_choices, dtype=np.bool_)
    times = range(1) if behaviour.timeless else range(game.horizon - 1, -1, -1)
    for t in times:
        n = game.product.n_nodes if behaviour.timeless else int(game.product.layer_ends[t])
        allowed = behaviour.allowed(t, 0, n)
        ever[: len(allowed)] |= allowed
    return ever


def restricted(game: Game, kept: Bools) -> Game:
    """The game with these choices alone, and with the nodes that are reached through them."""
    product = game.product
    kept_edges = np.repeat(kept, counts(game.first_edge))
    source = np.repeat(np.arange(product.n_nodes), counts(product.indptr))[kept_edges]
    target, edge = product.target[kept_edges], product.edge[kept_edges]
    indptr = np.searchsorted(source, np.arange(product.n_nodes + 1))
    reached = _reached(indptr, target, product.starts)
    number = np.cumsum(reached) - 1
    inside = reached[source]
    depth = product.depth[reached]
    smaller = replace(
        product,
        state=product.state[reached],
        depth=depth,
        distance=product.distance[reached],
        accepting=product.accepting[reached],
        indptr=np.concatenate([[0], np.cumsum(np.diff(indptr)[reached])]).astype(np.uint32),
        target=number[target[inside]].astype(np.uint32),
        edge=edge[inside],
        starts=number[product.starts].astype(np.uint32),
        layer_ends=layer_ends(depth, product.horizon),
    )
    return game_of(smaller, game.device)


def _reached(indptr: NDArray[np.int64], target: NDArray[np.uint32], starts: NDArray[np.uint32]) -> Bools:
    """The nodes that can be reached from the starts, one numpy pass per step."""
    reached = np.zeros(len(indptr) - 1, dtype=np.bool_)
    front = starts.astype(np.int64)
    reached[front] = True
    while len(front):
        begin, n_edges = indptr[front], indptr[front + 1] - indptr[front]
        offset = np.arange(n_edges.sum()) - np.repeat(np.cumsum(n_edges) - n_edges, n_edges)
        after = np.unique(target[np.repeat(begin, n_edges) + offset]).astype(np.int64)
        front = after[~reached[after]]
        reached[front] = True
    return reached
