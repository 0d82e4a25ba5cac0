"""X-MEN by three methods and the baselines: how they look in every figure, and how they are fitted.

All learn from the same demonstrations with the same features; only X-MEN knows the rules, and constraint inference
looks for cells and moves that must have been forbidden. Colours are Okabe and Ito's, which readers with any colour
vision can tell apart; lines and markers differ too.
"""

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

import xmen as xm
from xmen.experiments.notebook import Floats, Notebook

Cell = tuple[int, int]
Marks = Mapping[str, Any] | None  # of `xm.plot_world`


class Look(NamedTuple):
    label: str
    colour: str
    marker: str
    line: str = "-"

    @property
    def style(self) -> dict[str, Any]:
        """For a curve."""
        return {"color": self.colour, "marker": self.marker, "ls": self.line, "label": self.label}


LOOKS = {
    "demonstrations": Look("demonstrations", "#000000", "o"),
    "exact": Look("X-MEN exact", "#0072B2", "s"),
    "cells": Look("X-MEN cells", "#56B4E9", "D", "--"),
    "paper": Look("X-MEN paper", "#009E73", "^", "-."),
    "maxent": Look("MaxEnt", "#E69F00", "v"),
    "relative-entropy": Look("RE-IRL", "#D55E00", "X", "--"),  # relative entropy inverse reinforcement learning
    "constraint-inference": Look("MLCI", "#CC79A7", "P", "-."),  # maximum likelihood constraint inference
    "constraint-inference-maxent": Look("MLCI on MaxEnt", "#882255", "p", ":"),  # not as its authors use it
}
BROKEN: Any = {"color": "#000000", "ls": (0, (3, 1.5))}  # no learner has this colour
SPREAD = 0.26  # of a cell: lines of different trajectories are moved apart by at most this


def draw_world(ax: Axes, grid: xm.GridWorld, marks: Marks = None, outlined: bool = False) -> list[Any]:
    """The grid with its start, its goal and marked cells, outlined where colours show through; handles of a legend."""
    legend: Any = xm.plot_world(grid, marks, ax=ax).get_legend()
    legend.remove()
    for mark in (*ax.patches, *legend.legend_handles) if outlined else ():
        if isinstance(mark, Line2D):
            if mark in legend.legend_handles[:2]:  # start and goal, white on the dark cells that they are passed at
                mark.set(markeredgecolor="#081d58", markeredgewidth=3)
            else:
                mark.set_fillstyle("none")
        elif mark.get_fill() and (colour := mark.get_facecolor()[:3]) != (1.0, 1.0, 1.0):  # start and goal are white
            rim = "black" if isinstance(mark, PathPatch) else colour
            mark.set(facecolor="none", edgecolor=rim, alpha=None, zorder=3, linewidth=1.2)
    return list(legend.legend_handles)


