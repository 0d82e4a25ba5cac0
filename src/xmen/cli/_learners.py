"""Whether what a user asked of `xmen fit` makes sense, in the words of the command line."""

from __future__ import annotations

from xmen.answers.learners import Choice
from xmen.errors import EngineError
from xmen.methods.method import Method
from xmen.methods.table import parse_method, read_method
from xmen.options import require_choice
from xmen.registry import LEARNERS

OPTIONS = ("method", "validity", "max_iter", "l2", "resume", "validation", "patience", "device", "outcomes")
"""The options that not all learners have."""


def check_choice(choice: Choice) -> None:
    """Refuse names that do not exist, and options that the learner does not have."""
    require_choice("--learner", choice.learner, LEARNERS)
    method_of(choice)
    for option in OPTIONS:
        given = getattr(choice, option) not in (None, False, "auto")
        if given and option not in LEARNERS[choice.learner].kind.setting_names():
            having = ", ".join(name for name, learner in LEARNERS.items() if option in learner.kind.setting_names())
            raise EngineError(
                f"--{option.replace('_', '-')} is no option of --learner {choice.learner}; these have it: {having}."
            )


def bar_length(choice: Choice) -> int | None:
    """The number of iterations to come, where that is known: others stop at their optimum, whenever that is."""
    method = read_method(method_of(choice))
    return (choice.max_iter or method.default_max_iter) if method is not None and method.takes_every_step else None


def method_of(choice: Choice) -> str | Method:
    """The method that was asked for, as XMEN takes it."""
    try:
        return parse_method(choice.method or "auto")
    except EngineError as error:
        raise EngineError(f"--method {choice.method}: {error}") from None
