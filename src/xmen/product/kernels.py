"""Compiled loops over machines, the constraint tree and the product graph, each a few lines over plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from xmen.constraints.verdict import OPEN, Sure, combine

SURE_TO_HOLD = Sure.HOLDS.value
SURE_TO_FAIL = Sure.FAILS.value

NO_WAY = 2**30  # a distance longer than any horizon, and small enough to add to

_compiled = njit(cache=True, nogil=True)
_combine = njit(cache=True, nogil=True)(combine)


# --- machines and the tree -----------------------------------------------------------------------------------


@_compiled
def look_up(table: Any, rows: Any, letters: Any) -> Any:
    """table[rows, letters], element by element."""
    out = np.empty(len(rows), dtype=np.int32)
    for i in range(len(rows)):
        out[i] = table[rows[i], letters[i]]
    return out


@_compiled
def settle(rows: Any, n_children: Any, least: Any, most: Any, first: Any, last: Any, holding: Any, failing: Any) -> Any:
    """Evaluate the tree on product rows (state, machine rows ...); write sure parts in their one canonical form.

    Machine rows 0 and 1 are the sure states. Returns which rows are not sure to fail.
    """
    n_operations = len(n_children)
    stack = np.empty(n_operations, dtype=np.int64)
    alive = np.empty(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        top = 0
        for op in range(n_operations):
            if n_children[op] == 0:
                row = rows[i, 1 + first[op]]
                stack[top] = SURE_TO_FAIL if row == 0 else SURE_TO_HOLD if row == 1 else OPEN
                top += 1
                continue
            n_holding, n_open = 0, 0
            for _ in range(n_children[op]):
                top -= 1
                n_holding += stack[top] == SURE_TO_HOLD
                n_open += stack[top] == OPEN
            verdict = _combine(n_holding, n_open, least[op], most[op])
            if verdict != OPEN:
                pattern = holding if verdict == SURE_TO_HOLD else failing
                for leaf in range(first[op], last[op]):
                    rows[i, 1 + leaf] = pattern[op, leaf]
            stack[top] = verdict
            top += 1
        alive[i] = stack[0] != SURE_TO_FAIL
    return alive


@_compiled
def judge(answers: Any, n_children: Any, least: Any, most: Any) -> Any:
    """The tree's answer for each row of final answers (n, leaves)."""
    n_operations = len(n_children)
    stack = np.empty(n_operations, dtype=np.int64)
    out = np.empty(len(answers), dtype=np.bool_)
    for i in range(len(answers)):
        top, leaf = 0, 0
        for op in range(n_operations):
            if n_children[op] == 0:
                stack[top] = SURE_TO_HOLD if answers[i, leaf] else SURE_TO_FAIL
                leaf += 1
            else:
                n_holding = 0
                for _ in range(n_children[op]):
                    top -= 1
                    n_holding += stack[top] == SURE_TO_HOLD
                stack[top] = _combine(n_holding, 0, least[op], most[op])
            top += 1
        out[i] = stack[0] == SURE_TO_HOLD
    return out


@_compiled
def run_machine(table: Any, letters: Any, states: Any, actions: Any, lengths: Any, column: Any, position: Any) -> Any:
    """Advance one machine over all but the last position of each trajectory, in place; sure states stay.

    Returns the trajectories that stopped at a table entry nobody has filled in yet.
    """
    stopped = np.empty(len(lengths), dtype=np.int64)
    n_stopped = 0
    for i in range(len(lengths)):
        row, t = column[i], position[i]
        while t < lengths[i] and row > 1:
            successor = table[row, letters[states[i, t], actions[i, t]]]
            if successor < 0:
                stopped[n_stopped] = i
                n_stopped += 1
                break
            row = successor
            t += 1
        column[i], position[i] = row, t
    return stopped[:n_stopped]


# --- the product graph ---------------------------------------------------------------------------------------


