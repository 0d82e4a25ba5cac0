"""Show me the Python: lines that do the same as the page, with the files that it saves."""

from __future__ import annotations

from pathlib import Path

from xmen.problem import Problem
from xmen.registry import LEARNERS
from xmen.rewards import LinearReward
from xmen.studio.learning import hold_out
from xmen.studio.settings import StudioSettings

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
    asked = {
        "method": None if choice.method == "auto" else choice.method,
        "l2": choice.l2 or None,
        "max_iter": choice.max_iter,
        "seed": choice.seed,
        "validity": choice.validity,
        "discount": None if problem.settings.discount == 1.0 else problem.settings.discount,
        "engine": None if problem.settings.engine == "auto" else problem.settings.engine,
        "max_nodes": problem.settings.max_nodes,
    }
    known = learner.kind.setting_names()
    arguments = ["problem.world", *(f"{name}={parts[name]}" for name in learner.takes)]
    arguments += [f"{name}={value!r}" for name, value in asked.items() if value is not None and name in known]
    return f"{learner.kind.__name__}({', '.join(arguments)})"
