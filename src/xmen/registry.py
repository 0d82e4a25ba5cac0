"""All learners by name, and the models that they saved."""

from __future__ import annotations

import os
from typing import Any

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.baselines.relative_entropy import RelativeEntropyIRL
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.learners.xmen import XMEN
from xmen.problem import problem_parts, read_problem
from xmen.storage.models import load_model

LEARNERS: dict[str, type[Learner]] = {
    kind.__name__: kind for kind in (XMEN, CausalXMEN, MaxEntIRL, RelativeEntropyIRL, ConstraintInference)
}
"""Every learner of the library, by the name of its class."""


def load(path: str | os.PathLike[str], module: Any = None) -> Any:
    """The model that was saved at `path`; anything else there is a StorageError that says what is wrong.

    A network made of torch's own layers comes back by itself. For a neural reward by another torch module, give the
    same kind of `module` again, with any numbers: it is copied, and filled with those that were saved.
    """
    return load_model(path, module, lambda file: problem_parts(read_problem(file)))
