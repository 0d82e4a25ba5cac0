"""Questions about the shape of a world: what can be reached, is there a cycle, how long can a trajectory be."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components


def reachable(source: NDArray[np.int32], target: NDArray[np.int32], roots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the states that can be reached from `roots`, roots included. O(S + E)."""
    n_states = len(roots)
    starts = np.flatnonzero(roots)
    # One extra node points at all roots, so that a single breadth-first search serves them all.
    graph = _graph(
        np.concatenate([source, np.full(len(starts), n_states)]),
        np.concatenate([target, starts]),
        n_states + 1,
    )
    found = np.zeros(n_states + 1, dtype=np.bool_)
    found[breadth_first_order(graph, n_states, return_predecessors=False)] = True
    return found[:n_states]


def find_cycle(source: NDArray[np.int32], target: NDArray[np.int32], among: NDArray[np.bool_]) -> list[int] | None:
    """A cycle among the given states as [s, ..., s], or None. O(S + E)."""
    inside = among[source] & among[target]
    source, target = source[inside], target[inside]
    loops = source[source == target]
    if len(loops):
        return [int(loops[0]), int(loops[0])]
    graph = _graph(source, target, len(among))
    _, component = connected_components(graph, directed=True, connection="strong")
    sizes = np.bincount(component)
    if sizes.max(initial=0) < 2:
        return None
    # In a strongly connected component the shortest way back to any state closes a cycle.
    members = np.flatnonzero(sizes[component] > 1)
    origin = int(members[0])
    parents: dict[int, int] = {}
    queue = deque([origin])
    while True:
        state = queue.popleft()
        for successor in graph.indices[graph.indptr[state] : graph.indptr[state + 1]].tolist():
            if successor == origin:
                cycle = [origin]
                while state != origin:
                    cycle.append(state)
                    state = parents[state]
                return [origin, *reversed(cycle)]
            if component[successor] == component[origin] and successor not in parents:
                parents[successor] = state
                queue.append(successor)


def longest_trajectory(source: NDArray[np.int32], target: NDArray[np.int32], among: NDArray[np.bool_]) -> int:
    """Number of edges on the longest trajectory among the given states, which must hold no cycle.

    Peels off states without predecessors layer by layer: O(S + E), one numpy pass per layer.
    """
    inside = among[source] & among[target]
    source, target = source[inside], target[inside]
    graph = _graph(source, target, len(among))
    incoming = np.bincount(graph.indices, minlength=len(among))
    layer = np.flatnonzero(among & (incoming == 0))
    length = 0
    while True:
        first, last = graph.indptr[layer], graph.indptr[layer + 1]
        counts = last - first
        offsets = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        successors = graph.indices[offsets + np.arange(len(offsets))]
        if not len(successors):
            return length
        touched, times = np.unique(successors, return_counts=True)
        incoming[touched] -= times
        layer = touched[incoming[touched] == 0]
        length += 1


def _graph(source: NDArray[np.integer], target: NDArray[np.integer], n_states: int) -> csr_matrix:
    """Successors as a CSR matrix; parallel edges are merged."""
    graph = csr_matrix((np.ones(len(source), dtype=np.int8), (source, target)), shape=(n_states, n_states))
    graph.data[:] = 1  # merging adds, and hundreds of parallel edges would wrap a small integer to 0
    return graph
