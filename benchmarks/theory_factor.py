"""Item 4 of docs/theory.md: a factor on E_P[f] is not a factor on the gradient. Run by theory.py."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from theory_plots import BLACK, BLUE, GREEN, ORANGE, RED, panels, save

from xmen.experiments.convergence import ListedProblem, straight
from xmen.sampling import PawsPlan
from xmen.sampling.embedding import Levels


def factors(images: Path) -> None:
    """Item 4: a factor on E_P[f] is not a factor on the gradient; the neighbourhood shrinks with delta - 1."""
    truth = straight()
    figure, (left, middle, right) = panels(3)
    # The first component along the ray to theta*, with what a factor delta on E_P[f] allows.
    delta, along = 1.18, np.linspace(0.0, 1.6, 161)
    means = np.array([truth.probabilities(t * truth.best) @ truth.rows for t in along])[:, 0]
    gradient = means - truth.demo_mean[0]
    left.fill_between(
        along,
        means / delta - truth.demo_mean[0],
        means * delta - truth.demo_mean[0],
        color=ORANGE,
        alpha=0.35,
        lw=0,
        label=r"$E_P[f]$ within $\delta$",
    )
    left.fill_between(
        along, gradient / delta, gradient * delta, color=BLUE, alpha=0.6, lw=0, label=r"gradient within $\delta$"
    )
    left.plot(along, gradient, color=BLACK, lw=1.2, label="gradient")
    left.axhline(0.0, color=BLACK, lw=0.5)
    left.set(xlabel=r"$\theta\,/\,\theta^*$", ylabel="gradient, first component", title=rf"$\delta={delta}$")
    left.legend(frameon=False)
    near = truth.probabilities(0.9 * truth.best) @ truth.rows
    true, allowed = near[0] - truth.demo_mean[0], (delta - 1.0) * near[0]
    print(
        f"  at 0.9 theta*, delta = {delta}: component {true:.4f}, allowed error {allowed:.4f}, "
        f"{allowed / abs(true):.1f} times it"
    )

    deltas = np.array([1.02, 1.05, 1.1, 1.18, 1.26, 1.35])
    p = truth.probabilities(truth.best)
    size = p @ np.abs(truth.rows)
    shifted = min(p @ np.abs(truth.rows[:, 0] - m) for m in truth.rows[:, 0])
    table = []
    for d in deltas:
        worst = [max(abs(worst_probabilities(p, s * f, d) @ f - p @ f) for s in (1, -1)) for f in truth.rows.T]
        paws = np.abs(embedded_probabilities(truth, truth.best, d) @ truth.rows - p @ truth.rows)
        directions = [np.array([np.cos(a), np.sin(a)]) for a in np.linspace(0, 2 * np.pi, 16, endpoint=False)]
        ends = [
            settle(truth, lambda th, u=u, d=d: worst_probabilities(truth.probabilities(th), truth.rows @ u, d), 1.0)
            for u in directions
        ]
        gaps, reach = [truth.gap(end) for end in ends], [np.linalg.norm(end - truth.best) for end in ends]
        # What a gradient off by (c - 1) E|f_k| per component costs while iterates stay within `reach` of the optimum.
        absolute = [float(np.linalg.norm(truth.probabilities(end) @ np.abs(truth.rows))) for end in ends]
        bounds = [(d - 1.0) * norm * r for norm, r in zip(absolute, reach, strict=True)]
        copies = truth.gap(settle(truth, lambda th, d=d: embedded_probabilities(truth, th, d), 1.0))
        table.append([(d - 1) * size[0], worst[0], paws[0], max(bounds), max(gaps), copies])
        print(
            f"  delta = {d}: first component off by at most {table[-1][0]:.4f}, {(d - 1) * shifted:.4f} about the "
            f"median; worst distribution within delta {worst[0]:.4f}; copies of PAWS {paws[0]:.5f}. Descent ends "
            f"within {max(bounds):.4f} nats of L*; worst {max(gaps):.5f}, copies {copies:.2e}"
        )
    columns = np.array(table).T
    kinds = [
        ("bound", BLACK, "-", ""),
        (r"worst $p'$ within $\delta$", RED, "--", "o"),
        ("copies of PAWS", GREEN, "-.", "^"),
    ]
    for ax, values in ((middle, columns[:3]), (right, columns[3:])):
        for (name, colour, line, marker), one in zip(kinds, values, strict=True):
            ax.plot(deltas - 1, one, color=colour, ls=line, marker=marker, ms=5, label=name)
        ax.set(xscale="log", yscale="log", xlabel=r"$\delta-1$")
        ax.set_xticks(deltas - 1, [f"{d - 1:.2f}" for d in deltas], fontsize=7)
        ax.minorticks_off()
    middle.set_ylabel("error of the first component")
    right.set_ylabel("L - L* where descent ends (nats)")
    middle.legend(frameon=False)
    save(figure, images / "theory_factor.png")


def worst_probabilities(p: np.ndarray, values: np.ndarray, delta: float) -> np.ndarray:
    """Among all p' with p / delta <= p' <= delta p, the one with the largest mean of the values."""
    order = np.argsort(-values)
    room = np.clip((1.0 - 1.0 / delta) - (delta - 1.0 / delta) * (np.cumsum(p[order]) - p[order]), 0.0, None)
    raised = np.empty_like(p)
    raised[order] = p[order] / delta + np.minimum(room, (delta - 1.0 / delta) * p[order])
    return raised


def embedded_probabilities(truth: ListedProblem, theta: np.ndarray, delta: float) -> np.ndarray:
    """Uniform draws among the copies of PAWS, as published, at this delta: weights rounded to powers of r."""
    scores = truth.rows @ theta
    levels = Levels.covering(float(scores.max()), float(scores.min()), bits_for(delta))
    copies = np.exp(-levels.log_ratio * levels.depth(scores))
    return np.asarray(copies / copies.sum())


@lru_cache
def bits_for(delta: float) -> int:
    """The bits per level, with the published constants, for weights that span 3 nats."""
    return PawsPlan.solve(delta, 0.01, log_span=3.0, n_hash=40, faithful=True).bits_per_level


def settle(truth: ListedProblem, distribution: Any, eta: float, n_iter: int = 300) -> np.ndarray:
    """Where gradient descent from theta* ends when E_P[f] is taken under another distribution: the mean iterate."""
    theta, ends = truth.best, []
    for _ in range(n_iter):
        theta = theta - eta * (distribution(theta) @ truth.rows - truth.demo_mean)
        ends.append(theta)
    return np.asarray(np.mean(ends[n_iter // 2 :], axis=0))
