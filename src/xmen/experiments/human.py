"""Obstacle avoidance: ten made-up demonstrations through a choke point, and with `--data` people's drawn paths.

The volunteers' data of the paper is not public. The first task has the paper's ingredients on a map of ours; the
second runs the same pipeline on real drawings that anyone can put into a folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import xmen as xm
from xmen.experiments import human_tasks as tasks
from xmen.experiments.human_tasks import HumanTask, choke_task, drawn_task
from xmen.experiments.looks import LOOKS, draw_panels
from xmen.experiments.methods import ALL, Effort, fit_noted, fit_within, generate, n_trajectories
from xmen.experiments.notebook import Done, Floats, Notebook

N_DRAWN = 1000  # trajectories of each method that are checked
N_SHOWN = 10
NAMES = (*ALL, "constraint-inference")  # the last as its authors use it
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
    """The same map with moves back: here ways differ in length."""
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
    cost = np.full((task.grid.n_states, task.grid.n_actions), -1.0)
    return len(xm.distribution(task.grid, task.rules, cost).mode())


def gap(book: Notebook) -> None:
    """Who goes up before a gap that takes three equal moves, with the run rule and without it?

    The paper's appendix observes this on its own map, whose coordinates are not in its text; this map is ours.
    """
    task = choke_task(book.seed, obstacles=tasks.GAP_OBSTACLES, choke=tasks.GAP)
    up_first = xm.visit(task.grid.at(tasks.BEFORE_GAP) & task.grid.doing("up"))
    with book.stage("gap"):
        fitted = {name: task.fit(name, Effort(l2=GAP_L2), book.seed) for name in ("exact", "maxent")}
    found = {LOOKS[name].label: model.distribution() for name, model in fitted.items()}
    without = xm.distribution(task.grid, task.parts[:-1], fitted["exact"].reward_)
    found["X-MEN's reward without the run rule"] = without
    rows = [(label, d.probability(task.rules), d.probability(up_first)) for label, d in found.items()]
    drawn = {name: model.sample(N_SHOWN, seed=book.seed) for name, model in fitted.items()}
    caption = f"""The gap takes three moves to the right, as many as the rule on repetition allows: X-MEN always goes up
        first, from {tasks.BEFORE_GAP} to the gap's height, and up again behind it."""
    book.figure(draw_trajectories(task, {"demonstrations": task.demos, **drawn}, n_columns=3), "human_gap", caption)
    note = f"Exact; l2 = {GAP_L2:g} for all. P(up first): of moving up from {tasks.BEFORE_GAP} before the gap."
    book.table("up first, before the gap", {"method": "", "P(valid)": ".1%", "P(up first)": ".1%"}, rows, note)


def choke_point(book: Notebook) -> None:
    """Ten demonstrations, seven methods: who keeps the rules?"""
    task = choke_task(book.seed)
    shortest, rules = shortest_length(task), [str(part.name) for part in task.parts]
    book.set(rules=rules, features=task.feature_names, shortest_valid_length=shortest)
    book.say(f"""Of the {n_trajectories(task.grid, None):,.0f} ways from corner to corner by the moves up and right, all
        of {shortest} moves, {n_trajectories(task.grid, task.rules):,.0f} keep all rules: {"; ".join(rules)}. All
        methods that learn a reward see the same features: {task.feature_names}. Only X-MEN knows the rules. How
        strongly weights are held back is chosen for every such method by leave-one-out likelihood.""")
    held_out = held_out_scores(book, task, "choke point")
    chosen = {name: held_out.get(name, held_out["exact"]).best for name in NAMES}  # the exact one's where it has none
    equal_time(book, task, chosen)
    fitted = {name: fit_noted(book, name, task.given, chosen[name]) for name in NAMES}
    drawn = {name: generate(name, model, N_DRAWN, book.seed) for name, model in fitted.items()}
    panels = {"demonstrations": task.demos, **{name: drawn[name][:N_SHOWN] for name in ("exact", "maxent")}}
    caption = """The ten demonstrations, and the first ten trajectories that X-MEN and MaxEnt generate, moved apart a
        little."""
    book.figure(draw_trajectories(task, panels, n_columns=3), "human_trajectories", caption)
    caption = "How often each cell is passed, by the demonstrations and by each method; all expectations are exact."
    book.figure(draw_marginals(task, fitted, "all valid", n_columns=4), "human_marginals", caption)

    def lengths(taus: Sequence[xm.Trajectory]) -> tuple[float, float]:
        n_moves = np.array([len(tau) for tau in taus])
        return float(n_moves.mean()), float(np.mean(n_moves == shortest))

    source = xm.distribution(task.grid, task.rules, task.features @ task.truth)
    likelihood = float(np.mean([source.log_prob(tau) for tau in task.demos]))
    rows: list[tuple[Any, ...]] = [("their source", "", 1.0, 1.0, likelihood, "", "", *lengths(task.demos))]
    for name, model in fitted.items():
        scores = mean_and_error(held_out[name].log_likelihood) if name in held_out else ("", "")
        rows.append((*summary(task, name, chosen[name], model, drawn[name]), *scores, *lengths(drawn[name])))
    note = f"""Valid: of {N_DRAWN:,d} generated. Log-likelihoods are means over the ten demonstrations, in nats; held
        out: each under a model that learned from the other nine. X-MEN by cells and by the paper's algorithm take the
        setting of the exact method. "MLCI on MaxEnt" starts from the reward that MaxEnt learned, MLCI from 0. The first
        row has the demonstrations, and their likelihood under the reward they were drawn with."""
    columns = {**COLUMNS, "se": ".2f", "length": ".1f", "shortest": ".1%"}
    book.table("choke point: all methods", columns, rows, note)


