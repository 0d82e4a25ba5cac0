"""The job `learn`: fit the learner that the page chose, and MaxEnt beside it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers import Choice, make_learner, mean_reward, named_features, with_names
from xmen.constraints.constraint import Constraint
from xmen.engines.choose import distribution
from xmen.errors import EngineError, InfeasibleError, XmenError
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.methods.demonstrations import normalised_weights
from xmen.problem import Problem
from xmen.registry import LEARNERS
from xmen.rewards import LinearReward
from xmen.studio.document import Document
from xmen.studio.live import valid_ones
from xmen.studio.settings import StudioSettings
from xmen.worlds import Trajectory, Walks

Record = dict[str, Any]
Say = Callable[[Record], None]

SEED = 0  # of which demonstrations are held out, where the problem has none


def learn(
    problem: Problem, document: Document, settings: StudioSettings, compare: bool, say: Say
) -> tuple[Record, dict[str, Learner]]:
    """The result, and the models by name: "model" and, if asked for, "compare"."""
    demos, weights, left_out = valid_ones(problem, document)
    n_out, drawn_by = hold_out(len(demos), settings.held_out, problem.settings.seed)
    out = sorted(np.random.default_rng(drawn_by).permutation(len(demos))[:n_out].tolist())
    kept = np.setdiff1d(np.arange(len(demos)), out).tolist()
    learned, held = (([demos[i] for i in part], [weights[i] for i in part]) for part in (kept, out))
    asked = {"model": settings.choice(problem)}
    if compare and settings.learner != "maxent":
        asked["compare"] = settings.choice(problem, "maxent")
    models = {}
    result: Record = {"compare": None, "left_out": left_out}
    for name, choice in asked.items():
        models[name], result[name] = _fit(problem, choice, learned, held, say)
    return result, models


Part = tuple[list[Trajectory], list[float]]


def hold_out(n_demos: int, share: float, seed: int | None) -> tuple[int, int]:
    """How many demonstrations are held out, not all, the first ones of a permutation by this seed."""
    return max(0, min(round(share * n_demos), n_demos - 1)), SEED if seed is None else seed


def _fit(problem: Problem, choice: Choice, learned: Part, held: Part, say: Say) -> tuple[Learner, Record]:
    demos, weights = learned

    def numbers(record: Any) -> Record:
        names = ("iteration", "loss", "gradient_norm", "seconds")
        return {"model": choice.learner, **{name: getattr(record, name) for name in names}}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make_learner(choice, problem, callback=lambda record: say(numbers(record)))
        model.fit(demos, sample_weight=weights)
        if hasattr(model, "callback"):
            model.set_params(callback=None)
        try:
            errors: list[float | None] | None = model.standard_errors_.tolist()
        except (XmenError, np.linalg.LinAlgError):
            errors = None  # not linear, or out of reach of exact inference
    names = named_features(problem)[1]
    found = np.asarray(getattr(model, "weights_", np.zeros(0))).tolist()
    world = problem.world
    means, acts = mean_reward(model.reward_, world).tolist(), np.any(world.available, axis=1).tolist()
    told = dict.fromkeys(with_names(str(warning.message), names) for warning in caught)
    return model, {
        "learner": choice.learner,
        "label": LEARNERS[choice.learner].label,
        "method": getattr(model, "method_", None),
        "converged": bool(model.converged_),
        "iterations": model.n_iter_,
        "seconds": model.history_[-1].seconds if model.history_ else 0.0,
        "demonstrations": len(demos),
        "log_likelihood": model.score(demos, weights),
        "held_out": {"demonstrations": len(held[0]), "log_likelihood": model.score(*held)} if held[0] else None,
        "weights": [
            {"feature": name, "weight": weight, "error": error}
            for name, weight, error in zip(names, found, errors or [None] * len(found), strict=False)
        ],
        # Nothing is earned where there is no action, as at the goal.
        "reward": [mean if some else None for mean, some in zip(means, acts, strict=True)],
        "visits": _visits(model),
        "demo_visits": (Walks.of(world, demos).state_rows().T @ normalised_weights(weights, len(demos))).tolist(),
        "valid": _validity(model, problem),
        "records": [numbers(record) for record in model.history_],
        "notes": list(told),
    }


def _visits(model: Learner) -> list[float] | None:
    """Expected number of positions at each state; of a policy, the times that something was done there."""
    try:
        causal = isinstance(model, CausalXMEN)
        visits = model.policy().visits().sum(axis=1) if causal else model.distribution().state_visits()
    except EngineError:
        return None
    return list(visits.tolist())


def _validity(model: Learner, problem: Problem) -> float | None:
    """The exact probability that what the model does keeps all rules of the problem."""
    rule: Constraint | None = problem.constraint
    if isinstance(model, CausalXMEN):
        return model.policy().validity
    if rule is None or model.constraint is not None:
        return 1.0
    reward = model.reward_
    settings: Record = {"discount": model.discount, "engine": "exact", "max_nodes": problem.settings.max_nodes}
    try:
        free, kept = (distribution(problem.world, part, reward, **settings) for part in (None, rule))
        return math.exp(min(0.0, kept.log_partition() - free.log_partition()))
    except InfeasibleError:
        return 0.0
    except EngineError:
        return None


# ---- Show me the Python: lines that do the same as the page, with the files that it saves


SHOWN = 5  # samples that the text draws


def python_text(problem: Problem, settings: StudioSettings, path: Path, n_demos: int, n_valid: int) -> str:
    """Ten lines, and some more where not all demonstrations are learned from; they run in the problem's folder."""
    choosing = _choosing(problem, settings, n_demos, n_valid)
    weights = "demo_weights(demos)"
    lines = [
        *(["import numpy as np"] if any("np." in line for line in choosing) else []),
        "import xmen as xm",
        "from xmen.problem import demo_weights, read_problem",
        "",
        f"problem = read_problem({path.name!r})",
        "demos = problem.demos()",
    ]
    if choosing:
        lines += [f"weights = {weights} or [1.0] * len(demos)", *choosing]
        lines.append("demos, weights = [demos[i] for i in kept], [weights[i] for i in kept]")
        weights = "weights"
    lines += [
        f"model = xm.{_learner(problem, settings)}",
        f"model.fit(demos, sample_weight={weights})",
        "print(model.weights_.round(3), model.score(demos))",
        f"for trajectory in model.sample({SHOWN}, seed=0):",
        "    print(trajectory)",
    ]
    return "\n".join(lines) + "\n"