@_compiled
def _hash(row: Any) -> Any:
    h = np.uint64(0x9E3779B97F4A7C15)
    for value in row:
        h = (h ^ np.uint64(value)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    return h


@_compiled
def intern_rows(candidates: Any, slots: Any, nodes: Any, n_nodes: int) -> Any:
    """Number each candidate row, giving new rows the next free numbers; needs room for all of them.

    slots: open-addressing table of node numbers (-1 empty), a power of two long. nodes: the rows by number.
    """
    mask = np.uint64(len(slots) - 1)
    width = candidates.shape[1]
    numbers = np.empty(len(candidates), dtype=np.uint32)
    for i in range(len(candidates)):
        slot = _hash(candidates[i]) & mask
        while True:
            node = slots[slot]
            if node < 0:
                for j in range(width):
                    nodes[n_nodes, j] = candidates[i, j]
                slots[slot] = node = n_nodes
                n_nodes += 1
                break
            same = True
            for j in range(width):
                if nodes[node, j] != candidates[i, j]:
                    same = False
                    break
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        numbers[i] = node
    return numbers, n_nodes


@_compiled
def rehash(slots: Any, nodes: Any, n_nodes: int) -> None:
    """Enter all rows into a fresh table of slots."""
    mask = np.uint64(len(slots) - 1)
    for node in range(n_nodes):
        slot = _hash(nodes[node]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = node


@_compiled
def expand(states: Any, row_start: Any, terminal: Any) -> Any:
    """Every world edge that leaves each of these states: positions in `states`, and edge numbers."""
    total = 0
    for s in states:
        if not terminal[s]:
            total += row_start[s + 1] - row_start[s]
    sources = np.empty(total, dtype=np.int32)
    edges = np.empty(total, dtype=np.uint32)
    k = 0
    for i in range(len(states)):
        s = states[i]
        if not terminal[s]:
            for e in range(row_start[s], row_start[s + 1]):
                sources[k] = i
                edges[k] = e
                k += 1
    return sources, edges


@_compiled
def distance_to(goals: Any, source: Any, target: Any) -> Any:
    """The least number of edges from each node to a goal; `NO_WAY` where there is none."""
    n, n_edges = len(goals), len(source)
    start = np.zeros(n + 2, dtype=np.int64)
    for e in range(n_edges):
        start[target[e] + 2] += 1
    for i in range(n):
        start[i + 2] += start[i + 1]
    incoming = np.empty(n_edges, dtype=np.uint32)
    for e in range(n_edges):
        incoming[start[target[e] + 1]] = source[e]
        start[target[e] + 1] += 1
    distance = np.full(n, NO_WAY, dtype=np.int32)
    queue = np.empty(n, dtype=np.uint32)
    head, tail = 0, 0
    for i in range(n):
        if goals[i]:
            distance[i] = 0
            queue[tail] = i
            tail += 1
    while head < tail:
        node = queue[head]
        head += 1
        for k in range(start[node], start[node + 1]):
            before = incoming[k]
            if distance[before] == NO_WAY:
                distance[before] = distance[node] + 1
                queue[tail] = before
                tail += 1
    return distance


@_compiled
def prune(indptr: Any, target: Any, edge: Any, depth: Any, distance: Any, horizon: int) -> Any:
    """Drop nodes and edges that lie on no way from a start to acceptance within the horizon; keep the order."""
    n = len(depth)
    number = np.full(n, -1, dtype=np.int64)
    kept = 0
    for i in range(n):
        if depth[i] + distance[i] <= horizon:
            number[i] = kept
            kept += 1
    new_indptr = np.zeros(kept + 1, dtype=np.uint32)
    new_target = np.empty(len(target), dtype=np.uint32)
    new_edge = np.empty(len(target), dtype=np.uint32)
    k = 0
    for i in range(n):
        if number[i] < 0:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            j = target[e]
            if number[j] >= 0 and depth[i] + 1 + distance[j] <= horizon:
                new_target[k] = number[j]
                new_edge[k] = edge[e]
                k += 1
        new_indptr[number[i] + 1] = k
    return number, new_indptr, new_target[:k].copy(), new_edge[:k].copy()


@_compiled
def topological_order(indptr: Any, target: Any) -> Any:
    """Nodes so that every edge goes forward, and the longest number of edges that leads to each.

    Shorter than the number of nodes when there is a cycle.
    """
    n = len(indptr) - 1
    indegree = np.zeros(n, dtype=np.int64)
    for e in range(len(target)):
        indegree[target[e]] += 1
    order = np.empty(n, dtype=np.uint32)
    longest = np.zeros(n, dtype=np.int32)
    head, tail = 0, 0
    for i in range(n):
        if indegree[i] == 0:
            order[tail] = i
            tail += 1
    while head < tail:
        node = order[head]
        head += 1
        for e in range(indptr[node], indptr[node + 1]):
            j = target[e]
            longest[j] = max(longest[j], longest[node] + 1)
            indegree[j] -= 1
            if indegree[j] == 0:
                order[tail] = j
                tail += 1
    return order[:tail], longest


@_compiled
def alive_before(indptr: Any, target: Any, n_nodes: int, alive: Any, out: Any) -> None:
    """out[node] = some edge of the node leads to an alive one."""
    for node in range(n_nodes):
        found = False
        for e in range(indptr[node], indptr[node + 1]):
            if alive[target[e]]:
                found = True
                break
        out[node] = found
