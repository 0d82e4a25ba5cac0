"""method="paper" against the optimum by enumeration, and its constants and draws against the list."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task, small_task
from strategies import cases
from xmen.errors import ConvergenceWarning, GuaranteeWarning
from xmen.learners.xmen import XMEN
from xmen.methods.demonstrations import gather
from xmen.methods.paper import (
    STEP,
    PaperLikelihood,
    PaperRun,
    Proposal,
    compute_bounds,
    effective_sample_size,
    self_normalised_shares,
    split_shares,
)
from xmen.methods.runs import FitSettings, Task
from xmen.rewards.linear import DenseFeatures

# Most fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::xmen.errors.ConvergenceWarning")


def slippery(size=3, slip=0.2, horizon=4):
    grid = xm.GridWorld(size, size, start=(0, 0), goal=(size - 1, size - 1), horizon=horizon, slip=slip)
    rule = xm.visit(grid.at((1, 1)))
    rng = np.random.default_rng(0)
    features = rng.normal(size=(grid.n_states, grid.n_actions, 3))
    demos = xm.distribution(grid, rule, features @ np.array([0.4, -0.3, 0.2]), seed=0).sample(80)
    return grid, rule, features, demos


def proposal_of(world, rule, features, discount=1.0, oracle="listed"):
    base = xm.distribution(world, rule, None, discount=discount, engine="xor", oracle=oracle)
    return Proposal(base, DenseFeatures(features))


@pytest.mark.filterwarnings("ignore::xmen.errors.IdentifiabilityWarning")
@pytest.mark.slow
def test_near_the_optimum_at_default_settings():
    """Within 0.1 nats of the enumerated optimum, on random worlds, rules, discounts and weights."""
    for seed in range(cases(3)):
        task = small_task(seed)
        best, _ = task.optimum()
        model = XMEN(task.world, task.constraint, task.features, discount=task.discount, method="paper", seed=seed)
        model.fit(task.demos, sample_weight=task.weights)
        assert task.loss(model.weights_) - best < 0.1, seed
        assert model.method_ == "paper"
        assert model.converged_


@pytest.mark.parametrize("max_iter", [1, 10])
def test_few_iterations_do_not_pass_for_convergence(max_iter):
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, method="paper", oracle="listed", seed=0, max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=f"max_iter = {max_iter} iterations, .* fewer than 20 iterates"):
        model.fit(demos)
    assert not model.converged_
    assert model.n_iter_ == max_iter


@pytest.mark.slow
def test_iterates_on_their_way_are_noticed():
    """With steps too small to arrive they all go the same way; with the theorem's they turn back."""
    grid, rule, features, demos = grid_task(4)
    settings = dict(method="paper", oracle="listed", seed=0, max_iter=200)
    assert XMEN(grid, rule, features, **settings).fit(demos).converged_
    with pytest.warns(ConvergenceWarning, match="still on their way"):
        slow = XMEN(grid, rule, features, **{**settings, "method": xm.Paper(learning_rate=0.002)}).fit(demos)
    assert not slow.converged_


def test_drift_is_the_way_of_the_averaged_iterates():
    grid, rule, features, demos = grid_task(4)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    run = PaperRun(task, xm.Paper(burn_in=0.0), FitSettings(max_iter=6, seed=0), base)
    state = run.start()
    assert math.isnan(run.drift(state)[0])
    for _ in range(6):
        state, _ = run.step(state)
    assert run.drift(state)[0] == pytest.approx(np.linalg.norm(state.weights) / run.step_size / 6)


def test_nearly_equal_features_are_told_apart():
    """Their difference decides, and no step that is safe for their sum moves it: one in the metric of the draws does.

    Plain steps (burn_in=0) end 0.1 nats and more from the optimum.
    """
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
    rule = xm.visit(grid.at((1, 2), (2, 1)))
    rng = np.random.default_rng(3)
    first = rng.normal(size=(grid.n_states, grid.n_actions, 1))
    features = np.concatenate([first, first + 0.05 * rng.normal(size=first.shape)], axis=2)
    demos = xm.distribution(grid, rule, features @ [6.0, -6.0], seed=1).sample(80)
    best = XMEN(grid, rule, features).fit(demos).score(demos)

    def gap(**settings):
        learner = XMEN(grid, rule, features, method=xm.Paper(**settings), oracle="listed", max_iter=150, seed=0)
        exact = XMEN(grid, rule, features).fit(demos)
        exact.reward_ = learner.fit(demos).reward_
        return best - exact.score(demos)

    assert gap() < 0.02
    assert gap(burn_in=0.0) > 0.1


