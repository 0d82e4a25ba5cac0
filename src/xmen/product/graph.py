"""The product of a world and the machines of a constraint: every trajectory through it is a valid prefix.

A node is (world state, one table row per machine), the machines having read all earlier positions. Nodes are
found breadth-first in whole frontiers and numbered in the order of their depth, so that the nodes a trajectory
can have reached after t actions are always a prefix of all nodes. Then everything that lies on no way from a
start to acceptance within the horizon is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import units
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product import kernels
from xmen.sharing import once
from xmen.worlds.kernels import distance_to, topological_order
from xmen.worlds.mdp import MDP

DEFAULT_MAX_NODES = 5_000_000  # with eight moves about 2 GB while building, and room for messages in 4 GB


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


class _Nodes:
    """A growing set of rows (state, machine rows ...), numbered as they come."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((1024, width), dtype=np.int32)
        self.slots = np.full(4096, -1, dtype=np.int32)
        self.n = 0

    def add(self, candidates: NDArray[np.int32]) -> NDArray[np.uint32]:
        """The number of each candidate row, new rows included."""
        most = self.n + len(candidates)
        if most > len(self.rows):
            grown = np.empty((max(most, 2 * len(self.rows)), self.rows.shape[1]), dtype=np.int32)
            grown[: self.n] = self.rows[: self.n]
            self.rows = grown
        if 2 * most > len(self.slots):
            self.slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int32)
            kernels.rehash(self.slots, self.rows, self.n)
        numbers, self.n = kernels.intern_rows(candidates, self.slots, self.rows, self.n)
        return numbers  # type: ignore[no-any-return]


def build_product(compiled: CompiledConstraint, max_nodes: int) -> Product:
    """Multiply the world with the machines; ProductTooLargeError past `max_nodes`."""
    world = compiled.world
    horizon = world.max_length
    found = explore(compiled, max_nodes, horizon, distance_to(_ends(world), world.source, world.target))
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
        layer_ends=_layer_ends(depth[kept], world),
    )


def _layer_ends(depth: NDArray[np.int32], world: MDP) -> NDArray[np.int64]:
    """How many nodes have each depth or less; trajectories of any length have as many layers as there are depths."""
    last = depth.max(initial=0) if world.unbounded else world.max_length
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
        layer_ends=np.searchsorted(found.depth, np.arange(horizon + 1), side="right"),
    )


def _ends(world: MDP) -> NDArray[np.bool_]:
    """The states in which a complete trajectory may end."""
    return world.terminal if world.has_terminal else np.ones(world.n_states, dtype=np.bool_)


class Explored(NamedTuple):
    """What a breadth-first search found: rows (state, machine rows ...), and their edges in compressed rows."""

    rows: NDArray[np.int32]
    depth: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    target: NDArray[np.uint32]
    edge: NDArray[np.uint32]
    starts: NDArray[np.uint32]


