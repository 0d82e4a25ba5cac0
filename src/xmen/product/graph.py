"""The product of a world and the machines of a constraint: every trajectory through it is a valid prefix.

A node is (world state, one table row per machine), the machines having read all earlier positions. Nodes are
found breadth-first in whole frontiers and numbered in the order of their depth, so that the nodes a trajectory
can have reached after t actions are always a prefix of all nodes. Then everything that lies on no way from a
start to acceptance within the horizon is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmen.limits import require_horizon
from xmen.machines.tables import CompiledConstraint
from xmen.product import kernels
from xmen.product.search import ends_of, explore
from xmen.sharing import once
from xmen.worlds.kernels import distance_to, topological_order
from xmen.worlds.mdp import MDP

DEFAULT_MAX_NODES = 5_000_000  # with eight moves about 2 GB while building, and room for messages in 4 GB
BYTES_PER_LAYER = 500  # of what is kept about each number of actions, apart from the messages of its nodes


@dataclass(frozen=True)
class Product:
    """The pruned product graph, in compressed rows: node n has the edges indptr[n] to indptr[n + 1]."""

    world: MDP
    compiled: CompiledConstraint
    horizon: int
    state: NDArray[np.int32]  # the world state of each node
    depth: NDArray[np.int32]  # the least number of actions to it
    distance: NDArray[np.int32]  # the least number of actions from it to acceptance
    accepting: NDArray[np.bool_]  # whether a trajectory may end here
    indptr: NDArray[np.uint32]
    target: NDArray[np.uint32]
    edge: NDArray[np.uint32]  # the world edge below each product edge
    starts: NDArray[np.uint32]  # the nodes at which trajectories start
    layer_ends: NDArray[np.int64]  # layer_ends[t] nodes have depth <= t

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.state)

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.target)

    @property
    def fixed_length(self) -> bool:
        """Whether all trajectories have exactly `horizon` actions."""
        return not self.world.has_terminal

    @once
    def topological(self) -> tuple[NDArray[np.uint32], NDArray[np.int32]] | None:
        """Nodes so that all edges go forward, and the longest way to each; None when there is a cycle."""
        order, longest = topological_order(self.indptr, self.target)
        return (order, longest) if len(order) == self.n_nodes else None

    def timeless(self, discount: float) -> bool:
        """Whether one message per node is enough, whatever the number of actions before it.

        True without cycles where the horizon does not bind, if every node has one depth or depth does not matter.
        """
        if self.topological is None:
            return False
        longest = self.topological[1]
        fits = bool(longest.max(initial=0) <= self.horizon)
        return fits and ((discount == 1.0 and not self.fixed_length) or np.array_equal(longest, self.depth))

    @property
    def usual_length(self) -> int:
        """A number of actions that few trajectories pass, for sizing tables."""
        return min(self.horizon, 4 * self.n_nodes) if self.world.unbounded else self.horizon

    @property
    def stops(self) -> NDArray[np.bool_]:
        """Where trajectories end, on a timeless product."""
        return self.accepting & (self.depth == self.horizon) if self.fixed_length else self.accepting

    @once
    def outwards(self) -> NDArray[np.uint32]:
        """The nodes at which trajectories cannot end, nearest to acceptance first."""
        order = np.argsort(self.distance, kind="stable").astype(np.uint32)
        return order[np.count_nonzero(self.distance == 0) :]

    def feasible(self) -> bool:
        """Whether any trajectory is valid."""
        if not len(self.starts) or not self.fixed_length:
            return len(self.starts) > 0
        return self._feasible_at_exact_length()

    def _feasible_at_exact_length(self) -> bool:
        """Backward reachability over exactly `horizon` steps, stopped early once it repeats with period 1 or 2."""
        before, alive = None, self.accepting
        for steps_left in range(self.horizon, 0, -1):
            out = np.empty_like(alive)
            kernels.alive_before(self.indptr, self.target, self.n_nodes, alive, out)
            if before is not None and np.array_equal(before, out):
                alive = out if steps_left % 2 else alive
                break
            before, alive = alive, out
        return bool(alive[self.starts].any())


def build_product(compiled: CompiledConstraint, max_nodes: int) -> Product:
    """Multiply the world with the machines; ProductTooLargeError past `max_nodes`."""
    world = compiled.world
    horizon = world.max_length
    found = explore(compiled, max_nodes, horizon, distance_to(ends_of(world), world.source, world.target))
    source = np.repeat(np.arange(len(found.rows), dtype=np.uint32), np.diff(found.indptr))
    distance = distance_to(found.accepting, source, found.target)
    del source
    depth = found.depth
    number, indptr, target, edge = kernels.prune(found.indptr, found.target, found.edge, depth, distance, horizon)
    kept = number >= 0
    return Product(
        world=world,
        compiled=compiled,
        horizon=horizon,
        state=np.ascontiguousarray(found.rows[kept, 0]),
        depth=depth[kept],
        distance=distance[kept],
        accepting=found.accepting[kept],
        indptr=indptr,
        target=target,
        edge=edge,
        starts=number[found.starts][kept[found.starts]].astype(np.uint32),
        layer_ends=layer_ends(depth[kept], horizon, world.unbounded),
    )


def layer_ends(depth: NDArray[np.int32], horizon: int, unbounded: bool = False) -> NDArray[np.int64]:
    """How many nodes have each depth or less; trajectories of any length have as many layers as there are depths."""
    last = int(depth.max(initial=0)) if unbounded else horizon
    require_horizon(last, BYTES_PER_LAYER * last)
    ends: NDArray[np.int64] = np.searchsorted(depth, np.arange(last + 1), side="right")
    return ends


def build_complete_product(
    compiled: CompiledConstraint, max_nodes: int, horizon: int, ends_anywhere: bool = False
) -> Product:
    """The product with everything that can happen in `horizon` actions, broken rules and unfinished ends included.

    Where a rule is sure to be broken the machines no longer matter: those nodes are one per world state. With
    `ends_anywhere`, a node accepts whenever the rules would be kept if the trajectory stopped there.
    """
    found = explore(compiled, max_nodes, horizon, None, ends_anywhere)
    return Product(
        world=compiled.world,
        compiled=compiled,
        horizon=horizon,
        state=np.ascontiguousarray(found.rows[:, 0]),
        depth=found.depth,
        distance=np.zeros(len(found.rows), dtype=np.int32),
        accepting=found.accepting,
        indptr=found.indptr.astype(np.uint32),
        target=found.target,
        edge=found.edge,
        starts=found.starts,
        layer_ends=layer_ends(found.depth, horizon),
    )
