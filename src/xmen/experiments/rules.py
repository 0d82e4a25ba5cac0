"""Rules from demonstrations: the paper's maps, constraint inference on Markov rules, drawings, and taxi trips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.constraints.constraint import Constraint
from xmen.engines.choose import distribution
from xmen.events import Event, at, doing
from xmen.experiments.grid_maps import MARKOV, MEMORY, GridMap
from xmen.experiments.human_tasks import HumanTask, choke_task, drawn_task
from xmen.experiments.notebook import Notebook
from xmen.experiments.rules_trips import find_taxis, read_taxis
from xmen.plots.graph import plot_rules
from xmen.rules.inference import RuleInference
from xmen.rules.templates import TEMPLATES
from xmen.worlds import MDP, Trajectory

N_HELD_OUT = 1000
MARKOV_RULES = 6  # of constraint inference that are compared
TRIP_TEMPLATES = ("never", "visit", "count at most", "longest repeat", "longest run", "no revisit", "share at least")
PATH_TEMPLATES = [one.name for one in TEMPLATES if one.name not in ("sequence of three", "precedence chain")]
MOST_NODES = 200_000  # of a product for paths and trips; what needs more is estimated


def run(book: Notebook) -> None:
    """Which rules are found, from how many demonstrations, and whose numbers agree."""
    book.title("Rules from demonstrations")
    book.say(
        """Candidates are all templates of the constraint language over the symbols of a map. A rule gains -log P(it)
        nats per demonstration, exactly, under the maximum-entropy model with the rules so far, and has to be
        significant at 1 % after a correction for all candidates tried. What the reward explains is not called a rule:
        with one weight per state, "no crosses" is no news."""
    )
    paper_maps(book)
    constraint_inference(book)
    drawn_paths(book)
    taxi_trips(book)


def no_reward(world: MDP) -> Any:
    """Features that say nothing: everything is left for rules to explain."""
    return np.zeros((world.n_states, world.n_actions, 1))


def paper_maps(book: Notebook) -> None:
    """Does it find all four rules, and from how many demonstrations?"""
    numbers = book.pick((10, 30, 100), (10, 20, 30, 50, 100, 200, 500, 1000))
    rows = []
    for grid_map in (MEMORY, MARKOV):
        for name, features in (("none", no_reward(grid_map.world)), ("one weight per state", None)):
            for n in numbers:
                with book.stage(f"rules of the {grid_map.name} map"):
                    model = RuleInference(grid_map.world, _symbols(grid_map), features)
                    model.fit(grid_map.demonstrations(n, book.seed))
                false, left = _compare(grid_map, model)
                rows.append((grid_map.name, name, n, "; ".join(model.texts_) or "none", false, left))
                if (grid_map, name, n) == (MEMORY, "none", 100):
                    _draw(book, model, grid_map.demonstrations(N_HELD_OUT, book.seed + 1))
    book.table(
        "the paper's four rules: triangle first, no crosses, exactly one square, exactly one circle",
        {"map": "", "reward": "", "demonstrations": ",", "rules found": "", "false": ".3f", "left": ".3f"},
        rows,
        note="""False: nats of valid behaviour that the rules found forbid, 0 where they forbid none. Left: log Z under
        the rules found less log Z under the four, on the uniform distribution: 0 where they are equivalent. With a
        weight per state the reward explains crosses and triangles, and what is left is not a fault.""",
    )


def _symbols(grid_map: GridMap) -> dict[str, Event]:
    return {name: grid_map.world.at(*cells) for name, cells in grid_map.symbols.items()}


def _compare(grid_map: GridMap, model: RuleInference) -> tuple[float, float]:
    """What is forbidden by mistake, and what is not yet forbidden, in nats on the uniform distribution."""

    def log_z(rules: list[Constraint]) -> float:
        return float(distribution(grid_map.world, rules or None, None, engine="exact").log_partition())

    found, hidden = list(model.rules_), list(grid_map.rules)
    both = log_z([*found, *hidden])
    return log_z(hidden) - both, log_z(found) - both


def _draw(book: Notebook, model: RuleInference, held_out: list[Trajectory]) -> None:
    figure = plot_rules(model, held_out).figure
    book.figure(
        figure,  # type: ignore[arg-type]
        "rules_gains",
        """The memory map without a reward, 100 demonstrations: what each rule gained when it was taken, and how many of
        1,000 other demonstrations keep all rules so far.""",
    )


def constraint_inference(book: Notebook) -> None:
    """Maximum likelihood constraint inference is the same search over `never` alone: same order, same numbers."""
    world = MEMORY.world
    demos = MEMORY.demonstrations(100, book.seed)
    with book.stage("constraint inference"):
        theirs = ConstraintInference(world, kl_threshold=1e-6, max_constraints=MARKOV_RULES).fit(demos)
        events = {f"move {world.moves[a]}": doing(a) for a in range(world.n_actions)}
        events |= {f"state {s:02}": at(s) for s in range(world.n_states)}
        ours = RuleInference(
            world, events, no_reward(world), templates=["never"], max_rules=MARKOV_RULES, min_gain=1e-6, level=0.999
        ).fit(demos)
    rows = [
        (i + 1, str(rule.name), before - after, text, gain)
        for i, (rule, before, after, text, gain) in enumerate(
            zip(theirs.constraints_, theirs.kl_[:-1], theirs.kl_[1:], ours.texts_, ours.gains_, strict=False)
        )
    ]
    book.table(
        "constraint inference on Markov rules, step by step",
        {"step": "", "MLCI": "", "its gain": ".6f", "rule inference": "", "gain": ".6f"},
        rows,
        note="""The memory map, 100 demonstrations, reward 0. Rule inference is given one event per state and move, and
        the template `never` alone; gains in nats per demonstration.""",
    )


def drawn_paths(book: Notebook) -> None:
    """People's drawings where there are any, and the made-up demonstrations in any case."""
    tasks: dict[str, HumanTask] = {"choke point, made up": choke_task(book.seed)}
    folder = (
        None
        if book.data is None
        else next(
            (one for one in (book.data, *sorted(book.data.iterdir())) if one.is_dir() and any(one.glob("t*.txt"))), None
        )
    )
    if folder is not None:
        tasks["drawn by people"] = drawn_task(folder)
    rows = []
    for name, task in tasks.items():
        events = {"obstacle": task.grid.at(*task.obstacles)}
        events |= {move.replace("-", "_"): task.grid.doing(move) for move in task.grid.moves}
        if task.choke is not None:
            events["choke"] = task.grid.at(task.choke)
        with book.stage(f"rules of paths: {name}"):
            model = RuleInference(
                task.grid, events, no_reward(task.grid), templates=PATH_TEMPLATES, max_nodes=MOST_NODES
            ).fit(task.demos)
        found = zip(model.texts_, model.gains_.tolist(), strict=True)
        rows += [(name, len(task.demos), text, gain, model.least_gain_) for text, gain in found]
    book.table(
        "rules of paths around obstacles",
        {"paths": "", "number": "", "rule": "", "gain": ".3f", "least gain": ".3f"},
        rows,
        note="Without a reward. With so few paths only large gains are significant: the least is log(m / 0.01) / n.",
    )


