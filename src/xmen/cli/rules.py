"""`xmen rules`: which rules the demonstrations keep, and how sure that is."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from xmen.answers import rule_search
from xmen.cli._output import check_target, print_facts, print_json, print_notes, print_table, working
from xmen.cli._subject import open_problem
from xmen.cli.plot import DPI, SUFFIXES
from xmen.plots.graph import plot_rules
from xmen.problem import demo_weights
from xmen.problem.problem import append_rules
from xmen.rules.inference import RuleInference
from xmen.rules.report import TITLES
from xmen.worlds import read_demos

MOST_SHOWN = 6  # candidates of each kind; --json has all of them


def run_rules(
    path: Path, demos: Path | None, out: Path | None, held_out: Path | None, as_json: bool, **asked: Any
) -> None:
    """Search, report, and add what was found to the problem file if asked to."""
    write, bootstrap = asked.pop("write"), asked.pop("bootstrap")
    if out is not None:
        check_target(out, SUFFIXES, "pictures")
    problem = open_problem(path, demos)
    trajectories = problem.demos()
    others = None if held_out is None else read_demos(held_out, problem.world)
    model = rule_search(problem, **asked)
    with working("trying rules"):
        model.fit(trajectories, sample_weight=demo_weights(trajectories))
    if bootstrap and model.rules_:
        with working("trying again on bootstrap samples"):
            model.stability(bootstrap)
    verdicts = model.verdicts()
    found = [asdict(one) for one in verdicts if one.status == "found"]
    if hasattr(model, "stability_"):
        for one, share in zip(found, model.stability_.tolist(), strict=True):
            one["again"] = share
    if others:
        for one, rule in zip(found, model.rules_, strict=True):
            kept = getattr(rule, "rule", rule).accepts  # of one that is usually kept, the rule itself
            one["held_out"] = sum(map(kept, others)) / len(others)
    report: dict[str, Any] = {
        "problem": str(path),
        "demonstrations": len(trajectories),
        "known": list(problem.rules),
        "candidates": model.n_candidates_,
        "level": model.level,
        "least_gain": model.least_gain_,
        "rules": found,
        "others": [asdict(one) for one in verdicts if one.status != "found"],
        "undecided": [
            {"rule": one.rule, "gain": one.gain, "more_demonstrations": one.more}
            | {"example": None if one.example is None else list(one.example.states), "message": str(one)}
            for one in model.undecided()
        ],
    }
    if write:
        new = {one["rule"]: _evidence(one, model, len(trajectories)) for one in found}
        report["written"] = append_rules(path, problem, new) if new else []
    if out is not None and model.rules_:
        figure = Figure(figsize=(7.5, 1.8 + 0.45 * len(model.rules_)), layout="constrained")
        plot_rules(model, others, figure.subplots())
        figure.savefig(out, dpi=DPI)
        report["picture"] = str(out)
    print_json(report) if as_json else _print(report)
    if out is not None and not model.rules_:
        print_notes(["no rule was found, so there is no picture"])


def _evidence(found: dict[str, Any], model: RuleInference, n_demos: int) -> list[str]:
    """The comments that go above a rule in the file."""
    kept = f"all {n_demos}" if found["kept"] == 1.0 else f"{found['kept']:.1%} of {n_demos}"
    lines = [
        f"Found by xmen rules: {kept} demonstrations keep it, a gain of {_gain(found)} nats each; one of",
        f"{model.n_candidates_} candidates would gain as much by chance with probability {found['chance']:.1e}.",
    ]
    if "again" in found:
        lines.append(f"Bootstrap samples of the demonstrations find it again in {found['again']:.0%} of the cases.")
    return lines


def _print(report: dict[str, Any]) -> None:
    facts = {
        "demonstrations": f"{report['demonstrations']:,}",
        "known rules": "; ".join(report["known"]) or "none",
        "candidates": f"{report['candidates']:,}, of which {len(report['rules'])} are rules of the demonstrator",
        "level": f"{report['level']:g}: a gain of {report['least_gain']:.3f} nats per demonstration or more, each "
        f"{math.exp(report['least_gain']):.3g} times as likely",
    }
    print_facts(facts)
    if report["rules"]:
        columns = {"again": "found again", "held_out": "held out"}
        extra = [(key, title) for key, title in columns.items() if key in report["rules"][0]]
        header = ["rule", "gain", "chance", "kept", *(title for _, title in extra)]
        keys = ["kept", *(key for key, _ in extra)]
        rows = [
            (one["rule"], _gain(one), f"{one['chance']:.1e}", *(f"{one[key]:.0%}" for key in keys))
            for one in report["rules"]
        ]
        print_table("rules that were found", header, rows)
    for status, title in TITLES.items():
        rows = [(one["rule"], _known(one)) for one in report["others"] if one["status"] == status]
        if rows:
            print_table(title, ["rule", "what is known"], rows, most=MOST_SHOWN)
    print_notes([one["message"] for one in report["undecided"]])
    if "written" in report:
        n = len(report["written"])
        written = f"{n} rules to {report['problem']}" if n else f"nothing: {report['problem']} is as it was"
        print_facts({"written": written})
    if "picture" in report:
        print_facts({"picture": report["picture"]})


def _known(one: dict[str, Any]) -> str:
    significance = one["status"] == "not significant" and one["gain"] is not None
    return f"gain {_gain(one)}, chance {one['chance']:.1e}" if significance else str(one["note"])


def _gain(one: dict[str, Any]) -> str:
    return f"about {one['gain']:.3f}" if one["estimated"] else f"{one['gain']:.3f}"
