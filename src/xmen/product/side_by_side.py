"""Several products as one: what one pass answers for many tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmen.product.graph import Product, layer_ends
from xmen.worlds.mdp import MDP


class Tasks(Product):
    """Products next to each other, each of which ends where its own task does."""

    @property
    def fixed_length(self) -> bool:
        """Trajectories end at the goals of their tasks, which the world itself does not know."""
        return False


def side_by_side(world: MDP, products: Sequence[Product], edges: Sequence[NDArray[np.int64]]) -> Tasks:
    """Products of one horizon next to each other, over a world that has all their edges; starts stay in their order.

    edges[k] gives the world's edge for each edge of the k-th product's own world. No edge leads from one to another.
    """
    sizes = [product.n_nodes for product in products]
    first = np.cumsum([0, *sizes])
    depth = np.concatenate([product.depth for product in products])
    order = np.argsort(depth, kind="stable")  # nodes of a product are numbered by depth
    number = np.empty(len(order), dtype=np.uint32)
    number[order] = np.arange(len(order), dtype=np.uint32)
    degree = np.concatenate([np.diff(product.indptr.astype(np.int64)) for product in products])
    begin = np.concatenate([[0], np.cumsum(degree)])
    indptr = np.concatenate([[0], np.cumsum(degree[order])])
    moved = np.arange(indptr[-1]) + np.repeat(begin[order] - indptr[:-1], degree[order])
    target = number[np.concatenate([product.target + first[k] for k, product in enumerate(products)])]
    edge = np.concatenate([edges[k][product.edge] for k, product in enumerate(products)])
    starts = np.concatenate([product.starts + first[k] for k, product in enumerate(products)])
    one = products[0]
    return Tasks(
        world=world,
        compiled=one.compiled,
        horizon=one.horizon,
        state=np.concatenate([product.state for product in products])[order],
        depth=depth[order],
        distance=np.concatenate([product.distance for product in products])[order],
        accepting=np.concatenate([product.accepting for product in products])[order],
        indptr=indptr.astype(np.uint32),
        target=target[moved],
        edge=edge[moved].astype(np.uint32),
        starts=number[starts],
        layer_ends=layer_ends(depth[order], one.horizon),
    )
