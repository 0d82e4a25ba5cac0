"""The whole encoding: world and constraint to a formula, and models back to trajectories."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from xmen.compiled import compiled
from xmen.constraints.arithmetic import COMPARE, LinearComparison
from xmen.constraints.constraint import And, Constraint, HowMany, Leaf, Usually, units, usual_rules
from xmen.constraints.repetition import NoRevisit
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.walks import Places, WalkLiterals, encode_walks, find_places
from xmen.errors import READINGS, Message, ProductTooLargeError
from xmen.events import NO_ACTION, Ints
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
        if len(by_station) < 2:
            continue
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


# ---- Machines whose letters commute: it matters how often a walk shows them, not when. They are read letter by
# letter in place of station by station. So `visit` is one clause over the places where its event holds, `count` a
# cardinality constraint, and so is any machine that has the same states, whoever wrote it.

MAX_ROWS, MAX_LETTERS = 200, 64  # of a machine that is looked at


def in_any_order(builder: ClauseBuilder, walk: WalkLiterals, machine: "ReadMachine") -> int | None:
    """A literal for acceptance, by how often letters are shown; None where order matters, or costs less to write."""
    groups = commuting_letters(machine)
    if groups is None:
        return None
    shown = [list(positions(walk, machine, letters).values()) for letters, _ in groups]

    def results(row: int, i: int) -> list[int]:
        """The rows after letter i is read 0, 1, 2, ... times, up to the first that stays, or to all its stations."""
        found, after = [row], groups[i][1]
        while len(found) <= len(shown[i]) and after[found[-1]] != found[-1]:
            found.append(after[found[-1]])
        return found

    stages, most = [{machine.table.start}], list[int]()
    for i in range(len(groups)):
        chains = [results(row, i) for row in sorted(stages[-1])]
        most.append(max(map(len, chains)) - 1)
        stages.append(set().union(*chains))
    n_rows, n_stations = len(groups[0][1]) if groups else 1, len(np.unique(walk.places.station))
    if sum(k * len(stations) for k, stations in zip(most, shown, strict=True)) > n_rows * n_stations:
        return None
    # One literal of all where the number does not matter, else one per station.
    flat = (
        [x for one in stations for x in one] if k <= 1 else map(builder.any_of, stations)
        for k, stations in zip(most, shown, strict=True)
    )
    reached = [builder.counted(list(literals), k) for literals, k in zip(flat, most, strict=True)]
    accepts = {row: builder.TRUE if machine.table.accepting[row] else builder.FALSE for row in stages[-1]}
    for i in reversed(range(len(groups))):
        before = dict[int, int]()
        for row in stages[i]:
            verdicts = [accepts[then] for then in results(row, i)]
            before[row] = verdicts[-1]
            for k in reversed(range(len(verdicts) - 1)):
                if verdicts[k] != verdicts[k + 1]:
                    before[row] = builder.choose(reached[i][k + 1], before[row], verdicts[k])
        accepts = before
    return accepts[machine.table.start]


def commuting_letters(machine: "ReadMachine") -> list[tuple[list[int], dict[int, int]]] | None:
    """Letters that change anything, in groups that do the same, and what these do to a row; None if order matters."""
    letters = np.unique(np.concatenate([machine.edge_letters, machine.end_letters])).tolist()
    after: dict[int, dict[int, int]] = {letter: {} for letter in letters}
    rows, new = {machine.table.start}, {machine.table.start}
    while new:
        if len(rows) > MAX_ROWS or len(letters) > MAX_LETTERS:
            return None
        asked = np.array(sorted(new), dtype=np.int32)
        for letter, known in after.items():
            found = machine.table.step(asked, np.full(len(asked), letter, dtype=np.int32))
            known |= zip(asked.tolist(), found.tolist(), strict=True)
        new = {then for known in after.values() for then in known.values()} - rows
        rows |= new
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for letter, known in after.items():
        groups[tuple(known[row] for row in sorted(rows))].append(letter)
    groups.pop(tuple(sorted(rows)), None)  # what changes nothing
    read = [(members, after[members[0]]) for members in groups.values()]
    pairs = ((one, other) for i, (_, one) in enumerate(read) for _, other in read[:i])
    return None if any(one[other[row]] != other[one[row]] for one, other in pairs for row in rows) else read


def positions(walk: WalkLiterals, machine: "ReadMachine", letters: list[int]) -> dict[int, list[int]]:
    """Per station, literals of which one is true exactly where the walk shows one of the letters there."""
    places, shown = walk.places, np.isin(machine.edge_letters, letters)
    n_places = len(places.state)
    always = np.bincount(places.source[~shown], minlength=n_places) == 0  # whatever the move: the visit says it
    always[places.ends] = np.isin(machine.end_letters, letters)
    found: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(always).tolist():
        found[int(places.station[place])].append(walk.visited[place])
    for edge in np.flatnonzero(shown & ~always[places.source]).tolist():
        found[int(places.station[places.source[edge]])].append(walk.used[edge])
    return found


# ---- Machines in clauses: one variable per station and machine state, side by side for all leaves

MAX_LISTED = 20_000  # machine states over all stations, up to which a machine is listed state by state
COMPACT_ABOVE = 2_000  # machines that also have a compact encoding are listed only up to this


def encode_leaf(builder: ClauseBuilder, walk: WalkLiterals, leaf: Leaf, required: bool) -> int:
    """A literal that is true exactly when the walk is accepted by the leaf's machine.

    If not in any order: a variable per station and row, exactly one of them where the walk passes; rows left out are
    forbidden. `required`: the leaf has to hold, so that machine states from which it cannot are left out altogether.
    """
    compact, read = COMPACT.get(type(leaf)), read_machine(walk.places, leaf)
    direct = in_any_order(builder, walk, read)
    if direct is not None:
        return direct
    machine = list_machine(walk.places, read, MAX_LISTED if compact is None else COMPACT_ABOVE, required)
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


class ReadMachine(NamedTuple):
    """A machine with the letters that it reads on place edges and at end places."""

    table: MachineTable
    edge_letters: Index
    end_letters: Index


def read_machine(places: Places, leaf: Leaf) -> ReadMachine:
    """The leaf's machine over the world of these places."""
    table = MachineTable(leaf, places.world)
    at_ends = table.letters[places.state[places.ends], places.world.n_actions]
    return ReadMachine(table, table.edge_letters[places.edge], at_ends)


