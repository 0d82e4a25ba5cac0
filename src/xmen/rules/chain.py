"""The model under the rules so far as a Markov chain, shared by all candidates.

One backward pass over the product of world and rules gives beta_t(n), the weight of all ways to complete a trajectory
that is at node n after t actions, and with it the probability of every edge as action t:

    p_t(e) = exp(w_t(e)) beta_{t+1}(n') / beta_t(n).

A candidate c then costs one forward pass that carries probability through pairs of a node and a row of its machine,
and P(c) = Z_c / Z is what arrives at acceptance. No product is built, and nothing can underflow that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.engines.exact import ExactDistribution
from xmen.product.graph import Product
from xmen.rewards import Floats
from xmen.rules import kernels
from xmen.rules.machine import HOLDS, Machine

MOST_PROBABILITIES = 40_000_000  # edges times actions whose probabilities are kept: 320 MB
MOST_PAIRS = 30_000_000  # nodes times rows through which probability is carried: 240 MB


class Mass(NamedTuple):
    """The probability of trajectories that keep a constraint, and of those that break it; exact zeros are certain."""

    kept: float
    broken: float


@dataclass(frozen=True)
class Chain:
    """Edge probabilities of a distribution: (T, edges), or (edges,) where time plays no role."""

    product: Product
    probability: Floats
    start_probability: Floats
    timeless: bool

    def mass(self, machine: Machine) -> Mass | None:
        """How probability divides under the machine; None where there is no room for it."""
        product, world = self.product, self.product.world
        if machine.start < 0:
            return Mass(1.0, 0.0) if machine.start == HOLDS else Mass(0.0, 1.0)
        if product.n_nodes * machine.n_rows > MOST_PAIRS:
            return None
        edge_letter = machine.letters[world.source, world.action]
        end_letter = np.ascontiguousarray(machine.letters[:, -1])
        graph = product.indptr, product.target, product.edge, self.probability
        starts = product.state, product.starts, self.start_probability
        machine_parts = edge_letter, end_letter, machine.step, machine.accepts
        if self.timeless:
            assert product.topological is not None
            order = product.topological[0], product.stops
            return Mass(*kernels.carry_in_order(*order, *graph, *starts, *machine_parts))
        layers = product.layer_ends, machine.first, machine.last
        return Mass(*kernels.carry_through_time(*layers, *graph, *starts, *machine_parts))


def chain_of(d: ExactDistribution, reward: Floats) -> Chain | None:
    """The chain of a distribution with this reward table (n_states, n_actions); None where it would be too large."""
    product, world = d.product, d.world
    nodes = np.arange(product.n_nodes, dtype=np.uint32)
    source = np.repeat(nodes, np.diff(product.indptr))
    log_dynamics = np.log(world.probability)[product.edge]
    rewards = reward[world.source, world.action][product.edge]
    first = np.log(world.start[product.state[product.starts]])
    start = np.exp(first + d.log_completions(0, product.starts) - d.log_partition())
    if product.timeless(d.discount):
        discounted = d.discount ** product.depth[source].astype(np.float64) * rewards
        value = d.log_completions(0, nodes)
        return Chain(
            product, _probability(log_dynamics + discounted, value[source], value[product.target]), start, True
        )
    if product.n_edges * product.horizon > MOST_PROBABILITIES:
        return None
    probability = np.zeros((product.horizon, product.n_edges))
    after = _completions(d, product.horizon, nodes)
    for t in range(product.horizon - 1, -1, -1):
        here = _completions(d, t, nodes)
        n = int(product.indptr[product.layer_ends[t]])
        weight = log_dynamics[:n] + d.discount**t * rewards[:n]
        probability[t, :n] = _probability(weight, here[source[:n]], after[product.target[:n]])
        after = here
    return Chain(product, probability, start, False)


def _completions(d: ExactDistribution, t: int, nodes: NDArray[np.uint32]) -> Floats:
    """log beta_t of the nodes that t actions can reach; -inf elsewhere."""
    value = np.full(len(nodes), -np.inf)
    n = int(d.product.layer_ends[t])
    value[:n] = d.log_completions(t, nodes[:n])
    return value


def _probability(weight: Floats, here: Floats, after: Floats) -> Floats:
    """exp(weight + after - here), 0 where nothing can be completed."""
    possible = (here > -np.inf) & (after > -np.inf)
    with np.errstate(invalid="ignore"):
        probability: Floats = np.where(possible, np.exp(weight + after - here), 0.0)
    return probability
