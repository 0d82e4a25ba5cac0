"""All trips of a network with a horizon in one pass: the products of all goals side by side on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xmen.engines.place import place_product
from xmen.product.goal_batches import Reweigh
from xmen.product.graph import Product
from xmen.product.side_by_side import side_by_side
from xmen.rewards import Floats
from xmen.worlds.edge_weights import EdgeWeights
from xmen.worlds.network import Network

if TYPE_CHECKING:
    from torch import device as Device


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
