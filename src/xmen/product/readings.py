"""A product read along a sighting: every node with how much of the record has been read on the way to it.

The likelihood of a record is a machine that reads the positions of a trajectory and weighs them, in one way or several:
P(tau) p(y | tau) is the weight of all walks of tau through the product with it. That is a product again, with a
log-weight for each of its edges, so that every schedule, on the host or on a device, answers for it unchanged.
"""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from xmen.errors import MEMORY, EngineError
from xmen.events import Bools, Ints
from xmen.product.graph import Product
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP
from xmen.worlds.sightings import Sighting
from xmen.worlds.walks import EdgeWeights, Floats, Walks

# ---- The machine of a sighting: its states say how many entries have been read


class Move(NamedTuple):
    """From one state of the machine to another, by entering a world state."""

    before: int
    after: int
    log_factor: Floats  # (n_states,) of the world state that is entered


class Script(NamedTuple):
    """How a record is read: the machine is in one of its starts at position 0, and in an end at the last position."""

    starts: list[int]
    first: Floats  # (n_states,) the log-factor of the state at position 0
    moves: list[Move]  # ordered so that whatever leads to a state comes before what leads on from it
    ends: list[int]
    n: int


def script_of(sighting: Sighting, world: MDP) -> Script:
    """The machine of a sighting over a world; with known positions it is in state t at position t."""
    rows, last, free = sighting.log_rows(world), len(sighting) - 1, np.zeros(world.n_states)
    if sighting.each is None:
        moves = [Move(t, t + 1, rows[t + 1]) for t in range(last)]
        moves += [Move(last, last, free)] if sighting.more else []
        return Script([0], rows[0], moves, [last], last + 1)
    with np.errstate(divide="ignore"):
        log_seen, log_unseen = np.log(sighting.each), np.log1p(-sighting.each)
    ended, moves = last + 1, []  # the last position is recorded for certain, and has a state of its own
    for k in range(last):
        moves.append(Move(k, k, free + log_unseen))
        if k + 1 < last or sighting.more:
            moves.append(Move(k, k + 1, rows[k + 1] + log_seen))
    if last:
        moves.append(Move(last - 1, ended, rows[last]))
    if sighting.more:
        moves += [Move(last, last, free), Move(last, ended, free)]
    return Script([0] if last else [0, ended], rows[0], moves, [ended], last + 2)


def log_likelihoods(script: Script, walks: Walks) -> Floats:
    """log p(y | tau) of each walk, shape (n,)."""
    offsets = walks.offsets[:-1] + np.arange(len(walks))
    states = walks.states()
    here = np.full((len(walks), script.n), -np.inf)
    here[:, script.starts] = script.first[walks.starts, None]
    for t in range(1, int(walks.lengths.max(initial=0)) + 1):
        going = np.flatnonzero(walks.lengths >= t)
        entered, after = states[offsets[going] + t], np.full((len(going), script.n), -np.inf)
        for move in script.moves:
            through = here[going, move.before] + move.log_factor[entered]
            after[:, move.after] = np.logaddexp(after[:, move.after], through)
        here[going] = after
    found: Floats = np.logaddexp.reduce(here[:, script.ends], axis=1)
    return found


class Reading(NamedTuple):
    """A product read along sightings. Every edge is its own world edge, so that each has a weight of its own."""

    product: Product
    weights: EdgeWeights
    edge: Ints  # the edge of the product that was read, below each edge
    log_factor: Floats  # what is read by each edge
    node: Ints  # the node of the product that was read, below each node
    place: Ints  # how far each node has read: the state of the machine, those of all sightings in a row

    def below(self, product: Product, walks: Walks) -> Walks:
        """Walks through the world of the product that was read."""
        return Walks(product.world, walks.starts, product.edge[self.edge[walks.edges]].astype(np.int32), walks.offsets)


EDGE_BYTES = 150  # of an edge while readings are made


