"""Compiled loops over trips: random and greedy walks towards a goal, and the flow through every edge."""

from __future__ import annotations

from functools import partial
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
def missed(indptr: Any, target: Any, weight: Any, z: Any, column: Any, floor: float) -> Any:
    """The largest share by which each column of z (n, k) misses its equations; i is the goal of column[i], if any."""
    n, k = z.shape
    onward, most = np.empty(k), np.zeros(k)
    for i in range(n):
        onward[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, after = weight[e], target[e]
            for j in range(k):
                onward[j] += w * z[after, j]
        if column[i] >= 0:
            onward[column[i]] = z[i, column[i]]
        for j in range(k):
            away, here = abs(onward[j] - z[i, j]), max(z[i, j], floor)
            if not away <= most[j] * here:
                most[j] = away / here if away < np.inf else np.inf  # nan is not
    return most


@partial(compiled, any_order=True)
def flows(
    indptr: Any, edge: Any, source: Any, weight: Any, x: Any, q: Any, z: Any, column: Any, floor: float
) -> tuple[Any, Any]:
    """x[source] z[target] of each edge, summed over columns; and what each x misses of x = q + M^T x, in units of z."""
    n, k = x.shape
    out, onward, missed = np.zeros(len(weight)), np.empty(k), np.zeros(k)
    for i in range(n):
        onward[:] = q[i]
        for p in range(indptr[i], indptr[i + 1]):
            w, before, total = weight[edge[p]], source[p], 0.0
            for j in range(k):
                onward[j] += w * x[before, j]
            for j in range(k):
                total += x[before, j] * z[i, j]
            out[edge[p]] = total
        if column[i] >= 0:
            onward[column[i]] = x[i, column[i]]
        for j in range(k):
            missed[j] += abs(onward[j] - x[i, j]) * max(z[i, j], floor)
    return out, missed