def taxi_trips(book: Notebook) -> None:
    """Which rules do drivers keep?"""
    folder = None if book.data is None else find_taxis(book.data)
    if folder is None:
        book.say(
            """Real trips can be given: `xmen reproduce rules --data FOLDER` takes the taxi trips that Zhao and Liang
            published with "Deep inverse reinforcement learning for route choice modeling" (2022)."""
        )
        return
    taxis = read_taxis(folder, book.pick(100, 300))
    rows = []
    for tolerance in book.pick((0.0,), (0.0, 0.1)):
        with book.stage(f"rules of trips, tolerance {tolerance:g}"):
            model = RuleInference(
                taxis.network,
                taxis.events,
                taxis.features,
                tolerance=tolerance,
                templates=TRIP_TEMPLATES,
                max_nodes=MOST_NODES,
                seed=book.seed,
            ).fit(taxis.trips)
        found = [one for one in model.verdicts() if one.status == "found"]
        rows += [(tolerance, one.rule, one.gain, "yes" if one.estimated else "no", one.kept) for one in found]
        next_one = next((one for one in model.verdicts() if one.status == "not significant"), None)
        if next_one is not None and next_one.gain is not None and math.isfinite(next_one.gain):
            estimated = "yes" if next_one.estimated else "no"
            rows.append((tolerance, f"({next_one.rule}: not significant)", next_one.gain, estimated, next_one.kept))
    book.table(
        f"rules that {len(taxis.trips):,} taxi trips keep",
        {"tolerance": "", "rule": "", "gain": ".3f", "estimated": "", "kept": ".1%"},
        rows,
        note=f"""Given the start and the goal of each trip; the reward has weights for {", ".join(taxis.feature_names)}.
        Templates: {", ".join(TRIP_TEMPLATES)}.""",
    )
