"""What can be said about a problem, as plain data: the command line prints it, and Studio shows it."""

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from xmen.constraints.constraint import Constraint, hard_part, usual_rules, with_rule_weights
from xmen.engines.diagnosis import remark, why_never
from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.repair import repair
from xmen.errors import EngineError, InfeasibleError, InvalidDemonstrationError, ProductTooLargeError, XmenError
from xmen.events import NO_ACTION, At, Bools, Event
from xmen.learners.base import Learner
from xmen.learners.xmen import parse_method
from xmen.methods import identify
from xmen.methods.demonstrations import gather
from xmen.policies.behaviour import make_game
from xmen.policies.explanation import explain
from xmen.problem import Problem
from xmen.registry import LEARNERS
from xmen.rewards.linear import Floats, read_features, reward_table
from xmen.rules.inference import RuleInference
from xmen.worlds import MDP, MOVES, GridWorld, Sighting, Trajectory
from xmen.worlds.from_networkx import read_graph
from xmen.worlds.tables import RecordedDemos, cost_note, demo_names

# ---- What a user asked of a fit, and the learner that it makes


def make_learner(name: str, problem: Problem, **wanted: Any) -> Learner:
    """The learner of this name, not fitted yet: made from the parts of the problem it takes, with those settings that
    it has; None is its own default."""
    learner = LEARNERS[name]
    # Each iteration is stored: a slow one is worth keeping, a quick one is cheap to write.
    asked = {"validation": problem.validation_demos(), "checkpoint_every": 1, **wanted}
    asked["method"] = parse_method(asked.get("method") or "auto")
    chosen = {**problem.settings.chosen(), **{k: v for k, v in asked.items() if v is not None}}
    settings = {k: v for k, v in chosen.items() if v is not None or k == "time_limit"}  # whose None is no limit
    made = {name: getattr(problem, name) for name in ("world", *learner.takes)}
    return learner.kind(**made, **{k: v for k, v in settings.items() if k in learner.kind.setting_names()})


def standard_errors(model: Learner) -> list[float] | None:
    """The standard errors of the learned weights; None where the reward is not linear or inference is not exact."""
    try:
        return [float(error) for error in model.standard_errors_]
    except (XmenError, np.linalg.LinAlgError):
        return None


def rule_search(problem: Problem, **wanted: Any) -> RuleInference:
    """A search over the events of a problem, beyond its rules and what a reward of its features explains."""
    settings = {name: getattr(problem.settings, name) for name in ("discount", "max_nodes", "seed")}
    events, features = dict(problem.events), problem.features
    return RuleInference(problem.world, events, features, known=problem.constraint, **settings, **wanted)


# ---- What of a problem can be put on a map: events that are places, rewards of states, coordinates of nodes

MOST_SYMBOLS = 6  # cells; larger events are shaded as areas
AREA_COLOURS = ("#DDCC77", "#88CCEE", "#CC6677", "#999933", "#AA4499")


def event_states(problem: Problem) -> dict[str, list[int]]:
    """The states of every event that is a place: it depends on the state alone, and is not almost everywhere."""
    found = {}
    for name, event in problem.events.items():
        columns = _columns(event, problem.world)
        everywhere = not isinstance(event, At) and 2 * int(columns[0].sum()) > problem.world.n_states
        if columns[0].any() and not everywhere and all(np.array_equal(columns[0], other) for other in columns):
            found[name] = np.flatnonzero(columns[0]).tolist()
    return found


def _columns(event: Event, world: MDP) -> list[Bools]:
    """Whether the event holds in each state, at the end of a trajectory and with each action."""
    states = np.arange(world.n_states)
    return [event.holds(states, np.full_like(states, action)) for action in (NO_ACTION, *range(world.n_actions))]


def grid_marks(problem: Problem, grid: GridWorld) -> dict[str, Any]:
    """The marks of `plot_world`: symbols for a few cells, shades for areas, which come last in the legend."""
    marks: dict[str, Any] = {name: [grid.cell(s) for s in states] for name, states in event_states(problem).items()}
    areas = [name for name, cells in marks.items() if len(cells) > MOST_SYMBOLS]
    for k, name in enumerate(areas):
        marks[name] = marks.pop(name), AREA_COLOURS[k % len(AREA_COLOURS)]
    return marks


