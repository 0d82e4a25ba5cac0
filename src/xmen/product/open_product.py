"""The product of a network and machines, for all tasks at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.machines.tables import CompiledConstraint
from xmen.product.factor import Pattern
from xmen.product.search import explore
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP


@dataclass(frozen=True)
class OpenProduct:
    """The product of a network and machines for all tasks at once: every node may be where a trip ends.

    Kept are the nodes on a way from an origin to an accepting node of one of the goals, numbered in the order in which
    I - M is factorised.
    """

    world: MDP
    compiled: CompiledConstraint
    state: NDArray[np.int32]  # the world state of each node
    accepting: NDArray[np.bool_]  # whether a trip that ends here keeps the rules
    source: NDArray[np.int64]  # the node that each edge leaves, sorted
    target: NDArray[np.int64]
    edge: NDArray[np.int64]  # the world edge below each product edge
    start_of: NDArray[np.int64]  # the start node of each state, -1 where there is none
    pattern: Pattern

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.state)

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        """Where the edges of each node begin (n_nodes + 1,)."""
        found: NDArray[np.int64] = np.searchsorted(self.source, np.arange(self.n_nodes + 1))
        return found

    @cached_property
    def incoming(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Edges by the node that they enter: where those of each node begin (n_nodes + 1,), their numbers, sources."""
        order = np.argsort(self.target, kind="stable")
        return np.searchsorted(self.target[order], np.arange(self.n_nodes + 1)), order, self.source[order]

    def matrix(self, weight: NDArray[np.float64]) -> csr_matrix:
        """M, from the weights of product edges (E,)."""
        return csr_matrix((weight, self.target, self.indptr), shape=(self.n_nodes, self.n_nodes))


def build_open_product(compiled: CompiledConstraint, goals: NDArray[np.int64], max_nodes: int) -> OpenProduct:
    """Multiply a network (its `any_task`, begun in the origins) with the machines, for trips to these goals."""
    world = compiled.world
    wanted = np.zeros(world.n_states, dtype=np.bool_)
    wanted[goals] = True
    found = explore(compiled, max_nodes, world.max_length, distance_to(wanted, world.source, world.target))
    source = np.repeat(np.arange(len(found.rows)), np.diff(found.indptr))
    ends = found.accepting & wanted[found.rows[:, 0]]
    kept = distance_to(ends, source.astype(np.uint32), found.target) < UNREACHABLE
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    inside = np.flatnonzero(kept[source] & kept[found.target])
    pattern = Pattern(int(kept.sum()), number[source[inside]], number[found.target[inside]])
    number[kept] = pattern.place
    inside = inside[np.argsort(number[source[inside]], kind="stable")]
    start_of = np.full(world.n_states, -1, dtype=np.int64)
    start_of[found.rows[found.starts, 0]] = number[found.starts]
    source, target = number[source[inside]], number[found.target[inside]]
    return OpenProduct(
        world=world,
        compiled=compiled,
        state=np.ascontiguousarray(found.rows[kept, 0][pattern.order]),
        accepting=found.accepting[kept][pattern.order],
        source=source,
        target=target,
        edge=found.edge[inside].astype(np.int64),
        start_of=start_of,
        pattern=Pattern(pattern.n_nodes, source, target, arranged=True),
    )
