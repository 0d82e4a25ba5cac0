"""The process that does the work: it answers one question after the other, and can be ended in the middle of one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xmen.answers.plain import error_record
from xmen.children import listening
from xmen.constraints.constraint import conjunction
from xmen.errors import XmenError, in_words
from xmen.policies.policy import Policy
from xmen.problem.fence import fenced
from xmen.studio.document import Document
from xmen.studio.finding import find_rules
from xmen.studio.generating import Actor, generate, promises, step
from xmen.studio.learning import learn
from xmen.studio.live import check
from xmen.studio.settings import read_settings

Record = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A kind of work, the document it is about, where that is to be saved, and a model that was learned before."""

    kind: str
    document: Document
    path: Path
    arguments: Record = field(default_factory=dict)
    model: bytes | None = None


def serve() -> None:
    """The process: for each question it says ("begun",), any number of ("part", record), and how it ended.

    That is ("done", result, models), or ("failed", error).
    """
    worker = _Worker()
    with listening() as (questions, say):
        _warm_up()
        for question in questions:
            say(("begun",))
            try:
                result, models = worker.answer(question, lambda part: say(("part", part)))
                say(("done", result, {name: pickle.dumps(model) for name, model in models.items()}))
            except (XmenError, OSError) as error:
                say(("failed", error_record(error)))
            except Exception as error:
                words = f"xmen did not expect this: {in_words(error)} ({type(error).__name__})"
                say(("failed", error_record(error, words)))


def _warm_up() -> None:
    """Load what a first answer would have to load."""
    world = {"kind": "grid", "width": 2, "height": 2, "start": [0, 0], "goal": [1, 1], "horizon": 4}
    rules = [{"name": "corner", "rule": "visit(corner)"}]
    problem = {"format": 1, "world": world, "events": {"corner": {"cells": [[0, 1]]}}, "constraints": rules}
    demo = {"states": [[0, 0], [0, 1], [1, 1]], "actions": ["up", "right"], "weight": 1.0}
    document = Document({**problem, "reward": {"features": ["steps"]}}, [demo])
    for _ in check(document, Path("warm.toml")):
        pass


class _Worker:
    """What is kept from one question to the next."""

    def __init__(self) -> None:
        self._policy: tuple[Any, Actor, Policy] | None = None

    def answer(self, question: Question, say: Callable[[Record], None]) -> tuple[Record, Record]:
        """The result, and models to be kept by whoever asked."""
        with fenced(question.path.parent):
            return self._answer(question, say)

    def _answer(self, question: Question, say: Callable[[Record], None]) -> tuple[Record, Record]:
        document, arguments = question.document, question.arguments
        if question.kind == "check":
            for part in check(document, question.path):
                say(part)
            return {}, {}
        problem = document.problem_at(question.path)
        match question.kind:
            case "learn":
                settings = read_settings(document.problem.get("studio", {}))
                return learn(problem, document, settings, arguments["compare"], say)
            case "find":
                return find_rules(problem, document, arguments["max_rules"], arguments["level"]), {}
            case "generate":
                return generate(self._actor(question), arguments["n"], arguments["best"], arguments["seed"]), {}
            case "policy":
                return promises(self._actor(question), arguments["p"]), {}
            case "step":
                actor, policy = self._acting(question)
                return step(actor, policy, arguments["states"], arguments["actions"]), {}
        raise ValueError(question.kind)

    def _actor(self, question: Question) -> Actor:
        problem = question.document.problem_at(question.path)
        model = None if question.model is None else pickle.loads(question.model)
        return Actor(problem, model, conjunction([problem.further(text) for text in question.arguments["also"]]))

    def _acting(self, question: Question) -> tuple[Actor, Policy]:
        """The policy of an episode is made for its first step only."""
        asked = (question.document, question.model, question.arguments["also"], question.arguments["promise"])
        if self._policy is None or self._policy[0] != asked:
            actor = self._actor(question)
            self._policy = (asked, actor, actor.policy(question.arguments["promise"]))
        return self._policy[1:]
