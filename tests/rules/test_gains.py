"""Every gain against the enumeration of all trajectories, on random small worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import reference
import xmen as xm
from strategies import FormulaRules, NumpyChoices, build_event, cases, random_world
from xmen.machines.tables import CompiledConstraint
from xmen.rules.search import Level, Shared, effective_number, fit_model, gain_of, gain_of_trips
from xmen.rules.templates import TEMPLATES, View, candidates, words
from xmen.worlds import Walks


def random_task(seed):
    """A world with complete trajectories, three events as descriptions, and some of its trajectories."""
    rng = np.random.default_rng(seed)
    while True:
        world = random_world(rng)
        listed = list(reference.enumerate_trajectories(world))
        if 4 <= len(listed) <= 3000:
            break
    rules = FormulaRules(NumpyChoices(rng), world.n_states, world.n_actions)
    events = {name: rules.event() for name in ("a", "b", "c")}
    chosen = rng.integers(len(listed), size=6)
    demos = [xm.Trajectory(*listed[i][:2]) for i in chosen]
    return rng, world, events, demos


def tried(world, events, demos, weights=None, tolerance=0.0):
    walks = Walks.of(world, demos)
    weights = np.full(len(demos), 1 / len(demos)) if weights is None else weights
    vocabulary = words({name: build_event(event) for name, event in events.items()}, world)
    return walks, candidates(vocabulary, View(walks, weights, tolerance))


@pytest.mark.parametrize("seed", range(cases(12)))
def test_probabilities_equal_the_enumerated_ones(seed):
    rng, world, events, demos = random_task(seed)
    features = rng.normal(size=(world.n_states, world.n_actions, 2))
    discount = [1.0, 0.9][seed % 2]
    setting = xm.RuleInference(world, features=features, discount=discount, l2=0.1)
    model = fit_model(setting, [], demos, np.full(len(demos), 1 / len(demos)), Shared(world))
    truth = reference.exact_distribution(world, None, model.fitted.reward_.table(), discount)
    walks, found = tried(world, events, demos)
    rare = {"response within", "share at least", "share at most", "count at least", "no revisit", "no revisit of"}
    assert {TEMPLATES[one.order].name for one in found} >= {t.name for t in TEMPLATES} - rare  # they may say nothing
    named = {name: build_event(event) for name, event in events.items()}
    for one in found:
        rule = xm.parse_constraint(one.text, named)
        holds = {tau: rule.accepts(xm.Trajectory(*tau)) for tau in truth.log_weights}
        p = math.fsum(math.exp(w - truth.log_partition) for tau, w in truth.log_weights.items() if holds[tau])
        kept = model.keeps(one.tabled)
        assert kept.exact
        assert math.exp(kept.log_kept) == pytest.approx(p, abs=1e-11), one.text
        assert kept.broken == pytest.approx(1 - p, abs=1e-11), one.text
        assert (kept.broken == 0.0) == all(holds.values()), one.text
        if p > 0:
            assert gain_of(kept.log_kept, kept.broken, 1.0) == pytest.approx(-math.log(p), abs=1e-9)
        # The machines, the rule of the user's own events and its text agree on the demonstrations.
        for tau, keeps in zip(demos, CompiledConstraint(one.tabled, world).check(walks), strict=True):
            assert keeps == holds[tau.states, tau.actions] == one.rule.accepts(tau), one.text


@pytest.mark.parametrize("seed", range(cases(6)))
def test_under_rules_by_product_and_by_draws(seed):
    """Under a rule, the chain, the product and (within five standard errors) draws agree."""
    rng, world, events, demos = random_task(100 + seed)
    rule = xm.visit(build_event(events["a"]))
    demos = [tau for tau in demos if rule.accepts(tau)]
    if not demos:
        pytest.skip("no demonstration keeps the rule")
    features = rng.normal(size=(world.n_states, world.n_actions, 1))
    setting = xm.RuleInference(world, features=features, l2=0.1, seed=seed)
    model = fit_model(setting, [rule], demos, np.full(len(demos), 1 / len(demos)), Shared(world))
    _, found = tried(world, events, demos)
    for one in found[:: max(1, len(found) // 12)]:
        chain, drawn = model.keeps(one.tabled), model._by_draws(one.tabled)
        log_product = model._exact.log_probability(CompiledConstraint(one.tabled, world), 10**6)
        assert math.exp(chain.log_kept) == pytest.approx(math.exp(log_product), abs=1e-11)
        assert (chain.broken == 0.0) == (log_product >= -1e-12)
        assert abs(math.exp(drawn.log_kept) - math.exp(chain.log_kept)) < 5 * drawn.std + 1e-3


def test_gain_with_a_share_that_is_kept():
    """The mean of log q/P over those that keep the rule and of log (1 - q)/(1 - P) over those that do not."""
    p, q = 0.3, 0.95
    expected = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    assert gain_of(math.log(p), 1 - p, q) == pytest.approx(expected, abs=1e-12)
    assert gain_of(math.log(p), 1 - p, 1.0) == pytest.approx(-math.log(p), abs=1e-15)
    assert gain_of(math.log(0.97), 0.03, 0.95) == 0.0  # kept less often than the model expects
    assert gain_of(math.log1p(-1e-14), 1e-14, 1.0) == pytest.approx(1e-14, rel=1e-6)  # no digits lost


def test_gain_of_trips_is_the_most_that_a_weight_gains():
    """On a grid of weights; of one kind of trip it is the gain above, and where all that can keep it do the limit."""
    each, weights, q = np.array([0.0, 0.2, 0.9, 1.0]), np.array([0.1, 0.4, 0.3, 0.2]), 0.85
    at = np.linspace(0.0, 12.0, 12_001)
    gains = q * at - weights @ np.log1p(each[:, None] * np.expm1(at))
    assert gain_of_trips(each, weights, q) == pytest.approx(gains.max(), abs=1e-6)
    assert gain_of_trips(np.full(4, 0.3), weights, q) == pytest.approx(gain_of(math.log(0.3), 0.7, q), abs=1e-12)
    assert gain_of_trips(each, weights, 0.5) == 0.0  # kept less often than the model expects
    limit = -0.4 * math.log(0.2) - 0.3 * math.log(0.9)
    assert gain_of_trips(each, weights, 0.9) == pytest.approx(limit, abs=1e-9)


def test_level_is_the_binomial_tail_times_the_number_tried():
    n, m, p = 50, 20, 0.8
    level = Level(n, m, 0.01, 0.02)
    assert level.chance(-math.log(p)) == pytest.approx(m * p**n)
    assert level.passes(-math.log(p)) == (m * p**n <= 0.01)
    assert level.demonstrations_for(-math.log(p)) == pytest.approx(math.log(m / 0.01) / -math.log(p))
    q = 0.9
    tail = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(round(q * n), n + 1))
    assert tail <= math.exp(-n * gain_of(math.log(p), 1 - p, q))
    assert not Level(10_000, 1, 0.01, 0.02).passes(0.019)
    assert not Level(10_000, 1, 0.01, 0.0).passes(0.0)
    assert effective_number(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_number(np.array([1.0, 1.0, 0.0])) == pytest.approx(2)
