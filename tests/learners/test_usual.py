"""Learning how usually rules are kept."""

import numpy as np
import pytest

import xmen as xm
from xmen.methods.information import Information, curvature
from xmen.methods.runs import Coordinates

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
CENTRE, CORNER = xm.visit(GRID.at((1, 1))).named("centre"), xm.never(GRID.at((0, 3))).named("corner")
SHY = np.zeros((16, 2, 1))
SHY[GRID.state((2, 1))] = 1.0


def demos_of(n=300, seed=0, rule=None):
    rule = xm.usually(CENTRE, weight=0.8) & xm.usually(CORNER, weight=-0.5) if rule is None else rule
    return xm.distribution(GRID, rule, -1.0 * SHY[:, :, 0], seed=seed).sample(n)


def trajectories_of(model):
    """All 20, and their probabilities."""
    every = xm.distribution(GRID).best(20)
    assert len(every) == 20
    return every, np.exp([model.distribution().log_prob(tau) for tau in every])


def steps_of(tau):
    return zip(tau.states, tau.actions, strict=False)


@pytest.fixture(scope="module")
def model():
    return xm.XMEN(GRID, xm.usually(CENTRE) & xm.usually(CORNER), features=SHY, l2=0.01).fit(demos_of())


def test_the_model_keeps_rules_as_often_as_the_demonstrations(model):
    demos, d = demos_of(), model.distribution()
    assert list(model.rule_weights_) == ["centre", "corner"]
    for rule in (CENTRE, CORNER):
        assert d.probability(rule) == pytest.approx(np.mean([rule.accepts(tau) for tau in demos]), abs=1e-6)
    assert model.rule_weights_["centre"] == pytest.approx(0.8, abs=0.5)
    assert model.score(demos) == pytest.approx(np.mean([d.log_prob(tau) for tau in demos]), abs=1e-9)
    assert all(CENTRE.accepts(tau) for tau in model.sample(50, also=CENTRE, seed=0))


def test_the_likelihood_is_at_its_maximum_and_errors_are_those_of_its_curvature(model):
    """By an independent likelihood: every trajectory listed, and finite differences."""
    demos, (every, _) = demos_of(), trajectories_of(model)

    def features(tau):
        seen = sum(SHY[s, a, 0] for s, a in steps_of(tau))
        return [seen, CENTRE.accepts(tau), CORNER.accepts(tau)]

    f, shown = (np.array([features(tau) for tau in some], dtype=float) for some in (every, demos))
    theta = np.array([model.weights_[0], *model.rule_weights_.values()])
    p = np.exp(f @ theta)
    p /= p.sum()
    gradient = p @ f - shown.mean(axis=0) + [0.01 * theta[0], 0.0, 0.0]  # l2 does not touch the rules
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    curved = (f - p @ f).T @ (p[:, None] * (f - p @ f))
    inverse = np.linalg.inv(curved + np.diag([0.01, 0, 0]))
    expected = np.sqrt(np.diag(inverse @ curved @ inverse) / len(demos))
    summary = model.summary(names=["shy"])
    np.testing.assert_allclose(summary.standard_errors, expected, rtol=1e-5)
    assert summary.names == ("shy", "centre", "corner")
    assert model.standard_errors_.shape == (1,)


def test_is_it_a_rule_at_all(model):
    larger = xm.XMEN(GRID, xm.usually(CENTRE), features=SHY).fit(demos_of())
    smaller = xm.XMEN(GRID, features=SHY).fit(demos_of())
    found = larger.summary().likelihood_ratio(smaller)
    assert found.degrees_of_freedom == 1
    assert found.statistic == pytest.approx(2 * 300 * (larger.score(demos_of()) - smaller.score(demos_of())), abs=1e-6)
    assert found.p_value < 0.01


def test_shares_and_weights_that_are_given_are_kept():
    rule = xm.usually(CENTRE, share=0.9) & xm.usually(CORNER, weight=0.25)
    model = xm.XMEN(GRID, rule, features=SHY).fit(demos_of())
    assert model.distribution().probability(CENTRE) == pytest.approx(0.9, abs=1e-6)
    assert model.rule_weights_["corner"] == 0.25
    errors = model.summary().standard_errors
    assert np.isnan(errors[2])
    # The share is no estimate: the weight that gives it follows from the feature's, whose curvature is swept of it.
    every, p = trajectories_of(model)
    f = np.array([[sum(SHY[s, a, 0] for s, a in steps_of(tau)), CENTRE.accepts(tau)] for tau in every], dtype=float)
    curved = (f - p @ f).T @ (p[:, None] * (f - p @ f))
    swept = curved[0, 0] - curved[0, 1] ** 2 / curved[1, 1]
    error = np.sqrt(curved[0, 0] / len(demos_of())) / swept
    np.testing.assert_allclose(errors[:2], [error, error * abs(curved[0, 1]) / curved[1, 1]], rtol=1e-5)


