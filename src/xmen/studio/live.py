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
    lists: Report = {name: [] for name in ("errors", "conflict", "demonstrations", "features", "notes")}
    return lists | dict.fromkeys(("feasible", "engine", "trajectories", "product", "policy")) | {"message": ""}


def check(document: Document, path: Path) -> Iterator[Report]:
    """What is known of a document, in parts: the quick ones first, and they stay if the rest takes too long."""
    problem, mistakes = document.read(path)
    try:
        read_settings(document.problem.get("studio", {}))
    except XmenError as error:
        mistakes.append(Mistake("studio", str(error)))
    facts = [asdict(one).items() for one in mistakes]
    yield {"errors": [{key: fact for key, fact in one if fact is not None or key == "offset"} for one in facts]}
    if problem is None:
        unknown: list[Report] = [{"valid": None, "broken": []} for _ in document.demonstrations]
        yield {"message": "the world is not complete yet", "demonstrations": unknown}
        return
    known = known_features(problem.world, problem.events)
    yield {"features": [{"name": name, "sentence": sentence} for name, sentence in known.items()]}
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


def _rules_part(found: Report) -> Report:
    counted, sizes = found.get("trajectories"), found.get("sizes", {})
    part: Report = {name: found.get(name) for name in ("feasible", "conflict", "message", "engine")}
    part["conflict"] = part["conflict"] or []
    if "product nodes" in sizes:
        part["product"] = {"nodes": sizes["product nodes"], "edges": sizes.get("product edges")}
    if counted is not None and counted.get("valid") is not None:
        valid, possible = counted["valid"], counted.get("possible")
        part["trajectories"] = {
            "valid": valid,
            "possible": possible,
            "text": count_text(counted, "valid") + (f" of {count_text(counted, 'possible')}" if possible else ""),
            "share": valid / possible if possible and "log10" not in counted else None,
            "share_text": share_text(counted) if possible else None,
            "log10": counted.get("log10"),
        }
    return part


def judge(problem: Problem, trajectories: Sequence[Trajectory | Unreadable]) -> list[Report]:
    """For each trajectory whether it is valid, and everything that it breaks."""
    broken: list[list[Report]] = [
        [{"rule": None, "position": one.position, "message": str(one)}] if isinstance(one, Unreadable) else []
        for one in trajectories
    ]
    readable = {index: one for index, one in enumerate(trajectories) if isinstance(one, Trajectory)}
    if readable:
        numbers = list(readable)
        for found in check_demonstrations(problem, list(readable.values()))["violations"]:
            place = {"rule": found["constraint"], "position": found["position"], "message": found["message"]}
            broken[numbers[found["demonstration"]]].append(place)
    return [{"valid": not one, "broken": one} for one in broken]


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
