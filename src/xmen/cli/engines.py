"""`xmen engines`: what can answer, and for one problem what will, why, and at what cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from xmen.cli._output import print_facts, print_json, print_table, working
from xmen.cli._subject import open_problem
from xmen.engines.choose import ENGINES
from xmen.engines.distribution import Distribution
from xmen.errors import EngineError, OracleTimeoutError
from xmen.oracles import installed_oracles
from xmen.problem import Problem
from xmen.progress import listening
from xmen.registry import LEARNERS

Result = TypeVar("Result")
N_SAMPLES = 100  # drawn to see how long it takes
REPEAT_BELOW = 2.0  # seconds; what is quicker is timed again, without compilation on first use
BUILD, GRADIENT, SAMPLES = "build", "gradient", f"{N_SAMPLES} samples"


def measure(problem: Problem, engine: str, limit: float) -> tuple[Distribution | None, dict[str, float | None]]:
    """The engine of this problem, None where it was not built in time, and seconds by stage: None is above `limit`.

    Each stage has the limit for itself, and so has each call of a solver.
    """
    seconds: dict[str, float | None] = dict.fromkeys((BUILD, GRADIENT, SAMPLES))
    seconds[BUILD], d = _timed(lambda: problem.distribution(engine=engine, time_limit=limit), limit)
    if d is None or seconds[BUILD] is None:
        return d, seconds
    stages: dict[str, Callable[[], object]] = {
        GRADIENT: lambda: d.with_reward(problem.reward).visits(),
        SAMPLES: lambda: d.sample(N_SAMPLES, seed=0),
    }
    for stage, work in stages.items():
        first = _timed(work, limit)[0]
        seconds[stage] = first if first is None or first >= REPEAT_BELOW else _timed(work, limit)[0]
    return d, seconds


class _TooLongError(Exception):
    """A stage that took longer than it may."""


def _timed(work: Callable[[], Result], limit: float) -> tuple[float | None, Result | None]:
    """Seconds and the result: None above the limit, which is looked at whenever the work says how far it is."""
    began = time.perf_counter()

    def look(line: str) -> None:
        if time.perf_counter() - began > limit:
            raise _TooLongError

    with warnings.catch_warnings(action="ignore"), listening(look):  # of tasks that were cancelled, say
        try:
            result = work()
        except (_TooLongError, OracleTimeoutError):
            return None, None
    taken = time.perf_counter() - began
    return taken if taken <= limit else None, result


def show_installed(as_json: bool) -> None:
    """The engines, the oracles of the XOR engine with the versions of their solvers, and the learners."""
    engines = {name: text for name, (_, text) in ENGINES.items()}
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
        d, seconds = measure(problem, engine, limit)
    world = problem.world
    report: dict[str, Any] = {
        "problem": str(path),
        "engine": engine if d is None else d.engine,
        "reason": f"asked for, and not built within {limit:g} s" if d is None else d.reason,
        "setting": problem.settings.engine,
        "world": {
            "states": world.n_states,
            "actions": world.n_actions,
            "transitions": len(world.source),
            "longest": world.max_length,
        },
        "rules": list(problem.rules),
        "sizes": {} if d is None else d.sizes(),
        "guarantee": None if d is None else d.guarantee._asdict(),
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
