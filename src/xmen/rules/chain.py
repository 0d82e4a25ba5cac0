"""The model under the rules so far as a Markov chain, shared by all candidates.

One backward pass over the product of world and rules gives beta_t(n), the weight of all ways to complete a trajectory
that is at node n after t actions, and with it the probability of every edge as action t:

    p_t(e) = exp(w_t(e)) beta_{t+1}(n') / beta_t(n).

A candidate c then costs one forward pass that carries probability through pairs of a node and a row of its machine,
and P(c) = Z_c / Z is what arrives at acceptance. No product is built, and nothing can underflow that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.constraint import Constraint
from xmen.engines.exact import ExactDistribution
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import Product
from xmen.rewards import Floats
from xmen.worlds.mdp import MDP

# ---- Compiled loops that carry probability through (node, machine row) pairs


@compiled
def carry_through_time(
    layer_ends: Any,
    first: Any,
    last: Any,
    indptr: Any,
    target: Any,
    edge: Any,
    probability: Any,
    state: Any,
    starts: Any,
    start_probability: Any,
    edge_letter: Any,
    end_letter: Any,
    step: Any,
    accepts: Any,
) -> Any:
    """The probability that the machine holds at the end, and that it fails.

    probability (T, edges): of each product edge as action t, given its node. A node without edges is an end; the
    trajectories that are left after T actions end where they are. Costs T times the edges times the rows in use.
    """
    n_steps = len(probability)
    n_nodes, n_rows = len(indptr) - 1, len(step)
    here, there = np.zeros((n_nodes, n_rows)), np.zeros((n_nodes, n_rows))
    kept, broken = 0.0, 0.0
    for i in range(len(starts)):
        here[starts[i], 0] += start_probability[i]
    for t in range(n_steps + 1):
        for node in range(layer_ends[t]):
            begin, end = indptr[node], indptr[node + 1]
            ended = t == n_steps or begin == end
            for row in range(first[t], last[t] + 1):
                mass = here[node, row]
                if mass == 0.0:
                    continue
                here[node, row] = 0.0
                if ended:
                    if accepts[row, end_letter[state[node]]]:
                        kept += mass
                    else:
                        broken += mass
                    continue
                for e in range(begin, end):
                    moved = mass * probability[t, e]
                    if moved == 0.0:
                        continue
                    after = step[row, edge_letter[edge[e]]]
                    if after == FAILS:
                        broken += moved
                    elif after == HOLDS:
                        kept += moved
                    else:
                        there[target[e], after] += moved
        here, there = there, here
    return kept, broken


@compiled
def carry_in_order(
    order: Any,
    stops: Any,
    indptr: Any,
    target: Any,
    edge: Any,
    probability: Any,
    state: Any,
    starts: Any,
    start_probability: Any,
    edge_letter: Any,
    end_letter: Any,
    step: Any,
    accepts: Any,
) -> Any:
    """The same where nodes have an order that all edges follow and time plays no role: one sweep."""
    n_rows = len(step)
    here = np.zeros((len(indptr) - 1, n_rows))
    kept, broken = 0.0, 0.0
    for i in range(len(starts)):
        here[starts[i], 0] += start_probability[i]
    for node in order:
        for row in range(n_rows):
            mass = here[node, row]
            if mass == 0.0:
                continue
            if stops[node]:
                if accepts[row, end_letter[state[node]]]:
                    kept += mass
                else:
                    broken += mass
                continue
            for e in range(indptr[node], indptr[node + 1]):
                moved = mass * probability[e]
                after = step[row, edge_letter[edge[e]]]
                if after == FAILS:
                    broken += moved
                elif after == HOLDS:
                    kept += moved
                else:
                    here[target[e], after] += moved
    return kept, broken


# ---- A whole constraint as one small machine over letters: what a candidate is while its probability is found.
#
# The leaves' tables of one world are joined: a row stands for the rows of all leaves, settled by the tree above them.
# A constraint with more rows than `MAX_ROWS` is left to the product, which only meets the rows that the world can
# reach.


FAILS, HOLDS = -2, -1  # successors that need no row: the answer is sure
MAX_ROWS = 4096
KEPT_BYTES = 200_000_000  # of joined machines that are kept between rounds
MAX_ENTRIES = 2**16  # rows times letters that are filled in before a machine counts as too large


@dataclass(frozen=True)
class Machine:
    """The joined machine. Row 0 is the start, unless the answer is sure before the first position."""

    start: int
    letters: NDArray[np.int32]  # (n_states, n_actions + 1): what is read there, the last column at the end
    step: NDArray[np.int32]  # (rows, letters): a row, FAILS or HOLDS
    accepts: NDArray[np.bool_]  # (rows, letters): whether a trajectory may end with this letter
    first: NDArray[np.int64]  # rows that can be met after t positions lie between first[t] and last[t]
    last: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.step)


class Machines:
    """The machines of candidates, joined once for all rounds of a search, as far as there is room for them."""

    def __init__(self, world: MDP) -> None:
        self._world = world
        self._joined: dict[Constraint, Machine | None] = {}
        self._left = KEPT_BYTES

    def __getstate__(self) -> dict[str, Any]:
        # Joined again when they are asked for.
        return {"_world": self._world, "_joined": {}, "_left": KEPT_BYTES}

    def of(self, constraint: Constraint) -> Machine | None:
        """`join`, remembered."""
        if constraint in self._joined:
            return self._joined[constraint]
        machine = join(constraint, self._world)
        size = 1000 if machine is None else machine.letters.nbytes + machine.step.nbytes + machine.accepts.nbytes
        if size <= self._left:
            self._joined[constraint] = machine
            self._left -= size
        return machine


def join(constraint: Constraint, world: MDP) -> Machine | None:
    """The constraint as one machine over the letters of a world; None where that is too large."""
    if world.unbounded:
        return None
    compiled = CompiledConstraint(constraint, world)
    assert compiled.program is not None
    letters, examples, moving = _letters(compiled)
    start = np.array([[0, *(table.start for table in compiled.tables)]], dtype=np.int32)
    if not compiled.settle(start)[0]:
        return _sure(FAILS, letters)
    holding = compiled.program.holding[-1]
    if np.array_equal(start[0, 1:], holding):
        return _sure(HOLDS, letters)

    index = {tuple(start[0, 1:].tolist()): 0}
    rows = [start[0, 1:]]
    steps: list[NDArray[np.int32]] = []
    frontier = start[:, 1:]
    for _ in range(world.max_length):
        if len(rows) > MAX_ROWS or len(rows) * len(examples) > MAX_ENTRIES:
            return None
        try:
            answers = _advance(compiled, frontier, examples, moving, holding, index, rows)
        except ProductTooLargeError:
            return None
        steps.append(answers)
        frontier = np.array(rows[sum(map(len, steps)) :], dtype=np.int32).reshape(-1, len(compiled.tables))
        if not len(frontier):
            break
    n_rows = len(rows)
    if n_rows > MAX_ROWS:
        return None
    # Rows that are only met after the last action are ended in, and never left.
    step = np.full((n_rows, len(examples)), FAILS, dtype=np.int32)
    done = np.concatenate([np.empty((0, len(examples)), np.int32), *steps])
    step[: len(done)] = done
    first, last = _reached(step, world.max_length)
    return Machine(0, letters, step, _accepts(compiled, np.array(rows, dtype=np.int32), examples), first, last)


def _sure(answer: int, letters: NDArray[np.int32]) -> Machine:
    none = np.zeros((0, int(letters.max()) + 1), dtype=np.int32)
    return Machine(answer, letters, none, none.astype(np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64))


def _letters(compiled: CompiledConstraint) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.bool_]]:
    """Joint letters (n_states, n_actions + 1), a (state, column) that shows each, and which are read while moving."""
    world = compiled.world
    ends = world.terminal if world.has_terminal else np.ones(world.n_states, dtype=np.bool_)
    seen = np.column_stack([world.available, ends])
    code = np.zeros(seen.shape, dtype=np.int64)
    for table in compiled.tables:
        code = code * len(table.symbols) + np.where(seen, table.letters, 0)
        _, dense = np.unique(code, return_inverse=True)  # keeps the numbers small however many leaves there are
        code = dense.reshape(seen.shape).astype(np.int64)
    places = np.argwhere(seen)
    _, first, letter = np.unique(code[seen], return_index=True, return_inverse=True)
    letters = np.zeros(seen.shape, dtype=np.int32)
    letters[seen] = letter.reshape(-1)
    moving = np.zeros(len(first), dtype=np.bool_)
    moving[letters[:, :-1][world.available]] = True
    return letters, places[first], moving


def _advance(
    compiled: CompiledConstraint,
    frontier: NDArray[np.int32],
    examples: NDArray[np.int64],
    moving: NDArray[np.bool_],
    holding: NDArray[np.int32],
    index: dict[tuple[int, ...], int],
    rows: list[NDArray[np.int32]],
) -> NDArray[np.int32]:
    """The successors (rows, letters) of a frontier, entering new rows into `index` and `rows`."""
    read = np.flatnonzero(moving)
    n, n_read = len(frontier), len(read)
    after = np.zeros((n * n_read, 1 + frontier.shape[1]), dtype=np.int32)
    states, columns = examples[read].T
    for leaf, table in enumerate(compiled.tables):
        here = np.repeat(frontier[:, leaf], n_read)
        after[:, 1 + leaf] = table.step(here, np.tile(table.letters[states, columns], n))
    alive = compiled.settle(after)
    sure = np.all(after[:, 1:] == holding, axis=1)
    answers = np.full(n * n_read, FAILS, dtype=np.int32)
    answers[alive & sure] = HOLDS
    for i in np.flatnonzero(alive & ~sure).tolist():
        key = tuple(after[i, 1:].tolist())
        row = index.get(key)
        if row is None:
            row = index[key] = len(rows)
            rows.append(after[i, 1:])
        answers[i] = row
    out = np.full((n, len(examples)), FAILS, dtype=np.int32)
    out[:, read] = answers.reshape(n, n_read)
    return out


def _accepts(compiled: CompiledConstraint, rows: NDArray[np.int32], examples: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row may end with each letter; False for letters that no end shows."""
    out = np.zeros((len(rows), len(examples)), dtype=np.bool_)
    letters, _, _ = _letters(compiled)
    world = compiled.world
    ends = np.flatnonzero(world.terminal) if world.has_terminal else np.arange(world.n_states)
    shown, first = np.unique(letters[ends, -1], return_index=True)
    for letter, state in zip(shown.tolist(), ends[first].tolist(), strict=True):
        out[:, letter] = compiled.accepts(rows, np.full(len(rows), state, dtype=np.int32))
    return out


