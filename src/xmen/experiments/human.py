"""Obstacle avoidance: ten made-up demonstrations through a choke point, and with `--data` people's drawn paths.

The volunteers' data of the paper is not public. The first task has the paper's ingredients on a map of ours; the
second runs the same pipeline on real drawings that anyone can put into a folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from xmen.constraints.arithmetic import length
from xmen.engines.choose import distribution
from xmen.experiments.human_drawn import drawings
from xmen.experiments.human_figures import draw_marginals, draw_trajectories
from xmen.experiments.human_gap import gap
from xmen.experiments.human_heldout import (
    HeldOut,
    fit_best,
    held_out_scores,
    mean_and_error,
    setting_of,
    settings_table,
    words,
)
from xmen.experiments.human_tasks import HumanTask, choke_task, n_kept
from xmen.experiments.methods import ALL, Effort, fit_all, fit_one, fit_within, generate, valid_probability
from xmen.experiments.notebook import Notebook
from xmen.registry import LOOKS
from xmen.worlds import Trajectory, Walks

N_DRAWN = 1000  # trajectories of each method that are checked
N_SHOWN = 10
NAMES = (*ALL, "constraint-inference")  # the last as its authors use it
LONGEST = 24  # the horizon where moves back are possible; the shortest way has 18 moves
FOUR_MOVES_L2 = 0.03
LONG = 100_000  # iterations: time runs out first
BUDGET = 2.0, 60.0  # seconds of training that every method gets where time is equal: quick, full


def run(book: Notebook) -> None:
    """The choke point; then the drawings, if there are any."""
    book.title("Obstacle avoidance")
    book.say(
        """Ten volunteers of the paper walked around obstacles on the floor, through a choke point, with at most three
        equal moves in a row; their ways were mapped to cells of one foot. The data is not public. Here
        ten demonstrations are drawn at random among the valid paths of a map of ours, by demonstrators who like room to
        the obstacles and the right-hand side; with only up and right, every complete path is a shortest one."""
    )
    four_moves(book)
    gap(book)
    choke_point(book)
    if book.data is None:
        book.say(
            """Real paths can be given: `xmen reproduce human --data FOLDER` takes a folder of text files, one per path,
            with one point x,y of the unit square per line, drawn from (0.5, 0) to (0.5, 1) around a disc of radius 0.15
            in the middle. The 19 hand-drawn paths in the code of "Bayesian inverse constrained reinforcement learning"
            (2023) have this form."""
        )
    else:
        drawings(book)


def choke_point(book: Notebook) -> None:
    """Ten demonstrations, seven methods: who keeps the rules?"""
    task = choke_task(book.seed)
    count, every = (np.exp(distribution(task.grid, rule, None).log_partition()) for rule in (task.rules, None))
    shortest = shortest_length(task)
    book.set(rules=task.rule_names, features=task.feature_names, shortest_valid_length=shortest)
    book.say(
        f"Of the {every:,.0f} ways from corner to corner by the moves up and right, {count:,.0f} keep all rules: "
        f"{'; '.join(task.rule_names)}. By these two moves every complete way is a shortest one, of {shortest} moves; "
        "the table counts lengths nevertheless, and another one lets ways differ in length. All methods that learn a "
        f"reward see the same features: {task.feature_names}. Only X-MEN knows the rules. How strongly weights are "
        "held back is chosen for every such method by leave-one-out likelihood."
    )
    held_out = held_out_scores(book, task, "choke point")
    equal_time(book, task, held_out)
    fitted = fit_best(book, task, held_out, NAMES)
    drawn = {name: generate(name, model, N_DRAWN, book.seed) for name, model in fitted.items()}
    valid = {name: valid_probability(model, task.rules) for name, model in fitted.items()}

    panels = {"demonstrations": task.demos, **{name: drawn[name][:N_SHOWN] for name in ("exact", "maxent")}}
    book.figure(
        draw_trajectories(task, panels, {name: _in_words(task, paths) for name, paths in panels.items()}, n_columns=3),
        "human_trajectories",
        """The ten demonstrations, and the first ten trajectories that X-MEN and MaxEnt IRL generate. Lines are moved
        apart a little. X-MEN's are all valid and all shortest.""",
    )
    visits = {name: model.distribution().state_visits() for name, model in fitted.items()}
    notes = {"demonstrations": "all valid", **{name: f"P(valid) = {p:.1%}" for name, p in valid.items()}}
    demonstrated = Walks.of(task.grid, task.demos).mean_state_visits()
    book.figure(
        draw_marginals(task, {"demonstrations": demonstrated, **visits}, notes, n_columns=4),
        "human_marginals",
        "How often each cell is passed, by the demonstrations and by each method; all expectations are exact.",
    )
    settings_table(book, held_out, "choke point: choice of the setting")
    rows: list[tuple[Any, ...]] = [
        ("their source", "", 1.0, 1.0, _source(task), "", "", *_lengths(task.demos, shortest))
    ]
    for name, model in fitted.items():
        mean, error = mean_and_error(held_out[name].log_likelihood) if name in held_out else ("", "")
        rows.append(
            (
                LOOKS[name].label,
                words(name, setting_of(name, held_out)),
                n_kept(task, drawn[name]) / N_DRAWN,
                valid[name],
                model.score(task.demos),
                mean,
                error,
                *_lengths(drawn[name], shortest),
            )
        )
    book.table(
        "choke point: all methods",
        {
            "method": "",
            "setting": "",
            "valid": ".1%",
            "P(valid)": ".1%",
            "log-lik.": ".2f",
            "held out": ".2f",
            "se": ".2f",
            "length": ".1f",
            "shortest": ".1%",
        },
        rows,
        note=f"""Valid: of {N_DRAWN:,d} generated. Log-likelihoods are means over the ten demonstrations, in nats; held
        out: each under a model that learned from the other nine. X-MEN by cells and by the paper's algorithm
        estimate the gradient of the exact method and take its setting; they stop after a number of steps, so
        they may be a little behind it. "MLCI on MaxEnt" starts from the reward that MaxEnt learned, MLCI, as its
        authors use it, from a known one: 0, as all ways are equally long. The first row has the demonstrations
        themselves, and their likelihood under the reward they were drawn with.""",
    )


