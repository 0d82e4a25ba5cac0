"""Stability: how often a rule is found again when the demonstrations are drawn anew from themselves."""

from __future__ import annotations

from collections.abc import Callable

import joblib
import numpy as np

from xmen.rewards import Floats
from xmen.rules.search import Search
from xmen.rules.templates import Candidate


def shares_found_again(
    make: Callable[[Floats], Search], rules: list[Candidate], weights: Floats, n: int, seed: int, n_jobs: int | None
) -> Floats:
    """The share of n bootstrap samples whose rules imply each of these, shape (rules,).

    `make` prepares the search for other weights of the demonstrations: thresholds are read off anew. Each sample has
    a seed of its own, so that the answer does not depend on the number of processes.
    """
    seeds = np.random.SeedSequence(seed).spawn(n)
    found = joblib.Parallel(n_jobs=n_jobs)(joblib.delayed(_implied)(make, rules, weights, one) for one in seeds)
    shares: Floats = np.mean(np.array(found, dtype=np.float64).reshape(n, len(rules)), axis=0)
    return shares


def _implied(
    make: Callable[[Floats], Search], rules: list[Candidate], weights: Floats, seed: np.random.SeedSequence
) -> list[bool]:
    n_demos = np.count_nonzero(weights)
    drawn = np.random.default_rng(seed).multinomial(n_demos, weights) / n_demos
    model = make(drawn).run().model
    return [model.keeps(rule.tabled).certain for rule in rules]
