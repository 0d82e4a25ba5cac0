"""From hash bits to trajectories and back: what the variables that carry the parities stand for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.walks import Places, WalkLiterals
from xmen.oracles.formula import Bits
from xmen.worlds.walks import Walks


class WalkDecoder(ABC):
    """One choice of hash variables; `width` bits per trajectory."""

    kind: str
    width: int

    @abstractmethod
    def decode(self, bits: Bits) -> Walks:
        """The trajectories of rows of hash bits (n, width)."""

    @abstractmethod
    def encode(self, walks: Walks) -> Bits:
        """The rows of hash bits of trajectories."""


class StateDecoder(WalkDecoder):
    """One bit per place of an acyclic world, in topological order: whether it is visited."""

    kind = "states"

    def __init__(self, places: Places) -> None:
        self._places = places
        self.width = places.n_places
        self._indptr = np.searchsorted(places.source, np.arange(places.n_places + 1))
        self._of_state = np.full(places.world.n_states, -1)
        self._of_state[places.state] = np.arange(places.n_places)

    def decode(self, bits: Bits) -> Walks:
        places = self._places
        longest = max(int(bits.sum(axis=1).max(initial=1)) - 1, 0)
        edges = np.zeros((len(bits), longest), dtype=np.int32)
        first = _follow_visited(bits, self._indptr, places.target, places.edge, edges)
        lengths = bits.sum(axis=1).astype(np.int32) - 1
        return Walks.padded(places.world, places.state[first], edges, lengths)

    def encode(self, walks: Walks) -> Bits:
        bits = np.zeros((len(walks), self.width), dtype=np.bool_)
        rows = np.arange(len(walks))
        bits[rows, self._of_state[walks.starts]] = True
        bits[walks.owner, self._of_state[walks.world.target[walks.edges]]] = True
        return bits


class EdgeDecoder(WalkDecoder):
    """One bit per edge of an acyclic world, sources in topological order, and one per start that is an end."""

    kind = "edges"

    def __init__(self, places: Places) -> None:
        self._places = places
        self._both = np.intersect1d(places.starts, places.ends)
        self.width = len(places.edge) + len(self._both)

    def variables(self, walk: WalkLiterals) -> tuple[int, ...]:
        """The hash variables."""
        return (*walk.used, *(walk.visited[p] for p in self._both.tolist()))

    def decode(self, bits: Bits) -> Walks:
        places = self._places
        used = bits[:, : len(places.edge)]
        lengths = used.sum(axis=1).astype(np.int32)
        edges, offsets = places.edge[np.nonzero(used)[1]], np.concatenate([[0], np.cumsum(lengths)])
        starts = np.empty(len(bits), dtype=np.int32)
        moving = lengths > 0
        starts[moving] = places.world.source[edges[offsets[:-1][moving]]]
        if not moving.all():
            starts[~moving] = places.state[self._both[np.argmax(bits[~moving, len(places.edge) :], axis=1)]]
        return Walks(places.world, starts, edges, offsets)

    def encode(self, walks: Walks) -> Bits:
        places = self._places
        column = np.full(len(places.world.source), -1)
        column[places.edge] = np.arange(len(places.edge))
        bits = np.zeros((len(walks), self.width), dtype=np.bool_)
        bits[walks.owner, column[walks.edges]] = True
        visited = np.zeros((len(walks), places.world.n_states), dtype=np.bool_)
        visited[np.arange(len(walks)), walks.starts] = True
        visited[walks.owner, places.world.target[walks.edges]] = True
        bits[:, len(places.edge) :] = visited[:, places.state[self._both]]
        return bits


class BitDecoder(WalkDecoder):
    """Binary numbers: of the start among all starts, and of the edge taken at each time among those of its state."""

    kind = "bits"

    def __init__(self, places: Places) -> None:
        world = places.world
        self._places = places
        self._start_states = places.state[places.starts]
        self._rank = places.edge - world.row_start[world.source[places.edge]]
        times = places.station[places.source]
        self._widths = [max(len(places.starts) - 1, 0).bit_length()]
        for t in range(places.n_stations - 1):
            self._widths.append(int(self._rank[times == t].max(initial=0)).bit_length())
        self._first = np.concatenate([[0], np.cumsum(self._widths)]).astype(np.int64)
        self.width = int(self._first[-1])

    def variables(self, builder: ClauseBuilder, walk: WalkLiterals) -> tuple[int, ...]:
        """Define the bits as ORs of starts and edges."""
        places, out = self._places, []
        for bit in range(self._widths[0]):
            out.append([walk.visited[p] for i, p in enumerate(places.starts.tolist()) if i >> bit & 1])
        times = places.station[places.source]
        for t, width in enumerate(self._widths[1:]):
            here = np.flatnonzero(times == t)
            for bit in range(width):
                out.append([walk.used[e] for e in here.tolist() if self._rank[e] >> bit & 1])
        return tuple(builder.fresh_any_of(literals) for literals in out)

    def decode(self, bits: Bits) -> Walks:
        world = self._places.world
        horizon = len(self._widths) - 1
        index = _numbers(bits, 0, int(self._first[1]))
        starts = self._start_states[index].astype(np.int32)
        edges = np.zeros((len(bits), horizon), dtype=np.int32)
        lengths = np.empty(len(bits), dtype=np.int32)
        _follow_numbers(bits, self._first, starts, world.row_start, world.target, world.terminal, edges, lengths)
        return Walks.padded(world, starts, edges, lengths)

    def encode(self, walks: Walks) -> Bits:
        world = self._places.world
        place_of = np.full(world.n_states, 0)
        place_of[self._start_states] = np.arange(len(self._start_states))
        bits = np.zeros((len(walks), self.width), dtype=np.bool_)
        _write_number(bits, place_of[walks.starts], 0, int(self._first[1]))
        numbers = walks.as_rows(walks.edges - world.row_start[world.source[walks.edges]])
        for t in range(numbers.shape[1]):
            _write_number(bits, numbers[:, t], int(self._first[t + 1]), int(self._first[t + 2]))
        return bits


def _numbers(bits: Bits, begin: int, end: int) -> NDArray[np.int64]:
    out = np.zeros(len(bits), dtype=np.int64)
    for bit in range(end - begin):
        out |= bits[:, begin + bit].astype(np.int64) << bit
    return out


def _write_number(bits: Bits, numbers: NDArray[np.int64], begin: int, end: int) -> None:
    for bit in range(end - begin):
        bits[:, begin + bit] = numbers >> bit & 1


@compiled
def _follow_visited(bits: Any, indptr: Any, target: Any, edge: Any, edges: Any) -> Any:
    """Join visited places in topological order; returns the first place of each row."""
    first = np.zeros(len(bits), dtype=np.int64)
    for i in range(len(bits)):
        previous, t = -1, 0
        for place in range(bits.shape[1]):
            if not bits[i, place]:
                continue
            if previous < 0:
                first[i] = place
            else:
                for e in range(indptr[previous], indptr[previous + 1]):
                    if target[e] == place:
                        edges[i, t] = edge[e]
                t += 1
            previous = place
    return first


@compiled
def _follow_numbers(
    bits: Any, first: Any, starts: Any, row_start: Any, target: Any, terminal: Any, edges: Any, lengths: Any
) -> None:
    """Take the numbered edge of each state in turn, until a terminal state or the horizon."""
    horizon = len(first) - 2
    for i in range(len(bits)):
        state, t = starts[i], 0
        while t < horizon and not terminal[state]:
            number = 0
            for j in range(first[t + 1], first[t + 2]):
                if bits[i, j]:
                    number |= 1 << (j - first[t + 1])
            edges[i, t] = row_start[state] + number
            state = target[edges[i, t]]
            t += 1
        lengths[i] = t
