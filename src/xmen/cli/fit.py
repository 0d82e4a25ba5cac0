"""`xmen fit`: learn a reward from demonstrations; Ctrl-C keeps what was learned, and a killed run can go on."""

import ast
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers import check_demonstrations, make_learner, one_in, standard_errors
from xmen.baselines.constraint_inference import ConstraintInference
from xmen.cli._output import STOPPED, YES, fit_progress, print_facts, print_json, print_notes, print_table, working
from xmen.cli._subject import LAST_STATE, claim, open_problem, save_model
from xmen.cli.sample import read_promise
from xmen.constraints.constraint import usual_rules, with_rule_weights
from xmen.errors import ConvergenceWarning, EngineError, InterruptedWarning, InvalidDemonstrationError, UnboundedWarning
from xmen.learners.base import VALIDATION, Learner
from xmen.learners.xmen import parse_method, read_method
from xmen.options import require_choice
from xmen.problem import Problem, demo_weights
from xmen.progress import VALIDATION_LOSS
from xmen.registry import LEARNERS
from xmen.worlds import Trajectory
from xmen.worlds.names import rule_text

MOST_SHOWN = 12  # weights printed; --json has all of them


def run_fit(
    path: Path, demos: Path | None, out: Path | None, learner: str, force: bool, as_json: bool, **asked: Any
) -> int:
    """Learn, save and report, also after Ctrl-C (exit code 130); `asked`: the learner's settings, None if not given."""
    drop_invalid, others = asked.pop("drop_invalid"), asked.pop("others")
    asked |= {"validity": read_promise(asked["validity"]), **read_others(others)}
    check_asked(learner, asked)
    problem = open_problem(path, demos)
    validation = asked.pop("validation")
    if validation is not None:
        problem = replace(problem, validation=validation)
    elif asked["patience"] is not None and problem.validation is None:
        raise EngineError("--patience is for validation: give --validation FILE, or name it in the problem file.")
    trajectories = problem.demos()
    weights = demo_weights(trajectories)
    promise = problem.settings.validity if asked["validity"] is None else asked["validity"]
    # Episodes that failed are what a promise of some probability is learned from.
    failures_belong = learner == "causal" and promise != "sure"
    dropped: list[dict[str, Any]] = []
    if drop_invalid:
        dropped = _broken(problem, trajectories, failures_belong)
        kept = sorted({*range(len(trajectories))} - {one["demonstration"] for one in dropped})
        if not kept:
            first, place = dropped[0], {key: dropped[0][key] for key in ("constraint", "position")}
            why = f"is valid; demonstration {first['name']}: {first['message']}"
            raise InvalidDemonstrationError(f"none of the {len(trajectories)} demonstrations {why}", index=0, **place)
        trajectories = [trajectories[index] for index in kept]
        weights = None if weights is None else [weights[index] for index in kept]
    folder = Path(f"{path.stem}_model") if out is None else out
    checkpoint = claim(folder, path, problem, LEARNERS[learner].kind.__name__, force)
    last_state = folder / LAST_STATE
    if asked["resume"] and last_state.exists() and not checkpoint.exists():
        checkpoint = last_state  # in which the last run ended
    try:
        model, notes, told = _learn(problem, trajectories, weights, checkpoint, learner, asked)
    except BaseException as error:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if isinstance(error, InvalidDemonstrationError):
            held_out = error.place == VALIDATION
            lucky = "" if problem.world.deterministic else ", the lucky ones"
            drop = "" if held_out else f"; --drop-invalid learns from the others{lucky}"
            file = problem.validation if held_out else demos
            # Steps that a promise forbids may break nothing: then there is nothing to be shown, or left out.
            if held_out or _broken(problem, trajectories, failures_belong):
                shown = path if file is None else f"{path} {file}"
                error.details += f"\nxmen check {shown} shows everything that demonstrations break{drop}"
        raise
    inferred = isinstance(model, ConstraintInference)  # its reward was given, not learned
    save_model(model, problem if inferred else _learned_problem(problem, model), folder)
    interrupted = InterruptedWarning in told
    if not interrupted:
        if checkpoint.exists():
            checkpoint.replace(last_state)
        endless = UnboundedWarning in told and ConvergenceWarning not in told  # more iterations would find no optimum
        method = read_method(getattr(model, "method_", "auto"))
        planned = method is not None and method.plans_with_max_iter
        if model.converged_ or endless or planned or not hasattr(model, "checkpoint"):
            last_state.unlink(missing_ok=True)  # nothing can go on from there
    last = model.history_[-1] if model.history_ else None
    report: dict[str, Any] = {"problem": str(path), "model": str(folder), "learner": learner}
    report |= {"method": model.method_} if hasattr(model, "method_") else {}
    report |= {"iterations": model.n_iter_, "converged": bool(model.converged_), "interrupted": interrupted}
    report |= {"demonstrations": len(trajectories), **({"dropped": dropped} if drop_invalid else {})}
    report |= {name: None if last is None else getattr(last, name) for name in ("loss", "gradient_norm")}
    with working("scoring the demonstrations"):
        report["log_likelihood"] = model.score(trajectories)
    if "best_iteration_" in vars(model):
        curve = [record.details[VALIDATION_LOSS] for record in model.history_]
        report |= {"best_iteration": model.best_iteration_, "validation_loss": curve}
    if isinstance(model, ConstraintInference):
        report["constraints"] = [
            {"name": one.name, "rule": rule_text(one, model.world), "eliminated": share}
            for one, share in zip(model.constraints_, model.eliminated_.tolist(), strict=True)
        ]
    else:
        report["weights"] = dict(zip(problem.feature_names, np.asarray(model.weights_).tolist(), strict=True))
        # One weight per state has too many for 2 gradients each, and hardly one that is determined.
        errors = None if interrupted or problem.features is None else standard_errors(model)
        if errors is not None:
            report["standard_errors"] = dict(zip(problem.feature_names, errors, strict=True))
        if of_rules := vars(model).get("rule_weights_"):
            report["rule_weights"] = of_rules
            found = [] if errors is None else model.summary().standard_errors[-len(of_rules) :].tolist()
            report["rule_errors"] = dict(zip(of_rules, found, strict=False))
    report["notes"] = notes
    if as_json:
        print_json(report)
    else:
        _print(report)
        print_notes([*([_dropped_text(dropped)] if dropped else []), *notes])
    if not interrupted:
        if last_state.exists() and not as_json:
            more = "--patience" if report.get("best_iteration", model.n_iter_) < model.n_iter_ else "--max-iter"
            print_notes([f"the same command with --resume and a larger {more} goes on from here"])
        return YES
    resumes = "; the same command with --resume goes on" if checkpoint.exists() else ""
    print_notes([f"stopped by Ctrl-C: the model has what was learned in {model.n_iter_} iterations{resumes}"])
    return STOPPED


