"""Compiled loops over a game: expectations and choices backwards, probabilities forwards, episodes.

Indices that loops read are unsigned 32-bit, as in `product.sweeps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled
from xmen.product.sweeps import row_total

NO_EDGE = np.uint32(0xFFFFFFFF)


@compiled
def add_expected(choices: Any, first_edge: Any, target: Any, probability: Any, after: Any, out: Any) -> None:
    """out += the expectation of `after` over the outcomes of each of these choices, which is -inf if one outcome is."""
    for i in range(len(choices)):
        c = choices[i]
        out[i] += row_total(probability, after, target, first_edge[c], first_edge[c + 1])


@compiled
def centre(first: Any, logits: Any, end: Any, largest: Any) -> None:
    """The largest logit of each row, or end[n] where it has none, and logits minus it; -inf where all are."""
    for node in range(len(first) - 1):
        begin, finish = first[node], first[node + 1]
        if begin == finish:
            largest[node] = end[node]
            continue
        most = -np.inf
        for c in range(begin, finish):
            most = max(most, logits[c])
        largest[node] = most
        for c in range(begin, finish):
            logits[c] = logits[c] - most if most > -np.inf else -np.inf


@compiled
def normalise(first: Any, shares: Any, total: Any) -> None:
    """Shares of each row are divided by their total; 1 where there is none."""
    for node in range(len(first) - 1):
        begin, finish = first[node], first[node + 1]
        sum_of_shares = 0.0
        for c in range(begin, finish):
            sum_of_shares += shares[c]
        total[node] = sum_of_shares if sum_of_shares > 0.0 else 1.0
        inverse = 1.0 / total[node]
        for c in range(begin, finish):
            shares[c] *= inverse


@compiled
def mixed(first: Any, shares: Any, odds: Any, end: Any, out: Any) -> None:
    """The mean of `odds` over each row when choices are made by `shares`; end[n] where there are none."""
    for node in range(len(first) - 1):
        total = end[node] if first[node] == first[node + 1] else 0.0
        for c in range(first[node], first[node + 1]):
            if shares[c] > 0.0:
                total += shares[c] * odds[c]
        out[node] = total


@compiled
def best(first: Any, odds: Any, tolerance: float, among: Any) -> None:
    """Which choices have the largest odds of their row, or less by at most this part of them."""
    for node in range(len(first) - 1):
        most = 0.0
        for c in range(first[node], first[node + 1]):
            most = max(most, odds[c])
        for c in range(first[node], first[node + 1]):
            among[c] = odds[c] >= most * (1.0 - tolerance)


@compiled
def push(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    shares: Any,
    here: Any,
    there: Any,
    used: Any,
    factor: float,
    ended: Any,
    with_entropy: bool,
) -> Any:
    """Push the probability of each node one action on; returns the mean entropy of the choices, if asked for.

    used (per choice) += factor times what goes through; ended (per node) += what has no choice left.
    """
    entropy = 0.0
    for i in range(len(order)):
        node = order[i]
        mass = here[node]
        if mass == 0.0:
            continue
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            ended[node] += mass
            continue
        for c in range(begin, finish):
            share = shares[c]
            if share == 0.0:
                continue
            flow = mass * share
            used[c] += factor * flow
            if with_entropy:
                entropy -= flow * np.log(share)
            for e in range(first_edge[c], first_edge[c + 1]):
                there[target[e]] += flow * probability[e]
    return entropy


@compiled
def likeliest_layer(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    log_outcome: Any,
    shares: Any,
    after: Any,
    value: Any,
    taken: Any,
) -> None:
    """value[n] = the largest log-probability of what follows, and the product edge that begins it.

    Nodes without choices keep their value. `after` may be `value` itself, in an order from the last nodes to the first.
    """
    for i in range(len(order)):
        node = order[i]
        if first_choice[node] == first_choice[node + 1]:
            continue
        best, edge = -np.inf, first_edge[first_choice[node]]
        for c in range(first_choice[node], first_choice[node + 1]):
            if shares[c] == 0.0:
                continue
            chosen = np.log(shares[c])
            for e in range(first_edge[c], first_edge[c + 1]):
                total = chosen + log_outcome[e] + after[target[e]]
                if total > best:
                    best, edge = total, e
        value[node], taken[node] = best, edge


@compiled
def _pick(weights: Any, begin: Any, end: Any, uniform: Any) -> Any:
    """Where in a row of weights, which add up to 1, a uniform number falls; a weight of 0 is never picked."""
    left, chosen = uniform, end
    for i in range(begin, end):
        if weights[i] > 0.0:
            chosen = i
            left -= weights[i]
            if left < 0.0:
                break
    return chosen


@compiled
def play(
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    shares: Any,
    choosing: Any,
    falling: Any,
    node: Any,
) -> Any:
    """One action of each episode: the product edge it takes, given two uniform numbers; nodes are moved in place.

    An episode without choices stays where it is, and its edge is the largest unsigned number.
    """
    taken = np.empty(len(node), dtype=np.uint32)
    for i in range(len(node)):
        begin, finish = first_choice[node[i]], first_choice[node[i] + 1]
        if begin == finish:
            taken[i] = NO_EDGE
            continue
        chosen = _pick(shares, begin, finish, choosing[i])
        edge = _pick(probability, first_edge[chosen], first_edge[chosen + 1], falling[i])
        taken[i] = edge
        node[i] = target[edge]
    return taken


@compiled
def follow(indptr: Any, edge: Any, nodes: Any, wanted: Any) -> Any:
    """The product edge of each node that lies above a world edge; the largest unsigned number where there is none."""
    out = np.empty(len(nodes), dtype=np.uint32)
    for i in range(len(nodes)):
        out[i] = NO_EDGE
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            if edge[e] == wanted[i]:
                out[i] = e
                break
    return out
