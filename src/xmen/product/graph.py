"""The product of a world and the machines of a constraint: every trajectory through it is a valid prefix.

A node is (world state, one table row per machine), the machines having read all earlier positions. Nodes are
found breadth-first in whole frontiers and numbered in the order of their depth, so that the nodes a trajectory
can have reached after t actions are always a prefix of all nodes. Then everything that lies on no way from a
start to acceptance within the horizon is dropped.
"""

import math
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.constraint import Constraint, Usually, conjunction, units
from xmen.errors import Message, ProductTooLargeError, joined, require_horizon
from xmen.machines.tables import ROW_FAILS, ROW_HOLDS, CompiledConstraint, MachineTable
from xmen.sharing import once
from xmen.worlds.kernels import UNREACHABLE, distance_to, topological_order
from xmen.worlds.mdp import MDP, UNBOUNDED


@compiled
def _hash(row: Any) -> Any:
    h = np.uint64(0x9E3779B97F4A7C15)
    for value in row:
        h = (h ^ np.uint64(value)) * np.uint64(0xBF58476D1CE4E5B9)
        h ^= h >> np.uint64(29)
    return h


@compiled
def intern_rows(candidates: Any, slots: Any, nodes: Any, n_nodes: int) -> Any:
    """Number each candidate row, giving new rows the next free numbers; needs room for all of them.

    slots: open-addressing table of node numbers (-1 empty), a power of two long. nodes: the rows by number.
    """
    mask = np.uint64(len(slots) - 1)
    width = candidates.shape[1]
    numbers = np.empty(len(candidates), dtype=np.uint32)
    for i in range(len(candidates)):
        slot = _hash(candidates[i]) & mask
        while True:
            node = slots[slot]
            if node < 0:
                for j in range(width):
                    nodes[n_nodes, j] = candidates[i, j]
                slots[slot] = node = n_nodes
                n_nodes += 1
                break
            same = True
            for j in range(width):
                if nodes[node, j] != candidates[i, j]:
                    same = False
                    break
            if same:
                break
            slot = (slot + np.uint64(1)) & mask
        numbers[i] = node
    return numbers, n_nodes


@compiled
def moves_of(states: Any, row_start: Any, terminal: Any) -> Any:
    """Every world edge that leaves each of these states: positions in `states`, and edge numbers."""
    total = 0
    for s in states:
        if not terminal[s]:
            total += row_start[s + 1] - row_start[s]
    sources = np.empty(total, dtype=np.int32)
    edges = np.empty(total, dtype=np.uint32)
    k = 0
    for i in range(len(states)):
        s = states[i]
        if not terminal[s]:
            for e in range(row_start[s], row_start[s + 1]):
                sources[k] = i
                edges[k] = e
                k += 1
    return sources, edges


@compiled
def prune(indptr: Any, target: Any, edge: Any, depth: Any, distance: Any, horizon: int) -> Any:
    """Drop nodes and edges that lie on no way from a start to acceptance within the horizon; keep the order."""
    n = len(depth)
    number = np.full(n, -1, dtype=np.int64)
    kept = 0
    for i in range(n):
        if depth[i] + distance[i] <= horizon:
            number[i] = kept
            kept += 1
    new_indptr = np.zeros(kept + 1, dtype=np.uint32)
    new_target = np.empty(len(target), dtype=np.uint32)
    new_edge = np.empty(len(target), dtype=np.uint32)
    k = 0
    for i in range(n):
        if number[i] < 0:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            j = target[e]
            if number[j] >= 0 and depth[i] + 1 + distance[j] <= horizon:
                new_target[k] = number[j]
                new_edge[k] = edge[e]
                k += 1
        new_indptr[number[i] + 1] = k
    return number, new_indptr, new_target[:k].copy(), new_edge[:k].copy()


@compiled
def alive_before(indptr: Any, target: Any, alive: Any) -> Any:
    """Whether some edge of each node leads to an alive one."""
    out = np.zeros(len(indptr) - 1, dtype=np.bool_)
    for node in range(len(out)):
        for e in range(indptr[node], indptr[node + 1]):
            if alive[target[e]]:
                out[node] = True
                break
    return out


# ---- Rows of a product: a growing set of them, and one step from a frontier to the next