def _reached(step: NDArray[np.int32], longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last row that can be met after each number of positions, 0 .. longest."""
    first, last = np.zeros((2, longest + 1), dtype=np.int64)
    here = np.zeros(1, dtype=np.int64)
    for t in range(longest + 1):
        first[t], last[t] = (here[0], here[-1]) if len(here) else (0, -1)
        if t < longest and len(here):
            after = np.unique(step[here])
            here = after[after >= 0].astype(np.int64)
    return first, last


# ---- The model under the rules so far as a Markov chain, shared by all candidates


MOST_PROBABILITIES = 40_000_000  # edges times actions whose probabilities are kept: 320 MB
MOST_PAIRS = 30_000_000  # nodes times rows through which probability is carried: 240 MB


class Mass(NamedTuple):
    """The probability of trajectories that keep a constraint, and of those that break it; exact zeros are certain."""

    kept: float
    broken: float


@dataclass(frozen=True)
class Chain:
    """Edge probabilities of a distribution: (T, edges), or (edges,) where time plays no role."""

    product: Product
    probability: Floats
    start_probability: Floats
    timeless: bool

    def mass(self, machine: Machine) -> Mass | None:
        """How probability divides under the machine; None where there is no room for it."""
        product, world = self.product, self.product.world
        if machine.start < 0:
            return Mass(1.0, 0.0) if machine.start == HOLDS else Mass(0.0, 1.0)
        if product.n_nodes * machine.n_rows > MOST_PAIRS:
            return None
        edge_letter = machine.letters[world.source, world.action]
        end_letter = np.ascontiguousarray(machine.letters[:, -1])
        graph = product.indptr, product.target, product.edge, self.probability
        starts = product.state, product.starts, self.start_probability
        machine_parts = edge_letter, end_letter, machine.step, machine.accepts
        if self.timeless:
            assert product.topological is not None
            order = product.topological[0], product.stops
            return Mass(*carry_in_order(*order, *graph, *starts, *machine_parts))
        layers = product.layer_ends, machine.first, machine.last
        return Mass(*carry_through_time(*layers, *graph, *starts, *machine_parts))


def chain_of(d: ExactDistribution, reward: Floats) -> Chain | None:
    """The chain of a distribution with this reward table (n_states, n_actions); None where it would be too large."""
    product, world = d.product, d.world
    nodes = np.arange(product.n_nodes, dtype=np.uint32)
    source = np.repeat(nodes, np.diff(product.indptr))
    log_dynamics = np.log(world.probability)[product.edge]
    rewards = reward[world.source, world.action][product.edge]
    first = np.log(world.start[product.state[product.starts]])
    start = np.exp(first + d.log_completions(0, product.starts) - d.log_partition())
    if product.timeless(d.discount):
        discounted = d.discount ** product.depth[source].astype(np.float64) * rewards
        value = d.log_completions(0, nodes)
        return Chain(
            product, _probability(log_dynamics + discounted, value[source], value[product.target]), start, True
        )
    if product.n_edges * product.horizon > MOST_PROBABILITIES:
        return None
    probability = np.zeros((product.horizon, product.n_edges))
    after = _completions(d, product.horizon, nodes)
    for t in range(product.horizon - 1, -1, -1):
        here = _completions(d, t, nodes)
        n = int(product.indptr[product.layer_ends[t]])
        weight = log_dynamics[:n] + d.discount**t * rewards[:n]
        probability[t, :n] = _probability(weight, here[source[:n]], after[product.target[:n]])
        after = here
    return Chain(product, probability, start, False)


def _completions(d: ExactDistribution, t: int, nodes: NDArray[np.uint32]) -> Floats:
    """log beta_t of the nodes that t actions can reach; -inf elsewhere."""
    value = np.full(len(nodes), -np.inf)
    n = int(d.product.layer_ends[t])
    value[:n] = d.log_completions(t, nodes[:n])
    return value


def _probability(weight: Floats, here: Floats, after: Floats) -> Floats:
    """exp(weight + after - here), 0 where nothing can be completed."""
    possible = (here > -np.inf) & (after > -np.inf)
    with np.errstate(invalid="ignore"):
        probability: Floats = np.where(possible, np.exp(weight + after - here), 0.0)
    return probability
