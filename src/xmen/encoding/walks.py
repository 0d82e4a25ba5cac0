"""Trajectories as walks through an acyclic graph of places, in clauses.

A place is a world state where the world has no cycles (and the horizon does not bind), otherwise a state at a
time. Places that exclude each other share a station: all that lie equally many moves from the starts on the longest
way, or all places of one time. A walk passes a station at most once, and edges lead to later ones. Machines and hash
bits are attached to stations, so that they are counted per station and not per place.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xmen.encoding.builder import ClauseBuilder
from xmen.errors import require_horizon
from xmen.worlds.kernels import UNREACHABLE, distance_to, topological_order
from xmen.worlds.mdp import MDP

EDGE_BYTES = 400  # of clauses for each transition of the world at each time


@dataclass(frozen=True)
class Places:
    """The graph of places that complete trajectories can pass, numbered so that every edge goes forward."""

    world: MDP
    timed: bool
    state: NDArray[np.int64]  # (P,) world state of each place
    station: NDArray[np.int64]  # (P,)
    starts: NDArray[np.int64]  # places at which trajectories start
    ends: NDArray[np.int64]  # places at which they end
    source: NDArray[np.int64]  # (E,) places
    target: NDArray[np.int64]  # (E,)
    edge: NDArray[np.int64]  # (E,) the world edge

    @cached_property
    def pairs(self) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
        """The pairs (station, next station) that edges join, in the order of stations; and each edge's among them."""
        n = self.n_stations
        values, index = np.unique(self.station[self.source] * n + self.station[self.target], return_inverse=True)
        return [divmod(value, n) for value in values.tolist()], index

    @property
    def n_stations(self) -> int:
        return int(self.station.max(initial=-1)) + 1


def find_places(world: MDP, timed: bool | None = None) -> Places:
    """States as places where there are ends, no cycles and no binding horizon, else (or if `timed`) states at times."""
    if timed or (timed is None and not (world.acyclic and world.has_terminal)):
        return _timed_places(world)
    # States on some way from a start to a terminal state, whatever the horizon, in topological order.
    useful = distance_to(world.start > 0, world.target, world.source) < UNREACHABLE
    useful &= distance_to(world.terminal, world.source, world.target) < UNREACHABLE
    kept = useful[world.source] & useful[world.target]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(world.source[kept], minlength=world.n_states))])
    order, longest = topological_order(indptr.astype(np.uint32), world.target[kept].astype(np.uint32))
    order = order[useful[order]].astype(np.int64)
    if timed is None and world.horizon is not None and longest[order].max(initial=0) > world.horizon:
        return _timed_places(world)
    number = np.full(world.n_states, -1)
    number[order] = np.arange(len(order))
    edges = np.flatnonzero((number[world.source] >= 0) & (number[world.target] >= 0))
    edges = edges[np.argsort(number[world.source[edges]], kind="stable")]
    starts, ends = (number[some & (number >= 0)] for some in (world.start > 0, world.terminal))
    source, target = number[world.source[edges]], number[world.target[edges]]
    return Places(world, False, order, longest[order].astype(np.int64), starts, ends, source, target, edges)


def _timed_places(world: MDP) -> Places:
    horizon, source, target = world.max_length, world.source, world.target
    require_horizon(horizon, EDGE_BYTES * len(source) * horizon)
    # passed[t]: states that complete trajectories can be in after t actions; first those that lead to an end.
    passed = np.tile(world.terminal, (horizon + 1, 1))
    passed[horizon] |= not world.has_terminal
    for t in reversed(range(horizon)):
        passed[t, source[passed[t + 1][target]]] = True
    passed[0] &= world.start > 0
    for t in range(horizon):
        reached = np.zeros(world.n_states, dtype=np.bool_)
        reached[target[(passed[t] & ~world.terminal)[source]]] = True
        passed[t + 1] &= reached
    place = np.cumsum(passed).reshape(passed.shape) - 1
    time, state = np.nonzero(passed)
    leaves, edge = np.nonzero((passed[:-1] & ~world.terminal)[:, source] & passed[1:, target])
    starts = np.flatnonzero(time == 0)
    ends = np.flatnonzero(world.terminal[state] if world.has_terminal else time == horizon)
    joined = place[leaves, source[edge]], place[leaves + 1, target[edge]]
    return Places(world, True, state, time, starts, ends, *joined, edge)


@dataclass(frozen=True)
class WalkLiterals:
    """The literals of a walk: the places that it visits, the edges between them, and the start at which it begins."""

    places: Places
    visited: list[int]
    used: list[int]
    begins: list[int]  # per start place: it is visited, and not entered from another place

    def between(self, builder: ClauseBuilder, pair: int) -> int:
        """Whether the walk goes from the one station to the other, a pair of `places.pairs`."""
        return builder.once(pair, lambda: builder.any_of([self.used[e] for e in self._edges_of_pairs[pair].tolist()]))

    @cached_property
    def _edges_of_pairs(self) -> list[NDArray[np.int64]]:
        index = self.places.pairs[1]
        return np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])

    def active(self, builder: ClauseBuilder, station: int) -> int:
        """Whether the walk passes the station."""
        return builder.any_of([self.visited[p] for p in np.flatnonzero(self.places.station == station)])


def encode_walks(builder: ClauseBuilder, places: Places) -> WalkLiterals:
    """Clauses whose models are exactly the walks from a start place to an end place."""
    visited = builder.variables(len(places.state))
    used = builder.variables(len(places.edge))
    out, into = ([list[int]() for _ in visited] for _ in range(2))
    for literal, p, q in zip(used, places.source.tolist(), places.target.tolist(), strict=True):
        out[p].append(literal)
        into[q].append(literal)
    starts, ends = set(places.starts.tolist()), set(places.ends.tolist())
    builder.add([visited[p] for p in sorted(starts)])
    for p, place in enumerate(visited):
        if p not in ends:
            builder.exactly_one_iff(place, out[p])
        if p not in starts:
            builder.exactly_one_iff(place, into[p])
        elif into[p]:
            # A start that other places lead to: the walk enters it at most once, and only if it did not start here.
            for literal in into[p]:
                builder.add([-literal, place])
            builder.at_most_one(into[p])
    begins = [builder.all_of([visited[p], *(-literal for literal in into[p])]) for p in places.starts.tolist()]
    builder.add(begins)
    builder.at_most_one(begins)
    return WalkLiterals(places, visited, used, begins)
