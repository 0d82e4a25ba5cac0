"""The live status of a document: what is wrong in it, what is still possible, and what demonstrations break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers.checking import (
    check_demonstrations,
    check_promise,
    check_rules,
    count_text,
    learning_notes,
    share_text,
)
from xmen.errors import XmenError
from xmen.problem import Mistake, Problem, known_features
from xmen.studio.document import Document
from xmen.studio.settings import read_settings
from xmen.studio.words import Unreadable, from_words
from xmen.worlds import Trajectory
from xmen.worlds.names import Names

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
    verdicts = judge(problem, document.demonstrations)
    yield {"demonstrations": verdicts}
    found, d = check_rules(problem)
    if found["feasible"] is None and any(one["valid"] for one in verdicts):
        found |= {"feasible": True, "message": "a demonstration keeps all rules"}
    yield _rules_part(found)
    if not problem.world.deterministic or np.count_nonzero(problem.world.start) > 1:
        promised = check_promise(problem, found["feasible"])
        yield {"policy": {"best": None, "message": "", **promised}}
    if d is not None and len(verdicts) <= MOST_NOTED:
        valid = [demo for demo, one in zip(read_all(problem, document), verdicts, strict=True) if one["valid"]]
        yield {"notes": learning_notes(problem, d, [demo for demo in valid if demo is not None])}


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


def read_all(problem: Problem, document: Document) -> list[Trajectory | None]:
    """The demonstrations as trajectories; None where the world has no such states or moves."""
    names = Names(problem.world)
    found: list[Trajectory | None] = []
    for record in document.demonstrations:
        try:
            found.append(from_words(record, names))
        except XmenError:
            found.append(None)
    return found


def judge(problem: Problem, records: Sequence[dict[str, Any]]) -> list[Report]:
    """For each trajectory in words whether it is valid, and everything that it breaks."""
    names = Names(problem.world)
    verdicts: list[Report] = [{"valid": True, "broken": []} for _ in records]
    readable: list[Trajectory] = []
    numbers: list[int] = []
    for index, record in enumerate(records):
        try:
            readable.append(from_words(record, names))
            numbers.append(index)
        except Unreadable as error:
            verdicts[index] = _broken(None, error.position, str(error))
        except XmenError as error:
            verdicts[index] = _broken(None, 0, str(error))
    if readable:
        for one in check_demonstrations(problem, readable)["violations"]:
            verdict = verdicts[numbers[one["demonstration"]]]
            verdict["valid"] = False
            verdict["broken"].append(
                {"rule": one["constraint"], "position": one["position"], "message": one["message"]}
            )
    return verdicts


def _broken(rule: str | None, position: int, message: str) -> Report:
    return {"valid": False, "broken": [{"rule": rule, "position": position, "message": message}]}