class ListedMachine(NamedTuple):
    """A machine over the stations of a world."""

    table: MachineTable
    edge_letters: Index
    end_letters: Index
    arriving: dict[int, set[int]]  # the rows that it can be in on arrival at each station

    def after(self, station: int, letter: int) -> dict[int, int]:
        """Where a letter leads from each row at a station."""
        rows = np.array(sorted(self.arriving[station]), dtype=np.int32)
        found = self.table.step(rows, np.full(len(rows), letter, dtype=np.int32))
        return dict(zip(rows.tolist(), found.tolist(), strict=True))


def list_machine(places: Places, read: ReadMachine, cap: int, required: bool = False) -> ListedMachine | None:
    """The rows the machine can be in at each station, if `required` those that may still accept; None past the cap."""
    stations = np.unique(places.station).tolist()
    if len(stations) > cap:
        return None  # at every station it is in one row at least
    table, edge_letters, end_letters = read
    arriving: dict[int, set[int]] = {station: set() for station in stations}
    machine = ListedMachine(*read, arriving)
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
    return builder.once((node, required), lambda: encode_leaf(builder, walk, node, required))


def require_tree(builder: ClauseBuilder, walk: WalkLiterals, node: Constraint, holds: bool = True) -> None:
    """Clauses for "the walk keeps the constraint", or does not: without a literal for what they say themselves."""
    if not isinstance(node, HowMany):
        literal = encode_tree(builder, walk, node, required=holds)
        builder.add([literal if holds else -literal])
        return
    n, (least, most) = len(node.children), node.bounds
    if not holds:
        if 0 < least <= n and most < n:  # too few, or too many: two ways to fail
            builder.add([-encode_tree(builder, walk, node)])
            return
        least, most = (0, least - 1) if most >= n else (most + 1, n)
    if least == n or most == 0:
        for child in node.children:
            require_tree(builder, walk, child, holds=least == n)
    else:
        builder.require_between([encode_tree(builder, walk, child) for child in node.children], least, most)


# ---- From hash bits to trajectories and back: what the variables that carry the parities stand for

PLACES_BELOW = 0.48  # of the bits that number trajectories: where log2 of all is less, visited places carry parities


