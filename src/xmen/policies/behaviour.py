"""What to do at every node and time, by maximum causal entropy, and what comes of it.

V_t(n) = log sum over choices of exp(gamma^t r + sum over outcomes of T V_{t+1}(n')), and the share of each choice in
it is its probability. What an end is worth says what is promised:

- "sure": 0 where every rule was kept, -inf elsewhere. A choice with an outcome from which nothing is sure is -inf.
- "best": only choices with the largest chance of keeping the rules take part; all ends are worth 0.
- "bonus": an end at which every rule was kept is worth `bonus`, others 0.

The arithmetic itself is that of `Game.operations`: compiled loops, or a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.errors import InfeasibleError, XmenError, require_horizon
from xmen.machines.tables import as_trajectories
from xmen.policies.game import Bools, Floats, Game, Index, Occupancy, Stretch, counts, game_of
from xmen.product.graph import layer_ends
from xmen.product.messages import NO_EDGE, draw_starts
from xmen.worlds import Trajectory, Walks
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.walks import require_count

TOLERANCE = 1e-12  # chances of keeping the rules that differ by less than this part of them are the same


class Aim(NamedTuple):
    """What a policy promises: the rules surely, as likely as can be, or in return for a bonus."""

    kind: Literal["sure", "best", "bonus"]
    bonus: float = 0.0


SURE, BEST = Aim("sure"), Aim("best")


def aim_of(validity: str | float) -> Aim:
    """What a promise leaves open: "sure", "best", or a probability, without a price for it yet."""
    return SURE if validity == "sure" else BEST if validity == "best" else Aim("bonus", 0.0)


class Layer(NamedTuple):
    """One number of actions t: value and chance of keeping the rules per node, and the shares of all choices.

    The chance is that of making choices by these shares, here and ever after. Under "sure" it is 1 wherever the value
    is finite, and is not kept.
    """

    value: Any
    chance: Any
    shares: Any


class Behaviour:
    """The shares of all choices at every time, for one reward (n_states, n_actions), discount and aim."""

    def __init__(self, game: Game, table: Floats, discount: float, aim: Aim) -> None:
        self.game, self.table, self.discount, self.aim = game, table, discount, aim
        self._do = do = game.operations
        self._reward = do.rewards(table)
        self.timeless = do.one_sweep and game.product.timeless(discount)
        ends = game.product.layer_ends
        total = 8 * int(ends.sum() + game.first_choice[ends].astype(np.int64).sum())
        self._stride = 1 if total <= do.layer_bytes else max(2, int(np.sqrt(game.horizon)))
        self._kept: dict[int, Layer] = {}  # where they were made
        self._segment: dict[int, Layer] = {}
        self._fetched: tuple[int, Layer] | None = None
        if self.timeless:
            self._sweep()
        else:
            require_horizon(game.horizon, total / self._stride)
            self._backward()

    @classmethod
    def unrewarded(cls, game: Game, aim: Aim) -> Self:
        """The behaviour where nothing is earned: what can be promised does not depend on rewards."""
        world = game.product.world
        return cls(game, np.zeros((world.n_states, world.n_actions)), 1.0, aim)

    def _ends(self, won: Bools) -> tuple[Any, Any]:
        """What ending at each node is worth, and the chance that it kept the rules, where `won` says which have."""
        good, bad = (self.aim.bonus, 0.0) if self.aim.kind == "bonus" else (0.0, -np.inf)
        worth = np.zeros(len(won)) if self.aim.kind == "best" else np.where(won, good, bad)
        return self._do.array(worth), None if self.aim.kind == "sure" else self._do.array(won)

    @cached_property
    def _ends_before(self) -> tuple[Any, Any]:
        """What ending before the last action is worth, and the chance that it kept the rules and arrived."""
        product = self.game.product
        return self._ends(product.accepting & (not product.fixed_length))

    def _sweep(self) -> None:
        """One layer for all times: level after level, from the last nodes to the first."""
        product, do = self.game.product, self._do
        ends = self._ends(product.stops)
        reward = self._reward * self.discount ** product.depth[self.game.node].astype(np.float64)
        sizes = product.n_nodes, 0 if ends[1] is None else product.n_nodes, self.game.n_choices
        whole = Layer(*map(do.room, sizes))
        for level in self.game.levels:
            found = self._made(level, reward[level.choices], ends, whole)
            whole.value[level.nodes], whole.shares[level.choices] = found.value, found.shares
            if found.chance is not None:
                whole.chance[level.nodes] = found.chance
        self._kept[0] = whole if ends[1] is not None else whole._replace(chance=None)

    def _backward(self) -> None:
        game = self.game
        layer = Layer(*self._ends(game.product.accepting), None)
        self._kept[game.horizon] = layer
        for t in range(game.horizon - 1, -1, -1):
            layer = self._before(t, layer)
            if t % self._stride == 0:
                # With a stride the shares are made again with the layers in between.
                self._kept[t] = layer if self._stride == 1 else layer._replace(shares=None)

    def _before(self, t: int, after: Layer) -> Layer:
        """Layer t from layer t + 1."""
        stretch = self.game.stretch(0, int(self.game.product.layer_ends[t]))
        reward = self._reward[: len(stretch.choices)]
        reward = reward if self.discount == 1.0 else reward * self.discount**t
        return self._made(stretch, reward, self._ends_before, after)

    def _made(self, stretch: Stretch, reward: Any, ends: tuple[Any, Any], after: Layer) -> Layer:
        """Value, chance and shares of some nodes, from those of the nodes that come after."""
        do, worth = self._do, ends[0][stretch.nodes]
        logits = do.expected(stretch, after.value, reward)
        if self.aim.kind == "sure":
            value, shares = do.soften(stretch, logits, worth)
            return Layer(value, None, shares)
        odds, won = do.expected(stretch, after.chance), ends[1][stretch.nodes]
        if self.aim.kind == "best":
            logits = do.only(do.best(stretch, odds, TOLERANCE), logits)
        value, shares = do.soften(stretch, logits, worth)
        chance = do.mixed(stretch, shares, odds, won)
        if self.aim.kind == "best":  # shares add up to 1 but for their rounding: without it, what is sure stays 1
            chance = chance / do.mixed(stretch, shares, 0.0 * odds + 1.0, 0.0 * value + 1.0)
        return Layer(value, chance, shares)

    def _layer(self, t: int) -> Layer:
        """The layer of t actions where it was made, kept or made again; no shares at t = horizon."""
        if self.timeless:
            return self._kept[0]
        if self._stride == 1 or t == self.game.horizon:
            return self._kept[t]
        segment = self._segment
        if t not in segment:
            begin = t - t % self._stride
            end = min(begin + self._stride, self.game.horizon)
            layer, segment = self._kept[end], {}
            for s in range(end - 1, begin - 1, -1):
                layer = segment[s] = self._before(s, layer)
            self._segment = segment
        return segment[t]

    def layer(self, t: int) -> Layer:
        """The layer of t actions as arrays of the host; no shares at t = horizon."""
        fetched, time = self._fetched, 0 if self.timeless else t
        if fetched is None or fetched[0] != time:
            moved = (None if part is None else self._do.on_host(part) for part in self._layer(time))
            self._fetched = fetched = time, Layer(*moved)
        return fetched[1]

    def shares(self, t: int) -> Any:
        """The shares of all choices as action number t, where they were made."""
        return self._layer(t).shares

    def allowed(self, t: int, begin: int, end: int) -> Bools:
        """Which choices of the nodes begin to end may be made as action number t.

        Under "sure" those without an outcome from which nothing is sure, under "best" those with the largest chance of
        keeping the rules. These sets are not read off the shares: what is allowed may be so unlikely that its share is
        0.
        """
        do, stretch, after = self._do, self.game.stretch(begin, end), self._layer(t + 1)
        if self.aim.kind == "bonus":
            return np.ones(len(stretch.choices), dtype=np.bool_)
        if self.aim.kind == "sure":
            return do.on_host(do.expected(stretch, after.value) > -np.inf)
        return do.on_host(do.best(stretch, do.expected(stretch, after.chance), TOLERANCE))

    @cached_property
    def start_values(self) -> Floats:
        """V_0 of each of the product's start nodes."""
        values: Floats = self.layer(0).value[self.game.product.starts]
        return values

    @cached_property
    def start_chances(self) -> Floats:
        """The probability of keeping every rule, from each of the product's start nodes."""
        first = self.layer(0)
        if first.chance is None:
            return np.isfinite(self.start_values).astype(np.float64)
        chances: Floats = first.chance[self.game.product.starts]
        return chances

    def occupancy(self, starts: Floats, with_entropy: bool = False, discount: float | None = None) -> Occupancy:
        """What happens from start nodes with these probabilities; uses are counted with the reward's own discount."""
        discount = self.discount if discount is None else discount
        if not self.timeless:
            return push_forward(self.game, self.shares, discount, starts, with_entropy)
        do, depth = self._do, self.game.product.depth[self.game.node].astype(np.float64)
        flow = do.begin(starts)
        for level in reversed(self.game.levels):
            do.push(flow, level, self.shares(0), 1.0, with_entropy)
        found = do.totals(flow)
        return found._replace(used=found.used * discount**depth)

    def visits(self, occupancy: Occupancy) -> Floats:
        """Expected discounted uses of each state and action, shape (n_states, n_actions)."""
        return self._do.visits(occupancy.used).reshape(self.table.shape)

    def state_visits(self, starts: Floats) -> Floats:
        """Expected number of positions at each state, ends included, shape (n_states,)."""
        found = self.occupancy(starts, discount=1.0)
        visits: Floats = self.visits(found).sum(axis=1)
        visits += np.bincount(self.game.product.state, weights=found.ended + found.last, minlength=len(visits))
        return visits


