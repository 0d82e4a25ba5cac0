"""Demonstrations in a world with chance: whole episodes, whose every step keeps the promise that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xmen.errors import InvalidDemonstrationError
from xmen.methods.demonstrations import Demonstrations
from xmen.policies.behaviour import Behaviour, push_forward
from xmen.policies.explanation import why_unsafe
from xmen.policies.following import follow
from xmen.policies.game import Game
from xmen.policies.operations import Bools, Floats
from xmen.policies.sweeps import NO_EDGE
from xmen.worlds import Trajectory
from xmen.worlds.demo_checks import also_wrong


def require_episodes(demos: Demonstrations, trajectories: Sequence[Trajectory]) -> None:
    """Refuse what is no episode of the world from its start to its end; failed and unfinished ones are episodes."""
    world = demos.walks.world
    wrong = [
        (index, *problem)
        for index in np.flatnonzero(~demos.valid).tolist()
        if (problem := world.problem(trajectories[index])) and not world.unfinished(trajectories[index])
    ]
    if wrong:
        index, position, sentence = wrong[0]
        others = also_wrong([number for number, *_ in wrong], "are no episodes of this world")
        raise InvalidDemonstrationError(f"demonstration {index} {sentence}{others}", index=index, position=position)


def demonstrated_choices(game: Game, demos: Demonstrations) -> NDArray[np.int64]:
    """The choice that each step of each demonstration makes, (n, longest), -1 past the ends."""
    taken = follow(game, demos.walks.starts, demos.walks.as_rows(demos.walks.edges, fill=-1))
    choice = np.searchsorted(game.first_edge, np.minimum(taken, len(game.probability)), side="right") - 1
    return np.where(taken == NO_EDGE, -1, choice)


def require_allowed(
    promise: Behaviour, choices: NDArray[np.int64], demos: Demonstrations, max_nodes: int | None
) -> None:
    """Refuse a demonstration with a step that the promise forbids, and say what could have gone wrong."""
    wrong: list[tuple[int, int]] = []
    for t in range(choices.shape[1]):
        n = promise.game.product.n_nodes if promise.timeless else int(promise.game.product.layer_ends[t])
        allowed = promise.allowed(t, 0, n)
        going = np.flatnonzero(choices[:, t] >= 0)
        bad = going[~allowed[choices[going, t]]]
        if len(bad):
            wrong += [(int(index), t) for index in bad]
    if not wrong:
        return
    index, position = min(wrong)
    error = _risky(promise, demos, index, position, int(choices[index, position]), max_nodes)
    error.args = (f"{error}{also_wrong(sorted({number for number, _ in wrong}), 'take such steps')}",)
    raise error


def _risky(
    promise: Behaviour, demos: Demonstrations, index: int, position: int, choice: int, max_nodes: int | None
) -> InvalidDemonstrationError:
    game, world = promise.game, demos.walks.world
    edges = demos.walks.edges[demos.walks.owner == index][:position]
    history = [int(demos.walks.starts[index]), *world.target[edges].tolist()], world.action[edges].tolist()
    state, action = history[0][-1], int(game.action[choice])
    doing = f"{world.describe_action(action)} in {world.describe_state(state)}"
    did = f"demonstration {index} does {doing} at position {position}"
    if promise.aim.kind == "best":
        message = (
            f"{did}, which has less than the best chance of keeping the rules. Ask for a probability, validity=p, or "
            "leave it out."
        )
        return InvalidDemonstrationError(message, index=index, position=position)
    edges_of = slice(int(game.first_edge[choice]), int(game.first_edge[choice + 1]))
    targets = game.product.target[edges_of]
    value = promise.layer(position + 1).value[targets]
    outcome = int(game.product.state[targets[np.flatnonzero(value == -np.inf)[0]]])
    label, reason = why_unsafe(game, [*history[1], action], [*history[0], outcome], max_nodes)
    message = (
        f"{did}, which could have gone wrong: it may lead to {world.describe_state(outcome)}, {reason}. A policy that "
        "is sure never does this. Ask for a probability, validity=p, or leave the demonstration out; validity='best' "
        "only helps where no sure policy exists, and here one does."
    )
    return InvalidDemonstrationError(message, index=index, constraint=label, position=position)


def expected_visits(
    promise: Behaviour, choices: NDArray[np.int64], weights: Floats, starts: Floats, discount: float
) -> Floats:
    """The visits of a policy that chooses as the demonstrations did, and leaves the outcomes to the world.

    At a node and time that demonstrations reached it has their frequencies. Elsewhere those of the node at other
    times, of its state, or else all that is allowed, in this order.
    """
    game = promise.game
    nodes = game.node
    n_pairs = game.product.world.n_states * game.product.world.n_actions
    steps = [(choices[:, t] >= 0, choices[:, t]) for t in range(choices.shape[1])]
    at_time: list[Floats] = [
        np.bincount(c[on], weights=weights[on], minlength=game.n_choices).astype(np.float64) for on, c in steps
    ]
    by_node: Floats = np.sum(at_time, axis=0) if at_time else np.zeros(game.n_choices)
    by_pair: Floats = np.bincount(game.pair, weights=by_node, minlength=n_pairs)[game.pair].astype(np.float64)

    def shares_at(t: int) -> Floats:
        n = int(game.product.layer_ends[t])
        n_choices = int(game.first_choice[n])
        allowed = promise.allowed(t, 0, n)
        here = at_time[t] if t < len(at_time) else np.zeros(game.n_choices)
        return _first_known([here, by_node, by_pair], allowed, nodes[:n_choices], n)

    flow = push_forward(game, shares_at, discount, starts)
    return promise.visits(flow)


def _first_known(counts: list[Floats], allowed: Bools, nodes: NDArray[np.uint32], n_nodes: int) -> Floats:
    """Shares of the choices of each node by the first of these counts that has any at it; else all that is allowed."""
    shares = np.zeros(len(allowed))
    open_nodes = np.ones(n_nodes, dtype=np.bool_)
    for count in [*counts, np.ones(len(allowed))]:
        usable = np.where(allowed, count[: len(allowed)], 0.0)
        total = np.bincount(nodes, weights=usable, minlength=n_nodes)
        now = (open_nodes & (total > 0))[nodes]
        shares[now] = usable[now] / total[nodes[now]]
        open_nodes &= total == 0
    return shares
