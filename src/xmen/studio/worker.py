"""The process that does the work: it answers one question after the other, and can be ended in the middle of one."""

import math
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from xmen import answers
from xmen.constraints.constraint import Constraint, conjunction, usual_rules, with_rule_weights
from xmen.engines.choose import distribution
from xmen.engines.distribution import Distribution
from xmen.errors import (
    EngineError,
    InfeasibleError,
    TrajectoryError,
    Words,
    XmenError,
    error_record,
    in_words,
    speaking,
)
from xmen.learners.base import Learner
from xmen.learners.causal import CausalXMEN
from xmen.methods.demonstrations import normalised_weights
from xmen.policies.policy import Policy, plan
from xmen.problem import Mistake, Problem, known_features
from xmen.problem.document import fenced
from xmen.processes import listening
from xmen.registry import LEARNERS
from xmen.rewards import LinearReward
from xmen.studio.document import Document, Unreadable, action_word, in_words_of, names_of, read_one, state_word
from xmen.worlds import Sighting, Trajectory
from xmen.worlds.tables import RecordedDemos

Record = dict[str, Any]
Say = Callable[[Record], None]

# ---- The live status of a document: what is wrong in it, what is still possible, and what demonstrations break

MOST_NOTED = 2_000  # demonstrations up to which a live check looks at what can be learned from them


def check(document: Document, path: Path) -> Iterator[Record]:
    """What is known of a document, in parts: the quick ones first, and they stay if the rest takes too long."""
    problem, mistakes = document.read(path)
    try:
        _ = document.settings
    except XmenError as error:
        mistakes.append(Mistake("studio", str(error)))
    facts = [asdict(one).items() for one in mistakes]
    yield {"errors": [{key: fact for key, fact in one if fact is not None or key == "offset"} for one in facts]}
    if problem is None:
        unknown: list[Record] = [{"valid": None, "broken": []} for _ in document.demonstrations]
        yield {"message": "the world is not complete yet", "demonstrations": unknown}
        return
    known = known_features(problem.world, problem.events)
    yield {"features": [{"name": name, "sentence": sentence} for name, sentence in known.items()]}
    demos = document.demos(problem)
    seen_in_part = any(isinstance(one, Sighting) for one in demos)  # which takes a distribution to tell
    verdicts = [] if seen_in_part else judge(problem, demos)
    yield {"demonstrations": verdicts}
    found, d = answers.check_rules(problem)
    if seen_in_part:
        verdicts = judge(problem, demos, d)
        yield {"demonstrations": verdicts}
    if found["feasible"] is None and any(one["valid"] for one in verdicts):
        found |= {"feasible": True, "message": "a demonstration keeps all rules"}
    sizes, remarks = found.get("sizes", {}), answers.rule_notes(problem, problem.rules)
    part: Record = {name: found.get(name) for name in ("feasible", "message", "engine")}
    part |= {"conflict": found.get("conflict") or [], "notes": remarks}
    if "product nodes" in sizes:
        part["product"] = {"nodes": sizes["product nodes"], "edges": sizes.get("product edges")}
    counted = found.get("trajectories") or {}
    if counted.get("valid") is not None:
        valid, possible, log10 = (counted.get(name) for name in ("valid", "possible", "log10"))
        said = [answers.count_text(counted, name) for name in ("valid", "possible")[: 2 if possible else 1]]
        share = valid / possible if possible and "log10" not in counted else None
        shares = {"share": share, "share_text": answers.share_text(counted) if possible else None}
        counts = {"valid": valid, "possible": possible, "log10": log10, "text": " of ".join(said)}
        part["trajectories"] = counts | shares
    yield part
    if not problem.world.deterministic or np.count_nonzero(problem.world.start) > 1:
        yield {"policy": {"best": None, "message": "", **answers.check_promise(problem, found["feasible"])}}
    if d is not None and len(verdicts) <= MOST_NOTED:
        kept: list[Any] = list(compress(demos, (one["valid"] for one in verdicts)))
        yield {"notes": remarks + answers.learning_notes(problem, d, kept)}