def node_places(problem: Problem) -> Floats | None:
    """Where the nodes of a graph are, (n_states, 2), if its file says so."""
    graph = problem.spelling.graph
    if graph is None or graph.world is not problem.world:
        return None
    nodes = [data for _, data in read_graph(graph.path).nodes(data=True)]
    for keys in (("x", "y"), ("lon", "lat"), ("longitude", "latitude")):
        try:
            places = np.array([[float(data[key]) for key in keys] for data in nodes])
        except (KeyError, TypeError, ValueError):
            continue
        if np.isfinite(places).all():
            return places
    return None


def mean_reward(reward: Any, world: Any) -> Floats:
    """r(s, a), the mean over available actions; 0 where there is none."""
    table = np.where(world.available, reward_table(reward, world), 0.0)
    return np.asarray(table.sum(axis=1) / np.maximum(world.available.sum(axis=1), 1))


# ---- What a policy does on a grid, as text: an arrow in every cell for the move that it makes most often there

ARROWS = dict(zip(MOVES, "↑↓←→↗↖↘↙o", strict=True))
WALL, GOAL, SELDOM = "#", "*", "."
LEGEND = f"{GOAL} goal, {WALL} wall, {SELDOM} hardly ever entered"
LEAST_VISITS = 1e-3  # an episode, on average; cells with fewer say more about chance than about the policy
LARGEST_DRAWING = 60  # cells in a row or a column; larger drawings fit no terminal


def arrows(grid: GridWorld, visits: Floats) -> list[str]:
    """The grid as lines of text, the upper row first, given visits (n_states, n_actions); none where it is too large.

    >>> grid = GridWorld(3, 2, start=(0, 0), goal=(2, 1), moves=("up", "right"), walls=[(1, 1)])
    >>> visits = np.zeros((6, 2)); visits[[0, 1], 1] = 1.0; visits[2, 0] = 1.0
    >>> print(*arrows(grid, visits), sep="\\n")
    1  . # *
    0  → → ↑
       0 1 2
    """
    if max(grid.width, grid.height) > LARGEST_DRAWING:
        return []
    wide, high = (len(str(size - 1)) for size in (grid.width, grid.height))
    signs = np.full((grid.height, grid.width), SELDOM)
    for state in np.flatnonzero(visits.sum(axis=1) >= LEAST_VISITS).tolist():
        x, y = grid.cell(state)
        signs[y, x] = ARROWS[grid.moves[int(np.argmax(visits[state]))]]
    for sign, cells in ((WALL, grid.walls), (GOAL, grid.goal_cells)):
        for x, y in cells:
            signs[y, x] = sign
    rows = [f"{y:>{high}}  " + " ".join(f"{sign:>{wide}}" for sign in signs[y]) for y in range(grid.height - 1, -1, -1)]
    return [*rows, " " * (high + 2) + " ".join(f"{x:>{wide}}" for x in range(grid.width))]


# ---- Can the rules hold together, do demonstrations keep them, and can weights be learned from them


def before_learning(problem: Problem) -> Problem:
    """The problem with weight 0 for rules whose weights are to be learned."""

    def unlearned(rule: Constraint) -> Any:
        own = [0.0 if one.weight is None and one.share is None else None for one in usual_rules(rule)]
        return with_rule_weights(rule, own)

    return replace(problem, rules={name: unlearned(rule) for name, rule in problem.rules.items()})


def check_rules(problem: Problem) -> tuple[dict[str, Any], Distribution | None]:
    """Whether some trajectory keeps all rules: True, False with the conflict, or None when no engine could tell."""
    try:
        d = before_learning(problem).distribution(engine="auto")
    except InfeasibleError as error:
        return {"feasible": False, "conflict": list(error.conflict), "message": str(error)}, None
    except EngineError as error:
        return {"feasible": None, "message": str(error)}, None
    report = {"feasible": True, "engine": d.engine, "message": d.reason, "sizes": d.sizes()}
    logs = {"valid": d.log_count if isinstance(d, ExactDistribution) else None}
    if logs["valid"] is not None:
        logs["possible"] = None
        with suppress(ProductTooLargeError):
            free: Any = Problem(problem.world, settings=problem.settings).distribution(engine="exact")
            logs["possible"] = free.log_count
    counted: dict[str, Any] = {name: _whole(log) for name, log in logs.items()}
    if any(count == math.inf for count in counted.values()):  # more than a float can hold
        counted["log10"] = {name: None if log is None else log / math.log(10) for name, log in logs.items()}
    return {**report, "trajectories": counted}, d


