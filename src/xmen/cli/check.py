"""`xmen check`: can the rules hold together, do demonstrations keep them, and can weights be learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xmen.answers import (
    check_demonstrations,
    check_promise,
    check_rules,
    cost_notes,
    count_text,
    failure_notes,
    learning_notes,
    never_notes,
    rule_notes,
    share_text,
)
from xmen.cli._output import MISTAKE, NO, YES, print_facts, print_json, print_notes, print_table, working
from xmen.cli._subject import open_problem

MOST_SHOWN = 5  # demonstrations in detail; --json has all of them


def run_check(path: Path, demos: Path | None, as_json: bool) -> int:
    """Print the report; the exit code says whether all is well."""
    problem = open_problem(path, demos)
    report: dict[str, Any] = {"problem": str(path), "rules": list(problem.rules)}
    missing = demos is None and problem.demonstrations is not None and not problem.demonstrations.exists()
    trajectories = problem.demos() if problem.demonstrations is not None and not missing else []
    if trajectories:
        report["demonstrations"] = check_demonstrations(problem, trajectories)
    elif missing:
        report["demonstrations"] = {"file": str(problem.demonstrations), "missing": True}
    with working("multiplying the world and the rules"):
        found, d = check_rules(problem)
    report |= found
    if report["feasible"] is None and report.get("demonstrations", {}).get("valid"):
        report |= {"feasible": True, "message": "a demonstration keeps all rules"}
    with working("asking what a policy can promise"):
        report["policy"] = check_promise(problem, report["feasible"])
    broken = bool(report.get("demonstrations", {}).get("violations"))
    with working("looking at the features"):
        report["notes"] = [] if d is None else learning_notes(problem, d, [] if broken else trajectories)
    report["notes"] += rule_notes(problem, problem.rules) + never_notes(problem) + cost_notes(problem)
    if broken:
        report["notes"] += failure_notes(problem, report["demonstrations"])
    print_json(report) if as_json else _print(report)
    if missing:
        print_notes([f"the demonstrations that {path} names are missing: {problem.demonstrations}"])
    if report["feasible"] is False or broken:
        return NO
    return MISTAKE if report["feasible"] is None or missing else YES


def _print(report: dict[str, Any]) -> None:
    facts = {"rules": "; ".join(report["rules"]) or "none"}
    if report["feasible"]:
        facts["feasible"] = "yes" if report.get("engine") == "exact" else f"yes: {report['message']}"
    elif report["feasible"] is None:
        facts["feasible"] = f"could not be decided: {report['message']}"
    else:
        facts["feasible"] = f"no: {report['message']}"
        facts["conflict"] = "; ".join(report["conflict"]) or "the world alone"
    if "product nodes" in report.get("sizes", {}):
        sizes = report["sizes"]
        edges = f", {sizes['product edges']:,} edges" if "product edges" in sizes else ""
        facts["product"] = f"{sizes['product nodes']:,} nodes{edges} (world times rules)"
    promise = report["policy"]
    facts["sure policy"] = "yes: the rules can be kept whatever chance does"
    if promise["sure"] is None:
        facts["sure policy"] = f"could not be decided: {promise['message']}"
    elif not promise["sure"]:
        facts["sure policy"] = f"no: {promise['message']}; the best probability is {promise['best']:.6g}"
    counted = report.get("trajectories", {})
    if counted.get("valid") is not None:
        facts["trajectories"] = f"{count_text(counted, 'valid')} are valid"
        if counted.get("possible"):
            facts["trajectories"] += f", {share_text(counted)} of {count_text(counted, 'possible')} possible ones"
    demos = report.get("demonstrations")
    if demos and "missing" in demos:
        facts["demonstrations"] = f"not checked: {demos['file']} is missing"
    elif demos:
        facts["demonstrations"] = f"{demos['valid']} of {demos['number']} in {demos['file']} keep all rules"
    print_facts(facts)
    if demos and demos.get("violations"):
        _print_violations(demos)
    print_notes(report["notes"])


def _print_violations(demos: dict[str, Any]) -> None:
    """A row per rule; then the first demonstrations one by one, where that says more."""
    broken, violations = demos["broken"], demos["violations"]
    of = demos["number"]
    counts = [
        (_what(one), f"{one['demonstrations']} of {of}", f"{one['first']}, at position {one['position']}")
        for one in broken
    ]
    print_table("what they break", ["rule", "broken by", "first by demonstration"], counts)
    if len(violations) == len(broken) and all(one["constraint"] for one in broken):
        return
    rows = [
        (one["demonstration"], one["constraint"] or f"{_what(one)}: {one['message']}", one["position"])
        for one in violations
    ]
    print_table("one by one", ["demonstration", "rule", "lost at position"], rows, most=MOST_SHOWN)


def _what(broken: dict[str, Any]) -> str:
    """What a demonstration breaks: a rule by its name, or what the world asks of it."""
    return broken["constraint"] or ("arriving in time" if broken.get("unfinished") else "the world")