def read_others(texts: Iterable[str]) -> dict[str, Any]:
    """The settings of `--set`: numbers and other values as Python writes them, words as they are.

    >>> read_others(["tol=1e-9", "oracle=cadical"])
    {'tol': 1e-09, 'oracle': 'cadical'}
    """
    found: dict[str, Any] = {}
    for name, equals, text in (one.partition("=") for one in texts):
        if not equals:
            raise EngineError(f"--set {name}: write NAME=VALUE, such as tol=1e-9.")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found


def check_asked(learner: str, asked: Mapping[str, Any]) -> None:
    """Refuse names that do not exist, and options that the learner does not have."""
    require_choice("--learner", learner, LEARNERS)
    try:
        parse_method(asked["method"] or "auto")
    except EngineError as error:
        raise EngineError(f"--method {asked['method']}: {error}") from None
    takes = {other: {*known.kind.setting_names()} - {"world", *known.takes} for other, known in LEARNERS.items()}
    for name, value in asked.items():
        if value not in (None, False, "auto") and name not in takes[learner]:
            having = ", ".join(other for other, names in takes.items() if name in names) or "none"
            option = f"--{name.replace('_', '-')}"
            raise EngineError(f"{option} is no option of --learner {learner}; these have it: {having}.")


def _broken(problem: Problem, demos: list[Trajectory], failures_belong: bool) -> list[dict[str, Any]]:
    """What is wrong with demonstrations; with `failures_belong` only that they cannot happen."""
    found: list[dict[str, Any]] = check_demonstrations(problem, demos)["violations"]
    return [one for one in found if not failures_belong or (one["constraint"] is None and not one.get("unfinished"))]


