"""The tables of a problem file: world, events, costs and reward, and the CSV files that go with them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xmen.constraints.arithmetic import total
from xmen.constraints.text import check_names, parse_event
from xmen.errors import MEMORY, ConstraintError, ConstraintSyntaxError, FileFormatError, RewardError
from xmen.events import At, Doing, Event, at
from xmen.problem import document as toml
from xmen.problem.document import TomlTable, within_fence
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.worlds import MDP, MOVES, GridWorld
from xmen.worlds.from_networkx import GraphWorld, read_graph
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.names import rule_text
from xmen.worlds.tables import Ints, read_costs, read_numbers

Events = Mapping[str, Event]


class Beside(NamedTuple):
    """The files that go beside a problem file, the `target`: content by path."""

    target: Path
    files: dict[Path, bytes]

    def put_csv(self, what: str, header: Iterable[str], rows: Iterable[Iterable[int | float]]) -> str:
        """Add a table, with floats so that they are read back exactly; returns its name."""
        file = self.target.with_name(f"{self.target.stem}.{what}.csv")
        lines = (",".join(header), *(",".join(map(repr, row)) for row in rows))
        self.files[file] = "".join(f"{line}\n" for line in lines).encode()
        return file.name

    def put_copy(self, file: Path, ending: str) -> str:
        """Add a copy of a file from another folder, so that the problem stands on its own; returns its name."""
        if file.parent.resolve() == self.target.parent.resolve():
            return file.name
        copy = self.target.with_name(f"{self.target.stem}{ending}")
        self.files[copy] = file.read_bytes()
        return copy.name


# ---- The [costs] table: arrays by name for `total(name)`, from a file, from numbers, or from events with weights

Costs = Ints | Mapping[Event, int]

MOST_INLINE = 200  # numbers in the problem file itself
FORMS = '"file.csv", numbers in a list, or events with their weights, { mud = 3 }'


def read_cost(table: TomlTable, name: str, world: MDP, events: Events) -> Costs:
    """One entry, checked against the world."""
    value = table.values[name]
    with table.explaining(name):
        if name in events:
            table.fail(name, "there is already an event of this name: choose another")
        if isinstance(value, str):
            costs: Costs = cost_file(table.file.parent, value, world)
        elif isinstance(value, dict):
            if unknown := [key for key in value if key not in events]:
                known = ", ".join(events) or "none"
                table.fail(name, f"{unknown[0]!r} is no event of this problem; there are {known}")
            costs = {events[key]: weight for key, weight in value.items()}
        elif isinstance(value, list):
            costs = np.array(value if _is_regular(value) else [])
        else:
            table.fail(name, f"expected {FORMS}; got {value!r:.60}")
        check_names({name: costs}, "")
        (total(costs) <= 0).check_world(world)
    return costs


def cost_file(folder: Path, name: str, world: MDP) -> Ints:
    """The costs in a file that is named relative to a problem file."""
    if Path(name).suffix.lower() != ".csv":
        raise FileFormatError(f"{name!r:.60}: a table of costs is a .csv file")
    return read_costs(within_fence(folder / name), world)[0]


def write_costs(costs: Mapping[str, Costs], events: Events, beside: Beside) -> dict[str, Any]:
    """The [costs] table; large ones go beside it."""
    names, written = {event: name for name, event in events.items()}, dict[str, Any]()
    for name, value in costs.items():
        if isinstance(value, Mapping):
            written[name] = {names[event]: int(weight) for event, weight in value.items()}
        elif value.size <= MOST_INLINE:
            written[name] = value.tolist()
        else:
            rows = ((*place, int(cost)) for place, cost in np.ndenumerate(value))
            written[name] = beside.put_csv(name, (*("state", "action")[: value.ndim], "cost"), rows)
    return written


def _is_regular(value: list[Any]) -> bool:
    """Whether a list holds numbers, or rows of the same number of them."""
    rows = value if value and all(isinstance(row, list) for row in value) else [value]
    return len({len(row) for row in rows}) == 1 and all(type(part) in (int, float) for row in rows for part in row)


# ---- The [events] table: cells and moves of a grid, nodes of a graph, or text in the constraint language


def read_event(table: TomlTable, name: str, world: MDP, names: Events) -> Event:
    """One event from its text or from its inline table, checked; it may use the named ones above it."""
    value = table.values[name]
    makers: dict[str, tuple[str, toml.Kind, Callable[..., Event]]] = {}
    if isinstance(world, GridWorld):
        makers["cells"] = ("[[x, y], ...]", toml.CELLS, world.at)
        makers["moves"] = ('["up", ...]', toml.TEXTS, world.doing)
    elif isinstance(world, GraphWorld):
        makers["nodes"] = ('["a", ...]', toml.TEXTS, lambda *nodes: at(*map(world.state, nodes)))
    if isinstance(value, str):
        with table.explaining(name):
            event = parse_event(value, names, world)
    elif isinstance(value, dict) and value and makers:
        inner = TomlTable(value, table.file, f"{table.name}, {name}")
        found = inner.take_all({}, {key: kind for key, (_, kind, _) in makers.items()})
        with inner.explaining():
            event = reduce(and_, (makers[key][2](*words) for key, words in found.items()))
    else:
        forms = [f'a text such as "at({world.state_name(0)}) | doing({world.action_name(0)})"']
        forms += [f"{{ {key} = {example} }}" for key, (example, _, _) in makers.items()]
        hint = "" if makers else " (this kind of world has no cells, moves or nodes)"
        table.fail(name, f"expected {', or '.join(forms)}, got {value!r:.60}{hint}")
    with table.explaining(name):
        check_names({name: event}, "")
        event.check_world(world)
    return event


def spell_event(name: str, event: Event, world: MDP) -> Any:
    """The entry of an event in the file: cells or moves where it is that simple, else its text."""
    if isinstance(world, GridWorld) and isinstance(event, At):
        return {"cells": [world.cell(state) for state in event.states]}
    if isinstance(world, GridWorld) and isinstance(event, Doing):
        return {"moves": [world.moves[action] for action in event.actions]}
    text = rule_text(event, world)
    try:
        parse_event(text, world=world)
    except ConstraintSyntaxError:
        why = f"`{text:.60}` holds a function. Spell it with at(...) and doing(...)"
        raise ConstraintError(f"the event {name!r} cannot be written to a file: {why}.") from None
    return text


# ---- The [reward] table: a CSV of rewards, or features by name with weights

COLUMNS = ("state", "action", "reward")


def goal_distance(world: MDP) -> Floats:
    """The fewest actions from the state to a terminal one (if chance helps), whatever the action; 0 if there is no way.

    >>> from xmen import GridWorld
    >>> goal_distance(GridWorld(3, 1, start=(0, 0), goal=(2, 0), moves=("right",)))[:, 0]
    array([2., 1., 0.])
    """
    if not world.has_terminal:
        raise RewardError("the feature 'goal distance' needs terminal states, and this world has none")
    distance = distance_to(world.terminal, world.source, world.target)
    return np.repeat(np.where(distance < UNREACHABLE, distance, 0.0)[:, None], world.n_actions, axis=1)


def _features(world: MDP, events: Events) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """All that a feature may be: its name, which may come twice, a sentence, and what is broadcast to its values."""
    yield "steps", "1 for every step", lambda: 1.0
    yield "goal distance", "the fewest actions from the state to the goal", partial(goal_distance, world)
    numbers = np.arange(world.n_actions)
    for action in () if isinstance(world, GraphWorld) else numbers.tolist():  # numbers mean nothing on a graph
        name = f"move {world.moves[action]}" if isinstance(world, GridWorld) else f"action {action}"
        yield name, f"1 for {world.describe_action(action)}", partial(np.equal, numbers, action)
    places = np.indices((world.n_states, world.n_actions))
    for name, event in events.items():
        yield name, f"1 where {name} holds", partial(event.holds, *places)
    if isinstance(world, GraphWorld):
        for name, values in zip(world.feature_names, np.moveaxis(world.features, 2, 0), strict=True):
            yield name, f"{name} of the edge", partial(np.asarray, values)


def known_features(world: MDP, events: Events) -> dict[str, str]:
    """Everything that a feature of a problem may be, by name, with a sentence for each."""
    known = {name: sentence for name, sentence, _ in _features(world, events)}
    return {name: known[name] for name in known if world.has_terminal or name != "goal distance"}


def feature_array(names: Sequence[str], world: MDP, events: Events) -> Floats:
    """The named features side by side, shape (n_states, n_actions, d)."""
    needed = 24 * len(names) * world.n_states * world.n_actions
    MEMORY.require(needed, f"{len(names):,} features of {world.n_states:,} states", RewardError)
    known = list(_features(world, events))
    array = np.empty((world.n_states, world.n_actions, len(names)))
    for k, name in enumerate(names):
        meanings = {sentence: values for other, sentence, values in known if other == name}
        if not meanings:
            there = list(dict.fromkeys(other for other, _, _ in known))
            raise RewardError(f"unknown feature {name!r}{toml.did_you_mean(name, there)} (known: {', '.join(there)})")
        if len(meanings) > 1:
            raise RewardError(f"the feature {name!r} has two meanings here ({' and '.join(meanings)}): rename one")
        (values,) = meanings.values()
        array[:, :, k] = values()
    return array


def read_reward(table: TomlTable, world: MDP, events: Events) -> tuple[Floats | LinearReward | None, tuple[str, ...]]:
    """The reward, and the names of its features."""
    found = table.take_all({}, {"table": toml.FILE, "features": toml.TEXTS, "weights": toml.NUMBERS})
    if "table" in found and "features" in found:
        table.fail("", "give either 'table' or 'features' with 'weights', not both")
    if "table" in found:
        file = table.path("table")
        if "weights" in found:
            table.fail("weights", "weights belong to features; a table of rewards has none")
        return _read_csv(table, file, world), ()
    names = found.get("features", [])
    weights = found.get("weights", [0.0] * len(names))
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
    rewards = np.full((world.n_states, world.n_actions), np.nan)
    for *place, reward in read_numbers(file, COLUMNS):
        state, action = map(int, place)
        row = f"for state {state} and action {action}"
        if state >= world.n_states or action >= world.n_actions:
            known = f"the states 0 to {world.n_states - 1} and the actions 0 to {world.n_actions - 1}"
            table.fail("table", f"{file} has a row {row}, but the world has {known}")
        if not np.isnan(rewards[state, action]):
            table.fail("table", f"{file} has two rows {row}")
        rewards[state, action] = reward
    return np.where(np.isnan(rewards), 0.0, rewards)


def write_reward(
    reward: Reward | Floats | None, names: tuple[str, ...], world: MDP, events: Events, beside: Beside
) -> dict[str, Any]:
    """The [reward] table, empty without a reward; one without named features goes beside it."""
    if reward is None:
        return {}
    if isinstance(reward, LinearReward) and names:
        # Do the names still stand for these features? The world and the events may have been replaced.
        with suppress(RewardError):
            if np.array_equal(reward.features, feature_array(names, world, events)):
                return {"features": list(names), "weights": reward.weights.tolist()}
    values = reward_table(reward, world)
    rows = ((*place, float(values[*place])) for place in np.argwhere(values != 0).tolist())
    return {"table": beside.put_csv("reward", COLUMNS, rows)}


# ---- The [world] table: a grid, a table of transitions, or a graph

TRANSITIONS = ("state", "action", "next_state", "probability")


class GraphFile(NamedTuple):
    """Where a graph world came from: its file cannot be rebuilt from the world."""

    path: Path
    source: str
    target: str
    world: MDP


_START = toml.Kind(
    "a state, a whole number, or one probability per state in a list",
    lambda start: type(start) is int or (type(start) is list and all(map(toml.NUMBERS.fits, start))),
)
_MOVES = toml.Kind(f"a list of moves, of {', '.join(MOVES)}", (*MOVES,).__contains__, True, (*MOVES,))
_STATES, _NODE = toml.one_of("a list of states", int, is_list=True), toml.one_of("the id of a node, in quotes", str)
WORLDS: dict[str, tuple[str, dict[str, toml.Kind], dict[str, toml.Kind]]] = {
    "grid": (
        "",
        {"width": toml.INTEGER, "height": toml.INTEGER, "start": toml.CELL_OR_CELLS},
        {"goal": toml.CELL_OR_CELLS, "moves": _MOVES, "walls": toml.CELLS, "slip": toml.NUMBER, "bump": toml.BOOLEAN},
    ),
    "table": (
        "transitions",
        {"n_states": toml.INTEGER, "n_actions": toml.INTEGER, "start": _START},
        {"terminal": _STATES},
    ),
    "graphml": ("file", {"source": _NODE, "target": _NODE}, {}),
}
"""The kinds of worlds: the key of their file, the other keys that they need, and those that they may have."""


def read_world(table: TomlTable) -> tuple[MDP, GraphFile | None]:
    """The world, and where its graph came from."""
    known = "one of " + ", ".join(f'"{kind}"' for kind in WORLDS)
    kind = table.take("kind", toml.Kind(known, (*WORLDS,).__contains__, known=(*WORLDS,)))
    file_key, required, optional = WORLDS[kind]
    file = table.path(file_key) if file_key else table.file
    settings = table.take_all(required, {**optional, "horizon": toml.INTEGER})
    with table.explaining():
        if kind == "grid":
            return GridWorld(**{"goal": None, **settings}), None
        if kind == "table":
            return MDP(transitions=read_numbers(file, TRANSITIONS), **settings), None
        world = MDP.from_networkx(read_graph(file, table.where("file")), **settings)
        return world, GraphFile(file, settings["source"], settings["target"], world)


def write_world(world: MDP, graph: GraphFile | None, beside: Beside) -> dict[str, Any]:
    """The [world] table; what a table cannot say goes beside it."""
    if isinstance(world, GridWorld):
        given = {"kind": "grid", "start": world.given_start, "goal": world.given_goal, "walls": sorted(world.walls)}
        names = ("kind", "width", "height", "start", "goal", "moves", "walls", "slip", "bump")
        values = {name: (given[name] if name in given else getattr(world, name)) or None for name in names}
    elif graph is not None and graph.world is world:
        file = beside.put_copy(graph.path, ".graphml")
        values = {"kind": "graphml", "file": file, "source": graph.source, "target": graph.target}
    else:
        columns = (world.source, world.action, world.target, world.probability)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        certain = np.flatnonzero(world.start)
        values = {
            "kind": "table",
            "transitions": beside.put_csv("transitions", TRANSITIONS, rows),
            "n_states": world.n_states,
            "n_actions": world.n_actions,
            "start": int(certain[0]) if len(certain) == 1 else world.start.tolist(),
            "terminal": np.flatnonzero(world.terminal).tolist(),
        }
    return {key: value for key, value in {**values, "horizon": world.horizon}.items() if value is not None}