def judge(problem: Problem, demos: Sequence[Any], d: Distribution | None = None) -> list[Record]:
    """For each demonstration whether it is valid, everything that it breaks, and which usual rules it does not keep."""
    broken: list[list[Record]] = [
        [{"rule": None, "position": one.position, "message": str(one)}] if isinstance(one, Unreadable) else []
        for one in demos
    ]
    numbers = [i for i, one in enumerate(demos) if not isinstance(one, Unreadable)]
    verdicts: list[Record] = [{"valid": True, "broken": one} for one in broken]
    if numbers:
        report = answers.check_demonstrations(problem, [demos[i] for i in numbers], d)
        for found in report["violations"]:
            place = {"rule": found["constraint"], "position": found["position"], "message": found["message"]}
            broken[numbers[found["demonstration"]]].append(place)
        for rule, index in ((rule, index) for rule, those in report.get("not_kept", {}).items() for index in those):
            verdicts[numbers[index]].setdefault("not_kept", []).append(rule)
    return [one | {"valid": not one["broken"]} for one in verdicts]


def valid_ones(problem: Problem, document: Document) -> tuple[RecordedDemos, list[float], list[str]]:
    """The demonstrations that can be learned from, their weights, and what the others are called."""
    read, called = document.demos(problem), names_of(document.demonstrations)
    valid = [verdict["valid"] for verdict in judge(problem, read)]
    if not any(valid):
        raise TrajectoryError("there is no demonstration that keeps all rules: draw one, or switch a rule off")
    kept: Any = compress(read, valid)
    weights = [record["weight"] for record in compress(document.demonstrations, valid)]
    others = [name for name, one in zip(called, valid, strict=True) if not one]
    return RecordedDemos(kept, names=compress(called, valid)), weights, others


# ---- The job `learn`: fit the learner that the page chose, and MaxEnt beside it

Part = tuple[list[Trajectory], list[float]]


def learn(problem: Problem, document: Document, compare: bool, say: Say) -> tuple[Record, dict[str, Learner]]:
    """The result, and the models by name: "model" and, if asked for, "compare"."""
    demos, weights, left_out = valid_ones(problem, document)
    out = hold_out(len(demos), problem, document)
    kept = np.setdiff1d(np.arange(len(demos)), out).tolist()
    learned, held = (([demos[i] for i in part], [weights[i] for i in part]) for part in (kept, out))
    asked, learners, models = document.asked(problem), {"model": document.settings["learner"]}, {}
    if compare and learners["model"] != "maxent":
        learners["compare"] = "maxent"
    result: Record = {"compare": None, "left_out": left_out}
    for name, learner in learners.items():
        models[name], result[name] = _fit(problem, learner, asked, learned, held, say)
    return result, models


def hold_out(n_demos: int, problem: Problem, document: Document) -> list[int]:
    """Which of so many demonstrations are held out; not all of them."""
    n_out = max(0, min(round(document.settings["held_out"] * n_demos), n_demos - 1))
    return sorted(np.random.default_rng(problem.settings.seed or 0).permutation(n_demos)[:n_out].tolist())


def _fit(problem: Problem, learner: str, asked: Record, learned: Part, held: Part, say: Say) -> tuple[Learner, Record]:
    (demos, weights), world = learned, problem.world

    def numbers(record: Any) -> Record:
        names = ("iteration", "loss", "gradient_norm", "seconds")
        return {"model": learner, **{name: getattr(record, name) for name in names}}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = answers.make_learner(learner, problem, **asked, callback=lambda record: say(numbers(record)))
        with problem.speaking():
            model.fit(demos, sample_weight=weights)
        if hasattr(model, "callback"):
            model.set_params(callback=None)
        errors: list[Any] | None = answers.standard_errors(model)
    found = np.asarray(getattr(model, "weights_", np.zeros(0))).tolist()
    learned_rules: Record = getattr(model, "rule_weights_", {})
    usual = usual_rules(problem.constraint) if learned_rules else []
    its_errors = [None] * len(usual) if errors is None else model.summary().standard_errors[len(found) :].tolist()
    visits, kept = None, list[Any]([None] * len(usual))
    with suppress(EngineError):  # expected positions in each state; of a policy, how often something is done there
        causal = isinstance(model, CausalXMEN)
        d: Any = getattr(model, "policy" if causal else "distribution")()
        visits = d.visits().sum(axis=1) if causal else d.state_visits()
        kept = [1.0 - d.breaks()[one.label] if causal else d.probability(one.rule) for one in usual]
    means, acts = answers.mean_reward(model.reward_, world).tolist(), np.any(world.available, axis=1).tolist()
    table = zip(problem.feature_names, found, errors or [None] * len(found), strict=False)
    seen = [[s for s in getattr(one, "seen", None) or one.states if s is not None] for one in demos]  # at all positions
    shares = np.repeat(normalised_weights(weights, len(demos)), [*map(len, seen)])
    rules = zip(learned_rules, learned_rules.values(), its_errors, kept, strict=True)
    told = dict.fromkeys(problem.words.say(warning.message) for warning in caught)
    return model, {
        "learner": learner,
        "label": LEARNERS[learner].label,
        "method": getattr(model, "method_", None),
        "converged": bool(model.converged_),
        "iterations": model.n_iter_,
        "seconds": model.history_[-1].seconds if model.history_ else 0.0,
        "demonstrations": len(demos),
        "log_likelihood": model.score(demos, weights),
        "held_out": {"demonstrations": len(held[0]), "log_likelihood": model.score(*held)} if held[0] else None,
        "weights": [dict(zip(("feature", "weight", "error"), row, strict=True)) for row in table],
        "rules": [dict(zip(("rule", "weight", "error", "kept"), row, strict=True)) for row in rules],
        # Nothing is earned where there is no action, as at the goal.
        "reward": [mean if some else None for mean, some in zip(means, acts, strict=True)],
        "visits": None if visits is None else visits.tolist(),
        "demo_visits": np.bincount(np.concatenate(seen).astype(int), shares, world.n_states).tolist(),
        "valid": _validity(model, problem),
        "records": [numbers(record) for record in model.history_],
        "notes": list(told),
    }


