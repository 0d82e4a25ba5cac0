"""Listing every valid trajectory of a product, where there are few enough."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.machines.walks import Walks
from xmen.product.graph import Product


def list_walks(product: Product, most: int) -> Walks | None:
    """All valid trajectories, or None when there are more than `most`; breadth-first, one numpy pass per action."""
    alive = _alive(product)
    nodes = product.starts.astype(np.int64)
    nodes = nodes[alive[0][nodes]]
    starts = product.state[nodes]
    paths = np.zeros((len(nodes), 0), dtype=np.int32)
    done: list[Walks] = []
    n_done = 0
    for t in range(product.horizon + 1):
        # Every partial path has a completion, so that their number never exceeds that of the whole ones.
        if n_done + len(nodes) > most:
            return None
        ending = product.accepting[nodes] if not product.fixed_length else np.full(len(nodes), t == product.horizon)
        n_done += int(ending.sum())
        done.append(Walks(starts[ending], paths[ending], np.full(int(ending.sum()), t, dtype=np.int32)))
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
        paths = np.concatenate([paths[source], product.edge[edges].astype(np.int32)[:, None]], axis=1)
    longest = max((w.edges.shape[1] for w in done if len(w)), default=0)
    padded = [np.pad(w.edges, ((0, 0), (0, longest - w.edges.shape[1]))) for w in done if w.edges.shape[1] <= longest]
    return Walks(
        np.concatenate([w.starts for w in done]),
        np.concatenate(padded) if padded else np.zeros((0, longest), dtype=np.int32),
        np.concatenate([w.lengths for w in done]),
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