@pytest.mark.parametrize("keeps", [True, False])
def test_without_a_finite_optimum_it_says_so(keeps):
    demos = [tau for tau in demos_of() if CENTRE.accepts(tau) == keeps]
    told = "every demonstration keeps 'centre'.* rule hard" if keeps else "no demonstration keeps 'centre'.* drop it"
    with pytest.warns(xm.UnboundedWarning, match=told):
        xm.XMEN(GRID, xm.usually(CENTRE), features=SHY).fit(demos)


def test_given_the_start():
    grid = xm.GridWorld(3, 3, start=[(0, 0), (1, 0), (0, 1)], goal=(2, 2), moves=("up", "right"))
    centre = xm.visit(grid.at((1, 1)))
    demos = xm.distribution(grid, xm.usually(centre, weight=1.0), seed=3).sample(200)
    feature = np.zeros((9, 2, 1))
    feature[grid.state((0, 1)), 1] = 1.0
    model = xm.XMEN(grid, xm.usually(centre), features=feature, given="start").fit(demos)
    per_start = [model.distribution().law.world.with_start(s) for s in sorted({tau.states[0] for tau in demos})]
    kept = 0.0
    for world in per_start:
        start = int(np.argmax(world.start))
        share = np.mean([tau.states[0] == start for tau in demos])
        rule = xm.usually(centre, weight=next(iter(model.rule_weights_.values())))
        kept += share * xm.distribution(world, rule, model.reward_).probability(centre)
    assert kept == pytest.approx(np.mean([centre.accepts(tau) for tau in demos]), abs=1e-6)
    assert model.score(demos) == pytest.approx(np.mean(model.score_samples(demos)))


@pytest.mark.parametrize("horizon", [None, 8])
def test_trips_through_a_network(horizon):
    """Against the task of each pair alone; without a horizon these are compared with matrices by another test."""
    rng = np.random.default_rng(0)
    moves = [(s, a, int(t), 1.0) for s in range(7) for a, t in enumerate(rng.choice(7, 3, replace=False)) if t != s]
    network = xm.Network(7, 3, moves, horizon=horizon)
    cost = rng.uniform(0.5, 1.5, (7, 3, 1))
    rule = xm.never(xm.at(3)).named("three")
    soft, demos = xm.usually(rule, weight=1.0), list[xm.Trajectory]()
    pairs = [(0, 5), (1, 5), (2, 6), (4, 6), (5, 1)]
    for start, goal in pairs:
        demos += xm.distribution(network.task(start, goal), soft, -2.0 * cost[:, :, 0], seed=start).sample(40)
    model = xm.XMEN(network, xm.usually(rule), features=cost).fit(demos)
    ends = {(int(tau.states[0]), int(tau.states[-1])) for tau in demos}
    alone = {pair: model.distribution(start=pair[0], goal=pair[1]) for pair in ends}
    of = [alone[int(tau.states[0]), int(tau.states[-1])] for tau in demos]
    kept = np.mean([d.probability(rule) for d in of])
    assert kept == pytest.approx(np.mean([rule.accepts(tau) for tau in demos]), abs=1e-6)
    scores = [d.log_prob(tau) for d, tau in zip(of, demos, strict=True)]
    np.testing.assert_allclose(model.score_samples(demos), scores, atol=1e-8)
    flows = model.flows([(*pair, 1.0) for pair in sorted(ends)])
    visits = sum(d.state_visits() for d in alone.values())
    np.testing.assert_allclose(flows.states, visits, atol=1e-8)
    summary = model.summary()
    assert np.isfinite(summary.standard_errors).all()
    assert summary.robust_errors[1] == pytest.approx(summary.standard_errors[1], rel=0.5)


def test_trips_of_any_length_against_matrices():
    """Z = (I - M)^-1 of the moves between other places times those into the goal, with the place and without it."""
    rng = np.random.default_rng(1)
    moves = [(s, a, int(t), 1.0) for s in range(6) for a, t in enumerate(rng.choice(6, 3, replace=False)) if t != s]
    network, start, goal, place, weight = xm.Network(6, 3, moves), 0, 5, 2, 1.3
    reward = -rng.uniform(0.8, 2.0, (6, 3))

    def total(left_out):
        inner = [s for s in range(6) if s not in (goal, left_out)]
        m, into = np.zeros((6, 6)), np.zeros(6)
        for s, a, t, _ in moves:
            m[s, t] += np.exp(reward[s, a])
            into[s] += np.exp(reward[s, a]) * (t == goal)
        return np.linalg.solve(np.eye(len(inner)) - m[np.ix_(inner, inner)], into[inner])[inner.index(start)]

    rule, every, kept = xm.never(xm.at(place)), total(None), total(place)
    assert 0.05 < kept / every < 0.95
    d = xm.distribution(network.task(start, goal), xm.usually(rule, weight=weight), reward)
    assert d.log_partition() == pytest.approx(np.log(every + (np.exp(weight) - 1.0) * kept), abs=1e-9)
    share = np.exp(weight) * kept / (every + (np.exp(weight) - 1.0) * kept)
    assert d.probability(rule) == pytest.approx(share, abs=1e-9)
    assert np.diag(d._flow.kept) == pytest.approx(share, abs=1e-9)


