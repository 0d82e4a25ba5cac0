"""X-MEN by three methods and the baselines, fitted to the same demonstrations with the same features.

X-MEN knows the rules. MaxEnt and relative entropy IRL know the world and the features, constraint inference also
looks for cells and moves that the demonstrator must have been forbidden. All are asked the same questions afterwards.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.baselines.relative_entropy import RelativeEntropyIRL, read_policy
from xmen.constraints.constraint import Constraint
from xmen.errors import IdentifiabilityWarning, LearningWarning, XmenError
from xmen.experiments.notebook import Notebook
from xmen.learners.base import Learner, Rules
from xmen.learners.resampling import resample
from xmen.learners.xmen import XMEN
from xmen.methods.cells import Cells
from xmen.methods.paper import Paper
from xmen.progress import Callback
from xmen.registry import LOOKS
from xmen.rewards import Floats
from xmen.worlds import MDP, Trajectory

ALL = ("exact", "cells", "paper", "maxent", "relative-entropy", "constraint-inference-maxent")
"""The methods, by their keys in `xmen.registry.LOOKS`.

"constraint-inference" is one more, as its authors use it: the reward is known (here 0 but at the goal), and rules are
added while each gains more than 0.1 nats, their threshold and stopping rule (Scobee and Sastry, "Maximum likelihood
constraint inference for inverse reinforcement learning", ICLR 2020). Among ALL it starts from MaxEnt's reward.
"""

PROPOSAL_L2 = 0.1  # of the MaxEnt model whose policy the rollouts of relative entropy IRL follow
PROPOSAL_TOL = 1e-3
PROPOSAL_UNIFORM = 0.1  # the share of uniform choices in that policy
LEAST_DUAL_TOL = 1e-6  # of relative entropy IRL, whose dual is estimated from rollouts anyway


@dataclass(frozen=True)
class Effort:
    """How hard the methods work, and how strongly weights are held back.

    l2: the penalty l2/2 |theta|^2 of X-MEN and MaxEnt, and of the reward that constraint inference starts from.
    epsilon: the thresholds of relative entropy IRL, which hold its weights back as sum epsilon_i |theta_i|; None is
        Hoeffding's bound.
    kl_threshold: constraint inference forbids as long as that gains more nats.
    tol: where exact gradients count as zero; cells_tol: how near cells come, in nats (1e-7: as they do by default).
    paper_rate: the step size of the paper's method; None is the largest that its theorem allows.
    """

    l2: float = 0.0
    epsilon: float | None = None
    kl_threshold: float = 0.1
    cells_iter: int = 20
    n_cells: int = 16
    cell_size: float | None = None
    cells_tol: float = 1e-7
    paper_iter: int = 300
    paper_samples: int = 64
    paper_rate: float | None = None
    rollouts: int = 20_000
    tol: float = 1e-7
    oracle: str = "auto"

    def with_(self, **changes: float | str | None) -> Effort:
        """The same with some values changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def fit_all(
    world: MDP,
    rules: Rules,
    features: ArrayLike | None,
    demos: Sequence[Trajectory],
    *,
    seed: int,
    book: Notebook | None = None,
    effort: Effort | None = None,
    names: Iterable[str] = ALL,
) -> dict[str, Learner]:
    """Fitted learners by name. With a book, every fit is a stage of it, and what a learner warns of is a paragraph."""
    effort = effort or Effort()
    fitted: dict[str, Learner] = {}
    for name in names:
        if book is None:
            with noticed():
                fitted[name] = fit_one(name, world, rules, features, demos, seed=seed, effort=effort)
            continue
        label = LOOKS[name].label
        with book.stage(f"fit {label}") as stage, noticed() as notices:
            callback = stage.callback(_iterations(name, effort))
            fitted[name] = fit_one(name, world, rules, features, demos, seed=seed, effort=effort, callback=callback)
        for notice in notices:
            book.say(f"{label} warned: {notice}")
    return fitted


def fit_one(
    name: str,
    world: MDP,
    rules: Rules,
    features: ArrayLike | None,
    demos: Sequence[Trajectory],
    *,
    seed: int,
    effort: Effort,
    callback: Callback | None = None,
) -> Learner:
    """One method, as strong as its settings make it.

    All answer by the exact engine afterwards, whatever found the gradient. The rollouts of relative entropy IRL follow
    MaxEnt's policy. Constraint inference takes the reward that MaxEnt learns from the same features as the known one.
    """
    common: dict[str, Any] = {"engine": "exact", "seed": seed, "callback": callback}
    x_men = partial(XMEN, world, rules, features, l2=effort.l2, **common)
    cells = Cells(effort.n_cells, effort.cell_size)
    paper = Paper(effort.paper_samples, n_demonstrations=None, learning_rate=effort.paper_rate)
    makers: dict[str, Callable[[], Learner]] = {
        "exact": lambda: x_men(method="exact", tol=effort.tol),
        "cells": lambda: x_men(method=cells, tol=effort.cells_tol, max_iter=effort.cells_iter, oracle=effort.oracle),
        "paper": lambda: x_men(method=paper, max_iter=effort.paper_iter, oracle=effort.oracle),
        "maxent": lambda: MaxEntIRL(world, features, l2=effort.l2, tol=effort.tol, **common),
        "relative-entropy": lambda: RelativeEntropyIRL(
            world,
            features,
            sampling_policy=sampling_policy(world, features, demos),
            n_samples=effort.rollouts,
            epsilon=effort.epsilon,
            tol=max(effort.tol, LEAST_DUAL_TOL),
            **common,
        ),
        "constraint-inference": lambda: ConstraintInference(world, **common),
        "constraint-inference-maxent": lambda: ConstraintInference(
            world,
            MaxEntIRL(world, features, l2=effort.l2, tol=effort.tol).fit(demos).reward_,
            kl_threshold=effort.kl_threshold,
            **common,
        ),
    }
    if name not in makers:
        raise XmenError(f"there is no method {name!r}: choose from {', '.join(ALL)}.")
    return makers[name]().fit(demos)


def fit_within(seconds: float, fit: Callable[..., Learner]) -> tuple[Learner, float]:
    """A `fit_one` that is stopped when its time is up, and the seconds it took; fewer, where it was done before."""
    began = time.perf_counter()
    with noticed():
        model = fit(callback=lambda record: record.seconds >= seconds)
    return model, time.perf_counter() - began


def sampling_policy(world: MDP, features: ArrayLike | None, demos: Iterable[Trajectory]) -> Floats:
    """A policy that rollouts are worth following: MaxEnt's expected choices, and some uniform ones; (S, A).

    Against rollouts of smoothed demonstrations, their effective number is several times as large.
    """
    maxent = MaxEntIRL(world, features, l2=PROPOSAL_L2, tol=PROPOSAL_TOL, engine="exact").fit(demos)
    visits = maxent.distribution().visits()
    uniform = read_policy(None, world, "uniform")
    passed = visits.sum(axis=1, keepdims=True)
    policy: Floats = np.where(passed > 0, visits / np.where(passed > 0, passed, 1.0), uniform)
    return (1.0 - PROPOSAL_UNIFORM) * policy + PROPOSAL_UNIFORM * uniform


def generate(name: str, model: Learner, n: int, seed: int) -> list[Trajectory]:
    """n trajectories of a fitted method, the paper's as the paper draws them: from a pool, by importance weights.

    The pool has n draws from Q (the paper does not give its size), by the oracle that the fit had.
    """
    if name == "paper":
        return resample(model, n, pool_size=n, seed=seed).trajectories
    return model.sample(n, seed=seed)


def valid_probability(model: Learner, rules: Constraint | Iterable[Constraint]) -> float:
    """The probability that a trajectory of the model keeps the rules, exact."""
    return float(model.distribution().probability(rules))


@contextmanager
def noticed() -> Iterator[list[str]]:
    """What learners warn of, as sentences. Weights that no trajectory can tell apart are no news: they are silent."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield sentences
    for one in caught:
        if issubclass(one.category, IdentifiabilityWarning):
            continue
        if not issubclass(one.category, LearningWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif str(one.message) not in sentences:
            sentences.append(str(one.message))


def _iterations(name: str, effort: Effort) -> int:
    """How many iterations a method will make, about: the share that is done is told from it."""
    return {"cells": effort.cells_iter, "paper": effort.paper_iter}.get(name, 100)
