"""The 9x9 grid world: X-MEN by three methods, MaxEnt, relative entropy IRL and constraint inference on three maps.

The crosses on the diagonal part an upper from a lower arm, each behind its own triangle. The maps are ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from scipy.special import rel_entr

import xmen as xm
from xmen.experiments import methods
from xmen.experiments.methods import ALL, LOOKS, Cell, Effort
from xmen.experiments.notebook import Floats, Notebook, mean_and_error
from xmen.problem import read_problem

DIAGONAL = tuple((i, i) for i in range(2, 7))


@dataclass(frozen=True)
class GridMap:
    """Symbols of the upper arm; the lower arm is its mirror image."""

    name: str
    triangle: Cell
    squares: tuple[Cell, ...]
    circles: tuple[Cell, ...]
    crosses: tuple[Cell, ...] = ()

    @cached_property
    def world(self) -> xm.GridWorld:
        return xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))

    @cached_property
    def symbols(self) -> dict[str, list[Cell]]:
        """The cells of each symbol, on both arms."""
        return {
            "triangle": _both(self.triangle),
            "cross": [*DIAGONAL, *_both(*self.crosses)],
            "square": _both(*self.squares),
            "circle": _both(*self.circles),
        }

    @cached_property
    def rules(self) -> list[xm.Constraint]:
        triangle, cross, square, circle = (self.world.at(*cells) for cells in self.symbols.values())
        return [
            xm.first(triangle, among=triangle | cross | square | circle).named("triangle first"),
            xm.never(cross).named("no crosses"),
            (xm.count(square) == 1).named("exactly one square"),
            (xm.count(circle) == 1).named("exactly one circle"),
        ]

    def valid(self, taus: Sequence[xm.Trajectory]) -> list[bool]:
        """Which of these keep all rules."""
        return [all(rule.accepts(tau) for rule in self.rules) for tau in taus]

    @property
    def upper(self) -> xm.Constraint:
        """The path takes the upper arm."""
        # A triangle that both arms share tells nothing; the one square that a valid path meets does.
        cells = self.squares if self.triangle == _mirrored(self.triangle) else (self.triangle,)
        return xm.visit(self.world.at(*cells)).named("upper arm")

    def path_types(self) -> list[tuple[str, Cell, Cell]]:
        """All types of valid paths: the arm, and the one square and the one circle on it that are met."""
        pairs = [(square, circle) for square in self.squares for circle in self.circles]
        lower = [("lower", _mirrored(square), _mirrored(circle)) for square, circle in pairs]
        return [*(("upper", *pair) for pair in pairs), *lower]

    def of_type(self, paths: Sequence[xm.Trajectory]) -> Floats:
        """1 where a valid path is of a type, (types, paths)."""
        visited = np.zeros((len(paths), self.world.n_states))
        for row, tau in zip(visited, paths, strict=True):
            row[list(tau.states)] = 1.0
        met = [visited[:, [self.world.state(cell) for cell in cells]] for _, *cells in self.path_types()]
        return np.array([cells.all(axis=1) for cells in met], dtype=np.float64)

    def demonstrations(self, n: int, seed: int, upper_share: float = 0.7) -> list[xm.Trajectory]:
        """n valid paths, this share of them on the upper arm, each arm's equally likely: all earn 1, at the goal."""
        demos, n_upper = list[xm.Trajectory](), round(upper_share * n)
        for arm, size, arm_seed in ((self.upper, n_upper, 2 * seed), (~self.upper, n - n_upper, 2 * seed + 1)):
            if size:
                valid = xm.distribution(self.world, [*self.rules, arm], None, engine="exact")
                demos += valid.sample(size, seed=arm_seed)
        return demos


def _mirrored(cell: Cell) -> Cell:
    return cell[1], cell[0]


def _both(*cells: Cell) -> list[Cell]:
    return list(dict.fromkeys([*cells, *map(_mirrored, cells)]))


SQUARES, CIRCLES = ((1, 4), (3, 6), (5, 8)), ((2, 4), (4, 6), (6, 8))
MEMORY = GridMap("memory", (1, 2), SQUARES, CIRCLES, crosses=((0, 5),))
"""Three squares and three circles on each arm, one after the other: whether a square may be entered depends on
whether one was met before, which no reward of states or moves can know."""

MARKOV = GridMap("near-Markov", (1, 2), ((2, 5),), ((5, 7),))
"""One square and one circle on each arm: "exactly one" is nearly "a large reward there"."""