def test_warm_start_and_validation():
    learner = xm.XMEN(GRID, xm.usually(CENTRE), features=SHY, warm_start=True).fit(demos_of())
    weight, n_iter = learner.rule_weights_["centre"], learner.n_iter_
    learner.fit(demos_of())
    assert learner.rule_weights_["centre"] == pytest.approx(weight, abs=1e-5)
    assert learner.n_iter_ < n_iter
    watched = xm.XMEN(GRID, xm.usually(CENTRE), features=SHY, validation=demos_of(seed=9)).fit(demos_of())
    loss = watched.history_[watched.best_iteration_ - 1].details["validation_loss"]
    assert loss == pytest.approx(-watched.score(demos_of(seed=9)), abs=1e-9)


def test_shares_that_nothing_gives_are_refused():
    """No way passes the corner and the centre: with 50 steps the weights are at hundreds of nats."""
    rule = xm.usually(xm.visit(GRID.at((0, 3))).named("far"), share=0.7) & xm.usually(CENTRE, share=0.6)
    with pytest.warns(xm.ConvergenceWarning), pytest.raises(xm.InfeasibleError, match=r"'far' with share=0\.7"):
        xm.XMEN(GRID, rule, features=SHY, max_iter=50).fit(demos_of(30))


def test_the_rounding_of_differences_is_no_curvature():
    """A rule that depends on the ends of trips alone has an infinite error, whichever way its share is rounded."""
    for ulp in (-1.0, 1.0):

        def means(points, ulp=ulp):
            return [np.array([np.tanh(at[0]), 0.5 + ulp * np.spacing(0.5) * np.sign(at[1])]) for at in points]

        coordinates = Coordinates(2, None, np.zeros(2))
        hessian = curvature(means, np.zeros(2), np.ones(2), coordinates)
        np.testing.assert_allclose(hessian, np.diag([1.0, 0.0]), atol=1e-7)
        told = Information(coordinates, hessian, np.zeros((4, 2)), np.full(4, 0.25))
        np.testing.assert_allclose(np.diag(told.covariances(None, None)[0]), [0.25, np.inf], rtol=1e-6)


def test_differences_stop_short_of_where_ever_longer_trips_do_not_add_up():
    """Of log Z = -log(1 - exp w), at a w that is nearer to 0 than an ordinary step, beside a harmless weight."""

    def means(points):
        if any(at[1] >= 0.0 for at in points):
            raise xm.DivergenceError("they do not add up")
        return [np.array([np.tanh(at[0]), np.exp(at[1]) / (1.0 - np.exp(at[1]))]) for at in points]

    at = np.array([0.3, -9e-5])
    hessian = curvature(means, at, np.ones(2), Coordinates(2, None, np.zeros(2)))
    expected = np.diag([1.0 / np.cosh(0.3) ** 2, np.exp(at[1]) / (1.0 - np.exp(at[1])) ** 2])
    np.testing.assert_allclose(hessian, expected, rtol=0.1)


def test_what_is_not_served_is_refused():
    with pytest.raises(xm.EngineError, match="usually kept"):
        xm.XMEN(GRID, xm.usually(CENTRE), features=SHY, method="reject").fit(demos_of(3))
    with pytest.raises(xm.EngineError, match="weight=1 of 'centre'"):
        xm.XMEN(GRID, xm.usually(CENTRE, weight=1.0), features=SHY, method="paper").fit(demos_of(3))
    reward = xm.NeuralReward(pytest.importorskip("torch").nn.Linear(1, 1), SHY)
    for learner in (xm.XMEN, xm.CausalXMEN):
        with pytest.raises(xm.ConstraintError, match=r"neural .* hard rules"):
            learner(GRID, xm.usually(CENTRE), reward=reward).fit(demos_of(3))