def test_where_features_have_their_zero_does_not_matter():
    """A ratio of two means errs in proportion to f: counted from the demonstrations' mean it does not.

    Draws are exact, so the ratio alone is to blame; 16 of them, 400 times.
    """
    grid, rule, features, demos = slippery()
    far = features + 4.0
    run = PaperRun(
        Task(gather(grid, rule, demos), DenseFeatures(far), rule),
        xm.Paper(),
        FitSettings(),
        xm.distribution(grid, rule, None, engine="xor", oracle="listed"),
    )
    rows, theta = run.proposal.listed_features, np.array([0.4, -0.3, 0.2])
    log_d = run.proposal.log_dynamics(run.proposal.hashed.walks)
    q, p = (np.exp(logs - np.logaddexp.reduce(logs)) for logs in (rows @ theta, rows @ theta + log_d))
    rng = np.random.default_rng(0)
    draws = rng.choice(len(rows), size=(400, 16), p=q)
    pools = [SimpleNamespace(features=rows[i], log_weights=log_d[i]) for i in draws]
    centred = np.array([run.estimate(pool) for pool in pools]) - p @ rows
    plain = np.array([split_shares(pool.log_weights) @ pool.features for pool in pools]) - p @ rows
    assert np.sqrt((centred**2).mean()) < 0.25 * np.sqrt((plain**2).mean())


def test_history_says_what_it_cost():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, method="paper", seed=0, max_iter=4).fit(demos)
    assert model.n_iter_ == 4
    for record in model.history_:
        assert math.isnan(record.loss)
        assert record.gradient_norm > 0
        assert {"parities", "queries", "solutions", "failures"} <= set(record.details)
        assert record.details["queries"] > 0
        assert record.details["effective_sample_size"] == pytest.approx(16.0)


def test_a_checkpoint_belongs_to_its_guarantee(tmp_path):
    grid, rule, features, demos = slippery()
    settings = dict(seed=3, max_iter=2, checkpoint=tmp_path / "run")
    XMEN(grid, rule, features, method=xm.Paper(), **settings).fit(demos)
    with pytest.raises(xm.XmenError, match="delta"):
        XMEN(grid, rule, features, method=xm.Paper(delta=1.05), **settings, resume=True).fit(demos)


def test_a_run_stopped_before_its_burn_in_is_over_answers_with_the_mean_of_its_iterates():
    grid, rule, features, demos = grid_task(4)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    run = PaperRun(task, xm.Paper(), FitSettings(max_iter=6, seed=0), base)
    state, iterates = run.start(), []
    for k in range(1, 7):
        state, _ = run.step(state)
        iterates.append(state.weights)
        averaged = iterates if k <= 3 else iterates[3:]
        np.testing.assert_allclose(run.answer(state), np.mean(averaged, axis=0) / run.bounds.span)


def test_without_burn_in_the_answer_is_the_mean_of_all_iterates():
    """burn_in=0: plain steps by sigma2^2 in units of the spans; the answer is the mean of the iterates."""
    grid, rule, features, demos = grid_task(4)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    run = PaperRun(task, xm.Paper(burn_in=0.0), FitSettings(max_iter=4, seed=0), base)
    assert run.smoothness == run.bounds.sigma2_squared
    assert run.step_size == 1.0 / run.smoothness
    state, iterates = run.start(), []
    for _ in range(4):
        before, slopes = state.weights, state.slopes
        state, _ = run.step(state)
        np.testing.assert_allclose(state.weights - before, run.step_size * (slopes - state.slopes))
        iterates.append(state.weights)
    np.testing.assert_allclose(run.answer(state), np.mean(iterates, axis=0) / run.bounds.span)


@pytest.mark.parametrize("make", [slippery, lambda: grid_task(4)], ids=["weights", "none"])
def test_the_letter_is_the_printed_formula(make):
    """g, the steps and the answer once more from the printed lines, rewards for costs, over the run's own draws."""
    grid, rule, features, demos = make()
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    run = PaperRun(task, xm.Paper(n_samples=6, letter=True), FitSettings(max_iter=5, seed=0), base)
    pools, draw = [], run.proposal.draw
    run.proposal.draw = lambda *given: pools.append(draw(*given)) or pools[-1]
    mean = np.mean([features[tau.states[:-1], tau.actions].sum(axis=0) for tau in demos], axis=0)
    state, theta, iterates = run.start(), np.zeros(features.shape[2]), []
    for _ in range(5):
        state, _ = run.step(state)
        f, d = pools[-1].features, np.exp(pools[-1].log_dynamics)
        theta = theta + run.step_size * (mean - (d[:3] @ f[:3]) / d[3:].sum())
        iterates.append(theta)
    np.testing.assert_allclose(run.answer(state), np.mean(iterates, axis=0))
    rows = run.proposal.listed_features
    middle = (rows.min(axis=0) + rows.max(axis=0)) / 2
    assert run.step_size == pytest.approx(1 / ((rows - middle) ** 2).sum(axis=1).max())


