"""Machines in clauses: one variable per station and machine state, side by side for all leaves.

A machine too large to list takes its compact encoding instead (see `compact`), or is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xmen.constraints.constraint import And, Constraint, HowMany
from xmen.constraints.leaf import Leaf
from xmen.encoding.builder import ClauseBuilder
from xmen.encoding.compact import COMPACT
from xmen.encoding.letters import Letters
from xmen.encoding.walks import WalkLiterals
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import Index, MachineTable

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
    letters, never = Letters(builder, walk), builder.FALSE
    for station in {int(s) for s in walk.places.station[walk.places.starts]}:
        _start_in(builder, walk, station, in_state.get((station, machine.table.start), never))
    for (station, letter, following), shown in letters.steps(machine.edge_letters).items():
        rows = machine.arriving[station]
        leads = {row: in_state.get((following, machine.next_row(row, letter)), never) for row in rows}
        if all(literal == never for literal in leads.values()):
            builder.add([-shown])
            continue
        for row, literal in leads.items():
            builder.add([-in_state[station, row], -shown, literal])
    accepts = builder.variable()
    for (station, letter), shown in letters.lasts(machine.end_letters).items():
        for row in machine.arriving[station]:
            verdict = accepts if machine.accepts(row, letter) else -accepts
            builder.add([-in_state[station, row], -shown, verdict])
    return accepts


def _start_in(builder: ClauseBuilder, walk: WalkLiterals, station: int, literal: int) -> None:
    """A walk that begins at this station begins in the machine's start state."""
    places = walk.places
    for place in places.starts.tolist():
        if places.station[place] != station:
            continue
        entering = [walk.used[e] for e in np.flatnonzero(places.target == place)]
        builder.add([literal, -walk.visited[place], *entering])


def encode_tree(builder: ClauseBuilder, walk: WalkLiterals, node: Constraint, required: bool = False) -> int:
    """A literal that is true exactly when the walk keeps the constraint; `required`: nothing else is asked for."""
    if isinstance(node, HowMany):
        all_required = required and isinstance(node, And)
        children = [encode_tree(builder, walk, child, all_required) for child in node.children]
        return builder.between(children, node.least, node.most)
    assert isinstance(node, Leaf)
    return encode_leaf(builder, walk, node, required)
