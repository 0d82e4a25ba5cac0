"""The shortest trajectory that keeps all rules, whatever the horizon: which horizon would have done."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xmen.machines.tables import CompiledConstraint
from xmen.product.nodes import Nodes, expand
from xmen.product.search import allowed_nodes, ends_of, first_rows
from xmen.worlds.kernels import UNREACHABLE, distance_to

MOST_NODES = 200_000  # looked at for a better message


class Shortest(NamedTuple):
    """The least number of actions, or None; `complete` where the search went through all that there is."""

    length: int | None
    complete: bool


UNKNOWN = Shortest(None, False)


def shortest_valid(compiled: CompiledConstraint, max_nodes: int = MOST_NODES) -> Shortest:
    """Breadth-first through world and machines, without a limit on the number of actions."""
    world, ends = compiled.world, ends_of(compiled.world)
    to_end = distance_to(ends, world.source, world.target)
    starts = np.flatnonzero((world.start > 0) & (to_end < UNREACHABLE)).astype(np.int32)
    rows = first_rows(compiled, starts)
    nodes, limit = Nodes(rows.shape[1]), allowed_nodes(max_nodes, rows.shape[1])
    nodes.add(rows)
    begin, length = 0, 0
    while begin < nodes.n:
        end = nodes.n
        layer = nodes.rows[begin:end]
        final = layer[ends[layer[:, 0]]]
        if len(final) and compiled.accepts(np.ascontiguousarray(final[:, 1:]), final[:, 0]).any():
            return Shortest(length, True)
        if end > limit:
            return UNKNOWN
        nodes.add(expand(compiled, compiled.tables, layer, to_end, UNREACHABLE - 1)[2])
        begin, length = end, length + 1
    return Shortest(None, True)
