"""`xmen check` and `xmen engines`: do rules and demonstrations hold together, what answers, at what cost."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from xmen import answers
from xmen.cli._output import MISTAKE, NO, YES, print_facts, print_json, print_notes, print_table, working
from xmen.cli._subject import open_problem
from xmen.engines.choose import ENGINES
from xmen.errors import EngineError, OracleTimeoutError
from xmen.oracles import installed_oracles
from xmen.progress import listening
from xmen.registry import LEARNERS
from xmen.worlds.demos import write_demos

Result = TypeVar("Result")
MOST_SHOWN = 5  # demonstrations in detail; --json has all of them


def run_check(path: Path, demos: Path | None, repair: Path | None, as_json: bool) -> int:
    """Print the report; the exit code says whether all is well."""
    problem = open_problem(path, demos)
    report: dict[str, Any] = {"problem": str(path), "rules": list(problem.rules)}
    missing = demos is None and problem.demonstrations is not None and not problem.demonstrations.exists()
    trajectories = problem.demos() if problem.demonstrations is not None and not missing else []
    with working("multiplying the world and the rules"):
        found, d = answers.check_rules(problem)
    if trajectories:
        report["demonstrations"] = answers.check_demonstrations(problem, trajectories, d)
    elif missing:
        report["demonstrations"] = {"file": str(problem.demonstrations), "missing": True}
    report |= found
    if report["feasible"] is None and report.get("demonstrations", {}).get("valid"):
        report |= {"feasible": True, "message": "a demonstration keeps all rules"}
    if repair is not None and trajectories and report["feasible"]:
        with working("mending the demonstrations"):
            mended = answers.mend_demonstrations(problem, trajectories, report["demonstrations"]["violations"])
        write_demos(mended["demonstrations"], repair, problem.world)
        report["repaired"] = {"file": str(repair), "changed": mended["changed"]}
    with working("asking what a policy can promise"):
        report["policy"] = answers.check_promise(problem, report["feasible"])
    broken = bool(report.get("demonstrations", {}).get("violations"))
    with working("looking at the features"):
        report["notes"] = [] if d is None else answers.learning_notes(problem, d, [] if broken else trajectories)
    if report["feasible"] is not False or report["conflict"]:  # in a world that cannot be, nothing can
        report["notes"] += answers.rule_notes(problem, problem.rules) + answers.part_notes(problem)
    checked = report.get("demonstrations", {}) if not problem.world.deterministic else {}
    lost = [one for one in checked.get("violations", []) if one["constraint"] or one.get("unfinished")]
    if failed := {one["demonstration"] for one in lost}:  # with chance episodes may fail, and a learner can take them
        kept, episodes = checked["valid"], checked["valid"] + len(failed)
        learns = f"what xmen fit --learner causal learns from, with --validity {kept / episodes:.3g} or so, or best"
        note = f"{kept} of {episodes} episodes keep all rules. Those that failed belong to {learns}"
        report["notes"].append(note)
    print_json(report) if as_json else _print_check(report)
    if missing:
        print_notes([f"the demonstrations that {path} names are missing: {problem.demonstrations}"])
    if report["feasible"] is False or broken:
        return NO
    return MISTAKE if report["feasible"] is None or missing else YES


def _print_check(report: dict[str, Any]) -> None:
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
        facts["trajectories"] = f"{answers.count_text(counted, 'valid')} are valid"
        if counted.get("possible"):
            possible = answers.count_text(counted, "possible")
            facts["trajectories"] += f", {answers.share_text(counted)} of {possible} possible ones"
    demos = report.get("demonstrations", {})
    if "missing" in demos:
        facts["demonstrations"] = f"not checked: {demos['file']} is missing"
    elif demos:
        facts["demonstrations"] = f"{demos['valid']} of {demos['number']} in {demos['file']} keep all rules"
    if seen := demos.get("seen_in_part"):
        share = f"{seen['seen']:,} of {seen['positions']:,} positions were seen"
        facts["seen in part"] = f"{seen['demonstrations']} demonstrations, of which {share}"
    if "repaired" in report:
        repaired = report["repaired"]
        facts["repaired"] = f"{len(repaired['changed'])} demonstrations, all of them in {repaired['file']}"
    print_facts(facts)
    broken, violations = demos.get("broken", []), demos.get("violations", [])

    def what(one: dict[str, Any]) -> str:
        return one["constraint"] or ("arriving in time" if one.get("unfinished") else "the world")

    if broken:
        by = [f"{one['demonstrations']} of {demos['number']}" for one in broken]
        first = [f"{one['name']}, at position {one['position']}" for one in broken]
        rows = zip(map(what, broken), by, first, strict=True)
        print_table("what they break", ["rule", "broken by", "first by demonstration"], rows)
    if len(violations) > len(broken) or not all(one["constraint"] for one in broken):
        rules = [one["constraint"] or f"{what(one)}: {one['message']}" for one in violations]
        lost = [(one["name"], rule, one["position"]) for one, rule in zip(violations, rules, strict=True)]
        print_table("one by one", ["demonstration", "rule", "lost at position"], lost, most=MOST_SHOWN)
    if changed := report.get("repaired", {}).get("changed"):
        edits = [(one["name"], edit) for one in changed for edit in one["edits"]]
        print_table("what was changed", ["demonstration", "edit"], edits, most=MOST_SHOWN)
    print_notes(report["notes"])


# ---- `xmen engines`

N_SAMPLES = 100  # drawn to see how long it takes
REPEAT_BELOW = 2.0  # seconds; what is quicker is timed again, without compilation on first use


def run_engines(path: Path | None, engine: str, limit: float, as_json: bool) -> None:
    """Which engine answers this problem, its sizes, and the time of a gradient and of some samples.

    Each stage has the limit for itself, and so has each call of a solver; the time of what took longer is None.
    """
    if path is None:
        _show_installed(as_json)
        return
    if not 0 < limit < float("inf"):
        raise EngineError(f"--limit {limit:g}: give seconds above 0")
    problem = open_problem(path)
    stages: dict[str, Callable[[Any], object]] = {
        "gradient": lambda d: d.with_reward(problem.reward).visits(),
        f"{N_SAMPLES} samples": lambda d: d.sample(N_SAMPLES, seed=0),
    }
    with working(f"building and timing, at most {limit:g} s each"):
        built, d = _timed(lambda: answers.before_learning(problem).distribution(engine=engine, time_limit=limit), limit)
        seconds: dict[str, float | None] = {"build": built} | dict.fromkeys(stages)
        for stage, work in stages.items() if built is not None else ():
            first = _timed(partial(work, d), limit)[0]
            seconds[stage] = first if first is None or first >= REPEAT_BELOW else _timed(partial(work, d), limit)[0]
    world = problem.world
    sizes = {"states": world.n_states, "actions": world.n_actions, "transitions": len(world.source)}
    report: dict[str, Any] = {
        "problem": str(path),
        "engine": engine if d is None else d.engine,
        "reason": f"asked for, and not built within {limit:g} s" if d is None else d.reason,
        "setting": problem.settings.engine,
        "world": {**sizes, "longest": world.max_length},
        "rules": list(problem.rules),
        "sizes": {} if d is None else d.sizes(),
        "guarantee": None if d is None else d.guarantee._asdict(),
        "seconds": seconds,
        "limit": limit,
    }
    print_json(report) if as_json else _print_engine(report)


def _show_installed(as_json: bool) -> None:
    """The engines, the oracles of the XOR engine with the versions of their solvers, and the learners."""
    engines = {name: text for name, (_, text) in ENGINES.items()}
    learners = {name: learner.description for name, learner in LEARNERS.items()}
    oracles = installed_oracles()  # a version, True where nothing has to be installed, False where something has
    versions = {name: version if isinstance(version, str) else None for name, version in oracles.items()}
    if as_json:
        found = {name: {"installed": bool(oracles[name]), "version": version} for name, version in versions.items()}
        print_json({"engines": engines, "oracles": found, "learners": learners})
        return
    print_table("engines", ["engine", "what it does"], engines.items())
    rows = [(one, version or ("built in" if oracles[one] else "not installed")) for one, version in versions.items()]
    print_table("oracles of the xor engine", ["oracle", "version"], rows)
    print_table("learners", ["learner", "what it learns"], learners.items())


def _timed(work: Callable[[], Result], limit: float) -> tuple[float | None, Result | None]:
    """Seconds and the result: None above the limit, which is looked at whenever the work says how far it is."""
    began = time.perf_counter()

    def look(line: str) -> None:
        if time.perf_counter() - began > limit:
            raise TimeoutError

    with warnings.catch_warnings(action="ignore"), listening(look):  # of tasks that were cancelled, say
        try:
            result = work()
        except (TimeoutError, OracleTimeoutError):
            return None, None
    taken = time.perf_counter() - began
    return taken if taken <= limit else None, result


def _print_engine(report: dict[str, Any]) -> None:
    def shown(value: object) -> str:
        if isinstance(value, list):
            return "; ".join(map(str, value)) or "nothing"
        return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)

    world, guarantee, seconds = report["world"], report["guarantee"], report["seconds"]
    chosen = report["engine"]
    if report["setting"] not in ("auto", chosen):
        chosen += f' (the problem file asks for "{report["setting"]}")'
    facts = {
        "engine": chosen,
        "why": report["reason"],
        "world": f"{world['states']:,} states, {world['actions']:,} actions, {world['transitions']:,} transitions, "
        f"trajectories of at most {world['longest']:,} actions",
        "rules": "; ".join(report["rules"]) or "none",
        **{label: shown(value) for label, value in report["sizes"].items()},
    }
    if guarantee is not None:
        bound = f"within a factor {guarantee['delta']:g}, except with probability {guarantee['failure']:g}"
        facts["samples"] = "exact" if guarantee["delta"] == 1.0 else bound
    if seconds["build"] is None:  # what would have come after it is not mentioned
        seconds = {"build": None}
    late = f"more than {report['limit']:g} s"
    spelled = [f"{label} {late if value is None else f'{value:.3g} s'}" for label, value in seconds.items()]
    facts["cost"] = ", ".join(spelled) + ("" if all(seconds.values()) else " (--limit gives more time)")
    print_facts(facts)