def equal_time(book: Notebook, task: HumanTask, held_out: Mapping[str, HeldOut]) -> None:
    """Every method for the same time, as in the paper, with 16 samples per iteration of its algorithm."""
    budget = book.pick(*BUDGET)
    rows = []
    with book.stage(f"choke point: {budget:g} s for every method") as stage:
        for i, name in enumerate(NAMES):
            effort = setting_of(name, held_out).with_(paper_iter=LONG)
            fit = partial(
                fit_one, name, task.grid, task.rules, task.features, task.demos, seed=book.seed, effort=effort
            )
            model, seconds = fit_within(budget, fit)
            scores = valid_probability(model, task.rules), model.score(task.demos)
            rows.append((LOOKS[name].label, seconds, "yes" if seconds < budget else "no", *scores))
            stage.done((i + 1) / len(NAMES))
    book.table(
        "choke point: equal time",
        {"method": "", "seconds": ".1f", "done before": "", "P(valid)": ".1%", "log-lik.": ".2f"},
        rows,
        note=f"""Every method had {budget:g} seconds (4 hours in the paper, on 24 cores); the paper's algorithm takes 16
        samples per iteration, as there. Done before: it had converged when its time was not yet up. A fit ends with
        the iteration in which its time runs out.""",
        timed=True,
    )


def four_moves(book: Notebook) -> None:
    """The same map with moves back: here ways differ in length."""
    task = choke_task(book.seed, ("up", "right", "down", "left"), horizon=LONGEST)
    shortest = (length() == shortest_length(task) + 1).named("as short as possible")
    effort = Effort(l2=FOUR_MOVES_L2)
    fitted = fit_all(
        task.grid, task.rules, task.features, task.demos, seed=book.seed, effort=effort, names=("exact", "maxent")
    )
    rows = []
    for name, model in fitted.items():
        n_moves = float(model.distribution().state_visits().sum()) - 1.0
        kept, short = valid_probability(model, task.rules), valid_probability(model, shortest)
        rows.append((LOOKS[name].label, kept, short, n_moves))
    both = fitted["exact"].sample(N_DRAWN, also=shortest, seed=book.seed)
    n_moves = float(np.mean([len(tau) for tau in both]))
    rows.append((f"{LOOKS['exact'].label}; shortest as a rule", n_kept(task, both) / N_DRAWN, 1.0, n_moves))
    book.table(
        "choke point with four moves",
        {"method": "", "P(valid)": ".1%", "P(shortest)": ".1%", "mean length": ".2f"},
        rows,
        note=f"""The same map and demonstrations when down and left are possible too, in at most {LONGEST} moves
        (l2 = {FOUR_MOVES_L2:g}). That ways are short is now learned: likely, but not certain. As one more rule after
        learning, `sample(also=...)`, it is certain (last row, {N_DRAWN:,d} drawn).""",
    )


def shortest_length(task: HumanTask) -> int:
    """The number of moves of a shortest valid way: the most likely one where every move costs a lot."""
    cost = np.full((task.grid.n_states, task.grid.n_actions), -1.0)
    return len(distribution(task.grid, task.rules, cost).mode())


def _source(task: HumanTask) -> float:
    """The mean log-likelihood of the demonstrations under the reward they were drawn with."""
    assert task.truth is not None
    d = distribution(task.grid, task.rules, task.features @ task.truth)
    return float(np.mean([d.log_prob(tau) for tau in task.demos]))


def _in_words(task: HumanTask, trajectories: list[Trajectory]) -> str:
    return f"{n_kept(task, trajectories)} of {len(trajectories)} valid"


def _lengths(trajectories: list[Trajectory], shortest: int) -> tuple[float, float]:
    """The mean length, and the share of shortest ways."""
    n_moves = np.array([len(tau) for tau in trajectories])
    return float(n_moves.mean()), float(np.mean(n_moves == shortest))
