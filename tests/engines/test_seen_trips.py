"""Trips seen in part, without a horizon: against enumeration where trips end, elsewhere against a long horizon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm
from engines.test_horizon_free import random_network, random_reward, random_rule
from engines.test_seen import check, posterior, random_sighting
from engines.truth import assert_alike
from reference import exact_distribution
from strategies import cases
from xmen.engines.trips import SeenTrips, TripEngine
from xmen.product import legs


def forward_network(rng, n_states=7):
    """All moves lead to later states, some by chance: trips are few, and all end."""
    rows = []
    for state in range(n_states - 1):
        for action in range(2):
            ahead = rng.integers(state + 1, n_states, 2)
            p = 1.0 if ahead[0] == ahead[1] or rng.random() < 0.5 else 0.3
            rows += [(state, action, int(ahead[0]), p)] + ([(state, action, int(ahead[1]), 1.0 - p)] if p < 1 else [])
    return xm.Network(n_states, 2, [*rows, (n_states - 1, 0, n_states - 1, 1.0)])


@pytest.mark.parametrize("seed", range(cases(8)))
def test_agrees_with_enumeration_where_all_trips_end(seed):
    rng = np.random.default_rng([seed, 71])
    network = forward_network(rng)
    reward, goal = rng.normal(0, 1, (7, 2)), int(rng.integers(3, 7))
    truth = exact_distribution(network.task(0, goal, horizon=7), None, reward)
    if not truth.log_weights:
        return
    d = xm.distribution(network.task(0, goal), None, reward, engine="exact")
    for _ in range(6):
        seen, chance = random_sighting(rng, network, list(truth.log_weights))
        check(d, seen, posterior(truth, chance, 1.0, network), f"seed {seed}: {seen}")


@pytest.mark.parametrize("seed", range(cases(6)))
def test_agrees_with_a_long_horizon_where_trips_go_round(seed):
    """Weights fall by 20 per move: after 12 moves there is less than 1e-12 of the mass of what was seen."""
    rng = np.random.default_rng([seed, 72])
    network = random_network(rng, 5, 2)
    reward, (start, goal) = random_reward(rng, network, 0.05), rng.choice(5, 2, replace=False)
    free, bounded = (xm.distribution(network.task(start, goal, h), None, reward, engine="exact") for h in (None, 16))
    for _ in range(4):
        seen, _ = random_sighting(rng, network, [(tau.states,) for tau in bounded.best(20)])
        if bounded.log_seen(seen) < -12.0:
            continue
        one, other = free.seen(seen), bounded.seen(seen)
        assert free.log_seen(seen) == pytest.approx(bounded.log_seen(seen), abs=1e-9), seen
        assert_alike(one, other, 1e-8)
        shares = [one.log_prob(tau) for tau in one.best(6)]
        np.testing.assert_allclose(shares, [other.log_prob(tau) for tau in other.best(6)], atol=1e-8, err_msg=str(seen))
        rule = xm.visit(xm.at(int(rng.integers(5))))
        assert one.probability(rule) == pytest.approx(other.probability(rule), abs=1e-8), seen


def random_trips(rng, network, rule, reward, n=10):
    """Pairs with a way, a sighting of each, and its distribution."""
    found = []
    for start, goal in rng.integers(0, network.n_states, (n, 2)).tolist():
        try:
            d = xm.distribution(network.task(start, goal), rule, reward, engine="exact", max_nodes=5_000)
        except (xm.InfeasibleError, xm.ProductTooLargeError):
            continue
        found.append((start, goal, d, random_sighting(rng, network, [(tau.states,) for tau in d.sample(5, seed=0)])[0]))
    return found


@pytest.mark.parametrize("seed", range(cases(10)))
def test_all_trips_at_once_agree_with_each_alone(seed, monkeypatch):
    rng = np.random.default_rng([seed, 73])
    monkeypatch.setattr(legs, "BATCH", int(rng.integers(1, 6)))
    network = random_network(rng)
    reward, rule = random_reward(rng, network), random_rule(rng, network)
    if seed % 3 == 0:
        soft = xm.usually(xm.visit(xm.at(2)), weight=0.7)
        rule = soft if rule is None else rule & soft
    trips = random_trips(rng, network, rule, reward)
    if not trips:
        return
    starts, goals, alone, seen = zip(*trips, strict=True)
    weights = rng.random(len(trips))
    try:
        engine = TripEngine(network, rule, starts, goals, np.ones(len(trips)), max_nodes=20_000)
    except xm.ProductTooLargeError:
        return
    n_rules = len(engine.log_dynamics) - len(network.source)
    edges = np.append(reward[network.source, network.action], [0.7] * n_rules)
    together = SeenTrips(engine, engine.pair_of, seen)
    features = csr_matrix(rng.normal(size=(len(edges), 3)))
    found, each = together.value(edges, weights), together.value(edges, features=features).each
    uses = np.zeros(len(edges))
    for k, (d, y) in enumerate(zip(alone, seen, strict=True)):
        log_p = d.log_seen(y)
        assert found.log_z[k] == pytest.approx(d.log_partition() + log_p, abs=1e-9), (seed, y)
        if log_p > -math.inf:
            own = np.zeros(len(edges))
            own[engine.places(goals[k])] = engine.uses(d.seen(y))
            uses += weights[k] * own
            np.testing.assert_allclose(each[k], features.T @ own, atol=1e-8, err_msg=str(y))
    np.testing.assert_allclose(found.visits, uses, atol=1e-8)


def test_every_record_was_served_by_the_shared_factors():
    rng = np.random.default_rng(74)
    network, seen = random_network(rng, 12), []
    reward = random_reward(rng, network, 0.9)[network.source, network.action]
    engine = TripEngine(
        network, xm.count(xm.doing(1)) <= 2, *rng.integers(0, 12, (2, 40)), np.ones(40), max_nodes=10**6
    )
    for pair in engine.pair_of:
        d = engine.alone(pair, reward)
        states = d.sample(1, seed=0)[0].states
        seen.append(xm.Sighting([*states[:-1:3], states[-1]], each=0.3))
    together = SeenTrips(engine, engine.pair_of, seen)
    assert np.isfinite(together._legs.solve(engine.log_dynamics + reward, np.ones(40)).log_z).all()


def test_what_no_trip_explains_is_minus_infinity_and_what_rounding_loses_is_not():
    """From 0 to 2 nearly all trips pass the goal, 1, which those to 1 may not: 1e-14 of them remain."""
    network = xm.Network(4, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 2, 1.0), (2, 0, 1, 1.0), (3, 0, 1, 1.0)])
    engine = TripEngine(network, None, [0, 0], [1, 1], [1.0, 1.0], max_nodes=100)
    reward = np.array([-1.0, -40.0, -1.0, -1.0, -1.0])
    seen = [xm.Sighting([0, 2, 1], each=0.5), xm.Sighting([0, 3, 1], each=0.5)]
    found = SeenTrips(engine, engine.pair_of, seen).value(reward, np.ones(2))
    np.testing.assert_allclose(found.log_z, [-41.0 + math.log(0.5), -math.inf], atol=1e-12)
    np.testing.assert_allclose(found.visits[: len(reward)], [0.0, 1.0, 0.0, 1.0, 0.0], atol=1e-12)


def test_uses_are_the_derivative():
    rng = np.random.default_rng(75)
    network = random_network(rng)
    reward = random_reward(rng, network)[network.source, network.action]
    engine = TripEngine(network, None, [0, 1, 2], [3, 3, 5], np.ones(3), max_nodes=1000)
    noise = xm.confusion(0.3)
    seen = [xm.Sighting([0, 2, 3], noise, each=0.3), xm.Sighting([1, 4], noise, more=True, each=0.6)]
    seen.append(xm.Sighting([2, None, 5, 1], noise))
    together, weights = SeenTrips(engine, engine.pair_of, seen), np.array([0.2, 1.0, 0.5])

    def total(at):
        return float(weights @ together.value(at).log_z)

    steps = 1e-5 * np.eye(len(reward))
    slopes = [(total(reward + h) - total(reward - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(together.value(reward, weights).visits, slopes, atol=1e-8)
