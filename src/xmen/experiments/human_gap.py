"""A gap that takes three equal moves: under the run rule one has to go up first.

The paper's appendix observes this on its own map, whose coordinates are not in its text; this map is ours.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from xmen.constraints.occurrence import visit
from xmen.engines.choose import distribution
from xmen.experiments.human_figures import draw_trajectories
from xmen.experiments.human_tasks import BEFORE_GAP, GAP, GAP_OBSTACLES, choke_task, n_kept
from xmen.experiments.methods import Effort, fit_all
from xmen.experiments.notebook import Notebook
from xmen.registry import LOOKS

L2 = 0.1
N_SHOWN = 10
NAMES = ("exact", "maxent")


def gap(book: Notebook) -> None:
    """Who goes up before the gap, with the run rule and without it?"""
    task = choke_task(book.seed, obstacles=GAP_OBSTACLES, choke=GAP)
    up_first = visit(task.grid.at(BEFORE_GAP) & task.grid.doing("up"))
    with book.stage("gap"):
        fitted = fit_all(
            task.grid, task.rules, task.features, task.demos, seed=book.seed, effort=Effort(l2=L2), names=NAMES
        )
    found = {LOOKS[name].label: model.distribution() for name, model in fitted.items()}
    without_runs = reduce(and_, task.parts[:-1])
    found["X-MEN's reward without the run rule"] = distribution(task.grid, without_runs, fitted["exact"].reward_)
    rows = [(label, *(d.probability(rule) for rule in (task.rules, up_first))) for label, d in found.items()]
    drawn = {"demonstrations": task.demos} | {
        name: model.sample(N_SHOWN, seed=book.seed) for name, model in fitted.items()
    }
    notes = {name: f"{n_kept(task, shown)} of {len(shown)} valid" for name, shown in drawn.items()}
    book.figure(
        draw_trajectories(task, drawn, notes, n_columns=3),
        "human_gap",
        f"""The gap takes three moves to the right, as many as the rule on repetition allows. Whoever comes to it by a
        move to the right breaks that rule inside; so X-MEN always goes up first, from {BEFORE_GAP} to the gap's
        height, and up again behind it.""",
    )
    book.table(
        "up first, before the gap",
        {"method": "", "P(valid)": ".1%", "P(up first)": ".1%"},
        rows,
        note=f"Exact probabilities; l2 = {L2:g} for all. P(up first): of moving up from {BEFORE_GAP} before the gap.",
    )
