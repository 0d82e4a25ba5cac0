"""Learning from what was seen: the loss and its gradient against enumeration, and what is said of the weights."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hmmlearn.hmm import CategoricalHMM

import xmen as xm
import xmen.engines.seen as engines_seen
from engines.test_seen import likelihood, random_sighting
from learners.tasks import slopes
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.constraints.constraint import usual_rules
from xmen.methods.demonstrations import gather
from xmen.methods.exact import Exact
from xmen.methods.runs import FitSettings, Task
from xmen.rewards.linear import read_features

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=12)
FEATURES = np.zeros((16, 4, 2))
FEATURES[[5, 6, 9], :, 0] = FEATURES[:, :2, 1] = 1.0
RULE = xm.visit(GRID.at((0, 2))).named("fetch")


@pytest.fixture(scope="module")
def trajectories():
    truth = xm.LinearReward(FEATURES, np.array([-1.0, 0.4]))
    return xm.distribution(GRID, RULE, truth, engine="exact", seed=0).sample(120)


def hidden(trajectories, share, seed=0):
    """Each position is seen with this probability; the number of positions is known."""
    rng = np.random.default_rng(seed)
    return [xm.Sighting([s if rng.random() < share else None for s in tau.states]) for tau in trajectories]


@pytest.mark.parametrize("block", range(4))
def test_loss_and_gradient_agree_with_enumeration(block):
    n_checked = 0
    for seed in range(block * cases(8), (block + 1) * cases(8)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=1)
        discount = 1.0 if rng.random() < 0.5 else 0.9
        features = rng.normal(size=(world.n_states, world.n_actions, 3))
        weights = rng.normal(size=3)
        truth = exact_distribution(world, description, features @ weights, discount)
        taus = list(truth.log_weights)
        mixed, values = [], []
        for _ in range(6 if taus else 0):
            if rng.random() < 0.3:
                states, actions = taus[rng.integers(len(taus))]
                mixed.append(xm.Trajectory(states, actions))
                values.append(truth.log_prob(states, actions))
                continue
            seen, chance = random_sighting(rng, world, taus)
            mass = sum(math.exp(w - truth.log_partition) * chance(tau[0]) for tau, w in truth.log_weights.items())
            if mass:
                mixed.append(seen)
                values.append(math.log(mass))
        if not mixed:
            continue
        n_checked += 1
        shares = rng.random(len(mixed))
        demos = gather(world, constraint, mixed, shares, sightings=True)
        task = Task(demos, read_features(features, world), constraint, discount)
        loss_of = Exact().likelihood(task, FitSettings())
        found = loss_of(features @ weights)
        # The loss leaves out log D of what was seen in full; sightings that one trajectory explains are that one.
        if len(demos.sightings) == sum(isinstance(demo, xm.Sighting) for demo in mixed):
            dynamics = exact_distribution(world, description, 0.0 * features[:, :, 0]).log_weights
            of_chance = [dynamics[d.states, d.actions] if isinstance(d, xm.Trajectory) else 0.0 for d in mixed]
            expected = -np.average(np.array(values) - of_chance, weights=shares)
            assert found.loss == pytest.approx(expected, abs=1e-9), seed
        gradient = task.features.contract(found.difference)
        slope = slopes(lambda at, loss_of=loss_of, features=features: loss_of(features @ at).loss, weights)
        np.testing.assert_allclose(gradient, slope, atol=1e-8, err_msg=seed)
        model = xm.XMEN(world, constraint, features, discount=discount, max_iter=0, engine="exact")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(mixed, shares)
        model = model.with_features(features)
        model.reward_ = xm.LinearReward(features, weights)
        np.testing.assert_allclose(model.score_samples(mixed), values, atol=1e-9)
        assert model.score(mixed, shares) == pytest.approx(np.average(values, weights=shares), abs=1e-9)
    assert n_checked >= cases(1)


def test_what_is_seen_for_certain_is_as_good_as_the_trajectory(trajectories):
    whole = xm.XMEN(GRID, RULE, FEATURES).fit(trajectories)
    seen = xm.XMEN(GRID, RULE, FEATURES).fit([xm.Sighting(tau.states) for tau in trajectories])
    assert np.array_equal(seen.weights_, whole.weights_)
    # Without the short cut, too: likelihoods of 0 and 1 say the same, and the optimiser goes the same way.
    rows = [xm.Sighting.likelihood(np.eye(16)[list(tau.states)]) for tau in trajectories]
    np.testing.assert_allclose(xm.XMEN(GRID, RULE, FEATURES).fit(rows).weights_, whole.weights_, atol=1e-12)
    nearly = [xm.Sighting(tau.states, each=1.0 - 1e-13) for tau in trajectories]
    np.testing.assert_allclose(xm.XMEN(GRID, RULE, FEATURES).fit(nearly).weights_, whole.weights_, atol=1e-9)


def test_at_the_optimum_the_model_and_what_was_seen_agree(trajectories):
    mixed = [*hidden(trajectories[:60], 0.4), *trajectories[60:]]
    model = xm.XMEN(GRID, RULE, FEATURES).fit(mixed)
    assert model.converged_
    expected = np.mean(
        [
            np.einsum("sa,sad->d", model.seen(demo).visits(), FEATURES)
            if isinstance(demo, xm.Sighting)
            else sum(FEATURES[s, a] for s, a in zip(demo.states, demo.actions, strict=False))
            for demo in mixed
        ],
        axis=0,
    )
    np.testing.assert_allclose(model.distribution().expected_features(), expected, atol=1e-6)
    assert model.history_[-1].gradient_norm < 1e-6
    again = xm.XMEN(GRID, RULE, FEATURES).fit(mixed, np.full(len(mixed), 3.0))
    np.testing.assert_allclose(again.weights_, model.weights_, atol=1e-9)


def test_given_the_start_first_entries_have_to_be_certain():
    world = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    world = world.with_start(np.bincount([0, 2], [0.3, 0.7], minlength=9))
    features = np.random.default_rng(0).normal(size=(9, 4, 2))
    truth = xm.LinearReward(features, [0.5, -0.5])
    taus = xm.distribution(world, None, truth, engine="exact", given="start", seed=0).sample(60)
    seen = [xm.Sighting([tau.states[0], *(None if t % 2 else s for t, s in enumerate(tau.states[1:]))]) for tau in taus]
    model = xm.XMEN(world, None, features, given="start").fit([*seen, *taus])
    d = model.distribution()
    values = [d.log_seen(y) - math.log(world.start[y.seen[0]]) for y in seen]
    np.testing.assert_allclose(model.score_samples(seen), values, atol=1e-10)
    gradient = np.zeros(2)
    for demo in [*seen, *taus]:
        start = demo.seen[0] if isinstance(demo, xm.Sighting) else demo.states[0]
        own = xm.distribution(world.with_start(start), None, model.reward_, engine="exact")
        gradient += own.expected_features()
        if isinstance(demo, xm.Sighting):
            gradient -= np.einsum("sa,sad->d", own.seen(demo).visits(), features)
        else:
            gradient -= sum(features[s, a] for s, a in zip(demo.states, demo.actions, strict=False))
    np.testing.assert_allclose(gradient / 120, 0.0, atol=1e-6)
    assert np.isfinite(model.summary().standard_errors).all()
    with pytest.raises(xm.TrajectoryError, match="first entry"):
        xm.XMEN(world, None, features, given="start").fit([xm.Sighting([None, *y.seen[1:]]) for y in seen])
    elsewhere = xm.Sighting([4, None, 8])
    values = model.score_samples([elsewhere, seen[0], xm.Sighting([8])])
    assert np.array_equal(np.isneginf(values), [True, False, True])
    own = xm.XMEN(world.with_start(0), None, features, given="start", engine="reject", max_iter=0)
    own.fit([tau for tau in taus if tau.states[0] == 0])
    assert np.array_equal(own.score_samples([elsewhere]), [-math.inf])
    with pytest.raises(xm.InfeasibleError, match=r"demonstration 1: .* position 0") as raised:
        xm.XMEN(world, None, features, given="start").fit([taus[0], elsewhere])
    assert raised.value.position == 0
    with pytest.raises(xm.InfeasibleError, match=r"demonstration 0: .* position 0"):
        xm.XMEN(world, None, features, given="start").fit([elsewhere])


@pytest.mark.parametrize(("n", "n_symbols", "length"), [(2, 2, 1), (4, 3, 12), (6, 9, 30)])
def test_a_world_without_rules_is_a_hidden_markov_model(n, n_symbols, length):
    """That of hmmlearn, when the reward is the logarithm of the transition probabilities."""
    hmm = CategoricalHMM(n, init_params="", params="")
    rng = np.random.default_rng(n)
    hmm.startprob_, hmm.n_features = rng.dirichlet(np.ones(n)), n_symbols
    hmm.transmat_, hmm.emissionprob_ = rng.dirichlet(np.ones(n), size=n), rng.dirichlet(np.ones(n_symbols), size=n)
    rows = [(s, a, a, 1.0) for s in range(n) for a in range(n)]
    world = xm.MDP(n, n, rows, start=hmm.startprob_, horizon=length - 1)
    d = xm.distribution(world, None, np.log(hmm.transmat_), engine="exact")
    symbols = rng.integers(n_symbols, size=length)
    seen, column = xm.Sighting(symbols, noise=hmm.emissionprob_), symbols[:, None]
    e = d.seen(seen)
    assert d.log_seen(seen) == pytest.approx(hmm.score(column), abs=1e-10)
    marginals = hmm.predict_proba(column)
    np.testing.assert_allclose(e.state_visits(), marginals.sum(axis=0), atol=1e-10)
    for t in (0, length // 2, length - 1):
        of_state = [e.log_seen(xm.Sighting([None] * t + [s], more=True)) for s in range(n)]
        np.testing.assert_allclose(np.exp(of_state), marginals[t], atol=1e-10)
    log_best, path = hmm.decode(column)
    assert e.mode().states == tuple(path)
    assert e.log_prob(e.mode()) == pytest.approx(log_best - hmm.score(column), abs=1e-10)


def test_rules_that_are_usually_kept_are_learned_from_sightings(trajectories):
    soft = xm.usually(xm.visit(GRID.at((3, 0))).named("corner"))
    mixed = [*hidden(trajectories[:60], 0.5), *trajectories[60:]]
    model = xm.XMEN(GRID, [RULE, soft], FEATURES).fit(mixed)
    rule = usual_rules(soft)[0].rule
    kept = np.mean([model.seen(y).probability(rule) if isinstance(y, xm.Sighting) else rule.accepts(y) for y in mixed])
    assert model.distribution().probability(rule) == pytest.approx(kept, abs=1e-6)
    assert len(model.summary().lost) == 3


def test_how_often_usual_rules_are_kept_is_what_was_seen_of_them(trajectories):
    """Of sightings alone the weight is finite; where all that explains them keeps the rule, it is not."""
    soft = xm.usually(xm.visit(GRID.at((3, 0))).named("corner"))
    xm.XMEN(GRID, soft, FEATURES, l2=0.1).fit(hidden(trajectories[:20], 0.2))
    corner = xm.Sighting([None, None, None, (3, 0), *5 * [None]])
    with pytest.warns(xm.UnboundedWarning, match="keeps 'corner'"):
        xm.XMEN(GRID, soft, FEATURES, l2=0.1).fit([corner, corner])
    with pytest.raises(xm.EngineError, match=r"share=0\.3 of 'corner'"):
        xm.XMEN(GRID, xm.usually(soft.rule, share=0.3), FEATURES).fit([corner])


def test_what_nothing_explains_scores_minus_infinity_and_is_not_learned_from(trajectories):
    model = xm.XMEN(GRID, RULE, FEATURES).fit(trajectories)
    wrong = xm.Sighting([(0, 0), (1, 0), (1, 1), (1, 2), (1, 3), (2, 3), (3, 3)])  # never where it has to fetch
    values = model.score_samples([wrong, trajectories[0], xm.Sighting([(0, 0), None, (3, 3)])])
    assert np.array_equal(np.isneginf(values), [True, False, True])
    assert model.score([wrong, trajectories[0]]) == -math.inf
    assert model.score([wrong, trajectories[0]], [0.0, 1.0]) == pytest.approx(values[1])
    with pytest.raises(xm.InfeasibleError, match=r"demonstration 1: .*'fetch'"):
        xm.XMEN(GRID, RULE, FEATURES).fit([trajectories[0], wrong])
    with pytest.raises(xm.InfeasibleError, match="'fetch'"):
        model.seen(wrong)
    broken = xm.Trajectory([GRID.state(cell) for cell in wrong.seen], [1, 0, 0, 0, 1, 1])
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 2") as caught:
        xm.XMEN(GRID, RULE, FEATURES).fit([xm.Sighting([(0, 0), None, (3, 3)]), trajectories[0], broken])
    assert caught.value.index == 2


def test_summary_says_how_much_was_lost_by_not_seeing(trajectories):
    """The observed information is the second derivative of the log-likelihood, found here from its values."""
    seen = hidden(trajectories, 0.3)
    model = xm.XMEN(GRID, RULE, FEATURES).fit(seen)
    summary = model.summary()
    base = model.distribution()

    def total(weights):
        d = base.with_reward(xm.LinearReward(FEATURES, weights))
        return sum(d.log_seen(y) for y in seen[:20])

    hessian = -slopes(lambda at: slopes(total, at, 1e-3), model.weights_, 1e-3)
    told = model._information(model._gather(seen[:20], None))
    np.testing.assert_allclose(20 * told.hessian, hessian, rtol=1e-3, atol=1e-3)
    whole = xm.XMEN(GRID, RULE, FEATURES, max_iter=0, warm_start=True)
    vars(whole).update(vars(model))
    complete = whole.summary(trajectories).standard_errors
    np.testing.assert_allclose(summary.lost, summary.standard_errors / complete, rtol=1e-6)
    assert summary.lost[0] > 1.3  # of the second feature, which the known length tells, next to nothing
    assert "seen in part" in str(summary)
    assert xm.XMEN(GRID, RULE, FEATURES).fit(trajectories).summary().lost is None


def test_errors_by_groups_go_by_the_order_of_the_demonstrations(trajectories):
    """Sightings between trajectories or after them: the errors are those of the same groups."""
    seen = hidden(trajectories[:20], 0.3)
    mixed, groups = [demo for pair in zip(seen, trajectories[20:40], strict=True) for demo in pair], np.arange(40) // 4
    order = [*range(1, 40, 2), *range(0, 40, 2)]
    one = xm.XMEN(GRID, RULE, FEATURES).fit(mixed).summary(groups=groups)
    other = xm.XMEN(GRID, RULE, FEATURES).fit([mixed[i] for i in order]).summary(groups=groups[order])
    np.testing.assert_allclose(one.robust_errors, other.robust_errors, rtol=1e-6)


def test_a_device_passes_over_what_was_seen_as_well(monkeypatch):
    pytest.importorskip("torch")
    grid = xm.GridWorld(3, 2, start=(0, 0), goal=(2, 1), horizon=5)
    features = np.random.default_rng(1).normal(size=(6, 4, 1))
    mixed = [
        xm.Sighting([0, None, None, None]),
        xm.Sighting([0, 1, 5], each=0.4),
        xm.Trajectory([0, 3, 4, 5], [0, 1, 1]),
    ]
    host, device = (xm.XMEN(grid, None, features, discount=0.9, device=where) for where in (None, "cpu"))
    weights, lost = host.fit(mixed).weights_, host.summary().lost
    monkeypatch.setattr(engines_seen, "pass_messages", None)
    np.testing.assert_allclose(device.fit(mixed).weights_, weights, atol=1e-8)
    np.testing.assert_allclose(device.summary().lost, lost, rtol=1e-6)
    assert np.isfinite(device.score_samples(mixed)).all()


def test_weights_that_were_not_seen_are_named():
    """Nothing but the ends of a fork was seen, and both ways have the same: only complete trajectories tell them."""
    fork = xm.MDP(4, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0)], start=0, terminal=3)
    features = np.zeros((4, 2, 1))
    features[0, 0] = 1.0
    seen = [xm.Sighting([0, None, 3])] * 5
    with pytest.warns(xm.IdentifiabilityWarning, match=r"was seen .* feature 0"):
        xm.XMEN(fork, None, features).fit(seen)
    xm.XMEN(fork, None, features, l2=0.1).fit(seen)
    # What no demonstrations could tell is not for want of seeing, and who chose no features is told nothing of them.
    never = np.concatenate([features, np.ones((4, 2, 1))], axis=2)
    told = [*seen, xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [1, 0])]
    with pytest.warns(xm.IdentifiabilityWarning, match=r"no demonstrations .* feature 1"):
        xm.XMEN(fork, None, never).fit(told)
    xm.XMEN(fork, None).fit(told)
    xm.XMEN(fork, None, features).fit([*seen, xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [1, 0])])


def test_who_cannot_learn_from_sightings_says_who_can(trajectories):
    seen = hidden(trajectories[:5], 0.5)
    for learner in (
        xm.XMEN(GRID, RULE, FEATURES, method="cells"),
        xm.XMEN(GRID, RULE, FEATURES, method="paper"),
        xm.CausalXMEN(GRID, None, FEATURES),
        xm.ConstraintInference(GRID),
        xm.RuleInference(GRID, {"fetch": GRID.at((0, 2))}),
    ):
        with pytest.raises(xm.XmenError, match="method='exact'"):
            learner.fit(seen)
    with pytest.raises(xm.ProductTooLargeError, match="max_nodes"):
        xm.XMEN(GRID, xm.no_revisit(), FEATURES, max_nodes=50).fit(seen)
    with pytest.raises(xm.EngineError, match=r"fit_neural .* XMEN"):
        xm.fit_neural(GRID, None, xm.NeuralReward(pytest.importorskip("torch").nn.Linear(2, 1), FEATURES), seen)
    model = xm.XMEN(GRID, RULE, FEATURES).fit(seen)
    with pytest.raises(xm.EngineError, match=r"summary\(\)"):
        model.bootstrap(3)


def test_held_out_sightings(trajectories):
    seen = hidden(trajectories, 0.5)
    held_out = [*seen[80:100], *trajectories[100:]]
    model = xm.XMEN(GRID, RULE, FEATURES).fit(seen[:80], validation=held_out)
    loss = model.history_[model.best_iteration_ - 1].details["validation_loss"]
    assert loss == pytest.approx(-model.score(held_out), abs=1e-9)


def test_a_checkpoint_knows_the_noise_of_its_sightings(tmp_path):
    """Two tables that differ in a single number, and print alike."""
    noise = np.full((2, 16, 100), 0.01)
    noise[1, 7, 50] = 0.02
    one, other = ([xm.Sighting([3] * 7, noise=table)] for table in noise)
    watched = {"checkpoint": tmp_path / "run.safetensors", "l2": 0.1}
    xm.XMEN(GRID, None, FEATURES, **watched).fit(one)
    assert xm.XMEN(GRID, None, FEATURES, resume=True, **watched).fit(one).converged_
    with pytest.raises(xm.StorageError, match="seen in part differ"):
        xm.XMEN(GRID, None, FEATURES, resume=True, **watched).fit(other)


def test_likelihood_of_the_reference_is_a_distribution_over_records():
    """Whatever the trajectory: the probabilities of all records of one kind add up to 1."""
    states = [0, 1, 2, 1]
    total = 0.0
    for n_entries in (2, 3, 4):
        for entries in np.ndindex(*[3] * n_entries):
            total += likelihood(np.eye(3)[list(entries)], states, each=0.3)
    assert total == pytest.approx(1.0)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """100 fits to 200 trajectories of which 30 % were seen: 90 to 99 intervals of 95 % have the true weight in them.

    With errors that are 20 % too small 88 of 100 would, on average.
    """
    truth = np.array([-1.0, 0.4])
    d = xm.distribution(GRID, RULE, xm.LinearReward(FEATURES, truth), engine="exact")
    covered = np.zeros(2)
    for seed in range(100):
        model = xm.XMEN(GRID, RULE, FEATURES).fit(hidden(d.sample(200, seed=seed), 0.3, seed))
        low, high = model.summary().confidence_intervals().T
        covered += (low <= truth) & (truth <= high)
    assert ((covered >= 90) & (covered <= 99)).all(), covered
