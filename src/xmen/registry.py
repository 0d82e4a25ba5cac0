"""All learners by name, and the models that they saved."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.baselines.relative_entropy import RelativeEntropyIRL
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.learners.xmen import XMEN
from xmen.problem import Problem, problem_parts, read_problem
from xmen.problem.document import fenced, within_fence
from xmen.rules.inference import RuleInference  # noqa: F401  (its models are loaded here too)
from xmen.storage.models import load_model


class LearnerKind(NamedTuple):
    """A learner as the command line and experiments name it; `takes` says which parts of a problem it is made from.

    Its options are the settings of its signature.
    """

    kind: type[Learner]
    description: str
    label: str  # in tables, figures and menus
    takes: tuple[str, ...] = ("constraint", "features")


LEARNERS: dict[str, LearnerKind] = {
    "xmen": LearnerKind(XMEN, "a reward under rules, by maximum entropy over the trajectories that keep them", "X-MEN"),
    "causal": LearnerKind(
        CausalXMEN, "a reward under rules, by maximum causal entropy: behaviour that can be executed", "Causal X-MEN"
    ),
    "maxent": LearnerKind(MaxEntIRL, "a baseline: maximum entropy, no rules", "MaxEnt", ("features",)),
    "relative-entropy": LearnerKind(  # relative entropy inverse reinforcement learning
        RelativeEntropyIRL, "a baseline: relative entropy to a base policy, from rollouts", "RE-IRL", ("features",)
    ),
    "constraint-inference": LearnerKind(  # maximum likelihood constraint inference
        ConstraintInference, "a baseline: what must have been forbidden, given the reward", "MLCI", ("reward", "events")
    ),
}
"""Every learner of the library: the command line, Studio and storage know what is here."""


def load(path: str | os.PathLike[str], module: Any = None) -> Any:
    """Read a model that was saved.

    Parameters
    ----------
    path
        The folder that `save` wrote.
    module
        For a neural reward by a torch module of your own: the same kind of module again, with any numbers. It is
        copied, and filled with those that were saved. A network made of torch's own layers comes back by itself.

    Returns
    -------
    Learner | RuleInference | Policy
        What was saved, with its settings and everything it had learned.

    Raises
    ------
    StorageError
        When there is no model, or something is wrong with it; the message says what.
    """
    return load_with_problem(path, module)[0]


def load_with_problem(path: str | os.PathLike[str], module: Any = None) -> tuple[Any, Problem | None]:
    """A model that was saved, and the problem that `xmen fit` learned it for; no file outside its folder is read."""
    found: list[Problem] = []

    def parts_of(file: Path) -> Mapping[str, Any]:
        with fenced(file.parent):
            found.append(read_problem(file))
            for named in (found[0].demonstrations, found[0].validation):
                if named is not None:
                    within_fence(named)
        return problem_parts(found[0])

    return load_model(path, module, parts_of), next(iter(found), None)