ONE_TRIANGLE = GridMap("one-triangle", (1, 1), SQUARES, CIRCLES, crosses=((0, 5),))
"""One triangle before the arms part, as a figure of the paper shows on its map: every valid path passes it."""

MAPS = (MEMORY, MARKOV, ONE_TRIANGLE)


def read_map(file: Path) -> GridMap:
    """The map of a problem file with a 9x9 grid and the events triangle, cross, square and circle, both arms of it."""
    problem = read_problem(file)
    grid: Any = problem.world if isinstance(problem.world, xm.GridWorld) else MEMORY.world
    found = {name: {*map(grid.cell, getattr(problem.events.get(name), "states", ()))} for name in MEMORY.symbols}
    triangle, cross, square, circle = (tuple(sorted(c for c in cells if c[0] <= c[1])) for cells in found.values())
    one = GridMap(file.stem, (*triangle, (0, 0))[0], square, circle, tuple(c for c in cross if c not in DIAGONAL))
    both = {name: set(cells) for name, cells in one.symbols.items()}
    if (grid.width, grid.height) != (9, 9) or both != found or not all(found.values()):
        raise xm.XmenError(
            f"{file}: a map is a 9x9 grid with the events triangle, cross, square and circle, each its own mirror image"
            f" about the diagonal, with one triangle on each arm and crosses at {DIAGONAL} between them."
        )
    return one


# ---- What is learned on them

PRIOR_VARIANCE = 10.0  # of the weights, for X-MEN and MaxEnt alike
NOTE = """Means and standard errors over seeds, each with demonstrations of its own. The name of an X-MEN says what
answered for its gradient. Valid: of 1,000 generated, by the paper's algorithm with a solver of 100; P(valid) and
P(triangle), of passing a triangle, are exact. KL: the paper's measure, KL(demonstrations || model) in nats over the
two arms (types: over arm, square and circle) among valid paths alone. KL+, ours: with "not valid" as one more type.
Held out: the log-likelihood of 1,000 other demonstrations, in nats each. RE-IRL: relative entropy IRL; MLCI: maximum
likelihood constraint inference on the known reward, with its authors' threshold of 0.1 nats. "X-MEN paper" generates
as the paper does, from a pool of draws that is sampled again by importance weights."""
COLUMNS = {"method": "", "seeds": ",", "valid": ".1%", "P(valid)": ".1%", "P(triangle)": ".1%", "KL, arms": ".4f"}
COLUMNS |= {"KL, types": ".4f", "KL+, arms": ".4f", "log-lik.": ".3f", "held out": ".3f"}
BY_DISTANCE = ("exact", "paper", "maxent", "relative-entropy", "constraint-inference")
KEYS = (*ALL, "constraint-inference")
SWEPT = ("exact", "maxent", "relative-entropy", "constraint-inference")  # X-MEN keeps the rules with any method
GRID: dict[str, Any] = {"squeeze": False, "layout": "constrained"}  # of panels, also of one
MOST_PATHS = 100_000  # the maps have some thousand valid ones
SIZES = (1, 3, 10, 30, 100, 300, 1000)  # demonstrations
N_DEMOS, N_DRAWN, N_SHOWN = 1000, 1000, 100
SYMBOLS = {"triangle": ("^", "must be the first symbol"), "cross": ("X", "never")}
SYMBOLS |= {"square": ("s", "exactly one"), "circle": ("o", "exactly one")}


class Case:
    """One map with demonstrations to learn from, 1,000 others of the same demonstrator, and all valid paths."""

    def __init__(self, grid_map: GridMap, seed: int) -> None:
        self.map, self.seed, self.world, self.rules = grid_map, seed, grid_map.world, grid_map.rules
        self.features: Any = None  # one weight per state
        self.demos, self.held_out = grid_map.demonstrations(N_DEMOS, seed), grid_map.demonstrations(1000, seed + 10_000)
        self.paths = xm.distribution(grid_map.world, grid_map.rules, None, engine="exact").best(MOST_PATHS)
        self.demonstrated = np.append(grid_map.of_type(self.demos).mean(axis=1), 0.0)  # by path type; 0 are invalid

    @property
    def lengths(self) -> Floats:
        """The paper's distance feature, as we read it: the length of the step (S, A, 1)."""
        lengths = [np.sqrt(2.0) if "-" in move else 1.0 for move in self.world.moves]
        return np.tile(np.array(lengths)[:, None], (self.world.n_states, 1, 1))

    def types_of(self, model: Any) -> Floats:
        """The probability of each path type under a model, and of paths that are not valid: exact, by listing."""
        found = self.map.of_type(self.paths) @ np.exp(model.score_samples(self.paths))
        return np.append(found, max(0.0, 1.0 - found.sum()))

    def row(self, model: Any, taus: Sequence[xm.Trajectory]) -> tuple[Any, ...]:
        """What the table says of a model, and of trajectories that it generated."""
        d, given, types = model.distribution(), self.demonstrated, self.types_of(model)
        kl = kl_among_valid(merge(given), merge(types)), kl_among_valid(given, types)
        triangle = xm.visit(self.world.at(*self.map.symbols["triangle"]))
        exact = d.probability(self.rules), d.probability(triangle)
        scores = [model.score(demos) for demos in (self.demos, self.held_out)]
        return (np.mean(self.map.valid(taus)), *exact, *kl, divergence(merge(given), merge(types)), *scores)