def read_along(product: Product, weights: EdgeWeights, scripts: Sequence[Script]) -> Reading:
    """The product with the machines of sightings, each beside the others; `weights` are of a joint law.

    They keep the law of starts: the factor of position 0 is left to the caller, as every sighting has its own.
    """
    n, source, entered = product.n_nodes, product.sources(), product.state[product.target]
    offsets = np.cumsum([0, *(script.n for script in scripts)]).tolist()
    reached, starts = np.zeros((offsets[-1], n), dtype=np.bool_), [np.empty(0, dtype=np.int64)]
    pieces: list[tuple[Any, ...]] = [4 * (starts[0],)]
    n_edges = 0
    for script, offset in zip(scripts, offsets, strict=False):
        begin = product.starts[script.first[product.state[product.starts]] > -np.inf].astype(np.int64)
        for k in script.starts:
            reached[offset + k, begin] = True
            starts.append((offset + k) * n + begin)
        for move in script.moves:
            before, after, factor = offset + move.before, offset + move.after, move.log_factor
            if before == after:  # and whatever can be reached from there by the same move
                reached[before] |= distance_to(reached[before], product.target, source) < UNREACHABLE
            along = np.flatnonzero(reached[before][source] & (factor[entered] > -np.inf))
            ahead = product.target[along].astype(np.int64)
            reached[after, ahead] = True
            n_edges += len(along)
            MEMORY.require(EDGE_BYTES * n_edges, "what was seen", EngineError, "Use a smaller world or fewer rules")
            begun = before * n + source[along].astype(np.int64)
            pieces.append((begun, after * n + ahead, along, factor[entered[along]]))
    ids = np.flatnonzero(reached)
    number = np.empty(reached.size, dtype=np.int64)
    number[ids] = np.arange(len(ids))
    ends = [offset + k for script, offset in zip(scripts, offsets, strict=False) for k in script.ends]
    ending = np.isin(ids // n, ends) & product.accepting[ids % n]
    begin_ids, end_ids, edge, log_factor = (np.concatenate(part) for part in zip(*pieces, strict=True))
    nodes = ids % n, ids // n, number[np.concatenate(starts)], ending
    return _assembled(product, weights, nodes, (number[begin_ids], number[end_ids], edge, log_factor))


Nodes: TypeAlias = tuple[Ints, Ints, Ints, Bools]  # their `node` and `place`, which are starts, and whether they end
Edges: TypeAlias = tuple[Ints, Ints, Ints, Floats]  # their sources and targets, `edge` and `log_factor`


def _assembled(product: Product, weights: EdgeWeights, nodes: Nodes, edges: Edges) -> Reading:
    """A reading from its nodes and edges, in any order: numbered by depth, and pruned."""
    (node, place, starts, ending), (source, target, edge, log_factor) = nodes, edges
    begin = np.zeros(len(node), dtype=np.bool_)
    begin[starts] = True
    depth = distance_to(begin, target, source)
    order = np.argsort(depth, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    by_source = np.argsort(number[source], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(number[source], minlength=len(node)))]).astype(np.uint32)
    there, edge, log_factor = number[target[by_source]].astype(np.uint32), edge[by_source], log_factor[by_source]
    node, place = node[order], place[order]
    whole = replace(
        product,
        state=np.arange(len(node), dtype=np.int32),  # to be known again after pruning
        depth=depth[order],
        distance=np.zeros_like(depth),
        accepting=ending[order],
        indptr=indptr,
        target=there,
        edge=np.arange(len(edge), dtype=np.uint32),
        starts=number[starts].astype(np.uint32),
        keeps=product.keeps[node],
    )
    kept = whole.pruned(distance_to(whole.accepting, whole.sources(), there))
    node, place, edge, log_factor = node[kept.state], place[kept.state], edge[kept.edge], log_factor[kept.edge]
    world, own = copy(product.world), product.edge[edge]
    columns = {name: getattr(world, name)[own] for name in ("source", "action", "target", "probability")}
    vars(world).update(columns)
    numbers = np.arange(len(edge), dtype=np.uint32)
    read = replace(kept, world=world, state=product.state[node], edge=numbers)
    log_dynamics = weights.log_dynamics[own] + log_factor
    weights = replace(weights, log_dynamics=log_dynamics, reward=weights.reward[own])
    return Reading(read, weights, edge, log_factor, node, place)


