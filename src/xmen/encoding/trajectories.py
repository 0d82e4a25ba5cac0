"""The whole encoding: world and constraint to a formula, and models back to trajectories."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.arithmetic import COMPARE, LinearComparison
from xmen.constraints.constraint import And, Constraint, HowMany, Leaf, Usually, units, usual_rules
from xmen.constraints.repetition import NoRevisit
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.walks import Places, WalkLiterals, encode_walks, find_places
from xmen.errors import READINGS, Message, ProductTooLargeError
from xmen.events import NO_ACTION
from xmen.machines.tables import Index, MachineTable
from xmen.oracles.formula import Bits, Formula
from xmen.sharing import once
from xmen.worlds import MDP, Walks

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
        passes = walk.between(builder, number)
        shown[station, int(values[usual]), following] = builder.all_of([passes, *others[number]])
    return shown


def letters_of_ends(builder: ClauseBuilder, walk: WalkLiterals, symbols: np.ndarray) -> dict[tuple[int, int], int]:
    """(station, symbol) -> literal that the walk ends there, given the symbol of each end place."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place, symbol in zip(walk.places.ends.tolist(), symbols.tolist(), strict=True):
        groups[int(walk.places.station[place]), symbol].append(walk.visited[place])
    return {key: builder.any_of(literals) for key, literals in groups.items()}


# ---- Compact encodings: clauses with the meaning of a machine that is too large to list state by state, one row per
# kind of leaf in `COMPACT`.