def divergence(p: Floats, q: Floats) -> float:
    """KL(p || q) in nats; inf where q has no mass and p has. Over types with "not valid" among them it is our KL+."""
    return float(rel_entr(p, q).sum())


def kl_among_valid(p: Floats, q: Floats) -> float:
    """The paper's KL: over types of path among valid paths alone, "not valid" left out where anything is valid."""
    p, q = (np.append(one[:-1] / one[:-1].sum(), 0.0) if one[:-1].sum() > 0 else one for one in (p, q))
    return divergence(p, q)


def merge(types: Floats) -> Floats:
    """Upper, lower and not valid: the finer types added up."""
    half = len(types) // 2
    return np.array([types[:half].sum(), types[half:-1].sum(), types[-1]])


def effort_for(n_demos: int, **settings: Any) -> Effort:
    """A Gaussian prior on weights, and no rule inferred that gains less than one demonstration is worth."""
    return Effort(l2=1 / (n_demos * PRIOR_VARIANCE), kl_threshold=1 / n_demos, **settings)


def run(book: Notebook) -> None:
    """Demonstrations, fits, figures and tables on all maps."""
    book.title("The 9x9 grid world: 70 % of the demonstrations on upper paths, 30 % on lower paths")
    book.say("""A path is valid when the triangle is the first symbol it meets, it meets no cross, and it meets exactly
        one square and exactly one circle. The true reward is 0 everywhere and 1 at the goal.""")
    maps = MAPS if book.data is None else (read_map(book.data),)
    if maps is MAPS:
        book.say("""All maps are ours: the first was made so that the rules truly need memory; on the second, rewards of
            states can say nearly all of it; on the third, every valid path passes one triangle, as a figure of the
            paper shows.""")
    book.say("""Rewards that are learned have one weight per state; the paper's distance feature alone cannot tell the
        two arms of a mirror-symmetric map apart (see the table of features). X-MEN is given the rules; its rivals are
        given what they can use. Rollouts of relative entropy IRL follow what MaxEnt has learned, mixed with uniform
        choices, and its thresholds are nearly 0: that favours this baseline.""")
    effort = effort_for(N_DEMOS, paper_iter=book.pick(40, 200), solver_iter=book.pick(1, 100), paper_samples=16)
    effort = replace(effort, rollouts=book.pick(20_000, 100_000))
    book.set(demonstrations=N_DEMOS, upper_share=0.7, generated=N_DRAWN, features="one weight per state")
    book.set(**vars(effort))
    figure, (axes,) = plt.subplots(1, len(maps), figsize=(6.4 * len(maps), 5.6), **GRID)
    for ax, one in zip(axes, maps, strict=True):
        xm.plot_visits(one.world, np.arange(one.world.n_states) == one.world.state((8, 8)), ax=ax, label="true reward")
        xm.plot_world(one.world, marks=one.symbols, ax=ax).set_title(f"the {one.name} map")
    book.figure(figure, "grid_maps", "The maps: the true reward, and the symbols of the rules.")

    cases, arms = dict[str, Case](), dict[str, dict[str, Floats]]()
    n_paths = round(methods.n_trajectories(MEMORY.world, None))
    for grid_map in maps:
        found: dict[str, list[tuple[Any, ...]]] = {}
        for seed in range(book.seed, book.seed + book.pick(2, 5)):
            case = Case(grid_map, seed)
            # With a solver the paper's algorithm takes minutes: on the first map alone, and once in a quick run.
            slow = grid_map is maps[0] and (seed == book.seed or not book.quick)
            known = [key for key in KEYS if key != "paper-solver" or slow]
            models = {key: methods.fit_noted(book, key, case, effort, seed) for key in known}
            with book.stage("what the models say"):
                drawn = {key: methods.generate(key, model, N_DRAWN, seed) for key, model in models.items()}
                for key, model in models.items():
                    found.setdefault(key, []).append(case.row(model, drawn[key]))
            if seed == book.seed:
                cases[grid_map.name], arms[grid_map.name] = case, draw_case(book, case, models, drawn)
        means = {key: map(mean_and_error, zip(*some, strict=True)) for key, some in found.items()}
        rows = [(LOOKS[key].label, len(found[key]), *columns) for key, columns in means.items()]
        book.table(f"the {grid_map.name} map: {len(case.paths):,} of {n_paths:,} paths are valid", COLUMNS, rows, NOTE)
    draw_arms(book, arms)
    sweep_demonstrations(book, list(cases.values()))
    sweep_time(book, cases[maps[0].name], effort)
    with book.stage("compare features"):
        compared = [row for case in cases.values() for row in feature_rows(case, effort.l2)]
    columns = {"map": "", "features": "", "method": "", "P(valid)": ".1%", "upper": ".1%"}
    note = """Upper: the share of the upper arm among valid paths; 70 % in the demonstrations. MaxEnt with one weight
        per state and move is the likeliest of all Markov policies. MLCI on the true reward: as its authors use it."""
    book.table("what features can say", {**columns, "KL, arms": ".4f", "KL+, arms": ".4f"}, compared, note)


