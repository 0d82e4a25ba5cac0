"""`xmen engines`: what can answer, and for one problem what will, why, and at what cost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from xmen.cli._output import print_facts, print_json, print_table, working
from xmen.cli._subject import open_problem
from xmen.engines.choose import ENGINES
from xmen.engines.distribution import Distribution
from xmen.errors import EngineError, XmenError
from xmen.oracles import installed_oracles
from xmen.processes import Child, listening
from xmen.registry import LEARNERS

# ---- How long an engine takes, measured in a process that ends itself when a timing takes too long.
#
# Solvers may think for minutes inside one call, where no exception reaches them: only the end of the process does.


Result = TypeVar("Result")

N_SAMPLES = 100  # drawn to see how long it takes
REPEAT_BELOW = 2.0  # seconds; what is quicker is timed again, without compilation on first use
BUILD, GRADIENT, SAMPLES = "build", "gradient", f"{N_SAMPLES} samples"
FACTS = "facts"  # what a built engine says about itself
DONE = "done"
ENDED_ITSELF = -signal.SIGALRM if hasattr(signal, "SIGALRM") else 1


def measure(path: Path, engine: str, limit: float) -> tuple[dict[str, Any], dict[str, float | None]]:
    """What the engine of this problem says about itself, and seconds by stage: None is more than `limit`.

    Each of the stages has the limit for itself. A stage that took too long does not hide the next: another process
    builds the engine again and goes on.
    """
    facts: dict[str, Any] = {}
    seconds: dict[str, float | None] = dict.fromkeys((BUILD, GRADIENT, SAMPLES))
    remaining = [GRADIENT, SAMPLES]
    while remaining:
        for stage, answer in _child(path, engine, limit, remaining):
            if isinstance(answer, Exception):
                raise answer
            if stage == FACTS:
                facts = answer
            else:
                seconds[stage] = answer
            if stage in remaining:
                remaining.remove(stage)
        if not facts:  # even building took too long
            break
        remaining = remaining[1:]  # without the one that took too long
    return facts, seconds


def _child(path: Path, engine: str, limit: float, stages: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """What the process says, until it has said all, or has ended itself."""
    child = Child("xmen.cli.engines")
    try:
        child.send((path, engine, limit, list(stages)))
        while (said := child.receive()) != DONE:
            yield said
    except EOFError:
        if child.wait() != ENDED_ITSELF:
            raise EngineError(
                f"the {engine} engine could not be timed: its process died. Out of memory, or killed?"
            ) from None
    finally:
        child.kill()


def serve() -> None:
    """The process: build, say what was built, and time one stage after the other."""
    with listening() as (questions, say):
        for path, engine, limit, stages in questions:
            try:
                _run(path, engine, limit, stages, lambda stage, answer: say((stage, answer)))
            except (XmenError, OSError) as error:
                say(("error", error))
            say(DONE)


def _describe(d: Distribution) -> dict[str, Any]:
    """What an engine says about itself once it is built."""
    return {
        "engine": d.engine,
        "reason": d.reason,
        "sizes": d.sizes(),
        "guarantee": d.guarantee._asdict(),
    }


def _run(path: Path, engine: str, limit: float, stages: list[str], say: Callable[[str, Any], None]) -> None:
    problem = open_problem(path)
    with _ending_after(limit):
        seconds, d = _timed(lambda: problem.distribution(engine=engine))
    say(BUILD, seconds)
    with _ending_after(limit):
        say(FACTS, _describe(d))
    work: dict[str, Callable[[], object]] = {
        GRADIENT: lambda: d.with_reward(problem.reward).visits(),
        SAMPLES: lambda: d.sample(N_SAMPLES, seed=0),
    }
    for stage in stages:
        with _ending_after(limit):
            seconds, _ = _timed(work[stage])
        if seconds < REPEAT_BELOW:
            with _ending_after(limit):
                seconds, _ = _timed(work[stage])
        say(stage, seconds)


@contextmanager
def _ending_after(limit: float) -> Iterator[None]:
    """End this process, whatever it is doing, if the block takes longer."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, limit)
        yield
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        return
    timer = threading.Timer(limit, os._exit, [1])
    timer.start()
    yield
    timer.cancel()


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


# ---- `xmen engines`: what can answer, and for one problem what will, why, and at what cost


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
