"""What a search for rules has found, as a model keeps it: columns and constraints, without the demonstrations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from xmen.learners.xmen import XMEN
from xmen.rules.evidence import Level
from xmen.rules.report import STATUSES, Contender, Report, Verdict
from xmen.storage.codec import saveable
from xmen.storage.models import content, make

OF_BOTH = ("world", "features")  # settings of the search that its model has as well: saved once

Row = TypeVar("Row")


def saved_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a search, with the names of templates that are functions."""
    templates = settings["templates"]
    listed = templates if templates is None or isinstance(templates, str) else [saveable(one) for one in templates]
    return {**settings, "templates": listed}


def pack_model(model: XMEN, shared: Mapping[str, Any]) -> dict[str, Any]:
    """The model under the rules, as settings and learned values, next to the settings of the search."""
    name, settings, learned = content(model)
    own = {key: value for key, value in settings.items() if key not in OF_BOTH or value is not shared[key]}
    return {"class": name, "settings": own, "learned": learned}


def unpack_model(packed: Mapping[str, Any], shared: Mapping[str, Any]) -> XMEN:
    """The model again, on the world and the features of the search where it has none of its own."""
    settings = {**{key: shared[key] for key in OF_BOTH}, **packed["settings"]}
    model = make(packed["class"], settings, packed["learned"])
    if not isinstance(model, XMEN):
        raise TypeError(f"the model under the rules is a {type(model).__name__}")
    return model


def pack_report(report: Report) -> dict[str, Any]:
    """The report as columns."""
    return {
        "verdicts": _columns(report.verdicts, Verdict),
        "level": _columns([report.level], Level),
        "contenders": _columns(report.contenders, Contender),
        "pairs": report.pairs,
    }


def unpack_report(packed: Mapping[str, Any]) -> Report:
    """The report again, if it is one that a search can have."""
    verdicts, (level,) = _rows(packed["verdicts"], Verdict), _rows(packed["level"], Level)
    pairs = [(int(start), int(goal)) for start, goal in packed["pairs"]]
    report = Report(verdicts, level, _rows(packed["contenders"], Contender), pairs)
    whole = all(one.gain is not None and one.chance is not None for one in report.found)
    if not whole or not all(one.status in STATUSES for one in verdicts) or len(verdicts) != level.m or not level.n > 0:
        raise ValueError("these are not the verdicts of one search")
    return report


def _columns(rows: Iterable[Any], kind: type) -> dict[str, list[Any]]:
    rows = list(rows)
    return {field.name: [getattr(row, field.name) for row in rows] for field in fields(kind)}


def _rows(columns: Mapping[str, list[Any]], kind: type[Row]) -> list[Row]:
    """Records of a kind, every field of its type."""
    types = {name: int | float if hint is float else hint for name, hint in get_type_hints(kind).items()}
    if {*columns} != {*types}:
        raise ValueError(f"a {kind.__name__} has {', '.join(types)}, not {', '.join(columns)}")
    rows = [dict(zip(types, row, strict=True)) for row in zip(*(columns[name] for name in types), strict=True)]
    for row in rows:
        for name, wanted in types.items():
            if not isinstance(row[name], wanted):
                raise TypeError(f"{name} of a {kind.__name__} is {row[name]!r:.60}")
    return [kind(**row) for row in rows]