def _learn(
    problem: Problem, demos: list[Trajectory], weights: list[float] | None, checkpoint: Path, learner: str, asked: Any
) -> tuple[Learner, list[str], set[type[Warning]]]:
    """The fitted model, what it has to say, and the kinds of its warnings."""
    resume, folder = asked["resume"], checkpoint.parent
    if checkpoint.exists() and not resume:
        print_notes([f"an unfinished run in {folder} is replaced; --resume would have gone on"])
    if resume and not checkpoint.exists():
        print_notes([f"there is no unfinished run in {folder}: starting from the beginning"])
    # The number of iterations to come, where that is known: other methods stop at their optimum, whenever that is.
    method = read_method(parse_method(asked["method"] or "auto"))
    counted = method is not None and method.takes_every_step
    total = (asked["max_iter"] or method.default_max_iter) if method and counted else None
    with fit_progress(total) as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make_learner(learner, problem, **asked, checkpoint=str(checkpoint), callback=progress)
        with problem.speaking():
            model.fit(demos, sample_weight=weights)
    of_this_run = {"checkpoint": None, "resume": False, "callback": None, "validation": None}
    model.set_params(**{name: value for name, value in of_this_run.items() if name in model.setting_names()})
    told = [one.message for one in caught if not issubclass(one.category, InterruptedWarning)]
    notes = list(dict.fromkeys(map(problem.words.say, told)))
    return model, notes, {warning.category for warning in caught}


def _learned_problem(problem: Problem, model: Learner) -> Problem:
    """The problem with what was learned: its distribution is the model's."""
    known, rules = vars(model).get("rule_weights_", {}), dict[str, Any]()
    for name, rule in problem.rules.items():
        own = [None if one.share is not None else known.get(one.label) for one in usual_rules(rule)]
        rules[name] = with_rule_weights(rule, own)
    return replace(problem, reward=model.reward_, rules=rules)


def _dropped_text(violations: list[dict[str, Any]]) -> str:
    """One line for each rule, with the names of the demonstrations that break it."""
    lines = [f"{len({one['demonstration'] for one in violations})} demonstrations were left out:"]
    reasons: dict[str, list[str]] = {}
    for one in violations:
        whole = "did not arrive" if one.get("unfinished") else "not possible in the world"
        reason = whole if one["constraint"] is None else f"break {one['constraint']!r}"
        reasons.setdefault(reason, []).append(one["name"])
    for reason, which in reasons.items():
        more = f", ... ({len(which)} in all: see --json)" if len(which) > MOST_SHOWN else ""
        lines.append(f"  {', '.join(which[:MOST_SHOWN])}{more}: {reason}")
    return "\n".join(lines)


def _print(report: dict[str, Any]) -> None:
    how = report["learner"] + (f", method {report['method']}" if "method" in report else "")
    early = report.get("best_iteration", report["iterations"]) < report["iterations"]
    at_end = "converged" if report["converged"] else "ended by validation" if early else "not converged"
    end = "stopped by Ctrl-C" if report["interrupted"] else at_end
    facts = {"learner": how, "iterations": f"{report['iterations']:,}, {end}"}
    if report["gradient_norm"]:
        facts["gradient"] = f"{report['gradient_norm']:.3g} (norm, at the end)"
    if "best_iteration" in report:
        best = report["best_iteration"]
        loss = report["validation_loss"][best - 1]
        facts["validation"] = f"best at iteration {best}, whose weights these are: {loss:.4f} nats per demonstration"
    drawn = one_in(report["log_likelihood"])
    mean = f"mean log-likelihood of {report['demonstrations']:,}"
    facts["likelihood"] = f"{report['log_likelihood']:.4f} nats per demonstration, {drawn} ({mean})"
    print_facts(facts)
    if "constraints" in report:
        rows = [(one["name"], one["rule"], f"{one['eliminated']:.1%}") for one in report["constraints"]]
        print_table("rules that were inferred", ["name", "rule", "forbids"], rows)
    else:
        weights, title = list(report["weights"].items()), "learned weights"
        if len(weights) > MOST_SHOWN:
            weights, title = sorted(weights, key=lambda item: -abs(item[1])), "learned weights, the largest first"
        _print_weights(title, "feature", weights, report.get("standard_errors"))
        if "rule_weights" in report:
            found = list(report["rule_weights"].items())
            _print_weights("rules that are usually kept", "rule", found, report["rule_errors"])
    after = "plan" if report["learner"] == "causal" else "plot"
    print_facts({"saved": report["model"], "next": f"xmen sample {report['model']};  xmen {after} {report['model']}"})


def _print_weights(title: str, kind: str, weights: list[tuple[str, float]], errors: dict[str, float] | None) -> None:
    lines = [(name, f"{weight:+.4f}", *([f"{errors[name]:.4f}"] if errors else [])) for name, weight in weights]
    print_table(title, [kind, "weight", *(["standard error"] if errors else [])], lines, most=MOST_SHOWN)
