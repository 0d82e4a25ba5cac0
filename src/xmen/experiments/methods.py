"""X-MEN by three methods and the baselines, fitted to the same demonstrations with the same features.

Only X-MEN knows the rules; constraint inference looks for cells and moves that must have been forbidden.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import xmen as xm
from xmen.experiments.looks import LOOKS
from xmen.experiments.notebook import Floats, Notebook

ALL = ("exact", "cells", "paper", "maxent", "relative-entropy", "constraint-inference-maxent")
"""The methods, by their keys in `LOOKS`. "constraint-inference" is one more, as its authors use it (Scobee and Sastry,
ICLR 2020): the reward is known, and rules are added while each gains more than 0.1 nats. Here it is MaxEnt's."""

Task = tuple[xm.MDP, Any, Any, Any]  # the world, its rules, features (None: one weight per state), demonstrations
CELLS_ITER = 20
UNIFORM = 0.1  # the share of uniform choices in the policy that rollouts follow


@dataclass(frozen=True)
class Effort:
    """How hard the methods work, and how strongly weights are held back.

    l2: the penalty l2/2 |theta|^2 of X-MEN and MaxEnt, and of the reward that constraint inference starts from.
    epsilon: the thresholds of relative entropy IRL, which hold its weights back as sum epsilon_i |theta_i|; None is
        Hoeffding's bound.
    kl_threshold: constraint inference forbids as long as that gains more nats.
    tol: where exact gradients count as zero; cells_tol: how near cells come, in nats (1e-7: as they do by default).
    """

    l2: float = 0.0
    epsilon: float | None = None
    kl_threshold: float = 0.1
    cell_size: float | None = None
    cells_tol: float = 1e-7
    paper_iter: int = 300
    paper_samples: int = 64
    rollouts: int = 20_000
    tol: float = 1e-7
    oracle: str = "auto"


def fit_one(name: str, task: Task, effort: Effort, seed: int, callback: Any = None) -> Any:
    """One method, fitted; all answer by the exact engine afterwards, whatever found the gradient."""
    common: dict[str, Any] = {"engine": "exact", "seed": seed, "callback": callback}
    penalised: Any = {"l2": effort.l2, "tol": effort.tol}
    world, rules, features, demos = task
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
    """`fit_one` as a stage of a book; what the learner warns of is a paragraph."""
    label = LOOKS[name].label
    most = {"cells": CELLS_ITER, "paper": effort.paper_iter}.get(name, 100)  # iterations, about
    with book.stage(f"fit {label}") as done, noticed() as notices:
        model = fit_one(name, task, effort, book.seed, lambda record: done(record.iteration / most))
    for notice in notices:
        book.say(f"{label} warned: {notice}")
    return model


def fit_within(seconds: float, name: str, task: Task, effort: Effort, seed: int) -> tuple[Any, float]:
    """`fit_one` that is stopped when its time is up, and the seconds it took; fewer, where it was done before."""
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
