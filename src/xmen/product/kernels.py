"""Compiled loops that build and prune the product graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled


@compiled
def _hash(row: Any) -> Any:
    h = np.uint64(0x9E3779B97F4A7C15)
    for value in row:
        h = (h ^ np.uint64(value)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    return h


@compiled
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


@compiled
def rehash(slots: Any, nodes: Any, n_nodes: int) -> None:
    """Enter all rows into a fresh table of slots."""
    mask = np.uint64(len(slots) - 1)
    for node in range(n_nodes):
        slot = _hash(nodes[node]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = node


@compiled
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


@compiled
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


@compiled
def alive_before(indptr: Any, target: Any, n_nodes: int, alive: Any, out: Any) -> None:
    """out[node] = some edge of the node leads to an alive one."""
    for node in range(n_nodes):
        found = False
        for e in range(indptr[node], indptr[node + 1]):
            if alive[target[e]]:
                found = True
                break
        out[node] = found
