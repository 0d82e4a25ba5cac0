"""Can the rules hold together, do demonstrations keep them, and can weights be learned from them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from xmen.answers.names import named_features, with_names
from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution
from xmen.engines.exact import ExactDistribution
from xmen.engines.never import remark, why_never
from xmen.errors import EngineError, InfeasibleError, InvalidDemonstrationError, ProductTooLargeError
from xmen.events import NO_ACTION
from xmen.methods import identify
from xmen.methods.demonstrations import gather
from xmen.policies.explanation import explain
from xmen.policies.planning import make_game
from xmen.problem import Problem
from xmen.product.inference import pass_messages
from xmen.rewards.features import read_features
from xmen.worlds import EdgeWeights, Trajectory
from xmen.worlds.costs import cost_note, unnamed_note

MOST_COUNTED = 2.0**53  # above this a float no longer holds every whole number


def check_rules(problem: Problem) -> tuple[dict[str, Any], Distribution | None]:
    """Whether some trajectory keeps all rules: True, False with the conflict, or None when no engine could tell."""

    try:
        d = problem.distribution(engine="auto")
    except InfeasibleError as error:
        return {"feasible": False, "conflict": list(error.conflict), "message": str(error)}, None
    except EngineError as error:
        return {"feasible": None, "message": str(error)}, None
    report = {"feasible": True, "engine": d.engine, "message": d.reason, "sizes": d.sizes()}
    logs = {"valid": log_count(d)}
    if logs["valid"] is not None:
        try:
            logs["possible"] = log_count(Problem(problem.world, settings=problem.settings).distribution(engine="exact"))
        except ProductTooLargeError:
            logs["possible"] = None
    counted: dict[str, Any] = {name: _whole(log) for name, log in logs.items()}
    if any(count == math.inf for count in counted.values()):  # more than a float can hold
        counted["log10"] = {name: None if log is None else log / math.log(10) for name, log in logs.items()}
    return {**report, "trajectories": counted}, d


def check_promise(problem: Problem, feasible: bool | None) -> dict[str, Any]:
    """Whether a policy can keep all rules surely, whatever chance does; None where that is too large to tell."""
    if feasible is not None and problem.world.deterministic and np.count_nonzero(problem.world.start) == 1:
        # Nothing is left to chance: what can be kept can be kept surely.
        return {"sure": feasible, "best": float(feasible), **({} if feasible else {"message": "see the conflict"})}
    try:
        why = explain(make_game(problem.world, problem.constraint, problem.settings.max_nodes))
    except EngineError as error:
        return {"sure": None, "message": problem.in_words(str(error))}
    if why is None:
        return {"sure": True, "best": 1.0}
    return {"sure": False, "best": why.best, "message": problem.in_words(str(why)), "dropping": list(why.dropping)}


def log_count(d: Distribution) -> float | None:
    """The log of the number of valid trajectories, None where the engine cannot count.

    The same dynamic program as log Z, with weight 1 for every edge whatever its probability.
    """
    if not isinstance(d, ExactDistribution):
        return None
    return float(pass_messages(d.product, EdgeWeights.counting(d.world)).log_partition)


def _whole(log: float | None) -> float | None:
    """The number whose log is given: whole up to 2^53, a float above, inf where that is too small for it."""
    if log is None:
        return None
    if log < math.log(MOST_COUNTED):
        return round(math.exp(log))
    return math.exp(log) if log < math.log(sys.float_info.max) else math.inf


def learning_notes(problem: Problem, d: Distribution, demos: list[Trajectory]) -> list[str]:
    """Weights that no demonstrations could tell, and weights that these demonstrations leave without an optimum."""

    array, names = named_features(problem)
    if array is None or not isinstance(d, ExactDistribution) or array.shape[2] > identify.MOST_FEATURES:
        return []
    features = read_features(array, problem.world)
    notes = []
    basis = identify.unidentified(d, features)
    if len(basis):
        text = identify.describe_unidentified(basis)
        notes.append(f"no demonstrations could tell these weights: {text}. Drop features, or fit with --l2.")
    if demos:
        gathered = gather(problem.world, problem.constraint, demos)
        which = identify.unbounded(d, features, gathered, problem.settings.discount)
        if which:
            text = identify.name_features(which)
            notes.append(
                f"every demonstration has the least or the most possible of {text}: the best weight is infinite. "
                "Fit with --l2, or add demonstrations."
            )
    return [with_names(note, names) for note in notes]


def failure_notes(problem: Problem, checked: dict[str, Any]) -> list[str]:
    """With chance episodes may fail, and a learner can take them: which one, and what it should be asked to promise."""
    failed = {one["demonstration"] for one in checked["violations"] if one["constraint"] or one.get("unfinished")}
    if problem.world.deterministic or not failed:
        return []
    episodes = checked["valid"] + len(failed)
    return [
        f"{checked['valid']} of {episodes} episodes keep all rules. Those that failed belong to what xmen fit "
        f"--learner causal learns from, with --validity {checked['valid'] / episodes:.3g} or so, or best"
    ]


def never_notes(problem: Problem) -> list[str]:
    """Events of the problem that no trajectory of its world can ever have."""
    found = ((name, why_never(event, problem.world)) for name, event in problem.events.items())
    return [f"the event {name!r} can never happen: {why}" for name, why in found if why]


def rule_notes(problem: Problem, rules: Mapping[str, Constraint]) -> list[str]:
    """Rules that no trajectory of the problem's world can break, or that every one breaks."""
    found = (remark(name, rule, problem.world) for name, rule in rules.items())
    return [problem.in_words(note) for note in found if note]


