"""Relative entropy inverse reinforcement learning against closed forms and the exact dual by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import xmen as xm
from reference import enumerate_trajectories
from strategies import cases, random_world
from xmen.baselines.relative_entropy import RelativeEntropyIRL
from xmen.errors import ConvergenceWarning, LearningWarning, UnboundedWarning

FORK = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
LEFT, RIGHT = xm.Trajectory([0, 1], [0]), xm.Trajectory([0, 2], [1])
GOES_LEFT = np.zeros((3, 2, 1))
GOES_LEFT[0, 0, 0] = 1.0

WAIT = xm.MDP(2, 2, [(0, 0, 1, 1.0), (0, 1, 0, 1.0)], start=0, terminal=[1], horizon=2)
GO, WAIT_AND_GO = xm.Trajectory([0, 1], [0]), xm.Trajectory([0, 0, 1], [1, 0])


def logit(p):
    return math.log(p / (1 - p))


def enumerated(world, policy, features, discount):
    """All trajectories with log(base probability) and f(tau), by listing them."""
    out = []
    for states, actions, dynamics in enumerate_trajectories(world):
        chances = [policy[s, a] for s, a in zip(states, actions, strict=False)]
        if all(p > 0 for p in chances):
            f = sum((discount**t * features[s, a] for t, (s, a) in enumerate(zip(states, actions, strict=False))), 0.0)
            out.append((states, actions, math.log(dynamics) + sum(map(math.log, chances)), f + 0 * features[0, 0]))
    return out


def exact_dual(listed, mean, epsilon):
    """(optimal theta, loss function) of the dual over all trajectories."""
    log_q, rows = np.array([entry[2] for entry in listed]), np.array([entry[3] for entry in listed])
    d = len(mean)

    def loss(theta):
        return np.logaddexp.reduce(log_q + rows @ theta) - theta @ mean + np.sum(epsilon * np.abs(theta))

    def split(x):
        p = np.exp(log_q + rows @ (x[:d] - x[d:]))
        gradient = p @ rows / p.sum() - mean
        return loss(x[:d] - x[d:]) + 0.0, np.concatenate([gradient + epsilon, epsilon - gradient])

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    best = minimize(split, np.full(2 * d, 0.1), jac=True, bounds=[(0, None)] * 2 * d, options=options).x
    return best[:d] - best[d:], loss


def test_the_fork_by_hand():
    """Base 1/2 left; demonstrations 4/5 left with threshold 1/10: P(left) = 7/10, theta = logit(7/10) - logit(1/2).

    The weight inherits the error of the sampled base frequency, 0.02 at n = 10,000 (standard deviation of its logit).
    """
    model = RelativeEntropyIRL(FORK, GOES_LEFT, epsilon=0.1, n_samples=10_000, seed=0).fit([LEFT] * 4 + [RIGHT])
    assert model.weights_[0] == pytest.approx(logit(0.7), abs=0.06)
    assert math.exp(model.distribution().log_prob(LEFT)) == pytest.approx(0.7, abs=0.015)
    assert model.score([LEFT]) == pytest.approx(model.distribution().log_prob(LEFT), abs=1e-12)
    assert model.completed_ == 1.0
    assert model.converged_


def test_a_base_policy_by_hand():
    """Base 1/10 left: theta = logit(7/10) - logit(1/10); sampling half left instead only changes the importance."""
    base = [[0.1, 0.9], [0, 0], [0, 0]]
    for sampling in (None, [[0.5, 0.5], [0, 0], [0, 0]]):
        model = RelativeEntropyIRL(FORK, GOES_LEFT, 1.0, base, sampling, 20_000, epsilon=0.1, seed=1)
        model.fit([LEFT] * 4 + [RIGHT])
        assert model.weights_[0] == pytest.approx(logit(0.7) - logit(0.1), abs=0.1)


def test_within_the_threshold_nothing_is_learned():
    model = RelativeEntropyIRL(FORK, GOES_LEFT, epsilon=0.35, n_samples=2000, seed=0).fit([LEFT] * 4 + [RIGHT])
    assert model.weights_[0] == 0.0
    assert math.exp(model.score([LEFT])) == pytest.approx(0.5, abs=1e-12)


def test_the_threshold_is_hoeffding_s():
    """Five demonstrations of range 1: epsilon = sqrt(-log(1 - 1/2) / 10); with weights, of their effective number."""
    model = RelativeEntropyIRL(FORK, GOES_LEFT, confidence=0.5, n_samples=500, seed=0).fit([LEFT] * 4 + [RIGHT])
    assert model.epsilon_[0] == pytest.approx(math.sqrt(math.log(2) / 10), abs=1e-12)
    model.fit([LEFT, RIGHT], sample_weight=[4, 1])
    assert model.epsilon_[0] == pytest.approx(math.sqrt(math.log(2) / (2 * 25 / 17)), abs=1e-12)


def test_incomplete_rollouts_do_not_count():
    """At most one wait fits the horizon: of the base's 1/2, 1/4, 1/4 the last meets no terminal state.

    Given completion the base is 2/3 and 1/3, and 1/2 waits in the demonstrations give logit(1/2) - logit(1/3).
    """
    waits = np.zeros((2, 2, 1))
    waits[0, 1, 0] = 1.0
    model = RelativeEntropyIRL(WAIT, waits, epsilon=0.0, n_samples=40_000, seed=3).fit([GO, WAIT_AND_GO])
    assert model.completed_ == pytest.approx(0.75, abs=0.01)
    assert model.weights_[0] == pytest.approx(-logit(1 / 3), abs=0.05)
    assert model.score([GO]) == pytest.approx(math.log(0.5), abs=0.02)


def random_task(seed):
    """A random world with a base policy (some actions never taken), features and demonstrations."""
    rng = np.random.default_rng(seed)
    while True:
        world = random_world(rng)
        policy = rng.dirichlet(np.ones(world.n_actions), world.n_states) * world.available
        policy[rng.random(policy.shape) < 0.1] = 0.0
        empty = world.available & (policy.sum(axis=1, keepdims=True) == 0)
        policy = np.where(empty, 1.0, policy)
        policy /= np.maximum(policy.sum(axis=1, keepdims=True), 1e-300)
        features = rng.normal(0, 1, (world.n_states, world.n_actions, 2))
        discount = 1.0 if rng.random() < 0.5 else 0.9
        listed = enumerated(world, policy, features, discount)
        q = np.exp([entry[2] for entry in listed])
        if len(listed) >= 4 and q.sum() > 0.05:
            break
    tilted = q * np.exp(np.array([entry[3] for entry in listed]) @ rng.normal(0, 0.5, 2))
    chosen = rng.choice(len(listed), 60, p=tilted / tilted.sum())
    demos = [xm.Trajectory(*listed[i][:2]) for i in chosen]
    return world, policy, features, discount, listed, demos, np.mean([listed[i][3] for i in chosen], axis=0)


@pytest.mark.filterwarnings("ignore::xmen.errors.LearningWarning")  # exact however poor the weights are
def test_the_learned_distribution_is_exact():
    """P(tau) = Q(tau) exp(theta . f) / Z for the theta found, whatever the discount; -inf off the base policy."""
    for seed in range(cases(25)):
        world, policy, features, discount, listed, demos, _ = random_task(seed)
        model = RelativeEntropyIRL(world, features, discount, policy, n_samples=2000, epsilon=0.1, seed=seed).fit(demos)
        scores = np.array([entry[2] + entry[3] @ model.weights_ for entry in listed])
        log_z = np.logaddexp.reduce(scores)
        d = model.distribution()
        assert d.engine == "exact"
        assert d.log_partition() == pytest.approx(log_z, abs=1e-9)
        possible = {}
        for (states, actions, _, _), score in zip(listed, scores, strict=True):
            possible[states, actions] = score - log_z
        for (states, actions), log_p in list(possible.items())[:30]:
            assert d.log_prob(xm.Trajectory(states, actions)) == pytest.approx(log_p, abs=1e-9)
        never = [tau[:2] for tau in enumerate_trajectories(world) if tau[:2] not in possible]
        for states, actions in never[:3]:
            assert model.score([xm.Trajectory(states, actions)]) == -math.inf
        expected = np.mean([possible[tau.states, tau.actions] for tau in demos])
        assert model.score(demos) == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(
            d.expected_features(), np.exp(scores - log_z) @ np.array([e[3] for e in listed]), atol=1e-9
        )


def test_it_approaches_the_exact_dual():
    """The loss of the exact dual at the weights found, above its minimum, falls with n_samples as 1/n.

    Means over the twelve tasks: 3.0e-3 at n = 200, 2.8e-5 at n = 20,000.
    """
    sizes = (200, 20_000)
    excess = np.zeros((12, len(sizes)))
    for seed in range(len(excess)):
        world, policy, features, discount, listed, demos, mean = random_task(1000 + seed)
        best, loss = exact_dual(listed, mean, 0.05)
        for column, n in enumerate(sizes):
            model = RelativeEntropyIRL(world, features, discount, policy, None, n, epsilon=0.05, seed=seed)
            excess[seed, column] = loss(model.fit(demos).weights_) - loss(best)
    assert np.all(excess > -1e-7)
    few, many = excess.mean(axis=0)
    assert many < few / 20
    assert many < 1e-4


def test_the_sampled_dual_is_solved():
    """No subgradient is left: the weighted rollouts match the demonstrations up to epsilon."""
    grid = xm.GridWorld(4, 4, (0, 0), (3, 3), moves=("up", "right"))
    demos = xm.distribution(grid, None, np.random.default_rng(0).normal(0, 1, (16, 2)), seed=0).sample(50)
    model = RelativeEntropyIRL(grid, epsilon=0.02, n_samples=5000, tol=1e-7, seed=0).fit(demos)
    assert model.converged_
    assert model.history_[-1].gradient_norm < 1e-6
    losses = [record.loss for record in model.history_]
    assert losses[-1] == min(losses)
    assert model.history_[-1].details["effective_sample_size"] == pytest.approx(model.effective_sample_size_, rel=1e-3)


def test_samples_with_further_rules():
    model = RelativeEntropyIRL(FORK, GOES_LEFT, epsilon=0.1, n_samples=1000, seed=0).fit([LEFT] * 4 + [RIGHT])
    assert {tau.states[-1] for tau in model.sample(50, seed=0)} == {1, 2}
    assert {tau.states[-1] for tau in model.sample(50, also=xm.never(xm.at(1)), seed=0)} == {2}
    with pytest.raises(xm.InfeasibleError, match="never"):
        model.sample(1, also=[xm.never(xm.at(1)), xm.never(xm.at(2))])


def test_collapse_is_reported():
    """Demonstrations that the base policy would give once in 3^10: hardly any rollout counts."""
    grid = xm.GridWorld(6, 6, (0, 0), (5, 5), moves=("up", "right"))
    edge = xm.Trajectory([0, 6, 12, 18, 24, 30, 31, 32, 33, 34, 35], [0] * 5 + [1] * 5)
    with pytest.warns(LearningWarning, match="n_samples"):
        model = RelativeEntropyIRL(grid, n_samples=500, confidence=0.2, seed=0).fit([edge] * 50)
    assert model.effective_sample_size_ < 30


def test_features_that_no_rollout_has_are_reported():
    base = [[1e-9, 1 - 1e-9], [0, 0], [0, 0]]
    with pytest.warns(UnboundedWarning, match=r"feature 0: .*sampling_policy"):
        RelativeEntropyIRL(FORK, GOES_LEFT, 1.0, base, n_samples=50, epsilon=0.1, seed=0).fit([LEFT])


def test_stopping_early_is_reported():
    demos = [LEFT] * 4 + [RIGHT]
    with pytest.warns(ConvergenceWarning, match="max_iter = 1"):
        RelativeEntropyIRL(FORK, GOES_LEFT, n_samples=200, max_iter=1, tol=1e-12, seed=0).fit(demos)
    seen = []
    stopped = RelativeEntropyIRL(
        FORK, GOES_LEFT, n_samples=200, tol=1e-12, seed=0, callback=lambda record: seen.append(record) or True
    ).fit(demos)
    assert len(seen) == stopped.n_iter_ == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n_samples": 0}, "n_samples .* 0"),
        ({"max_iter": 0}, "max_iter .* 0"),
        ({"confidence": 1.0}, "confidence .* 1.0"),
        ({"tol": 0}, "tol .* 0"),
        ({"epsilon": -1}, "epsilon .* -1"),
        ({"epsilon": [1, 2]}, r"epsilon .* \[1, 2\]"),
        ({"epsilon": "small"}, "epsilon .* 'small'"),
        ({"base_policy": "uniform"}, r"base_policy .* \(3, 2\)"),
        ({"base_policy": [[0.5, 0.5]]}, r"base_policy .* \(1, 2\)"),
        ({"base_policy": [[0.5, 0.4], [0, 0], [0, 0]]}, "state 0 .* 0.9"),
        ({"base_policy": [[1.5, -0.5], [0, 0], [0, 0]]}, "action 1 in state 0 .* -0.5"),
        ({"base_policy": [[0.5, 0.5], [1, 0], [0, 0]]}, "state 1 .* not available"),
        ({"sampling_policy": [[1, 0], [0, 0], [0, 0]]}, "sampling_policy .* action 1 in state 0"),
    ],
)
def test_bad_settings(settings, named):
    with pytest.raises(xm.XmenError, match=named):
        RelativeEntropyIRL(**{"world": FORK, "features": GOES_LEFT, **settings}).fit([LEFT])


def test_demonstrations_that_the_base_policy_never_gives():
    with pytest.raises(xm.InvalidDemonstrationError, match=r"demonstration 1 .* action 1 in state 0") as e:
        RelativeEntropyIRL(FORK, GOES_LEFT, 1.0, [[1, 0], [0, 0], [0, 0]]).fit([LEFT, RIGHT])
    assert (e.value.index, e.value.position) == (1, 0)


def test_a_goal_that_rollouts_never_meet():
    corridor = xm.GridWorld(30, 1, (0, 0), (29, 0), moves=("left", "right"), horizon=29)
    straight = xm.Trajectory(range(30), [1] * 29)
    with pytest.raises(xm.EngineError, match=r"500 .*29 .* sampling_policy"):
        RelativeEntropyIRL(corridor, n_samples=10, seed=0).fit([straight])
    helped = np.full((30, 2), 0.5) * corridor.available
    helped[1:29] = 0.001, 0.999
    helped[0] = 0, 1
    model = RelativeEntropyIRL(corridor, sampling_policy=helped, n_samples=100, seed=0).fit([straight])
    assert model.completed_ > 0.9
