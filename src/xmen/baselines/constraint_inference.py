"""Maximum likelihood constraint inference (Scobee and Sastry, ICLR 2020).

The reward is known, the rules are not. Forbidding something that no demonstration does keeps their weights and shrinks
Z, so the likelihood of the demonstrations rises by -log(1 - p) each, where p is the probability that a trajectory does
it. Greedily forbid what has the largest p; choosing k rules so is a maximum coverage problem, for which greedy covers
at least 1 - 1/e of what the best k rules cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from xmen.constraints.constraint import Constraint, conjunction
from xmen.constraints.occurrence import never
from xmen.engines.choose import distribution
from xmen.engines.distribution import Distribution, Seed
from xmen.errors import ConstraintError, EngineError, require_horizon
from xmen.events import NO_ACTION, Event, at, doing, require_event
from xmen.learners.base import Learner, Rules
from xmen.methods.demonstrations import Demonstrations
from xmen.options import require_whole
from xmen.progress import Callback, Monitor
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.storage.models import storable
from xmen.worlds import MDP, EdgeWeights, Trajectory

# ---- The probability that a trajectory ever meets an event, for many events at once.
#
# The first-visit accrual of Scobee and Sastry (2020, Algorithm 1), exact: one backward pass turns the distribution
# over trajectories into a Markov chain over states that depends on time,
#
#     p_t(s, a, s') = T(s' | s, a) exp(gamma^t r(s, a)) Z_{t+1}(s') / Z_t(s),
#
# and one forward pass per event carries the mass that has not met it yet. What is left at the end never meets it.


Bools = NDArray[np.bool_]

BLOCK_CELLS = 4_000_000  # events are carried in blocks of at most this many (transition, event) cells


def meeting_probabilities(
    world: MDP,
    reward: Floats,
    discount: float,
    events: Sequence[Event],
    forbidden: Sequence[Event] = (),
    given: str | None = None,
) -> Floats:
    """P(the event happens at some position) under exp(R) D over trajectories on which nothing `forbidden` happens.

    `reward` has shape (n_states, n_actions); the answer has one number per event. With H the world's `max_length` and
    E its transitions: O(H E) for the backward pass and O(H E) per event, in blocks of numpy. Some trajectory must be
    left (otherwise the numbers are nan): whoever asks has demonstrations that are. `given`: "start" for starts as the
    world says.
    """
    banned_edge, banned_end = happens(world, forbidden)
    chain = _Chain(world, reward, discount, np.invert(banned_edge.any(axis=1)), np.invert(banned_end.any(axis=1)))
    meets_edge, meets_end = happens(world, events)
    width = max(1, BLOCK_CELLS // max(1, len(world.source)))
    answer = np.empty(len(events))
    for begin in range(0, len(events), width):
        block = slice(begin, begin + width)
        answer[block] = 1.0 - chain.mass_that_avoids(meets_edge[:, block], meets_end[:, block], given)
    return np.clip(answer, 0.0, 1.0)


def happens(world: MDP, events: Sequence[Event]) -> tuple[Bools, Bools]:
    """Where events happen: on each transition (at its source), shape (E, n); at each last state, shape (S, n)."""
    edges, ends = np.zeros((len(world.source), len(events)), bool), np.zeros((world.n_states, len(events)), bool)
    source, action = world.source.astype(np.int64), world.action.astype(np.int64)
    states = np.arange(world.n_states)
    for column, event in enumerate(events):
        edges[:, column] = event.holds(source, action)
        ends[:, column] = event.holds(states, np.full(world.n_states, NO_ACTION))
    return edges, ends


class _Chain:
    """The distribution over trajectories as a chain over states, one transition probability per edge and time."""

    def __init__(self, world: MDP, reward: Floats, discount: float, edge_allowed: Bools, end_allowed: Bools) -> None:
        self.world, self.horizon = world, world.max_length
        self._ends = world.terminal if world.has_terminal else np.ones(world.n_states, dtype=bool)
        self._log_dynamics = np.where(edge_allowed, np.log(world.probability), -np.inf)
        self._reward, self._discount = reward[world.source, world.action], discount
        # Edges are sorted by source, so that a sum over the edges of a state is a sum over a stretch.
        self._leaving = np.flatnonzero(np.diff(world.row_start))
        self._into = csr_matrix(
            (np.ones(len(world.source)), (world.target, np.arange(len(world.source)))),
            shape=(world.n_states, len(world.source)),
        )
        self._from = csr_matrix(
            (np.ones(len(world.source)), (np.arange(len(world.source)), world.source)),
            shape=(len(world.source), world.n_states),
        )
        require_horizon(self.horizon, 8 * world.n_states * self.horizon)
        stop = np.where(self._ends & end_allowed, 0.0, -np.inf)
        self._values = [stop]
        for t in range(self.horizon - 1, -1, -1):
            self._values.append(self._before(t, self._values[-1], stop))
        self._values.reverse()

    def _weights(self, t: int, after: Floats) -> Floats:
        return self._log_dynamics + self._discount**t * self._reward + after[self.world.target]

    def _before(self, t: int, after: Floats, stop: Floats) -> Floats:
        value = stop.copy() if self.world.has_terminal else np.full(len(stop), -np.inf)
        if len(self._leaving):
            rows = self.world.row_start[self._leaving]
            # Terminal states have no edges, so nothing is overwritten here.
            value[self._leaving] = np.logaddexp.reduceat(self._weights(t, after), rows)
        return value

    def _step(self, t: int) -> Floats:
        """p_t of every edge; 0 for edges that cannot be taken at time t."""
        here = self._values[t][self.world.source]
        possible = here > -np.inf
        weights = self._weights(t, self._values[t + 1])
        step: Floats = np.exp(np.where(possible, weights - np.where(possible, here, 0.0), -np.inf))
        return step

    def mass_that_avoids(self, meets_edge: Bools, meets_end: Bools, given: str | None) -> Floats:
        """The probability of never meeting each event; columns as in `happens`."""
        start = self.world.start
        if given is None:
            with np.errstate(divide="ignore"):
                start = np.log(start) + self._values[0]
            start = np.exp(start - np.logaddexp.reduce(start))
        here = np.repeat(start[:, None], meets_edge.shape[1], axis=1)
        done = np.zeros(meets_edge.shape[1])
        by_state = bool(np.all(meets_edge == meets_end[self.world.source]))
        for t in range(self.horizon + 1):
            if by_state:
                here *= ~meets_end
            if self.world.has_terminal or t == self.horizon:
                done += np.sum(here[self._ends] * ~meets_end[self._ends], axis=0)
            if t < self.horizon:
                step = self._step(t)
                if by_state:  # no need to look at single edges: one product of a sparse and a dense matrix
                    here = (self._into.multiply(step).tocsr() @ self._from) @ here
                else:
                    here = self._into @ (step[:, None] * here[self.world.source] * ~meets_edge)
        return done


# ---- Maximum likelihood constraint inference (Scobee and Sastry, ICLR 2020)


KINDS = ("states", "actions")
BLOCK = 128  # states whose probabilities are found together
SMALLEST = 1e-12  # probabilities below this are rounding errors


@dataclass(frozen=True)
class _Candidate:
    """Something that may turn out to be forbidden; `state` where it is being in one state."""

    event: Event
    name: str
    state: int | None = None

    @property
    def rule(self) -> Constraint:
        return never(self.event).named(self.name)


@storable
@dataclass(eq=False, repr=False)
class ConstraintInference(Learner):
    """The constraint-inference baseline: which states, actions and named events must have been forbidden.

    The reward is given. Rules are added greedily, each the one that forbids most of what the model so far would do and
    no demonstration does. Of two that forbid the same, events come before actions and actions before states. Cost per
    rule: one exact pass for the expected visits, which bound the probabilities of visiting from above, and O(horizon
    times transitions) for every candidate that its bound does not rule out.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    reward
        The nominal reward, an array (n_states, n_actions), a LinearReward, or None for zero.
    discount
        gamma, with 0 < gamma <= 1.
    candidates
        Which kinds are considered, of "states" and "actions".
    events
        Further candidates by name, such as {"grass": grid.at((2, 3), (2, 4))}: the paper's features.
    kl_threshold
        Stop when the next rule would lower KL(demonstrations || model) by less than this, in nats: when it forbids less
        than the share 1 - exp(-kl_threshold) of the model's behaviour.
    max_constraints
        Stop after that many in any case.
    engine, seed, callback, given
        As for XMEN.

    Attributes
    ----------
    constraints_
        Named `never(...)` in the order found. `distribution`, `sample` and `score` are under the reward and these.
    eliminated_
        The probability that each forbade when it was added.
    kl_
        The divergence before the first and after each, shape (1 + number of constraints,).
    """

    world: MDP
    reward: Reward | ArrayLike | None = None
    discount: float = 1.0
    candidates: Sequence[str] = KINDS
    events: Mapping[str, Event] | None = None
    kl_threshold: float = 0.1
    max_constraints: int | None = None
    engine: str = "auto"
    seed: Seed = None
    callback: Callback | None = None
    given: str | None = None

    def fit(
        self,
        demos: Iterable[Trajectory],
        sample_weight: ArrayLike | None = None,
        validation: Iterable[Trajectory] | None = None,
    ) -> Self:
        """Infer the rules from demonstrations, with one weight each if `sample_weight` is given."""
        # What an earlier fit inferred is no rule for these demonstrations.
        for name in ("reward_", "constraints_"):
            self.__dict__.pop(name, None)
        return super().fit(demos, sample_weight, validation)

    def _fit(self, demos: Demonstrations) -> None:
        reward = self.reward
        if not isinstance(reward, LinearReward):
            reward = LinearReward(reward_table(reward, self.world)[:, :, None], [1.0])
        table = reward_table(reward, self.world)
        avoided = self._avoided(demos)
        found: list[_Candidate] = []
        world = demos.seen_world(self.given)
        d = distribution(world, None, table, self.discount, engine="exact", given=self.given)
        kl = [_entropy_lost(demos) - demos.mean(demos.walks.scores(EdgeWeights.of(world, table, self.discount)))]
        kl[0] += d.log_partition()
        explained = False
        with Monitor(self.callback) as monitor:
            while not explained and len(found) != self.max_constraints and not monitor.stopped:
                best = self._best(d, table, avoided, found)
                if best is None:
                    explained = True
                    break
                rules = [one.rule for one in (*found, best)]
                smaller = distribution(world, rules, table, self.discount, engine="exact", given=self.given)
                gain = d.log_partition() - smaller.log_partition()
                explained = gain < self.kl_threshold
                if not explained:
                    found, d = [*found, best], smaller
                    kl.append(kl[-1] - gain)
                    monitor.record(kl[-1], 0.0, eliminated=-float(np.expm1(-gain)))
        self.constraints_ = [one.rule for one in found]
        self.kl_ = np.array(kl[: len(found) + 1])
        self.eliminated_ = -np.expm1(np.diff(self.kl_))
        self._learned(reward, monitor, explained)

    def _check_settings(self) -> None:
        super()._check_settings()
        kinds = self.candidates
        if isinstance(kinds, str) or not set(kinds) <= set(KINDS):
            raise EngineError(f"candidates must be a tuple of {' and '.join(map(repr, KINDS))}; got {kinds!r:.60}.")
        if not kinds and not self.events:
            raise EngineError("nothing to infer: give candidates or events.")
        if not isinstance(self.kl_threshold, int | float | np.number) or not self.kl_threshold >= 0:
            raise EngineError(f"kl_threshold must be a number of nats, 0 or more; got {self.kl_threshold!r:.60}.")
        require_whole("max_constraints", self.max_constraints, least=0, optional=True)
        if self.events is not None and not isinstance(self.events, Mapping):
            raise ConstraintError(f"events must be a mapping from names to events; got {type(self.events).__name__}.")
        for name, event in (self.events or {}).items():
            require_event(event, f"events[{name!r}]").check_world(self.world)

    def _avoided(self, demos: Demonstrations) -> list[_Candidate]:
        """Candidates that no demonstration does: events, then actions, then states."""
        world, steps, last = self.world, demos.walks.edges, demos.walks.last_states
        named = list((self.events or {}).items())
        on_edges, at_ends = happens(world, [event for _, event in named])
        done = np.atleast_1d(on_edges[steps].any(axis=0) | at_ends[last].any(axis=0))
        out = [_Candidate(event, f"never {name}") for (name, event), met in zip(named, done, strict=True) if not met]
        if "actions" in self.candidates:
            unused = np.setdiff1d(world.action, world.action[steps]).tolist()
            out += [_Candidate(doing(a), f"never {world.describe_action(a)}") for a in unused]
        if "states" in self.candidates:
            unseen = np.ones(world.n_states, dtype=np.bool_)
            unseen[world.source[steps]] = unseen[last] = False
            out += [_Candidate(at(s), f"never {world.describe_state(s)}", s) for s in np.flatnonzero(unseen).tolist()]
        return out

    def _best(
        self, d: Distribution, table: Floats, avoided: list[_Candidate], found: list[_Candidate]
    ) -> _Candidate | None:
        """The candidate that is most probable under `d`, or None when none is possible.

        States come by falling expected visits, which are at least the probability of visiting: the search ends
        where those fall below the best found.
        """
        visits = d.state_visits()
        states = sorted((one.state for one in avoided if one.state is not None), key=lambda s: -visits[s])
        by_state = {one.state: one for one in avoided}
        blocks = [[one for one in avoided if one.state is None]]
        blocks += [[by_state[s] for s in sorted(states[i : i + BLOCK])] for i in range(0, len(states), BLOCK)]
        best, most = None, SMALLEST
        for block in blocks:
            bound = max((1.0 if one.state is None else float(visits[one.state]) for one in block), default=0.0)
            if bound <= most:
                continue
            events = [one.event for one in block]
            rules = [one.event for one in found]
            p = meeting_probabilities(d.world, table, self.discount, events, rules, self.given)
            leader = int(np.argmax(p >= p.max() - SMALLEST))  # the first of those that tie
            if p[leader] > most + SMALLEST:
                best, most = block[leader], float(p[leader])
        return best

    def _rule(self, also: Rules = None) -> Constraint | None:
        rules = [*vars(self).get("constraints_", []), super()._rule(also)]
        return conjunction([rule for rule in rules if rule is not None])


def _entropy_lost(demos: Demonstrations) -> float:
    """sum p log p over the distinct demonstrations, with the share p of each."""
    share: dict[tuple[int, ...], float] = {}
    steps = np.split(demos.walks.edges, demos.walks.offsets[1:-1])
    for start, edges, weight in zip(demos.walks.starts.tolist(), steps, demos.weights.tolist(), strict=True):
        key = (start, *edges.tolist())
        share[key] = share.get(key, 0.0) + weight
    return sum(p * math.log(p) for p in share.values() if p > 0)
