"""The valid trajectories nearest to a given one: what has to be put in, left out and changed, and nothing more.

The distance is Levenshtein's, between the sequences of states. A place of the search is (i, t, node): the first i given
states have been dealt with, and t actions lead to a node of the product of world and rules. From there the next given
state is left out (1), a state is put in (1), or the next given one is kept (0) or changed (1). What would still be paid
if the number of actions did not matter guides the search, which keeps to the horizon.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.constraint import Constraint, hard_part
from xmen.engines.choose import RELAXED_SHARE
from xmen.engines.diagnosis import feasible_product
from xmen.engines.distribution import Rules, as_constraint
from xmen.engines.reject import relax
from xmen.errors import MEMORY, EngineError, InfeasibleError, ProductTooLargeError, TrajectoryError
from xmen.machines.tables import CompiledConstraint
from xmen.options import require_whole
from xmen.product.graph import DEFAULT_MAX_NODES, Product
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network, NetworkTask
from xmen.worlds.trajectory import Trajectory

UNPAID = 2**40  # a cost that nothing has

# ---- Compiled loops: what is still to be paid at least, the places worth looking at, and who became what


@compiled
def costs_ahead(indptr: Any, target: Any, state: Any, distance: Any, given: Any, toll: int) -> Any:
    """The least cost from each node (m + 1, n), the first i given states dealt with; each action costs a toll, too."""
    n, m = len(state), len(given)
    out = np.empty((m + 1, n), dtype=np.int32)
    out[m] = distance * (1 + toll)  # so many states are put in until the end
    for i in range(m - 1, -1, -1):
        ahead, here, changed = out[i + 1], out[i], True
        here[:] = ahead + 1
        while changed:  # through states put in; most edges lead to larger numbers
            changed = False
            for node in range(n - 1, -1, -1):
                best = here[node]
                if best >= ahead[node]:  # less than 1 below it is impossible
                    for e in range(indptr[node], indptr[node + 1]):
                        to = target[e]
                        best = min(best, toll + ahead[to] + (state[to] != given[i]), toll + here[to] + 1)
                    if best < here[node]:
                        here[node], changed = best, True
    return out


@compiled
def edits_of(place: Any, indptr: Any, target: Any, state: Any, given: Any) -> Any:
    """Every edit at a place (t (m + 1) + i) n + node: rows (place, cost, edge), the edge -1 where one is left out."""
    n, width, m = len(state), (len(given) + 1) * len(state), len(given)
    t, i, node = place // width, place // n % (m + 1), place % n
    out, k = np.empty((1 + 2 * (indptr[node + 1] - indptr[node]), 3), dtype=np.int64), 0
    for e in range(indptr[node], indptr[node + 1]):
        put_in = (t + 1) * width + i * n + target[e]
        out[k] = put_in, 1, e
        k += 1
        if i < m:
            out[k] = put_in + n, int(state[target[e]] != given[i]), e
            k += 1
    if i < m:
        out[k] = place + n, 1, -1
        k += 1
    return out[:k]


@compiled
def search(
    graph: Any, ends: Any, distance: Any, first: Any, horizon: int, fixed: bool, tolls: Any, ahead: Any, level: int
) -> Any:
    """The places that trajectories of cost `level` or less pass; with level -1, of the least cost that there is.

    A*, by the costs of whole trajectories, from rows `first` as of `edits_of`, guided by what is ahead under each toll
    less what the actions left may pay of it. Returns the places, the least cost of each so far, the least from there on
    (`UNPAID` where that is beyond the level), and the level: -1 where toll 0 alone misleads, because actions are few.
    """
    n, m, base, now, found = len(graph[2]), len(graph[3]), 0, -1, False
    number, stack = {np.int64(-1): 0}, [0]  # of each place
    places, so_far, whole, settled = [np.int64(-1)], [0], [0], [True]
    candidates = first
    while True:
        for row in candidates:
            place, cost = row[0], base + row[1]
            t, i, node = place // (n * (m + 1)), place // n % (m + 1), place % n
            if t + distance[node] > horizon:
                continue
            if place not in number:
                number[place] = len(places)
                places.append(place)
                so_far.append(UNPAID)
                whole.append(UNPAID)
                settled.append(False)
            c = number[place]
            if cost < so_far[c]:
                so_far[c], whole[c] = cost, cost
                for k in range(len(tolls)):
                    whole[c] = max(whole[c], cost + ahead[k, i, node] - tolls[k] * (horizon - t))
                if whole[c] == now:
                    stack.append(c)
        while len(stack) > 0 and settled[stack[-1]]:
            stack.pop()
        if len(stack) == 0:
            after = UNPAID
            for c in range(len(places)):
                if not settled[c]:
                    after = min(after, whole[c])
            if after == UNPAID or (found and after > level) or (now >= 0 and not found and len(tolls) == 1):
                break
            now = after
            for c in range(len(places)):
                if not settled[c] and whole[c] == now:
                    stack.append(c)
        c = stack.pop()
        settled[c], base, t = True, so_far[c], places[c] // (n * (m + 1))
        found = found or (places[c] // n % (m + 1) == m and ends[places[c] % n] and (t == horizon or not fixed))
        candidates = edits_of(places[c], *graph)
    left, t = np.full(len(places), UNPAID), np.array(places) // (n * (m + 1))
    for c in np.argsort(t + np.array(places) // n % (m + 1))[::-1]:  # every edit leads to a larger t + i
        if c == 0 or not settled[c]:
            continue
        if places[c] // n % (m + 1) == m and ends[places[c] % n] and (t[c] == horizon or not fixed):
            left[c] = 0
        for row in edits_of(places[c], *graph):
            if row[0] in number:
                left[c] = min(left[c], row[1] + left[number[row[0]]])
    return np.array(places), np.array(so_far), left, max(level, now) if found else -1


@compiled
def align(given: Any, made: Any) -> Any:
    """Which given state each of the made ones (n,) is, kept or changed, by the fewest edits; -1 where it was put in."""
    m, n = len(given), len(made)
    cost, source = np.zeros((m + 1, n + 1), dtype=np.int64), np.full(n, -1)
    for i in range(m + 1):
        for j in range(n + 1):
            cost[i, j] = max(i, j) if i == 0 or j == 0 else cost[i - 1, j - 1] + (given[i - 1] != made[j - 1])
            if i > 0 and j > 0:
                cost[i, j] = min(cost[i, j], cost[i - 1, j] + 1, cost[i, j - 1] + 1)
    i, j = m, n
    while i > 0 and j > 0:
        if cost[i, j] == cost[i - 1, j - 1] + (given[i - 1] != made[j - 1]):
            i, j = i - 1, j - 1
            source[j] = i
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return source


# ---- Sequences in order, and trajectories as sequences: first of states, then of actions

Step = tuple[int | None, int, Any]
"""A letter (None: nothing is written; END: it ends), what it costs, and the place it leads to."""

END = -1


def in_order(
    first: Iterable[Step], after: Callable[[Any], Iterable[Step]], left: Callable[[Any], int], most: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every sequence of letters that costs `most` or less, with its cost: the cheapest first, then by letters.

    `left` says what is to be paid from a place on, exactly, so that nothing is looked at in vain.
    """
    heap: list[tuple[int, tuple[int, ...], dict[Any, int]]] = []

    def push(letters: tuple[int, ...], steps: Iterable[Step]) -> None:
        """Longer by a letter: all places where such a sequence may be, and what it has cost until there."""
        reached: dict[int, dict[Any, int]] = {}
        for letter, cost, place in steps:
            assert letter is not None
            if cost + left(place) <= most:
                its = reached.setdefault(letter, {})
                its[place] = min(cost, its.get(place, UNPAID))
        for letter, its in reached.items():  # sequences differ, so that the places are never compared
            heapq.heappush(heap, (min(cost + left(place) for place, cost in its.items()), (*letters, letter), its))

    push((), first)
    while heap:
        whole, letters, reached = heapq.heappop(heap)
        if letters[-1] == END:
            yield whole, letters[:-1]
            continue
        waiting, steps = list(reached), list[Step]()
        while waiting:
            place = waiting.pop()
            for letter, cost, to in after(place):
                total = reached[place] + cost
                if letter is not None:
                    steps.append((letter, total, to))
                elif total < reached.get(to, UNPAID):
                    reached[to] = total
                    waiting.append(to)
        push(letters, steps)


