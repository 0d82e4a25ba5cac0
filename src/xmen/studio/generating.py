"""The jobs `generate`, `policy` and `step`: what a model does, under further rules and whatever chance does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution
from xmen.errors import EngineError, InfeasibleError
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.policies.plan import plan
from xmen.policies.policy import Policy
from xmen.problem import Problem
from xmen.studio.live import judge
from xmen.studio.words import Reader, action_word, in_words_of, state_word
from xmen.worlds import Trajectory

Record = dict[str, Any]


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
        logs = _log_probs(d, drawn)
        engine, message = d.engine, d.reason
    words = [in_words_of(actor.problem.world, trajectory) for trajectory in drawn]
    found = zip(words, judge(actor.problem, drawn), logs, strict=True)
    trajectories = [{**record, **verdict, "log_prob": log} for record, verdict, log in found]
    return {"trajectories": trajectories, "best": bool(best), "engine": engine, "message": message}


def _log_probs(d: Distribution, drawn: list[Trajectory]) -> Sequence[float | None]:
    try:
        log_z = d.log_partition()
    except EngineError:
        return [None] * len(drawn)
    return [d.score(trajectory) - log_z for trajectory in drawn]


def promises(actor: Actor, p: float | None) -> Record:
    """What can be promised, whatever chance does."""
    asked: list[str | float] = ["sure", "best", *([] if p is None else [p])]
    return {"policies": [_promise(actor, promise) for promise in asked]}


def _promise(actor: Actor, promise: str | float) -> Record:
    try:
        policy = actor.policy(promise)
    except InfeasibleError as error:
        return {"promise": promise, "validity": None, "reward": None, "message": str(error), "best": error.best}
    return {"promise": promise, "validity": policy.validity, "reward": policy.expected_reward(), "message": ""}


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