def push_forward(
    game: Game, shares_at: Callable[[int], Any], discount: float, starts: Floats, with_entropy: bool = False
) -> Occupancy:
    """What happens from start nodes with these probabilities when action t follows shares_at(t), for every t."""
    do = game.operations
    flow = do.begin(starts)
    for t in range(game.horizon):
        stretch = game.stretch(0, int(game.product.layer_ends[t]))
        do.push(flow, stretch, do.array(shares_at(t)), discount**t, with_entropy)
    return do.totals(flow)


# ---- Which choices a promise leaves open, and the game in which only those are left


def ever_allowed(behaviour: Behaviour) -> Bools:
    """Which choices may be made at some time, shape (n_choices,)."""
    game, ever = behaviour.game, np.zeros(behaviour.game.n_choices, dtype=np.bool_)
    times = range(1) if behaviour.timeless else range(game.horizon - 1, -1, -1)
    for t in times:
        n = game.product.n_nodes if behaviour.timeless else int(game.product.layer_ends[t])
        allowed = behaviour.allowed(t, 0, n)
        ever[: len(allowed)] |= allowed
    return ever


def restricted(game: Game, kept: Bools) -> Game:
    """The game with these choices alone, and with the nodes that are reached through them."""
    product = game.product
    kept_edges = np.repeat(kept, counts(game.first_edge))
    source = np.repeat(np.arange(product.n_nodes), counts(product.indptr))[kept_edges]
    target, edge = product.target[kept_edges], product.edge[kept_edges]
    indptr = np.searchsorted(source, np.arange(product.n_nodes + 1))
    begun = np.zeros(product.n_nodes, dtype=np.bool_)
    begun[product.starts] = True
    reached = distance_to(begun, target, source.astype(np.uint32)) < UNREACHABLE
    number = np.cumsum(reached) - 1
    inside = reached[source]
    depth = product.depth[reached]
    smaller = replace(
        product,
        state=product.state[reached],
        depth=depth,
        distance=product.distance[reached],
        accepting=product.accepting[reached],
        indptr=np.concatenate([[0], np.cumsum(np.diff(indptr)[reached])]).astype(np.uint32),
        target=number[target[inside]].astype(np.uint32),
        edge=edge[inside],
        starts=number[product.starts].astype(np.uint32),
        layer_ends=layer_ends(depth, product.horizon),
    )
    return game_of(smaller, game.device)


