"""What to do at every node and time, by maximum causal entropy, and what comes of it.

V_t(n) = log sum over choices of exp(gamma^t r + sum over outcomes of T V_{t+1}(n')), and the share of each choice in
it is its probability. What an end is worth says what is promised:

- "sure": 0 where every rule was kept, -inf elsewhere. A choice with an outcome from which nothing is sure is -inf.
- "best": only choices with the largest chance of keeping the rules take part; all ends are worth 0.
- "bonus": an end at which every rule was kept is worth `bonus`, others 0.

An end at which every rule was kept is also worth the weights of those rules that are usually kept and were.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.constraints.constraint import Constraint, usual_rules
from xmen.engines.exact import as_walks
from xmen.engines.settings import EngineSettings, find_device
from xmen.errors import ConstraintError, EngineError, InfeasibleError, Message, XmenError, require_horizon
from xmen.machines.tables import CompiledConstraint, as_trajectories
from xmen.options import is_number
from xmen.policies.game import Bools, Floats, Game, Index, Numbers, Occupancy, Stretch, game_of
from xmen.product.graph import build_complete_product
from xmen.product.messages import as_columns, best_completions, draw_starts
from xmen.product.sweeps import best_layer
from xmen.worlds import MDP, Trajectory, Walks
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.walks import require_count

NEEDS_HORIZON = (
    "a policy that can be executed needs a limit on the number of actions, and this world has cycles and no horizon: "
    "give it a horizon, as in network.task(start, goal, horizon=...)."
)


def make_game(world: MDP, rules: Constraint | None, max_nodes: int | None = None, device: str | None = None) -> Game:
    """Everything that can happen in a world while the rules are watched; policies are worked out on `device`."""
    for rule in usual_rules(rules):
        if rule.weight is None:
            raise ConstraintError(Message("usually({!r}) has no weight here: policies take weight=nats.", rule.label))
    length = world.episode_length
    if length is None:
        raise EngineError(NEEDS_HORIZON)
    settings = EngineSettings(max_nodes=max_nodes, device=device)
    place, compiled = find_device(settings.device), CompiledConstraint(rules, world, ends_anywhere=True)
    return game_of(build_complete_product(compiled, settings.node_budget, length), place)


Validity: TypeAlias = str | float
"""What a policy promises: to keep the rules surely ("sure"), as likely as can be ("best"), or with a probability."""
Aim: TypeAlias = str | float
"""What it aims at: "sure", "best", or in place of a probability the bonus in return for which it is kept."""


def read_validity(validity: Any) -> Validity:
    """ "sure", "best" or a probability, or an EngineError that says so."""
    if isinstance(validity, str) and validity in ("sure", "best"):
        return validity
    if is_number(validity) and 0.0 <= validity <= 1.0:
        return float(validity)
    raise EngineError(f"validity is 'sure', 'best', or a probability from 0 to 1; got {validity!r}.")


def unpaid(validity: Validity) -> Aim:
    """The aim before a promise has a price: a probability is not aimed at yet, 'sure' and 'best' are."""
    return 0.0 if isinstance(validity, float) else validity


TOLERANCE = 1e-12  # chances of keeping the rules that differ by less than this part of them are the same


class Layer(NamedTuple):
    """One number of actions t."""

    value: Numbers  # per node
    chance: Numbers  # of keeping the rules by these shares ever after; None for "sure": 1 where the value is finite
    shares: Numbers  # of all choices


class Behaviour:
    """The shares of all choices at every time, for one reward (n_states, n_actions), discount and aim.

    A flat reward has the weights of rules that are usually kept after it; else they have their own.
    """

    def __init__(self, game: Game, table: Floats, discount: float, aim: Aim) -> None:
        product, usual = game.product, game.product.compiled.usual
        table, rules = np.split(table.ravel(), [product.world.n_states * product.world.n_actions])
        self._rules = rules if len(rules) else np.array([rule.weight or 0.0 for rule in usual])
        self.game, self.table, self.discount, self.aim = game, table.reshape(product.world.n_states, -1), discount, aim
        self.timeless = game.one_sweep and product.timeless(discount)
        self._reward = game.rewards(self.table)
        ends = product.layer_ends
        total = 8 * int(ends.sum() + game.first_choice[ends].astype(np.int64).sum())
        self._stride = 1 if total <= game.layer_bytes else max(2, int(np.sqrt(game.horizon)))
        self._kept: dict[int, Layer] = {}  # where they were made
        self._segment: dict[int, Layer] = {}
        self._fetched: tuple[int, Layer] | None = None
        if self.timeless:
            self._kept[0] = self._sweep()
            return
        require_horizon(game.horizon, total / self._stride)
        self._ends_before = self._ends(product.accepting & (not product.fixed_length))
        layer = self._kept[game.horizon] = Layer(*self._ends(product.accepting), None)
        for t in range(game.horizon - 1, -1, -1):
            layer = self._before(t, layer)
            if t % self._stride == 0:
                # With a stride the shares are made again with the layers in between.
                self._kept[t] = layer if self._stride == 1 else layer._replace(shares=None)

    @classmethod
    def unrewarded(cls, game: Game, aim: Aim) -> Self:
        """The behaviour where nothing is earned: what can be promised does not depend on rewards."""
        world = game.product.world
        return cls(game, np.zeros((world.n_states, world.n_actions)), 1.0, aim)

    def _ends(self, won: Bools) -> tuple[Numbers, Numbers | None]:
        """What ending at each node is worth, and the chance that it kept the rules, where `won` says which have."""
        sure, bonus = self.aim == "sure", self.aim if isinstance(self.aim, float) else 0.0
        worth = np.where(won, bonus + self.game.product.keeps @ self._rules, -np.inf if sure else 0.0)
        return self.game.array(worth), None if sure else self.game.array(won)

    def _sweep(self) -> Layer:
        """One layer for all times: level after level, from the last nodes to the first."""
        game, product = self.game, self.game.product
        ends = self._ends(product.stops)
        reward = self._reward * self.discount ** product.depth[game.node].astype(np.float64)
        chance = None if ends[1] is None else np.empty(product.n_nodes)
        whole = Layer(np.empty(product.n_nodes), chance, np.empty(game.n_choices))
        for level in game.levels:
            found = self._made(level, reward[level.choices], ends, whole)
            whole.value[level.nodes], whole.shares[level.choices] = found.value, found.shares
            if chance is not None:
                chance[level.nodes] = found.chance
        return whole

    def _before(self, t: int, after: Layer) -> Layer:
        """Layer t from layer t + 1."""
        stretch = self.game.stretch(0, self.n_reached(t))
        reward = self._reward[: len(stretch.choices)]
        reward = reward if self.discount == 1.0 else reward * self.discount**t
        return self._made(stretch, reward, self._ends_before, after)

    def _made(self, stretch: Stretch, reward: Numbers, ends: tuple[Numbers, Numbers | None], after: Layer) -> Layer:
        """Value, chance and shares of some nodes, from those of the nodes that come after."""
        game, worth = self.game, ends[0][stretch.nodes]
        logits = game.expected(stretch, after.value, reward)
        if ends[1] is None:
            value, shares = game.soften(stretch, logits, worth)
            return Layer(value, None, shares)
        odds = game.expected(stretch, after.chance)
        if self.aim == "best":
            logits[~game.best(stretch, odds, TOLERANCE)] = -np.inf
        value, shares = game.soften(stretch, logits, worth)
        chance = game.mixed(stretch, shares, odds, ends[1][stretch.nodes])
        if self.aim == "best":  # shares add up to 1 but for their rounding: without it, what is sure stays 1
            chance = chance / game.mixed(stretch, shares, 0.0 * odds + 1.0, 0.0 * value + 1.0)
        return Layer(value, chance, shares)

    def n_reached(self, t: int) -> int:
        """How many nodes, the first ones, are worked out for t actions: all of them where time plays no role."""
        return self.game.product.n_nodes if self.timeless else int(self.game.product.layer_ends[t])

    def _layer(self, t: int) -> Layer:
        """The layer of t actions where it was made, kept or made again; no shares at t = horizon."""
        if self.timeless or self._stride == 1 or t == self.game.horizon:
            return self._kept[0 if self.timeless else t]
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
            moved = (None if part is None else self.game.on_host(part) for part in self._layer(time))
            self._fetched = fetched = time, Layer(*moved)
        return fetched[1]

    def shares(self, t: int) -> Numbers:
        """The shares of all choices as action number t, where they were made."""
        return self._layer(t).shares

    def allowed(self, t: int, node: int | None = None) -> Bools:
        """Which choices of a node, or of all that t actions reach, the aim allows as action number t.

        These sets are not read off the shares: what is allowed may be so unlikely that its share is 0.
        """
        game, after = self.game, self._layer(t + 1)
        stretch = game.stretch(0, self.n_reached(t)) if node is None else game.stretch(node, node + 1)
        if isinstance(self.aim, float):
            return np.ones(len(stretch.choices), dtype=np.bool_)
        if self.aim == "sure":
            return game.on_host(game.expected(stretch, after.value) > -np.inf)
        return game.on_host(game.best(stretch, game.expected(stretch, after.chance), TOLERANCE))

    def chance(self, t: int, nodes: Any) -> Any:
        """The probability of keeping every rule from these nodes, reached by t actions."""
        layer = self.layer(t)
        return np.isfinite(layer.value[nodes]) if layer.chance is None else layer.chance[nodes]

    @cached_property
    def start_values(self) -> Floats:
        """V_0 of each of the product's start nodes."""
        return np.asarray(self.layer(0).value[self.game.product.starts])

    @cached_property
    def start_chances(self) -> Floats:
        """The probability of keeping every rule, from each of the product's start nodes."""
        return np.asarray(self.chance(0, self.game.product.starts), dtype=np.float64)

    def occupancy(self, starts: Floats, with_entropy: bool = False, discount: float | None = None) -> Occupancy:
        """What happens from start nodes with these probabilities; uses are counted with the reward's own discount."""
        discount, game = self.discount if discount is None else discount, self.game
        if not self.timeless:
            return push_forward(game, self.shares, discount, starts, with_entropy)
        flow = game.begin(starts)
        for level in reversed(game.levels):
            game.push(flow, level, self.shares(0), 1.0, with_entropy)
        flow.used *= discount ** game.product.depth[game.node].astype(np.float64)
        return flow

    def visits(self, starts: Floats) -> Floats:
        """Expected discounted uses of each state and action, shape (n_states, n_actions)."""
        return self.game.visits(self.occupancy(starts).used)

    def moments(self, starts: Floats) -> Floats:
        """`visits`; where rules are usually kept flat, with the probability of keeping each and all others after it."""
        found, product = self.occupancy(starts), self.game.product
        visits, last = self.game.visits(found.used), found.here if product.fixed_length else found.here + found.ended
        kept = (self.game.on_host(last) * product.accepting) @ product.keeps
        return np.append(visits, kept) if len(kept) else visits

    def hopeful_visits(self) -> Floats:
        """Expected visits (n_states, n_actions), without discount, while every rule can still be kept with luck."""
        game, product = self.game, self.game.product
        found = self.occupancy(game.start_probability, discount=1.0)
        hopeful = distance_to(product.accepting, product.sources(), product.target) < UNREACHABLE
        return game.visits(found.used * game.array(hopeful[game.node]))