def check_promise(problem: Problem, feasible: bool | None) -> dict[str, Any]:
    """Whether a policy can keep all rules surely, whatever chance does; None where that is too large to tell."""
    if feasible is not None and problem.world.deterministic and np.count_nonzero(problem.world.start) == 1:
        # Nothing is left to chance: what can be kept can be kept surely.
        return {"sure": feasible, "best": float(feasible), **({} if feasible else {"message": "see the conflict"})}
    try:
        why = explain(make_game(problem.world, hard_part(problem.constraint), problem.settings.max_nodes))
    except EngineError as error:
        return {"sure": None, "message": problem.words.say(error)}
    if why is None:
        return {"sure": True, "best": 1.0}
    return {"sure": False, "best": why.best, "message": problem.words.say(why), "dropping": list(why.dropping)}


def _whole(log: float | None) -> float | None:
    """The number whose log is given: whole up to 2^53, a float above, inf where that is too small for it."""
    if log is None or log >= math.log(sys.float_info.max):
        return None if log is None else math.inf
    return round(math.exp(log)) if log < math.log(2.0**53) else math.exp(log)


def learning_notes(problem: Problem, d: Distribution, demos: list[Trajectory]) -> list[str]:
    """Weights that no demonstrations could tell, and weights that these demonstrations leave without an optimum."""
    array = problem.features
    if array is None or not isinstance(d, ExactDistribution) or array.shape[2] > identify.MOST_FEATURES:
        return []
    features = read_features(array, problem.world)
    basis = identify.unidentified(d, features)
    notes = [identify.of_unidentified(basis)] if len(basis) else []
    if demos and not any(isinstance(demo, Sighting) for demo in demos):
        gathered = gather(problem.world, problem.constraint, demos, sightings=True)
        which = identify.unbounded(d, features, gathered)
        notes += [identify.of_unbounded(which)] if which else []
    return [problem.words.say(note) for note in notes]


def rule_notes(problem: Problem, rules: Mapping[str, Constraint]) -> list[str]:
    """Rules that no trajectory of the problem's world can break, or that every one breaks."""
    found = (remark(name, rule, problem.world) for name, rule in rules.items())
    return [problem.words.say(note) for note in found if note]


def part_notes(problem: Problem) -> list[str]:
    """Events that no trajectory can ever have, and costs that are 0 at places where trajectories can be."""
    world = problem.world
    found = ((name, why_never(event, world)) for name, event in problem.events.items())
    notes: list[str | None] = [f"the event {name!r} can never happen: {why}" for name, why in found if why]
    for name, costs in problem.costs.items():
        if isinstance(costs, Mapping):
            costs = np.any([column for event in costs for column in _columns(event, world)], axis=0)
        notes.append(cost_note(name, costs, world))
    return [note for note in notes if note is not None]


def check_demonstrations(problem: Problem, demos: list[Trajectory], d: Distribution | None = None) -> dict[str, Any]:
    """Every rule that a demonstration breaks, and where nothing could save it; `d`: all that may have been seen."""
    names, seen = demo_names(demos), {i: demo for i, demo in enumerate(demos) if isinstance(demo, Sighting)}
    suspects = np.array([i for i in range(len(demos)) if i not in seen], dtype=np.int64)
    usual = {rule.label: suspects[:0] for rule in usual_rules(problem.constraint)}
    # Compiled machines find the demonstrations that are not valid; the words for it are looked for one by one.
    with suppress(InvalidDemonstrationError):  # a state too large for any world
        if len(suspects):
            whole = gather(problem.world, problem.constraint, [demos[i] for i in suspects], refuse_invalid=False)
            usual = {name: suspects[whole.valid & ~kept] for name, kept in zip(usual, whole.kept.T, strict=True)}
            suspects = suspects[~whole.valid]
    found = [one for index in suspects.tolist() for one in _violations(problem, index, names[index], demos[index])]
    found += [one for index, y in seen.items() for one in _unexplained(problem, index, names[index], y, d)]
    valid = len(demos) - len({violation["demonstration"] for violation in found})
    # For each broken rule (None: the world, or arriving in it), how many demonstrations break it and the first one.
    grouped: dict[tuple[str | None, bool], list[dict[str, Any]]] = {}
    for violation in found:
        grouped.setdefault((violation["constraint"], violation.get("unfinished", False)), []).append(violation)
    broken = [
        {key: some[0][key] for key in ("constraint", "unfinished", "position") if key in some[0]}
        | {"demonstrations": len(some), "first": some[0]["demonstration"], "name": some[0]["name"]}
        for some in sorted(grouped.values(), key=len, reverse=True)
    ]
    counted = {"file": str(problem.demonstrations), "number": len(demos), "valid": valid, "share": valid / len(demos)}
    if seen:
        n_positions = sum(len(y) for y in seen.values())
        parts = {"demonstrations": len(seen), "positions": n_positions, "seen": sum(y.n_seen for y in seen.values())}
        counted["seen_in_part"] = parts
    counted |= {"not_kept": {name: each.tolist() for name, each in usual.items()}} if usual else {}
    return {**counted, "broken": broken, "violations": found}