def nearest(product: Product, tau: Trajectory) -> Iterator[Trajectory]:
    """All trajectories of a product: the nearest to tau first, then by states, by actions kept, and by actions."""
    given = np.array([min(state, product.world.n_states) for state in tau.states], dtype=np.int64)
    m, n, ways = len(given), product.n_nodes, product.topological
    MEMORY.require(12 * (m + 1) * n, f"the repair of {m:,} states by {n:,} nodes", EngineError, "Lower max_nodes")
    longest = product.horizon if ways is None else min(product.horizon, int(ways[1].max(initial=0)))
    graph = *(np.asarray(one, dtype=np.int64) for one in (product.indptr, product.target, product.state)), given
    dense = product.indptr, product.target, product.state, product.distance, given  # unsigned numbers do not wrap round
    starts = product.starts.astype(np.int64)
    before = np.arange(m + 1)[:, None]  # of the given states are left out
    put_in = np.stack(np.broadcast_arrays(before * n + starts, before + 1, -1), axis=2)
    taken = put_in[:-1] + np.stack(np.broadcast_arrays(n, (given[:, None] != graph[2][starts]) - 1, 0), axis=2)
    first, level = np.concatenate([put_in, taken]).reshape(-1, 3), -1
    law = product.accepting, product.distance, first, product.horizon, product.fixed_length
    tolls = np.zeros(1, dtype=np.int64)
    ahead = np.stack([costs_ahead(*dense, 0)])
    left: dict[int, int] = {}  # what is to be paid from each place on

    def after(place: int) -> Iterator[Step]:
        t, i, node = place // (n * (m + 1)), place // n % (m + 1), place % n
        if i == m and product.accepting[node] and (t == product.horizon or not product.fixed_length):
            yield END, 0, END
        for to, cost, edge in edits_of(place, *graph).tolist():
            if to in left:
                yield None if edge < 0 else int(product.state[to % n]), cost, to

    while level <= max(m, longest + 1) and product.feasible():  # all are put in, left out or changed
        places, so_far, ahead_of_them, found = search(graph, *law, tolls, ahead, level)
        if found < 0:
            tolls = np.array([0, 1, -1] if product.fixed_length else [0, 1])
            ahead = np.stack([costs_ahead(*dense, toll) for toll in tolls.tolist()])
            continue
        left.clear()
        left.update(zip(places.tolist(), ahead_of_them.tolist(), strict=True))
        left[END] = 0
        begun = np.flatnonzero((places >= 0) & (places < n * (m + 1))).tolist()
        steps = [(int(product.state[places[c] % n]), int(so_far[c]), int(places[c])) for c in begun]
        for cost, states in in_order(steps, after, left.__getitem__, found):
            if cost == found:  # cheaper ones have been had
                for actions in _actions(product, states, _kept(given, np.array(states), tau.actions)):
                    yield Trajectory(states, actions)
        level = found + 1


