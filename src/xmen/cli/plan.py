"""`xmen plan`: the policy that keeps its promise whatever chance does, what it gives up for it, and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xmen.answers import LEGEND, arrows
from xmen.cli._output import print_facts, print_json, print_lines, print_table, working
from xmen.cli._subject import extra_rules, open_subject
from xmen.cli.sample import walk_text
from xmen.errors import EngineError
from xmen.learners.causal import CausalXMEN
from xmen.policies.behaviour import likeliest_episode, play_many, read_validity
from xmen.policies.explanation import rules_of
from xmen.policies.policy import Policy
from xmen.worlds import MDP, GridWorld, Trajectory


def read_promise(text: str | None) -> str | float | None:
    """What `--validity` says: "sure", "best" or a probability; None where it was not given."""
    if text is None:
        return None
    try:
        return read_validity(float(text))
    except ValueError:  # an EngineError is one, too
        if text not in ("sure", "best"):
            raise EngineError(f"--validity takes sure, best, or a probability from 0 to 1; got {text!r}.") from None
        return text


def run_plan(
    path: Path,
    validity: str | None,
    rollouts: int,
    seed: int | None,
    out: Path | None,
    also: Sequence[str],
    device: str | None,
    as_json: bool,
    episodes: int = 0,
) -> None:
    """Print what the policy promises and what it does; with `rollouts`, also what was counted."""
    promise = read_promise(validity)
    subject = open_subject(path).on(device)
    model, problem = subject.model, subject.problem
    own = model.validity if isinstance(model, CausalXMEN) else problem.settings.validity
    asked = own if promise is None else promise
    with working("planning"):
        extra = extra_rules(also, problem)
        if model is not None:
            policy = model.policy(extra, seed=seed, validity=asked)
        else:
            policy = problem.plan(extra, validity=asked, **({} if seed is None else {"seed": seed}))
        report: dict[str, Any] = {
            "problem" if model is None else "model": str(path),
            "asked": asked,
            "also": list(also),
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
        std = float(np.sqrt(share * (1.0 - share) / rollouts))
        report["rollouts"] = {"number": rollouts, "kept": kept, "share": share, "std": std}
    if episodes:
        report["episodes"] = [_episode(policy, tau) for tau in policy.rollout(episodes, seed=seed)]
    if out is not None:
        policy.save(out)
        report["policy"] = str(out)
    print_json(report) if as_json else _print(report, policy)


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


def _print(report: dict[str, Any], policy: Policy) -> None:
    facts = {
        "asked for": str(report["asked"]),
        "validity": f"{report['validity']:.6g} (the exact probability of keeping all rules and arriving in time)",
        "reward": f"{report['expected_reward']:.6g} expected",
        "entropy": f"{report['entropy']:.6g} nats, of the policy's own choices",
    }
    if "rollouts" in report:
        counted = report["rollouts"]
        facts["counted"] = (
            f"{counted['kept']:,} of {counted['number']:,} episodes kept all rules: {counted['share']:.6g} "
            f"± {counted['std']:.2g}"
        )
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