# ---- One way for each trajectory: what is largest, or a logarithm, cannot be summed over several.
#
# A node is then all that a trajectory may have read by now, with the odds of each: the factor of an edge is the sum of
# its ways, and weights are as before. Where odds never repeat there are as many nodes as trajectories; where these are
# of any length, steps that next to none of them takes are left out.

MOST_DETERMINED = 200_000  # nodes
DIGITS = 12  # of odds that are compared
LEAST = 1e-17  # the probability of a step, and all before it, that is next to none


def determined(reading: Reading, product: Product, weights: EdgeWeights, completions: Floats | None = None) -> Reading:
    """This law with one walk for each trajectory, whatever the number of ways to read it.

    With the log-weight of all completions of each node, without those that are next to impossible.
    """
    read = reading.product
    indptr, accepting = read.indptr.tolist(), read.accepting.tolist()
    target, edge, factor = read.target.tolist(), reading.edge.tolist(), np.exp(reading.log_factor).tolist()
    distance, known = read.distance.tolist(), dict[tuple[Any, ...], int]()
    nodes, frontier, depth = list[int](), list[dict[int, float]](), list[int]()
    moved = reading.weights.log_dynamics + reading.weights.reward - reading.log_factor
    chance = dict[int, float]()  # that trajectories begin as the first one that led to a node

    def worth(odds: dict[int, float]) -> float:
        assert completions is not None
        return float(logsumexp(completions[list(odds)], b=list(odds.values())))

    def number(odds: dict[int, float], after: int) -> int:
        key = tuple(sorted((node, f"{share:.{DIGITS}g}") for node, share in odds.items()))
        if key not in known:
            known[key] = len(nodes)
            nodes.append(next(iter(odds)))
            frontier.append(odds)
            depth.append(after)
            if len(nodes) > MOST_DETERMINED:
                raise EngineError(
                    f"this sighting can be read in so many ways that keeping them apart takes more than "
                    f"{MOST_DETERMINED:,} nodes: samples, visits, probability(rule) and log_prob do not need it."
                )
        return known[key]

    starts = [number({node: 1.0}, 0) for node in read.starts.tolist()]
    rows = list[tuple[int, int, int, float]]()
    for here, odds in enumerate(frontier):  # which grows
        ways: dict[tuple[int, bool], dict[int, float]] = {}
        log_step, before = dict[int, float](), 0.0 if completions is None else worth(odds)
        for node, share in odds.items():
            for e in range(indptr[node], indptr[node + 1]):
                if depth[here] + 1 + distance[target[e]] > product.horizon:
                    continue
                on = ways.setdefault((edge[e], accepting[target[e]]), {})
                on[target[e]] = on.get(target[e], 0.0) + share * factor[e]
                log_step[edge[e]] = float(moved[e])
        for (below, _), on in ways.items():
            total, p = sum(on.values()), 1.0
            if completions is not None:
                p = chance.get(here, 1.0) * math.exp(log_step[below] + worth(on) - before)
            if total > 0.0 and p >= LEAST:
                there = number({node: share / total for node, share in on.items()}, depth[here] + 1)
                chance.setdefault(there, p)
                rows.append((here, there, below, total))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 4)
    source, target_of, below_each = (columns[:, k].astype(np.int64) for k in range(3))
    own = replace(weights, log_start=reading.weights.log_start)
    of_nodes = np.array(nodes, dtype=np.int64)
    ending = read.accepting[of_nodes]
    where = reading.node[of_nodes], reading.place[of_nodes], np.array(starts, dtype=np.int64), ending
    return _assembled(product, own, where, (source, target_of, below_each, np.log(columns[:, 3])))
