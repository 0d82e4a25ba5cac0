"""What an engine has to say: summed over listed trajectories, and compared, draws by their frequencies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

import xmen as xm
from reference import ExactDistribution, holds, positions

Walk = tuple[tuple[int, ...], tuple[int, ...]]


def key(trajectory: xm.Trajectory) -> Walk:
    return tuple(trajectory.states), tuple(trajectory.actions)


def summed(world: Any, log_weights: Mapping[Walk, float], discount: float = 1.0) -> ExactDistribution:
    """The distribution of listed trajectories with these log-weights."""
    log_partition = float(logsumexp(list(log_weights.values()))) if log_weights else -math.inf
    visits, state_visits, entropy = np.zeros((world.n_states, world.n_actions)), np.zeros(world.n_states), 0.0
    for (states, actions), weight in log_weights.items():
        probability = math.exp(weight - log_partition)
        entropy -= probability * (weight - log_partition)
        np.add.at(visits, (list(states[:-1]), list(actions)), probability * discount ** np.arange(len(actions)))
        np.add.at(state_visits, list(states), probability)
    modes = {tau for tau, weight in log_weights.items() if weight >= max(log_weights.values()) - 1e-9}
    return ExactDistribution(dict(log_weights), log_partition, visits, state_visits, entropy, modes)


def share_of(formula: tuple, truth: ExactDistribution) -> float:
    """The probability of the listed trajectories that keep a formula."""
    kept = [weight for tau, weight in truth.log_weights.items() if holds(formula, positions(*tau))]
    return math.fsum(math.exp(weight - truth.log_partition) for weight in kept)


def assert_agrees(
    d: xm.Distribution, truth: ExactDistribution, context: str = "", atol: float = 1e-9, log_z: float | None = None
) -> None:
    """All answers of an exact engine; `log_z` where it is not the sum of the listed weights."""
    expected = truth.log_partition if log_z is None else log_z
    assert d.log_partition() == pytest.approx(expected, abs=atol), context
    np.testing.assert_allclose(d.visits(), truth.visits, atol=atol, err_msg=context)
    np.testing.assert_allclose(d.state_visits(), truth.state_visits, atol=atol, err_msg=context)
    assert d.entropy() == pytest.approx(truth.entropy, abs=atol), context
    assert key(d.mode()) in truth.modes, context
    for tau, weight in list(truth.log_weights.items())[:50]:
        assert d.log_prob(xm.Trajectory(*tau)) == pytest.approx(weight - truth.log_partition, abs=atol), context
    assert {key(tau) for tau in d.sample(20, seed=0)} <= truth.log_weights.keys(), context


def assert_alike(d: xm.Distribution, other: xm.Distribution, tolerance: float = 1e-9) -> None:
    """Two exact engines, or one in two places, give the same answers."""
    scale = 1.0 + abs(other.log_partition())
    assert d.log_partition() == pytest.approx(other.log_partition(), abs=tolerance * scale)
    np.testing.assert_allclose(d.visits(), other.visits(), atol=tolerance)
    np.testing.assert_allclose(d.state_visits(), other.state_visits(), atol=tolerance)
    np.testing.assert_allclose(d.start_probabilities(), other.start_probabilities(), atol=tolerance)
    assert d.entropy() == pytest.approx(other.entropy(), abs=10 * tolerance)
    assert other.log_prob(d.mode()) == pytest.approx(other.log_prob(other.mode()), abs=tolerance * scale)
    for tau in [*other.sample(5, seed=1), *d.sample(5, seed=2)]:
        assert d.log_prob(tau) == pytest.approx(other.log_prob(tau), abs=tolerance * scale)


def follows(draws: Iterable[Hashable], probability: Mapping[Any, float], level: float = 1e-4) -> bool:
    """Whether draws pass a chi-square test: in the cells that are expected 5 times or more, and in the rest as one."""
    seen = Counter(draws)
    n = seen.total()
    cells = {one: n * p for one, p in probability.items() if n * p >= 5}
    pairs = [(seen[one], expected) for one, expected in cells.items()]
    rest = n - sum(cells.values())
    if rest >= 5:
        pairs.append((n - sum(seen[one] for one in cells), rest))
    statistic = sum((found - expected) ** 2 / expected for found, expected in pairs)
    return statistic < chi2.isf(level, len(pairs) - 1)
