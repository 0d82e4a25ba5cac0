"""`xmen check`: can the rules hold together, and do demonstrations keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xmen.cli._output import MISTAKE, NO, YES, print_facts, print_json, print_table, working
from xmen.errors import EngineError, InfeasibleError, TrajectoryError
from xmen.problem import Problem, read_problem
from xmen.worlds import Trajectory, read_demos

MOST_SHOWN = 20  # broken rules printed; --json has all of them


def run_check(path: Path, demos: Path | None, as_json: bool) -> int:
    """Print the report; the exit code says whether all is well."""
    problem = read_problem(path)
    report: dict[str, Any] = {"problem": str(path), "rules": list(problem.rules)}
    if demos is not None:
        report["demonstrations"] = check_demonstrations(problem, demos)
    with working("multiplying the world and the rules"):
        report |= check_rules(problem)
    if report["feasible"] is None and report.get("demonstrations", {}).get("valid"):
        report |= {"feasible": True, "message": "a demonstration keeps all rules"}
    print_json(report) if as_json else _print(report)
    if report["feasible"] is False or report.get("demonstrations", {}).get("violations"):
        return NO
    return MISTAKE if report["feasible"] is None else YES


def check_rules(problem: Problem) -> dict[str, Any]:
    """Whether some trajectory keeps all rules: True, False with the conflict, or None when no engine could tell."""
    from xmen.cli.engines import sizes

    try:
        d = problem.distribution(engine="auto")
    except InfeasibleError as error:
        return {"feasible": False, "conflict": list(error.conflict), "message": str(error)}
    except EngineError as error:
        return {"feasible": None, "message": str(error)}
    return {"feasible": True, "engine": d.engine, "message": d.reason, "sizes": sizes(d)}


def check_demonstrations(problem: Problem, path: Path) -> dict[str, Any]:
    """Every rule that a demonstration breaks, and the position from which on nothing could save it."""
    demos = read_demos(path)
    if not demos:
        raise TrajectoryError(f"{path}: there are no demonstrations in this file")
    found = [violation for index, demo in enumerate(demos) for violation in _violations(problem, index, demo)]
    broken = {violation["demonstration"] for violation in found}
    return {"file": str(path), "number": len(demos), "valid": len(demos) - len(broken), "violations": found}


def _violations(problem: Problem, index: int, demo: Trajectory) -> list[dict[str, Any]]:
    impossible = problem.world.problem(demo)
    if impossible is not None:
        position, message = impossible
        return [{"demonstration": index, "constraint": None, "position": position, "message": message}]
    explained = [(name, rule.explain(demo)) for name, rule in problem.rules.items()]
    return [
        {"demonstration": index, "constraint": name, "position": violation.position, "message": str(violation)}
        for name, violation in explained
        if violation is not None
    ]


def _print(report: dict[str, Any]) -> None:
    facts = {"rules": "; ".join(report["rules"]) or "none"}
    if report["feasible"]:
        facts["feasible"] = f"yes: {report['message']}"
    elif report["feasible"] is None:
        facts["feasible"] = f"could not be decided: {report['message']}"
    else:
        facts["feasible"] = f"no: {report['message']}"
        facts["conflict"] = "; ".join(report["conflict"]) or "the world alone"
    demos = report.get("demonstrations")
    if demos:
        facts["demonstrations"] = f"{demos['valid']} of {demos['number']} in {demos['file']} keep all rules"
    print_facts(facts)
    if demos and demos["violations"]:
        shown = demos["violations"][:MOST_SHOWN]
        more = len(demos["violations"]) - len(shown)
        title = "what they break" + (f" (the first {MOST_SHOWN}, {more} more: see --json)" if more else "")
        rows = [
            (
                violation["demonstration"],
                violation["constraint"] or f"the world: {violation['message']}",
                violation["position"],
            )
            for violation in shown
        ]
        print_table(title, ["demonstration", "constraint", "lost at position"], rows)
