"""X-MEN by three methods and the baselines: how they look in every figure, and how they are fitted.

The name of every X-MEN says which oracle answered while it learned: none (dynamic programming), a list of all valid
trajectories in the place of a solver, or CryptoMiniSat. Colours are Okabe and Ito's, which readers with any colour
vision can tell apart; lines and markers differ too.
"""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.patheffects import withStroke

import xmen as xm
from xmen.experiments.notebook import Floats, Notebook

Cell = tuple[int, int]
Marks = Mapping[str, Any] | None  # of `xm.plot_world`
Panels = Mapping[str, Any]  # what is drawn, by the key of its method


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
    "exact": Look("X-MEN exact, no oracle", "#0072B2", "s"),
    "cells": Look("X-MEN cells, listed", "#56B4E9", "D", "--"),
    "cells-solver": Look("X-MEN cells, CryptoMiniSat", "#56B4E9", "d", ":"),
    "paper": Look("X-MEN paper, listed", "#009E73", "^", "-."),
    "paper-solver": Look("X-MEN paper, CryptoMiniSat", "#009E73", "<", ":"),
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
            mark.set_fillstyle("none" if mark not in legend.legend_handles[:2] else "full")  # start and goal are white
        elif mark.get_fill() and (colour := mark.get_facecolor()[:3]) != (1.0, 1.0, 1.0):  # start and goal are white
            rim = "black" if isinstance(mark, PathPatch) else colour
            seen = [withStroke(linewidth=2.6, foreground="white", alpha=0.7)]  # on dark cells too
            mark.set(facecolor="none", edgecolor=rim, alpha=None, zorder=3, linewidth=1.2, path_effects=seen)
    return list(legend.legend_handles)


