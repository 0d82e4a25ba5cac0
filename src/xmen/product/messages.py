"""What a dynamic program on the product answers, and what its schedules share.

One backward pass gives beta(n), the total weight of all ways to complete a trajectory from node n; everything else
follows from it: log Z, expected uses of every edge, samples, the mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from xmen.product import sweeps
from xmen.product.graph import Product
from xmen.worlds.walks import EdgeWeights, Floats

# ---- Where one number per product edge is enough, whatever the number of actions before it


def timeless_log_weights(product: Product, weights: EdgeWeights) -> Floats:
    """The log-weight of each product edge as the action after so many as its node has depth."""
    discount = weights.discount ** product.depth.astype(np.float64)
    log_weight: Floats = sweeps.edge_log_weights(
        product.indptr, product.edge, weights.log_dynamics, discount, weights.reward
    )
    return log_weight


def walk_timeless(
    product: Product, conditional: Floats, start_probability: Floats, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """n independent trajectories, as `Messages.walk` gives them, from the probability of each edge given its node."""
    starts = draw_starts(product, start_probability, n, rng)
    node, ones = starts.copy(), np.ones(product.n_nodes)
    steps: list[NDArray[np.uint32]] = []
    while True:
        taken = sweeps.choose_edges(product.indptr, product.target, conditional, ones, rng.random(n), node)
        if np.all(taken == NO_EDGE):
            return starts, as_columns(steps, n)
        steps.append(taken)


# ---- What a dynamic program on the product answers, and what its schedules share


NO_EDGE = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Flow:
    """Expected numbers of uses of each world edge, plain and discounted, and where trajectories start."""

    counts: Floats  # (E,)
    discounted: Floats  # (E,)
    starts: Floats  # probability of each of the product's start nodes
    entropy: Any  # of the trajectory, summed over its choices; only if it was asked for


class Messages(Protocol):
    """The questions that a dynamic program answers, in whatever order it visits the nodes."""

    @property
    def log_partition(self) -> float:
        """log Z."""

    def flow(self, with_entropy: bool = False) -> Flow:
        """Expected uses of every world edge; the entropy costs a logarithm per edge and action."""

    def log_completions(self, t: int, nodes: NDArray[np.uint32]) -> Floats:
        """log beta_t(n), the log-weight of all ways to complete a trajectory that is at n after t actions."""

    def walk(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """n independent trajectories: their start nodes, and the product edges they take (n, longest)."""


def start_law(product: Product, weights: EdgeWeights, log_completions: Floats) -> tuple[Any, Floats]:
    """log Z and the probability of each start node, given the log-weight of all completions from it.

    Jointly, a start with many completions becomes more likely. Given the start it does not: P(start) is d0, and
    log Z is the d0-mean of the log Z(s_0). Columns of completions are each a law of their own.
    """
    if log_completions.ndim == 2:
        laws = [start_law(product, weights, column) for column in log_completions.T]
        return np.array([log_partition for log_partition, _ in laws]), np.stack([starts for _, starts in laws], axis=1)
    log_start = weights.log_start[product.state[product.starts]]
    if weights.given_start:
        starts: Floats = np.exp(log_start)
        return float(starts @ log_completions), starts
    values = log_start + log_completions
    log_partition = log_sum(values)
    return log_partition, np.exp(values - log_partition)


def entropy_of(probabilities: Floats) -> Any:
    """-sum p log p, of each column."""
    logs = np.log(np.where(probabilities > 0, probabilities, 1.0))
    return -(probabilities * logs).sum(axis=0)


def log_sum(values: Floats) -> float:
    largest = values.max(initial=-np.inf)
    return float(largest if largest == -np.inf else largest + np.log(np.sum(np.exp(values - largest))))


def draw_starts(product: Product, probability: Floats, n: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    cumulative = np.cumsum(probability)
    place = np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    chosen: NDArray[np.uint32] = product.starts[np.minimum(place, len(cumulative) - 1)]
    return chosen


def as_columns(steps: list[NDArray[np.uint32]], n: int) -> NDArray[np.uint32]:
    return np.stack(steps, axis=1) if steps else np.empty((n, 0), dtype=np.uint32)
