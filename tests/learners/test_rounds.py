"""Rounds of weighted draws: the estimator against a listed sum, error bars against their own spread, and the judge."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pytest

import xmen as xm
from learners.exact_loss import assert_derivatives, assert_noise, exact_loss
from learners.quiet import quiet_fit
from learners.tasks import grid_task, small_task
from xmen.errors import GuaranteeWarning, OracleError
from xmen.learners.xmen import XMEN
from xmen.methods.cells import CellSource
from xmen.methods.demonstrations import gather
from xmen.methods.loss import DrawnLoss, Draws, Spread
from xmen.methods.reject import RejectSource
from xmen.methods.rounds import JUDGES, Metric, RoundsRun, judge, judges_needed, largest_decrement, trace
from xmen.methods.runs import FitSettings, Task, drive
from xmen.oracles import ListedOracle
from xmen.progress import Monitor
from xmen.rewards.linear import DenseFeatures, StateFeatures
from xmen.worlds.walks import EdgeWeights

HASHED = {"method": xm.Cells(n_cells=8, cell_size=48.0), "oracle": "listed", "engine": "exact"}


def listed(task) -> Draws:
    """All valid trajectories of a small task, each with measure 1: nothing is left to chance."""
    walks = xm.distribution(task.world, task.constraint, None, engine="xor", oracle="listed").hashed.walks
    dynamics = walks.scores(EdgeWeights.of(task.world))
    return samples(walks.visit_rows(task.discount), dynamics, np.zeros(len(walks)))


def samples(visits, log_dynamics, log_measure) -> Draws:
    """One batch of valid draws."""
    valid, part = np.ones(len(log_measure), dtype=bool), np.zeros(len(log_measure), dtype=int)
    return Draws.of_parts(visits, log_measure, log_dynamics, valid, part, np.zeros(1))


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_over_all_trajectories_is_the_loss(seed):
    """Against the tests' own enumeration, with the gradient by finite differences; a second batch changes nothing."""
    task = small_task(seed, spellable=True)
    features = DenseFeatures(task.features)
    draws = listed(task)
    theta = np.random.default_rng(seed).normal(size=features.d)
    for each in (draws, draws.joined(draws)):
        loss = DrawnLoss(each, features, task.demo_features, 0.3)
        assert_derivatives(loss, theta, lambda at: task.loss(at, 0.3))


def test_stored_draws_come_back():
    draws = listed(small_task(0, spellable=True))
    again = Draws(**draws.joined(draws).as_arrays()).keeping(np.array([False, True]))
    assert len(again) == len(draws)
    np.testing.assert_array_equal(again.visits.toarray(), draws.visits.toarray())
    np.testing.assert_array_equal(again.log_measure, draws.log_measure)


@pytest.mark.parametrize("tilt", [0.0, 1.0])
def test_noise_is_what_it_is_said_to_be(tilt):
    """100 batches of hash cells: the gradient is unbiased within 4 standard errors, and its spread within a third.

    The mean of 400 squared ratios has a standard deviation of at most 0.15 even if each batch's 4 components move
    together, so that a variance that is wrong by a factor 2 is caught.
    """
    grid, rule, array, demos = grid_task(6)
    # Plain cells far from where they are weighed are what rounds avoid: too few draws would carry the weight.
    features, theta = DenseFeatures(array), (1.0 if tilt else 0.2) * np.array([0.5, -0.3, 0.2, 0.8])
    hashed = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    source = CellSource(hashed, gather(grid, rule, demos[:5]), features, 4, None)
    at, m = (tilt * theta, 6) if tilt else (None, 4)
    exact = exact_loss(xm.distribution(grid, rule, None), features, np.zeros(4))(theta)
    ratios, losses = [], []
    for seed in range(100):
        batch = source.read_cells(at, 8, m, np.random.default_rng(seed))
        loss = DrawnLoss(batch.draws, features, np.zeros(4), 0.0)
        value, seen = loss(theta), Spread(loss, theta)
        ratios.append((value.gradient - exact.gradient) / np.sqrt(seen.noise.diagonal()))
        losses.append((value.loss - exact.loss) / seen.log_partition_std)
    assert_noise(ratios, losses)