class Ground(NamedTuple):
    """The graph that machines are multiplied with: a world, or a product over it, whose nodes then stand for states."""

    row_start: NDArray[np.int64]
    target: NDArray[Any]
    terminal: NDArray[np.bool_]  # nodes that trajectories do not leave
    starts: NDArray[Any]
    ends: NDArray[np.bool_]  # nodes at which trajectories may end
    state: NDArray[np.int32]  # the world state of each node
    edge: NDArray[np.uint32] | None  # the world edge of each edge; None where it is that edge itself
    to_end: NDArray[np.int32] | None  # the distance of each node to an end; None where all that can happen is wanted
    keeps: NDArray[np.bool_]  # which rules that are usually kept hold where a trajectory ends at each node (n, k)


def ground_of(world: MDP, goals: NDArray[np.bool_] | None) -> Ground:
    """The graph of a world, with the distances of states to goals, or without these."""
    to_end = None if goals is None else distance_to(goals, world.source, world.target)
    starts, states = np.flatnonzero(world.start > 0).astype(np.int32), np.arange(world.n_states, dtype=np.int32)
    edges, keeps = (world.row_start, world.target, world.terminal), np.zeros((len(states), 0), dtype=np.bool_)
    return Ground(*edges, starts, ends_of(world), states, None, to_end, keeps)