def draw_case(book: Notebook, case: Case, models: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Floats]:
    """A map's trajectories, cells that are passed, and path types, method by method; types are returned."""
    name, slug = case.map.name, case.map.name.lower().replace("-", "_")
    marks = {f"{one}: {rule}": (case.map.symbols[one], marker) for one, (marker, rule) in SYMBOLS.items()}
    lines = {}
    for key, some in {"demonstrations": case.demos[::50], **drawn}.items():
        if key in ("demonstrations", "exact", "maxent"):
            few, valid = some[:20], case.map.valid(some[:20])
            lines[key] = f"{sum(valid)} of 20 valid{_kept(case, models.get(key))}", few, valid
    caption = f"The {name} map: demonstrations, and trajectories generated by X-MEN and by MaxEnt."
    book.figure(methods.draw_panels(case.world, lines, marks, n_columns=3), f"grid_generated_{slug}", caption)
    caption = f"""The {name} map: how often {N_SHOWN} trajectories of each method pass each cell. With a weight per
        state X-MEN and MaxEnt have the expected visits of the demonstrations, by construction: what tells them apart is
        how many of their paths keep the rules."""
    book.figure(_marginals(case, models, drawn, marks, 5), f"grid_marginals_{slug}", caption)
    inferred = len(models["constraint-inference-maxent"].constraints_)
    book.say(f"On the {name} map MLCI on MaxEnt's reward adds {inferred} rules of its own.")

    with book.stage("the distance feature"), methods.noticed():
        case.features, effort = case.lengths, effort_for(N_DEMOS, paper_iter=40, paper_samples=16)
        fits = {key: methods.fit_one(key, case, effort, case.seed) for key in BY_DISTANCE}
        some = {key: methods.generate(key, model, N_SHOWN, case.seed) for key, model in fits.items()}
        case.features = None
    caption = f"""The paper's second figure on the {name} map, with its distance feature: how often {N_SHOWN}
        trajectories of each method pass each cell. Distance says nothing of the rules, and rivals are off; nor can it
        tell the arms apart, so that X-MEN is right about the rules, and gives each arm half."""
    book.figure(_marginals(case, fits, some, marks, 3), f"grid_distance_{slug}", caption)

    types = {"demonstrations": case.demonstrated} | {key: case.types_of(model) for key, model in models.items()}
    names = ["{}\n□ {},{}\n○ {},{}".format(arm, *square, *circle) for arm, square, circle in case.map.path_types()]
    values = np.array(list(types.values()))
    some_have = np.append(values[:, :-1].max(axis=0) >= 5e-4, True)
    labels, values = np.array([*names, "not\nvalid"])[some_have], 100.0 * values[:, some_have]
    figure, ax = plt.subplots(figsize=(0.62 * len(labels) + 2.6, 0.36 * len(types) + 1.0), layout="constrained")
    ax.imshow(values, cmap="YlGnBu", vmin=0.0, vmax=60.0, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        ax.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color="white" if value > 35 else "black")
    ax.set_xticks(range(len(labels)), labels.tolist(), fontsize=8)
    ax.set_yticks(range(len(types)), [LOOKS[key].label for key in types], fontsize=9)
    ax.axvline(len(labels) - 1.5, color="black", lw=1.2)
    ax.tick_params(length=0)
    caption = f"""The {name} map: the exact probability of each path type in per cent, which is the arm with the one
        square and the one circle that the path meets. Demonstrations: the share of them."""
    book.figure(figure, f"grid_path_types_{slug}", caption)
    return types