class WalkDecoder(Protocol):
    """What stands for a trajectory: `width` bits, which these variables of the formula have."""

    variables: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of bits."""
        return len(self.variables)

    def decode(self, bits: Bits) -> Walks:
        """The trajectories of rows of hash bits (n, width)."""

    def encode(self, walks: Walks) -> Bits:
        """The rows of hash bits of trajectories."""


def decoder_of(builder: ClauseBuilder, walk: WalkLiterals, log2_count: float) -> WalkDecoder:
    """Visited places where these tell trajectories apart, which are few; else numbers, of fewer bits.

    In whole cells of grids of 7x7 to 13x13 CryptoMiniSat reads 1.1 to 3.3 times as many solutions per second with
    places where log2 of all is at most 0.46 of the bits of numbers, and 0.4 to 0.9 times from 0.53 of them on.
    """
    places, leaving = walk.places, np.bincount(walk.places.source, minlength=len(walk.places.state))
    most = np.ones(places.n_stations + 1)
    most[-1] = max(len(places.starts), 1)
    np.maximum.at(most, places.station, leaving)
    joins = places.source * len(places.state) + places.target
    apart = not places.timed and len(np.unique(joins)) == len(joins)
    few = log2_count < PLACES_BELOW * np.ceil(np.log2(most)).sum()
    return PlaceDecoder(walk, joins) if apart and few else NumberDecoder(builder, walk)


class PlaceDecoder(WalkDecoder):
    """A bit per place of an acyclic world: whether it is visited."""

    def __init__(self, walk: WalkLiterals, joins: Ints) -> None:
        self._places, self.variables = walk.places, tuple(walk.visited)
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


class NumberDecoder(WalkDecoder):
    """Binary numbers: of the start among all starts, and at each station of the edge among those that leave its place.

    All are 0 where the walk does not pass.
    """

    def __init__(self, builder: ClauseBuilder, walk: WalkLiterals) -> None:
        places = self._places = walk.places
        self._stations = places.station[places.source]
        self._first_edge = np.searchsorted(places.source, np.arange(len(places.state)))
        self._rank = np.arange(len(places.edge)) - self._first_edge[places.source]
        # Of each number, the literals that say so.
        chosen = [list(enumerate(walk.begins))]
        chosen += [[] for _ in range(places.n_stations - 1)]
        for station, rank, literal in zip(self._stations.tolist(), self._rank.tolist(), walk.used, strict=True):
            chosen[station + 1].append((rank, literal))
        widths = [max((number for number, _ in numbers), default=0).bit_length() for numbers in chosen]
        self._first_bit = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.variables = tuple(
            builder.fresh_any_of(
                [literal for number, literal in numbers if number >> bit & 1],
                none=[literal for number, literal in numbers if not number >> bit & 1],
            )
            for numbers, width in zip(chosen, widths, strict=True)
            for bit in range(width)
        )

    def decode(self, bits: Bits) -> Walks:
        places = self._places
        first = places.starts[bits[:, : self._first_bit[1]].astype(np.int64) @ (1 << np.arange(self._first_bit[1]))]
        taken = np.zeros((len(bits), max(places.n_stations - 1, 0)), dtype=np.int32)
        lengths, leaving = np.empty(len(bits), dtype=np.int32), np.bincount(places.source, minlength=len(places.state))
        graph = self._first_edge, leaving, places.station, places.target
        _follow_numbers(bits, self._first_bit, first, graph, taken, lengths)
        starts, edges = (column.astype(np.int32) for column in (places.state[first], places.edge[taken]))
        return Walks.padded(places.world, starts, edges, lengths)

    def encode(self, walks: Walks) -> Bits:
        places = self._places
        n_edges = len(places.world.source)
        keys = places.edge + self._stations * (n_edges if places.timed else 0)
        order = np.argsort(keys)
        wanted = walks.edges + walks.time * (n_edges if places.timed else 0)
        column = order[np.searchsorted(keys[order], wanted)]
        start_of = np.zeros(walks.world.n_states, dtype=np.int64)
        start_of[places.state[places.starts]] = np.arange(len(places.starts))
        first, bits = self._first_bit, np.zeros((len(walks), self.width), dtype=np.bool_)
        begun, none = np.arange(len(walks)), np.full(len(walks), -1)
        owner, station = np.concatenate([begun, walks.owner]), np.concatenate([none, self._stations[column]])
        number = np.concatenate([start_of[walks.starts], self._rank[column]])
        for bit in range(int(np.diff(first).max())):
            on = (number >> bit & 1).astype(np.bool_)
            bits[owner[on], first[station[on] + 1] + bit] = True
        return bits


@compiled
def _follow_numbers(bits: Any, first_bit: Any, starts: Any, graph: Any, taken: Any, lengths: Any) -> None:
    """Take the numbered edge of each place in turn, until one that none leaves."""
    first_edge, leaving, station, target = graph
    for i in range(len(bits)):
        place, t = starts[i], 0
        while leaving[place]:
            number = 0
            for j in range(first_bit[station[place] + 1], first_bit[station[place] + 2]):
                if bits[i, j]:
                    number |= 1 << (j - first_bit[station[place] + 1])
            taken[i, t] = first_edge[place] + number
            place = target[taken[i, t]]
            t += 1
        lengths[i] = t


class Encoding:
    """A world and a constraint in clauses, whose models are the valid trajectories, one to one.

    Parities range over the variables of `decoder_of`; log2_count: of a number that trajectories do not exceed.
    """

    def __init__(
        self, world: MDP, constraint: Constraint | None, timed: bool | None = None, log2_count: float = math.inf
    ) -> None:
        self.world = world
        self.constraint = constraint
        self.places: Places = find_places(world, timed)
        n_leaves = 0 if constraint is None else sum(1 for _ in constraint.leaves())
        what = f"writing {n_leaves:,} machines over {len(self.places.edge):,} moves as clauses"
        READINGS.require(n_leaves * len(self.places.edge), what, ProductTooLargeError, "Shorten the horizon")
        self._builder = ClauseBuilder()
        self.walk: WalkLiterals = encode_walks(self._builder, self.places)
        for _, unit in units(constraint):
            require_tree(self._builder, self.walk, unit)
        self.usual = [encode_tree(self._builder, self.walk, one.rule) for one in usual_rules(constraint)]
        self.decoder = decoder_of(self._builder, self.walk, log2_count)

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
        self, edge_values: Ints, start_values: Ints, thresholds: list[int], rule_values: Sequence[int] = ()
    ) -> tuple[Formula, list[int]]:
        """The formula with a literal per threshold, true exactly when the walk's integer sum is at most it.

        edge_values: one integer per place edge; start_values: one per start place; rule_values: one per rule that is
        usually kept. One adder serves all thresholds. It adds what the walk loses at each station against the best that
        was possible there: the sum is the highest possible one less all losses, most of which are 0.
        """
        builder, places = self._builder.copy(), self.places
        source, target = places.source.tolist(), places.target.tolist()
        best = np.full(len(places.state), np.iinfo(np.int64).min)
        best[places.ends] = 0
        for source_, target_, value in zip(source[::-1], target[::-1], edge_values.tolist()[::-1], strict=True):
            best[source_] = max(best[source_], value + best[target_])
        firsts = start_values + best[places.starts]
        highest = int(firsts.max()) + sum(max(value, 0) for value in rule_values)
        lowest = max(highest - min(thresholds, default=highest), 0)  # more need not be told apart
        losses: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        lost = np.minimum(best[places.source] - edge_values - best[places.target], lowest)
        stations = places.station[places.source].tolist()
        for station, loss, literal in zip(stations, lost.tolist(), self.walk.used, strict=True):
            losses[station][loss].append(literal)
        numbers = [
            [(loss, builder.any_of(literals)) for loss, literals in by_loss.items() if loss]
            for _, by_loss in sorted(losses.items())
        ]
        numbers.append(list(zip(np.minimum(firsts.max() - firsts, lowest).tolist(), self.walk.begins, strict=True)))
        kept = zip(rule_values, self.usual[: len(rule_values)], strict=True)
        numbers += [[(abs(value), -literal if value > 0 else literal)] for value, literal in kept]
        total = builder.sum_of([builder.number_of(number) for number in numbers])
        literals = [builder.at_least_number(total, builder.constant(max(highest - one, 0))) for one in thresholds]
        return Formula(builder.n_variables, builder.clauses, self.decoder.variables), literals
