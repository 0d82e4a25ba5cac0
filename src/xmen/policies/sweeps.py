"""Compiled loops over a game: values and choices backwards, probabilities forwards, episodes.

Indices that loops read are unsigned 32-bit, as in `product.sweeps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled

NO_EDGE = np.uint32(0xFFFFFFFF)


@compiled
def _soften(shares: Any, begin: Any, end: Any) -> Any:
    """Turn the logits of one node's choices into probabilities, in place; returns log sum exp of the logits."""
    largest = -np.inf
    for c in range(begin, end):
        largest = max(largest, shares[c])
    if largest == -np.inf:
        for c in range(begin, end):
            shares[c] = 0.0
        return largest
    total = 0.0
    for c in range(begin, end):
        shares[c] = np.exp(shares[c] - largest)
        total += shares[c]
    for c in range(begin, end):
        shares[c] /= total
    return largest + np.log(total)


@compiled
def _mean(probability: Any, target: Any, after: Any, begin: Any, end: Any) -> Any:
    """The expectation of `after` over the outcomes of one choice; -inf if one outcome of it is."""
    total = 0.0
    for e in range(begin, end):
        total += probability[e] * after[target[e]]
    return total


@compiled
def soft_sweep(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    reward: Any,
    end: Any,
    after: Any,
    value: Any,
    shares: Any,
) -> None:
    """value[n] = log sum over choices of exp(reward + mean of `after`), and the share of each choice in it.

    Nodes without choices get end[n]. An outcome of -inf makes a choice impossible. Node by node, so that `after` may be
    `value` itself where `order` goes from the last nodes to the first.
    """
    for i in range(len(order)):
        node = order[i]
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            value[node] = end[node]
            continue
        for c in range(begin, finish):
            shares[c] = reward[c] + _mean(probability, target, after, first_edge[c], first_edge[c + 1])
        value[node] = _soften(shares, begin, finish)


@compiled
def logit_layer(
    n_nodes: int,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    reward: Any,
    end: Any,
    after: Any,
    value: Any,
    shares: Any,
) -> None:
    """The first half of `soft_sweep` for a whole layer: shares become logits minus the node's largest, value that.

    In between, numpy takes all exponentials of a layer at once, in a quarter of the time of one after the other.
    """
    for node in range(n_nodes):
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            value[node] = end[node]
            continue
        largest = -np.inf
        for c in range(begin, finish):
            shares[c] = reward[c] + _mean(probability, target, after, first_edge[c], first_edge[c + 1])
            largest = max(largest, shares[c])
        value[node] = largest
        for c in range(begin, finish):
            shares[c] = shares[c] - largest if largest > -np.inf else -np.inf


@compiled
def normalise_layer(n_nodes: int, first_choice: Any, shares: Any, total: Any) -> None:
    """The second half: shares of each node are divided by their total; 1 where there is none."""
    for node in range(n_nodes):
        begin, finish = first_choice[node], first_choice[node + 1]
        sum_of_shares = 0.0
        for c in range(begin, finish):
            sum_of_shares += shares[c]
        total[node] = sum_of_shares if sum_of_shares > 0.0 else 1.0
        inverse = 1.0 / total[node]
        for c in range(begin, finish):
            shares[c] *= inverse


@compiled
def chance_layer(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    shares: Any,
    end: Any,
    after: Any,
    chance: Any,
) -> None:
    """chance[n] = the mean of `after` when choices are made by `shares`; end[n] where there are none."""
    for i in range(len(order)):
        node = order[i]
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            chance[node] = end[node]
            continue
        total = 0.0
        for c in range(begin, finish):
            if shares[c] > 0.0:
                total += shares[c] * _mean(probability, target, after, first_edge[c], first_edge[c + 1])
        chance[node] = total


@compiled
def best_layer(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    reward: Any,
    end: Any,
    end_chance: Any,
    after: Any,
    after_chance: Any,
    value: Any,
    chance: Any,
    shares: Any,
    tolerance: float,
) -> None:
    """`soft_layer` over those choices alone whose chance of winning is within `tolerance` of the largest."""
    for i in range(len(order)):
        node = order[i]
        begin, finish = first_choice[node], first_choice[node + 1]
        if begin == finish:
            value[node], chance[node] = end[node], end_chance[node]
            continue
        best = 0.0
        for c in range(begin, finish):
            shares[c] = _mean(probability, target, after_chance, first_edge[c], first_edge[c + 1])
            best = max(best, shares[c])
        for c in range(begin, finish):
            if shares[c] >= best - tolerance:
                shares[c] = reward[c] + _mean(probability, target, after, first_edge[c], first_edge[c + 1])
            else:
                shares[c] = -np.inf
        value[node] = _soften(shares, begin, finish)
        chance[node] = best


@compiled
def forward_layer(
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

    Nodes without choices keep their value. `after` may be `value` itself, as in `soft_sweep`.
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
def play_layer(
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
        left, chosen = choosing[i], finish
        for c in range(begin, finish):  # only choices of positive probability, whatever is rounded
            if shares[c] > 0.0:
                chosen = c
                left -= shares[c]
                if left < 0.0:
                    break
        left, edge = falling[i], first_edge[chosen]
        for e in range(first_edge[chosen], first_edge[chosen + 1]):
            edge = e
            left -= probability[e]
            if left < 0.0:
                break
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


@compiled
def safe_choices(first_choice: Any, first_edge: Any, target: Any, begin: int, end: int, value: Any) -> Any:
    """Which choices of the nodes begin to end have no outcome of -inf."""
    first = first_choice[begin]
    out = np.ones(first_choice[end] - first, dtype=np.bool_)
    for c in range(first_choice[begin], first_choice[end]):
        for e in range(first_edge[c], first_edge[c + 1]):
            if value[target[e]] == -np.inf:
                out[c - first] = False
                break
    return out


@compiled
def best_choices(
    first_choice: Any,
    first_edge: Any,
    target: Any,
    probability: Any,
    begin: int,
    end: int,
    chance: Any,
    tolerance: float,
) -> Any:
    """Which choices of the nodes begin to end have a chance of winning within `tolerance` of the node's largest."""
    first = first_choice[begin]
    odds = np.empty(first_choice[end] - first, dtype=np.float64)
    out = np.empty(len(odds), dtype=np.bool_)
    for node in range(begin, end):
        best = 0.0
        for c in range(first_choice[node], first_choice[node + 1]):
            odds[c - first] = _mean(probability, target, chance, first_edge[c], first_edge[c + 1])
            best = max(best, odds[c - first])
        for c in range(first_choice[node], first_choice[node + 1]):
            out[c - first] = odds[c - first] >= best - tolerance
    return out
