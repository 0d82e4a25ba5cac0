"""`xmen plan`: the policy that keeps its promise whatever chance does, what it gives up for it, and episodes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xmen.cli._output import print_facts, print_json, print_table, working
from xmen.cli._subject import Subject, extra_rules, open_subject
from xmen.constraints.constraint import Constraint
from xmen.errors import EngineError
from xmen.learners.causal import CausalXMEN
from xmen.policies.plan import plan
from xmen.policies.planning import read_validity
from xmen.policies.policy import Policy
from xmen.policies.rollouts import count_kept


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
    as_json: bool,
) -> None:
    """Print what the policy promises; with `rollouts`, also what was counted."""
    promise = read_promise(validity)
    subject = open_subject(path)
    asked = _asked(subject) if promise is None else promise
    with working("planning"):
        policy = _plan(subject, extra_rules(also, subject.problem), asked, seed)
        report: dict[str, Any] = {
            "problem" if subject.model is None else "model": str(path),
            "asked": asked,
            "also": list(also),
            "validity": policy.validity,
            "expected_reward": policy.expected_reward(),
            "entropy": policy.entropy(),
            "breaks": policy.breaks(),
        }
    if rollouts:
        with working(f"playing {rollouts:,} episodes"):
            kept = count_kept(policy.behaviour, rollouts, np.random.default_rng(seed))
        share = kept / rollouts
        report["rollouts"] = {"number": rollouts, "kept": kept, "share": share, "std": _std(share, rollouts)}
    if out is not None:
        policy.save(out)
        report["policy"] = str(out)
    print_json(report) if as_json else _print(report)


def _asked(subject: Subject) -> str | float:
    """What the model was made to promise, or the problem asks for."""
    return subject.model.validity if isinstance(subject.model, CausalXMEN) else subject.problem.settings.validity


def _plan(subject: Subject, also: Constraint | None, validity: str | float, seed: int | None) -> Policy:
    if subject.model is None:
        return subject.problem.plan(also, validity=validity, **({} if seed is None else {"seed": seed}))
    model = subject.model
    return plan(subject.problem.world, model._rule(also), model.reward_, validity, model.discount, seed=seed)


def _std(share: float, n: int) -> float:
    return float(np.sqrt(share * (1.0 - share) / n))


def _print(report: dict[str, Any]) -> None:
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
