"""The process that does the work: it answers one question after the other, and can be ended in the middle of one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers import rule_search
from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.distribution import Distribution
from xmen.errors import EngineError, InfeasibleError, XmenError, error_record, in_words
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.policies.policy import Policy, plan
from xmen.problem import Problem
from xmen.problem.document import fenced
from xmen.processes import listening
from xmen.studio.document import Document, Reader, action_word, in_words_of, state_word
from xmen.studio.learning import learn
from xmen.studio.live import check, judge, valid_ones
from xmen.studio.settings import read_settings

# ---- The job `find`: which rules the demonstrations keep, over the marks of the problem


Record = dict[str, Any]

MOST_OTHERS = 50


def find_rules(problem: Problem, document: Document, max_rules: int, level: float) -> Record:
    """Rules with their gains, what became of the other candidates, and what would decide."""
    demos, weights, _ = valid_ones(problem, document)
    model = rule_search(problem, max_rules=max_rules, level=level).fit(demos, sample_weight=weights)
    names = ("rule", "status", "gain", "chance", "kept", "note")
    rows = [{name: getattr(one, name) for name in names} for one in model.verdicts()]
    return {
        "rules": [row for row in rows if row["status"] == "found"],
        "others": [row for row in rows if row["status"] != "found"][:MOST_OTHERS],
        "candidates": model.n_candidates_,
        "least_gain": model.least_gain_,
        "undecided": [str(one) for one in model.undecided()],
    }


# ---- The jobs `generate`, `policy` and `step`: what a model does, under further rules and whatever chance does


@dataclass(frozen=True)
class Actor:
    """Who acts: a problem as it is, or a model that was learned for it; under further rules."""

    problem: Problem
    model: Learner | None
    also: Constraint | None

    def distribution(self) -> Distribution:
        """Over trajectories."""
        return self.problem.distribution(self.also) if self.model is None else self.model.distribution(self.also)

    def policy(self, promise: str | float) -> Policy:
        """That keeps this promise."""
        if self.model is None:
            return self.problem.plan(self.also, validity=promise)
        rules = [rule for rule in (self.problem.constraint, self.also) if rule is not None]
        discount, nodes = self.model.discount, self.problem.settings.max_nodes
        return plan(self.problem.world, rules, self.model.reward_, promise, discount, max_nodes=nodes)


def generate(actor: Actor, n: int, best: int, seed: int | None) -> Record:
    """n samples, or the `best` most likely trajectories."""
    if isinstance(actor.model, CausalXMEN) and not actor.problem.world.deterministic:
        if best:
            raise EngineError("the most likely trajectories are those of a distribution; this model acts by a policy")
        policy = actor.model.policy(actor.also, seed=seed)
        drawn = policy.rollout(n)
        logs: Sequence[float | None] = [None] * len(drawn)
        engine, message = "policy", f"every episode keeps the rules with probability {policy.validity:.4g}"
    else:
        d = actor.distribution()
        drawn = d.best(best) if best else d.sample(n, seed=seed)
        try:
            log_z = d.log_partition()
            logs = [d.score(trajectory) - log_z for trajectory in drawn]
        except EngineError:
            logs = [None] * len(drawn)
        engine, message = d.engine, d.reason
    words = [in_words_of(actor.problem.world, trajectory) for trajectory in drawn]
    found = zip(words, judge(actor.problem, drawn), logs, strict=True)
    trajectories = [{**record, **verdict, "log_prob": log} for record, verdict, log in found]
    return {"trajectories": trajectories, "best": bool(best), "engine": engine, "message": message}


def promises(actor: Actor, p: float | None) -> Record:
    """What can be promised, whatever chance does."""
    asked: list[str | float] = ["sure", "best", *([] if p is None else [p])]
    found: list[Record] = []
    for promise in asked:
        try:
            policy = actor.policy(promise)
            known: Record = {"validity": policy.validity, "reward": policy.expected_reward(), "message": ""}
        except InfeasibleError as error:
            known = {"validity": None, "reward": None, "message": str(error), "best": error.best}
        found.append({"promise": promise, **known})
    return {"policies": found}


def step(actor: Actor, policy: Policy, states: list[Any], actions: list[Any]) -> Record:
    """What may come next in an episode: what the policy would do, and what chance may make of it."""
    world = actor.problem.world
    if not states:
        starts = [
            {"state": state_word(world, state), "probability": float(world.start[state])}
            for state in np.flatnonzero(world.start).tolist()
        ]
        return {"ended": False, "kept": None, "broken": [], "chance": policy.validity, "starts": starts, "choices": []}
    episode = Reader(world).read({"states": states, "actions": actions})
    policy.reset(episode.states[0])
    for action, state in zip(episode.actions, episode.states[1:], strict=True):
        policy.step(action, state)
    here = episode.states[-1]
    found: Record = {"ended": policy.done, "kept": None, "broken": [], "chance": policy.chance(here), "choices": []}
    if policy.done:
        verdict = judge(actor.problem, [episode])[0]
        extra = None if actor.also is None else actor.also.explain(episode)
        broken = [{"rule": extra.name, "position": extra.position, "message": str(extra)}] if extra is not None else []
        return found | {"kept": verdict["valid"] and not broken, "broken": verdict["broken"] + broken}
    shares = policy.probabilities(here)
    for action in np.flatnonzero(world.available[here]).tolist():
        rows = slice(int(world.row_start[here]), int(world.row_start[here + 1]))
        fits = np.flatnonzero(world.action[rows] == action) + rows.start
        outcomes = [
            {"state": state_word(world, int(world.target[edge])), "probability": float(world.probability[edge])}
            for edge in fits
        ]
        found["choices"].append(
            {"action": action_word(world, action), "probability": float(shares[action]), "outcomes": outcomes}
        )
    return found


# ---- The process that does the work: it answers one question after the other, and can be ended in the middle of one


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
        self._acting: tuple[Any, Actor, Policy] | None = None

    def answer(self, question: Question, say: Callable[[Record], None]) -> tuple[Record, Record]:
        """The result, and models to be kept by whoever asked."""
        document, arguments = question.document, dict(question.arguments)
        with fenced(question.path.parent):
            if question.kind == "check":
                for part in check(document, question.path):
                    say(part)
                return {}, {}
            problem = document.problem_at(question.path)
            if question.kind == "learn":
                settings = read_settings(document.problem.get("studio", {}))
                return learn(problem, document, settings, arguments["compare"], say)
            if question.kind == "find":
                return find_rules(problem, document, **arguments), {}
            also, promise = arguments.pop("also"), arguments.pop("promise", None)
            asked = (question.kind, document, question.model, also, promise)
            if self._acting is None or self._acting[0] != asked:
                model = None if question.model is None else pickle.loads(question.model)
                actor = Actor(problem, model, conjunction([problem.further(text) for text in also]))
                if question.kind == "generate":
                    return generate(actor, **arguments), {}
                if question.kind == "policy":
                    return promises(actor, **arguments), {}
                self._acting = (asked, actor, actor.policy(promise))  # made for the first step of an episode only
            return step(*self._acting[1:], **arguments), {}
