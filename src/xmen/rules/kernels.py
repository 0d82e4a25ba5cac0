"""Compiled loops that carry probability through (node, machine row) pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled

FAILS, HOLDS = -2, -1  # as in `machine`: successors whose answer is sure


@compiled
def carry_through_time(
    layer_ends: Any,
    first: Any,
    last: Any,
    indptr: Any,
    target: Any,
    edge: Any,
    probability: Any,
    state: Any,
    starts: Any,
    start_probability: Any,
    edge_letter: Any,
    end_letter: Any,
    step: Any,
    accepts: Any,
) -> Any:
    """The probability that the machine holds at the end, and that it fails.

    probability (T, edges): of each product edge as action t, given its node. A node without edges is an end; the
    trajectories that are left after T actions end where they are. Costs T times the edges times the rows in use.
    """
    n_steps = len(probability)
    n_nodes, n_rows = len(indptr) - 1, len(step)
    here, there = np.zeros((n_nodes, n_rows)), np.zeros((n_nodes, n_rows))
    kept, broken = 0.0, 0.0
    for i in range(len(starts)):
        here[starts[i], 0] += start_probability[i]
    for t in range(n_steps + 1):
        for node in range(layer_ends[t]):
            begin, end = indptr[node], indptr[node + 1]
            ended = t == n_steps or begin == end
            for row in range(first[t], last[t] + 1):
                mass = here[node, row]
                if mass == 0.0:
                    continue
                here[node, row] = 0.0
                if ended:
                    if accepts[row, end_letter[state[node]]]:
                        kept += mass
                    else:
                        broken += mass
                    continue
                for e in range(begin, end):
                    moved = mass * probability[t, e]
                    if moved == 0.0:
                        continue
                    after = step[row, edge_letter[edge[e]]]
                    if after == FAILS:
                        broken += moved
                    elif after == HOLDS:
                        kept += moved
                    else:
                        there[target[e], after] += moved
        here, there = there, here
    return kept, broken


@compiled
def carry_in_order(
    order: Any,
    stops: Any,
    indptr: Any,
    target: Any,
    edge: Any,
    probability: Any,
    state: Any,
    starts: Any,
    start_probability: Any,
    edge_letter: Any,
    end_letter: Any,
    step: Any,
    accepts: Any,
) -> Any:
    """The same where nodes have an order that all edges follow and time plays no role: one sweep."""
    n_rows = len(step)
    here = np.zeros((len(indptr) - 1, n_rows))
    kept, broken = 0.0, 0.0
    for i in range(len(starts)):
        here[starts[i], 0] += start_probability[i]
    for node in order:
        for row in range(n_rows):
            mass = here[node, row]
            if mass == 0.0:
                continue
            if stops[node]:
                if accepts[row, end_letter[state[node]]]:
                    kept += mass
                else:
                    broken += mass
                continue
            for e in range(indptr[node], indptr[node + 1]):
                moved = mass * probability[e]
                after = step[row, edge_letter[edge[e]]]
                if after == FAILS:
                    broken += moved
                elif after == HOLDS:
                    kept += moved
                else:
                    here[target[e], after] += moved
    return kept, broken