def test_steps_are_a_share_of_newtons_in_the_metric_of_earlier_draws():
    """Their mean square away from the demonstrations' mean; sigma2^2 is worth a draw for each feature."""
    grid, rule, features, demos = grid_task(4)
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    task = Task(gather(grid, rule, demos), DenseFeatures(features), rule)
    l2 = np.array([0.0, 0.3, 2.0, 0.01])
    run = PaperRun(task, xm.Paper(burn_in=0.1), FitSettings(max_iter=6, l2=l2, seed=0), base)
    span, pools, draw = run.bounds.span, [], run.proposal.draw
    run.proposal.draw = lambda *given: pools.append(draw(*given)) or pools[-1]
    state, seen = run.start(), [run.bounds.sigma2_squared * np.eye(4)]
    for _ in range(6):
        before = state.weights
        state, _ = run.step(state)
        slope = (pools[-1].features.mean(axis=0) - task.demo_features) / span + l2 * before / span**2
        shares = [4, *16 * np.ones(len(seen) - 1)]  # draws; of sigma2^2 as many as there are features
        hessian = np.average(seen, axis=0, weights=shares) + np.diag(l2 / span**2)
        np.testing.assert_allclose(state.weights - before, -STEP * np.linalg.solve(hessian, slope), atol=1e-12)
        away = (pools[-1].features - task.demo_features) / span
        seen.append(np.mean([np.outer(row, row) for row in away], axis=0))


def test_far_optima_are_reached_in_a_hundred_iterations():
    """One weight per state and demonstrations of a strong taste: plain steps end three times as far and more."""
    grid = xm.GridWorld(6, 6, (0, 0), (5, 5), moves=("up", "right", "up-right"))
    rule = xm.visit(grid.at((2, 3), (3, 2))) & xm.never(grid.at((4, 4)))
    taste = np.random.default_rng(2).normal(size=(36, 1)) * np.ones((1, 3))
    demos = xm.distribution(grid, rule, taste, seed=0).sample(500)
    features = np.repeat(np.eye(36)[:, None], 3, axis=1)
    exact = XMEN(grid, rule, features, l2=1e-3).fit(demos)

    def gap(**settings):
        learner = XMEN(
            grid, rule, features, method=xm.Paper(**settings), l2=1e-3, oracle="listed", seed=0, max_iter=100
        )
        return exact.score(demos) - learner.fit(demos).score(demos)

    assert 3 * gap() < gap(burn_in=0.0)


# ---------------------------------------------------------------------------------- constants


def covariance(rows, log_p):
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    away = rows - p @ rows
    return away.T @ (away * p[:, None])


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
@pytest.mark.parametrize("scaled", [True, False])
def test_bounds_hold_for_every_theta(oracle, scaled):
    """Ranges, and the sum of variances under P at random theta, by the list of the tests.

    P is pulled towards two far trajectories too, where a variance comes nearest to its bound. In the units of the run
    and in those of the letter.
    """
    rng = np.random.default_rng(0)
    for seed in range(cases(20 if oracle == "listed" else 6)):
        task = small_task(seed, spellable=True)
        rows = task.rows(task.valid)
        bounds = compute_bounds(proposal_of(task.world, task.constraint, task.features, task.discount, oracle), scaled)
        assert np.all(bounds.low <= rows.min(axis=0) + 1e-9)
        assert np.all(bounds.high >= rows.max(axis=0) - 1e-9)
        if oracle == "listed":
            np.testing.assert_allclose([bounds.low, bounds.high], [rows.min(axis=0), rows.max(axis=0)], atol=1e-9)
        assert scaled or np.all(bounds.span == 1.0)
        assert bounds.sigma2_squared <= (((bounds.high - bounds.low) / bounds.span) ** 2).sum() / 4 + 1e-9
        for trial in range(20):
            log_p = rows @ rng.normal(scale=3, size=rows.shape[1]) + rng.integers(2) * task.log_dynamics
            if trial >= 10:
                log_p[rng.choice(len(rows), size=2)] += 50.0
            assert np.trace(covariance(rows / bounds.span, log_p)) <= bounds.sigma2_squared + 1e-9


def test_the_smoothness_of_a_run_is_that_of_its_loss():
    """With a penalty that differs from feature to feature, against the Hessian's largest eigenvalue."""
    grid, rule, features, demos = grid_task(4)
    l2 = np.array([0.0, 0.3, 2.0, 0.01])
    base = xm.distribution(grid, rule, None, engine="xor", oracle="listed")
    run = PaperRun(
        Task(gather(grid, rule, demos), DenseFeatures(features), rule), xm.Paper(), FitSettings(l2=l2, seed=0), base
    )
    rows, rng, units = run.proposal.listed_features, np.random.default_rng(0), np.diag(1.0 / run.bounds.span)
    for _ in range(20):
        hessian = units @ (covariance(rows, rows @ rng.normal(scale=2, size=4)) + np.diag(l2)) @ units
        assert np.linalg.eigvalsh(hessian)[-1] <= run.smoothness * (1 + 1e-9)