def _validity(model: Learner, problem: Problem) -> float | None:
    """The exact probability that what the model does keeps all rules of the problem."""
    rule: Constraint | None = problem.constraint
    if isinstance(model, CausalXMEN):
        return model.policy().validity
    if rule is None or model.constraint is not None:
        return 1.0
    settings: Record = {"discount": model.discount, "engine": "exact", "max_nodes": problem.settings.max_nodes}
    try:
        return distribution(problem.world, None, model.reward_, **settings).probability(rule)
    except EngineError:
        return None


def python_text(problem: Problem, document: Document, path: Path) -> str:
    """Show me the Python: ten lines that do the same as the page, with the files that it saves, in their folder.

    There are some more where not all demonstrations are learned from: the valid ones that are not held out.
    """
    valid = [index for index, one in enumerate(judge(problem, document.demos(problem))) if one["valid"]]
    out = {valid[index] for index in hold_out(len(valid), problem, document)}
    others = sorted({*range(len(document.demonstrations))} - {*valid} | out)
    weights, lines = "demo_weights(demos)", ["import xmen as xm", "from xmen.problem import demo_weights, read_problem"]
    lines += ["", f"problem = read_problem({path.name!r})", "demos = problem.demos()"]
    if others:
        lines += [f"weights = {weights} or [1.0] * len(demos)", f"others = {others}  # not valid, or held out"]
        lines += ["kept = [i for i in range(len(demos)) if i not in others]"]
        lines += ["demos, weights = [demos[i] for i in kept], [weights[i] for i in kept]"]
        weights = "weights"
    learner = LEARNERS[document.settings["learner"]]
    features = "problem.reward.features" if isinstance(problem.reward, LinearReward) else "None"
    parts = {"constraint": "problem.constraint", "features": features}
    own = {name: getattr(problem.settings, name) for name in ("discount", "engine", "max_nodes")}
    asked = document.asked(problem) | own
    usual: Record = {"method": "auto", "l2": 0.0, "discount": 1.0, "engine": "auto"}
    known = learner.kind.setting_names()
    said = [name for name, value in asked.items() if value not in (None, usual.get(name)) and name in known]
    arguments = ["problem.world", *(f"{name}={parts[name]}" for name in learner.takes)]
    arguments += [f"{name}={asked[name]!r}" for name in said]
    lines += [f"model = xm.{learner.kind.__name__}({', '.join(arguments)})"]
    lines += [f"model.fit(demos, sample_weight={weights})", "print(model.weights_.round(3), model.score(demos))"]
    return "\n".join([*lines, "for trajectory in model.sample(5, seed=0):", "    print(trajectory)", ""])


# ---- The job `find`: which rules the demonstrations keep, over the marks of the problem

MOST_OTHERS = 50  # candidates that are no rules, as the page lists them


