"""All trips of a network with a horizon in one pass: the products of all goals side by side on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xmen.engines.settings import place_product
from xmen.product.graph import Product, layer_ends
from xmen.product.many_goals import Reweigh
from xmen.rewards import Floats
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network
from xmen.worlds.walks import EdgeWeights

if TYPE_CHECKING:
    from torch import device as Device


# ---- Several products as one: what one pass answers for many tasks


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


# ---- All trips of a network with a horizon in one pass: the products of all goals side by side on a device


class TripsOnDevice:
    """Pairs of a start and a goal, given the product of each goal."""

    def __init__(
        self,
        network: Network,
        products: dict[int, Product],
        start: NDArray[np.int64],
        goal: NDArray[np.int64],
        device: Device,
    ) -> None:
        edges = [np.flatnonzero(network.source != its) for its in products]
        whole = side_by_side(network.any_task, list(products.values()), edges)
        self._network, self._place = network, place_product(whole, device, "float64")
        of = np.repeat(list(products), [len(product.starts) for product in products.values()])
        keys = of * network.n_states + whole.state[whole.starts]
        order = np.argsort(keys)
        self._pair = order[np.searchsorted(keys, goal * network.n_states + start, sorter=order)]  # its start node

    def value(
        self, reward: Floats, discount: float, weight: Floats, with_visits: bool, reweigh: Reweigh | None
    ) -> tuple[Floats, Floats]:
        """log Z of every pair (P,), and the expected uses of the network's edges (E,), summed with the weights."""
        network, starts = self._network, self._place.product.starts
        law = EdgeWeights(np.log(network.probability), reward, np.zeros(network.n_states), discount, given_start=True)
        run = self._place.run(law, self._place.weights([law]))
        log_z = run.log_completions(0, starts)[self._pair, 0]
        if not with_visits:
            return log_z, np.zeros(len(reward))
        shares = np.zeros(len(starts))
        shares[self._pair] = weight if reweigh is None else reweigh(np.arange(len(weight)), log_z)
        _, discounted, _ = run.uses(starts=shares[:, None])
        visits: Floats = discounted[:, 0].cpu().numpy()
        return log_z, visits