def _choosing(problem: Problem, settings: StudioSettings, n_demos: int, n_valid: int) -> list[str]:
    """Which demonstrations are learned from: the valid ones that are not held out."""
    lines = ["kept = list(range(len(demos)))"]
    if n_valid < n_demos:
        rule = "" if problem.constraint is None else " and problem.constraint.accepts(demo)"
        valid = f"problem.world.problem(demo) is None{rule}"
        lines = [f"kept = [i for i, demo in enumerate(demos) if {valid}]"]
    n_out, seed = hold_out(n_valid, settings.held_out, problem.settings.seed)
    if n_out:
        order = f"np.random.default_rng({seed}).permutation(len(kept))[{n_out}:]"
        lines.append(f"kept = [kept[i] for i in sorted({order})]  # {n_out} are held out")
    return lines if n_valid < n_demos or n_out else []


def _learner(problem: Problem, settings: StudioSettings) -> str:
    """The learner that the page makes, as Python spells it."""
    choice = settings.choice(problem)
    learner = LEARNERS[choice.learner]
    parts = {
        "constraint": "problem.constraint",
        "features": "problem.reward.features" if isinstance(problem.reward, LinearReward) else "None",
    }
    chosen = choice.settings
    asked = {
        **chosen,
        "method": None if chosen["method"] == "auto" else chosen["method"],
        "l2": chosen["l2"] or None,
        "discount": None if problem.settings.discount == 1.0 else problem.settings.discount,
        "engine": None if problem.settings.engine == "auto" else problem.settings.engine,
        "max_nodes": problem.settings.max_nodes,
    }
    known = learner.kind.setting_names()
    arguments = ["problem.world", *(f"{name}={parts[name]}" for name in learner.takes)]
    arguments += [f"{name}={value!r}" for name, value in asked.items() if value is not None and name in known]
    return f"{learner.kind.__name__}({', '.join(arguments)})"
