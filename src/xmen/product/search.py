"""The search for all nodes of a product, breadth-first, within a budget of memory.

A node is a row (world state, one table row per machine). The budget is counted in nodes of up to `COLUMNS_PER_NODE`
columns; with more machines than that, a node costs as many times more, so that thousands of small rules are refused
before memory is spent and not after. Where growth alone shows that the budget will not do, the search ends early.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import units
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.estimate import estimate_nodes
from xmen.product.nodes import Nodes, expand
from xmen.worlds.mdp import MDP
from xmen.worlds.words import in_world_words

COLUMNS_PER_NODE = 16  # a node may have this many columns (state and machines) at the price of one
CHUNK_CELLS = 2**24  # entries of rows that are worked out at once: 64 MiB
ESTIMATE_AT = (60_000, 1_000_000)  # numbers of nodes at which the final size is estimated
NODES_PER_STATE = 8  # with fewer nodes than this per listed machine state, listing states is what takes the time


class Explored(NamedTuple):
    """What a breadth-first search found: rows (state, machine rows ...), and their edges in compressed rows."""

    rows: NDArray[np.int32]
    depth: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    indptr: NDArray[np.int64]
    target: NDArray[np.uint32]
    edge: NDArray[np.uint32]
    starts: NDArray[np.uint32]


def ends_of(world: MDP) -> NDArray[np.bool_]:
    """The states in which a complete trajectory may end."""
    return world.terminal if world.has_terminal else np.ones(world.n_states, dtype=np.bool_)


def allowed_nodes(max_nodes: int, n_columns: int) -> int:
    """How many nodes of this many columns the budget has room for."""
    return max_nodes if n_columns <= COLUMNS_PER_NODE else max(1, max_nodes * COLUMNS_PER_NODE // n_columns)


def first_rows(compiled: CompiledConstraint, starts: NDArray[np.int32], only_alive: bool = True) -> NDArray[np.int32]:
    """The rows in which trajectories start; those that may still be saved, if only these are asked for."""
    machines = [table.start for table in compiled.tables]
    rows = np.column_stack([starts, np.tile(np.array(machines, dtype=np.int32), (len(starts), 1))]).astype(np.int32)
    alive = compiled.settle(rows)
    return np.ascontiguousarray(rows[alive]) if only_alive else rows


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
    rows = first_rows(compiled, starts, only_alive=to_end is not None)
    nodes = Nodes(rows.shape[1])
    start_nodes = nodes.add(rows)
    layer_ends = [nodes.n]
    n_out: list[NDArray[np.int64]] = []
    targets: list[NDArray[np.uint32]] = []
    edges: list[NDArray[np.uint32]] = []
    limit = allowed_nodes(max_nodes, rows.shape[1])
    chunk = max(1, CHUNK_CELLS // (rows.shape[1] * max(1, int(np.diff(world.row_start).max(initial=1)))))
    milestones = [n for n in ESTIMATE_AT if n < limit]
    begin = 0
    for depth in range(horizon):
        end = nodes.n
        if begin == end or end > limit:
            break
        if milestones and end > milestones[0]:
            # Small machines are multiplied by compiled loops: an early estimate would cost more than going on.
            slow = len(milestones) == 1 or max(map(len, compiled.tables), default=0) * NODES_PER_STATE > end
            milestones = [n for n in milestones if n >= end]
            larger = estimate_nodes(compiled, nodes.rows[begin:end], to_end, horizon - depth, limit) if slow else 0
            if larger > limit:
                raise _too_large(compiled, nodes.rows[:end], depth, max_nodes, larger)
        for first in range(begin, end, chunk):
            last = min(first + chunk, end)
            sources, frontier_edges, following = expand(
                compiled, compiled.tables, nodes.rows[first:last], to_end, horizon - depth - 1
            )
            n_out.append(np.bincount(sources, minlength=last - first))
            targets.append(nodes.add(following))
            edges.append(frontier_edges)
            if nodes.n > limit:
                raise _too_large(compiled, nodes.rows[: nodes.n], depth + 1, max_nodes)
        layer_ends.append(nodes.n)
        begin = end
    if nodes.n > limit:
        raise _too_large(compiled, nodes.rows[: nodes.n], 0, max_nodes)

    n_out.append(np.zeros(nodes.n - begin, dtype=np.int64))
    node_rows = nodes.rows[: nodes.n]
    accepting = np.zeros(nodes.n, dtype=np.bool_)
    final = np.arange(nodes.n) if ends_anywhere else np.flatnonzero(ends_of(world)[node_rows[:, 0]])
    accepting[final] = compiled.accepts(np.ascontiguousarray(node_rows[final, 1:]), node_rows[final, 0])
    return Explored(
        rows=node_rows,
        depth=np.repeat(np.arange(len(layer_ends), dtype=np.int32), np.diff([0, *layer_ends])),
        accepting=accepting,
        indptr=np.concatenate([[0], np.cumsum(np.concatenate(n_out))]),
        target=np.concatenate([np.empty(0, np.uint32), *targets]),
        edge=np.concatenate([np.empty(0, np.uint32), *edges]),
        starts=start_nodes,
    )


def _too_large(
    compiled: CompiledConstraint, rows: NDArray[np.int32], depth: int, max_nodes: int, estimate: int = 0
) -> ProductTooLargeError:
    """Say which of the user's constraints multiplies the most, and what to do."""
    world, n_states, n_columns = compiled.world, _distinct(rows[:, :1]), rows.shape[1]
    lines, leaf = [], 1
    for label, unit in units(compiled.constraint):
        width = sum(1 for _ in unit.leaves())
        lines.append((_distinct(rows[:, leaf : leaf + width]), in_world_words(label, world)))
        leaf += width
    lines.sort(key=lambda line: -line[0])
    blame = f"{lines[0][1]!r} multiplies it the most" if lines else "the world alone is that large"
    limit, budget = allowed_nodes(max_nodes, n_columns), f"max_nodes = {max_nodes:,}"
    if limit < max_nodes:
        blame = f"each node has {n_columns - 1:,} machines, so that the budget is {limit:,} nodes here, and {blame}"
    after = f"after {depth} {'actions' if world.unbounded else f'of {world.max_length} actions'}"
    found = f"passed {budget} {after}" if not estimate else f"would pass {budget} ({estimate:,} nodes or more)"
    table = "".join(f"\n  {n:>12,} machine states  {label}" for n, label in lines[:12])
    more = f"\n  and {len(lines) - 12:,} constraints more" if len(lines) > 12 else ""
    return ProductTooLargeError(
        f"the product of world and constraints {found}: {blame}.\n"
        f"  {n_states:>12,} world states{table}{more}\n"
        "Raise max_nodes (about 1 kB of memory per node), loosen that constraint, shorten the horizon, "
        "or let it reject or hash instead: engine='reject' or engine='xor'."
    )


def _distinct(columns: NDArray[np.int32]) -> int:
    """The number of distinct rows."""
    if columns.shape[1] == 1:
        return int(np.count_nonzero(np.bincount(columns[:, 0])))
    nodes = Nodes(columns.shape[1])
    nodes.add(np.ascontiguousarray(columns))
    return nodes.n