def _kept(case: Case, model: Any) -> str:
    return "" if model is None else f", P(valid) = {model.distribution().probability(case.rules):.1%}"


def _marginals(case: Case, models: Mapping[str, Any], drawn: Any, marks: Any, n_columns: int) -> Figure:
    """How often cells are passed by the demonstrations, and by trajectories that methods generated."""
    passed = {}
    for key, taus in {"demonstrations": case.demos[:: N_DEMOS // N_SHOWN], **drawn}.items():
        some = taus[:N_SHOWN]
        counts = np.bincount([s for tau in some for s in set(tau.states)], minlength=case.world.n_states)
        title = f"{sum(case.map.valid(some))} of {len(some)} valid{_kept(case, models.get(key))}"
        passed[key] = title, counts / len(some)
    return methods.draw_panels(case.world, passed, marks, n_columns)


def draw_arms(book: Notebook, found: Mapping[str, Mapping[str, Floats]]) -> None:
    """The paper's third figure, right: arms among valid paths as bars, the share of valid paths as a dashed line."""
    figure, (axes,) = plt.subplots(1, len(found), figsize=(4.6 * len(found), 4.2), sharey=True, **GRID)
    for ax, (name, types) in zip(axes, found.items(), strict=True):
        arms, x = np.array([merge(one) for one in types.values()]), np.arange(len(types))
        among = arms[:, :2] / arms[:, :2].sum(axis=1, keepdims=True)
        for side, label, colour in ((0, "upper paths", "#0072B2"), (1, "lower paths", "#E69F00")):
            ax.bar(x + 0.4 * side - 0.2, 100 * among[:, side], 0.4, color=colour, label=f"{label}, among valid ones")
        ax.plot(x, 100 * (1.0 - arms[:, 2]), "k--o", ms=4, lw=1.4, label="valid")
        ax.axhline(70, color="#999999", lw=0.8, zorder=0)
        ax.set_xticks(x, [LOOKS[key].label for key in types], rotation=50, ha="right", fontsize=8)
        ax.set_title(f"the {name} map")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("per cent, exact")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=3, loc="outside upper center")
    caption = """The paper's third figure, right: valid paths grouped by upper and lower (bars), and the share of valid
        paths (dashed). The thin line is the 70 % of the demonstrations. One weight per state."""
    book.figure(figure, "grid_arms", caption)


def feature_rows(case: Case, l2: float) -> list[tuple[Any, ...]]:
    """How valid and how balanced X-MEN and MaxEnt become with weaker and stronger features."""
    world, n_actions = case.world, case.world.n_actions
    x, y = np.array([world.cell(s) for s in range(world.n_states)]).T
    goal = world.width - 1
    distance, side = np.maximum(goal - x, goal - y) / goal, np.sign(y - x)
    tables = {
        "length of the step": case.lengths,
        "distance to the goal": np.repeat(distance[:, None, None], n_actions, axis=1),
        "distance to the goal, side": np.repeat(np.stack([distance, side], axis=1)[:, None], n_actions, axis=1),
        "one per state": None,
        "one per state, move": np.eye(world.n_states * n_actions).reshape(world.n_states, n_actions, -1),
    }
    learners: dict[tuple[str, str], Any] = {("true reward", "constraint-inference"): xm.ConstraintInference(world)}
    for name, features in tables.items():
        learners[name, "exact"] = xm.XMEN(world, case.rules, features, method="exact", l2=l2)
        learners[name, "maxent"] = xm.MaxEntIRL(world, features, l2=l2)
    rows: list[tuple[Any, ...]] = []
    for (name, key), model in learners.items():
        with methods.noticed():
            types, given = merge(case.types_of(model.fit(case.demos))), merge(case.demonstrated)
        kl = kl_among_valid(given, types), divergence(given, types)
        rows.append((case.map.name, name, LOOKS[key].label, 1 - types[2], types[0] / types[:2].sum(), *kl))
    return rows


def sweep_demonstrations(book: Notebook, cases: Sequence[Case]) -> None:
    """P(valid) and the held-out log-likelihood against the number of demonstrations, over several draws of them."""
    repeats = book.pick(2, 5)
    points = np.zeros((2, len(cases), len(SWEPT), len(SIZES), repeats))
    with book.stage("sweep the number of demonstrations") as done:
        for (c, case), (i, n), repeat in product(enumerate(cases), enumerate(SIZES), range(repeats)):
            seed, effort = book.seed + 100 + repeat, effort_for(n, rollouts=book.pick(5000, 20_000))
            demos = case.map.demonstrations(n, seed)
            for m, key in enumerate(SWEPT):
                with methods.noticed():
                    model = methods.fit_one(key, case, effort, seed, demos=demos)
                valid = model.distribution().probability(case.rules)
                points[:, c, m, i, repeat] = 100.0 * valid, model.score(case.held_out)
            done((c * len(SIZES) + i + (repeat + 1) / repeats) / (len(SIZES) * len(cases)))

    figure, axes = plt.subplots(2, len(cases), figsize=(5.2 * len(cases), 6.6), sharex=True, **GRID)
    for c, case in enumerate(cases):
        for m, key in enumerate(SWEPT):
            for ax, values in zip(axes[:, c], points[:, c, m], strict=True):
                ax.plot(SIZES, values.mean(axis=1), ms=5, **LOOKS[key].style)
                low, high = values.min(axis=1), values.max(axis=1)
                ax.fill_between(SIZES, low, high, color=LOOKS[key].colour, alpha=0.18, lw=0)
                ax.spines[["top", "right"]].set_visible(False)
        axes[0, c].set(title=f"the {case.map.name} map", xscale="log", ylim=(-3, 104))
        floor = points[1, c, 0].mean(axis=1)
        axes[1, c].set(xlabel="demonstrations", ylim=(max(-30.0, floor.min() - 12), floor.max() + 0.8))
    axes[0, 0].set_ylabel("valid trajectories (%), exact")
    axes[1, 0].set_ylabel("held-out log-likelihood\n(nats per demonstration)")
    handles = axes[0, 0].get_legend_handles_labels()[0]
    handles.append(Patch(color="#888888", alpha=0.3, lw=0, label=f"least to most of {repeats} draws"))
    figure.legend(handles=handles, frameon=False, ncols=5, loc="outside upper center")
    caption = f"""Against the number of demonstrations, {repeats} draws of them: the mean, and a band from the least to
        the most. Above: the exact probability that a generated trajectory is valid. Below: the log-likelihood of 1,000
        other demonstrations; curves leave at the bottom where it is lower still."""
    book.figure(figure, "grid_by_demonstrations", caption)


def sweep_time(book: Notebook, case: Case, effort: Effort) -> None:
    """P(valid) and held-out log-likelihood of fits that are stopped when their time is up."""
    budgets = book.pick((0.03, 0.1, 0.3, 1.0), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
    long = replace(effort, paper_iter=2000, solver_iter=2000)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    with book.stage("sweep the training time") as done:
        for i, key in enumerate(ALL):
            points = []
            for budget in budgets:
                model, seconds = methods.fit_within(budget, key, case, long, book.seed)
                valid = model.distribution().probability(case.rules)
                points.append((seconds, 100 * valid, model.score(case.held_out)))
                if seconds < budget:  # it was done before its time was up
                    break
            seconds, *values = np.array(sorted(points)).T
            for ax, one in zip(axes, values, strict=True):
                ax.plot(seconds, one, ms=6, **LOOKS[key].style)
            done((i + 1) / len(ALL))
    axes[0].set(ylabel="valid trajectories (%), exact", ylim=(-3, 104))
    axes[1].set(ylabel="held-out log-likelihood (nats)")
    for ax in axes:
        ax.set(xscale="log", xlabel="training time (seconds)")
        ax.spines[["top", "right"]].set_visible(False)
    name = f"{case.map.name} map"
    axes[0].set_title(f"the {name}: each point is one fit, stopped when its time was up", fontsize=10, loc="left")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=6, loc="outside upper center")
    caption = f"The {name}: fits stopped after equal training times. A curve ends where its method is done."
    book.figure(figure, "grid_by_time", caption, timed=True)