# ---- Trajectories as walks through a game: at which node each action was taken, and how likely it was


@compiled
def follow_edges(indptr: Any, edge: Any, nodes: Any, wanted: Any) -> Any:
    """The product edge of each node that lies above a world edge; the largest unsigned number where there is none."""
    out = np.empty(len(nodes), dtype=np.uint32)
    for i in range(len(nodes)):
        out[i] = NO_EDGE
        for e in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            if edge[e] == wanted[i]:
                out[i] = e
                break
    return out


def follow(game: Game, starts: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The product edges (n, longest) of walks that start in these states and take these world edges (n, longest).

    `NO_EDGE` from the first step on that the game does not have; so are world edges of -1.
    """
    product = game.product
    place = np.full(product.world.n_states, -1, dtype=np.int64)
    place[product.state[product.starts]] = product.starts
    known = (starts >= 0) & (starts < len(place))
    node = np.where(known, place[np.where(known, starts, 0)], -1)
    out = np.full(edges.shape, NO_EDGE, dtype=np.uint32)
    for t in range(min(edges.shape[1], game.horizon)):
        going = np.flatnonzero((node >= 0) & (edges[:, t] >= 0))
        taken = follow_edges(product.indptr, product.edge, node[going], edges[going, t])
        out[going, t] = taken
        node[:] = -1
        found = taken != NO_EDGE
        node[going[found]] = product.target[taken[found]]
    return out


def log_probs(behaviour: Behaviour, trajectories: Sequence[Trajectory]) -> Floats:
    """sum_t log pi(a_t | history) of each, (n,); -inf where a step is impossible or would not be chosen."""
    world = behaviour.game.product.world
    lengths = np.array([len(tau) for tau in trajectories], dtype=np.int64)
    edges = np.full((len(lengths), int(lengths.max(initial=0))), -1, dtype=np.int64)
    for row, tau in zip(edges, trajectories, strict=True):
        row[: len(tau)] = world.find_steps(tau)
    starts = np.array([min(tau.states[0], world.n_states) for tau in trajectories], dtype=np.int64)
    return walk_log_probs(behaviour, starts, edges, lengths)


def walk_log_probs(
    behaviour: Behaviour, starts: NDArray[np.int64], edges: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Floats:
    """`log_probs` of walks that start in these states and take these world edges (n, longest)."""
    game = behaviour.game
    taken = follow(game, starts, edges)
    choice = np.searchsorted(game.first_edge, np.minimum(taken, len(game.probability)), side="right") - 1
    is_start = np.isin(starts, game.product.state[game.product.starts])
    total = np.where(is_start, 0.0, -np.inf)
    for t in range(edges.shape[1]):
        going = np.flatnonzero(lengths > t)
        on_way = going[taken[going, t] != NO_EDGE]
        step = np.full(len(lengths), 0.0)
        step[going] = -np.inf
        if len(on_way):
            with np.errstate(divide="ignore"):
                step[on_way] = np.log(behaviour.layer(t).shares[choice[on_way, t]])
        total += step
    return total


# ---- What a behaviour mostly does: its likeliest episode, and its visits while the rules can still be kept


@compiled
def likeliest_layer(
    order: Any,
    first_choice: Any,
    first_edge: Any,
    target: Any,
    log_outcome: Any,
    shares: Any,
    after: Any,
    value: Any,
    taken: Any,
) -> None:
    """value[n] = the largest log-probability of what follows, and the product edge that begins it.

    Nodes without choices keep their value. `after` may be `value` itself, in an order from the last nodes to the first.
    """
    for i in range(len(order)):
        node = order[i]
        if first_choice[node] == first_choice[node + 1]:
            continue
        best, edge = -np.inf, first_edge[first_choice[node]]
        for c in range(first_choice[node], first_choice[node + 1]):
            if shares[c] == 0.0:
                continue
            chosen = np.log(shares[c])
            for e in range(first_edge[c], first_edge[c + 1]):
                total = chosen + log_outcome[e] + after[target[e]]
                if total > best:
                    best, edge = total, e
        value[node], taken[node] = best, edge


def likeliest_episode(behaviour: Behaviour) -> tuple[Trajectory, float]:
    """An episode of the largest probability, and that probability in logs; failed and unfinished ones take part."""
    game, product = behaviour.game, behaviour.game.product
    with np.errstate(divide="ignore"):
        log_outcome, log_start = np.log(game.probability), np.log(game.start_probability)
    order = np.arange(product.n_nodes, dtype=np.uint32)
    if behaviour.timeless:
        assert product.topological is not None
        order = product.topological[0][::-1].copy()
    else:
        require_horizon(game.horizon, 4 * int(product.layer_ends.sum()))
    value, steps = np.zeros(product.n_nodes), list[Index]()
    for t in range(0 if behaviour.timeless else game.horizon - 1, -1, -1):
        n = product.n_nodes if behaviour.timeless else int(product.layer_ends[t])
        before = value if behaviour.timeless else np.zeros(product.n_nodes)
        steps.append(np.zeros(n, dtype=np.uint32))
        shares = behaviour.layer(t).shares
        likeliest_layer(order[:n], *game.graph[:3], log_outcome, shares, value, before, steps[-1])
        value = before
    totals = log_start + value[product.starts]
    first = int(np.argmax(totals))
    node = int(product.starts[first])
    edges: list[int] = []
    while game.choices_of(node) and (behaviour.timeless or len(edges) < game.horizon):
        edges.append(int(steps[0 if behaviour.timeless else -1 - len(edges)][node]))
        node = int(product.target[edges[-1]])
    taken = product.edge[np.array(edges, dtype=np.int64)]
    states = [int(product.state[product.starts[first]]), *product.world.target[taken].tolist()]
    return Trajectory(states, product.world.action[taken].tolist()), float(totals[first])


def hopeful_visits(behaviour: Behaviour) -> Floats:
    """Expected visits (n_states, n_actions), without discount, while every rule can still be kept.

    What a policy does after that says nothing about how it keeps them.
    """
    game, do = behaviour.game, behaviour.game.operations
    found = behaviour.occupancy(game.start_probability, discount=1.0)
    return behaviour.visits(found._replace(used=found.used * do.array(game.hopeful[game.node])))


# ---- Whole episodes in the world's own chances, many at a time, and every one of them checked


BATCH_CELLS = 20_000_000  # actions held at once; larger requests are played in batches


def rollout(behaviour: Behaviour, n: int, rng: np.random.Generator) -> list[Trajectory]:
    """n episodes, failed and unfinished ones included."""
    n = require_count(n, behaviour.game.product.world)
    return [tau for walks, _ in _batches(behaviour, n, rng) for tau in as_trajectories(walks)]


def count_kept(behaviour: Behaviour, n: int, rng: np.random.Generator) -> int:
    """How many of n episodes keep every rule and arrive."""
    return sum(int(kept.sum()) for _, kept in _batches(behaviour, n, rng))


def _batches(behaviour: Behaviour, n: int, rng: np.random.Generator) -> Iterator[tuple[Walks, Bools]]:
    batch = max(1, BATCH_CELLS // (behaviour.game.horizon + 1))
    return (play(behaviour, min(batch, n - begin), rng) for begin in range(0, n, batch))


def play(behaviour: Behaviour, n: int, rng: np.random.Generator) -> tuple[Walks, Bools]:
    """n episodes as walks, and which of them kept every rule and arrived: by the machines, run over them again."""
    game, product = behaviour.game, behaviour.game.product
    lost = np.flatnonzero((behaviour.start_values == -np.inf) & (game.start_probability > 0))
    if len(lost):
        where = product.world.describe_state(int(product.state[product.starts[lost[0]]]))
        raise InfeasibleError(f"an episode cannot begin in {where}: no trajectory from there keeps the constraint.")
    starts, do = draw_starts(product, game.start_probability, n, rng), game.operations
    players, steps = do.players(starts), list[Any]()
    for t in range(game.horizon):
        taken = do.play(players, behaviour.shares(t), rng)
        if taken is None:
            break
        steps.append(taken)
    columns, node = do.played(players, steps)
    going = columns != NO_EDGE
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(going, axis=1))])
    walks = Walks(product.world, product.state[starts], product.edge[columns[going]].astype(np.int32), offsets)
    arrived = walks.lengths == product.horizon if product.fixed_length else product.world.terminal[product.state[node]]
    valid: Bools = product.compiled.check(walks) & arrived
    broken = behaviour.aim.kind == "sure" and not valid.all()
    if broken or not np.array_equal(valid, product.accepting[node] & arrived):
        raise XmenError("an episode's rules and its policy's memory disagree: this is a bug, please report it.")
    return walks, valid
