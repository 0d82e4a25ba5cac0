"""Learning from trips that were seen in part: loss and gradient, errors, scores, goals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import xmen as xm
from engines.test_horizon_free import random_network
from learners.tasks import slopes
from xmen.methods.demonstrations import gather
from xmen.methods.exact import TripObjective
from xmen.methods.runs import FitSettings

NETWORK = xm.Network(
    4,
    2,
    [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 2, 1.0), (1, 1, 3, 1.0), (2, 0, 3, 1.0), (2, 1, 0, 1.0), (3, 0, 0, 1.0)],
)
FEATURES = np.zeros((4, 2, 2))
FEATURES[:, :, 0] = [[1.0, 3.0], [1.0, 4.0], [2.0, 1.0], [2.0, 0.0]]
FEATURES[:, 1, 1] = 1.0
WEIGHTS = np.array([-0.6, -0.4])


def trips(n, seed=0):
    rng, reward = np.random.default_rng(seed), FEATURES @ WEIGHTS
    pairs = [(0, 3), (1, 0), (0, 2), (3, 2)]
    return [tau for s, g in pairs for tau in xm.distribution(NETWORK.task(s, g), None, reward, seed=rng).sample(n)]


def seen(tau, q, rng, **more):
    first, *inner = tau.states
    last = inner[-1:]
    return xm.Sighting([first, *(s for s in inner[:-1] if rng.random() < q), *last], each=q, **more)


@pytest.fixture(scope="module")
def demos():
    return trips(25)


@pytest.fixture(scope="module")
def complete(demos):
    return xm.XMEN(NETWORK, features=FEATURES).fit(demos)


@pytest.fixture(scope="module")
def partly(demos):
    rng = np.random.default_rng(1)
    mixed = [tau if i % 3 == 0 else seen(tau, 0.4, rng) for i, tau in enumerate(demos)]
    return xm.XMEN(NETWORK, xm.usually(xm.visit(xm.at(1)).named("one")), features=FEATURES).fit(mixed), mixed


def test_all_seen_is_the_fit_of_trips(demos, complete):
    rng = np.random.default_rng(0)
    nearly = [seen(tau, 1.0 - 1e-12, rng) for tau in demos]
    assert all(y.seen == tau.states for y, tau in zip(nearly, demos, strict=True))
    model = xm.XMEN(NETWORK, features=FEATURES).fit(nearly)
    np.testing.assert_allclose(model.weights_, complete.weights_, atol=1e-9)
    np.testing.assert_allclose(model.standard_errors_, complete.standard_errors_, atol=1e-6)
    np.testing.assert_allclose(model.score(nearly), complete.score(demos), atol=1e-9)


def test_the_gradient_is_that_of_the_loss(partly):
    model, mixed = partly
    task = model._task(gather(NETWORK.any_task, model._rule(), mixed, sightings=True))
    run = model._prepare(task)[1]
    objective = run.objective
    assert isinstance(objective, TripObjective)
    for offset in (0.0, -0.3):
        objective.offset = offset
        at = np.array([-0.7, -0.2, 0.4])
        np.testing.assert_allclose(objective(at).gradient, slopes(lambda at: objective(at).loss, at), atol=1e-8)
    assert isinstance(run.settings, FitSettings)


def test_scores_are_those_of_each_pair_alone(partly):
    model, mixed = partly
    assert model.converged_
    values = model.score_samples(mixed)
    for one, value in list(zip(mixed, values, strict=True))[:12]:
        if isinstance(one, xm.Sighting):
            d = model.distribution(start=one.seen[0], goal=one.seen[-1])
            assert value == pytest.approx(d.log_seen(one), abs=1e-9)
            np.testing.assert_allclose(model.seen(one).visits(), d.seen(one).visits(), atol=1e-12)
        else:
            d = model.distribution(start=one.states[0], goal=one.states[-1])
            assert value == pytest.approx(d.log_prob(one), abs=1e-9)
    assert model.score(mixed) == pytest.approx(values.mean())
    wrong = [xm.Sighting([0, 3], each=0.5), xm.Sighting([0, 3, 1, 3], each=0.5), xm.Sighting([0, 2])]
    assert np.isfinite(model.score_samples(wrong)).tolist() == [True, False, True]


def test_observed_information_is_the_curvature_of_the_loss(partly):
    model, mixed = partly
    task = model._task(gather(NETWORK.any_task, model._rule(), mixed, sightings=True))
    objective = model._prepare(task)[1].objective
    at = np.append(model.weights_, model.rule_weights_["one"])
    curved = slopes(lambda at: objective(at).gradient, at, 1e-4)
    errors = np.sqrt(np.diag(np.linalg.inv(curved)) / len(mixed))
    np.testing.assert_allclose(model.summary().standard_errors, errors, rtol=1e-4)
    scores = model._information(task.demos).scores
    np.testing.assert_allclose(task.demos.all_weights @ scores, 0.0, atol=1e-6)


def test_less_seen_is_less_known_and_the_truth_is_within_the_errors():
    """300 trips, of which 40 % was seen: three standard errors miss a given weight 3 times in 1,000."""
    rng = np.random.default_rng(5)
    whole = trips(75, seed=5)
    model = xm.XMEN(NETWORK, features=FEATURES).fit([seen(tau, 0.4, rng) for tau in whole])
    errors = xm.XMEN(NETWORK, features=FEATURES).fit(whole).standard_errors_
    assert np.all(model.standard_errors_ > errors)
    assert np.all(np.abs(model.weights_ - WEIGHTS) < 3.0 * model.standard_errors_)


def test_with_a_horizon_every_trip_has_a_solve_of_its_own(demos):
    """Twelve moves are enough for all but 1e-4 of the trips: the optimum hardly moves."""
    rng = np.random.default_rng(3)
    part = [seen(tau, 0.5, rng) for tau in demos[::4] if len(tau) <= 12]
    free = xm.XMEN(NETWORK, features=FEATURES).fit(part)
    network = xm.Network(4, 2, NETWORK.transitions, horizon=24)
    bounded = xm.XMEN(network, features=FEATURES).fit(part)
    np.testing.assert_allclose(bounded.weights_, free.weights_, atol=1e-2)


def test_goals_are_those_of_bayes_link_by_link(complete):
    prior = {0: 1.0, 2: 2.0, 3: 0.5}
    for states, each in (([1], 0.3), ([1, 2], 0.3), ([1, 2, 0], 0.3), ([1, 2, 0], None), ([1, None, 0], None)):
        y = xm.Sighting(states, each=each, more=True)
        truth = np.zeros(4)
        for goal, share in prior.items():
            truth[goal] = share * math.exp(complete.distribution(start=1, goal=goal).log_seen(y))
        found = complete.goals(y, prior)
        np.testing.assert_allclose(found, truth / truth.sum(), atol=1e-10)
        np.testing.assert_allclose(complete.goals(y, [1.0, 0.0, 2.0, 0.5]), found)
    assert complete.goals(xm.Sighting([1, 2], each=0.3, more=True)).sum() == pytest.approx(1.0)


def test_one_system_serves_all_goals():
    rng = np.random.default_rng(8)
    network = random_network(rng, 12)
    model = xm.XMEN(network, features=np.ones((12, 3, 1)), fixed={0: -2.0})
    model.fit([xm.distribution(network.task(0, 5), None, -2.0 * np.ones((12, 3))).mode()])
    y = xm.Sighting([0, 4], noise=xm.confusion(0.3), each=0.2, more=True, start=0)
    truth = np.exp([model.distribution(start=0, goal=goal).log_seen(y) for goal in range(12)])
    np.testing.assert_allclose(model.goals(y), truth / truth.sum(), atol=1e-10)


def test_ends_that_are_not_known_are_asked_for(complete):
    noisy = xm.Sighting([0, 2, 3], noise=xm.confusion(0.1), each=0.5)
    with pytest.raises(xm.TrajectoryError, match="start of a trip"):
        complete.score([noisy])
    given = xm.Sighting([0, 2, 3], noise=xm.confusion(0.1), each=0.5, start=0, goal=3)
    assert complete.score([given]) == pytest.approx(complete.distribution(start=0, goal=3).log_seen(given))
    with pytest.raises(xm.TrajectoryError, match="goal of a trip"):
        complete.score([xm.Sighting([0, 2], each=0.5, more=True)])
    with pytest.raises(xm.EngineError, match="more=True"):
        complete.goals(given)
    with pytest.raises(xm.InfeasibleError, match="entry 2"):
        xm.XMEN(NETWORK, features=FEATURES).fit([xm.Sighting([0, 3, 1, 3], each=0.5)])
    with pytest.raises(xm.EngineError, match="prior"):
        complete.goals(xm.Sighting([0], each=0.5, more=True), [0.0, 0.0, 0.0, 0.0])
    impossible = xm.Sighting([3, 1], more=True)
    with pytest.raises(xm.InfeasibleError, match="no goal"):
        complete.goals(impossible)
