"""Compact encodings: clauses with the meaning of a machine that is too large to list state by state.

One row per kind of leaf in `COMPACT`. Each has to agree with the machine, and tests compare the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from xmen.constraints.arithmetic import COMPARE, LinearComparison
from xmen.constraints.leaf import Leaf
from xmen.constraints.repetition import NoRevisit
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.letters import Letters
from xmen.encoding.walks import WalkLiterals
from xmen.events import NO_ACTION


def _symbols(walk: WalkLiterals, leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """What a leaf reads on each place edge, and at each end place."""
    places, world = walk.places, walk.places.world
    ends = places.state[places.ends]
    on_edges = leaf.symbols(places.state[places.source], world.action[places.edge].astype(np.int64))
    return on_edges, leaf.symbols(ends, np.full(len(ends), NO_ACTION))


def no_state_twice(builder: ClauseBuilder, walk: WalkLiterals, leaf: NoRevisit) -> int:
    """For each world state: no second visit while the event holds, by a running "seen before"."""
    places, (edge_symbols, end_symbols) = walk.places, _symbols(walk, leaf)
    visits: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for station, symbol, literal in zip(
        places.station[places.source].tolist(), edge_symbols.tolist(), walk.used, strict=True
    ):
        visits[symbol][station].append(literal)
    for place, symbol in zip(places.ends.tolist(), end_symbols.tolist(), strict=True):
        visits[symbol][int(places.station[place])].append(walk.visited[place])
    visits.pop(leaf.ELSEWHERE, None)
    twice = []
    for by_station in visits.values():
        seen = builder.FALSE
        for station in sorted(by_station):
            here = builder.any_of(by_station[station])
            twice.append(builder.all_of([seen, here]))
            seen = builder.any_of([seen, here])
    return -builder.any_of(twice)


def compare_sum(builder: ClauseBuilder, walk: WalkLiterals, leaf: LinearComparison) -> int:
    """The sum in binary, positive and negative parts apart, compared at the end."""
    plus, minus = signed_sums(builder, walk, *_symbols(walk, leaf))
    if leaf.bound >= 0:
        minus = builder.sum_of([minus, builder.constant(leaf.bound)])
    else:
        plus = builder.sum_of([plus, builder.constant(-leaf.bound)])
    no_less, no_more = builder.at_least_number(plus, minus), builder.at_least_number(minus, plus)
    # The comparison is decided by the signs of (sum - bound) that it allows.
    compare = COMPARE[leaf.op]
    allowed = []
    if compare(1, 0):
        allowed.append(-no_more)
    if compare(0, 0):
        allowed.append(builder.all_of([no_less, no_more]))
    if compare(-1, 0):
        allowed.append(-no_less)
    return builder.any_of(allowed)


def signed_sums(
    builder: ClauseBuilder, walk: WalkLiterals, edge_values: np.ndarray, end_values: np.ndarray
) -> tuple[list[int], list[int]]:
    """Binary sums of the positive and of the negated negative values along the walk.

    At each station at most one edge is used or the walk ends, so a station adds one number whose bits are ORs.
    """
    letters = Letters(builder, walk)
    values: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (station, value, _), literal in letters.steps(edge_values, unread=0).items():
        values[station].append((value, literal))
    for (station, value), literal in letters.lasts(end_values).items():
        values[station].append((value, literal))
    sums = []
    for sign in (1, -1):
        numbers = []
        for station in sorted(values):
            numbers.append(builder.number_of([(sign * value, literal) for value, literal in values[station]]))
        sums.append(builder.sum_of(numbers))
    return sums[0], sums[1]


# Keyed by exact type: a kind of leaf that inherits from one of these has a machine of its own, and must not take its
# parent's meaning. `Any`: each function reads the type of its own row.
COMPACT: dict[type[Leaf], Callable[[ClauseBuilder, WalkLiterals, Any], int]] = {
    NoRevisit: no_state_twice,
    LinearComparison: compare_sum,
}