def equal_time(book: Notebook, task: HumanTask, chosen: Mapping[str, Effort]) -> None:
    """Every method for the same time, as in the paper, with 16 samples per iteration of its algorithm."""
    budget, rows = book.pick(*BUDGET), []
    with book.stage(f"choke point: {budget:g} s for every method") as done:
        for i, name in enumerate(NAMES):
            model, seconds = fit_within(budget, name, task.given, replace(chosen[name], paper_iter=LONG), book.seed)
            scores = model.distribution().probability(task.rules), model.score(task.demos)
            rows.append((LOOKS[name].label, seconds, "yes" if seconds < budget else "no", *scores))
            done((i + 1) / len(NAMES))
    columns = {"method": "", "seconds": ".1f", "done before": "", "P(valid)": ".1%", "log-lik.": ".2f"}
    note = f"""Every method had {budget:g} seconds (4 hours in the paper, on 24 cores), and ends with the iteration in
        which they run out. Done before: it had converged earlier."""
    book.table("choke point: equal time", columns, rows, note, timed=True)


def drawings(book: Notebook) -> None:
    """The same pipeline on people's paths around a round obstacle, held out one at a time."""
    assert book.data is not None
    with book.stage("drawings: read and discretise"):
        task = drawn_task(book.data)
    n, rules, moves = len(task.demos), [str(part.name) for part in task.parts], task.grid.moves
    longest = max(len(list(run)) for tau in task.demos for _, run in groupby(tau.actions))
    valid, every = (np.log10(n_trajectories(task.grid, rule)) for rule in (task.rules, None))
    book.set(drawn_rules=rules, drawn_features=task.feature_names, drawn_paths=n)
    book.say(f"""The drawings: {n} paths around a disc. Their points are joined by straight lines, from (0.5, 0) to
        (0.5, 1), and cut along a grid; a cell with less than half a cell's width of path in it gives way to a diagonal
        move. The moves are {", ".join(moves)}. Features, for all methods: {task.feature_names}; of four sets these did
        best on the held-out drawings. All {n} drawings keep the rules: {"; ".join(rules)}, and about 10^{valid:.1f} of
        10^{every:.1f} possible ways do. (Their longest run of equal moves is {longest}.)""")
    held_out = held_out_scores(book, task, "drawings")
    fitted = {name: fit_noted(book, name, task.given, held_out[name].best) for name in HELD_OUT}
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
    base = Effort(oracle="listed", tol=FIT_TOL, paper_samples=16)  # as many samples as in the paper
    base = replace(base, rollouts=book.pick(2_000, 16_000), paper_iter=book.pick(40, 300))
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


def mean_and_error(values: Floats) -> tuple[float | None, ...]:
    """The mean and its standard error; None where some value is infinite."""
    if not np.isfinite(values).all():
        return None, None
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def draw_trajectories(task: HumanTask, shown: Mapping[str, Sequence[xm.Trajectory]], n_columns: int) -> Figure:
    """A panel per method with its trajectories."""
    kept = {name: [task.rules.accepts(tau) for tau in taus] for name, taus in shown.items()}
    panels = {name: (f"{sum(kept[name])} of {len(taus)} valid", taus, kept[name]) for name, taus in shown.items()}
    return draw_panels(task.grid, panels, task.marks, n_columns)


def draw_marginals(task: HumanTask, fitted: Mapping[str, Any], note: str, n_columns: int, most: float = 1.0) -> Figure:
    """A panel for the demonstrations and per method: expected visits of each cell."""
    seen = np.bincount([s for tau in task.demos for s in tau.states], minlength=task.grid.n_states) / len(task.demos)
    panels = {"demonstrations": (note, seen)}
    for name, model in fitted.items():
        d = model.distribution()
        panels[name] = f"P(valid) = {d.probability(task.rules):.1%}", d.state_visits()
    return draw_panels(task.grid, panels, task.marks, n_columns, most)
