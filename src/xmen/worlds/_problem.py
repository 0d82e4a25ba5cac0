"""Why a trajectory is not a complete trajectory of a world, in one sentence with its position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xmen.worlds.trajectory import Trajectory

if TYPE_CHECKING:
    from xmen.worlds.mdp import MDP

_LISTED = 6  # alternatives printed before "and so on"


def find_problem(world: MDP, trajectory: Trajectory) -> tuple[int, str] | None:
    """The first problem in time as (position, sentence), or None."""
    states, actions, horizon = trajectory.states, trajectory.actions, world.horizon
    if states[0] >= world.n_states:
        return 0, _unknown_state(world, states[0])
    if world.start[states[0]] == 0.0:
        possible = np.flatnonzero(world.start > 0).tolist()
        return 0, (
            f"starts in {world.describe_state(states[0])}, which is not a start "
            f"(start: {_listed([world.describe_state(s) for s in possible])})"
        )
    edges = world.find_steps(trajectory)
    impossible = np.flatnonzero(edges < 0)
    first = int(impossible[0]) if len(impossible) else len(actions)
    if horizon is not None and horizon < len(actions) and horizon <= first:
        rule = "the horizon allows" if world.has_terminal else "without terminal states it must have exactly"
        return horizon, f"has {len(actions)} actions, {rule} {horizon}"
    if len(impossible):
        return _impossible_step(world, first, states[first], actions[first], states[first + 1])
    if world.has_terminal and not world.terminal[states[-1]]:
        ends = [world.describe_state(s) for s in np.flatnonzero(world.terminal).tolist()]
        last = f"{world.describe_state(states[-1])}, which is not terminal (terminal: {_listed(ends)})"
        if len(actions) == horizon:
            return len(actions), f"runs out of time: after all {horizon} actions of the horizon it is in {last}"
        stuck = "" if world.available[states[-1]].any() else " and has no actions"
        return len(actions), f"ends in {last}{stuck}"
    if not world.has_terminal and len(actions) != horizon:
        return len(actions), (f"has {len(actions)} actions, without terminal states it must have exactly {horizon}")
    return None


def is_unfinished(world: MDP, trajectory: Trajectory) -> bool:
    """Whether it is an episode that did not arrive: out of time, or out of actions."""
    first, last = trajectory.states[0], trajectory.states[-1]
    if first >= world.n_states or world.start[first] == 0.0 or np.any(world.find_steps(trajectory) < 0):
        return False
    arrived = world.terminal[last] if world.has_terminal else len(trajectory) == world.horizon
    return not arrived and (len(trajectory) == world.horizon or not world.available[last].any())


def _impossible_step(world: MDP, position: int, state: int, action: int, target: int) -> tuple[int, str]:
    here = world.describe_state(state)
    if world.terminal[state]:
        return position, f"goes on after {here}, which is terminal (a trajectory ends where it first meets one)"
    if action >= world.n_actions:
        return position, f"action {action} does not exist: the world has actions 0 to {world.n_actions - 1}"
    what = world.describe_action(action)
    if not world.available[state, action]:
        choices = [world.describe_action(a) for a in np.flatnonzero(world.available[state]).tolist()]
        return position, f"{what} is not available in {here} (available: {_listed(choices)})"
    if target >= world.n_states:
        return position + 1, _unknown_state(world, target)  # the action was fine: the state after it is not
    row = slice(world.row_start[state], world.row_start[state + 1])
    outcomes = world.target[row][world.action[row] == action].tolist()
    return position, (
        f"{what} in {here} never leads to {world.describe_state(target)} "
        f"(it leads to {_listed([world.describe_state(s) for s in outcomes])})"
    )


def _unknown_state(world: MDP, state: int) -> str:
    return f"state {state} does not exist: the world has states 0 to {world.n_states - 1}"


def _listed(names: list[str]) -> str:
    if len(names) > _LISTED:
        return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"
    return ", ".join(names) if names else "none"