def push_forward(
    game: Game, shares_at: Callable[[int], Any], discount: float, starts: Floats, with_entropy: bool = False
) -> Occupancy:
    """What happens from start nodes with these probabilities when action t follows shares_at(t), for every t."""
    flow = game.begin(starts)
    for t in range(game.horizon):
        stretch = game.stretch(0, int(game.product.layer_ends[t]))
        game.push(flow, stretch, game.array(shares_at(t)), discount**t, with_entropy)
    return flow


AS_BEST = 1e-9  # a probability this near to the best one is the best one
MET = 1e-10  # how far above p the probability of keeping the rules may end
MOST_BONUS = 1e13  # beyond this a double cannot tell a step's reward from nothing


def is_sure(behaviour: Behaviour, starts: Floats) -> bool:
    """Whether a behaviour that aims at "sure" gets there from every start of positive probability."""
    return bool(np.isfinite(behaviour.start_values[starts > 0]).all())


def best_chance(behaviour: Behaviour, starts: Floats) -> float:
    """The largest probability of keeping the rules, given the behaviour that aims at it."""
    return min(1.0, float(behaviour.start_chances @ starts))


def find_behaviour(game: Game, table: Floats, discount: float, validity: Validity, starts: Floats) -> Behaviour | None:
    """The behaviour of maximum causal entropy that keeps the promise, from starts with these probabilities, or None.

    The price of a promise of probability p is the bonus at which the probability is p, or 0 where it is larger without.
    It rises with the bonus, which is found between two by bisection and secants (Illinois), from above.
    """
    if not isinstance(validity, float):
        behaviour = Behaviour(game, table, discount, validity)
        return behaviour if validity == "best" or is_sure(behaviour, starts) else None

    def at(bonus: float) -> tuple[float, Behaviour]:
        behaviour = Behaviour(game, table, discount, bonus)
        return float(behaviour.start_chances @ starts) - validity, behaviour

    left, behaviour = at(0.0)
    if left >= 0.0:
        return behaviour
    best = Behaviour(game, table, discount, "best")
    if validity >= best_chance(best, starts) - AS_BEST:
        return best if validity <= best_chance(best, starts) + AS_BEST else None
    low, high = 0.0, 1.0
    surplus, behaviour = at(high)
    while surplus < 0.0:
        low, left, high = high, surplus, 4.0 * high
        if high > MOST_BONUS:
            return best
        surplus, behaviour = at(high)
    right, last_was_high = surplus, None  # the surplus at both ends, as the secant sees them
    for trial in range(200):
        if surplus <= MET or high - low <= 1e-15 * high:
            break
        share = left / (left - right) if trial % 3 < 2 else 0.5
        middle = low + (high - low) * min(max(share, 1e-6), 1.0 - 1e-6)
        found, tried = at(middle)
        if found >= 0.0:
            left = left / 2.0 if last_was_high is True else left
            high, surplus, right, behaviour, last_was_high = middle, found, found, tried, True
        else:
            right = right / 2.0 if last_was_high is False else right
            low, left, last_was_high = middle, found, False
    return behaviour


