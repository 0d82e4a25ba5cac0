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
from xmen.worlds import MDP, Trajectory, Walks

Record = dict[str, Any]
Say = Callable[[Record], None]

SEED = 0  # of which demonstrations are held out, where the problem has none


def learn(
    problem: Problem, document: Document, settings: StudioSettings, compare: bool, say: Say
) -> tuple[Record, dict[str, Learner]]:
    """The result, and the models by name: "model" and, if asked for, "compare"."""
    demos, weights, left_out = valid_ones(problem, document)
    parts = _split(demos, weights, settings.held_out, problem.settings.seed)
    asked = {"model": settings.choice(problem)}
    if compare and settings.learner != "maxent":
        asked["compare"] = settings.choice(problem, "maxent")
    models = {}
    result: Record = {"compare": None, "left_out": left_out}
    for name, choice in asked.items():
        models[name], result[name] = _fit(problem, choice, parts, say)
    return result, models


Part = tuple[list[Trajectory], list[float]]


def _split(demos: list[Trajectory], weights: list[float], share: float, seed: int | None) -> tuple[Part, Part]:
    """What is learned from, and what is held out; at least one demonstration is learned from."""
    n_out, drawn_by = hold_out(len(demos), share, seed)
    out = set(np.random.default_rng(drawn_by).permutation(len(demos))[:n_out].tolist())
    parts = [[index for index in range(len(demos)) if (index in out) is held] for held in (False, True)]
    learned, held = (([demos[i] for i in part], [weights[i] for i in part]) for part in parts)
    return learned, held


def hold_out(n_demos: int, share: float, seed: int | None) -> tuple[int, int]:
    """How many demonstrations are held out, the first ones of a permutation by this seed."""
    return max(0, min(round(share * n_demos), n_demos - 1)), SEED if seed is None else seed


def _fit(problem: Problem, choice: Choice, parts: tuple[Part, Part], say: Say) -> tuple[Learner, Record]:
    (demos, weights), (held_demos, held_weights) = parts

    def report(record: Any) -> None:
        say({"model": choice.learner, **_numbers(record.as_dict())})

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make_learner(choice, problem, callback=report)
        model.fit(demos, sample_weight=weights)
        if hasattr(model, "callback"):
            model.set_params(callback=None)
        errors = _standard_errors(model)
    names = named_features(problem)[1]
    learned = np.asarray(getattr(model, "weights_", np.zeros(0))).tolist()
    held = None
    if held_demos:
        held = {"demonstrations": len(held_demos), "log_likelihood": model.score(held_demos, held_weights)}
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
        "held_out": held,
        "weights": [
            {"feature": name, "weight": weight, "error": error}
            for name, weight, error in zip(names, learned, errors or [None] * len(learned), strict=False)
        ],
        "reward": _reward_map(model.reward_, problem.world),
        "visits": _visits(model),
        "demo_visits": (
            Walks.of(problem.world, demos).state_rows().T @ normalised_weights(weights, len(demos))
        ).tolist(),
        "valid": _validity(model, problem),
        "records": [{"model": choice.learner, **_numbers(record.as_dict())} for record in model.history_],
        "notes": list(told),
    }


def _numbers(record: Record) -> Record:
    return {key: record[key] for key in ("iteration", "loss", "gradient_norm", "seconds")}


def _standard_errors(model: Learner) -> list[float | None] | None:
    try:
        errors: list[float | None] = model.standard_errors_.tolist()
        return errors
    except (XmenError, np.linalg.LinAlgError):
        return None  # not linear, or out of reach of exact inference


def _reward_map(reward: Any, world: MDP) -> list[float | None]:
    """What an action earns in each state; None where there is none, as at the goal."""
    means, some = mean_reward(reward, world).tolist(), np.any(world.available, axis=1).tolist()
    return [mean if acts else None for mean, acts in zip(means, some, strict=True)]


def _visits(model: Learner) -> list[float] | None:
    """Expected number of positions at each state; of a policy, the times that something was done there."""
    if isinstance(model, CausalXMEN):
        used: list[float] = model.policy().visits().sum(axis=1).tolist()
        return used
    try:
        visits: list[float] = model.distribution().state_visits().tolist()
    except EngineError:
        return None
    return visits


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