def test_steps_that_no_theorem_knows_are_announced():
    """Only those: a larger delta is a larger bias, and asks for nothing else."""
    grid, rule, features, demos = slippery()
    settings = dict(seed=0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GuaranteeWarning)
        XMEN(grid, rule, features, method="paper", **settings).fit(demos)
        XMEN(grid, rule, features, method=xm.Paper(delta=3.0), **settings).fit(demos)
    with pytest.warns(GuaranteeWarning, match="learning_rate = 50"):
        XMEN(grid, rule, features, method=xm.Paper(learning_rate=50.0), **settings).fit(demos)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_samples": 1}, "n_samples"),
        ({"n_demonstrations": 0}, "n_demonstrations"),
        ({"proposal": "magic"}, "choose one of 'fixed', 'appendix', 'adaptive', 'dynamics'"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"delta": 0.9}, "delta"),
        ({"failure": 2.0}, "probability|failure"),
        ({"letter": True, "self_normalised": True}, "as printed: leave self_normalised"),
        ({"letter": True, "proposal": "dynamics"}, "as printed: leave self_normalised and proposal out"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(xm.EngineError, match=message):
        xm.Paper(**settings)


# ---------------------------------------------------------------------------------- proposal and weights


def test_estimates_agree_where_weights_are_equal():
    rows = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_allclose(split_shares(np.full(10, -700.0)) @ rows, rows[:5].mean(axis=0))
    np.testing.assert_allclose(self_normalised_shares(np.full(10, -700.0)) @ rows, rows.mean(axis=0))
    assert effective_sample_size(np.full(10, -700.0)) == pytest.approx(10.0)
    assert effective_sample_size(np.array([0.0, -800.0])) == pytest.approx(1.0)
    assert np.isfinite(split_shares(np.r_[np.zeros(5), np.full(5, -2000.0)])).all()


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_draws_follow_the_proposal(beta):
    """Mean features of 200 draws from exp(theta . f) D^beta I_C, by the list; catches an error of 5 standard errors."""
    grid, rule, features, _ = slippery()
    proposal = proposal_of(grid, rule, features)
    theta, shift = np.array([0.3, -0.2, 0.1]), np.array([0.1, 0.1, -0.2])
    rng = np.random.default_rng(0)
    pool = proposal.draw(theta, shift, beta, 200, 1.18, 0.01, rng)
    walks = proposal.hashed.walks
    rows, log_d = proposal.rows(walks), proposal.log_dynamics(walks)
    log_q = rows @ (theta + shift) + beta * log_d
    q = np.exp(log_q - np.logaddexp.reduce(log_q))
    spread = np.sqrt(q @ (rows - q @ rows) ** 2 / 200)
    assert np.all(np.abs(pool.features.mean(axis=0) - q @ rows) < 5 * spread + 0.05 * (q @ np.abs(rows)))
    log_w = pool.features @ theta + pool.log_dynamics - (pool.features @ (theta + shift) + beta * pool.log_dynamics)
    np.testing.assert_allclose(pool.log_weights, log_w, atol=1e-9)


def test_the_error_of_visits_is_that_of_a_share():
    """For a network, by 16 draws of a choice of two: a share p has the variance p (1 - p) / 16, and so has 1 - p."""
    world = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    demos = gather(world, None, [xm.Trajectory([0, 1], [0])])
    base = xm.distribution(world, None, None, engine="xor", oracle="listed")
    likelihood = PaperLikelihood(base, demos, xm.Paper(), 1)
    likelihood.begin(np.random.default_rng(0), 0)
    found = likelihood(np.zeros((3, 2)))
    p = 1.0 + found.difference[0, 0]  # the demonstration chose the first
    assert 0.0 < p < 1.0
    assert found.difference[0, 1] == pytest.approx(1.0 - p)
    assert found.visits_std == pytest.approx(np.sqrt(2.0 * p * (1.0 - p) / 16))


@pytest.mark.slow
def test_adaptive_proposals_raise_the_effective_sample_size():
    grid, rule, features, demos = slippery()
    size = {}
    for proposal in ("fixed", "dynamics"):
        settings = dict(method=xm.Paper(proposal=proposal, self_normalised=True), seed=0, max_iter=20)
        model = XMEN(grid, rule, features, **settings).fit(demos)
        size[proposal] = np.mean([r.details["effective_sample_size"] for r in model.history_[10:]])
    assert size["dynamics"] > 1.2 * size["fixed"]