@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
@pytest.mark.parametrize("share", [None, 0.9])
def test_cells_read_as_a_whole_find_the_same(oracle, share):
    rule = xm.usually(CENTRE, share=share) & xm.usually(CORNER, weight=0.25)
    exact = xm.XMEN(GRID, rule, features=SHY).fit(demos_of())
    model = xm.XMEN(GRID, rule, features=SHY, method="cells", oracle=oracle, seed=0).fit(demos_of())
    assert model.rule_weights_ == pytest.approx(exact.rule_weights_, abs=1e-4)
    np.testing.assert_allclose(model.weights_, exact.weights_, atol=1e-4)


def test_cells_of_copies_find_the_same():
    """Within tol = 0.01 nats of the optimum, on 12,870 ways that a cell of 256 does not hold."""
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right"))
    centre = xm.visit(grid.at((4, 4))).named("centre")
    feature = np.zeros((81, 2, 1))
    feature[grid.state((2, 4))] = 1.0
    demos = xm.distribution(grid, xm.usually(centre, weight=3.0), feature[:, :, 0], seed=0).sample(400)
    asked = {"features": feature, "tol": 0.01, "seed": 0}
    model = xm.XMEN(grid, xm.usually(centre), method="cells", oracle="listed", **asked).fit(demos)
    best = xm.XMEN(grid, xm.usually(centre), features=feature).fit(demos)
    assert best.score(demos) - model.score(demos) <= 0.01
    assert model.history_[-1].details["solutions"] > 0


def test_algorithm_1_draws_with_the_weights_of_rules():
    """After 40 steps on one rule alone its share, 0.67 by chance, is met within the noise of 32 draws a step."""
    nothing, method = np.zeros((16, 2, 1)), xm.Paper(n_samples=32, delta=1.05)
    with pytest.warns(xm.IdentifiabilityWarning):
        model = xm.XMEN(GRID, xm.usually(CENTRE, share=0.9), nothing, method=method, max_iter=40, seed=0).fit(
            demos_of()
        )
    assert model.distribution().probability(CENTRE) == pytest.approx(0.9, abs=0.03)


def test_a_named_conjunction_is_its_rules(recwarn):
    """Each is learned by itself, and what all trajectories keep, as every rule of this kind, is no news."""
    rules = xm.usually(CENTRE) & xm.usually(CORNER)
    model = xm.XMEN(GRID, rules.named("both"), features=SHY).fit(demos_of())
    assert model.rule_weights_ == xm.XMEN(GRID, rules, features=SHY).fit(demos_of()).rule_weights_
    assert not recwarn


def test_two_of_one_name_are_refused():
    with pytest.raises(xm.ConstraintError, match="'centre'"):
        xm.XMEN(GRID, xm.usually(CENTRE) & xm.usually(CENTRE), features=SHY).fit(demos_of(3))


def test_causal_entropy_without_chance_is_the_same(model):
    causal = xm.CausalXMEN(GRID, xm.usually(CENTRE) & xm.usually(CORNER), features=SHY, l2=0.01).fit(demos_of())
    assert causal.rule_weights_ == pytest.approx(model.rule_weights_, abs=1e-5)
    np.testing.assert_allclose(causal.weights_, model.weights_, atol=1e-5)
    tau = demos_of(1)[0]
    assert model.policy().log_prob(tau) == pytest.approx(model.distribution().log_prob(tau), abs=1e-9)
    np.testing.assert_allclose(causal.summary().standard_errors, model.summary().standard_errors, rtol=1e-3)
    assert causal.score(demos_of()) == pytest.approx(model.score(demos_of()), abs=1e-6)


@pytest.mark.filterwarnings("ignore::xmen.PromiseWarning")
@pytest.mark.parametrize("validity", ["sure", 0.8])
def test_with_chance_the_policy_keeps_it_as_often(validity):
    """By the policy's own exact probabilities; under a promise, those of keeping it and all other rules."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), slip=0.2)
    centre, hard = xm.visit(grid.at((1, 1))).named("centre"), xm.never(grid.at((3, 1))).named("hard")
    rules = [] if validity == "sure" else [hard]
    feature = np.zeros((16, 2, 1))
    feature[:, 0] = 1.0  # up
    asked = {"reward": -0.3 * feature[:, :, 0], "validity": validity}
    demos = xm.plan(grid, [*rules, xm.usually(centre, weight=1.5)], **asked).rollout(400, seed=0)
    model = xm.CausalXMEN(grid, [*rules, xm.usually(centre)], features=feature, validity=validity).fit(demos)
    shown = np.mean([all(rule.accepts(tau) for rule in (centre, *rules)) for tau in demos])
    assert model.policy().behaviour.moments(np.ones(1))[-1] == pytest.approx(shown, abs=1e-6)
    if validity == "sure":
        assert model.policy().breaks()["centre"] == pytest.approx(1.0 - shown, abs=1e-6)
    assert model.rule_weights_["centre"] == pytest.approx(1.5, abs=1.0)
    assert np.isfinite(model.summary().standard_errors).all()
