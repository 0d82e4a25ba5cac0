"""Probability carried through (node, machine row): how likely trajectories keep a further rule, without its product.

A law over trajectories is a Markov chain over the nodes of a product: action t takes edge e with probability p_t(e),
which for a maximum-entropy law is exp(w_t(e)) beta_{t+1}(n') / beta_t(n), with beta_t(n) the weight of all ways to
complete a trajectory from n after t actions, and for a policy the share of the choice times the chance of the outcome.
A further rule is joined into one small machine; one forward pass then carries probability through pairs of a node and
a row of that machine, and what arrives at acceptance is the probability of keeping it. Nothing that matters underflows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import ProductTooLargeError, require_horizon
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import Nodes, Product, explore
from xmen.product.messages import Messages, start_law, timeless_log_weights
from xmen.worlds.walks import EdgeWeights, Floats

STEP_FAILS, STEP_HOLDS = -2, -1  # successors that need no row: the answer is sure
MAX_ROWS = 4096  # of a joined machine; those of more rows are left to the product, which meets what the world can reach
MAX_ENTRIES = 2**16  # rows times letters that are filled in before a machine counts as too large
MOST_PROBABILITIES = 40_000_000  # edges times actions whose probabilities are kept: 320 MB
BLOCK = 4_000_000  # edges times actions whose probabilities are worked out at once where they are not kept: 32 MB
MOST_PAIRS = 30_000_000  # nodes times rows through which probability is carried: 240 MB


@compiled
def carry(begin: int, last: bool, ranges: Any, graph: Any, probability: Any, tables: Any, here: Any, there: Any) -> Any:
    """Carry `here` (nodes, rows) on by the actions from `begin` on, with these edge probabilities (actions, edges).

    Returns what held for sure, what failed, and `here` and `there` after it. A node without edges is an end; with
    `last`, what is left after these actions ends where it is. `here` and `there` may be one array in an order that all
    edges follow. Costs the actions times the edges times the rows in use.
    """
    (order, ends, first_row, last_row), (indptr, target, edge) = ranges, graph
    state, edge_letter, end_letter, step, accepts = tables
    kept, broken = 0.0, 0.0
    n_actions = len(probability)
    for t in range(n_actions + last):
        time = begin + t
        for i in range(ends[time]):
            node = order[i]
            first, past = indptr[node], indptr[node + 1]
            ended = t == n_actions or first == past
            for row in range(first_row[time], last_row[time] + 1):
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
                for e in range(first, past):
                    moved = mass * probability[t, e]
                    if moved == 0.0:
                        continue
                    after = step[row, edge_letter[edge[e]]]
                    if after == STEP_FAILS:
                        broken += moved
                    elif after == STEP_HOLDS:
                        kept += moved
                    else:
                        there[target[e], after] += moved
        here, there = there, here
    return kept, broken, here, there


@dataclass(frozen=True)
class Machine:
    """A whole constraint as one machine over letters that all its leaves read.

    Row 0 is the start, unless the answer is sure before the first position: then `start` is STEP_FAILS or STEP_HOLDS.
    """

    start: int
    letters: NDArray[np.int32]  # (n_states, n_actions + 1): what is read there, the last column at the end
    step: NDArray[np.int32]  # (rows, letters): a row, STEP_FAILS or STEP_HOLDS
    accepts: NDArray[np.bool_]  # (rows, letters): whether a trajectory may end with this letter
    first: NDArray[np.int64]  # rows that can be met after t positions lie between first[t] and last[t]
    last: NDArray[np.int64]


def join(compiled: CompiledConstraint, longest: int, most: int = MAX_ENTRIES) -> Machine | None:
    """The constraint as one machine for up to `longest` actions; None where that has more than `most` entries.

    The leaves' tables are joined: a row stands for the rows of all leaves, settled by the tree above them.
    """
    tables, program = compiled.tables, compiled.program
    assert program is not None
    seen = tables[0].letters >= 0  # the states and actions, or ends, that trajectories show
    code = np.zeros(seen.shape, dtype=np.int64)
    for table in tables:
        code = code * len(table.symbols) + np.where(seen, table.letters, 0)
        _, dense = np.unique(code, return_inverse=True)  # keeps the numbers small however many leaves there are
        code = dense.reshape(seen.shape).astype(np.int64)
    _, example, letter = np.unique(code[seen], return_index=True, return_inverse=True)
    letters = np.zeros(seen.shape, dtype=np.int32)
    letters[seen] = letter.reshape(-1)
    moving = np.unique(letters[:, :-1][seen[:, :-1]])
    states, columns = np.argwhere(seen)[example[moving]].T  # where each letter of a move is read
    n_letters, n_moving = len(example), len(moving)

    start = np.array([[0, *(table.start for table in tables)]], dtype=np.int32)
    alive, holding = compiled.settle(start)[0], program.holding[-1]
    if not alive or np.array_equal(start[0, 1:], holding):
        none = np.zeros((0, n_letters), dtype=np.int32)
        sure = STEP_HOLDS if alive else STEP_FAILS
        return Machine(sure, letters, none, none.astype(np.bool_), *np.zeros((2, 1), np.int64))
    rows, begin, steps = Nodes(len(tables)), 0, [np.empty((0, n_letters), np.int32)]
    rows.add(np.ascontiguousarray(start[:, 1:]))
    for _ in range(longest):
        end = rows.n
        if begin == end:
            break
        if end > MAX_ROWS or end * n_letters > most:
            return None
        after = np.zeros(((end - begin) * n_moving, 1 + len(tables)), dtype=np.int32)
        try:
            for leaf, table in enumerate(tables):
                before = np.repeat(rows.rows[begin:end, leaf], n_moving)
                after[:, 1 + leaf] = table.step(before, np.tile(table.letters[states, columns], end - begin))
        except ProductTooLargeError:
            return None
        open_ = compiled.settle(after)
        answers = np.where(open_, STEP_HOLDS, STEP_FAILS).astype(np.int32)
        open_ &= np.any(after[:, 1:] != holding, axis=1)
        answers[open_] = rows.add(np.ascontiguousarray(after[open_, 1:]))
        steps.append(np.full((end - begin, n_letters), STEP_FAILS, dtype=np.int32))
        steps[-1][:, moving] = answers.reshape(-1, n_moving)
        begin = end
    if rows.n > MAX_ROWS:
        return None
    # Rows that are only met after the last action are ended in, and never left.
    steps.append(np.full((rows.n - begin, n_letters), STEP_FAILS, dtype=np.int32))
    step, accepts = np.concatenate(steps), np.zeros((rows.n, n_letters), dtype=np.bool_)
    ends = np.flatnonzero(seen[:, -1])
    shown, first = np.unique(letters[ends, -1], return_index=True)
    own = np.ascontiguousarray(rows.rows[: rows.n])
    for letter, state in zip(shown.tolist(), ends[first].tolist(), strict=True):
        accepts[:, letter] = compiled.accepts(own, np.full(rows.n, state, dtype=np.int32))
    return Machine(0, letters, step, accepts, *_rows_met(step, longest))


def _rows_met(step: NDArray[np.int32], longest: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first and the last row that can be met after each number of positions, 0 .. longest."""
    first, last = np.zeros((2, longest + 1), dtype=np.int64)
    here = np.zeros(1, dtype=np.int64)
    for t in range(longest + 1):
        first[t], last[t] = (here[0], here[-1]) if len(here) else (0, -1)
        if t < longest and len(here):
            after = np.unique(step[here])
            here = after[after >= 0].astype(np.int64)
    return first, last