class Nodes:
    """A growing set of rows (state, machine rows ...), numbered as they come."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((1024, width), dtype=np.int32)
        self.slots = np.full(4096, -1, dtype=np.int32)
        self.n = 0

    def add(self, candidates: NDArray[np.int32]) -> NDArray[np.uint32]:
        """The number of each candidate row, new rows included."""
        most = self.n + len(candidates)
        if most > len(self.rows):
            grown = np.empty((max(most, 2 * len(self.rows)), self.rows.shape[1]), dtype=np.int32)
            grown[: self.n] = self.rows[: self.n]
            self.rows = grown
        if 2 * most > len(self.slots):
            self.slots = np.full(1 << (2 * most).bit_length(), -1, dtype=np.int32)
            intern_rows(self.rows[: self.n], self.slots, self.rows, 0)
        numbers, self.n = intern_rows(candidates, self.slots, self.rows, self.n)
        return numbers  # type: ignore[no-any-return]


def expand(
    compiled: CompiledConstraint, machines: "Sequence[Steps]", frontier: NDArray[np.int32], left: int, ground: Ground
) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.int32]]:
    """All edges of these nodes: the source's place among them, the edge of the ground, the target's row.

    With distances to an end, only edges from whose targets an end is at most `left` actions away, and only targets that
    may still be saved.
    """
    sources, edges = moves_of(frontier[:, 0], ground.row_start, ground.terminal)
    if ground.to_end is not None:
        near = ground.to_end[ground.target[edges]] <= left
        sources, edges = sources[near], edges[near]
    rows = np.empty((len(edges), frontier.shape[1]), dtype=np.int32)
    rows[:, 0] = ground.target[edges]
    below = edges if ground.edge is None else ground.edge[edges]
    for i, machine in enumerate(machines):
        rows[:, 1 + i] = machine.step(frontier[sources, 1 + i], machine.edge_letters[below])
    alive = compiled.settle(rows)
    if ground.to_end is not None and not alive.all():
        sources, edges, rows = sources[alive], edges[alive], rows[alive]
    return sources, edges, rows


# ---- How large a product is at least, by walking through it at random instead of listing it

WALKERS_PER_ROOT = 16  # so many times the square root of a number of nodes show that number, if half of them end early
LARGEST_TABLE = 2_000  # machine states up to which a machine keeps its table
LONGEST_WALK = 16  # actions of a walker
SLOWEST_GROWTH = 1.1  # per action, below which walking on will not show more
FEWEST_WALKERS = 1_000  # with fewer left alive nothing is known


class Generation:
    """One machine's states at one depth: numbered as they come, and forgotten with it.

    A table would keep every state that any walker ever met, each with a row for all letters: too much if it is large.
    """

    def __init__(self, table: MachineTable, states: list[Hashable]) -> None:
        self._table, self._states, self.edge_letters = table, states, table.edge_letters
        self._after = [table.states[ROW_FAILS], table.states[ROW_HOLDS]]
        self._number = {state: row for row, state in enumerate(self._after)}
        self._known: dict[int, int] = {}

    def step(self, rows: NDArray[np.int32], letters: NDArray[np.int32]) -> NDArray[np.int32]:
        """The successor of each (row, letter), as a row of the generation after this one."""
        n_letters, known = len(self._table.symbols), self._known
        keys, inverse = np.unique(rows.astype(np.int64) * n_letters + letters, return_inverse=True)
        for key in keys.tolist():
            if key not in known:
                row, letter = divmod(key, n_letters)
                state = self._table.leaf.advance(self._states[row], self._table.symbols[letter])
                known[key] = self._number.setdefault(state, len(self._after))
                if known[key] == len(self._after):
                    self._after.append(state)
        return np.array([known[key] for key in keys.tolist()], dtype=np.int32)[inverse]

    def following(self) -> "Generation":
        """The next depth."""
        return Generation(self._table, self._after)


Steps = MachineTable | Generation


def estimate_nodes(
    compiled: CompiledConstraint, frontier: NDArray[np.int32], actions_left: int, enough: int, ground: Ground
) -> int:
    """A number of nodes that the product is almost sure to have; 0 where nothing is known.

    Walkers start at random nodes of the frontier and choose among their edges at random. After k actions they are
    independent draws from some distribution p over the nodes that the search would find there. N of them meet in
    N (N - 1) / 2 sum p^2 pairs on average, and sum p^2 >= 1 / (number of nodes): few meetings mean many nodes, as with
    birthdays. C + 3 sqrt(C) + 5 instead of the C meetings that were seen leaves room for chance.

    Stops at the first depth that shows `enough`, and where the numbers no longer grow from depth to depth.
    """
    rng = np.random.default_rng(0)  # the answer must not depend on when it was asked
    rows = frontier[rng.integers(len(frontier), size=int(WALKERS_PER_ROOT * np.sqrt(enough)))]
    machines: list[Steps] = [Generation(t, t.states) if len(t) > LARGEST_TABLE else t for t in compiled.tables]
    before = 0.0
    for step in range(1, min(actions_left, LONGEST_WALK) + 1):
        sources, _, rows = expand(compiled, machines, rows, actions_left - step, ground)
        machines = [machine.following() if isinstance(machine, Generation) else machine for machine in machines]
        if ground.to_end is not None:
            # A machine reads a position when it is left: that all is lost may show one action later.
            saved = np.unique(expand(compiled, machines, rows, actions_left - step - 1, ground)[0])
            sources, rows = sources[saved], rows[saved]
        # The last of each walker's edges in a random order is a uniform choice; walkers without an edge end here.
        order = np.lexsort((rng.random(len(sources)), sources))
        rows = np.ascontiguousarray(rows[order[np.flatnonzero(np.diff(sources[order], append=-1))]])
        if len(rows) < FEWEST_WALKERS:
            break
        visits = np.bincount(Nodes(rows.shape[1]).add(rows)).astype(np.float64)
        meetings = float(np.sum(visits * (visits - 1)) / 2)
        shown = len(rows) * (len(rows) - 1) / 2 / (meetings + 3 * np.sqrt(meetings) + 5)
        if shown > enough:
            return int(shown)
        if step > 2 and shown < SLOWEST_GROWTH * before:
            break
        before = max(before, shown)
    return int(before)


# ---- The search for all nodes of a product, breadth-first, within a budget of memory.
#
# A node is a row (world state, one table row per machine). The budget is counted in nodes of up to `COLUMNS_PER_NODE`
# columns; with more machines than that, a node costs as many times more, so that thousands of small rules are refused
# before memory is spent and not after. Where growth alone shows that the budget will not do, the search ends early.

COLUMNS_PER_NODE = 16  # a node may have this many columns (state and machines) at the price of one
CHUNK_CELLS = 2**24  # entries of rows that are worked out at once: 64 MiB
ESTIMATE_AT = (60_000, 1_000_000)  # numbers of nodes at which the final size is estimated
NODES_PER_STATE = 8  # with fewer nodes than this per listed machine state, listing states is what takes the time


def ends_of(world: MDP) -> NDArray[np.bool_]:
    """The states in which a complete trajectory may end."""
    return world.terminal if world.has_terminal else np.ones(world.n_states, dtype=np.bool_)


def allowed_nodes(max_nodes: int, n_columns: int) -> int:
    """How many nodes of this many columns the budget has room for."""
    return max_nodes if n_columns <= COLUMNS_PER_NODE else max(1, max_nodes * COLUMNS_PER_NODE // n_columns)


def first_rows(compiled: CompiledConstraint, horizon: int, ground: Ground) -> NDArray[np.int32]:
    """The rows in which trajectories start; with distances to an end, those that may still be saved and end in time."""
    machines, starts = np.array([table.start for table in compiled.tables], dtype=np.int32), ground.starts
    if ground.to_end is not None:
        starts = starts[ground.to_end[starts] <= horizon]
    rows = np.column_stack([starts, np.tile(machines, (len(starts), 1))]).astype(np.int32)
    alive = compiled.settle(rows)
    return rows if ground.to_end is None else np.ascontiguousarray(rows[alive])


def explore(compiled: CompiledConstraint, max_nodes: int, horizon: int, ground: Ground) -> "Product":
    """All nodes within `horizon` actions of a start, each at distance 0, and their edges in the ground.

    With distances to an end, only those from which an end is near enough and no rule is sure to be broken.
    """
    rows = first_rows(compiled, horizon, ground)
    nodes = Nodes(rows.shape[1])
    start_nodes = nodes.add(rows)
    found = [nodes.n]  # nodes after each number of actions
    n_out, (targets, edges) = list[NDArray[np.int64]](), ([np.empty(0, np.uint32)], [np.empty(0, np.uint32)])
    limit = allowed_nodes(max_nodes, rows.shape[1])
    chunk = max(1, CHUNK_CELLS // (rows.shape[1] * max(1, int(np.diff(ground.row_start).max(initial=1)))))
    milestones = [n for n in ESTIMATE_AT if n < limit]
    begin, too_large = 0, partial(_too_large, compiled, ground.state, max_nodes)
    for depth in range(horizon):
        end = nodes.n
        if begin == end or end > limit:
            break
        if milestones and end > milestones[0]:
            # Small machines are multiplied by compiled loops: an early estimate would cost more than going on.
            slow = len(milestones) == 1 or max(map(len, compiled.tables), default=0) * NODES_PER_STATE > end
            milestones = [n for n in milestones if n >= end]
            layer = nodes.rows[begin:end]
            larger = estimate_nodes(compiled, layer, horizon - depth, limit, ground) if slow else 0
            if larger > limit:
                raise too_large(nodes.rows[:end], depth, larger)
        for first in range(begin, end, chunk):
            last = min(first + chunk, end)
            frontier, left = nodes.rows[first:last], horizon - depth - 1
            sources, out, following = expand(compiled, compiled.tables, frontier, left, ground)
            n_out.append(np.bincount(sources, minlength=last - first))
            targets.append(nodes.add(following))
            edges.append(out)
            if nodes.n > limit:
                raise too_large(nodes.rows[: nodes.n], depth + 1)
        found.append(nodes.n)
        begin = end
    if nodes.n > limit:
        raise too_large(nodes.rows[: nodes.n], 0)

    n_out.append(np.zeros(nodes.n - begin, dtype=np.int64))
    node_rows = nodes.rows[: nodes.n]
    accepting = np.zeros(nodes.n, dtype=np.bool_)
    final = np.flatnonzero(ground.ends[node_rows[:, 0]])
    last_states = ground.state[node_rows[final, 0]]
    machine_rows = np.ascontiguousarray(node_rows[final, 1:])
    accepting[final] = compiled.accepts(machine_rows, last_states)
    keeps = np.zeros((nodes.n, len(compiled.usual)), dtype=np.bool_)
    keeps[final] = compiled.keeps(machine_rows, last_states)
    depths = np.repeat(np.arange(len(found), dtype=np.int32), np.diff([0, *found]))
    return Product(
        world=compiled.world,
        compiled=compiled,
        horizon=horizon,
        state=ground.state[node_rows[:, 0]],
        depth=depths,
        distance=np.zeros_like(depths),
        accepting=accepting,
        indptr=np.concatenate([[0], np.cumsum(np.concatenate(n_out))]).astype(np.uint32),
        target=np.concatenate(targets),
        edge=np.concatenate(edges),
        starts=start_nodes,
        layer_ends=layer_ends(depths, horizon),
        keeps=np.hstack([ground.keeps[node_rows[:, 0]], keeps]),
    )


def _too_large(
    compiled: CompiledConstraint, state: Any, max_nodes: int, rows: NDArray[np.int32], depth: int, estimate: int = 0
) -> ProductTooLargeError:
    """Say which of the user's constraints multiplies the most, and what to do."""
    world, n_states, n_columns = compiled.world, _distinct(state[rows[:, :1]]), rows.shape[1]
    lines, leaf = [], 1
    for label, unit in units(compiled.constraint):
        width = sum(1 for _ in unit.leaves())
        lines.append((_distinct(rows[:, leaf : leaf + width]), label))
        leaf += width
    lines.sort(key=lambda line: -line[0])
    blame = Message("{!r} multiplies it the most", lines[0][1]) if lines else "the world alone is that large"
    limit = allowed_nodes(max_nodes, n_columns)
    if limit < max_nodes:
        budget = f"each node has {n_columns - 1:,} machines, so that the budget is {limit:,} nodes here"
        blame = Message("{}, and {}", budget, blame)
    found, where = "passed", f"after {depth} {'actions' if world.unbounded else f'of {world.max_length} actions'}"
    if estimate:
        found, where = "would pass", f"({estimate:,} nodes or more)"
    table = [Message("\n  {:>12,} machine states  {}", *line) for line in lines[:12]]
    more = [f"\n  and {len(lines) - 12:,} constraints more"] if len(lines) > 12 else []
    advice = "\nRaise max_nodes (about 1 kB of memory per node), loosen that constraint, shorten the horizon"
    if not compiled.ends_anywhere:  # other engines answer for trajectories; a policy has to know all of its nodes
        advice += ", or let it reject or hash instead: engine='reject' or engine='xor'"
    sentence = "the product of world and constraints {found} max_nodes = {max_nodes:,} {where}: {blame}."
    return ProductTooLargeError(
        Message(sentence, found=found, max_nodes=max_nodes, where=where, blame=blame),
        Message("\n  {:>12,} world states{}{}.", n_states, joined([*table, *more]), advice),
        world,
    )