def find_rules(problem: Problem, document: Document, max_rules: int, level: float) -> Record:
    """Rules with their gains, what became of the other candidates, and what would decide."""
    demos, weights, _ = valid_ones(problem, document)
    rows = [row for row in zip(demos, weights, demos.names, strict=True) if isinstance(row[0], Trajectory)]
    if not rows:
        raise TrajectoryError("rules are looked for in demonstrations without gaps, and there are none: draw some")
    whole, weights, called = ([*column] for column in zip(*rows, strict=True))
    model = answers.rule_search(problem, max_rules=max_rules, level=level)
    model.fit(RecordedDemos(whole, names=called), sample_weight=weights)
    names = ("rule", "status", "gain", "chance", "kept", "note")
    verdicts = [{name: getattr(one, name) for name in names} for one in model.verdicts()]
    return {
        "rules": [row for row in verdicts if row["status"] == "found"],
        "others": [row for row in verdicts if row["status"] != "found"][:MOST_OTHERS],
        "candidates": model.n_candidates_,
        "least_gain": model.least_gain_,
        "undecided": [
            {"rule": one.rule, "gain": one.gain, "more": max(1, math.ceil(one.more))} for one in model.undecided()
        ],
    }


# ---- The jobs `generate`, `policy` and `step`: what a model does, under further rules and whatever chance does


@dataclass(frozen=True)
class Actor:
    """Who acts: a problem as it is, or a model that was learned for it; under further rules."""

    problem: Problem
    model: Learner | None
    also: Constraint | None

    def policy(self, promise: str | float) -> Policy:
        """That keeps this promise."""
        if self.model is None:
            return self.problem.plan(self.also, validity=promise)
        own, known = self.problem.constraint, getattr(self.model, "rule_weights_", {})
        own = with_rule_weights(own, [known.get(one.label, one.weight or 0.0) for one in usual_rules(own)])
        rules, discount, nodes = conjunction([own, self.also]), self.model.discount, self.problem.settings.max_nodes
        return plan(self.problem.world, rules, self.model.reward_, promise, discount, max_nodes=nodes)

    def generate(self, n: int, best: int, seed: int | None) -> Record:
        """n samples, or the `best` most likely trajectories."""
        logs: Sequence[float | None] = [None] * (best or n)
        if isinstance(self.model, CausalXMEN) and not self.problem.world.deterministic:
            if best:
                why = "the most likely trajectories are those of a distribution; this model acts by a policy"
                raise EngineError(why)
            policy = self.model.policy(self.also, seed=seed)
            drawn = policy.rollout(n)
            engine, message = "policy", f"every episode keeps the rules with probability {policy.validity:.4g}"
        else:
            d = (self.problem if self.model is None else self.model).distribution(self.also)
            drawn = d.best(best) if best else d.sample(n, seed=seed)
            try:
                log_z = d.log_partition()
                logs = [d.score(trajectory) - log_z for trajectory in drawn]
            except EngineError:  # not of this engine: they stay unknown
                pass
            engine, message = d.engine, d.reason
        words = [in_words_of(self.problem.world, trajectory) for trajectory in drawn]
        found = zip(words, judge(self.problem, drawn), logs, strict=False)
        trajectories = [{**record, **verdict, "log_prob": log} for record, verdict, log in found]
        return {"trajectories": trajectories, "best": bool(best), "engine": engine, "message": message}

    def complete(self, states: list[Any], n: int = 5) -> Record:
        """The n likeliest trajectories given what was seen of one, and the expected positions in each state."""
        seen = read_one(self.problem.world, {"states": states, "actions": []})
        d = (self.problem if self.model is None else self.model).distribution(self.also)
        given = d.seen(self.problem.under_noise([seen])[0])
        found = [(tau, math.exp(given.log_prob(tau))) for tau in given.best(n)]
        offers = [in_words_of(self.problem.world, tau) | {"probability": chance} for tau, chance in found]
        return {"offers": offers, "visits": given.state_visits().tolist()}

    def promises(self, p: float | None) -> Record:
        """What can be promised, whatever chance does."""
        asked: list[str | float] = ["sure", "best", *([] if p is None else [p])]
        found: list[Record] = []
        for promise in asked:
            try:
                policy = self.policy(promise)
                known: Record = {"validity": policy.validity, "reward": policy.expected_reward(), "message": ""}
            except InfeasibleError as error:
                known = {"validity": None, "reward": None, "message": str(error), "best": error.best}
            found.append({"promise": promise, **known})
        return {"policies": found}

    def step(self, policy: Policy, states: list[Any], actions: list[Any]) -> Record:
        """What may come next in an episode: what the policy would do, and what chance may make of it."""
        world = self.problem.world
        found: Record = {"ended": False, "kept": None, "broken": [], "chance": policy.validity, "choices": []}

        def outcomes(states: Any, probabilities: Any) -> list[Record]:
            pairs = zip(states.tolist(), probabilities.tolist(), strict=True)
            return [{"state": state_word(world, state), "probability": chance} for state, chance in pairs]

        if not states:
            starts = np.flatnonzero(world.start)
            return found | {"starts": outcomes(starts, world.start[starts])}
        episode = read_one(world, {"states": states, "actions": actions})
        policy.reset(episode.states[0])
        for action, state in zip(episode.actions, episode.states[1:], strict=True):
            policy.step(action, state)
        here = episode.states[-1]
        found |= {"ended": policy.done, "chance": policy.chance(here)}
        if policy.done:
            verdict = judge(self.problem, [episode])[0]
            extra = None if self.also is None else self.also.explain(episode)
            broken = [] if extra is None else [{"rule": extra.name, "position": extra.position, "message": str(extra)}]
            return found | {"kept": verdict["valid"] and not broken, "broken": verdict["broken"] + broken}
        shares = policy.probabilities(here)
        for action in np.flatnonzero(world.available[here]).tolist():
            edges = (world.source == here) & (world.action == action)
            choice = {"action": action_word(world, action), "probability": float(shares[action])}
            found["choices"].append({**choice, "outcomes": outcomes(world.target[edges], world.probability[edges])})
        return found