class Mass(NamedTuple):
    """The probability of trajectories that keep a constraint, and of those that break it; exact zeros are certain."""

    kept: float
    broken: float


@dataclass(frozen=True)
class Chain:
    """A law over trajectories as edge probabilities: `probability(actions)` has those of a slice of actions.

    They have the shape (actions, edges); (1, edges) for all actions where time plays no role (`timeless`). They are
    worked out anew for every question unless they are `kept`.
    """

    product: Product
    starts: Floats  # of the product's start nodes
    probability: Callable[[slice], Floats]
    timeless: bool
    kept: bool = False

    def mass(self, machine: Machine) -> Mass | None:
        """How probability divides under the machine; None where there is no room for it."""
        product, world = self.product, self.product.world
        if machine.start < 0:
            return Mass(1.0, 0.0) if machine.start == STEP_HOLDS else Mass(0.0, 1.0)
        n_rows = len(machine.step)
        if product.n_nodes * n_rows > MOST_PAIRS:
            return None
        here = np.zeros((product.n_nodes, n_rows))
        here[:, 0] = np.bincount(product.starts, weights=self.starts, minlength=product.n_nodes)
        if self.timeless:
            assert product.topological is not None
            there, horizon = here, 1
            ranges = product.topological[0], np.array([product.n_nodes]), np.array([0]), np.array([n_rows - 1])
        else:
            there, horizon, order = np.zeros_like(here), product.horizon, np.arange(product.n_nodes, dtype=np.uint32)
            ranges = order, product.layer_ends, machine.first, machine.last
        letters = machine.letters[world.source, world.action], np.ascontiguousarray(machine.letters[:, -1])
        tables = product.state, *letters, machine.step, machine.accepts
        graph = product.indptr, product.target, product.edge
        size = max(1, horizon if self.kept else BLOCK // max(1, product.n_edges))
        kept, broken = 0.0, 0.0
        for begin in range(0, max(1, horizon), size):
            end = min(begin + size, horizon)
            last, probability = end == horizon and not self.timeless, self.probability(slice(begin, end))
            more, less, here, there = carry(begin, last, ranges, graph, probability, tables, here, there)
            kept, broken = kept + more, broken + less
        return Mass(kept, broken)

    def mass_broken(self, further: CompiledConstraint, max_nodes: int) -> float:
        """The probability of breaking further rules, which may end anywhere; a machine too large is met as it comes."""
        product = self.product
        machine = join(further, product.horizon)
        mass = None if machine is None else self.mass(machine)
        if mass is not None:
            return min(1.0, mass.broken)
        ground = product.ground()._replace(ends=np.ones(product.n_nodes, dtype=np.bool_), to_end=None)
        found = explore(further, max_nodes, product.horizon, ground)
        degrees, n = np.diff(found.indptr), found.n_nodes
        here, broken = np.bincount(found.starts, weights=self.starts, minlength=n), 0.0
        for t in range(product.horizon):
            broken += here[(degrees == 0) & ~found.accepting].sum()
            time = 0 if self.timeless else t
            moved = np.repeat(here, degrees) * self.probability(slice(time, time + 1))[0, found.edge]
            here = np.bincount(found.target, weights=moved, minlength=n)
        return min(1.0, float(broken + here[~found.accepting].sum()))


def chain_of(product: Product, weights: EdgeWeights, messages: Messages) -> Chain:
    """The chain of a maximum-entropy law, from its messages; its edge probabilities are kept if there is room."""
    _, starts = start_law(product, weights, messages.log_completions(0, product.starts))
    timeless = product.timeless(weights.discount)
    between, horizon = partial(_between, product, weights, messages), 1 if timeless else product.horizon
    require_horizon(horizon, 8.0 * horizon)
    if product.n_edges * horizon > MOST_PROBABILITIES:
        return Chain(product, starts, between, timeless)
    return Chain(product, starts, between(slice(0, horizon)).__getitem__, timeless, kept=True)


def _between(product: Product, weights: EdgeWeights, messages: Messages, actions: slice) -> Floats:
    """p_t(e) of these actions, shape (actions, edges)."""
    nodes, timeless = np.arange(product.n_nodes, dtype=np.uint32), product.timeless(weights.discount)
    begin, end, source = actions.start, actions.stop, product.sources()

    def completions(t: int) -> Floats:
        """log beta_t of the nodes that t actions can reach; -inf elsewhere."""
        value, n = np.full(len(nodes), -np.inf), len(nodes) if timeless else int(product.layer_ends[t])
        value[:n] = messages.log_completions(t, nodes[:n])
        return value

    out, after = np.zeros((end - begin, product.n_edges)), completions(end)
    for t in range(end - 1, begin - 1, -1):
        here = after if timeless else completions(t)
        n = product.n_edges if timeless else int(product.indptr[product.layer_ends[t]])
        log_weight = timeless_log_weights(product, weights) if timeless else weights.at(t)[product.edge[:n]]
        before, ahead = here[source[:n]], after[product.target[:n]]
        with np.errstate(invalid="ignore"):
            moved = np.exp(log_weight + ahead - before)
        out[t - begin, :n] = np.where((before > -np.inf) & (ahead > -np.inf), moved, 0.0)
        after = here
    return out
