"""`xmen sample` and `xmen plan`: trajectories of a problem or of a model, and the policy that keeps its promise."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer

from xmen.answers import LEGEND, arrows
from xmen.cli._output import NO, check_target, fail, print_facts, print_json, print_lines, print_table, working
from xmen.cli._subject import extra_rules, open_subject
from xmen.errors import EngineError, FileFormatError, XmenError
from xmen.learners.causal import CausalXMEN
from xmen.policies.behaviour import likeliest_episode, play_many, read_validity
from xmen.policies.explanation import rules_of
from xmen.policies.policy import Policy
from xmen.worlds import MDP, GridWorld, Sighting, Trajectory, write_demos
from xmen.worlds.demos import demos_csv
from xmen.worlds.tables import RecordedDemos


def run_sample(
    path: Path, n: int, best: int | None, seed: int | None, out: Path | None, as_json: bool, **asked: Any
) -> None:
    """Draw n trajectories, or find the `best` most likely ones, and say which engine did it."""
    printed = out == Path("-")
    if printed and as_json:
        raise FileFormatError("--out - prints CSV and --json prints JSON: leave one of them out")
    if out is not None and not printed:
        check_target(out, (".csv", ".jsonl"), "trajectories")  # before the work, not after it
    subject = open_subject(path).on(asked["device"])
    problem, model, more = subject.problem, subject.model, dict[str, Any]()
    extra = extra_rules(asked["also"], problem)
    with working(f"sampling {n:,} trajectories" if best is None else "searching"):
        if isinstance(model, CausalXMEN):
            acts = "and a causal model acts by its policy"
            if best is not None:
                raise EngineError(f"--best ranks the trajectories of a distribution, {acts}.")
            if asked["engine"] is not None:
                raise EngineError(f"--engine is for distributions, {acts}: leave it out.")
            policy = model.policy(extra, seed=seed)
            trajectories, by, guarantee = policy.rollout(n), "policy", {"validity": policy.validity}
        else:
            d = subject.distribution(extra, asked["engine"], None if best is not None else seed)
            by, guarantee = d.engine, d.guarantee._asdict()
            trajectories = d.sample(n) if best is None else d.best(best)
            more = {} if best is None else {"log_prob": list(map(d.log_prob, trajectories))}
    rule, how = problem.constraint, "all valid"  # which a model that knows no rules may break
    n_valid = len(trajectories) if rule is None else sum(map(rule.accepts, trajectories))
    if n_valid < len(trajectories):
        kind, unknown = type(model).__name__, "knows no rules of the problem"
        if by != "policy" and not asked["allow_invalid"]:
            broken = f"{len(trajectories) - n_valid} of {len(trajectories)} trajectories break a rule: {kind} {unknown}"
            advice = "Give them with --also, or take such trajectories with --allow-invalid"
            fail(EngineError(f"{broken}. {advice}."), NO, as_json)
        how = f"{n_valid} of them valid ({kind} {'promises no more' if by == 'policy' else unknown})"
    named = problem.world if asked["names"] else None
    if out is not None and not printed:
        write_demos(trajectories, out, named)
    if as_json:
        own = problem.settings.seed if model is None else model.seed
        used = seed if seed is not None else own if isinstance(own, int) else None
        made = {"problem" if model is None else "model": str(path), "engine": by, "guarantee": guarantee, "seed": used}
        counted = {"also": asked["also"], "number": len(trajectories), "valid": n_valid}
        listed = [{"states": tau.states, "actions": tau.actions} for tau in trajectories]
        print_json(made | counted | more | ({"trajectories": listed} if out is None else {"file": str(out)}))
        return
    if out is not None and not printed:
        by = "policy" if by == "policy" else f"{by} engine"
        typer.echo(f"{len(trajectories)} trajectories by the {by}, {how}: {out}")
        return
    if printed:
        typer.echo(demos_csv(trajectories, named), nl=False)
    else:
        for trajectory in trajectories:  # line by line: a reader may leave before the last
            typer.echo(walk_text(problem.world, trajectory))
    if by != "policy" and not problem.world.deterministic:
        typer.echo("note: with chance these are lucky outcomes; what can be promised is in xmen plan", err=True)
    if n_valid < len(trajectories):
        typer.echo(f"note: {len(trajectories)} trajectories, {how}", err=True)


def run_fill(path: Path, seen: Path, best: int, out: Path | None, also: list[str], as_json: bool) -> None:
    """Complete what was seen in part: the likeliest valid trajectories for each, with their probabilities."""
    if out is not None:
        check_target(out, (".csv",), "completions")
    subject = open_subject(path)
    problem, found, records = subject.problem, list[Trajectory](), list[dict[str, Any]]()
    demos = problem.read_seen(seen)
    with working("filling gaps"):
        d = subject.distribution(extra_rules(also, problem), None, None)
        for name, demo in zip(demos.names, demos, strict=True):
            try:
                given = d.seen(demo if isinstance(demo, Sighting) else Sighting(demo.states))
            except XmenError as error:
                error.place = f"{seen}, demonstration {name!r:.60}"
                raise
            for rank, tau in enumerate(given.best(best), 1):
                found.append(tau)
                records.append({"of": name, "rank": rank, "probability": float(np.exp(given.log_prob(tau)))})
    both = list(zip(records, found, strict=True))
    rows = [record | {"states": tau.states, "actions": tau.actions} for record, tau in both]
    if out is not None:
        write_demos(RecordedDemos(found, records), out, problem.world)
    if as_json:
        made = {"completions": rows} if out is None else {"file": str(out)}
        print_json({"seen": str(seen), "engine": d.engine, **made})
    elif out is not None:
        typer.echo(f"{len(found)} completions of {len(demos)} demonstrations: {out}")
    else:
        for record, tau in both:
            typer.echo(f"{record['of']}  {record['probability']:.4g}  {walk_text(problem.world, tau)}")


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


def read_promise(text: str | None) -> str | float | None:
    """What `--validity` says: "sure", "best" or a probability; None where it was not given."""
    if text is None or text in ("sure", "best"):
        return text
    try:
        return read_validity(float(text))
    except ValueError:  # an EngineError is one, too
        raise EngineError(f"--validity takes sure, best, or a probability from 0 to 1; got {text!r}.") from None


def run_plan(
    path: Path, rollouts: int, episodes: int, seed: int | None, out: Path | None, as_json: bool, **asked: Any
) -> None:
    """Print what the policy promises and what it does; with `rollouts`, also what was counted."""
    promise = read_promise(asked["validity"])
    subject = open_subject(path).on(asked["device"])
    model, problem = subject.model, subject.problem
    own = model.validity if isinstance(model, CausalXMEN) else problem.settings.validity
    promise = own if promise is None else promise
    with working("planning"):
        changes: dict[str, Any] = {"validity": promise, **({} if seed is None else {"seed": seed})}
        extra = extra_rules(asked["also"], problem)
        policy = problem.plan(extra, **changes) if model is None else model.policy(extra, **changes)
        report: dict[str, Any] = {
            "problem" if model is None else "model": str(path),
            "asked": promise,
            "also": asked["also"],
            "validity": policy.validity,
            "expected_reward": policy.expected_reward(),
            "entropy": policy.entropy(),
            "breaks": policy.breaks(),
        }
        likeliest, log_prob = likeliest_episode(policy.behaviour)
        report["likeliest"] = _episode(policy, likeliest) | {"probability": float(np.exp(log_prob))}
    if rollouts:
        with working(f"playing {rollouts:,} episodes"):
            played = play_many(policy.behaviour, rollouts, np.random.default_rng(seed))
            kept = sum(int(valid.sum()) for _, valid in played)
        share = kept / rollouts
        std = (share * (1.0 - share) / rollouts) ** 0.5
        report["rollouts"] = {"number": rollouts, "kept": kept, "share": share, "std": std}
    if episodes:
        report["episodes"] = [_episode(policy, tau) for tau in policy.rollout(episodes, seed=seed)]
    if out is not None:
        policy.save(out)
        report["policy"] = str(out)
    print_json(report) if as_json else _print_plan(report, policy)


def _episode(policy: Policy, tau: Trajectory) -> dict[str, Any]:
    """One episode, and how it ends: the rules that it breaks, and whether it arrives."""
    broken = [name for name, rule in rules_of(policy.constraint).items() if not rule.accepts(tau)]
    return {"states": tau.states, "actions": tau.actions, "arrives": not policy.world.unfinished(tau), "breaks": broken}


def _episode_text(world: MDP, episode: dict[str, Any]) -> str:
    fate = [] if episode["arrives"] else ["does not arrive in time"]
    if episode["breaks"]:
        fate.append(f"breaks {', '.join(map(repr, episode['breaks']))}")
    walk = walk_text(world, Trajectory(episode["states"], episode["actions"]))
    return f"{walk} ({' and '.join(fate) or 'keeps all rules'})"


def _print_plan(report: dict[str, Any], policy: Policy) -> None:
    facts = {
        "asked for": str(report["asked"]),
        "validity": f"{report['validity']:.6g} (the exact probability of keeping all rules and arriving in time)",
        "reward": f"{report['expected_reward']:.6g} expected",
        "entropy": f"{report['entropy']:.6g} nats, of the policy's own choices",
    }
    if "rollouts" in report:
        counted = report["rollouts"]
        share = f"{counted['share']:.6g} ± {counted['std']:.2g}"
        facts["counted"] = f"{counted['kept']:,} of {counted['number']:,} episodes kept all rules: {share}"
    if "policy" in report:
        facts["saved"] = report["policy"]
    print_facts(facts)
    if report["breaks"]:
        rows = [(name, f"{probability:.6g}") for name, probability in report["breaks"].items()]
        print_table("what may be broken", ["rule", "probability"], rows)
    world = policy.world
    drawn = arrows(world, policy.behaviour.hopeful_visits()) if isinstance(world, GridWorld) else []
    if drawn:
        print_lines("the move it makes most often in each cell while the rules can be kept", [*drawn, f"   {LEGEND}"])
    likeliest = report["likeliest"]
    title = f"the likeliest episode, of probability {likeliest['probability']:.3g}"
    print_lines(title, [_episode_text(world, likeliest)])
    if "episodes" in report:
        print_lines("episodes, as they may happen", [_episode_text(world, one) for one in report["episodes"]])
