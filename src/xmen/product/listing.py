"""Listing every valid trajectory of a product, where there are few enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.product.graph import Product
from xmen.worlds.walks import Walks


class _Complete(NamedTuple):
    """Trajectories of one length: their starts (n,), and the world edges they take (n, length)."""

    starts: NDArray[np.int32]
    edges: NDArray[np.int32]


def list_walks(product: Product, most: int) -> Walks | None:
    """All valid trajectories, or None when there are more than `most`; breadth-first, one numpy pass per action."""
    alive = _alive(product)
    nodes = product.starts.astype(np.int64)
    nodes = nodes[alive[0][nodes]]
    starts = product.state[nodes]
    walks = np.zeros((len(nodes), 0), dtype=np.int32)
    done: list[_Complete] = []
    n_done = 0
    for t in range(product.horizon + 1):
        # Every partial path has a completion, so that their number never exceeds that of the whole ones.
        if n_done + len(nodes) > most:
            return None
        ending = product.accepting[nodes] if not product.fixed_length else np.full(len(nodes), t == product.horizon)
        n_done += int(ending.sum())
        done.append(_Complete(starts[ending], walks[ending]))
        if t == product.horizon or not len(nodes):
            break
        begin, end = product.indptr[nodes].astype(np.int64), product.indptr[nodes + 1].astype(np.int64)
        source = np.repeat(np.arange(len(nodes)), end - begin)
        offset = np.arange(len(source)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
        edges = np.repeat(begin, end - begin) + offset
        kept = alive[t + 1][product.target[edges]]
        source, edges = source[kept], edges[kept]
        nodes = product.target[edges].astype(np.int64)
        starts = starts[source]
        walks = np.concatenate([walks[source], product.edge[edges].astype(np.int32)[:, None]], axis=1)
    lengths = np.repeat([found.edges.shape[1] for found in done], [len(found.starts) for found in done])
    return Walks(
        product.world,
        np.concatenate([found.starts for found in done]),
        np.concatenate([found.edges.ravel() for found in done]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _alive(product: Product) -> list[NDArray[np.bool_]]:
    """alive[t][n]: a trajectory that is at node n after t actions can still be completed."""
    if not product.fixed_length:
        return [product.distance <= product.horizon - t for t in range(product.horizon + 1)]
    degrees = (product.indptr[1:] - product.indptr[:-1]).astype(np.int64)
    source = np.repeat(np.arange(product.n_nodes), degrees)
    alive = [product.accepting]
    for _ in range(product.horizon):
        before = np.zeros(product.n_nodes, dtype=np.bool_)
        before[source[alive[0][product.target]]] = True
        alive.insert(0, before)
    return alive
