"""The best completion of every node of a product where time plays no role, by relaxing edges until nothing improves.

A cycle whose weights multiply to more than 1 would improve for ever: then nothing has a best completion, and the
weights of ever longer trajectories do not add up either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import DivergenceError
from xmen.product.graph import Product
from xmen.worlds.edge_weights import Floats

SHOWN = 8  # states of a cycle in a message
POWERS = 200  # steps of power iteration behind a message


def best_completions(product: Product, log_weight: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The largest log-weight of a completion of each node, and the product edge that it takes first (-1: it stops).

    log_weight is per product edge; DivergenceError where a cycle has a positive one.
    """
    value = np.where(product.stops, 0.0, -np.inf)
    choice = np.full(product.n_nodes, -1, dtype=np.int64)
    if product.topological is not None:  # each node after all that follow it: once is enough, and exact
        order, least = product.topological[0][::-1].copy(), 0.0
    else:
        order, least = product.outwards, 1e-12 * (1.0 + float(np.abs(log_weight).max(initial=0.0)))
    node = _relax(order, product.indptr, product.target, log_weight, value, choice, least)
    if node >= 0:
        raise DivergenceError(_message(product, _follow(product, choice, int(node))))
    return value, choice


@compiled
def _relax(order: Any, indptr: Any, target: Any, log_weight: Any, value: Any, choice: Any, least: float) -> Any:
    """Sweeps in this order until no value rises by more than `least`; a node on or before a rising cycle, or -1."""
    for _ in range(len(order) + 1):
        risen = -1
        for i in range(len(order)):
            node = order[i]
            for e in range(indptr[node], indptr[node + 1]):
                x = log_weight[e] + value[target[e]]
                if x > value[node] + least or (value[node] == -np.inf and x > -np.inf):
                    value[node] = x
                    choice[node] = e
                    risen = node
        if risen < 0:
            return -1
    return risen


def _follow(product: Product, choice: NDArray[np.int64], node: int) -> list[int]:
    """The cycle that choices lead into from a node."""
    seen: dict[int, int] = {}
    passed: list[int] = []
    while node not in seen and choice[node] >= 0:
        seen[node] = len(passed)
        passed.append(node)
        node = int(product.target[choice[node]])
    return passed[seen.get(node, 0) :]


def divergence_message(product: Product, source: NDArray[np.int64], relative: Floats) -> str:
    """Names a cycle of heavy weights: where power iteration puts its weight, and the heaviest edge from there on."""
    weight: Floats = np.ones(product.n_nodes)
    for _ in range(POWERS):
        moved = np.bincount(source, relative * weight[product.target], minlength=product.n_nodes).astype(np.float64)
        weight = moved / max(float(moved.max(initial=0.0)), 1e-300)
    value = relative * weight[product.target]
    order = np.lexsort((value, source))
    choice = np.full(product.n_nodes, -1, dtype=np.int64)
    choice[source[order]] = order  # the last one wins: the heaviest edge of each node
    return _message(product, _follow(product, choice, int(np.argmax(weight))))


def _message(product: Product, cycle: list[int]) -> str:
    world = product.world
    states = [world.describe_state(int(state)) for state in product.state[cycle]]
    shown = " -> ".join([*states, states[0]] if len(states) <= SHOWN else [*states[:SHOWN], "..."])
    return (
        "under this reward the weights of ever longer trajectories do not add up to a finite number, or so slowly that "
        f"rounding decides to which: going round {shown} costs too little. "
        "Lower the rewards on it, give a horizon, or forbid repetition by a rule."
    )
