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
def completions(indptr: Any, target: Any, weight: Any, columns: Any, ends: Any, accepts: Any, trusted: float) -> Any:
    """z (n, k) from columns of G for goals of one node each, and which of them solve their equations and are >= 0."""
    n, k = columns.shape
    z, scale, onward = np.empty((n, k)), np.empty(k), np.empty(k)
    for j in range(k):
        corner = columns[ends[j], j]
        scale[j] = accepts[j] / corner if corner > 0.0 else np.nan
    for i in range(n):
        for j in range(k):
            z[i, j] = columns[i, j] * scale[j]
    for j in range(k):
        z[ends[j], j] = accepts[j]
    certain = np.ones(k, dtype=np.bool_)
    for i in range(n):
        onward[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            w, after = weight[e], target[e]
            for j in range(k):
                onward[j] += w * z[after, j]
        for j in range(k):
            if not (z[i, j] >= 0.0 and abs(onward[j] - z[i, j]) <= trusted * z[i, j]) and ends[j] != i:
                certain[j] = False
    return z, certain


@compiled
def add_flows(source: Any, target: Any, x: Any, z: Any, out: Any) -> None:
    """out[e] += sum over columns of x[source] z[target]."""
    for e in range(len(source)):
        i, j = source[e], target[e]
        total = 0.0
        for k in range(x.shape[1]):
            total += x[i, k] * z[j, k]
        out[e] += total