def restricted(promise: Behaviour) -> Game:
    """The game with the choices alone that a promise allows at some time, and the nodes that are reached by them."""
    game, product = promise.game, promise.game.product
    kept = np.zeros(game.n_choices, dtype=np.bool_)
    for t in range(1 if promise.timeless else game.horizon):
        allowed = promise.allowed(t)
        kept[: len(allowed)] |= allowed
    kept_edges = np.repeat(kept, np.diff(game.first_edge))
    source, target, edge = product.sources()[kept_edges], product.target[kept_edges], product.edge[kept_edges]
    begun = np.zeros(product.n_nodes, dtype=np.bool_)
    begun[product.starts] = True
    reached = distance_to(begun, target, source) < UNREACHABLE
    indptr = np.searchsorted(source, np.arange(product.n_nodes + 1)).astype(np.uint32)
    smaller = replace(product, indptr=indptr, target=target, edge=edge)
    return game_of(smaller.pruned(np.where(reached, product.distance, UNREACHABLE)), game.device)


@compiled
def follow_edges(indptr: Any, target: Any, edge: Any, nodes: Any, wanted: Any, n_steps: int) -> Any:
    """The product edges of walks from these nodes above world edges (n, longest); -1 from the first on that is not."""
    out = np.full(wanted.shape, -1, dtype=np.int64)
    for i in range(len(nodes)):
        node = nodes[i]
        for t in range(n_steps if node >= 0 else 0):
            for e in range(indptr[node], indptr[node + 1]):
                if edge[e] == wanted[i, t]:
                    out[i, t] = e
                    break
            if out[i, t] < 0:
                break
            node = np.int64(target[out[i, t]])
    return out