def mend(problem: Problem, record: Record) -> Record:
    """The valid trajectory nearest to one, and each edit in words."""
    found = answers.mend_demonstrations(problem, [read_one(problem.world, record)], [{"demonstration": 0}])
    offer = in_words_of(problem.world, found["demonstrations"][0])
    return {"offers": [{**offer, "edits": found["changed"][0]["edits"]}]}


# ---- The process


@dataclass(frozen=True)
class Question:
    """A kind of work, the document it is about, where that is to be saved, and a model that was learned before."""

    kind: str
    document: Document
    path: Path
    arguments: Record = field(default_factory=dict)
    model: bytes | None = None


LABELS: Record = {"l2": "the penalty", "validity": "the promise"}
PROMISES = {"sure": "surely", "best": "as likely as can be"}
SPOKEN = Words(labels=LABELS | {("validity", name): f"the promise “{words}”" for name, words in PROMISES.items()})
"""What the page calls settings that messages speak of."""


def serve() -> None:
    """The process: for each question it says ("begun",), any number of ("part", record), and how it ended.

    That is ("done", result, models), or ("failed", error).
    """
    acting: list[Any] = []  # what was asked, the actor and the policy of the last episode
    with listening() as (questions, say), speaking(SPOKEN):
        _warm_up()
        for question in questions:
            say(("begun",))
            try:
                result, models = _answer(question, acting, lambda part: say(("part", part)))
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


def _answer(question: Question, acting: list[Any], say: Say) -> tuple[Record, Record]:
    """The result, and models to be kept by whoever asked; `acting` remembers the policy of the last episode."""
    document, arguments = question.document, dict(question.arguments)
    with fenced(question.path.parent):
        if question.kind == "check":
            for part in check(document, question.path):
                say(part)
            return {}, {}
        problem = document.problem_at(question.path)
        if question.kind == "learn":
            return learn(problem, document, arguments["compare"], say)
        if question.kind == "find":
            return find_rules(problem, document, **arguments), {}
        if question.kind == "mend":
            return mend(problem, arguments), {}
        also, promise = arguments.pop("also"), arguments.pop("promise", None)
        asked = (document, question.model, also, promise)
        if question.kind != "step" or acting[:1] != [asked]:
            model = None if question.model is None else pickle.loads(question.model)
            actor = Actor(answers.before_learning(problem), model, conjunction(map(problem.further, also)))
            answer: Record = {"generate": actor.generate, "policy": actor.promises, "complete": actor.complete}
            if question.kind in answer:
                return answer[question.kind](**arguments), {}
            acting[:] = [asked, actor, actor.policy(promise)]  # made for the first step of an episode only
        return acting[1].step(acting[2], **arguments), {}