@pytest.mark.parametrize("curvature", [1.0, 1e-12])
@pytest.mark.parametrize("shape", [np.asarray, np.diag], ids=["diagonal", "matrix"])
def test_distances_are_in_units_of_the_curvature(shape, curvature):
    """Of three features that stand alone, each with its unit, the last without curvature: g^2 / h, V / h, sqrt(V) / h.

    However small all curvature is: what is flat is so beside the others.
    """
    h, gradient, noise = curvature * np.array([2.0, 0.5, 0.0]), np.array([1.0, -3.0, 0.0]), np.array([4.0, 9.0, 0.0])
    metric = Metric(shape(h), np.array([1.0, 2.0, 3.0]))
    distance = metric.vector(np.stack([gradient, 2.0 * gradient]))
    np.testing.assert_allclose(np.square(distance).sum(axis=1) * curvature, [18.5, 74.0])
    assert trace(metric.matrix(shape(noise))) * curvature == pytest.approx(4.0 / 2.0 + 9.0 / 0.5)
    np.testing.assert_allclose(metric.weights_std(shape(noise)) * curvature, [1.0, 6.0, 0.0])


def test_the_bound_is_exact_where_noise_is_one_number():
    """One direction of unit noise: q = (g + z)^2. Of 4,000 draws at g = 2, 95 % give a bound of 4 or more."""
    rng = np.random.default_rng(0)
    found = [largest_decrement((2.0 + z) ** 2, np.eye(1)) >= 4.0 for z in rng.normal(size=4000)]
    assert 0.94 < np.mean(found) < 0.96


@pytest.mark.parametrize(("d", "distance"), [(3, 0.001), (10, 0.002), (100, 0.006)])
def test_judges_agree_nine_times_in_ten_and_fewer_do_not(d, distance):
    """Gradients of noise around one that is `distance` away; tol 0.01, and twice that for the bound.

    4,000 of them tell 0.9 from 0.88. The noise of fitted draws is that with which a fit would end where it is.
    """
    tol, noise, rng = 0.01, np.full(d, 2.0 * distance / d), np.random.default_rng(0)
    share = judges_needed(noise, distance, tol, 2.0 * tol)
    assert JUDGES[0] < share < 1.0

    def agreeing(times):
        gradients = np.sqrt(noise / times) * rng.normal(size=(4000, d))
        gradients[:, 0] += np.sqrt(2.0 * distance)
        q = np.square(gradients).sum(axis=1)
        near = 0.5 * (q - noise.sum() / times) <= tol
        return np.mean(near & [0.5 * largest_decrement(each, noise / times) <= 2.0 * tol for each in q])

    assert agreeing(share) > 0.88
    assert agreeing(share / np.sqrt(2.0)) < 0.9


def test_the_judge_knows_nothing_but_its_draws():
    """Weights at the optimum pass, weights away from it do not, and are as far away as they are."""
    grid, rule, array, demos = grid_task(6)
    features = DenseFeatures(array)
    best = XMEN(grid, rule, array).fit(demos).weights_
    mean = features.contract(gather(grid, rule, demos).visits())
    objective = exact_loss(xm.distribution(grid, rule, None), features, mean)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    source = CellSource(base, gather(grid, rule, demos), features, 4, None)
    for away, within in ((np.zeros(4), True), (np.array([0.3, 0.0, 0.0, 0.0]), False)):
        weights = best + away
        fresh = DrawnLoss(source.read_cells(best, 40, 8, np.random.default_rng(1)).draws, features, mean, 0.0)
        metric = Metric(Spread(fresh, weights).hessian, features.scale)
        seen = judge(weights, fresh, metric, np.zeros((4, 4)), 50.0)
        truth = objective(weights).loss - objective(best).loss
        assert seen.within_noise == within
        assert truth <= seen.bound
        assert abs(seen.distance - truth) < 0.3 * truth + 0.005


