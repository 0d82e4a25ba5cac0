"""Rules from demonstrations: the paper's on two maps of ours, constraint inference, drawings, and taxi trips."""

import math
from pathlib import Path
from typing import Any

import numpy as np

import xmen as xm
from xmen.experiments.grid import MARKOV, MEMORY
from xmen.experiments.human import choke_task, drawn_task
from xmen.experiments.notebook import Floats, Notebook
from xmen.experiments.roads import N_DIRECTIONS, City, read_city

N_HELD_OUT = 1000
MARKOV_RULES = 6  # of constraint inference that are compared
TRIP_TEMPLATES = ("never", "visit", "count at most", "longest repeat", "longest run", "no revisit", "share at least")
PATH_TEMPLATES = """never, visit, always, count at most, count at least, count equal, before, first among, sequence,
response, response within, longest repeat, longest run, no revisit, no revisit of, length at most, length at least,
length equal, share at least, share at most, exactly one of, first of all""".replace("\n", " ").split(", ")
MOST_PATH_NODES = 200_000  # of a product for paths and trips; what needs more is estimated
U_TURN = 4  # of the directions
CLASSES = ("primary", "secondary", "tertiary", "residential")
TRIP_FEATURES = ("length (km)", "turn", "U-turn", "link")


def run(book: Notebook) -> None:
    """Which rules are found, from how many demonstrations, and whose numbers agree."""
    book.title("Rules from demonstrations")
    book.say("""Candidates are all templates of the constraint language over the symbols of a map. A rule gains -log
        P(it) nats per demonstration, exactly, under the maximum-entropy model with the rules so far, and has to be
        significant at 1 % after a correction for all candidates tried.""")
    for part in (paper_maps, constraint_inference, drawn_paths, taxi_trips):
        part(book)


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
                found = model.rules_, grid_map.rules, [*model.rules_, *grid_map.rules]
                uniform = (xm.distribution(grid_map.world, some or None, None, engine="exact") for some in found)
                left, hidden, both = (d.log_partition() for d in uniform)
                rows.append((grid_map.name, name, n, "; ".join(model.texts_) or "none", hidden - both, left - both))
                if (grid_map, name, n) == (MEMORY, "none", 100):
                    figure: Any = xm.plot_rules(model, grid_map.demonstrations(N_HELD_OUT, book.seed + 1)).figure
                    caption = """The memory map without a reward, 100 demonstrations: what each rule gained when it was
                        taken, and how many of 1,000 other demonstrations keep all rules so far."""
                    book.figure(figure, "rules_gains", caption)
    title = "the paper's four rules: triangle first, no crosses, exactly one square, exactly one circle"
    columns = {"map": "", "reward": "", "demonstrations": ",", "rules found": "", "false": ".3f", "left": ".3f"}
    note = """False: nats of valid behaviour that the rules found forbid. Left: log Z under the rules found less log Z
        under the four, on the uniform distribution: 0 where they are equivalent. With a weight per state the reward
        explains crosses and triangles, and what is left is not a fault."""
    book.table(title, columns, rows, note)


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
    steps = zip(theirs.constraints_, -np.diff(theirs.kl_), ours.texts_, ours.gains_, strict=False)
    rows = [(i, str(rule.name), gain, text, our_gain) for i, (rule, gain, text, our_gain) in enumerate(steps, start=1)]
    columns = {"step": "", "MLCI": "", "its gain": ".6f", "rule inference": "", "gain": ".6f"}
    note = """The memory map, 100 demonstrations, reward 0. Rule inference is given one event per state and move, and
        the template `never` alone; gains in nats per demonstration."""
    book.table("constraint inference on Markov rules, step by step", columns, rows, note)


