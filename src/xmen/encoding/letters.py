"""What a machine reads, as literals: which letter the walk shows at which station."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.walks import WalkLiterals


@dataclass
class Letters:
    """What the walk shows at each station: a literal per (station, symbol, next station), and per last position.

    Symbols are whatever a leaf reads; literals for equal sets of edges are shared between leaves by the builder.
    """

    builder: ClauseBuilder
    walk: WalkLiterals

    def steps(self, symbols: np.ndarray, unread: int | None = None) -> dict[tuple[int, int, int], int]:
        """(station, symbol, next station) -> literal, given the symbol of each place edge.

        Most leaves see the same symbol nearly everywhere: that one is shown where the walk goes from station to station
        and shows no other, so that a leaf costs as many literals as it has edges that mean something to it. If it is
        the one that nobody reads, it is left out: thousands of counters would go over all moves for nothing.
        """
        places = self.walk.places
        if not len(symbols):
            return {}
        values, kinds = np.unique(symbols, return_inverse=True)
        usual = int(np.argmax(np.bincount(kinds)))
        pairs, index = places.pairs
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for e in np.flatnonzero(kinds != usual).tolist():
            groups[int(index[e]), int(kinds[e])].append(self.walk.used[e])
        shown, others = dict[tuple[int, int, int], int](), defaultdict[int, list[int]](list)
        for (number, kind), literals in groups.items():
            literal = self.builder.any_of(literals)
            others[number].append(-literal)
            shown[pairs[number][0], int(values[kind]), pairs[number][1]] = literal
        if int(values[usual]) == unread:
            return shown
        for number in np.unique(index[kinds == usual]).tolist():
            station, following = pairs[number]
            passes = self.walk.between(self.builder, station, following)
            shown[station, int(values[usual]), following] = self.builder.all_of([passes, *others[number]])
        return shown

    def lasts(self, symbols: np.ndarray) -> dict[tuple[int, int], int]:
        """(station, symbol) -> literal that the walk ends there, given the symbol of each end place."""
        places = self.walk.places
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, symbol in zip(places.ends.tolist(), symbols.tolist(), strict=True):
            groups[int(places.station[place]), symbol].append(self.walk.visited[place])
        return {key: self.builder.any_of(literals) for key, literals in groups.items()}
