"""Policies, and trajectories made by following one: what a learner without a model of the world would see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.constraint import Constraint
from xmen.constraints.occurrence import never
from xmen.errors import EngineError
from xmen.events import Event, at, doing
from xmen.limits import require_horizon
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.worlds import MDP, Walks

Index = NDArray[np.int64]

SUM_TOLERANCE = 1e-6  # how far the probabilities of a state may be from summing to 1


def read_policy(policy: ArrayLike | None, world: MDP, name: str) -> Floats:
    """pi(a | s), shape (n_states, n_actions), checked; None is uniform over the actions available in each state."""
    shape = (world.n_states, world.n_actions)
    if policy is None:
        uniform: Floats = world.available / np.maximum(1, world.available.sum(axis=1, keepdims=True))
        return uniform
    try:
        table = np.array(policy, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.shape != shape:
        found = f"an array of shape {table.shape}" if table.size else f"{type(policy).__name__} {policy!r:.40}"
        raise EngineError(f"{name} must be probabilities of shape (n_states, n_actions) = {shape}; got {found}.")
    wrong = np.argwhere(~(np.isfinite(table) & (table >= 0)) | ((table > 0) & ~world.available))
    if len(wrong):
        state, action = (int(i) for i in wrong[0])
        problem = "" if world.available[state, action] else ", where that action is not available"
        raise EngineError(
            f"{name} gives {world.describe_action(action)} in {world.describe_state(state)} the probability "
            f"{table[state, action]}{problem}."
        )
    sums = table.sum(axis=1)
    off = np.flatnonzero(world.available.any(axis=1) & (np.abs(sums - 1.0) > SUM_TOLERANCE))
    if len(off):
        raise EngineError(
            f"{name}: the probabilities in {world.describe_state(int(off[0]))} sum to {sums[off[0]]:.6g}, not to 1."
        )
    normalised: Floats = table / np.where(sums > 0, sums, 1.0)[:, None]
    return normalised


def never_taken(world: MDP, policy: Floats) -> Constraint | None:
    """The rule against actions that the policy never takes; None where it takes them all."""
    unused: Event | None = None
    for action in range(world.n_actions):
        states = np.flatnonzero(world.available[:, action] & (policy[:, action] == 0)).tolist()
        if states:
            event = at(*states) & doing(action)
            unused = event if unused is None else unused | event
    return None if unused is None else never(unused).named("what the base policy never does")


@dataclass(frozen=True)
class Rollouts:
    """Complete trajectories: f(tau) (n, d), log(base / proposal) and the start of each (n,); how many were tried."""

    features: Floats
    log_weight: Floats
    starts: NDArray[np.int64]
    tried: int

    @classmethod
    def draw(
        cls,
        world: MDP,
        base: Floats,
        proposal: Floats,
        features: Features,
        discount: float,
        n: int,
        most: int,
        rng: np.random.Generator,
    ) -> Self:
        """n complete trajectories of the proposal policy, or as many as `most` attempts give.

        An attempt that meets no terminal state within the horizon is no trajectory of this world and is left out:
        the rest are independent draws from the policy given that it completes, and the normalisation of the
        importance weights takes care of the probability of completing. O(longest) numpy steps per batch of n.
        """
        rows, weights, tried, complete = [np.empty((0, features.d))], [np.empty(0)], 0, 0
        begun = [np.empty(0, dtype=np.int64)]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (np.log(base) - np.log(proposal))[world.source, world.action]
        while complete < n and tried < most:
            size = min(n, most - tried)
            starts, edges, done = _follow(world, proposal, size, rng)
            kept = np.flatnonzero(done)[: n - complete]
            # The last batch counts only as far as it was needed.
            tried += int(kept[-1]) + 1 if complete + len(kept) == n else size
            complete += len(kept)
            walks = Walks.padded(world, starts[kept], edges[kept], np.count_nonzero(edges[kept] >= 0, axis=1))
            rows.append(features.contract(walks.visit_rows(discount)))
            weights.append(walks.totals(ratio))
            begun.append(starts[kept])
        log_weight = np.concatenate(weights)
        possible = log_weight > -np.inf  # a proposal may also go where the base policy never does
        return cls(np.concatenate(rows)[possible], log_weight[possible], np.concatenate(begun)[possible], tried)


def _follow(world: MDP, policy: Floats, n: int, rng: np.random.Generator) -> tuple[Index, Index, NDArray[np.bool_]]:
    """Starts of n attempts, their edges (n, longest), -1 after the end, and which of them are complete."""
    probability = policy[world.source, world.action] * world.probability
    possible = np.flatnonzero(probability > 0)
    source = world.source[possible].astype(np.int64)
    row = np.searchsorted(source, np.arange(world.n_states + 1))
    total = np.concatenate([[0.0], np.cumsum(probability[possible])])
    # Within a row the cumulative probabilities rise from 0 to 1, so that all rows together are one sorted array.
    key = source + np.minimum(total[1:] - total[row[source]], 1.0)
    starts = rng.choice(world.n_states, size=n, p=world.start)
    state = starts.copy()
    require_horizon(world.max_length, 8 * n * world.max_length)
    edges = np.full((n, world.max_length), -1, dtype=np.int64)
    for t in range(world.max_length):
        walking = np.flatnonzero(row[state + 1] > row[state])  # neither at the end nor in a dead end
        if not len(walking):
            break
        here = state[walking]
        place = np.searchsorted(key, here + rng.random(len(here)), side="right")
        edge = possible[np.clip(place, row[here], row[here + 1] - 1)]
        edges[walking, t] = edge
        state[walking] = world.target[edge]
    complete: NDArray[np.bool_] = world.terminal[state] if world.has_terminal else np.all(edges >= 0, axis=1)
    return starts, edges, complete