def drawn_paths(book: Notebook) -> None:
    """People's drawings where there are any, and the made-up demonstrations in any case."""
    tasks = {"choke point, made up": choke_task(book.seed)}
    folder = find_folder(book.data, "t*.txt")
    if folder is not None:
        tasks["drawn by people"] = drawn_task(folder)
    rows = []
    for name, task in tasks.items():
        events = {"obstacle": task.world.at(*task.obstacles)}
        events |= {move.replace("-", "_"): task.world.doing(move) for move in task.world.moves}
        if task.choke is not None:
            events["choke"] = task.world.at(task.choke)
        with book.stage(f"rules of paths: {name}"):
            searched: Any = {"templates": PATH_TEMPLATES, "max_nodes": MOST_PATH_NODES}
            model = xm.RuleInference(task.world, events, no_reward(task.world), **searched).fit(task.demos)
        found = zip(model.texts_, model.gains_.tolist(), strict=True)
        rows += [(name, len(task.demos), text, gain, model.least_gain_) for text, gain in found]
    columns = {"paths": "", "number": "", "rule": "", "gain": ".3f", "least gain": ".3f"}
    note = "Without a reward. With so few paths only large gains are significant: the least is log(m / 0.01) / n."
    book.table("rules of paths around obstacles", columns, rows, note)


def taxi_trips(book: Notebook) -> None:
    """Which rules do drivers keep?"""
    folder = find_folder(book.data, "transit.npy")
    if folder is None:
        book.say("""Real trips can be given: `xmen reproduce rules --data FOLDER` takes the taxi trips that Zhao and
            Liang published with "Deep inverse reinforcement learning for route choice modeling" (2022).""")
        return
    city = read_city(folder)
    (events, features), trips = describe(city), city.trips("train_CV0_size10000", book.pick(100, 300))
    searched: Any = {"templates": TRIP_TEMPLATES, "max_nodes": MOST_PATH_NODES, "seed": book.seed}
    rows = []
    for tolerance in book.pick((0.0,), (0.0, 0.1)):
        with book.stage(f"rules of trips, tolerance {tolerance:g}"):
            model = xm.RuleInference(city.network, events, features, tolerance=tolerance, **searched).fit(trips)
        shown = [(one, one.rule) for one in model.verdicts() if one.status == "found"]
        next_one = [one for one in model.verdicts() if one.status == "not significant"][:1]
        known = [one for one in next_one if one.gain is not None and math.isfinite(one.gain)]
        shown += [(one, f"({one.rule}: not significant)") for one in known]
        rows += [(tolerance, text, one.gain, "yes" if one.estimated else "no", one.kept) for one, text in shown]
    columns = {"tolerance": "", "rule": "", "gain": ".3f", "estimated": "", "kept": ".1%"}
    note = f"""Given the start and the goal of each trip; the reward has weights for {", ".join(TRIP_FEATURES)}.
        Templates: {", ".join(TRIP_TEMPLATES)}."""
    book.table(f"rules that {len(trips):,} taxi trips keep", columns, rows, note)


def find_folder(data: Path | None, pattern: str) -> Path | None:
    """The folder given, or one inside it, that has such files."""
    folders = [] if data is None else [data, *sorted(data.iterdir())]
    return next((one for one in folders if one.is_dir() and any(one.glob(pattern))), None)


def describe(city: City) -> tuple[dict[str, xm.Event], Floats]:
    """Events by name, and features (links, directions, 4): length, turns, U-turns, and a constant."""
    features = np.ones((len(city.lengths), N_DIRECTIONS, len(TRIP_FEATURES)))
    features[:, :, 0] = city.lengths[:, None] / 1000.0
    features[:, 0, 1] = 0.0
    features[:, :, 2] = np.arange(N_DIRECTIONS) == U_TURN
    events = {"turn": xm.doing(*range(1, N_DIRECTIONS)), "u_turn": xm.doing(U_TURN)}
    members = {name: [i for i, kind in enumerate(city.classes) if kind == name] for name in CLASSES}
    return events | {name: xm.at(*some) for name, some in members.items() if some}, features
