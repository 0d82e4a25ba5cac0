"""`xmen engines`: what can answer, and for one problem what will, why, and at what cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xmen.cli._output import print_facts, print_json, print_table, working
from xmen.cli._subject import open_problem
from xmen.cli._timing import BUILD, measure
from xmen.engines.choose import ENGINES
from xmen.errors import EngineError
from xmen.oracles import installed_oracles
from xmen.registry import LEARNERS


def show_installed(as_json: bool) -> None:
    """The engines, the oracles of the XOR engine with the versions of their solvers, and the learners."""

    engines = {name: engine.description for name, engine in ENGINES.items()}
    learners = {name: learner.description for name, learner in LEARNERS.items()}
    oracles = installed_oracles()  # a version, True where nothing has to be installed, False where something has
    if as_json:
        found = {
            name: {"installed": bool(version), "version": version if isinstance(version, str) else None}
            for name, version in oracles.items()
        }
        print_json({"engines": engines, "oracles": found, "learners": learners})
        return
    print_table("engines", ["engine", "what it does"], engines.items())
    rows = [
        (name, version if isinstance(version, str) else "built in" if version else "not installed")
        for name, version in oracles.items()
    ]
    print_table("oracles of the xor engine", ["oracle", "version"], rows)
    print_table("learners", ["learner", "what it learns"], learners.items())


def show_engine(path: Path, engine: str, limit: float, as_json: bool) -> None:
    """Which engine answers this problem, its sizes, and the time of a gradient and of some samples."""
    if not 0 < limit < float("inf"):
        raise EngineError(f"--limit {limit:g}: give seconds above 0")
    problem = open_problem(path)
    with working(f"building and timing, at most {limit:g} s each"):
        found, seconds = measure(path, engine, limit)
    world = problem.world
    report: dict[str, Any] = {
        "problem": str(path),
        "engine": found.get("engine", engine),
        "reason": found.get("reason", f"asked for, and not built within {limit:g} s"),
        "setting": problem.settings.engine,
        "world": {
            "states": world.n_states,
            "actions": world.n_actions,
            "transitions": len(world.source),
            "longest": world.max_length,
        },
        "rules": list(problem.rules),
        "sizes": found.get("sizes", {}),
        "guarantee": found.get("guarantee"),
        "seconds": seconds,
        "limit": limit,
    }
    print_json(report) if as_json else print_facts(_facts(report))


def _facts(report: dict[str, Any]) -> dict[str, str]:
    world, guarantee = report["world"], report["guarantee"]
    chosen = report["engine"]
    if report["setting"] not in ("auto", chosen):
        chosen += f' (the problem file asks for "{report["setting"]}")'
    facts = {
        "engine": chosen,
        "why": report["reason"],
        "world": f"{world['states']:,} states, {world['actions']:,} actions, {world['transitions']:,} transitions, "
        f"trajectories of at most {world['longest']:,} actions",
        "rules": "; ".join(report["rules"]) or "none",
        **{label: _shown(value) for label, value in report["sizes"].items()},
    }
    if guarantee is not None:
        bound = f"within a factor {guarantee['delta']:g}, except with probability {guarantee['failure']:g}"
        facts["samples"] = "exact" if guarantee["delta"] == 1.0 else bound
    return {**facts, "cost": _cost(report["seconds"], report["limit"])}


def _cost(seconds: dict[str, float | None], limit: float) -> str:
    """Every timing; what comes after an engine that could not be built in time is not mentioned."""
    known = seconds if seconds[BUILD] is not None else {BUILD: None}
    spelled = [
        f"{label} more than {limit:g} s" if value is None else f"{label} {value:.3g} s"
        for label, value in known.items()
    ]
    return ", ".join(spelled) + ("" if all(known.values()) else " (--limit gives more time)")


def _shown(value: object) -> str:
    match value:
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.3g}"
        case list():
            return "; ".join(map(str, value)) or "nothing"
    return str(value)
