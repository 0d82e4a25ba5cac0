"""Whole episodes in the world's own chances, many at a time, and every one of them checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import InfeasibleError, XmenError
from xmen.machines.release import as_trajectories
from xmen.policies.behaviour import Behaviour
from xmen.policies.sweeps import NO_EDGE
from xmen.product.messages import draw_starts
from xmen.worlds import Trajectory, Walks
from xmen.worlds.counting import require_count

BATCH_CELLS = 20_000_000  # actions held at once; larger requests are played in batches


def rollout(behaviour: Behaviour, n: int, rng: np.random.Generator) -> list[Trajectory]:
    """n episodes, failed and unfinished ones included."""
    n = require_count(n, behaviour.game.product.world)
    batch = max(1, BATCH_CELLS // (behaviour.game.horizon + 1))
    out: list[Trajectory] = []
    for begin in range(0, n, batch):
        out += as_trajectories(play(behaviour, min(batch, n - begin), rng)[0])
    return out


def count_kept(behaviour: Behaviour, n: int, rng: np.random.Generator) -> int:
    """How many of n episodes keep every rule and arrive."""
    batch = max(1, BATCH_CELLS // (behaviour.game.horizon + 1))
    return sum(int(play(behaviour, min(batch, n - begin), rng)[1].sum()) for begin in range(0, n, batch))


def play(behaviour: Behaviour, n: int, rng: np.random.Generator) -> tuple[Walks, NDArray[np.bool_]]:
    """n episodes as walks, and which of them kept every rule and arrived: by the machines, run over them again."""
    game = behaviour.game
    product = game.product
    lost = np.flatnonzero((behaviour.start_values == -np.inf) & (game.start_probability > 0))
    if len(lost):
        where = product.world.describe_state(int(product.state[product.starts[lost[0]]]))
        raise InfeasibleError(f"an episode cannot begin in {where}: no trajectory from there keeps the constraint.")
    starts = draw_starts(product, game.start_probability, n, rng)
    do = game.operations
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
    return walks, _checked(behaviour, walks, node)


def _checked(behaviour: Behaviour, walks: Walks, last: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which walks are valid; an error when the machines do not agree with the nodes in which the walks ended."""
    product = behaviour.game.product
    arrived = walks.lengths == product.horizon if product.fixed_length else product.world.terminal[product.state[last]]
    valid: NDArray[np.bool_] = product.compiled.check(walks) & arrived
    broken = behaviour.aim.kind == "sure" and not valid.all()
    if broken or not np.array_equal(valid, product.accepting[last] & arrived):
        raise XmenError("an episode's rules and its policy's memory disagree: this is a bug, please report it.")
    return valid