def _unexplained(problem: Problem, index: int, name: str, y: Sighting, d: Distribution | None) -> list[dict[str, Any]]:
    """Why no valid trajectory explains what was seen; nothing where one does, or where it cannot be told."""
    try:
        with suppress(EngineError):
            (d or before_learning(problem).distribution()).seen(y)
    except InfeasibleError as why:
        rule, position = next(iter(why.conflict), None), why.position or 0
        return [{"demonstration": index, "name": name, "constraint": rule, "position": position, "message": str(why)}]
    return []


def _violations(problem: Problem, index: int, name: str, demo: Trajectory) -> list[dict[str, Any]]:
    def broken(rule: str | None, position: int, message: str) -> dict[str, Any]:
        return {"demonstration": index, "name": name, "constraint": rule, "position": position, "message": message}

    impossible = problem.world.problem(demo)
    if impossible is not None:
        return [broken(None, *impossible) | ({"unfinished": True} if problem.world.unfinished(demo) else {})]
    found = [(name, rule.explain(demo)) for name, rule in problem.rules.items()]
    return [broken(name, why.position, problem.words.say(why)) for name, why in found if why is not None]


def mend_demonstrations(problem: Problem, demos: list[Trajectory], violations: list[dict[str, Any]]) -> dict[str, Any]:
    """All demonstrations, the broken ones as the nearest valid trajectories, and what was changed in each of these."""
    names, changed = demo_names(demos), list[dict[str, Any]]()
    mended = RecordedDemos(demos, getattr(demos, "metadata", ()), names)
    for index in sorted({one["demonstration"] for one in violations}):
        found = repair(problem.world, problem.constraint, demos[index])
        mended[index] = found.trajectory
        edits = list(found.edits) or ["other actions between the same states"]
        changed.append({"demonstration": index, "name": names[index], "cost": found.cost, "edits": edits})
    return {"demonstrations": mended, "changed": changed}


def count_text(counted: dict[str, Any], name: str) -> str:
    """The number: whole, or rounded, or as a power of ten that no float holds.

    >>> count_text({"valid": 12_345}, "valid")
    '12,345'
    >>> count_text({"valid": math.inf, "log10": {"valid": 2411.3}}, "valid")
    'about 2.0e+2411'
    """
    count = counted[name]
    if count == math.inf:
        return f"about {_power_text(counted['log10'][name])}"
    return f"{count:,}" if isinstance(count, int) else f"about {count:.3g}"


def one_in(log: float) -> str:
    """A probability whose logarithm is given, in words.

    >>> one_in(-7.2), one_in(-1000.0), one_in(-math.inf)
    ('1 in 1,340', '1 in 2.0e+434', 'never')
    """
    if log < -20.0:
        return "never" if log == -math.inf else f"1 in {_power_text(-log / math.log(10))}"
    return f"1 in {float(f'{math.exp(-log):.3g}'):,.6g}"


def share_text(counted: dict[str, Any]) -> str:
    """The share of the valid among the possible in per cent, also where it is smaller than any float.

    >>> share_text({"valid": 1, "possible": 8})
    '12 %'
    >>> share_text({"valid": math.inf, "possible": math.inf, "log10": {"valid": 1000.0, "possible": 2000.5}})
    '3.2e-999 %'
    >>> share_text({"valid": 8, "possible": 8})
    '100 %'
    """
    if "log10" in counted:
        log10 = counted["log10"]["valid"] - counted["log10"]["possible"] + 2
        if log10 <= -300:
            return f"{_power_text(log10)} %"
        percent = 10**log10
    else:
        percent = 100 * counted["valid"] / counted["possible"]
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def _power_text(log10: float) -> str:
    whole, rest = divmod(log10, 1)
    return f"{min(10**rest, 9.9):.1f}e{int(whole):+d}"
