"""Trajectories in the words of their world, as JSON has them: cells and moves, nodes, or numbers."""

from __future__ import annotations

from typing import Any

from xmen.errors import TrajectoryError, XmenError
from xmen.worlds import MDP, GridWorld, Trajectory
from xmen.worlds.from_networkx import GraphWorld
from xmen.worlds.names import Names


def state_word(world: MDP, state: int) -> Any:
    """A cell [x, y], the text of a node, or a number."""
    if isinstance(world, GridWorld):
        return list(world.cell(state))
    return str(world.node(state)) if isinstance(world, GraphWorld) else int(state)


def action_word(world: MDP, action: int) -> Any:
    """The name of a move, or a number."""
    return world.moves[action] if isinstance(world, GridWorld) else int(action)


def in_words_of(world: MDP, trajectory: Trajectory) -> dict[str, Any]:
    """{"states": [...], "actions": [...]}; a state that the world does not have stays a number."""
    known = world.problem(trajectory) is None or max(trajectory.states) < world.n_states
    actions = [action_word(world, a) if a < world.n_actions else int(a) for a in trajectory.actions]
    return {
        "states": [state_word(world, state) if known else int(state) for state in trajectory.states],
        "actions": actions,
    }


class Unreadable(TrajectoryError):
    """A trajectory in words that this world does not have, and the position of the first of them."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


def from_words(record: dict[str, Any], names: Names) -> Trajectory:
    """The trajectory that a record spells; Unreadable where the world has no such state or action."""
    states, actions = [], []
    for position, value in enumerate(record["states"]):
        try:
            states.append(names.state(value, named=names.has_nodes))
            if position < len(record["actions"]):
                actions.append(names.action(record["actions"][position]))
        except XmenError as error:
            raise Unreadable(str(error), position) from None
    return Trajectory(states, actions)
