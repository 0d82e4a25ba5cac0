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
def greedy(indptr: Any, target: Any, weight: Any, z: Any, ends: Any, origin: int, most: int) -> Any:
    """One walk of at most so many edges from the origin to an end, by the edges of the largest weight[e] z[target]."""
    taken = np.empty(most, dtype=np.int64)
    node, n = origin, 0
    while n < most and not ends[node]:
        best, chosen = 0.0, -1
        for e in range(indptr[node], indptr[node + 1]):
            value = weight[e] * z[target[e]]
            if value > best:
                best, chosen = value, e
        if chosen < 0:
            break
        taken[n] = chosen
        n += 1
        node = target[chosen]
    return taken[:n].copy()


@compiled
def certain(indptr: Any, target: Any, weight: Any, z: Any, state: Any, goals: Any, trusted: float) -> Any:
    """Which columns of z (n, k) solve their equations, outside the nodes of their goal, and are nowhere negative."""
    n, k = z.shape
    onward, found = np.empty(k), np.ones(k, dtype=np.bool_)
    for i in range(n):
        onward[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, after = weight[e], target[e]
            for j in range(k):
                onward[j] += w * z[after, j]
        for j in range(k):
            if not (z[i, j] >= 0.0 and abs(onward[j] - z[i, j]) <= trusted * z[i, j]) and goals[j] != state[i]:
                found[j] = False
    return found


@compiled
def add_flows(source: Any, target: Any, x: Any, z: Any, out: Any) -> None:
    """out[e] += sum over columns of x[source] z[target]."""
    for e in range(len(source)):
        i, j = source[e], target[e]
        total = 0.0
        for k in range(x.shape[1]):
            total += x[i, k] * z[j, k]
        out[e] += total
