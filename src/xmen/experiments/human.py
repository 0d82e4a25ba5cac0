"""Obstacle avoidance: ten made-up demonstrations through a choke point, and with `--data` people's drawn paths.

The volunteers' data of the paper is not public. The first task has the paper's ingredients on a map of ours; the
second runs the same pipeline on real drawings that anyone can put into a folder: text files of points `x,y`, one per
line, in the unit square, from the middle of the lower edge to the middle of the upper one. Consecutive points are
joined by straight lines, and so are both ends with the places where the drawing was to start and to end.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import groupby, pairwise
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import xmen as xm
from xmen.experiments import methods
from xmen.experiments.methods import ALL, LOOKS, Cell, Effort
from xmen.experiments.notebook import Done, Floats, Notebook, mean_and_error
from xmen.files import read_text

SIZE = 10
OBSTACLES = ((2, 2), (3, 6), (2, 6), (4, 5), (6, 3), (7, 3), (7, 2), (7, 6), (6, 8))
CHOKE = (5, 4)
GAP = (4, 4)  # a choke point in a gap that takes three moves to the right: the move before has to be up
GAP_OBSTACLES = ((4, 3), (5, 3), (4, 5), (5, 5), (4, 2), (5, 6), (1, 7), (8, 1))
BEFORE_GAP = (3, 3)  # and from here it is
N_DEMOS = 10
BESIDE, RIGHT = -0.8, 0.6  # what the made-up demonstrators value: room to obstacles, the right-hand side

RESOLUTION = 13  # cells along each side of the unit square; odd, so that start and goal are in the middle of a cell
DISC_RADIUS = 0.15  # around the middle of the square
DRAWN_MOVES = {"left": (-1, 0), "up-left": (-1, 1), "up": (0, 1), "up-right": (1, 1), "right": (1, 0)}
N_BANDS = 3  # below, beside and above the disc
CLEARANCES = ((0.15, 0.2), (0.2, 0.25), (0.25, 0.3), (0.3, 0.35))  # from the disc's centre, in sides of the square
START, END = (0.5, 0.0), (0.5, 1.0)
FARTHEST = 0.2  # from these; a straight line bridges the rest
LEAST_PATHS = 3  # to leave one out and still have something to learn from
CLIPPED = 0.5  # of a cell's width: a corner cell that holds less of the path is passed diagonally


@dataclass(frozen=True)
class HumanTask:
    """What there is to learn, and what it is called in pictures."""

    world: xm.GridWorld
    parts: tuple[xm.Constraint, ...]
    features: Floats  # (n_states, n_actions, d)
    feature_names: str
    demos: list[xm.Trajectory]
    obstacles: tuple[Cell, ...]
    choke: Cell | None = None
    truth: Any = None  # the weights of those who made the demonstrations, where they are known

    @cached_property
    def rules(self) -> xm.Constraint:
        return reduce(and_, self.parts)

    @property
    def marks(self) -> dict[str, Any]:
        """What `xm.plot_world` shows of the task."""
        marks: dict[str, Any] = {"obstacle": (self.obstacles, "#4d4d4d")}
        return marks if self.choke is None else {**marks, "choke point": ([self.choke], "#E69F00")}

    def fit(self, name: str, effort: Effort, seed: int, demos: Sequence[xm.Trajectory] | None = None) -> Any:
        """A method, fitted without a word to these or to all demonstrations."""
        with methods.noticed():
            return methods.fit_one(name, self, effort, seed, demos=demos)

    def share_kept(self, taus: Sequence[xm.Trajectory]) -> float:
        """The share of these that keeps all rules."""
        return sum(map(self.rules.accepts, taus)) / len(taus)


def choke_task(
    seed: int, moves: Any = ("up", "right"), horizon: Any = None, obstacles: Any = OBSTACLES, choke: Cell = CHOKE
) -> HumanTask:
    """Corner to corner around obstacles, through a choke point, with at most three equal moves in a row.

    The demonstrations are the same for all `moves`: shortest valid paths, drawn with weights BESIDE and RIGHT.
    """
    grid = xm.GridWorld(SIZE, SIZE, start=(0, 0), goal=(SIZE - 1, SIZE - 1), moves=moves, horizon=horizon)
    rules = (
        xm.never(grid.at(*obstacles)).named("never on an obstacle"),
        xm.visit(grid.at(choke)).named("through the choke point"),
        (xm.longest_repeat() <= 3).named("at most three equal moves in a row"),
    )
    y, x = np.divmod(np.arange(grid.n_states), grid.width)
    away = np.abs(np.stack([x, y], axis=1)[:, None] - np.array(obstacles)).max(axis=2)  # in moves of a king
    per_state = np.column_stack([(away <= 1).any(axis=1), (x - y) / (SIZE - 1), np.eye(grid.n_states)])
    per_move = np.repeat(np.eye(grid.n_actions)[None], grid.n_states, axis=0)
    features = np.concatenate([np.repeat(per_state[:, None], grid.n_actions, axis=1), per_move], axis=2)
    truth = np.zeros(features.shape[2])
    truth[:2] = BESIDE, RIGHT
    if tuple(moves) == ("up", "right"):
        demos = xm.distribution(grid, rules, features @ truth, engine="exact").sample(N_DEMOS, seed=seed)
    else:
        index = [grid.moves.index(move) for move in ("up", "right")]
        demos = choke_task(seed, obstacles=obstacles, choke=choke).demos
        demos = [xm.Trajectory(tau.states, [index[action] for action in tau.actions]) for tau in demos]
    names = f"beside an obstacle; x - y; one per cell ({grid.n_states}); one per move ({grid.n_actions})"
    return HumanTask(grid, rules, features, names, demos, obstacles, choke, truth)


def drawn_task(folder: Path) -> HumanTask:
    """People's paths around a round obstacle on a grid; the rules are checked against every one of them."""
    drawings, n, middle = read_drawings(folder), RESOLUTION, RESOLUTION // 2
    grid = xm.GridWorld(n, n, start=(middle, 0), goal=(middle, n - 1), moves=tuple(DRAWN_MOVES), horizon=2 * n)
    centres = (np.arange(n) + 0.5) / n
    distance = np.hypot(centres[None, :] - 0.5, centres[:, None] - 0.5)  # [y, x]
    obstacles = tuple((int(x), int(y)) for y, x in np.argwhere(distance <= DISC_RADIUS))
    left, right, up_left, up_right = (grid.doing(move) for move in ("left", "right", "up-left", "up-right"))
    # No move after one that it turns away from by more than a right angle; so no cell is visited twice either.
    turns = "G(l -> N !(r | ur)) & G(ul -> N !r) & G(r -> N !(l | ul)) & G(ur -> N !l)"
    rules = (
        xm.never(grid.at(*obstacles)).named("never on the obstacle"),
        xm.ltlf(turns, l=left, r=right, ul=up_left, ur=up_right).named("no turn sharper than a right angle"),
    )
    demos = [as_trajectory(grid, name, points) for name, points in drawings.items()]
    try:
        xm.check_demos(grid, demos, rules[0] & rules[1])
    except xm.InvalidDemonstrationError as error:
        where = f"{list(drawings)[error.index]}.txt on a grid of {n} x {n} cells"
        facts: Any = {"index": error.index, "constraint": error.constraint, "position": error.position}
        raise xm.InvalidDemonstrationError(f"{where}: {error}", **facts) from error

    y, x = np.divmod(np.arange(grid.n_states), n)
    away, side = np.abs(x - middle)[:, None] / middle, np.sign(x - middle)[:, None]
    sideways = np.array([step[0] for step in DRAWN_MOVES.values()])
    flat = np.ones((1, grid.n_actions))
    outwards = np.where(side == 0, sideways != 0, sideways * side > 0)
    columns = [np.repeat(move[None], grid.n_states, axis=0) for move in np.eye(grid.n_actions)]
    for band in range(N_BANDS):
        here = (np.minimum(N_BANDS * y // n, N_BANDS - 1) == band)[:, None]
        columns += [here * outwards, here * (sideways * side < 0), here * away * flat, here * away**2 * flat]
    columns += [((distance.ravel() > low) & (distance.ravel() <= high))[:, None] * flat for low, high in CLEARANCES]
    columns += [state[:, None] * flat for state in np.eye(grid.n_states)]
    names = f"one per move ({grid.n_actions}); moves outwards and inwards, distance from the middle line and its square"
    names += f", for each third of the height ({4 * N_BANDS})"
    names += f"; rings around the obstacle ({len(CLEARANCES)}); one per cell"
    return HumanTask(grid, rules, np.stack(columns, axis=2).astype(float), names, demos, obstacles)


def read_drawings(folder: Path) -> dict[str, Floats]:
    """The points of all `*.txt` in the folder by their names, t2 before t10; errors name the file and the line."""
    if not folder.is_dir():
        raise xm.FileFormatError(f"{folder} is not a folder: give one with a file of points for each drawn path.")
    parted = {file: re.split(r"(\d+)", file.stem) for file in folder.glob("*.txt")}
    files = sorted(parted, key=lambda file: (parted[file][::2], [int(number) for number in parted[file][1::2]]))
    if len(files) < LEAST_PATHS:
        asked = f"at least {LEAST_PATHS} paths are needed: one text file each, with one point x,y per line"
        raise xm.FileFormatError(f"{folder} has {len(files)} files *.txt, but {asked}.")
    return {file.stem: _read_points(file) for file in files}


def _read_points(file: Path) -> Floats:
    try:
        lines = read_text(file).splitlines()
    except (OSError, xm.FileFormatError) as error:
        raise xm.FileFormatError(f"{file} cannot be read: {error}") from None
    points = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                x, y = (float(value) for value in line.split(","))
            except ValueError:
                raise xm.FileFormatError(f"{file}, line {number}: expected a point x,y, got {line!r:.60}") from None
            if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
                what = f"the point ({x:g}, {y:g}) is outside the unit square; both numbers must be from 0 to 1"
                raise xm.FileFormatError(f"{file}, line {number}: {what}.")
            points.append((x, y))
    if len(points) < 2:
        raise xm.FileFormatError(f"{file}: a path needs at least 2 points, got {len(points)}.")
    for what, (x, y), place in (("start", points[0], START), ("end", points[-1], END)):
        if np.hypot(x - place[0], y - place[1]) > FARTHEST:
            asked = f"the path must {what} within {FARTHEST} of {place}"
            raise xm.FileFormatError(f"{file}: {asked}, but that point is ({x:g}, {y:g}).")
    return np.array(points)


def path_cells(points: Floats, n: int) -> list[Cell]:
    """The cells (x, y) of an n by n grid that a path passes, each a neighbour of the one before.

    The lines are cut where they cross the grid. A cell with less than half a cell's width of path in it is only clipped
    when the cells before and after it are neighbours or the same: it is left out, the shortest first.
    """
    whole = np.vstack([START, points, END]) * n
    parts = [part for begin, end in pairwise(whole) for part in _cut(begin, end, n)]
    while True:
        runs = groupby(parts, key=lambda part: part[0])
        passed = [(cell, sum(length for _, length in run)) for cell, run in runs]
        between = [(i, passed[i - 1][0], passed[i + 1][0]) for i in range(1, len(passed) - 1)]
        corners = [i for i, one, other in between if max(abs(one[0] - other[0]), abs(one[1] - other[1])) <= 1]
        shortest = min(corners, key=lambda i: passed[i][1], default=None)
        if shortest is None or passed[shortest][1] >= CLIPPED:
            return [cell for cell, _ in passed]
        parts = passed[:shortest] + passed[shortest + 1 :]


def _cut(begin: Floats, end: Floats, n: int) -> list[tuple[Cell, float]]:
    """The cells along a line in units of cells, with the length of the line in each."""
    cuts = {0.0, 1.0}
    for start, step in zip(begin, end - begin, strict=True):
        low, high = sorted((start, start + step))
        if step:
            cuts |= {(line - start) / step for line in range(int(np.ceil(low)), int(np.floor(high)) + 1)}
    inside = np.array(sorted(cut for cut in cuts if 0.0 <= cut <= 1.0))
    lengths = np.diff(inside) * float(np.hypot(*(end - begin)))
    middles = begin + (inside[:-1, None] + inside[1:, None]) / 2 * (end - begin)
    cells = np.clip(np.floor(middles).astype(int), 0, n - 1)
    return [((int(x), int(y)), float(d)) for (x, y), d in zip(cells, lengths, strict=True) if d > 1e-9]


def as_trajectory(grid: xm.GridWorld, name: str, points: Floats) -> xm.Trajectory:
    """The trajectory along the cells of a drawing; refuses one whose moves the grid does not have."""
    cells, actions = path_cells(points, grid.width), []
    for before, after in pairwise(cells):
        step = (after[0] - before[0], after[1] - before[1])
        if step not in DRAWN_MOVES.values():
            where = f"{name}.txt: the path goes from cell {before} to cell {after} of {grid.width} x {grid.height}"
            asked = f"the moves here are {', '.join(grid.moves)}: paths have to go up, without turning back down"
            raise xm.FileFormatError(f"{where}, but {asked}.")
        actions.append(list(DRAWN_MOVES.values()).index(step))
    return xm.Trajectory([grid.state(cell) for cell in cells], actions)


# ---- What is learned from them

N_DRAWN = 1000  # trajectories of each method that are checked
N_SHOWN = 10
NAMES = (*ALL, "constraint-inference")  # the last as its authors use it
N_SEEDS = 2, 5  # each with demonstrations of its own: quick, full
HELD_OUT = ("exact", "maxent", "relative-entropy", "constraint-inference-maxent")
"""Fitted once per setting and demonstration; the other ways to X-MEN's gradient take the setting of the exact one."""
FIT_TOL = 1e-4  # of hundreds of fits; against 1e-7, mean likelihoods change by less than 1e-4 nats
LONGEST = 24  # the horizon where moves back are possible; the shortest way has 18 moves
FOUR_MOVES_L2, GAP_L2 = 0.03, 0.1
LONG = 100_000  # iterations: time runs out first
BUDGET = 2.0, 60.0  # seconds of training that every method gets where time is equal: quick, full
COLUMNS = {"method": "", "setting": "", "valid": ".1%", "P(valid)": ".1%", "log-lik.": ".2f", "held out": ".2f"}


def run(book: Notebook) -> None:
    """The choke point; then the drawings, if there are any."""
    book.title("Obstacle avoidance")
    book.say("""Ten volunteers of the paper walked around obstacles, through a choke point, with at most three equal
        moves in a row. The data is not public: ten demonstrations are drawn at random among the valid paths of a map of
        ours, by demonstrators who like room to the obstacles and the right-hand side.""")
    four_moves(book)
    gap(book)
    choke_point(book)
    if book.data is not None:
        drawings(book)
    else:
        book.say("""Real paths can be given: `xmen reproduce human --data FOLDER` takes a folder of text files, one per
            path, with one point x,y of the unit square per line, drawn from (0.5, 0) to (0.5, 1) around a disc of
            radius 0.15 in the middle.""")


def four_moves(book: Notebook) -> None:
    """The map with moves back, where ways differ in length."""
    task = choke_task(book.seed, ("up", "right", "down", "left"), horizon=LONGEST)
    shortest = (xm.length() == shortest_length(task) + 1).named("as short as possible")
    rows, fitted = [], {name: task.fit(name, Effort(l2=FOUR_MOVES_L2), book.seed) for name in ("exact", "maxent")}
    for name, model in fitted.items():
        d = model.distribution()
        kept = d.probability(task.rules), d.probability(shortest)
        rows.append((LOOKS[name].label, *kept, float(d.state_visits().sum()) - 1.0))
    both = fitted["exact"].sample(N_DRAWN, also=shortest, seed=book.seed)
    n_moves = float(np.mean([len(tau) for tau in both]))
    rows.append((f"{LOOKS['exact'].label}; shortest as a rule", task.share_kept(both), 1.0, n_moves))
    columns = {"method": "", "P(valid)": ".1%", "P(shortest)": ".1%", "mean length": ".2f"}
    note = f"""The same demonstrations when down and left are possible too, in at most {LONGEST} moves, l2 =
        {FOUR_MOVES_L2:g}. That ways are short is learned; as one more rule, `sample(also=...)`, it is certain."""
    book.table("choke point with four moves", columns, rows, note)


def shortest_length(task: HumanTask) -> int:
    """The number of moves of a shortest valid way: the most likely one where every move costs a lot."""
    cost = np.full((task.world.n_states, task.world.n_actions), -1.0)
    return len(xm.distribution(task.world, task.rules, cost).mode())


def gap(book: Notebook) -> None:
    """Who goes up before a gap that takes three equal moves, with the run rule and without it? The map is ours: the
    paper's, on which its appendix observes this, has no coordinates in its text."""
    task = choke_task(book.seed, obstacles=GAP_OBSTACLES, choke=GAP)
    up_first = xm.visit(task.world.at(BEFORE_GAP) & task.world.doing("up"))
    with book.stage("gap"):
        fitted = {name: task.fit(name, Effort(l2=GAP_L2), book.seed) for name in ("exact", "maxent")}
    found = {LOOKS[name].label: model.distribution() for name, model in fitted.items()}
    without = xm.distribution(task.world, task.parts[:-1], fitted["exact"].reward_)
    found["X-MEN's reward without the run rule"] = without
    rows = [(label, d.probability(task.rules), d.probability(up_first)) for label, d in found.items()]
    drawn = {name: model.sample(N_SHOWN, seed=book.seed) for name, model in fitted.items()}
    caption = f"""The gap takes three moves to the right, as many as the rule on repetition allows: X-MEN always goes up
        first, from {BEFORE_GAP} to the gap's height, and up again behind it."""
    book.figure(draw_trajectories(task, {"demonstrations": task.demos, **drawn}, n_columns=3), "human_gap", caption)
    note = f"Exact; l2 = {GAP_L2:g} for all. P(up first): of moving up from {BEFORE_GAP} before the gap."
    book.table("up first, before the gap", {"method": "", "P(valid)": ".1%", "P(up first)": ".1%"}, rows, note)


def choke_point(book: Notebook) -> None:
    """Ten demonstrations, seven methods: who keeps the rules?"""
    task = choke_task(book.seed)
    shortest, rules = shortest_length(task), [str(part.name) for part in task.parts]
    book.set(rules=rules, features=task.feature_names, shortest_valid_length=shortest)
    valid, every = (methods.n_trajectories(task.world, rule) for rule in (task.rules, None))
    book.say(f"""Of the {every:,.0f} ways from corner to corner by the moves up and right, all of {shortest} moves,
        {valid:,.0f} keep all rules: {"; ".join(rules)}. All methods that learn a reward see the same features:
        {task.feature_names}. Only X-MEN knows the rules. How strongly weights are held back is chosen for every such
        method by leave-one-out likelihood.""")
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for seed in range(book.seed, book.seed + book.pick(*N_SEEDS)):
        again, first = choke_task(seed), seed == book.seed
        held_out = held_out_scores(book, again, "choke point")
        chosen = {name: held_out.get(name, held_out["exact"]).best for name in NAMES}  # the exact one's if it has none
        if first:
            equal_time(book, task, chosen)
        fitted = {name: methods.fit_noted(book, name, again, chosen[name], seed) for name in NAMES}
        drawn = {name: methods.generate(name, model, N_DRAWN, seed) for name, model in fitted.items()}
        if first:
            panels = {"demonstrations": task.demos, **{name: drawn[name][:N_SHOWN] for name in ("exact", "maxent")}}
            caption = """The ten demonstrations, and the first ten trajectories that X-MEN and MaxEnt generate, moved
                apart a little."""
            book.figure(draw_trajectories(task, panels, n_columns=3), "human_trajectories", caption)
            caption = """How often each cell is passed, by the demonstrations and by each method, and in per cent on
                obstacles; all expectations are exact."""
            book.figure(draw_marginals(task, fitted, "all valid", n_columns=5), "human_marginals", caption)
        source = xm.distribution(task.world, task.rules, task.features @ task.truth)
        likelihood = float(np.mean([source.log_prob(tau) for tau in again.demos]))
        kept = all(len(tau) == shortest for tau in again.demos)
        rows.setdefault("demonstrations", []).append(("", 1.0, 1.0, likelihood, None, float(kept)))
        for name, model in fitted.items():
            score = held_out[name].log_likelihood.mean() if name in held_out else None
            length = float(np.mean([len(tau) == shortest for tau in drawn[name]]))
            told = summary(again, name, chosen[name], model, drawn[name])[1:]
            rows.setdefault(name, []).append((*told, score, length))
    table = []
    for name, some in rows.items():
        settings, *numbers = zip(*some, strict=True)
        means = ["" if None in column else mean_and_error(column) for column in numbers]
        table.append((LOOKS[name].label, *means, " / ".join(dict.fromkeys(settings))))
    note = f"""Means and standard errors over {book.pick(*N_SEEDS)} seeds, each with ten demonstrations of its own.
        Valid: of {N_DRAWN:,d} generated. Log-likelihoods are means over the demonstrations, in nats; held out: each
        under a model that learned from the other nine. Settings are those chosen, seed by seed; X-MEN by cells and by
        the paper's algorithm take the exact method's. "MLCI on MaxEnt" starts from the reward that MaxEnt learned, MLCI
        from 0. The first row has the demonstrations, and their likelihood under the reward they were drawn with."""
    columns = {**COLUMNS, "shortest": ".1%"}
    columns["setting"] = columns.pop("setting")  # last, as its texts are long
    book.table("choke point: all methods", columns, table, note)


def equal_time(book: Notebook, task: HumanTask, chosen: Mapping[str, Effort]) -> None:
    """Every method for the same time, as in the paper, with 16 samples per iteration of its algorithm."""
    budget, rows = book.pick(*BUDGET), []
    with book.stage(f"choke point: {budget:g} s for every method") as done:
        for i, name in enumerate(NAMES):
            long = replace(chosen[name], paper_iter=LONG, solver_iter=LONG)
            model, seconds = methods.fit_within(budget, name, task, long, book.seed)
            scores = model.distribution().probability(task.rules), model.score(task.demos)
            rows.append((LOOKS[name].label, seconds, "yes" if seconds < budget else "no", *scores))
            done((i + 1) / len(NAMES))
    columns = {"method": "", "seconds": ".1f", "done before": "", "P(valid)": ".1%", "log-lik.": ".2f"}
    note = f"""Every method had {budget:g} seconds (4 hours in the paper, on 24 cores), and ends with the iteration in
        which they run out. Done before: it had converged earlier."""
    book.table("choke point: equal time", columns, rows, note, timed=True)


def drawings(book: Notebook) -> None:
    """The experiment on people's paths around a round obstacle, held out one at a time."""
    assert book.data is not None
    with book.stage("drawings: read and discretise"):
        task = drawn_task(book.data)
    n, rules, moves = len(task.demos), [str(part.name) for part in task.parts], task.world.moves
    longest = max(len(list(run)) for tau in task.demos for _, run in groupby(tau.actions))
    valid, every = (np.log10(methods.n_trajectories(task.world, rule)) for rule in (task.rules, None))
    book.set(drawn_rules=rules, drawn_features=task.feature_names, drawn_paths=n)
    book.say(f"""The drawings: {n} paths around a disc. Their points are joined by straight lines, from (0.5, 0) to
        (0.5, 1), and cut along a grid; a cell with less than half a cell's width of path in it gives way to a diagonal
        move. The moves are {", ".join(moves)}. Features, for all methods: {task.feature_names}; of four sets these did
        best on the held-out drawings. All {n} drawings keep the rules: {"; ".join(rules)}, and about 10^{valid:.1f} of
        10^{every:.1f} possible ways do. (Their longest run of equal moves is {longest}.)""")
    held_out = held_out_scores(book, task, "drawings")
    fitted = {name: methods.fit_noted(book, name, task, held_out[name].best, book.seed) for name in HELD_OUT}
    drawn = {name: model.sample(N_DRAWN, seed=book.seed) for name, model in fitted.items()}
    caption = "Ten trajectories from each method, learned from all drawings; dashed ones break a rule."
    shown = {name: taus[:N_SHOWN] for name, taus in drawn.items()}
    book.figure(draw_trajectories(task, shown, n_columns=4), "human_generated", caption)
    caption = "How often each cell is passed, by the drawings and by each method; all expectations are exact."
    marginals = draw_marginals(task, fitted, f"{n} drawings", n_columns=5, most=0.5)
    book.figure(marginals, "human_drawn_marginals", caption)
    rows, best = list[tuple[Any, ...]](), held_out["exact"]
    for name, model in fitted.items():
        scores = held_out[name]
        means = mean_and_error(scores.log_likelihood)[0], mean_and_error(scores.nested)[0]
        less = mean_and_error(scores.log_likelihood - best.log_likelihood)
        less += mean_and_error(scores.given_rules - best.given_rules)
        against = ("",) * 4 if name == "exact" else less
        rows.append((*summary(task, name, scores.best, model, drawn[name]), *means, *against))
    columns = {**COLUMNS, "nested": ".2f", "less X-MEN": "+.2f", "se": ".2f", "given the rules": "+.2f", "se ": ".2f"}
    note = f"""Valid: of {N_DRAWN:,d} generated. Means over the drawings in nats; held out: each under a model that
        learned from all others, in the setting that does best on all; nested: in the one that does best on the others.
        Differences from X-MEN are paired drawing by drawing; "given the rules": after renormalising to valid ways.
        Standard errors take the folds as independent."""
    book.table("drawings: all methods", columns, rows, note)


class HeldOut:
    """The best of E settings on n held-out demonstrations, by their scores and log P(valid) in nats, both (E, n).

    Of each demonstration (n,): `log_likelihood` under the best setting; `given_rules`, that given that the model keeps
    the rules, so that no mass is lost on what cannot be; `nested`, under the setting that does best on the others.
    """

    def __init__(self, efforts: Sequence[Effort], scores: Floats, log_valid: Floats) -> None:
        self.scores, self.log_valid, row = scores, log_valid, best_row(scores)
        self.best, self.log_likelihood, self.given_rules = efforts[row], scores[row], scores[row] - log_valid[row]
        left_out = (np.delete(scores, i, axis=1) for i in range(scores.shape[1]))
        self.nested = np.array([scores[best_row(others), i] for i, others in enumerate(left_out)])


def best_row(scores: Floats) -> int:
    """The row with the fewest impossible demonstrations, and among those the largest mean."""
    possible = np.isfinite(scores)
    means = np.where(possible, scores, 0.0).sum(axis=1) / np.maximum(1, possible.sum(axis=1))
    return max(range(len(scores)), key=lambda row: (possible[row].sum(), means[row]))


def held_out_scores(book: Notebook, task: HumanTask, label: str) -> dict[str, HeldOut]:
    """Leave one out for every method over its settings."""
    found: dict[str, HeldOut] = {}
    for name in HELD_OUT:
        maxent_l2 = found["maxent"].best.l2 if "maxent" in found else 0.0
        with book.stage(f"{label}: leave one out, {LOOKS[name].label}") as done:
            found[name] = leave_one_out(name, task, settings_of(name, book, maxent_l2), book.seed, done)
    return found


def settings_of(name: str, book: Notebook, maxent_l2: float) -> list[Effort]:
    """What a method chooses from. Constraint inference starts from MaxEnt's reward, at the l2 chosen for that."""
    base = Effort(tol=FIT_TOL, paper_samples=16)  # as many samples as in the paper
    base = replace(base, rollouts=book.pick(2_000, 16_000), paper_iter=book.pick(40, 150), solver_iter=book.pick(1, 20))
    if name == "relative-entropy":
        return [replace(base, epsilon=value) for value in book.pick((0.03, 0.1), (0.01, 0.03, 0.1, 0.3))]
    if name == "constraint-inference-maxent":
        thresholds = book.pick((0.1,), (0.01, 0.03, 0.1, 0.3, 1.0))
        return [replace(base, l2=maxent_l2, kl_threshold=value) for value in thresholds]
    return [replace(base, l2=value) for value in book.pick((0.03, 0.1, 0.3), (0.01, 0.03, 0.1, 0.3, 1.0, 3.0))]


def leave_one_out(name: str, task: HumanTask, efforts: Sequence[Effort], seed: int, done: Done) -> HeldOut:
    """Fit with every setting to all demonstrations but one, for each of them."""
    n = len(task.demos)
    scores, log_valid = np.zeros((2, len(efforts), n))
    for e, effort in enumerate(efforts):
        for i, demo in enumerate(task.demos):
            model = task.fit(name, effort, seed, task.demos[:i] + task.demos[i + 1 :])
            scores[e, i] = model.score([demo])
            log_valid[e, i] = np.log(max(model.distribution().probability(task.rules), 1e-300))
            done((e * n + i + 1) / (len(efforts) * n))
    return HeldOut(efforts, scores, log_valid)


def summary(task: HumanTask, name: str, effort: Effort, model: Any, drawn: Sequence[Any]) -> tuple[Any, ...]:
    """The first columns of a table: the method, its setting, the share of valid draws, P(valid), the likelihood."""
    l2 = f"l2 {effort.l2:g}"
    settings = {"constraint-inference": "KL > 0.1", "relative-entropy": f"eps {effort.epsilon or 0.0:g}"}
    settings["constraint-inference-maxent"] = f"{l2}, KL > {effort.kl_threshold:g}"
    exact = model.distribution().probability(task.rules), model.score(task.demos)
    return (LOOKS[name].label, settings.get(name, l2), task.share_kept(drawn), *exact)


def draw_trajectories(task: HumanTask, shown: Mapping[str, Sequence[xm.Trajectory]], n_columns: int) -> Figure:
    """A panel per method with its trajectories."""
    kept = {name: [task.rules.accepts(tau) for tau in taus] for name, taus in shown.items()}
    panels = {name: (f"{sum(kept[name])} of {len(taus)} valid", taus, kept[name]) for name, taus in shown.items()}
    return methods.draw_panels(task.world, panels, task.marks, n_columns)


def draw_marginals(task: HumanTask, fitted: Mapping[str, Any], note: str, n_columns: int, most: float = 1.0) -> Figure:
    """A panel for the demonstrations and per method: expected visits of each cell, in numbers on obstacles."""
    seen = np.bincount([s for tau in task.demos for s in tau.states], minlength=task.world.n_states) / len(task.demos)
    panels = {"demonstrations": (note, seen)}
    for name, model in fitted.items():
        d = model.distribution()
        off = d.probability(task.parts[0])
        told = f"P(valid) {d.probability(task.rules):.0%}, on an obstacle {1.0 - off:.0%}"
        panels[name] = told, d.state_visits()
    return methods.draw_panels(task.world, panels, task.marks, n_columns, most, told=task.obstacles)
