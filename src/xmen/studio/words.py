"""Trajectories in the words of their world, as JSON has them: cells and moves, nodes, or numbers."""

from __future__ import annotations

from collections.abc import Iterable
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


class Reader:
    """Reads trajectories in the words of one world; each word is understood once."""

    def __init__(self, world: MDP) -> None:
        self._names = Names(world)
        self._states: dict[Any, int] = {}
        self._actions: dict[Any, int] = {}

    def read(self, record: dict[str, Any]) -> Trajectory:
        """The trajectory that a record spells; Unreadable where the world has no such state or action."""
        states, actions = [], []
        for position, state in enumerate(record["states"]):
            try:
                states.append(self._state(state))
                if position < len(record["actions"]):
                    actions.append(self._action(record["actions"][position]))
            except XmenError as error:
                raise Unreadable(str(error), position) from None
        try:
            return Trajectory(states, actions)
        except XmenError as error:
            raise Unreadable(str(error)) from None

    def _state(self, word: Any) -> int:
        key = repr(word)
        if key not in self._states:
            self._states[key] = self._names.state(word, named=self._names.has_nodes)
        return self._states[key]

    def _action(self, word: Any) -> int:
        key = repr(word)
        if key not in self._actions:
            self._actions[key] = self._names.action(word)
        return self._actions[key]


def read_all(world: MDP, records: Iterable[dict[str, Any]]) -> list[Trajectory | Unreadable]:
    """Every record as a trajectory, or why it is none."""
    reader = Reader(world)

    def attempt(record: dict[str, Any]) -> Trajectory | Unreadable:
        try:
            return reader.read(record)
        except Unreadable as error:
            return error

    return [attempt(record) for record in records]