def test_what_plain_draws_never_met_is_met_by_the_last_ones():
    """One trajectory in 10,000 gets a third of the weight: of 20 batches of plain cells few meet it, of copies all do.

    Plain ones then see no more weight than there is without it, which is what a fit must not end by.
    """
    grid = xm.GridWorld(7, 7, start=(0, 0), goal=(6, 6), moves=("up", "right", "up-right"))
    array = np.eye(grid.n_states)[:, None, :].repeat(grid.n_actions, axis=1)
    features = DenseFeatures(array)
    hidden, *demos = xm.distribution(grid, None, None, seed=1).sample(30)
    base = xm.distribution(grid, None, None, engine="xor", oracle="listed")
    gathered = gather(grid, None, [demo for demo in demos if demo != hidden])
    source = CellSource(base, gathered, features, 4, 32.0)
    theta = np.zeros(grid.n_states)
    theta[list(hidden.states)] = 1.0
    # Scaled so that the heavy trajectory has a third of the weight.
    low, high = 0.0, 5.0
    for _ in range(50):
        middle = (low + high) / 2.0
        share = np.exp(xm.distribution(grid, None, array @ (middle * theta)).log_prob(hidden))
        low, high = (middle, high) if share < 1 / 3 else (low, middle)
    theta *= low
    log_z = xm.distribution(grid, None, array @ theta).log_partition()
    mean = features.contract(gathered.visits())
    met_by_plain, met_by_last = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        plan, _ = source.first(128.0, rng)
        plain = source.read(plan, theta, rng)
        loss = DrawnLoss(plain.draws, features, mean, 0.0)
        last = source.read(source.next(plan, theta, loss, 100.0, last=True), theta, rng)
        assert not plain.sees_all
        met_by_plain.append(loss.look(theta).log_sum[0] > log_z - 0.2)
        if last.sees_all:  # else plain ones were misleading, and one more round follows
            met_by_last.append(abs(DrawnLoss(last.draws, features, mean, 0.0).look(theta).log_sum[0] - log_z))
    assert np.mean(met_by_plain) < 0.3
    assert len(met_by_last) >= 15
    assert max(met_by_last) < 0.25


