"""Compiled loops of the dynamic programs: backward messages, forward flow, samples, the mode.

A `graph` is indptr, target and the world edge of a product's edges. Indices that loops read are unsigned 32-bit: numba
then needs no wrap-around test, which makes the loops about three times faster than with signed ones.
"""

from typing import Any

import numpy as np

from xmen.compiled import compiled

NEGLIGIBLE = 1e-300  # probabilities below this are dropped: subnormal numbers are slow and change nothing


@compiled
def edge_log_weights(indptr: Any, edge: Any, log_dynamics: Any, discount: Any, reward: Any) -> Any:
    """log T + discount[node] * reward for each product edge; log_dynamics and reward are per world edge."""
    out = np.empty(len(edge), dtype=np.float64)
    for node in range(len(indptr) - 1):
        for e in range(indptr[node], indptr[node + 1]):
            out[e] = log_dynamics[edge[e]] + discount[node] * reward[edge[e]]
    return out


@compiled
def log_sweep(order: Any, rank: Any, indptr: Any, target: Any, log_weight: Any, value: Any) -> Any:
    """value[n] = log sum of exp(log_weight + value[target]) over edges to nodes of lower rank, in this order.

    `value` starts as 0 where trajectories may stop and -inf elsewhere; log_weight is per product edge. Returns a
    weight of each edge (n_edges,), in proportion to its share of its node.
    """
    shares = np.empty(len(target), dtype=np.float64)
    for i in range(len(order)):
        node = order[i]
        begin, end, largest = indptr[node], indptr[node + 1], value[node]
        for e in range(begin, end):
            shares[e] = log_weight[e] + value[target[e]] if rank[target[e]] < rank[node] else -np.inf
            largest = max(largest, shares[e])
        if largest == -np.inf:
            shares[begin:end] = 0.0
            continue
        total = np.exp(value[node] - largest)
        for e in range(begin, end):
            shares[e] = np.exp(shares[e] - largest)
            total += shares[e]
        value[node] = largest + np.log(total)
    return shares


@compiled
def relative_weights(graph: Any, log_weight: Any, potential: Any, most: float) -> Any:
    """exp(log_weight + potential[target] - potential[node]), at most exp(most), for each edge."""
    indptr, target, edge = graph
    weights = np.empty(len(edge), dtype=np.float64)
    for node in range(len(potential)):
        base = potential[node]
        for e in range(indptr[node], indptr[node + 1]):
            weights[e] = np.exp(min(log_weight[edge[e]] + potential[target[e]] - base, most))
    return weights


@compiled
def rescale_weights(n_edges: int, edge: Any, weights: Any, factor: Any, out: Any) -> None:
    """out = weights times a factor per world edge, for the first n_edges product edges."""
    for e in range(n_edges):
        out[e] = weights[e] * factor[edge[e]]


@compiled
def backward_layer(n_nodes: int, indptr: Any, target: Any, weights: Any, stop: Any, after: Any, out: Any) -> Any:
    """out[n] = stop[n] + sum over edges of weight * after[target]; returns the least and largest nonzero value.

    The least is 0 when a value that cannot be zero was rounded to zero.
    """
    least, largest = np.inf, 0.0
    for node in range(n_nodes):
        total = stop[node]
        for e in range(indptr[node], indptr[node + 1]):
            total += weights[e] * after[target[e]]
        out[node] = total
        if total > 0:
            least = min(least, total)
            largest = max(largest, total)
        else:
            for e in range(indptr[node], indptr[node + 1]):
                if after[target[e]] > 0:
                    least = 0.0
        if not total < np.inf:
            largest = np.inf
    return least, largest


@compiled
def log_layer(graph: Any, log_weight: Any, stop: Any, after: Any, out: Any) -> None:
    """One backward layer in log space: always safe, about ten times slower than `backward_layer`."""
    indptr, target, edge = graph
    for node in range(len(out)):
        largest = stop[node]
        for e in range(indptr[node], indptr[node + 1]):
            largest = max(largest, log_weight[edge[e]] + after[target[e]])
        if largest == -np.inf:
            out[node] = -np.inf
            continue
        total = np.exp(stop[node] - largest)
        for e in range(indptr[node], indptr[node + 1]):
            total += np.exp(log_weight[edge[e]] + after[target[e]] - largest)
        out[node] = largest + np.log(total)


