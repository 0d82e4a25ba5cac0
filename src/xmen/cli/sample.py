"""`xmen sample`: trajectories that keep every rule, printed or written to a file."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import typer

from xmen.cli._output import print_json, working
from xmen.errors import FileFormatError
from xmen.problem import read_problem
from xmen.worlds import MDP, GridWorld, Trajectory, write_demos
from xmen.worlds.from_networkx import GraphWorld


def run_sample(path: Path, n: int, seed: int | None, out: Path | None, engine: str | None, as_json: bool) -> None:
    """Draw n trajectories and say which engine drew them."""
    if out is not None:
        _check_target(out)  # before the work, not after it
    problem = read_problem(path)
    changes: dict[str, Any] = {"engine": engine, "seed": seed}
    with working(f"sampling {n:,} trajectories"):
        d = problem.distribution(**{name: value for name, value in changes.items() if value is not None})
        trajectories = d.sample(n)
    if out is not None:
        write_demos(trajectories, out)
    if as_json:
        report: dict[str, Any] = {
            "problem": str(path),
            "engine": d.engine,
            "guarantee": {"delta": d.guarantee.delta, "failure": d.guarantee.failure},
            "seed": problem.settings.seed if seed is None else seed,
            "number": len(trajectories),
        }
        if out is None:
            report["trajectories"] = [{"states": tau.states, "actions": tau.actions} for tau in trajectories]
        else:
            report["file"] = str(out)
        print_json(report)
    elif out is not None:
        typer.echo(f"{len(trajectories)} trajectories by the {d.engine} engine, all valid: {out}")
    else:
        for trajectory in trajectories:
            typer.echo(walk_text(problem.world, trajectory))


def walk_text(world: MDP, trajectory: Trajectory) -> str:
    """One line: the states, in the world's own words, and the action between two of them.

    >>> grid = GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    >>> walk_text(grid, Trajectory([0, 2, 3], [0, 1]))
    '(0, 0) up (0, 1) right (1, 1)'
    """
    states: list[object] = list(trajectory.states)
    arrows = [f"-{action}->" for action in trajectory.actions]
    if isinstance(world, GridWorld):
        states = [world.cell(state) for state in trajectory.states]
        arrows = [world.moves[action] for action in trajectory.actions]
    elif isinstance(world, GraphWorld):
        states = [world.node(state) for state in trajectory.states]
    steps = chain.from_iterable(zip(map(str, states[:-1]), arrows, strict=True))
    return " ".join([*steps, str(states[-1])])


def _check_target(out: Path) -> None:
    if out.suffix.lower() not in (".csv", ".jsonl"):
        raise FileFormatError(f"--out {out}: trajectories are written to .csv or .jsonl files")
    if not out.parent.is_dir():
        raise FileFormatError(f"--out {out}: there is no folder {str(out.parent)!r}; make it first")
