"""Trajectories as walks through an acyclic graph of places, in clauses.

A place is a world state where the world has no cycles (and the horizon does not bind), otherwise a state at a
time. Places that exclude each other share a station: a place by itself, or all places of one time. Machines are
attached to stations, so that their size is counted per station and not per place.
"""

from __future__ import annotations

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

    @property
    def n_places(self) -> int:
        """The number of places."""
        return len(self.state)

    @cached_property
    def pairs(self) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
        """The pairs (station, next station) that edges join, in the order of stations; and each edge's among them."""
        n = self.n_stations
        values, index = np.unique(self.station[self.source] * n + self.station[self.target], return_inverse=True)
        return [divmod(value, n) for value in values.tolist()], index

    @property
    def n_stations(self) -> int:
        """The number of stations."""
        return int(self.station.max(initial=-1)) + 1


def find_places(world: MDP, timed: bool | None = None) -> Places:
    """The smaller graph that is exact: states alone where that is enough, states at times otherwise."""
    if timed is None:
        timed = not states_suffice(world)
    return _timed_places(world) if timed else _state_places(world)


def states_suffice(world: MDP) -> bool:
    """Whether a world state is a place by itself: no cycles, terminal states, and a horizon that does not bind."""
    if not (world.acyclic and world.has_terminal):
        return False
    if world.horizon is None:
        return True
    order, longest = _useful_order(world)
    return len(order) == 0 or int(longest[order].max()) <= world.horizon


def _useful_order(world: MDP) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """States on some way from a start to a terminal state, whatever the horizon, in topological order; and the longest
    walk to each state of the world."""
    useful = distance_to(world.start > 0, world.target, world.source) < UNREACHABLE
    useful &= distance_to(world.terminal, world.source, world.target) < UNREACHABLE
    kept = useful[world.source] & useful[world.target]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(world.source[kept], minlength=world.n_states))])
    order, longest = topological_order(indptr.astype(np.uint32), world.target[kept].astype(np.uint32))
    order = order.astype(np.int64)
    return order[useful[order]], longest


def _state_places(world: MDP) -> Places:
    order, _ = _useful_order(world)
    number = np.full(world.n_states, -1)
    number[order] = np.arange(len(order))
    edges = np.flatnonzero((number[world.source] >= 0) & (number[world.target] >= 0))
    edges = edges[np.argsort(number[world.source[edges]], kind="stable")]
    return Places(
        world=world,
        timed=False,
        state=order,
        station=np.arange(len(order)),
        starts=number[np.flatnonzero((world.start > 0) & (number >= 0))],
        ends=number[np.flatnonzero(world.terminal & (number >= 0))],
        source=number[world.source[edges]],
        target=number[world.target[edges]],
        edge=edges,
    )


def _timed_places(world: MDP) -> Places:
    horizon, n_states = world.max_length, world.n_states
    require_horizon(horizon, EDGE_BYTES * len(world.source) * horizon)
    terminal = world.terminal if world.has_terminal else np.zeros(n_states, dtype=np.bool_)
    # can[t]: a trajectory that is in the state after t actions can still be completed.
    can = [world.terminal if world.has_terminal else np.ones(n_states, dtype=np.bool_)]
    for _ in range(horizon):
        later = can[-1]
        now = terminal.copy()
        now[world.source[later[world.target]]] = True
        can.append(now)
    can.reverse()
    here: NDArray[np.int64] = np.flatnonzero((world.start > 0) & can[0])
    state, station, sources, targets, edges, ends = [here], [np.zeros(len(here), dtype=np.int64)], [], [], [], []
    first = 0
    for t in range(horizon + 1):
        last = terminal[here] if world.has_terminal else np.full(len(here), t == horizon)
        ends.append(first + np.flatnonzero(last))
        if t == horizon:
            break
        place_of = np.full(n_states, -1)
        place_of[here[~last]] = first + np.flatnonzero(~last)
        leaving = np.flatnonzero((place_of[world.source] >= 0) & can[t + 1][world.target])
        there = np.unique(world.target[leaving]).astype(np.int64)
        first += len(here)
        arrives = np.full(n_states, -1)
        arrives[there] = first + np.arange(len(there))
        sources.append(place_of[world.source[leaving]])
        targets.append(arrives[world.target[leaving]])
        edges.append(leaving)
        here = there
        state.append(here)
        station.append(np.full(len(here), t + 1))
    empty = np.empty(0, dtype=np.int64)
    return Places(
        world=world,
        timed=True,
        state=np.concatenate(state).astype(np.int64),
        station=np.concatenate(station).astype(np.int64),
        starts=np.arange(len(state[0])),
        ends=np.concatenate([empty, *ends]).astype(np.int64),
        source=np.concatenate([empty, *sources]).astype(np.int64),
        target=np.concatenate([empty, *targets]).astype(np.int64),
        edge=np.concatenate([empty, *edges]).astype(np.int64),
    )


@dataclass(frozen=True)
class WalkLiterals:
    """The literals of a walk: the places that it visits, the edges between them, and the start at which it begins."""

    places: Places
    visited: list[int]
    used: list[int]
    begins: list[int]  # per start place: it is visited, and not entered from another place

    def between(self, builder: ClauseBuilder, station: int, following: int) -> int:
        """Whether the walk goes from the one station to the other."""
        edges = self._between[station, following]
        return builder.once(("between", station, following), lambda: builder.any_of([self.used[e] for e in edges]))

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[int]]:
        pairs, index = self.places.pairs
        ordered, ends = np.argsort(index, kind="stable"), np.cumsum(np.bincount(index, minlength=len(pairs)))
        parts = np.split(ordered, ends[:-1]) if len(pairs) else []
        return {pair: part.tolist() for pair, part in zip(pairs, parts, strict=True)}

    def active(self, builder: ClauseBuilder, station: int) -> int:
        """Whether the walk passes the station."""
        return builder.any_of([self.visited[p] for p in np.flatnonzero(self.places.station == station)])


def encode_walks(builder: ClauseBuilder, places: Places) -> WalkLiterals:
    """Clauses whose models are exactly the walks from a start place to an end place."""
    visited = builder.variables(places.n_places)
    used = builder.variables(len(places.edge))
    out: list[list[int]] = [[] for _ in visited]
    into: list[list[int]] = [[] for _ in visited]
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
