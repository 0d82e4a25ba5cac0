"""Show me the Python: lines that do the same as the page, with the files that it saves."""

from __future__ import annotations

from pathlib import Path

from xmen.problem import Problem
from xmen.registry import LEARNERS
from xmen.rewards import LinearReward
from xmen.studio.settings import StudioSettings

SHOWN = 5  # samples that the text draws


def python_text(problem: Problem, settings: StudioSettings, path: Path) -> str:
    """About ten lines; they run in the folder of the problem once it is saved."""
    choice = settings.choice(problem)
    learner = LEARNERS[choice.learner]
    parts = {
        "constraint": "problem.constraint",
        "features": "problem.reward.features" if isinstance(problem.reward, LinearReward) else "None",
    }
    known = learner.kind.setting_names()
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
    arguments = ["problem.world", *(f"{name}={parts[name]}" for name in learner.takes)]
    arguments += [f"{name}={value!r}" for name, value in asked.items() if value is not None and name in known]
    return f"""import xmen as xm
from xmen.problem import demo_weights, read_problem

problem = read_problem({path.name!r})
demos = problem.demos()
model = xm.{learner.kind.__name__}({", ".join(arguments)})
model.fit(demos, sample_weight=demo_weights(demos))
print(model.weights_.round(3), model.score(demos))
for trajectory in model.sample({SHOWN}, seed=0):
    print(trajectory)
"""
