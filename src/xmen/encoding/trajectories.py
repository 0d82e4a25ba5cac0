"""The whole encoding: world and constraint to a formula, and models back to trajectories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint, units
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.compact import signed_sums
from xmen.encoding.decoding import BitDecoder, EdgeDecoder, StateDecoder, WalkDecoder
from xmen.encoding.machines import encode_tree
from xmen.encoding.walks import Places, WalkLiterals, encode_walks, find_places
from xmen.errors import ProductTooLargeError
from xmen.limits import READINGS
from xmen.oracles.formula import Formula
from xmen.sharing import once
from xmen.worlds import MDP


class Encoding:
    """A world and a constraint in clauses, whose models are the valid trajectories, one to one.

    Parities range over the variables that determine the trajectory: visited states where no two edges join the
    same states, used edges otherwise, or, in worlds with cycles, bits that number the start and the edge taken
    at each time among those that leave the state (zero after the end).
    """

    def __init__(self, world: MDP, constraint: Constraint | None, timed: bool | None = None) -> None:
        self.world = world
        self.constraint = constraint
        self.places: Places = find_places(world, timed)
        n_leaves = 0 if constraint is None else sum(1 for _ in constraint.leaves())
        what = f"writing {n_leaves:,} machines over {len(self.places.edge):,} moves as clauses"
        READINGS.require(n_leaves * len(self.places.edge), what, ProductTooLargeError, "Shorten the horizon")
        self._builder = ClauseBuilder()
        self.walk: WalkLiterals = encode_walks(self._builder, self.places)
        for _, unit in units(constraint):
            self._builder.add([encode_tree(self._builder, self.walk, unit, required=True)])
        self.decoder, self._hash_variables = self._choose_hash_variables()

    @property
    def hashes(self) -> str:
        """Which variables carry the parities: 'states', 'edges' or 'bits'."""
        return self.decoder.kind

    @once
    def formula(self) -> Formula:
        """The clauses with every constraint required."""
        return Formula(self._builder.n_variables, self._builder.clauses, self._hash_variables)

    def with_assumptions(self) -> tuple[Formula, list[int]]:
        """The world and the machines, and a literal per constraint (as `units` has them) that may be assumed or not."""
        builder = ClauseBuilder()
        walk = encode_walks(builder, self.places)
        literals = [encode_tree(builder, walk, part) for _, part in units(self.constraint)]
        return Formula(builder.n_variables, builder.clauses, ()), literals

    def with_thresholds(
        self, edge_values: NDArray[np.int64], start_values: NDArray[np.int64], thresholds: list[int]
    ) -> tuple[Formula, list[int]]:
        """The formula with a literal per threshold, true exactly when the walk's integer sum is at most it.

        edge_values: one integer per place edge; start_values: one per start place. One adder serves all thresholds.
        """
        builder = self._builder.copy()
        walk, places = self.walk, self.places
        end_values = np.zeros(len(places.ends), dtype=np.int64)
        plus, minus = signed_sums(builder, walk, edge_values, end_values)
        begins = [
            builder.all_of([walk.visited[p], *(-walk.used[e] for e in np.flatnonzero(places.target == p))])
            for p in places.starts.tolist()
        ]
        for sign, sums in ((1, plus), (-1, minus)):
            number = builder.number_of([(sign * v, b) for v, b in zip(start_values.tolist(), begins, strict=True)])
            sums[:] = builder.sum_of([list(sums), number])
        literals = []
        for threshold in thresholds:
            more = builder.sum_of([minus, builder.constant(threshold)]) if threshold > 0 else minus
            less = builder.sum_of([plus, builder.constant(-threshold)]) if threshold < 0 else plus
            literals.append(builder.at_least_number(more, less))
        return Formula(builder.n_variables, builder.clauses, self._hash_variables), literals

    def _choose_hash_variables(self) -> tuple[WalkDecoder, tuple[int, ...]]:
        places, walk = self.places, self.walk
        if places.timed:
            bits = BitDecoder(places)
            return bits, bits.variables(self._builder, walk)
        joined = np.unique(np.stack([places.source, places.target], axis=1), axis=0)
        if len(joined) == len(places.edge):
            return StateDecoder(places), tuple(walk.visited)
        edges = EdgeDecoder(places)
        return edges, edges.variables(walk)