def explore(
    compiled: CompiledConstraint,
    max_nodes: int,
    horizon: int,
    to_end: NDArray[np.int32] | None,
    ends_anywhere: bool = False,
) -> Explored:
    """All nodes within `horizon` actions of a start.

    With the distances of all states to an end, only those from which an end is near enough and no rule is sure to be
    broken; with None, every one.
    """
    world = compiled.world
    starts = np.flatnonzero(world.start > 0).astype(np.int32)
    if to_end is not None:
        starts = starts[to_end[starts] <= horizon]
    rows = np.empty((len(starts), 1 + len(compiled.tables)), dtype=np.int32)
    rows[:, 0] = starts
    for i, table in enumerate(compiled.tables):
        rows[:, 1 + i] = table.start
    alive = compiled.settle(rows)
    if to_end is not None:
        rows = np.ascontiguousarray(rows[alive])

    nodes = _Nodes(rows.shape[1])
    start_nodes = nodes.add(rows)
    layer_ends = [nodes.n]
    n_out: list[NDArray[np.int64]] = []
    targets: list[NDArray[np.uint32]] = []
    edges: list[NDArray[np.uint32]] = []
    begin = 0
    for depth in range(horizon):
        end = nodes.n
        if begin == end:
            break
        if end > max_nodes:
            raise _too_large(compiled, nodes.rows[:end], depth, max_nodes)
        sources, frontier_edges, numbers = _expand(compiled, nodes, begin, end, to_end, horizon - depth - 1)
        n_out.append(np.bincount(sources, minlength=end - begin))
        targets.append(numbers)
        edges.append(frontier_edges)
        layer_ends.append(nodes.n)
        begin = end
    if nodes.n > max_nodes:
        raise _too_large(compiled, nodes.rows[: nodes.n], horizon, max_nodes)

    n_out.append(np.zeros(nodes.n - begin, dtype=np.int64))
    node_rows = nodes.rows[: nodes.n]
    accepting = np.zeros(nodes.n, dtype=np.bool_)
    last = np.arange(nodes.n) if ends_anywhere else np.flatnonzero(_ends(world)[node_rows[:, 0]])
    accepting[last] = compiled.accepts(np.ascontiguousarray(node_rows[last, 1:]), node_rows[last, 0])
    return Explored(
        rows=node_rows,
        depth=np.repeat(np.arange(len(layer_ends), dtype=np.int32), np.diff([0, *layer_ends])),
        accepting=accepting,
        indptr=np.concatenate([[0], np.cumsum(np.concatenate(n_out))]),
        target=np.concatenate([np.empty(0, np.uint32), *targets]),
        edge=np.concatenate([np.empty(0, np.uint32), *edges]),
        starts=start_nodes,
    )


def _expand(
    compiled: CompiledConstraint, nodes: _Nodes, begin: int, end: int, to_end: NDArray[np.int32] | None, left: int
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.uint32]]:
    """All edges of one frontier: the source's place in it, the world edge, the target's number."""
    world = compiled.world
    frontier = nodes.rows[begin:end]
    sources, edges = kernels.expand(frontier[:, 0], world.row_start, world.terminal)
    if to_end is not None:
        near = to_end[world.target[edges]] <= left
        sources, edges = sources[near], edges[near]
    rows = np.empty((len(edges), frontier.shape[1]), dtype=np.int32)
    rows[:, 0] = world.target[edges]
    for i, table in enumerate(compiled.tables):
        rows[:, 1 + i] = table.step(frontier[sources, 1 + i], table.edge_letters[edges])
    alive = compiled.settle(rows)
    if to_end is not None and not alive.all():
        sources, edges, rows = sources[alive], edges[alive], rows[alive]
    return sources, edges, nodes.add(rows)


def _too_large(
    compiled: CompiledConstraint, rows: NDArray[np.int32], depth: int, max_nodes: int
) -> ProductTooLargeError:
    """Say which of the user's constraints multiplies the most, and what to do."""
    world, n_states = compiled.world, len(np.unique(rows[:, 0]))
    lines, leaf = [], 1
    for label, unit in units(compiled.constraint) if compiled.constraint is not None else []:
        width = sum(1 for _ in unit.leaves())
        n_rows = len(np.unique(rows[:, leaf : leaf + width], axis=0))
        lines.append((n_rows, label))
        leaf += width
    lines.sort(key=lambda line: -line[0])
    blame = f"{lines[0][1]!r} multiplies it the most" if lines else "the world alone is that large"
    table = "".join(f"\n  {n:>12,} machine states  {label}" for n, label in lines[:12])
    return ProductTooLargeError(
        f"the product of world and constraints passed max_nodes = {max_nodes:,} after {depth} "
        f"{'actions' if world.unbounded else f'of {world.max_length} actions'}: {blame}.\n"
        f"  {n_states:>12,} world states{table}\n"
        "Raise max_nodes (about 1 kB of memory per node), loosen that constraint, shorten the horizon, "
        "or let it reject or hash instead: engine='reject' or engine='xor'."
    )
