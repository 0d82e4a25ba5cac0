"""The live status of a document: what is wrong in it, what is still possible, and what demonstrations break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers import (
    check_demonstrations,
    check_promise,
    check_rules,
    count_text,
    learning_notes,
    rule_notes,
    share_text,
)
from xmen.errors import TrajectoryError, XmenError
from xmen.problem import Mistake, Problem, known_features
from xmen.studio.document import Document, Unreadable, read_all
from xmen.studio.settings import read_settings
from xmen.worlds import Trajectory

Report = dict[str, Any]

MOST_NOTED = 2_000  # demonstrations up to which a live check looks at what can be learned from them


def empty_report() -> Report:
    """A report that says nothing yet."""
    return {
        "errors": [],
        "feasible": None,
        "conflict": [],
        "message": "",
        "engine": None,
        "trajectories": None,
        "product": None,
        "policy": None,
        "demonstrations": [],
        "features": [],
        "notes": [],
    }


def check(document: Document, path: Path) -> Iterator[Report]:
    """What is known of a document, in parts: the quick ones first, and they stay if the rest takes too long."""
    problem, mistakes = document.read(path)
    try:
        read_settings(document.problem.get("studio", {}))
    except XmenError as error:
        mistakes.append(Mistake("studio", str(error)))
    yield {"errors": [_plain(one) for one in mistakes]}
    if problem is None:
        unknown: list[Report] = [{"valid": None, "broken": []} for _ in document.demonstrations]
        yield {"message": "the world is not complete yet", "demonstrations": unknown}
        return
    features = [
        {"name": name, "sentence": text} for name, text in known_features(problem.world, problem.events).items()
    ]
    yield {"features": features}
    trajectories = read_all(problem.world, document.demonstrations)
    verdicts = judge(problem, trajectories)
    yield {"demonstrations": verdicts}
    found, d = check_rules(problem)
    if found["feasible"] is None and any(one["valid"] for one in verdicts):
        found |= {"feasible": True, "message": "a demonstration keeps all rules"}
    remarks = rule_notes(problem, problem.rules)
    yield {**_rules_part(found), "notes": remarks}
    if not problem.world.deterministic or np.count_nonzero(problem.world.start) > 1:
        promised = check_promise(problem, found["feasible"])
        yield {"policy": {"best": None, "message": "", **promised}}
    if d is not None and len(verdicts) <= MOST_NOTED:
        kept = [demo for _, demo in _kept(trajectories, verdicts)]
        yield {"notes": remarks + learning_notes(problem, d, kept)}


def _plain(mistake: Mistake) -> Report:
    return {key: value for key, value in asdict(mistake).items() if value is not None or key == "offset"}


def _rules_part(found: Report) -> Report:
    counted = found.get("trajectories")
    sizes = found.get("sizes", {})
    part: Report = {
        "feasible": found["feasible"],
        "conflict": found.get("conflict", []),
        "message": found["message"],
        "engine": found.get("engine"),
    }
    if "product nodes" in sizes:
        part["product"] = {"nodes": sizes["product nodes"], "edges": sizes.get("product edges")}
    if counted is not None and counted.get("valid") is not None:
        part["trajectories"] = count_part(counted)
    return part


def count_part(counted: Report) -> Report:
    """Numbers of trajectories, and the words for them."""
    valid, possible = counted["valid"], counted.get("possible")
    text = count_text(counted, "valid")
    share = None
    if possible:
        text += f" of {count_text(counted, 'possible')}"
        share = None if "log10" in counted else valid / possible
    return {
        "valid": valid,
        "possible": possible,
        "text": text,
        "share": share,
        "share_text": share_text(counted) if possible else None,
        "log10": counted.get("log10"),
    }


def judge(problem: Problem, trajectories: Sequence[Trajectory | Unreadable]) -> list[Report]:
    """For each trajectory whether it is valid, and everything that it breaks."""
    verdicts: list[Report] = []
    readable: dict[int, Trajectory] = {}
    for index, one in enumerate(trajectories):
        if isinstance(one, Unreadable):
            verdicts.append({"valid": False, "broken": [_broken(None, one.position, str(one))]})
        else:
            verdicts.append({"valid": True, "broken": []})
            readable[index] = one
    if readable:
        numbers = list(readable)
        for found in check_demonstrations(problem, list(readable.values()))["violations"]:
            verdict = verdicts[numbers[found["demonstration"]]]
            verdict["valid"] = False
            verdict["broken"].append(_broken(found["constraint"], found["position"], found["message"]))
    return verdicts


def valid_ones(problem: Problem, document: Document) -> tuple[list[Trajectory], list[float], list[int]]:
    """The demonstrations that can be learned from, their weights, and the numbers of the others."""
    read = read_all(problem.world, document.demonstrations)
    verdicts = judge(problem, read)
    left_out = [index for index, one in enumerate(verdicts) if not one["valid"]]
    kept = _kept(read, verdicts)
    if not kept:
        raise TrajectoryError("there is no demonstration that keeps all rules: draw one, or switch a rule off")
    weights = [document.demonstrations[index]["weight"] for index, _ in kept]
    return [demo for _, demo in kept], weights, left_out


def _kept(read: Sequence[Trajectory | Unreadable], verdicts: Sequence[Report]) -> list[tuple[int, Trajectory]]:
    """Those that are valid, with their numbers."""
    found = enumerate(zip(read, verdicts, strict=True))
    return [(index, one) for index, (one, verdict) in found if verdict["valid"] and isinstance(one, Trajectory)]


def _broken(rule: str | None, position: int, message: str) -> Report:
    return {"rule": rule, "position": position, "message": message}