def follow(game: Game, walks: Walks) -> NDArray[np.int64]:
    """The choice of each step (n, longest); -1 after the end, and from the first step on that the game lacks."""
    product = game.product
    place = np.full(product.world.n_states + 1, -1, dtype=np.int64)
    place[product.state[product.starts]] = product.starts
    edges = walks.as_rows(walks.edges, fill=-1)
    nodes, n_steps = place.take(walks.starts, mode="clip"), min(edges.shape[1], game.horizon)
    taken = follow_edges(product.indptr, product.target, product.edge, nodes, edges, n_steps)
    return np.asarray(np.searchsorted(game.first_edge, taken, side="right") - 1)


def log_probs(behaviour: Behaviour, walks: Walks) -> Floats:
    """sum_t log pi(a_t | history) of each, (n,); -inf where a step is impossible or would not be chosen."""
    product, choices = behaviour.game.product, follow(behaviour.game, walks)
    total = np.where(np.isin(walks.starts, product.state[product.starts]), 0.0, -np.inf)
    for t, made in enumerate(choices.T):
        on_way = np.flatnonzero(made >= 0)
        total[(made < 0) & (walks.lengths > t)] = -np.inf
        if len(on_way):
            with np.errstate(divide="ignore"):
                total[on_way] += np.log(behaviour.layer(t).shares[made[on_way]])
    return total