def _symbols(walk: WalkLiterals, leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """What a leaf reads on each place edge, and at each end place."""
    places, world = walk.places, walk.places.world
    ends = places.state[places.ends]
    on_edges = leaf.symbols(places.state[places.source], world.action[places.edge].astype(np.int64))
    return on_edges, leaf.symbols(ends, np.full(len(ends), NO_ACTION))


def no_state_twice(builder: ClauseBuilder, walk: WalkLiterals, leaf: NoRevisit) -> int:
    """For each world state: no second visit while the event holds, by a running "seen before"."""
    places, symbols = walk.places, np.concatenate(_symbols(walk, leaf)).tolist()
    stations = places.station[np.concatenate([places.source, places.ends])].tolist()
    literals = [*walk.used, *(walk.visited[place] for place in places.ends.tolist())]
    visits: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for symbol, station, literal in zip(symbols, stations, literals, strict=True):
        visits[symbol][station].append(literal)
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
    minus = builder.sum_of([minus, builder.constant(max(leaf.bound, 0))])
    plus = builder.sum_of([plus, builder.constant(max(-leaf.bound, 0))])
    no_less, no_more = builder.at_least_number(plus, minus), builder.at_least_number(minus, plus)
    # The comparison is decided by the signs of (sum - bound) that it allows.
    signs = ((1, -no_more), (0, builder.all_of([no_less, no_more])), (-1, -no_less))
    return builder.any_of([literal for sign, literal in signs if COMPARE[leaf.op](sign, 0)])


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


# ---- Machines in clauses: one variable per station and machine state, side by side for all leaves


MAX_LISTED = 20_000  # machine states over all stations, up to which a machine is listed state by state
COMPACT_ABOVE = 2_000  # machines that also have a compact encoding are listed only up to this


def encode_leaf(builder: ClauseBuilder, walk: WalkLiterals, leaf: Leaf, required: bool) -> int:
    """A literal that is true exactly when the walk is accepted by the leaf's machine.

    A variable per station and row, exactly one of them where the walk passes; rows left out are forbidden. `required`:
    the leaf has to hold, so that machine states from which it cannot are left out altogether.
    """
    compact = COMPACT.get(type(leaf))
    machine = list_machine(walk.places, leaf, MAX_LISTED if compact is None else COMPACT_ABOVE, required)
    if machine is None:
        if compact is not None:
            return compact(builder, walk, leaf)
        sentence = (
            "{!r} has more than {:,} machine states over the stations of this world, too many to list in clauses, and "
            "no compact encoding. Loosen it, or shorten the horizon."
        )
        raise ProductTooLargeError(Message(sentence, leaf.label, MAX_LISTED))
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
        after = machine.after(station, letter)
        leads = {row: in_state.get((following, then), never) for row, then in after.items()}
        if all(literal == never for literal in leads.values()):
            builder.add([-shown])
            continue
        for row, literal in leads.items():
            builder.add([-in_state[station, row], -shown, literal])
    accepts = builder.variable()
    for (station, letter), shown in letters_of_ends(builder, walk, machine.end_letters).items():
        for row, then in machine.after(station, letter).items():
            verdict = accepts if machine.table.accepting[then] else -accepts
            builder.add([-in_state[station, row], -shown, verdict])
    return accepts


class ListedMachine(NamedTuple):
    """A machine over the stations of a world, with the letters of place edges and of end places."""

    table: MachineTable
    edge_letters: Index
    end_letters: Index
    arriving: dict[int, set[int]]  # the rows that it can be in on arrival at each station

    def after(self, station: int, letter: int) -> dict[int, int]:
        """Where a letter leads from each row at a station."""
        rows = np.array(sorted(self.arriving[station]), dtype=np.int32)
        found = self.table.step(rows, np.full(len(rows), letter, dtype=np.int32))
        return dict(zip(rows.tolist(), found.tolist(), strict=True))


def list_machine(places: Places, leaf: Leaf, cap: int, required: bool = False) -> ListedMachine | None:
    """The rows the machine can be in at each station, if `required` those that may still accept; None past the cap."""
    stations = np.unique(places.station).tolist()
    if len(stations) > cap:
        return None  # at every station it is in one row at least
    table = MachineTable(leaf, places.world)
    edge_letters = table.edge_letters[places.edge]
    end_letters = table.letters[places.state[places.ends], places.world.n_actions]
    arriving: dict[int, set[int]] = {station: set() for station in stations}
    machine = ListedMachine(table, edge_letters, end_letters, arriving)
    for station in places.station[places.starts].tolist():
        arriving[station].add(table.start)
    pairs, index = places.pairs
    n_letters, n_listed = max(1, len(table.symbols)), len(places.starts)
    joined = (divmod(key, n_letters) for key in np.unique(index * n_letters + edge_letters).tolist())
    moves = [(pairs[pair][0], letter, pairs[pair][1]) for pair, letter in joined]  # stations are numbered forward
    for station, letter, following in moves:
        found = set(machine.after(station, letter).values())
        n_listed += len(found - arriving[following])
        arriving[following] |= found
        if n_listed > cap:
            return None
    if not required:
        return machine
    saved: dict[int, set[int]] = {station: set() for station in stations}
    for station, letter in set(zip(places.station[places.ends].tolist(), end_letters.tolist(), strict=True)):
        saved[station] |= {row for row, then in machine.after(station, letter).items() if table.accepting[then]}
    for station, letter, following in reversed(moves):
        saved[station] |= {row for row, then in machine.after(station, letter).items() if then in saved[following]}
    return machine._replace(arriving=saved)


def encode_tree(builder: ClauseBuilder, walk: WalkLiterals, node: Constraint, required: bool = False) -> int:
    """A literal that is true exactly when the walk keeps the constraint; `required`: nothing else is asked for."""
    if isinstance(node, HowMany):
        all_required = required and isinstance(node, And)
        children = [encode_tree(builder, walk, child, all_required) for child in node.children]
        return builder.between(children, *node.bounds)
    if isinstance(node, Usually):
        return builder.TRUE
    assert isinstance(node, Leaf)
    return encode_leaf(builder, walk, node, required)


# ---- From hash bits to trajectories and back: what the variables that carry the parities stand for


class WalkDecoder(ABC):
    """One choice of hash variables ('states', 'edges' or 'bits'), whose `width` bits stand for a trajectory."""

    kind: str
    variables: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of bits."""
        return len(self.variables)

    @abstractmethod
    def decode(self, bits: Bits) -> Walks:
        """The trajectories of rows of hash bits (n, width)."""

    @abstractmethod
    def encode(self, walks: Walks) -> Bits:
        """The rows of hash bits of trajectories."""


class StateDecoder(WalkDecoder):
    """One bit per place of an acyclic world, in topological order: whether it is visited."""

    kind = "states"

    def __init__(self, walk: WalkLiterals) -> None:
        self._places, self.variables = walk.places, tuple(walk.visited)
        joins = walk.places.source * self.width + walk.places.target  # two places are joined by one edge at most
        order = np.argsort(joins)
        self._joins, self._edges = joins[order], walk.places.edge[order].astype(np.int32)

    def decode(self, bits: Bits) -> Walks:
        owner, place = np.nonzero(bits)
        offsets = np.searchsorted(owner, np.arange(len(bits) + 1))
        steps = np.flatnonzero(owner[1:] == owner[:-1])
        edges = self._edges[np.searchsorted(self._joins, place[steps] * self.width + place[steps + 1])]
        starts = self._places.state[place[offsets[:-1]]]
        return Walks(self._places.world, starts, edges, offsets - np.arange(len(offsets)))

    def encode(self, walks: Walks) -> Bits:
        place_of = np.full(walks.world.n_states, -1)
        place_of[self._places.state] = np.arange(self.width)
        bits = np.zeros((len(walks), self.width), dtype=np.bool_)
        bits[np.repeat(np.arange(len(walks)), walks.lengths + 1), place_of[walks.states()]] = True
        return bits


class EdgeDecoder(WalkDecoder):
    """One bit per edge of an acyclic world, sources in topological order, and one per start that is an end."""

    kind = "edges"

    def __init__(self, walk: WalkLiterals) -> None:
        self._places = walk.places
        self._both = np.intersect1d(walk.places.starts, walk.places.ends)
        self.variables = (*walk.used, *(walk.visited[p] for p in self._both.tolist()))

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
        used = np.zeros((len(walks), len(places.edge)), dtype=np.bool_)
        used[walks.owner, column[walks.edges]] = True
        return np.hstack([used, walks.state_rows()[:, places.state[self._both]].toarray() > 0])


class BitDecoder(WalkDecoder):
    """Binary numbers: of the start among all starts, and of the edge taken at each time among those of its state."""

    kind = "bits"

    def __init__(self, builder: ClauseBuilder, walk: WalkLiterals) -> None:
        places, world = walk.places, walk.places.world
        self._world, self._start_states = world, places.state[places.starts]
        # Of each number, the literals that say so: of the start, and of the edge at each time.
        chosen = [list(enumerate(walk.visited[p] for p in places.starts.tolist()))]
        rank, times = places.edge - world.row_start[world.source[places.edge]], places.station[places.source]
        for t in range(places.n_stations - 1):
            chosen.append([(int(rank[e]), walk.used[e]) for e in np.flatnonzero(times == t).tolist()])
        self._widths = [max((number for number, _ in numbers), default=0).bit_length() for numbers in chosen]
        self._first = np.concatenate([[0], np.cumsum(self._widths)]).astype(np.int64)
        self.variables = tuple(
            builder.fresh_any_of(literal for number, literal in numbers if number >> bit & 1)
            for numbers, width in zip(chosen, self._widths, strict=True)
            for bit in range(width)
        )

    def decode(self, bits: Bits) -> Walks:
        world, horizon = self._world, len(self._widths) - 1
        index = bits[:, : self._widths[0]].astype(np.int64) @ (1 << np.arange(self._widths[0]))
        starts = self._start_states[index].astype(np.int32)
        edges = np.zeros((len(bits), horizon), dtype=np.int32)
        lengths = np.empty(len(bits), dtype=np.int32)
        _follow_numbers(bits, self._first, starts, world.row_start, world.target, world.terminal, edges, lengths)
        return Walks.padded(world, starts, edges, lengths)

    def encode(self, walks: Walks) -> Bits:
        world = self._world
        place_of = np.full(world.n_states, 0)
        place_of[self._start_states] = np.arange(len(self._start_states))
        bits = np.zeros((len(walks), self.width), dtype=np.bool_)
        numbers = walks.as_rows(walks.edges - world.row_start[world.source[walks.edges]])
        for i, number in enumerate((place_of[walks.starts], *numbers.T)):
            bits[:, self._first[i] : self._first[i + 1]] = number[:, None] >> np.arange(self._widths[i]) & 1
        return bits


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
        self.usual = [encode_tree(self._builder, self.walk, one.rule) for one in usual_rules(constraint)]
        joined = np.stack([self.places.source, self.places.target], axis=1)
        self.decoder: WalkDecoder
        if self.places.timed:
            self.decoder = BitDecoder(self._builder, self.walk)
        elif len(np.unique(joined, axis=0)) == len(joined):
            self.decoder = StateDecoder(self.walk)
        else:
            self.decoder = EdgeDecoder(self.walk)

    @once
    def formula(self) -> Formula:
        """The clauses with every constraint required."""
        return Formula(self._builder.n_variables, self._builder.clauses, self.decoder.variables)

    def with_assumptions(self) -> tuple[Formula, list[int]]:
        """The world and the machines, and a literal per constraint (as `units` has them) that may be assumed or not."""
        builder = ClauseBuilder()
        walk = encode_walks(builder, self.places)
        literals = [encode_tree(builder, walk, part) for _, part in units(self.constraint)]
        return Formula(builder.n_variables, builder.clauses, ()), literals

    def with_thresholds(
        self,
        edge_values: NDArray[np.int64],
        start_values: NDArray[np.int64],
        thresholds: list[int],
        rule_values: Sequence[int] = (),
    ) -> tuple[Formula, list[int]]:
        """The formula with a literal per threshold, true exactly when the walk's integer sum is at most it.

        edge_values: one integer per place edge; start_values: one per start place; rule_values: one per rule that is
        usually kept. One adder serves all thresholds.
        """
        builder = self._builder.copy()
        walk, places = self.walk, self.places
        end_values = np.zeros(len(places.ends), dtype=np.int64)
        plus, minus = signed_sums(builder, walk, edge_values, end_values)
        for sign, sums in ((1, plus), (-1, minus)):
            number = builder.number_of([(sign * v, b) for v, b in zip(start_values.tolist(), walk.begins, strict=True)])
            kept = zip(rule_values, self.usual[: len(rule_values)], strict=True)
            sums[:] = builder.sum_of([list(sums), number, *(builder.number_of([(sign * v, b)]) for v, b in kept)])
        literals = []
        for threshold in thresholds:
            more = builder.sum_of([minus, builder.constant(max(threshold, 0))])
            less = builder.sum_of([plus, builder.constant(max(-threshold, 0))])
            literals.append(builder.at_least_number(more, less))
        return Formula(builder.n_variables, builder.clauses, self.decoder.variables), literals
