"""The same pipeline on people's drawings: discretise, state the rules, learn, generate, and compare held out."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from xmen.engines.choose import distribution
from xmen.experiments.human_figures import draw_drawings, draw_held_out, draw_marginals, draw_trajectories
from xmen.experiments.human_heldout import (
    HELD_OUT,
    fit_best,
    held_out_scores,
    mean_and_error,
    setting_of,
    settings_table,
    words,
)
from xmen.experiments.human_tasks import HumanTask, drawn_task, n_kept
from xmen.experiments.methods import valid_probability
from xmen.experiments.notebook import Notebook
from xmen.registry import LOOKS
from xmen.worlds.walks import Walks

N_DRAWN = 1000  # trajectories of each method that are checked
N_SHOWN = 10


def drawings(book: Notebook) -> None:
    """People's paths around a round obstacle."""
    assert book.data is not None
    with book.stage("drawings: read and discretise"):
        task = drawn_task(book.data)
    _introduce(book, task)
    held_out = held_out_scores(book, task, "drawings")
    fitted = fit_best(book, task, held_out, HELD_OUT)
    drawn = {name: model.sample(N_DRAWN, seed=book.seed) for name, model in fitted.items()}
    valid = {name: valid_probability(model, task.rules) for name, model in fitted.items()}

    book.figure(
        draw_drawings(task),
        "human_drawings",
        "The paths as they were drawn, and on the grid; the circle is the obstacle.",
    )
    panels = {name: paths[:N_SHOWN] for name, paths in drawn.items()}
    notes = {name: f"{n_kept(task, paths)} of {len(paths)} valid" for name, paths in panels.items()}
    book.figure(
        draw_trajectories(task, panels, notes, n_columns=4),
        "human_generated",
        "Ten trajectories from each method, learned from all drawings; dashed ones break a rule.",
    )
    visits = {name: model.distribution().state_visits() for name, model in fitted.items()}
    notes = {name: f"P(valid) = {p:.1%}" for name, p in valid.items()}
    notes["demonstrations"] = f"{len(task.demos)} drawings"
    demonstrated = Walks.of(task.grid, task.demos).mean_state_visits()
    book.figure(
        draw_marginals(
            task,
            {"demonstrations": demonstrated, **visits},
            notes,
            n_columns=5,
            most=0.5,
        ),
        "human_drawn_marginals",
        "How often each cell is passed, by the drawings and by each method; all expectations are exact.",
    )
    book.figure(
        draw_held_out(held_out),
        "human_held_out",
        """How likely each drawing is to a model that learned from the others, less the same for X-MEN: a dot per path,
        with mean and standard error. Right: after renormalising every model to the ways that keep the rules.""",
    )
    settings_table(book, held_out, "drawings: choice of the setting")
    rows: list[tuple[Any, ...]] = []
    best = held_out["exact"]
    for name, model in fitted.items():
        scores = held_out[name]
        likelihood = scores.log_likelihood
        mean, error = mean_and_error(likelihood - best.log_likelihood)
        given, given_error = mean_and_error(scores.given_rules - best.given_rules)
        rows.append(
            (
                LOOKS[name].label,
                words(name, setting_of(name, held_out)),
                n_kept(task, drawn[name]) / N_DRAWN,
                valid[name],
                model.score(task.demos),
                mean_and_error(likelihood)[0],
                mean_and_error(scores.nested)[0],
                *(("",) * 4 if name == "exact" else (mean, error, given, given_error)),
            )
        )
    book.table(
        "drawings: all methods",
        {
            "method": "",
            "setting": "",
            "valid": ".1%",
            "P(valid)": ".1%",
            "log-lik.": ".2f",
            "held out": ".2f",
            "nested": ".2f",
            "less X-MEN": "+.2f",
            "se": ".2f",
            "given the rules": "+.2f",
            "se ": ".2f",
        },
        rows,
        note=f"""Valid: of {N_DRAWN:,d} generated. Means over the drawings in nats; held out: each under a model that
        learned from all others, in the setting that does best on all; nested: in the one that does best on
        the others, which is harsh where two settings are nearly as good, since the drawing's own vote is
        always the missing one. Differences from X-MEN are of the held-out values, paired drawing by drawing.
        A model that puts mass on ways which break the rules loses exactly -log P(valid) for it: "given the
        rules" is the difference after renormalising to the valid ways. Standard errors take the folds as
        independent.""",
    )


def _introduce(book: Notebook, task: HumanTask) -> None:
    """What was drawn, how it was put on the grid, and which rules it keeps."""
    grid, n = task.grid, len(task.demos)
    middle = grid.width // 2
    n_left = sum(bool(np.mean([grid.cell(state)[0] for state in tau.states]) < middle) for tau in task.demos)
    longest = max(len(list(run)) for tau in task.demos for _, run in groupby(tau.actions))
    valid, every = (distribution(grid, rule, None).log_partition() / np.log(10) for rule in (task.rules, None))
    book.set(drawn_rules=task.rule_names, drawn_features=task.feature_names, drawn_paths=n)
    book.say(
        f"""The drawings: {n} paths were drawn by hand around a disc, {n_left} of them to the left of it. Their points
        are joined by straight lines, from (0.5, 0) to (0.5, 1), and cut along a grid of {grid.width} x {grid.height}
        cells. A cell that is only clipped (less than half a cell's width of path in it) gives way to a diagonal move.
        The moves are {", ".join(grid.moves)}, at most {grid.horizon} of them. Features, for all methods:
        {task.feature_names}; of four sets these did best on the held-out drawings."""
    )
    book.say(
        f"""All {n} drawings keep the rules: {"; ".join(task.rule_names)}. The second one looks at the move before: it
        needs memory. About 10^{valid:.1f} of 10^{every:.1f} possible ways keep both. (At most three equal moves in a
        row, as in the first task, would not fit people: their longest run is {longest}.) X-MEN learns by the exact
        gradient here: what the hashing methods estimate is the same gradient, with noise."""
    )