def draw_panels(
    grid: xm.GridWorld, panels: Panels, marks: Marks, n_columns: int, most: float = 1.0, told: Iterable[Cell] = ()
) -> Figure:
    """A panel per method by its key: (title, trajectories, which of them are valid), or (title, numbers by state).

    Trajectories are lines side by side, dashed and black where they break a rule; numbers are colours, on one scale
    that ends at `most`. The cells in `told` have theirs written on them, in per cent.
    """
    n_rows, heat = -(-len(panels) // n_columns), any(len(panel) == 2 for panel in panels.values())
    width, height = (3.1, 3.45) if heat else (4.0, 4.5)
    figure = plt.figure(figsize=(width * n_columns + heat, height * n_rows + 0.7), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, (key, (title, shown, *kept)) in zip(axes.flat, panels.items(), strict=False):
        if not kept:
            (image,) = xm.plot_visits(grid, shown, ax=ax).images
            image.set_clim(0.0, most)
            ax.child_axes[0].remove()  # the colour bar: all panels share one
            for cell in told:
                ax.text(*cell, f"{100 * shown[grid.state(cell)]:.0f}", ha="center", va="center", fontsize=7, zorder=5)
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
    if heat:
        figure.colorbar(image, ax=axes, label="expected visits", shrink=0.7, extend="max" if most < 1.0 else "neither")
    else:
        handles += [Line2D([], [], color="#404040", lw=1.8, label="valid")]
        handles += [Line2D([], [], lw=1.8, label="breaks a rule", **BROKEN)]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False)
    return figure


# ---- How they are fitted

XMEN = ("exact", "cells", "cells-solver", "paper", "paper-solver")
ALL = (*XMEN, "maxent", "relative-entropy", "constraint-inference-maxent")
"""The methods, by their keys in `LOOKS`. "constraint-inference" is one more, as its authors use it (Scobee and Sastry,
ICLR 2020): the reward is known, and rules are added while each gains more than 0.1 nats. Here it is MaxEnt's."""

Task = Any  # has a `world`, `rules`, `features` (None: one weight per state) and `demos`
SOLVER = "cryptominisat"
CELLS_ITER = 20
# For the solver, of about this many solutions, as left to themselves cells would read all valid paths as one, there are
# so few; and as near as this, in nats.
SOLVED_CELL, SOLVED_TOL = 64.0, 0.01
UNIFORM = 0.1  # the share of uniform choices in the policy that rollouts follow


@dataclass(frozen=True)
class Effort:
    """How hard the methods work, and how strongly weights are held back."""

    l2: float = 0.0  # the penalty l2/2 |theta|^2 of X-MEN, MaxEnt, and the reward that constraint inference starts from
    epsilon: float | None = None  # of relative entropy IRL, a penalty sum epsilon_i |theta_i|; None: Hoeffding's bound
    kl_threshold: float = 0.1  # nats: constraint inference forbids as long as that gains more
    paper_iter: int = 300
    solver_iter: int = 200  # of the paper's algorithm, with a solver
    paper_samples: int = 64
    rollouts: int = 20_000
    tol: float = 1e-7  # where exact gradients count as zero


def fit_one(name: str, task: Task, effort: Effort, seed: int, callback: Any = None, demos: Any = None) -> Any:
    """One method, fitted to these or to all demonstrations of a task; all answer by the exact engine afterwards."""
    common: dict[str, Any] = {"engine": "exact", "seed": seed, "callback": callback}
    penalised: Any = {"l2": effort.l2, "tol": effort.tol}
    oracle = SOLVER if name.endswith("-solver") else "listed"
    hashing: dict[str, Any] = {"engine": xm.EngineSettings("exact", oracle=oracle), "l2": effort.l2}
    world, rules, features, demos = task.world, task.rules, task.features, demos or task.demos
    model: Any
    match name:
        case "exact":
            model = xm.XMEN(world, rules, features, method="exact", **penalised, **common)
        case "cells" | "cells-solver":
            solved = name == "cells-solver"
            cells = hashing | {"method": xm.Cells(16, SOLVED_CELL if solved else None), "max_iter": CELLS_ITER}
            model = xm.XMEN(world, rules, features, tol=SOLVED_TOL if solved else 1e-7, **common | cells)
        case "paper" | "paper-solver":
            max_iter = effort.paper_iter if name == "paper" else effort.solver_iter
            paper = hashing | {"method": xm.Paper(effort.paper_samples), "max_iter": max_iter}
            model = xm.XMEN(world, rules, features, **common | paper)
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


def fit_noted(book: Notebook, name: str, task: Task, effort: Effort, seed: int) -> Any:
    """One fit as a stage of a book; what the learner warns of with the book's own seed becomes a paragraph."""
    label = LOOKS[name].label
    most = {"paper": effort.paper_iter, "paper-solver": effort.solver_iter}.get(name, CELLS_ITER)  # about
    with book.stage(f"fit {label}") as done, noticed() as notices:
        model = fit_one(name, task, effort, seed, lambda record: done(record.iteration / most))
    for notice in notices if seed == book.seed else ():
        book.say(f"{label} warned: {notice}")
    return model


def fit_within(seconds: float, name: str, task: Task, effort: Effort, seed: int) -> tuple[Any, float]:
    """One fit, stopped when its time is up, and the seconds it took; fewer where it was done before."""
    with noticed():
        return timed(fit_one, name, task, effort, seed, lambda record: record.seconds >= seconds)


def timed(work: Any, *given: Any) -> tuple[Any, float]:
    """What work returns, and the seconds it took."""
    began = time.perf_counter()
    return work(*given), time.perf_counter() - began


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

    Where chance plays no part, as here, all importance weights are equal, whatever gives the reward: features, or a
    network. The oracle is the fit's; of a solver a tenth of n is asked for.
    """
    if not name.startswith("paper"):
        return list(model.sample(n, seed=seed))
    asked: Any = {"engine": "xor", "oracle": model.oracle, "delta": 1.03, "failure": 0.05}
    d: Any = xm.distribution(model.world, model.constraint, model.reward_, **asked)
    n = n if name == "paper" else n // 10
    pool = d.sample_paws(n, seed=seed, thinned=True).trajectories
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
