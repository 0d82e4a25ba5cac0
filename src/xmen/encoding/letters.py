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

    def steps(self, symbols: np.ndarray) -> dict[tuple[int, int, int], int]:
        """(station, symbol, next station) -> literal, given the symbol of each place edge."""
        places = self.walk.places
        groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        stations = zip(
            places.station[places.source].tolist(),
            symbols.tolist(),
            places.station[places.target].tolist(),
            self.walk.used,
            strict=True,
        )
        for station, symbol, following, literal in stations:
            groups[station, symbol, following].append(literal)
        return {key: self.builder.any_of(literals) for key, literals in groups.items()}

    def lasts(self, symbols: np.ndarray) -> dict[tuple[int, int], int]:
        """(station, symbol) -> literal that the walk ends there, given the symbol of each end place."""
        places = self.walk.places
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, symbol in zip(places.ends.tolist(), symbols.tolist(), strict=True):
            groups[int(places.station[place]), symbol].append(self.walk.visited[place])
        return {key: self.builder.any_of(literals) for key, literals in groups.items()}
