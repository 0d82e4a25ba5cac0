"""The whole encoding: world and constraint to a formula, and models back to trajectories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.arithmetic import COMPARE, LinearComparison
from xmen.constraints.constraint import And, Constraint, HowMany, Leaf, units
from xmen.constraints.repetition import NoRevisit
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.walks import Places, WalkLiterals, encode_walks, find_places
from xmen.errors import READINGS, ProductTooLargeError
from xmen.events import NO_ACTION
from xmen.machines.tables import Index, MachineTable
from xmen.oracles.formula import Bits, Formula
from xmen.sharing import once
from xmen.worlds import MDP
from xmen.worlds.walks import Walks

# ---- What a machine reads, as literals: which letter the walk shows at which station


def letters_of_steps(
    builder: ClauseBuilder, walk: WalkLiterals, symbols: np.ndarray, unread: int | None = None
) -> dict[tuple[int, int, int], int]:
    """(station, symbol, next station) -> literal that the walk shows it, given the symbol of each place edge.

    Most leaves see the same symbol nearly everywhere: that one is shown where the walk goes from station to station
    and shows no other, so that a leaf costs as many literals as it has edges that mean something to it. If it is
    the one that nobody reads, it is left out: thousands of counters would go over all moves for nothing. Literals for
    equal sets of edges are shared between leaves by the builder.
    """
    if not len(symbols):
        return {}
    values, kinds = np.unique(symbols, return_inverse=True)
    usual = int(np.argmax(np.bincount(kinds)))
    pairs, index = walk.places.pairs
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for e in np.flatnonzero(kinds != usual).tolist():
        groups[int(index[e]), int(kinds[e])].append(walk.used[e])
    shown, others = dict[tuple[int, int, int], int](), defaultdict[int, list[int]](list)
    for (number, kind), literals in groups.items():
        literal = builder.any_of(literals)
        others[number].append(-literal)
        shown[pairs[number][0], int(values[kind]), pairs[number][1]] = literal
    if int(values[usual]) == unread:
        return shown
    for number in np.unique(index[kinds == usual]).tolist():
        station, following = pairs[number]
        passes = walk.between(builder, station, following)
        shown[station, int(values[usual]), following] = builder.all_of([passes, *others[number]])
    return shown


def letters_of_ends(builder: ClauseBuilder, walk: WalkLiterals, symbols: np.ndarray) -> dict[tuple[int, int], int]:
    """(station, symbol) -> literal that the walk ends there, given the symbol of each end place."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, symbol in zip(walk.places.ends.tolist(), symbols.tolist(), strict=True):
        groups[int(walk.places.station[place]), symbol].append(walk.visited[place])
    return {key: builder.any_of(literals) for key, literals in groups.items()}


# ---- Compact encodings: clauses with the meaning of a machine that is too large to list state by state.
#
# One row per kind of leaf in `COMPACT`. Each has to agree with the machine, and tests compare the two.


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
    values: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (station, value, _), literal in letters_of_steps(builder, walk, edge_values, unread=0).items():
        values[station].append((value, literal))
    for (station, value), literal in letters_of_ends(builder, walk, end_values).items():
        values[station].append((value, literal))
    sums = []
    for sign in (1, -1):
        signed = ([(sign * value, literal) for value, literal in values[station]] for station in sorted(values))
        sums.append(builder.sum_of([builder.number_of(one) for one in signed]))
    return sums[0], sums[1]


# Keyed by exact type: a kind of leaf that inherits from one of these has a machine of its own, and must not take its
# parent's meaning. `Any`: each function reads the type of its own row.
COMPACT: dict[type[Leaf], Callable[[ClauseBuilder, WalkLiterals, Any], int]] = {
    NoRevisit: no_state_twice,
    LinearComparison: compare_sum,
}


# ---- Machines in clauses: one variable per station and machine state, side by side for all leaves.
#
# A machine too large to list takes its compact encoding instead (see `COMPACT`), or is refused.