def _kept(given: NDArray[np.int64], states: NDArray[np.int64], actions: tuple[int, ...]) -> list[int]:
    """The given action of each step whose two ends were both kept, -1 of others."""
    source = align(given, states)
    kept = (source >= 0) & (given[source] == states)
    whole = kept[:-1] & kept[1:] & (source[1:] == source[:-1] + 1)
    return [actions[i] if both else -1 for i, both in zip(source[:-1].tolist(), whole.tolist(), strict=True)]


def _actions(product: Product, states: tuple[int, ...], kept: list[int]) -> Iterator[tuple[int, ...]]:
    """All actions that lead through these states, those first that keep the most of the given ones."""
    last = len(states) - 1

    def after(place: tuple[int, int]) -> Iterator[Step]:
        t, node = place
        if t == last and product.accepting[node]:
            yield END, 0, END
        for e in range(product.indptr[node], product.indptr[node + 1]) if t < last else ():
            if product.state[product.target[e]] == states[t + 1]:
                action = int(product.world.action[product.edge[e]])
                yield action, int(action != kept[t] >= 0), (t + 1, int(product.target[e]))

    begun = [(0, int(node)) for node in product.starts if product.state[node] == states[0]]
    layers = [begun]
    for _ in range(last):
        layers.append(list({to: None for place in layers[-1] for _, _, to in after(place)}))
    left: dict[Any, int] = {END: 0}
    for place in (place for layer in reversed(layers) for place in layer):
        left[place] = min((cost + left[to] for _, cost, to in after(place)), default=UNPAID)
    for _, letters in in_order([(0, 0, place) for place in begun], after, left.__getitem__, UNPAID - 1):
        yield letters[1:]


MOST_REPAIR_NODES = DEFAULT_MAX_NODES // RELAXED_SHARE  # a table has them all, for every position
MOST_STATES = 100_000  # of trajectories that keep the rules that fit the product: in narrow worlds they grow long