def cost_notes(problem: Problem) -> list[str]:
    """Costs that leave out some of the places where trajectories can be: they are 0 there, meant or not."""
    world = problem.world
    open_states = np.flatnonzero(world.available.any(axis=1) | world.terminal)
    notes = []
    for name, costs in problem.costs.items():
        if isinstance(costs, Mapping):
            actions = (NO_ACTION, *range(world.n_actions))
            found = [event.holds(open_states, np.full_like(open_states, a)) for event in costs for a in actions]
            named = np.zeros(world.n_states, dtype=np.bool_)
            named[open_states] = np.any(found, axis=0)
            notes.append(unnamed_note(name, named, world))
        else:
            notes.append(cost_note(name, costs, world))
    return [note for note in notes if note is not None]


def check_demonstrations(problem: Problem, demos: list[Trajectory]) -> dict[str, Any]:
    """Every rule that a demonstration breaks, and the position from which on nothing could save it."""
    found = [
        violation for index in _suspects(problem, demos) for violation in _violations(problem, index, demos[index])
    ]
    valid = len(demos) - len({violation["demonstration"] for violation in found})
    return {
        "file": str(problem.demonstrations),
        "number": len(demos),
        "valid": valid,
        "share": valid / len(demos),
        "broken": count_broken(found),
        "violations": found,
    }


def count_broken(violations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each broken rule (None: the world, or arriving in it), how many demonstrations break it and the first one."""
    grouped: dict[tuple[str | None, bool], list[dict[str, Any]]] = {}
    for violation in violations:
        grouped.setdefault((violation["constraint"], violation.get("unfinished", False)), []).append(violation)
    return [
        {
            "constraint": name,
            **({"unfinished": True} if unfinished else {}),
            "demonstrations": len(found),
            "first": found[0]["demonstration"],
            "position": found[0]["position"],
        }
        for (name, unfinished), found in sorted(grouped.items(), key=lambda item: -len(item[1]))
    ]


def _suspects(problem: Problem, demos: list[Trajectory]) -> list[int]:
    """The demonstrations that are not valid, found by compiled machines; the words for it are looked for one by one."""
    try:
        return np.flatnonzero(~gather(problem.world, problem.constraint, demos, refuse_invalid=False).valid).tolist()
    except InvalidDemonstrationError:  # a state too large for any world
        return list(range(len(demos)))


def _violations(problem: Problem, index: int, demo: Trajectory) -> list[dict[str, Any]]:
    impossible = problem.world.problem(demo)
    if impossible is not None:
        found = {"demonstration": index, "constraint": None, "position": impossible[0], "message": impossible[1]}
        return [found | ({"unfinished": True} if problem.world.unfinished(demo) else {})]
    explained = [(name, rule.explain(demo)) for name, rule in problem.rules.items()]
    return [
        {
            "demonstration": index,
            "constraint": name,
            "position": violation.position,
            "message": problem.in_words(str(violation)),
        }
        for name, violation in explained
        if violation is not None
    ]


def count_text(counted: dict[str, Any], name: str) -> str:
    """The number: whole, or rounded, or as a power of ten that no float holds.

    >>> count_text({"valid": 12_345}, "valid")
    '12,345'
    >>> count_text({"valid": math.inf, "log10": {"valid": 2411.3}}, "valid")
    'about 2.0e+2411'
    """
    count = counted[name]
    if count == math.inf:
        return f"about {_power_text(counted['log10'][name])}"
    return f"{count:,}" if isinstance(count, int) else f"about {count:.3g}"


def share_text(counted: dict[str, Any]) -> str:
    """The share of the valid among the possible in per cent, also where it is smaller than any float.

    >>> share_text({"valid": 1, "possible": 8})
    '12 %'
    >>> share_text({"valid": math.inf, "possible": math.inf, "log10": {"valid": 1000.0, "possible": 2000.5}})
    '3.2e-999 %'
    >>> share_text({"valid": 8, "possible": 8})
    '100 %'
    """
    if "log10" in counted:
        log10 = counted["log10"]["valid"] - counted["log10"]["possible"] + 2
        if log10 <= -300:
            return f"{_power_text(log10)} %"
        percent = 10**log10
    else:
        percent = 100 * counted["valid"] / counted["possible"]
    return f"{percent:.2g} %" if percent < 99.5 else f"{percent:.0f} %"


def _power_text(log10: float) -> str:
    whole, rest = divmod(log10, 1)
    return f"{min(10**rest, 9.9):.1f}e{int(whole):+d}"