def _distinct(columns: NDArray[np.int32]) -> int:
    """The number of distinct rows."""
    nodes = Nodes(columns.shape[1])
    nodes.add(np.ascontiguousarray(columns))
    return nodes.n


DEFAULT_MAX_NODES = 5_000_000  # with eight moves about 2 GB while building, and room for messages in 4 GB
AT_ONCE = 8  # few rules are multiplied at once within this fraction of the budget: cheaper where it is enough
BYTES_PER_LAYER = 500  # of what is kept about each number of actions, apart from the messages of its nodes


@dataclass(frozen=True)
class Product:
    """The pruned product graph, in compressed rows: node n has the edges indptr[n] to indptr[n + 1]."""

    world: MDP
    compiled: CompiledConstraint
    horizon: int
    state: NDArray[np.int32]  # the world state of each node
    depth: NDArray[np.int32]  # the least number of actions to it
    distance: NDArray[np.int32]  # the least number of actions from it to acceptance
    accepting: NDArray[np.bool_]  # whether a trajectory may end here
    indptr: NDArray[np.uint32]
    target: NDArray[np.uint32]
    edge: NDArray[np.uint32]  # the world edge below each product edge
    starts: NDArray[np.uint32]  # the nodes at which trajectories start
    layer_ends: NDArray[np.int64]  # layer_ends[t] nodes have depth <= t
    keeps: NDArray[np.bool_]  # which of the k rules that are usually kept hold where a trajectory ends at a node (n, k)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.state)

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.target)

    @property
    def fixed_length(self) -> bool:
        """Whether all trajectories have exactly `horizon` actions."""
        return not self.world.has_terminal

    @once
    def topological(self) -> tuple[NDArray[np.uint32], NDArray[np.int32]] | None:
        """Nodes so that all edges go forward, and the longest way to each; None when there is a cycle."""
        order, longest = topological_order(self.indptr, self.target)
        # Sorted, the order of nodes is nearly that of their numbers, and of their edges in memory.
        return (np.argsort(longest, kind="stable").astype(np.uint32), longest) if len(order) == self.n_nodes else None

    def timeless(self, discount: float) -> bool:
        """Whether one message per node is enough, whatever the number of actions before it.

        True without cycles where the horizon does not bind, if every node has one depth or depth does not matter.
        """
        if self.topological is None:
            return False
        longest = self.topological[1]
        fits = bool(longest.max(initial=0) <= self.horizon)
        return fits and ((discount == 1.0 and not self.fixed_length) or np.array_equal(longest, self.depth))

    @property
    def usual_length(self) -> int:
        """A number of actions that few trajectories pass, for sizing tables."""
        return min(self.horizon, 4 * self.n_nodes) if self.world.unbounded else self.horizon

    @property
    def stops(self) -> NDArray[np.bool_]:
        """Where trajectories end, on a timeless product."""
        return self.accepting & (self.depth == self.horizon) if self.fixed_length else self.accepting

    def log_ends(self, rules: NDArray[np.float64], ends: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The log-weight of ending at each node, from the weights (k,) of rules; -inf where trajectories cannot."""
        worth = self.keeps @ rules if len(rules) else 0.0
        return np.where(self.accepting if ends is None else ends, worth, -np.inf)

    @once
    def outwards(self) -> NDArray[np.uint32]:
        """The nodes at which trajectories cannot end, nearest to acceptance first."""
        order = np.argsort(self.distance, kind="stable").astype(np.uint32)
        return order[np.count_nonzero(self.distance == 0) :]

    def ground(self) -> Ground:
        """The graph that further machines are multiplied with."""
        nowhere = np.zeros(self.n_nodes, dtype=np.bool_)
        rows, ends = self.indptr.astype(np.int64), (self.accepting, self.state, self.edge, self.distance, self.keeps)
        return Ground(rows, self.target, nowhere, self.starts, *ends)

    def sources(self) -> NDArray[np.uint32]:
        """The node that each edge leaves."""
        return np.repeat(np.arange(self.n_nodes, dtype=np.uint32), np.diff(self.indptr))

    def pruned(self, distance: NDArray[np.int32]) -> "Product":
        """The nodes and edges on ways from a start to a node of distance 0 within the horizon, in their order."""
        number, indptr, target, edge = prune(self.indptr, self.target, self.edge, self.depth, distance, self.horizon)
        kept = number >= 0
        depth, starts = self.depth[kept], number[self.starts][kept[self.starts]].astype(np.uint32)
        nodes = self.state[kept], depth, distance[kept], self.accepting[kept]
        task, ends = (self.world, self.compiled, self.horizon), layer_ends(depth, self.horizon)
        return Product(*task, *nodes, indptr, target, edge, starts, ends, self.keeps[kept])

    def merged(self) -> "Product":
        """One node in place of all from which the same can follow, where there are no cycles."""
        if self.topological is None:
            return self
        sources, first = self.sources(), 2 + self.keeps.shape[1]
        follows = np.full((self.n_nodes, first + int(np.diff(self.world.row_start).max(initial=0))), -1, dtype=np.int32)
        follows[:, :first] = np.column_stack([self.state, self.accepting, self.keeps])
        columns = first + self.edge - self.world.row_start[self.state[sources]]
        nodes, number = Nodes(follows.shape[1]), np.empty(self.n_nodes, dtype=np.uint32)
        late = -self.topological[1]  # edges lead to nodes that are later
        by_node, by_edge = np.argsort(late, kind="stable"), np.argsort(late[sources], kind="stable")
        steps = np.unique(late)[1:]
        cut = np.searchsorted(late[by_node], steps), np.searchsorted(late[sources][by_edge], steps)
        for some, out in zip(np.split(by_node, cut[0]), np.split(by_edge, cut[1]), strict=True):
            follows[sources[out], columns[out]] = number[self.target[out]]
            number[some] = nodes.add(follows[some])
        same = np.unique(number, return_index=True)[1].astype(np.uint32)[number]  # the first, so of the least depth
        distance = np.where(same == np.arange(self.n_nodes), self.distance, UNREACHABLE).astype(np.int32)
        return replace(self, target=same[self.target], starts=np.unique(same[self.starts])).pruned(distance)

    def feasible(self) -> bool:
        """Whether any trajectory is valid."""
        if not len(self.starts) or not self.fixed_length:
            return len(self.starts) > 0
        # Backward reachability over exactly `horizon` steps, stopped early once it repeats with period 1 or 2.
        before, alive = None, self.accepting
        for steps_left in range(self.horizon, 0, -1):
            out = alive_before(self.indptr, self.target, alive)
            if before is not None and np.array_equal(before, out):
                alive = out if steps_left % 2 else alive
                break
            before, alive = alive, out
        return bool(alive[self.starts].any())


def build_product(compiled: CompiledConstraint, max_nodes: int, base: Product | None = None) -> Product:
    """Multiply the world, or a product over it, with machines; ProductTooLargeError past `max_nodes`."""
    if base is None:
        return _trimmed(compiled, max_nodes, ground_of(compiled.world, ends_of(compiled.world)))
    both = conjunction([base.compiled.constraint, compiled.constraint])
    joint = CompiledConstraint(both, base.compiled.world, known=[*base.compiled.tables, *compiled.tables])
    return replace(_trimmed(compiled, max_nodes, base.ground()), compiled=joint)


def _trimmed(compiled: CompiledConstraint, max_nodes: int, ground: Ground) -> Product:
    whole = explore(compiled, max_nodes, compiled.world.max_length, ground)
    product = whole.pruned(distance_to(whole.accepting, whole.sources(), whole.target))
    return product if ground.edge is None else replace(product, edge=ground.edge[product.edge])


def build_by_rules(compiled: CompiledConstraint, max_nodes: int) -> Product:
    """As `build_product`, by a few rules after others, those first that alone make the world grow least.

    In between dead ends are dropped and nodes merged: machines forget what no longer matters, as whether a place was
    passed whose partner lies behind. Where the world has cycles little is forgotten. Few rules are first tried at once.
    """
    tables, ground = iter(compiled.tables), ground_of(compiled.world, ends_of(compiled.world))
    if len(compiled.tables) < COLUMNS_PER_NODE:
        with suppress(ProductTooLargeError):
            return build_product(compiled, max_nodes // AT_ONCE)

    def multiplied(rules: Sequence[tuple[Constraint, list[MachineTable]]], ground: Ground) -> Product:
        known = [table for _, own in rules for table in own]
        part = CompiledConstraint(conjunction(rule for rule, _ in rules), compiled.world, known=known)
        return _trimmed(part, max_nodes, ground).merged()

    rules = [(rule, [next(tables) for _ in rule.leaves()]) for _, rule in units(compiled.constraint)]
    # Rules that are usually kept come last, in their order, which is that of their weights.
    rules.sort(key=lambda rule: max_nodes if isinstance(rule[0], Usually) else multiplied([rule], ground).n_nodes)
    product = multiplied([], ground)
    while rules:
        n = max(1, int(np.searchsorted(np.cumsum([len(own) for _, own in rules]), COLUMNS_PER_NODE)))
        product, rules = multiplied(rules[:n], product.ground()), rules[n:]
    return replace(product, compiled=compiled)


def layer_ends(depth: NDArray[np.int32], horizon: int) -> NDArray[np.int64]:
    """How many nodes have each depth or less; trajectories of any length have as many layers as there are depths."""
    last = int(depth.max(initial=0)) if horizon == UNBOUNDED else horizon
    require_horizon(last, BYTES_PER_LAYER * last)
    ends: NDArray[np.int64] = np.searchsorted(depth, np.arange(last + 1), side="right")
    return ends


def build_complete_product(compiled: CompiledConstraint, max_nodes: int, horizon: int) -> Product:
    """The product with everything that can happen in `horizon` actions, broken rules and unfinished ends included.

    Where a rule is sure to be broken the machines no longer matter: those nodes are one per world state.
    """
    return explore(compiled, max_nodes, horizon, ground_of(compiled.world, None))


MOST_NODES_EXPLAINED = 200_000  # looked at for a better message


def shortest_valid(compiled: CompiledConstraint, max_nodes: int = MOST_NODES_EXPLAINED) -> float:
    """The least number of actions of a valid trajectory, inf where there is none, nan where the search is too long."""
    ground, left = ground_of(compiled.world, ends_of(compiled.world)), UNREACHABLE - 1
    rows = first_rows(compiled, left, ground)
    nodes, limit = Nodes(rows.shape[1]), allowed_nodes(max_nodes, rows.shape[1])
    nodes.add(rows)
    begin, length = 0, 0
    while begin < nodes.n:
        end = nodes.n
        layer = nodes.rows[begin:end]
        final = layer[ground.ends[layer[:, 0]]]
        if len(final) and compiled.accepts(np.ascontiguousarray(final[:, 1:]), final[:, 0]).any():
            return length
        if end > limit:
            return math.nan
        nodes.add(expand(compiled, compiled.tables, layer, left, ground)[2])
        begin, length = end, length + 1
    return math.inf