def likeliest_episode(behaviour: Behaviour) -> tuple[Trajectory, float]:
    """An episode of the largest probability, and that probability in logs; failed and unfinished ones take part."""
    game, product, ended = behaviour.game, behaviour.game.product, np.diff(behaviour.game.product.indptr) == 0

    def log_weights(t: int) -> Floats:
        """log (share of the choice times chance of the outcome) of the edges that action t can take."""
        shares = behaviour.layer(t).shares
        chances = game.probability[: game.first_edge[len(shares)]]
        with np.errstate(divide="ignore"):
            return np.repeat(np.log(shares), np.diff(game.first_edge[: len(shares) + 1])) + np.log(chances)

    if behaviour.timeless:
        value, taken = best_completions(product, log_weights(0), np.where(ended, 0.0, -np.inf))
        steps: list[NDArray[Any]] = [taken]
    else:
        require_horizon(game.horizon, 4 * int(product.layer_ends.sum()))
        graph = product.indptr, product.target, np.arange(product.n_edges, dtype=np.uint32)
        value, stop, steps = np.zeros(product.n_nodes), np.where(ended, 0.0, -np.inf), []
        for t in range(game.horizon - 1, -1, -1):
            n, after = behaviour.n_reached(t), value
            value, place = np.empty(n), np.empty(n, dtype=np.uint32)
            best_layer(graph, log_weights(t), stop, after, value, place)
            steps.append(product.indptr[:n] + place)
    with np.errstate(divide="ignore"):
        totals = np.log(game.start_probability) + value[product.starts]
    first = int(np.argmax(totals))
    node, edges = int(product.starts[first]), list[int]()
    while not ended[node] and (behaviour.timeless or len(edges) < game.horizon):
        edges.append(int(steps[0 if behaviour.timeless else -1 - len(edges)][node]))
        node = int(product.target[edges[-1]])
    walks = as_walks(product, product.starts[[first]], np.array([edges], dtype=np.uint32))
    return as_trajectories(walks)[0], float(totals[first])


BATCH_CELLS = 20_000_000  # actions held at once; larger requests are played in batches


def play_many(behaviour: Behaviour, n: int, rng: np.random.Generator) -> Iterator[tuple[Walks, Bools]]:
    """n episodes, failed and unfinished ones included, in batches, and which of them kept every rule and arrived."""
    n, batch = require_count(n, behaviour.game.product.world), max(1, BATCH_CELLS // (behaviour.game.horizon + 1))
    return (play(behaviour, min(batch, n - begin), rng) for begin in range(0, n, batch))


def play(behaviour: Behaviour, n: int, rng: np.random.Generator) -> tuple[Walks, Bools]:
    """n episodes as walks, and which of them kept every rule and arrived: by the machines, run over them again."""
    game, product = behaviour.game, behaviour.game.product
    lost = np.flatnonzero((behaviour.start_values == -np.inf) & (game.start_probability > 0))
    if len(lost):
        where = product.world.describe_state(int(product.state[product.starts[lost[0]]]))
        raise InfeasibleError(f"an episode cannot begin in {where}: no trajectory from there keeps the constraint.")
    starts, steps = draw_starts(product, game.start_probability, n, rng), list[Index]()
    players = game.players(starts)
    for t in range(game.horizon):
        taken = game.play(players, behaviour.shares(t), rng)
        if taken is None:
            break
        steps.append(game.on_host(taken).view(np.uint32))
    walks, node = as_walks(product, starts, as_columns(steps, n)), game.on_host(players).view(np.uint32)
    arrived = walks.lengths == product.horizon if product.fixed_length else product.world.terminal[product.state[node]]
    valid: Bools = product.compiled.check(walks) & arrived
    broken = behaviour.aim == "sure" and not valid.all()
    if broken or not np.array_equal(valid, product.accepting[node] & arrived):
        raise XmenError("an episode's rules and its policy's memory disagree: this is a bug, please report it.")
    return walks, valid