MAX_LISTED = 20_000  # machine states over all stations, up to which a machine is listed state by state
COMPACT_ABOVE = 2_000  # machines that also have a compact encoding are listed only up to this


def encode_leaf(builder: ClauseBuilder, walk: WalkLiterals, leaf: Leaf, required: bool) -> int:
    """A literal that is true exactly when the walk is accepted by the leaf's machine.

    `required`: the leaf has to hold, so that machine states from which it cannot are left out altogether.
    """
    compact = COMPACT.get(type(leaf))
    machine = list_machine(walk, leaf, MAX_LISTED if compact is None else COMPACT_ABOVE)
    if machine is not None:
        return _encode_machine(builder, walk, machine.trimmed() if required else machine)
    if compact is not None:
        return compact(builder, walk, leaf)
    raise ProductTooLargeError(
        f"{leaf.label!r} has more than {MAX_LISTED:,} machine states over the stations of this world, too many to "
        "list in clauses, and no compact encoding. Loosen it, or shorten the horizon."
    )


@dataclass(frozen=True)
class ListedMachine:
    """A machine over the stations of a world: which rows it can be in on arrival, and where letters lead."""

    table: MachineTable
    edge_letters: Index  # per place edge
    end_letters: Index  # per end place
    moves: list[tuple[int, int, int]]  # (station, letter, next station), in the order of stations
    ends: list[tuple[int, int]]  # (station, letter) of last positions
    arriving: dict[int, set[int]]  # station -> rows

    def next_row(self, row: int, letter: int) -> int:
        """Where a letter leads."""
        return int(self.table.step(np.array([row], dtype=np.int32), np.array([letter], dtype=np.int32))[0])

    def accepts(self, row: int, letter: int) -> bool:
        """Whether a trajectory may end with this letter as its last."""
        ended = self.next_row(row, letter)  # first: it may make the table grow
        return bool(self.table.accepting[ended])

    def trimmed(self) -> ListedMachine:
        """Only rows from which acceptance can still be reached."""
        saved: dict[int, set[int]] = {station: set() for station in self.arriving}
        for station, letter in self.ends:
            saved[station] |= {row for row in self.arriving[station] if self.accepts(row, letter)}
        for station, letter, following in reversed(self.moves):
            here = self.arriving[station] - saved[station]
            saved[station] |= {row for row in here if self.next_row(row, letter) in saved[following]}
        return replace(self, arriving=saved)


def list_machine(walk: WalkLiterals, leaf: Leaf, cap: int) -> ListedMachine | None:
    """Every row the machine can be in at every station; None past the cap."""
    places = walk.places
    if len(np.unique(places.station)) > cap:
        return None  # at every station it is in one row at least
    table = MachineTable(leaf, places.world)
    edge_letters = table.edge_letters[places.edge]
    end_letters = table.letters[places.state[places.ends], places.world.n_actions]
    pairs, index = places.pairs
    n_letters = max(1, len(table.symbols))
    joined = (divmod(key, n_letters) for key in np.unique(index * n_letters + edge_letters).tolist())
    moves = [(pairs[pair][0], letter, pairs[pair][1]) for pair, letter in joined]
    ending = np.stack([places.station[places.ends], end_letters], axis=1)
    ends = [(int(a), int(b)) for a, b in np.unique(ending, axis=0)]
    arriving: dict[int, set[int]] = {int(s): set() for s in np.unique(places.station)}
    for station in places.station[places.starts].tolist():
        arriving[station].add(table.start)
    n_listed = len(places.starts)
    for station, letter, following in moves:  # stations are numbered forward
        rows = np.array(sorted(arriving[station]), dtype=np.int32)
        found = set(table.step(rows, np.full(len(rows), letter, dtype=np.int32)).tolist())
        n_listed += len(found - arriving[following])
        arriving[following] |= found
        if n_listed > cap:
            return None
    return ListedMachine(table, edge_letters, end_letters, moves, ends, arriving)


