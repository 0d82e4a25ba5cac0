"""Batches of trajectories as arrays over a world's edges: what engines draw and list, and what users demonstrate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from xmen.errors import MEMORY, EngineError
from xmen.options import require_whole
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory

# ---- Log-weights of the moves of a world: what every engine sums over trajectories.
#
# A trajectory weighs exp(log_start[s_0] + sum_t log_dynamics[e_t] + gamma^t reward[e_t]) over the edges e_t it takes.
# Rewards are discounted and probabilities are not, so the two stand side by side.

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class EdgeWeights:
    """log T and r of each edge, log d0 of each state, and the discount of r."""

    log_dynamics: Floats  # (E,)
    reward: Floats  # (E,)
    log_start: Floats  # (n_states,), -inf where nothing starts
    discount: float = 1.0
    given_start: bool = False  # starts are drawn as log_start says, whatever follows from them
    rules: Floats = field(default_factory=lambda: np.zeros(0))  # (k,), of the rules that are usually kept

    @classmethod
    def of(
        cls, world: MDP, table: Floats | None = None, discount: float = 1.0, given_start: bool = False
    ) -> EdgeWeights:
        """R + log D under a table of rewards (n_states, n_actions); None is no reward, which leaves log D."""
        with np.errstate(divide="ignore"):
            log_start = np.log(world.start)
        dynamics = np.log(world.probability)
        nothing = cls(dynamics, np.zeros(len(dynamics)), log_start, discount, given_start)
        return nothing if table is None else nothing.with_table(world, table)

    @classmethod
    def counting(cls, world: MDP, discount: float = 1.0) -> EdgeWeights:
        """Weight 1 for every trajectory: their total weight is their number."""
        nothing = np.zeros(len(world.source))
        return cls(nothing, nothing, np.where(world.start > 0, 0.0, -np.inf), discount)

    def with_table(self, world: MDP, table: Floats) -> EdgeWeights:
        """Another reward (n_states, n_actions), or flat with the weights of rules that are usually kept after it."""
        if table.ndim == 1:
            rewards, rules = np.split(table, [world.n_states * world.n_actions])
            return replace(self.with_table(world, rewards.reshape(world.n_states, -1)), rules=rules)
        return replace(self, reward=table[world.source, world.action])

    def under(self, world: MDP, policy: Floats) -> EdgeWeights:
        """With actions drawn from pi(a | s), shape (n_states, n_actions): log pi joins the dynamics."""
        with np.errstate(divide="ignore"):
            return replace(self, log_dynamics=self.log_dynamics + np.log(policy[world.source, world.action]))

    def tempered(self, power: float) -> EdgeWeights:
        """The dynamics raised to a power; with 0 they are left out."""
        start = self.log_start.copy()
        start[start > -np.inf] *= power
        return replace(self, log_dynamics=power * self.log_dynamics, log_start=start)

    def negated(self) -> EdgeWeights:
        """The opposite sign: what is best under these is worst under the others."""
        names = ("log_dynamics", "reward", "log_start", "rules")
        return replace(self, **{name: -getattr(self, name) for name in names})

    def at(self, t: int) -> Floats:
        """The log-weight of each edge as action number t, shape (E,)."""
        return self.log_dynamics + self.discount**t * self.reward


# ---- Batches of trajectories as arrays over a world's edges: what engines draw and list, and what users demonstrate

Index: TypeAlias = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Walks:
    """n trajectories of one world: where each starts, and the edges that it takes, offsets[i] to offsets[i + 1]."""

    world: MDP
    starts: Index  # (n,)
    edges: Index  # (steps,)
    offsets: Index  # (n + 1,)

    @classmethod
    def of(cls, world: MDP, trajectories: Sequence[Trajectory]) -> Walks:
        """The walks of trajectories; an edge that the world does not have is -1."""
        n = len(trajectories)
        lengths = np.fromiter(map(len, trajectories), dtype=np.int64, count=n)
        n_steps = int(lengths.sum())
        states = np.fromiter(chain.from_iterable(t.states for t in trajectories), dtype=np.int64, count=n_steps + n)
        actions = np.fromiter(chain.from_iterable(t.actions for t in trajectories), dtype=np.int64, count=n_steps)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        first = offsets[:-1] + np.arange(n)  # each trajectory has one state more than actions
        here = np.delete(np.arange(n_steps + n), offsets[1:] + np.arange(n))
        return cls(world, states[first], world.find_transitions(states[here], actions, states[here + 1]), offsets)

    @classmethod
    def padded(cls, world: MDP, starts: Index, edges: Index, lengths: Index) -> Walks:
        """From rows of edges (n, longest), of which the first `lengths` count."""
        return cls(world, starts, edges[np.arange(edges.shape[1]) < lengths[:, None]], _offsets(lengths))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, which: Any) -> Walks:
        """Some of them: a mask, numbers, or a slice."""
        rows = np.arange(len(self))[which]
        lengths = self.lengths[rows]
        offsets = _offsets(lengths)
        steps = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Walks(self.world, self.starts[rows], self.edges[steps], offsets)

    @cached_property
    def lengths(self) -> Index:
        """The number of actions of each, shape (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> Index:
        """Whose step each is, shape (steps,)."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def time(self) -> Index:
        """The t of each step, shape (steps,)."""
        return np.arange(len(self.edges)) - self.offsets[:-1][self.owner]

    @property
    def last_states(self) -> Index:
        """Where each ends, shape (n,)."""
        last = self.starts.copy()
        moved = np.flatnonzero(self.lengths > 0)
        if len(moved):
            last[moved] = self.world.target[self.edges[self.offsets[1:][moved] - 1]]
        return last

    def possible(self) -> NDArray[np.bool_]:
        """Which start where the world does and go on where they are: shape (n,), whoever made them."""
        world = self.world
        begin: NDArray[np.bool_] = (self.starts < world.n_states) & (world.start.take(self.starts, mode="clip") > 0)
        from xmen.worlds.kernels import go_on  # numba loads when it is needed

        follow: NDArray[np.bool_] = go_on(world.source, world.target, self.starts, self.edges, self.offsets)
        return begin & follow

    def complete(self) -> NDArray[np.bool_]:
        """Which are trajectories of the world from a start to an end: shape (n,), whoever made them."""
        world = self.world
        ended: NDArray[np.bool_] = self.lengths == world.horizon
        if world.has_terminal:
            ended = world.terminal.take(self.last_states, mode="clip") & (self.lengths <= world.max_length)
        return self.possible() & ended

    def states(self) -> Index:
        """All states s_0 .. s_L of the first, then of the second, and so on: shape (steps + n,)."""
        out = np.empty(len(self.edges) + len(self), dtype=np.int64)
        first = self.offsets[:-1] + np.arange(len(self))
        out[first] = self.starts
        out[np.delete(np.arange(len(out)), first)] = self.world.target[self.edges]
        return out

    def actions(self) -> Index:
        """All actions, shape (steps,)."""
        return self.world.action[self.edges]

    def as_rows(self, values: Index, fill: int = 0) -> NDArray[Any]:
        """One value per step as rows (n, longest), with `fill` after the end."""
        out = np.full((len(self), int(self.lengths.max(initial=0))), fill, dtype=values.dtype)
        out[self.owner, self.time] = values
        return out

    def _discounts(self, discount: float) -> Floats:
        powers: Floats = discount ** np.arange(int(self.lengths.max(initial=0)), dtype=np.float64)
        return powers[self.time]

    def totals(self, values: Floats, discount: float = 1.0) -> Floats:
        """sum_t gamma^t values[e_t] of each, shape (n,), for one value per edge."""
        steps = values[self.edges]
        if discount != 1.0:
            steps = steps * self._discounts(discount)
        return np.bincount(self.owner, weights=steps, minlength=len(self)).astype(np.float64)

    def scores(self, weights: EdgeWeights) -> Floats:
        """The log-weight of each, shape (n,)."""
        total = weights.log_start[self.starts] + self.totals(weights.log_dynamics)
        return total + self.totals(weights.reward, weights.discount)

    def edge_uses(self, discount: float = 1.0, weights: Floats | None = None) -> Floats:
        """Discounted uses of each edge by all together, each counted `weights` (n,) times; shape (E,)."""
        amounts = self._discounts(discount)
        if weights is not None:
            amounts = amounts * weights[self.owner]
        return np.bincount(self.edges, weights=amounts, minlength=len(self.world.source)).astype(np.float64)

    def visits(self, discount: float = 1.0, weights: Floats | None = None) -> Floats:
        """Discounted visits of all together, each counted `weights` (n,) times; shape (n_states, n_actions)."""
        world, uses = self.world, self.edge_uses(discount, weights)
        pairs = world.source.astype(np.int64) * world.n_actions + world.action
        flat: Floats = np.bincount(pairs, weights=uses, minlength=world.n_states * world.n_actions).astype(np.float64)
        return flat.reshape(world.n_states, world.n_actions)

    def mean_visits(self) -> Floats:
        """How often each action is taken in each state, on average; shape (n_states, n_actions)."""
        return self.visits() / max(len(self), 1)

    def mean_state_visits(self) -> Floats:
        """The number of positions at each state, on average; shape (n_states,)."""
        counts = np.bincount(self.states(), minlength=self.world.n_states)
        return counts.astype(np.float64) / max(len(self), 1)

    def visit_rows(self, discount: float = 1.0) -> csr_matrix:
        """Discounted visits of each, as sparse rows of shape (n, n_states * n_actions)."""
        world = self.world
        pairs = world.source[self.edges].astype(np.int64) * world.n_actions + world.action[self.edges]
        shape = (len(self), world.n_states * world.n_actions)
        return csr_matrix((self._discounts(discount), (self.owner, pairs)), shape=shape)

    def state_rows(self) -> csr_matrix:
        """How often each is in each state, as sparse rows of shape (n, n_states)."""
        owner = np.repeat(np.arange(len(self)), self.lengths + 1)
        return csr_matrix((np.ones(len(owner)), (owner, self.states())), shape=(len(self), self.world.n_states))


def _offsets(lengths: Index) -> Index:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


# ---- How many trajectories may be asked for: a whole number of them, and no more than memory holds

TRAJECTORY_BYTES, ACTION_BYTES = 300, 16  # of a trajectory, and for each of its actions


def require_count(n: Any, world: MDP) -> int:
    """The number of samples asked for, if so many of the world's shortest trajectories fit in memory."""
    number: int = require_whole("n of sample(n)", n, least=0)
    if number * (TRAJECTORY_BYTES + ACTION_BYTES * world.max_length) > MEMORY.most:
        require_room(number, world)
    return number


def require_room(number: float, world: MDP) -> None:
    """Refuse more trajectories than fit in memory, however short."""
    shortest = world.max_length
    if world.has_terminal:
        from xmen.worlds.kernels import distance_to  # numba loads when it is needed

        shortest = int(distance_to(world.terminal, world.source, world.target)[world.start > 0].min())
    number = min(number, 1e300)  # whole numbers may have any number of digits
    shown = f"{number:,.0f}" if number < 1e15 else f"{number:.0e}"
    what = f"a list of {shown} trajectories of {shortest:,} actions or more"
    MEMORY.require(number * (TRAJECTORY_BYTES + ACTION_BYTES * shortest), what, EngineError, "Ask for fewer at a time")
