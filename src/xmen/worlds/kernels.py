"""Compiled questions about graphs: worlds and products alike."""

from typing import Any

import numpy as np

from xmen.compiled import compiled

UNREACHABLE = 2**30  # a distance longer than any horizon, and small enough to add to


@compiled
def distance_to(goals: Any, source: Any, target: Any) -> Any:
    """The least number of edges from each node to a goal; `UNREACHABLE` where there is none."""
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
    distance = np.full(n, UNREACHABLE, dtype=np.int32)
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
            if distance[before] == UNREACHABLE:
                distance[before] = distance[node] + 1
                queue[tail] = before
                tail += 1
    return distance


@compiled
def topological_order(indptr: Any, target: Any) -> Any:
    """Nodes so that every edge goes forward (not all of them when there is a cycle), and the most edges to each."""
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


@compiled
def go_on(source: Any, target: Any, starts: Any, edges: Any, offsets: Any) -> Any:
    """Which walks take each edge from where they are, shape (n,)."""
    out = np.ones(len(starts), dtype=np.bool_)
    for walk in range(len(starts)):
        here = np.int64(starts[walk])
        for step in range(offsets[walk], offsets[walk + 1]):
            edge = edges[step]
            if edge < 0 or edge >= len(source) or source[edge] != here:
                out[walk] = False
                break
            here = np.int64(target[edge])
    return out