def _encode_machine(builder: ClauseBuilder, walk: WalkLiterals, machine: ListedMachine) -> int:
    """A variable per station and row, exactly one of them where the walk passes; rows left out are forbidden."""
    in_state: dict[tuple[int, int], int] = {}
    for station, rows in machine.arriving.items():
        active = walk.active(builder, station)
        literals = [active] if len(rows) == 1 else builder.variables(len(rows))
        in_state.update({(station, row): literal for row, literal in zip(sorted(rows), literals, strict=True)})
        if len(rows) != 1:
            builder.exactly_one_iff(active, literals)
    never, places = builder.FALSE, walk.places
    for station, begins in zip(places.station[places.starts].tolist(), walk.begins, strict=True):
        builder.add([-begins, in_state.get((station, machine.table.start), never)])
    for (station, letter, following), shown in letters_of_steps(builder, walk, machine.edge_letters).items():
        rows = machine.arriving[station]
        leads = {row: in_state.get((following, machine.next_row(row, letter)), never) for row in rows}
        if all(literal == never for literal in leads.values()):
            builder.add([-shown])
            continue
        for row, literal in leads.items():
            builder.add([-in_state[station, row], -shown, literal])
    accepts = builder.variable()
    for (station, letter), shown in letters_of_ends(builder, walk, machine.end_letters).items():
        for row in machine.arriving[station]:
            verdict = accepts if machine.accepts(row, letter) else -accepts
            builder.add([-in_state[station, row], -shown, verdict])
    return accepts


def encode_tree(builder: ClauseBuilder, walk: WalkLiterals, node: Constraint, required: bool = False) -> int:
    """A literal that is true exactly when the walk keeps the constraint; `required`: nothing else is asked for."""
    if isinstance(node, HowMany):
        all_required = required and isinstance(node, And)
        children = [encode_tree(builder, walk, child, all_required) for child in node.children]
        return builder.between(children, node.least, node.most)
    assert isinstance(node, Leaf)
    return encode_leaf(builder, walk, node, required)


# ---- From hash bits to trajectories and back: what the variables that carry the parities stand for


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
        bits[np.arange(len(walks)), self._of_state[walks.starts]] = True
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
        index = bits[:, : self._widths[0]].astype(np.int64) @ (1 << np.arange(self._widths[0]))
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
        numbers = walks.as_rows(walks.edges - world.row_start[world.source[walks.edges]])
        for i, number in enumerate((place_of[walks.starts], *numbers.T)):
            bits[:, self._first[i] : self._first[i + 1]] = number[:, None] >> np.arange(self._widths[i]) & 1
        return bits


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


# ---- The whole encoding: world and constraint to a formula, and models back to trajectories


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
        self.decoder, self._hash_variables = _choose_hash_variables(self._builder, self.walk)

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
        for sign, sums in ((1, plus), (-1, minus)):
            number = builder.number_of([(sign * v, b) for v, b in zip(start_values.tolist(), walk.begins, strict=True)])
            sums[:] = builder.sum_of([list(sums), number])
        literals = []
        for threshold in thresholds:
            more = builder.sum_of([minus, builder.constant(threshold)]) if threshold > 0 else minus
            less = builder.sum_of([plus, builder.constant(-threshold)]) if threshold < 0 else plus
            literals.append(builder.at_least_number(more, less))
        return Formula(builder.n_variables, builder.clauses, self._hash_variables), literals


def _choose_hash_variables(builder: ClauseBuilder, walk: WalkLiterals) -> tuple[WalkDecoder, tuple[int, ...]]:
    places = walk.places
    if places.timed:
        bits = BitDecoder(places)
        return bits, bits.variables(builder, walk)
    joined = np.unique(np.stack([places.source, places.target], axis=1), axis=0)
    if len(joined) == len(places.edge):
        return StateDecoder(places), tuple(walk.visited)
    edges = EdgeDecoder(places)
    return edges, edges.variables(walk)