@compiled
def conditional_weights(graph: Any, log_weight: Any, after: Any, value: Any) -> Any:
    """exp(log_weight + after[target] - value[node]): the probability of each edge given its node, from log values."""
    indptr, target, edge = graph
    weights = np.zeros(indptr[len(value)], dtype=np.float64)
    for node in range(len(value)):
        if value[node] > -np.inf:
            for e in range(indptr[node], indptr[node + 1]):
                weights[e] = np.exp(log_weight[edge[e]] + after[target[e]] - value[node])
    return weights


@compiled
def row_total(weights: Any, after: Any, target: Any, begin: Any, end: Any) -> Any:
    """sum of weight * after[target] over the entries begin to end."""
    total = 0.0
    for e in range(begin, end):
        total += weights[e] * after[target[e]]
    return total


@compiled
def forward_layer(
    n_nodes: int, graph: Any, weights: Any, after: Any, here: Any, there: Any, counts: Any, with_entropy: bool
) -> Any:
    """Push node probabilities one step on: edge e is taken in proportion to weight[e] * after[target].

    there += what arrives; counts (per world edge) += what goes through. Each node is normalised by its own total, so
    that probability is neither lost nor made however large the log-weights were. Returns the mean entropy of the
    choices, if asked for.
    """
    indptr, target, edge = graph
    entropy = 0.0
    for node in range(n_nodes):
        if here[node] > NEGLIGIBLE:
            begin, end = indptr[node], indptr[node + 1]
            total = row_total(weights, after, target, begin, end)
            if total == 0.0:
                continue
            scale = here[node] / total
            for e in range(begin, end):
                flow = scale * (weights[e] * after[target[e]])
                there[target[e]] += flow
                counts[edge[e]] += flow
                if with_entropy and flow > 0.0:
                    entropy -= flow * np.log(flow / here[node])
    return entropy


@compiled
def forward_sweep(
    order: Any, graph: Any, weights: Any, discount: Any, here: Any, counts: Any, discounted: Any, with_entropy: bool
) -> Any:
    """Visits pushed through an acyclic graph in topological order; returns the entropy of the choices, if asked."""
    indptr, target, edge = graph
    entropy = 0.0
    for i in range(len(order)):
        node = order[i]
        if here[node] > NEGLIGIBLE:
            begin, end = indptr[node], indptr[node + 1]
            total = 0.0
            for e in range(begin, end):
                total += weights[e]
            if total == 0.0:
                continue
            for e in range(begin, end):
                share = weights[e] / total
                flow = here[node] * share
                here[target[e]] += flow
                counts[edge[e]] += flow
                discounted[edge[e]] += discount[node] * flow
                if with_entropy and share > 0.0:
                    entropy -= flow * np.log(share)
    return entropy


@compiled
def choose_edges(indptr: Any, target: Any, weights: Any, after: Any, uniforms: Any, node: Any) -> Any:
    """The edge that each walker takes from its node, given one uniform number each; nodes are moved in place.

    A walker that can go nowhere stays; its edge is the largest unsigned number.
    """
    taken = np.empty(len(node), dtype=np.uint32)
    for i in range(len(node)):
        n = node[i]
        begin, end = indptr[n], indptr[n + 1]
        left = uniforms[i] * row_total(weights, after, target, begin, end)
        chosen = end
        for e in range(begin, end):
            w = weights[e] * after[target[e]]
            if w > 0:
                chosen = e
                left -= w
                if left < 0:
                    break
        if chosen == end:
            taken[i] = np.uint32(0xFFFFFFFF)
            continue
        taken[i] = chosen
        node[i] = target[chosen]
    return taken


@compiled
def best_layer(graph: Any, log_weight: Any, stop: Any, after: Any, out: Any, choice: Any) -> None:
    """out[n] = max over edges of log_weight + after[target] (or stop), and which edge of the node attains it."""
    indptr, target, edge = graph
    for node in range(len(out)):
        best, arg = stop[node], 0
        for e in range(indptr[node], indptr[node + 1]):
            x = log_weight[edge[e]] + after[target[e]]
            if x > best:
                best, arg = x, e - indptr[node]
        out[node] = best
        choice[node] = arg
