"""What a behaviour mostly does: its likeliest episode, and its visits while the rules can still be kept."""

from __future__ import annotations

import numpy as np

from xmen.limits import require_horizon
from xmen.policies import sweeps
from xmen.policies.behaviour import Behaviour
from xmen.policies.operations import Floats, Index
from xmen.worlds import Trajectory


def likeliest_episode(behaviour: Behaviour) -> tuple[Trajectory, float]:
    """An episode of the largest probability, and that probability in logs; failed and unfinished ones take part."""
    game, product = behaviour.game, behaviour.game.product
    with np.errstate(divide="ignore"):
        log_outcome, log_start = np.log(game.probability), np.log(game.start_probability)
    value, steps = np.zeros(product.n_nodes), list[Index]()
    if behaviour.timeless:
        assert product.topological is not None
        order = product.topological[0][::-1].copy()
        steps.append(_layer(behaviour, 0, order, log_outcome, value, value))
    else:
        require_horizon(game.horizon, 4 * int(product.layer_ends.sum()))
        every = np.arange(product.n_nodes, dtype=np.uint32)
        for t in range(game.horizon - 1, -1, -1):
            order, before = every[: product.layer_ends[t]], np.zeros(product.n_nodes)
            steps.append(_layer(behaviour, t, order, log_outcome, value, before))
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


def _layer(behaviour: Behaviour, t: int, order: Index, log_outcome: Floats, after: Floats, value: Floats) -> Index:
    """Fill the value of each of these nodes from those after it; returns the product edge that the best one takes."""
    game = behaviour.game
    taken = np.zeros(len(value) if behaviour.timeless else len(order), dtype=np.uint32)
    shares = behaviour.layer(t).shares
    sweeps.likeliest_layer(order, *game.graph[:3], log_outcome, shares, after, value, taken)
    return taken
