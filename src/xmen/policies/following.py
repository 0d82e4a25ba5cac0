"""Trajectories as walks through a game: at which node each action was taken, and how likely it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmen.policies import sweeps
from xmen.policies.behaviour import Behaviour
from xmen.policies.game import Game
from xmen.policies.operations import Floats
from xmen.policies.sweeps import NO_EDGE
from xmen.worlds.trajectory import Trajectory


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
        taken = sweeps.follow(product.indptr, product.edge, node[going], edges[going, t])
        out[going, t] = taken
        node[:] = -1
        found = taken != NO_EDGE
        node[going[found]] = product.target[taken[found]]
    return out


def log_probs(behaviour: Behaviour, trajectories: Sequence[Trajectory]) -> Floats:
    """sum_t log pi(a_t | history) of each, (n,); -inf where a step is impossible or would not be chosen."""
    game = behaviour.game
    world = game.product.world
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
