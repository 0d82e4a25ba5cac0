"""Demonstrations in worlds with chance: risky steps, failures, luck, and what happens to a model afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xmen as xm
from xmen.learners.causal import CausalXMEN

LUCKY = xm.MDP(4, 1, [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (1, 0, 3, 1), (2, 0, 3, 1)], start=0, terminal=[3])


def bridge() -> tuple[xm.MDP, xm.Constraint, xm.Trajectory, xm.Trajectory]:
    """A bridge that breaks one time in ten, or a detour; and a demonstration of each."""
    rows = [(0, 0, 1, 1.0), (1, 0, 2, 0.9), (1, 0, 3, 0.1), (0, 1, 4, 1.0), (4, 0, 2, 1.0), (4, 1, 1, 1.0)]
    world = xm.MDP(5, 2, rows, start=0, terminal=[2, 3])
    dry = xm.never(xm.at(3)).named("stay dry")
    return world, dry, xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 4, 2], [1, 0])


def slippery() -> tuple[xm.GridWorld, xm.Constraint, np.ndarray, list[xm.Trajectory]]:
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"), slip=0.2)
    rule = xm.never(grid.at((1, 2))).named("no hole") & xm.visit(grid.at((3, 1), (2, 1))).named("by the well")
    features = np.random.default_rng(0).normal(size=(16, 2, 3))
    policy = xm.plan(grid, rule, features @ [1.0, -0.5, 0.3], 0.8, seed=2)
    return grid, rule, features, policy.rollout(200)


def test_a_step_that_could_have_gone_wrong_is_named() -> None:
    world, dry, lucky, careful = bridge()
    with pytest.raises(xm.InvalidDemonstrationError) as raised:
        CausalXMEN(world, dry).fit([careful, lucky, careful])
    assert "to state 1" in str(raised.value)
    assert (raised.value.index, raised.value.position, raised.value.constraint) == (1, 0, "stay dry")
    longer = xm.Trajectory([0, 4, 1, 2], [1, 1, 0])
    with pytest.raises(xm.InvalidDemonstrationError, match=r"action 1 in state 4 at position 1.* to state 1"):
        CausalXMEN(world, dry).fit([careful, longer])
    with pytest.raises(xm.InvalidDemonstrationError, match=r"action 0 in state 0 .*validity="):
        CausalXMEN(world, dry, validity="best").fit([careful, lucky])
    with pytest.raises(xm.InvalidDemonstrationError, match="stay dry"):
        CausalXMEN(world, dry).fit([xm.Trajectory([0, 1, 3], [0, 0])])


def test_the_last_step_names_what_it_breaks() -> None:
    rows = [(0, 0, 1, 0.9), (0, 0, 2, 0.1), (0, 1, 1, 1.0)]
    world = xm.MDP(3, 2, rows, start=0, terminal=[1, 2])
    with pytest.raises(xm.InvalidDemonstrationError, match=r"to state 2, which breaks 'stay dry'"):
        CausalXMEN(world, xm.never(xm.at(2)).named("stay dry")).fit([xm.Trajectory([0, 1], [0])])


def test_with_a_probability_failures_are_demonstrations() -> None:
    world, dry, lucky, careful = bridge()
    fell = xm.Trajectory([0, 1, 3], [0, 0])
    features = np.zeros((5, 2, 1))
    features[1, 0] = 1.0
    model = CausalXMEN(world, dry, features, validity=0.9).fit([lucky] * 9 + [fell] + [careful] * 10)
    assert model.policy().visits()[1, 0] == pytest.approx(0.5, abs=1e-6)
    assert model.policy().validity == pytest.approx(0.95)
    with pytest.raises(xm.InvalidDemonstrationError, match=r"demonstration 1 .*state 1, which is not terminal"):
        CausalXMEN(world, dry, validity=0.9).fit([careful, xm.Trajectory([0, 1], [0])])


def test_an_episode_that_ran_out_of_time_is_a_demonstration() -> None:
    world = xm.MDP(2, 2, [(0, 0, 1, 0.5), (0, 0, 0, 0.5), (0, 1, 0, 1.0)], start=0, terminal=[1], horizon=2)
    features = np.zeros((2, 2, 1))
    features[0, 0] = 1.0
    late, early = xm.Trajectory([0, 0, 0], [0, 1]), xm.Trajectory([0, 1], [0])
    model = CausalXMEN(world, None, features, validity=0.2, l2=0.1).fit([late, early, early])
    assert np.isfinite(model.score([late, early]))


def test_luck_has_no_minimum_and_a_way_out() -> None:
    """One action, outcomes .5/.5, demonstrations .8/.2, a weight on the lucky state."""
    features = np.zeros((4, 1, 2))
    features[1, 0, 0] = 1.0
    features[0, 0, 1] = 1.0
    one, other = xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [0, 0])
    demos = [one] * 8 + [other] * 2
    with pytest.warns(xm.UnboundedWarning, match=r"feature 0 .*outcomes='expected'.*l2 > 0"):
        model = CausalXMEN(LUCKY, None, features).fit(demos)
    assert not model.converged_
    assert CausalXMEN(LUCKY, None, features, l2=0.1).fit(demos).weights_[0] == pytest.approx(3.0)  # 0.3 / 0.1
    fair = CausalXMEN(LUCKY, None, features, outcomes="expected").fit(demos)
    assert fair.converged_
    assert fair.weights_ == pytest.approx([0.0, 0.0], abs=1e-7)


def test_expected_outcomes_are_those_of_the_demonstrated_choices() -> None:
    """Enough demonstrations of a policy, lucky ones only: the choices are learned, and not the luck."""
    world, dry, lucky, careful = bridge()
    features = np.zeros((5, 2, 2))
    features[0, 0, 0] = features[4, 0, 1] = 1.0
    detour = xm.Trajectory([0, 4, 1, 2], [1, 1, 0])
    demos = [lucky] * 3 + [careful] * 4 + [detour] * 1
    model = CausalXMEN(world, dry, features, validity=0.5, outcomes="expected").fit(demos)
    policy = model.policy()
    policy.reset(0)
    assert policy.probabilities(0) == pytest.approx([3 / 8, 5 / 8], abs=1e-6)
    assert policy.visits()[4] == pytest.approx([4 / 8, 1 / 8], abs=1e-6)


def test_weights_that_run_to_infinity_are_named() -> None:
    world, dry, _, careful = bridge()
    features = np.zeros((5, 2, 1))
    features[1, :, 0] = 1.0
    with pytest.warns(xm.UnboundedWarning, match="feature 0: "):
        CausalXMEN(world, dry, features, validity=0.5).fit([careful] * 3)


@pytest.mark.parametrize("validity", ["sure", 0.999])
def test_promises_that_cannot_be_kept(validity: Any) -> None:
    grid, rule, features, demos = slippery()
    with pytest.raises(xm.InfeasibleError, match="best probability"):
        CausalXMEN(grid, rule, features, validity=validity).fit([tau for tau in demos if rule.accepts(tau)])


def test_a_network_is_trained_to_the_same_policy() -> None:
    torch = pytest.importorskip("torch")
    grid, rule, features, demos = slippery()
    linear = CausalXMEN(grid, rule, features, validity=0.7, l2=1e-3).fit(demos)
    module = torch.nn.Linear(3, 1, bias=False).double()
    network = xm.NeuralReward(module, features)
    model = CausalXMEN(
        grid, rule, validity=0.7, reward=network, training=xm.Training("lbfgs"), l2=1e-3, max_iter=40, tol=1e-7
    ).fit(demos)
    assert model.policy().visits() == pytest.approx(linear.policy().visits(), abs=1e-5)


def test_distributions_over_trajectories_are_not_what_was_learned() -> None:
    grid, rule, features, demos = slippery()
    model = CausalXMEN(grid, rule, features, validity=0.7, l2=0.1).fit(demos)
    with pytest.raises(xm.EngineError, match=r"policy\(\)"):
        model.distribution()
    assert len(model.sample(5, seed=0)) == 5
    shown = model.policy(also=xm.never(grid.at((0, 3))).named("another"))
    assert shown.breaks()["another"] < 0.3
    with pytest.raises(xm.EngineError, match="outcomes 'lucky'"):
        CausalXMEN(grid, rule, outcomes="lucky").fit(demos)
    with pytest.raises(xm.NotFittedError):
        CausalXMEN(grid).policy()


def test_standard_errors_know_that_outcomes_vary() -> None:
    """A gamble that wins one time in two, and a weight on winning: all by hand."""
    rows = [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0)]
    world = xm.MDP(4, 2, rows, start=0, terminal=[3])
    features = np.zeros((4, 2, 1))
    features[1, 0] = 1.0
    won, safe = xm.Trajectory([0, 1, 3], [0, 0]), xm.Trajectory([0, 2, 3], [1, 0])
    model = CausalXMEN(world, None, features).fit([won] * 30 + [safe] * 70)
    chosen = 0.6  # E f = chosen / 2 = 0.3, and chosen is the sigmoid of theta / 2
    assert model.weights_ == pytest.approx([2.0 * np.log(0.6 / 0.4)], abs=1e-6)
    slope = chosen * (1 - chosen) / 4.0
    summary = model.summary()
    assert summary.standard_errors == pytest.approx([np.sqrt(0.3 * 0.7 / 100) / slope], rel=1e-5)
    assert summary.robust_errors == pytest.approx(summary.standard_errors)
    assert "from the scores" in str(summary)
    assert summary.log_likelihood == pytest.approx(30 * np.log(0.6) + 70 * np.log(0.4), abs=1e-4)
    with pytest.raises(xm.EngineError, match="Resample"):
        CausalXMEN(world, None, features, outcomes="expected", l2=0.1).fit([won, safe]).summary()


def test_standard_errors_without_chance_are_those_of_xmen() -> None:
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    features = np.random.default_rng(0).normal(size=(16, 2, 2))
    demos = xm.distribution(grid, None, features @ [0.5, -0.5], seed=0).sample(80)
    ours, theirs = (learner(grid, features=features).fit(demos).summary() for learner in (CausalXMEN, xm.XMEN))
    assert ours.standard_errors == pytest.approx(theirs.standard_errors, rel=1e-4)
    assert ours.robust_errors == pytest.approx(theirs.robust_errors, rel=1e-4)
