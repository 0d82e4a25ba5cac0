"""Rules from demonstrations: the paper's maps, constraint inference on Markov rules, drawings, and taxi trips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xmen as xm
from xmen.errors import foreign_errors
from xmen.experiments.grid_maps import MARKOV, MEMORY, GridMap
from xmen.experiments.human_tasks import choke_task, drawn_task
from xmen.experiments.notebook import Floats, Notebook
from xmen.experiments.taxis import N_DIRECTIONS, read_network, read_routes, read_rows

N_HELD_OUT = 1000
MARKOV_RULES = 6  # of constraint inference that are compared
TRIP_TEMPLATES = ("never", "visit", "count at most", "longest repeat", "longest run", "no revisit", "share at least")
PATH_TEMPLATES = """never, visit, always, count at most, count at least, count equal, before, first among, sequence,
response, response within, longest repeat, longest run, no revisit, no revisit of, length at most, length at least,
length equal, share at least, share at most, exactly one of, first of all""".replace("\n", " ").split(", ")
MOST_NODES = 200_000  # of a product for paths and trips; what needs more is estimated
U_TURN = 4  # of the directions
CLASSES = ("primary", "secondary", "tertiary", "residential")
TRIP_FEATURES = ("length (km)", "turn", "U-turn", "link")


def run(book: Notebook) -> None:
    """Which rules are found, from how many demonstrations, and whose numbers agree."""
    book.title("Rules from demonstrations")
    book.say(
        """Candidates are all templates of the constraint language over the symbols of a map. A rule gains -log P(it)
        nats per demonstration, exactly, under the maximum-entropy model with the rules so far, and has to be
        significant at 1 % after a correction for all candidates tried."""
    )
    paper_maps(book)
    constraint_inference(book)
    drawn_paths(book)
    taxi_trips(book)


def no_reward(world: xm.MDP) -> Any:
    """Features that say nothing: everything is left for rules to explain."""
    return np.zeros((world.n_states, world.n_actions, 1))


def paper_maps(book: Notebook) -> None:
    """Does it find all four rules, and from how many demonstrations?"""
    numbers = book.pick((10, 30, 100), (10, 20, 30, 50, 100, 200, 500, 1000))
    rows = []
    for grid_map in (MEMORY, MARKOV):
        events = {name: grid_map.world.at(*cells) for name, cells in grid_map.symbols.items()}
        for name, features in (("none", no_reward(grid_map.world)), ("one weight per state", None)):
            for n in numbers:
                with book.stage(f"rules of the {grid_map.name} map"):
                    model = xm.RuleInference(grid_map.world, events, features)
                    model.fit(grid_map.demonstrations(n, book.seed))
                texts = "; ".join(model.texts_) or "none"
                rows.append((grid_map.name, name, n, texts, *_compare(grid_map, list(model.rules_))))
                if (grid_map, name, n) == (MEMORY, "none", 100):
                    figure: Any = xm.plot_rules(model, grid_map.demonstrations(N_HELD_OUT, book.seed + 1)).figure
                    book.figure(
                        figure,
                        "rules_gains",
                        """The memory map without a reward, 100 demonstrations: what each rule gained when it was taken,
                        and how many of 1,000 other demonstrations keep all rules so far.""",
                    )
    book.table(
        "the paper's four rules: triangle first, no crosses, exactly one square, exactly one circle",
        {"map": "", "reward": "", "demonstrations": ",", "rules found": "", "false": ".3f", "left": ".3f"},
        rows,
        note="""False: nats of valid behaviour that the rules found forbid. Left: log Z under the rules found less log Z
        under the four, on the uniform distribution: 0 where they are equivalent. With a weight per state the reward
        explains crosses and triangles, and what is left is not a fault.""",
    )


def _compare(grid_map: GridMap, found: Sequence[xm.Constraint]) -> tuple[float, float]:
    """What is forbidden by mistake, and what is not yet forbidden, in nats on the uniform distribution."""
    hidden, both, left = (
        xm.distribution(grid_map.world, rules or None, None, engine="exact").log_partition()
        for rules in (grid_map.rules, [*found, *grid_map.rules], found)
    )
    return hidden - both, left - both


def constraint_inference(book: Notebook) -> None:
    """Maximum likelihood constraint inference is the same search over `never` alone: same order, same numbers."""
    world = MEMORY.world
    demos = MEMORY.demonstrations(100, book.seed)
    with book.stage("constraint inference"):
        theirs = xm.ConstraintInference(world, kl_threshold=1e-6, max_constraints=MARKOV_RULES).fit(demos)
        events = {f"move {world.moves[a]}": xm.doing(a) for a in range(world.n_actions)}
        events |= {f"state {s:02}": xm.at(s) for s in range(world.n_states)}
        searched: Any = {"templates": ["never"], "max_rules": MARKOV_RULES, "min_gain": 1e-6, "level": 0.999}
        ours = xm.RuleInference(world, events, no_reward(world), **searched).fit(demos)
    gained = -np.diff(theirs.kl_)
    steps = zip(theirs.constraints_, gained, ours.texts_, ours.gains_, strict=False)
    rows = [(i, str(rule.name), gain, text, our_gain) for i, (rule, gain, text, our_gain) in enumerate(steps, start=1)]
    book.table(
        "constraint inference on Markov rules, step by step",
        {"step": "", "MLCI": "", "its gain": ".6f", "rule inference": "", "gain": ".6f"},
        rows,
        note="""The memory map, 100 demonstrations, reward 0. Rule inference is given one event per state and move, and
        the template `never` alone; gains in nats per demonstration.""",
    )


def drawn_paths(book: Notebook) -> None:
    """People's drawings where there are any, and the made-up demonstrations in any case."""
    tasks = {"choke point, made up": choke_task(book.seed)}
    folder = find_folder(book.data, "t*.txt")
    if folder is not None:
        tasks["drawn by people"] = drawn_task(folder)
    rows = []
    for name, task in tasks.items():
        events = {"obstacle": task.grid.at(*task.obstacles)}
        events |= {move.replace("-", "_"): task.grid.doing(move) for move in task.grid.moves}
        if task.choke is not None:
            events["choke"] = task.grid.at(task.choke)
        with book.stage(f"rules of paths: {name}"):
            searched: Any = {"templates": PATH_TEMPLATES, "max_nodes": MOST_NODES}
            model = xm.RuleInference(task.grid, events, no_reward(task.grid), **searched).fit(task.demos)
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
    folder = find_folder(book.data, "transit.npy")
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
            searched: Any = {"templates": TRIP_TEMPLATES, "max_nodes": MOST_NODES, "seed": book.seed}
            model = xm.RuleInference(taxis.network, taxis.events, taxis.features, tolerance=tolerance, **searched).fit(
                taxis.trips
            )
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
        note=f"""Given the start and the goal of each trip; the reward has weights for {", ".join(TRIP_FEATURES)}.
        Templates: {", ".join(TRIP_TEMPLATES)}.""",
    )


