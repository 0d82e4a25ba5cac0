"""The [reward] table: a CSV of rewards, or features by name with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from xmen.errors import RewardError
from xmen.events import Event
from xmen.limits import MEMORY
from xmen.problem._columns import columns_text, read_columns
from xmen.problem._document import TomlTable
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.worlds import MDP, GridWorld
from xmen.worlds.from_networkx import GraphWorld

COLUMNS = ("state", "action", "reward")


def steps(world: MDP) -> Floats:
    """1 for every state and action: its weight is the reward of one step."""
    return np.ones((world.n_states, world.n_actions))


def goal_distance(world: MDP) -> Floats:
    """The fewest actions from the state to a terminal one (if chance helps), whatever the action; 0 if there is no way.

    >>> from xmen import GridWorld
    >>> goal_distance(GridWorld(3, 1, start=(0, 0), goal=(2, 0), moves=("right",)))[:, 0]
    array([2., 1., 0.])
    """
    if not world.has_terminal:
        raise RewardError("the feature 'goal distance' needs terminal states, and this world has none")
    n, ends = world.n_states, np.flatnonzero(world.terminal)
    # One extra node points at all ends, and every step is walked backwards.
    sources = np.concatenate([world.target, np.full(len(ends), n)])
    targets = np.concatenate([world.source, ends])
    graph = csr_matrix((np.ones(len(sources)), (sources, targets)), shape=(n + 1, n + 1))
    distance = dijkstra(graph, indices=n, unweighted=True)[:n] - 1.0
    distance[~np.isfinite(distance)] = 0.0
    return np.repeat(distance[:, None], world.n_actions, axis=1)


FEATURES: dict[str, Callable[[MDP], Floats]] = {"steps": steps, "goal distance": goal_distance}
SENTENCES = {"steps": "1 for every step", "goal distance": "the fewest actions from the state to the goal"}


def known_features(world: MDP, events: Mapping[str, Event]) -> dict[str, str]:
    """Everything that a feature of a problem may be, by name, with a sentence for each."""
    own = {name: sentence for name, sentence in SENTENCES.items() if world.has_terminal or name != "goal distance"}
    own |= {name: f"1 for {world.describe_action(action)}" for name, action in _actions(world).items()}
    own |= {name: f"1 where {name} holds" for name in events}
    return own | {name: f"{name} of the edge" for name in _edges(world)}


def _actions(world: MDP) -> dict[str, int]:
    """The features of single actions; on a graph the numbers of actions mean nothing."""
    if isinstance(world, GridWorld):
        return {f"move {move}": action for action, move in enumerate(world.moves)}
    return {} if isinstance(world, GraphWorld) else {f"action {action}": action for action in range(world.n_actions)}


def _edges(world: MDP) -> tuple[str, ...]:
    return tuple(world.feature_names) if isinstance(world, GraphWorld) else ()


def feature_array(names: Sequence[str], world: MDP, events: Mapping[str, Event]) -> Floats:
    """The named features side by side, shape (n_states, n_actions, d)."""
    needed = 24 * len(names) * world.n_states * world.n_actions
    MEMORY.require(needed, f"{len(names):,} features of {world.n_states:,} states", RewardError)
    return np.stack([_feature(name, world, events) for name in names], axis=2)


def _feature(name: str, world: MDP, events: Mapping[str, Event]) -> Floats:
    actions, edges = _actions(world), _edges(world)
    kinds = (("built in", {*FEATURES, *actions}), ("event", events), ("edge", edges))
    meanings = [kind for kind, known in kinds if name in known]
    if len(meanings) > 1:
        raise RewardError(f"the feature {name!r} has two meanings here ({' and '.join(meanings)}): rename one")
    if name in FEATURES:
        return FEATURES[name](world)
    if name in actions:
        return np.broadcast_to(np.arange(world.n_actions) == actions[name], (world.n_states, world.n_actions)) * 1.0
    if name in events:
        states, numbers = np.indices((world.n_states, world.n_actions))
        return events[name].holds(states, numbers).astype(np.float64)
    if isinstance(world, GraphWorld) and name in edges:
        values: Floats = world.features[:, :, edges.index(name)]
        return values
    known = [*FEATURES, *actions, *events, *edges]
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise RewardError(f"unknown feature {name!r}{hint} (known: {', '.join(known)})")


def read_reward(
    table: TomlTable, world: MDP, events: Mapping[str, Event]
) -> tuple[Floats | LinearReward | None, tuple[str, ...]]:
    """The reward, and the names of its features."""
    if "table" in table and "features" in table:
        table.fail("", "give either 'table' or 'features' with 'weights', not both")
    if "table" in table:
        file = table.path("table")
        table.allow("features", "weights")
        if "weights" in table:
            table.fail("weights", "weights belong to features; a table of rewards has none")
        table.finish()
        return _read_csv(table, file, world), ()
    table.allow("table")
    names = table.texts("features", [])
    weights = table.listed("weights", (int, float), "a list of numbers, one per feature", [0.0] * len(names))
    table.finish()
    if len(set(names)) < len(names):
        table.fail("features", f"each feature once; got {', '.join(names)}")
    if len(weights) != len(names):
        table.fail("weights", f"there are {len(names)} features ({', '.join(names)}), but {len(weights)} weights")
    if not names:
        return None, ()
    with table.explaining("features"):
        features = feature_array(names, world, events)
    with table.explaining("weights"):
        return LinearReward(features, weights), tuple(names)


def _read_csv(table: TomlTable, file: Path, world: MDP) -> Floats:
    rewards = np.zeros((world.n_states, world.n_actions))
    given: set[tuple[int, int]] = set()
    for state, action, reward in read_columns(file, COLUMNS):
        pair = int(state), int(action)
        if pair[0] >= world.n_states or pair[1] >= world.n_actions:
            table.fail(
                "table",
                f"{file} has a row for state {pair[0]} and action {pair[1]}, but the world has the states "
                f"0 to {world.n_states - 1} and the actions 0 to {world.n_actions - 1}",
            )
        if pair in given:
            table.fail("table", f"{file} has two rows for state {pair[0]} and action {pair[1]}")
        given.add(pair)
        rewards[pair] = reward
    return rewards


def write_reward(
    reward: Reward | Floats | None, names: tuple[str, ...], world: MDP, events: Mapping[str, Event], target: Path
) -> tuple[dict[str, Any], dict[Path, bytes]]:
    """The [reward] table (empty without a reward), and the files that go with it: content by path."""
    if reward is None:
        return {}, {}
    if isinstance(reward, LinearReward) and names and _is_spelled(reward, names, world, events):
        return {"features": list(names), "weights": reward.weights.tolist()}, {}
    values = reward_table(reward, world)
    file = target.with_name(f"{target.stem}.reward.csv")
    rows = ((int(state), int(action), float(values[state, action])) for state, action in np.argwhere(values != 0))
    return {"table": file.name}, {file: columns_text(COLUMNS, rows).encode()}


def _is_spelled(reward: LinearReward, names: tuple[str, ...], world: MDP, events: Mapping[str, Event]) -> bool:
    """Whether the names still stand for these features: the world and the events may have been replaced."""
    try:
        return np.array_equal(reward.features, feature_array(names, world, events))
    except RewardError:
        return False
