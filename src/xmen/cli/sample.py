"""`xmen sample`: trajectories of a problem or of a model, printed or written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import typer

from xmen.cli._output import NO, check_target, fail, print_json, working
from xmen.cli._subject import Subject, extra_rules, open_subject
from xmen.constraints.constraint import Constraint
from xmen.errors import EngineError, FileFormatError
from xmen.learners.causal import CausalXMEN
from xmen.worlds import MDP, Trajectory, write_demos
from xmen.worlds.demos import demos_csv

PRINTED = Path("-")  # --out -


def run_sample(
    path: Path,
    n: int,
    seed: int | None,
    out: Path | None,
    also: Sequence[str],
    engine: str | None,
    device: str | None,
    as_json: bool,
    best: int | None = None,
    names: bool = False,
    allow_invalid: bool = False,
) -> None:
    """Draw n trajectories, or find the `best` most likely ones, and say which engine did it."""
    printed = out == PRINTED
    if printed and as_json:
        raise FileFormatError("--out - prints CSV and --json prints JSON: leave one of them out")
    if out is not None and not printed:
        check_target(out, (".csv", ".jsonl"), "trajectories")  # before the work, not after it
    subject = open_subject(path).on(device)
    problem = subject.problem
    extra = extra_rules(also, problem)
    with working(f"sampling {n:,} trajectories" if best is None else "searching"):
        drawn = _draw(subject, n, best, extra, engine, seed)
    trajectories = drawn.trajectories
    n_valid = subject.n_valid(trajectories)
    if n_valid < len(trajectories) and drawn.by != "policy" and not allow_invalid:
        message = (
            f"{len(trajectories) - n_valid} of {len(trajectories)} trajectories break a rule: "
            f"{type(subject.model).__name__} knows no rules of the problem. Give them with --also, or take such "
            "trajectories with --allow-invalid."
        )
        fail(EngineError(message), message, NO, as_json)
    if out is not None and not printed:
        write_demos(trajectories, out, problem.world if names else None)
    if as_json:
        report: dict[str, Any] = {
            "problem" if subject.model is None else "model": str(path),
            "engine": drawn.by,
            "guarantee": drawn.guarantee,
            "seed": subject.seed if seed is None else seed,
            "also": list(also),
            "number": len(trajectories),
            "valid": n_valid,
            **({} if best is None else {"log_prob": drawn.log_prob}),
        }
        listed = [{"states": tau.states, "actions": tau.actions} for tau in trajectories]
        print_json(report | ({"trajectories": listed} if out is None else {"file": str(out)}))
        return
    how = "all valid"
    if n_valid < len(trajectories):
        why = "promises no more" if drawn.by == "policy" else "knows no rules of the problem"
        how = f"{n_valid} of them valid ({type(subject.model).__name__} {why})"
    if out is not None and not printed:
        by = "policy" if drawn.by == "policy" else f"{drawn.by} engine"
        typer.echo(f"{len(trajectories)} trajectories by the {by}, {how}: {out}")
        return
    if printed:
        typer.echo(demos_csv(trajectories, problem.world if names else None), nl=False)
    else:
        for trajectory in trajectories:  # line by line: a reader may leave before the last
            typer.echo(walk_text(problem.world, trajectory))
    if drawn.by != "policy" and not problem.world.deterministic:
        typer.echo("note: with chance these are lucky outcomes; what can be promised is in xmen plan", err=True)
    if n_valid < len(trajectories):
        typer.echo(f"note: {len(trajectories)} trajectories, {how}", err=True)


class Drawn(NamedTuple):
    """Trajectories, what drew them (an engine, or the policy of a causal model), and its guarantee."""

    trajectories: list[Trajectory]
    by: str
    guarantee: dict[str, float]
    log_prob: list[float] | None = None  # of the most likely ones


def _draw(
    subject: Subject, n: int, best: int | None, also: Constraint | None, engine: str | None, seed: int | None
) -> Drawn:
    """n draws, or the `best` most likely trajectories, most likely first."""
    if isinstance(subject.model, CausalXMEN):
        if best is not None:
            raise EngineError("--best ranks the trajectories of a distribution, and a causal model acts by its policy.")
        if engine is not None:
            raise EngineError("--engine is for distributions, and a causal model acts by its policy: leave it out.")
        policy = subject.model.policy(also, seed=seed)
        return Drawn(policy.rollout(n), "policy", {"validity": policy.validity})
    d = subject.distribution(also, engine, None if best is not None else seed)
    found = d.sample(n) if best is None else d.best(best)
    return Drawn(found, d.engine, d.guarantee._asdict(), None if best is None else list(map(d.log_prob, found)))


def walk_text(world: MDP, trajectory: Trajectory) -> str:
    """One line: the states, in the world's own words, and the action between two of them.

    >>> from xmen import GridWorld
    >>> grid = GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    >>> walk_text(grid, Trajectory([0, 2, 3], [0, 1]))
    '(0, 0) up (0, 1) right (1, 1)'
    """
    states = [world.state_name(state).strip("'") for state in trajectory.states]
    arrows = map(world.step_text, trajectory.states, trajectory.actions)
    return " ".join([*chain.from_iterable(zip(states, arrows, strict=False)), states[-1]])