def draw_panels(
    grid: xm.GridWorld, panels: Mapping[str, Any], marks: Marks, n_columns: int, most: float = 1.0
) -> Figure:
    """A panel per method by its key: (title, trajectories, which of them are valid), or (title, numbers by state).

    Trajectories are lines side by side, dashed and black where they break a rule; numbers are colours, on one scale
    that ends at `most`.
    """
    n_rows, heat = -(-len(panels) // n_columns), any(len(panel) == 2 for panel in panels.values())
    figure = plt.figure(figsize=(4.0 * n_columns, (3.4 if heat else 4.5) * n_rows + 0.9), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, (key, (title, shown, *kept)) in zip(axes.flat, panels.items(), strict=False):
        if not kept:
            xm.plot_visits(grid, shown, ax=ax)
            ax.images[0].set_clim(0.0, most)
        handles = draw_world(ax, grid, marks, outlined=not kept)
        offsets = np.linspace(-SPREAD, SPREAD, len(shown)) if len(shown) > 1 else np.zeros(1)
        for tau, shift, valid in zip(shown, offsets, kept[0], strict=True) if kept else ():
            x, y = np.array([grid.cell(state) for state in tau.states]).T + np.array([[shift], [-shift]])
            if not valid:  # a rim, to be seen on obstacles
                ax.plot(x, y, color="white", linewidth=3.2, alpha=0.8, zorder=4.4)
            style = {"color": LOOKS[key].colour, "zorder": 4} if valid else {**BROKEN, "zorder": 4.5}
            ax.plot(x, y, lw=1.5, alpha=0.75, solid_capstyle="round", **style)
        ax.set_title(f"{LOOKS[key].label}\n{title}", fontsize=11)
        ax.label_outer()
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    if not heat:
        handles += [Line2D([], [], color="#404040", lw=1.8, label="valid")]
        handles += [Line2D([], [], lw=1.8, label="breaks a rule", **BROKEN)]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    return figure


# ---- How they are fitted

ALL = ("exact", "cells", "paper", "maxent", "relative-entropy", "constraint-inference-maxent")
"""The methods, by their keys in `LOOKS`. "constraint-inference" is one more, as its authors use it (Scobee and Sastry,
ICLR 2020): the reward is known, and rules are added while each gains more than 0.1 nats. Here it is MaxEnt's."""

Task = Any  # has a `world`, `rules`, `features` (None: one weight per state) and `demos`
CELLS_ITER = 20
UNIFORM = 0.1  # the share of uniform choices in the policy that rollouts follow


@dataclass(frozen=True)
class Effort:
    """How hard the methods work, and how strongly weights are held back."""

    l2: float = 0.0  # the penalty l2/2 |theta|^2 of X-MEN, MaxEnt, and the reward that constraint inference starts from
    epsilon: float | None = None  # of relative entropy IRL, a penalty sum epsilon_i |theta_i|; None: Hoeffding's bound
    kl_threshold: float = 0.1  # nats: constraint inference forbids as long as that gains more
    cell_size: float | None = None
    cells_tol: float = 1e-7  # how near cells come, in nats; 1e-7: as they do by default
    paper_iter: int = 300
    paper_samples: int = 64
    rollouts: int = 20_000
    tol: float = 1e-7  # where exact gradients count as zero
    oracle: str = "auto"


def fit_one(name: str, task: Task, effort: Effort, seed: int, callback: Any = None, demos: Any = None) -> Any:
    """One method, fitted to these or to all demonstrations of a task; all answer by the exact engine afterwards."""
    common: dict[str, Any] = {"engine": "exact", "seed": seed, "callback": callback}
    penalised: Any = {"l2": effort.l2, "tol": effort.tol}
    world, rules, features, demos = task.world, task.rules, task.features, demos or task.demos
    model: Any
    match name:
        case "exact":
            model = xm.XMEN(world, rules, features, method="exact", **penalised, **common)
        case "cells" | "paper":
            hashing = {"engine": xm.EngineSettings("exact", oracle=effort.oracle), "l2": effort.l2}
            cells = {"method": xm.Cells(16, effort.cell_size), "max_iter": CELLS_ITER, "tol": effort.cells_tol}
            paper = {"method": xm.Paper(effort.paper_samples), "max_iter": effort.paper_iter}
            model = xm.XMEN(world, rules, features, **common | hashing | (cells if name == "cells" else paper))
        case "maxent":
            model = xm.MaxEntIRL(world, features, **penalised, **common)
        case "relative-entropy":
            common |= {"sampling_policy": sampling_policy(world, features, demos), "n_samples": effort.rollouts}
            tol = max(effort.tol, 1e-6)  # the dual is estimated from rollouts anyway
            model = xm.RelativeEntropyIRL(world, features, epsilon=effort.epsilon, tol=tol, **common)
        case "constraint-inference":
            model = xm.ConstraintInference(world, **common)
        case "constraint-inference-maxent":
            reward = xm.MaxEntIRL(world, features, **penalised).fit(demos).reward_
            model = xm.ConstraintInference(world, reward, kl_threshold=effort.kl_threshold, **common)
        case _:
            raise xm.XmenError(f"there is no method {name!r}: choose from {', '.join(ALL)}.")
    return model.fit(demos)


def fit_noted(book: Notebook, name: str, task: Task, effort: Effort) -> Any:
    """One fit as a stage of a book; what the learner warns of becomes a paragraph."""
    label = LOOKS[name].label
    most = {"cells": CELLS_ITER, "paper": effort.paper_iter}.get(name, 100)  # iterations, about
    with book.stage(f"fit {label}") as done, noticed() as notices:
        model = fit_one(name, task, effort, book.seed, lambda record: done(record.iteration / most))
    for notice in notices:
        book.say(f"{label} warned: {notice}")
    return model


def fit_within(seconds: float, name: str, task: Task, effort: Effort, seed: int) -> tuple[Any, float]:
    """One fit, stopped when its time is up, and the seconds it took; fewer where it was done before."""
    began = time.perf_counter()
    with noticed():
        model = fit_one(name, task, effort, seed, lambda record: record.seconds >= seconds)
    return model, time.perf_counter() - began


def sampling_policy(world: xm.MDP, features: Any, demos: Any) -> Any:
    """A policy that rollouts are worth following: MaxEnt's expected choices, and some uniform ones; (S, A)."""
    visits = xm.MaxEntIRL(world, features, l2=0.1, tol=1e-3, engine="exact").fit(demos).distribution().visits()
    uniform = world.available / np.maximum(1, world.available.sum(axis=1, keepdims=True))
    passed = visits.sum(axis=1, keepdims=True)
    policy: Floats = np.where(passed > 0, visits / np.where(passed > 0, passed, 1.0), uniform)
    return (1.0 - UNIFORM) * policy + UNIFORM * uniform


def n_trajectories(world: xm.MDP, rules: Any) -> float:
    """How many keep the rules: Z without a reward, where chance plays no part."""
    return float(np.exp(xm.distribution(world, rules, None).log_partition()))


def generate(name: str, model: Any, n: int, seed: int) -> list[xm.Trajectory]:
    """n trajectories of a fitted method; the paper's are picked from a pool of as many draws by PAWS.

    Where chance plays no part, as here, all importance weights are equal. The oracle is the fit's.
    """
    if name != "paper":
        return list(model.sample(n, seed=seed))
    asked: Any = {"engine": "xor", "oracle": model.oracle, "delta": 1.03, "failure": 0.05}  # of the paper's fit
    d: Any = xm.distribution(model.world, model.constraint, model.reward_, **asked)
    pool = d.sample_paws(n, seed=seed, thinned=True)[0]
    return [pool[i] for i in np.random.default_rng(seed).integers(n, size=n)]


@contextmanager
def noticed() -> Iterator[list[str]]:
    """What learners warn of, as sentences. Weights that no trajectory can tell apart are no news: they are silent."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("error", xm.InterruptedWarning)  # Ctrl-C ends the experiment
        yield sentences
    for one in caught:
        if not issubclass(one.category, xm.LearningWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif not issubclass(one.category, xm.IdentifiabilityWarning) and str(one.message) not in sentences:
            sentences.append(str(one.message))