class Taxis(NamedTuple):
    """Links as states, relative directions as actions; features: length, turns, U-turns, and a constant."""

    network: xm.Network
    trips: list[xm.Trajectory]
    events: dict[str, xm.Event]
    features: Floats  # (links, directions, 4)


def find_folder(data: Path | None, pattern: str) -> Path | None:
    """The folder given, or one inside it, that has such files."""
    folders = [] if data is None else [data, *sorted(data.iterdir())]
    return next((one for one in folders if one.is_dir() and any(one.glob(pattern))), None)


def read_taxis(folder: Path, n_trips: int) -> Taxis:
    """The network, and the first trips of the published training set."""
    with foreign_errors(f"{folder} does not hold the Shanghai taxi trips"):
        network = read_network(folder)
        links = {int(row["n_id"]): row for row in read_rows(folder / "edge.txt")}
        n_links = network.n_states
        if sorted(links) != list(range(n_links)):
            raise xm.FileFormatError(f"{folder}: edge.txt has {len(links)} links, and transit.npy has {n_links}")
        files = sorted(folder.glob("train_CV0_size*.csv"), key=lambda one: one.stat().st_size)
        routes = read_routes(files[-1] if files else folder / "path.csv")[:n_trips]
        features = np.ones((n_links, N_DIRECTIONS, len(TRIP_FEATURES)))
        features[:, :, 0] = np.array([float(links[i]["length"]) / 1000.0 for i in range(n_links)])[:, None]
        features[:, 0, 1] = 0.0
        features[:, :, 2] = np.arange(N_DIRECTIONS) == U_TURN
        events = {"turn": xm.doing(*range(1, N_DIRECTIONS)), "u_turn": xm.doing(U_TURN)}
        members = {name: [i for i in range(n_links) if links[i]["highway"] == name] for name in CLASSES}
        events |= {name: xm.at(*some) for name, some in members.items() if some}
        return Taxis(network, [network.along(list(route)) for route in routes], events, features)
