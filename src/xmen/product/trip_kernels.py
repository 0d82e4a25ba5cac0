"""Compiled loops over trips: random and greedy walks towards a goal, and the flow through every edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled


@compiled
def walk(indptr: Any, target: Any, weight: Any, z: Any, ends: Any, origins: Any, rng: Any) -> Any:
    """One walk from each origin to an end, edge e with probability weight[e] z[target] / z[node]."""
    taken = np.empty(1024, dtype=np.int64)
    lengths = np.zeros(len(origins), dtype=np.int64)
    n = 0
    for i in range(len(origins)):
        node = origins[i]
        while not ends[node]:
            begin, end = indptr[node], indptr[node + 1]
            total = 0.0
            for e in range(begin, end):
                total += weight[e] * z[target[e]]
            left = rng.random() * total
            chosen = -1
            for e in range(begin, end):
                w = weight[e] * z[target[e]]
                if w > 0.0:
                    chosen = e
                    left -= w
                    if left < 0.0:
                        break
            if n == len(taken):
                grown = np.empty(2 * n, dtype=np.int64)
                grown[:n] = taken
                taken = grown
            taken[n] = chosen
            n += 1
            lengths[i] += 1
            node = target[chosen]
    return taken[:n].copy(), lengths


@compiled
def greedy(
    indptr: Any, target: Any, state: Any, weight: Any, z: Any, ends: Any, origin: int, most: int, revisits: bool
) -> Any:
    """One walk from the origin by the edges of the largest weight[e] z[target], to states not seen yet unless told."""
    taken = np.empty(most, dtype=np.int64)
    seen = np.empty(most + 1, dtype=np.int64)
    node, n = origin, 0
    seen[0] = state[node]
    while n < most and not ends[node]:
        best, chosen = 0.0, -1
        for e in range(indptr[node], indptr[node + 1]):
            value = weight[e] * z[target[e]]
            if value > best:
                fresh = True
                for i in range(0 if revisits else n + 1):
                    if seen[i] == state[target[e]]:
                        fresh = False
                        break
                if fresh:
                    best, chosen = value, e
        if chosen < 0:
            break
        taken[n] = chosen
        n += 1
        node = target[chosen]
        seen[n] = state[node]
    return taken[:n].copy()


@compiled
def add_flows(source: Any, target: Any, x: Any, z: Any, out: Any) -> None:
    """out[e] += sum over columns of x[source] z[target]."""
    for e in range(len(source)):
        i, j = source[e], target[e]
        total = 0.0
        for k in range(x.shape[1]):
            total += x[i, k] * z[j, k]
        out[e] += total