@dataclass(frozen=True)
class Repair:
    """A valid trajectory near to a given one, the number of edits between their states, and each edit in words."""

    trajectory: Trajectory
    cost: int
    edits: tuple[str, ...]


def repair(
    world: MDP | Network,
    rule: Rules | None,
    tau: Trajectory,
    best: int | None = None,
    start: Any = None,
    goal: Any = None,
    max_nodes: int = MOST_REPAIR_NODES,
) -> Any:
    """The valid trajectory nearest to a given one: with the fewest states put in, left out and changed.

    The given one may be impossible in the world; a valid one comes back itself. Of several that are as near it is the
    one with the lexicographically first states, then actions; a step that is kept keeps its action where it can. Rules
    that are usually kept do not matter.

    Parameters
    ----------
    world
        An MDP: it may begin in any start of positive probability. Or a Network: it leads between the given one's ends.
    rule
        A constraint, or several that all have to hold; None: only the world matters.
    tau
        The trajectory that is to be mended.
    best
        How many of the nearest to list; None: only the nearest.
    start, goal
        For a network: other ends, as states or names.
    max_nodes
        The budget of the product of world and rules. Rules that do not fit are looked at afterwards, one trajectory at
        a time.

    Returns
    -------
    Repair | list[Repair]
        With `.trajectory`, `.cost` and `.edits`; with `best` a list of them, the nearest first.

    Raises
    ------
    InfeasibleError
        When no trajectory is valid.
    ProductTooLargeError
        When the rules do not fit the product, and too many of the nearest that keep those that fit break the others.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> mended = xm.repair(grid, xm.never(grid.at((1, 1))), xm.Trajectory([0, 1, 4, 5, 8], [1, 0, 1, 0]))
    >>> mended.edits, mended.trajectory
    (('position 2: cell (1, 1) becomes cell (2, 0)',), Trajectory(states=[0, 1, 2, 5, 8], actions=[1, 1, 0, 0]))
    """
    if not isinstance(tau, Trajectory):
        raise TrajectoryError(f"repair(world, rule, tau) takes a Trajectory; got {type(tau).__name__}.")
    wanted = require_whole("best of repair(...)", 1 if best is None else best, least=0)
    if isinstance(world, Network):
        ends = (tau.states[0], start, "start"), (tau.states[-1], goal, "goal")
        states = (world.require_state(a, c) if b is None else world.read_state(b) for a, b, c in ends)
        world = NetworkTask(world, *states)
    elif start is not None or goal is not None:
        raise EngineError("repair(..., start=, goal=) are for networks: a world has its own start and end.")
    hard = hard_part(as_constraint(rule))
    if hard is not None:
        hard.check_world(world)
    found = [_described(world, tau, one) for one in islice(_valid(world, hard, tau, max_nodes), wanted)]
    if wanted and not found:
        raise InfeasibleError("no trajectory of this world keeps all rules: a search has been through all of them.")
    return found[0] if best is None else found


def _valid(world: MDP, rule: Constraint | None, tau: Trajectory, max_nodes: int) -> Iterator[Trajectory]:
    """All valid trajectories, the nearest first."""
    try:
        yield from nearest(feasible_product(CompiledConstraint(rule, world), max_nodes), tau)
    except ProductTooLargeError:
        states = 0
        for made in nearest(relax(world, rule, max_nodes).product, tau):
            if (states := states + len(made.states)) > MOST_STATES:
                raise
            if rule is None or rule.accepts(made):
                yield made


def _described(world: MDP, tau: Trajectory, made: Trajectory) -> Repair:
    """With its edits in the world's words, in the order of positions of tau."""

    def named(state: int) -> str:
        return world.describe_state(state) if state < world.n_states else f"state {state}"

    given, edits, next_one = tau.states, list[str](), 0
    source = align(np.array([min(state, world.n_states) for state in given]), np.array(made.states)).tolist()
    for state, own in [*zip(made.states, source, strict=True), (-1, len(given))]:
        upto = own if own >= 0 else next_one
        edits += [f"position {i}: {named(given[i])} is left out" for i in range(next_one, upto)]
        if own < 0:
            where = f"before position {next_one}" if next_one < len(given) else "at the end"
            edits.append(f"{where}: {named(state)} is put in")
        elif state >= 0 and given[own] != state:
            edits.append(f"position {own}: {named(given[own])} becomes {named(state)}")
        next_one = upto + (own >= 0)
    return Repair(made, len(edits), tuple(edits))