def test_draws_that_may_miss_something_end_no_fit():
    """The same rounds as of rejection's exact samples, which end a fit, but said to be others: all rounds are taken."""

    class Unsure(RejectSource):
        def read(self, plan, weights, rng):
            return super().read(plan, weights, rng)._replace(sees_all=False)

    grid, rule, features, demos = grid_task(6)
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    base = xm.distribution(grid, rule, None, engine="reject", max_nodes=800)
    for source, ends in ((RejectSource, True), (Unsure, False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            settings = FitSettings(seed=0, tol=0.05, max_iter=6)
            run = RoundsRun(task, settings, source(base, task.features), lambda: None)
            outcome = drive(run, Monitor(None), None)
            assert outcome.converged == ends
            assert np.isfinite(outcome.learned["distance_bound_"]) == ends


def test_the_weight_of_which_one_solution_may_not_have_much_is_all_of_it():
    """In one cell of everything it is Z, demonstrations included, each once."""
    told = []

    class Told(CellSource):
        def _largest_share(self, plan, weights, log_z):
            told.append(log_z)
            return super()._largest_share(plan, weights, log_z)

    grid, rule, features, demos = grid_task(4)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    source, theta = Told(base, gather(grid, rule, demos[:5]), DenseFeatures(features), 4, None), np.ones(4)
    source.read({"tilt": 0.0, "cells": 1, "parities": 0}, theta, np.random.default_rng(0))
    assert told == pytest.approx([xm.distribution(grid, rule, features @ theta).log_partition()])


def test_a_loose_tol_leaves_more_draws_than_weights():
    """144 weights, one per state, and a tol of 10 nats, for which a dozen draws would do."""
    asked = []

    class Told(RejectSource):
        def first(self, wanted, rng):
            asked.append(wanted)
            return super().first(wanted, rng)

    grid, rule, _, demos = grid_task(12)
    task = Task(gather(grid, rule, demos), StateFeatures(grid), rule)
    source = Told(xm.distribution(grid, rule, None, engine="reject"), task.features)
    run = RoundsRun(task, FitSettings(seed=0, tol=10.0, max_iter=1), source, lambda: None)
    run.step(run.start())
    assert asked[0] >= 2 * grid.n_states


def test_a_fit_that_was_stopped_bounds_nothing():
    """Draws say little of weights that were fitted to them."""
    grid, rule, features, demos = grid_task(7)
    model = XMEN(grid, rule, features, seed=0, tol=0.01, callback=lambda record: True, **HASHED).fit(demos)
    assert model.n_iter_ == 1
    assert model.distance_bound_ == np.inf


@pytest.mark.slow
def test_the_standard_error_of_the_weights():
    """The weights of 30 fits to different cells spread as their stated standard errors say, within a factor 2."""
    grid, rule, features, demos = grid_task(8)
    models = [quiet_fit(XMEN(grid, rule, features, seed=s, tol=0.01, **HASHED), demos) for s in range(20)]
    best = XMEN(grid, rule, features).fit(demos).weights_
    ratios = np.array([(model.weights_ - best) / model.weights_std_ for model in models])
    assert 0.25 < np.mean(ratios**2) < 4.0


def test_results_do_not_depend_on_who_reads_the_cells():
    grid, rule, features, demos = grid_task(6)
    alone = quiet_fit(XMEN(grid, rule, features, seed=3, tol=0.02, **HASHED), demos)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        together = quiet_fit(XMEN(grid, rule, features, seed=3, tol=0.02, **HASHED), demos)
    np.testing.assert_array_equal(alone.weights_, together.weights_)


def test_a_solver_that_dies_costs_a_cell(monkeypatch):
    grid, rule, features, demos = grid_task(6)
    read, calls = ListedOracle.cell, []

    def cell(self, parities, limit=None):
        calls.append(parities.m)
        if limit is None and (parities.matrix[0, 0] & parities.matrix[0, 1] & parities.rhs[0] if parities.m else 0):
            raise OracleError("the process died")
        return read(self, parities, limit)

    monkeypatch.setattr(ListedOracle, "cell", cell)
    with pytest.warns(GuaranteeWarning, match=r"cells? .*lost"):
        model = XMEN(grid, rule, features, seed=0, tol=0.02, **HASHED).fit(demos)
    assert sum(record.details["lost"] for record in model.history_) > 0
    monkeypatch.undo()
    assert XMEN(grid, rule, features).fit(demos).score(demos) - model.score(demos) < 0.1


def test_a_solver_that_always_dies_is_an_error(monkeypatch):
    grid, rule, features, demos = grid_task(6)

    def cell(self, parities, limit=None):
        raise OracleError("the process died")

    monkeypatch.setattr("xmen.methods.cells.read_cell", cell)
    with pytest.raises(xm.EngineError, match=r"cells of . parities"):
        XMEN(grid, rule, features, seed=0, **HASHED).fit(demos)


def test_rounds_of_exact_samples_by_rejection():
    """The same rounds over another source; the rule about keys rejects half of the draws."""
    grid, rule, features, demos = grid_task(6)
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    base = xm.distribution(grid, rule, None, engine="reject", max_nodes=800)
    assert base.relaxation.rejecting
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = RoundsRun(task, FitSettings(seed=0, tol=0.01), RejectSource(base, task.features), lambda: None)
        outcome = drive(run, Monitor(None), None)
    mean = task.demo_features
    objective = exact_loss(xm.distribution(grid, rule, None), task.features, mean)
    best = XMEN(grid, rule, features).fit(demos).weights_
    gap = objective(outcome.answer).loss - objective(best).loss
    assert outcome.converged
    assert -1e-9 < gap < 0.02


def test_draws_from_paws_minimise_to_the_optimum():
    """PAWS as a source: 300 draws from exp(theta . f) within 1.1 stand for P by their weights."""
    from xmen.methods.likelihood import Lbfgs
    from xmen.methods.paper import Proposal

    grid, rule, array, demos = grid_task(6)
    features = DenseFeatures(array)
    best = XMEN(grid, rule, array).fit(demos).weights_
    proposal = Proposal(xm.distribution(grid, rule, None, engine="xor", oracle="listed"), features)
    theta = 0.8 * best
    pool = proposal.draw(theta, np.zeros(4), 0.0, 300, 1.1, 0.05, np.random.default_rng(0))
    draws = samples(pool.walks.visit_rows(), pool.log_dynamics, -pool.features @ theta)
    mean = features.contract(gather(grid, rule, demos).visits())
    optimiser = Lbfgs(DrawnLoss(draws, features, mean, 0.0), features.scale, lambda v: float(np.abs(v).max()), 1e-6)
    state = optimiser.start(theta)
    while not state.finished:
        state = optimiser.step(state)
    objective = exact_loss(xm.distribution(grid, rule, None), features, mean)
    assert -1e-9 < objective(state.weights).loss - objective(best).loss < 0.05
