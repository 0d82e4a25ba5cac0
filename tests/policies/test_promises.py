"""What is promised is what is counted: episodes of the compiled loops, every one checked by the rules' machines."""

from __future__ import annotations

import os

import numpy as np
import pytest

import xmen as xm
from policies.test_plan import drawn
from xmen.machines.tables import CompiledConstraint
from xmen.policies.behaviour import play, play_many

DEVICE = os.environ.get("XMEN_TEST_DEVICE", "cpu")


def sure_episodes(n_worlds: int, n_episodes: int) -> int:
    """Plays sure policies in random worlds with chance; the number of episodes that broke a rule or did not arrive."""
    broken = found = 0
    for case in range(100_000):
        world, _, rule, reward, discount, _ = drawn(case)
        if world.deterministic:
            continue
        try:
            policy = xm.plan(world, rule, reward, "sure", discount)
        except xm.InfeasibleError:
            continue
        walks, _ = play(policy.behaviour, n_episodes, np.random.default_rng(case))
        done = world.terminal[walks.last_states] if world.has_terminal else walks.lengths == world.horizon
        kept = CompiledConstraint(rule, world, ends_anywhere=True).check(walks)
        broken += int(np.count_nonzero(~(done & kept)))
        found += 1
        if found == n_worlds:
            return broken
    raise AssertionError


@pytest.mark.parametrize(("n_worlds", "n_episodes"), [(40, 1000), pytest.param(500, 2000, marks=pytest.mark.slow)])
def test_sure_policies_never_fail(n_worlds: int, n_episodes: int) -> None:
    assert sure_episodes(n_worlds, n_episodes) == 0


def z_scores(n_worlds: int, n_episodes: int) -> list[float]:
    """How far counted validity lies from the stated one, in standard errors, in worlds where it is neither 0 nor 1."""
    scores: list[float] = []
    for case in range(100_000):
        world, _, rule, reward, discount, _ = drawn(case)
        policy = xm.plan(world, rule, reward, "best" if case % 2 else 0.0, discount)
        if not 0.01 < policy.validity < 0.99:
            continue
        played = play_many(policy.behaviour, n_episodes, np.random.default_rng(case))
        kept = sum(int(valid.sum()) for _, valid in played)
        error = np.sqrt(policy.validity * (1.0 - policy.validity) / n_episodes)
        scores.append((kept / n_episodes - policy.validity) / error)
        if len(scores) == n_worlds:
            return scores
    raise AssertionError


@pytest.mark.parametrize(("n_worlds", "n_episodes"), [(40, 20_000), pytest.param(100, 100_000, marks=pytest.mark.slow)])
def test_counted_validity_is_the_stated_one(n_worlds: int, n_episodes: int) -> None:
    """20,000 episodes in each of 40 worlds: a probability near one half that is off by 0.014 would be caught."""
    scores = z_scores(n_worlds, n_episodes)
    assert max(map(abs, scores)) < 4.0
    assert 0.6 < np.std(scores) < 1.5


def test_failed_and_unfinished_episodes_are_among_the_rollouts() -> None:
    rows = [(0, 0, 1, 0.5), (0, 0, 2, 0.25), (0, 0, 0, 0.25), (2, 0, 3, 1.0)]
    world = xm.MDP(4, 1, rows, start=0, terminal=[1, 3], horizon=2)
    policy = xm.plan(world, xm.never(xm.at(3)).named("not there"), None, "best", seed=0)
    assert policy.validity == pytest.approx(0.5 + 0.25 * 0.5)
    episodes = policy.rollout(4000)
    assert {tau.states for tau in episodes} == {(0, 1), (0, 2, 3), (0, 0, 1), (0, 0, 2), (0, 0, 0)}
    assert policy.breaks() == {"not there": pytest.approx(0.25)}
    assert policy.rollout(7, seed=3) == policy.rollout(7, seed=3)
    assert policy.rollout(0) == []


def test_a_state_without_actions_is_a_failure() -> None:
    world = xm.MDP(4, 2, [(0, 0, 1, 1.0), (0, 1, 2, 0.5), (0, 1, 3, 0.5)], start=0, terminal=[2, 3], horizon=5)
    policy = xm.plan(world, None, None, "sure", seed=0)
    policy.reset(0)
    assert policy.probabilities(0).tolist() == [0.0, 1.0]
    stuck = xm.plan(world, None, [[5.0, 0.0]] * 4, 0.0, seed=0)
    assert stuck.validity == pytest.approx(1.0 / (1.0 + np.exp(5.0)))
    assert xm.Trajectory([0, 1], [0]) in stuck.rollout(50)
    endless = xm.MDP(3, 1, [(0, 0, 0, 0.9), (0, 0, 1, 0.1)], start=0, horizon=3)
    assert xm.plan(endless, None, None, "best").validity == pytest.approx(0.9**2)  # the last step may lead anywhere


def risky(n: int, risk: float) -> xm.MDP:
    """n choices between a sure step and one that falls into a pit with this probability."""
    steps = [(i, 0, i + 1, 1.0) for i in range(n)]
    steps += [(i, 1, target, p) for i in range(n) for target, p in ((i + 1, 1.0 - risk), (n + 1, risk))]
    return xm.MDP(n + 2, 2, steps, start=0, terminal=[n, n + 1], horizon=n)


@pytest.mark.parametrize("device", [None, DEVICE])
def test_the_best_claims_what_it_keeps(device: str | None) -> None:
    """Choices that differ by almost nothing count as equal, and what they cost together is in the claim."""
    n, risk = 200, 9e-13
    world = risky(n, risk)
    tempting = np.tile([0.0, 5.0], (world.n_states, 1))
    policy = xm.plan(world, xm.never(xm.at(n + 1)), tempting, "best", device=device)
    share = policy.visits()[:, 1].sum()
    assert share > 0.99 * n
    assert 1.0 - policy.validity == pytest.approx(share * risk, rel=1e-4)
    assert sum(policy.breaks().values()) == pytest.approx(share * risk, rel=1e-4)
    assert xm.plan(world, xm.never(xm.at(n + 1)), None, "sure", device=device).validity == 1.0


@pytest.mark.parametrize("device", [None, DEVICE])
def test_the_best_of_tiny_chances_is_the_best(device: str | None) -> None:
    chances = {0: 1e-13, 1: 9e-15, 2: 1e-13}
    rows = [(0, action, state, p) for action, c in chances.items() for state, p in ((1, c), (2, 1.0 - c))]
    world = xm.MDP(3, 3, rows, start=0, terminal=[1, 2])
    policy = xm.plan(world, xm.never(xm.at(2)), np.tile([0.0, 9.0, 0.0], (3, 1)), "best", device=device)
    policy.reset(0)
    np.testing.assert_allclose(policy.probabilities(0), [0.5, 0.0, 0.5])
    assert policy.validity == pytest.approx(1e-13, rel=1e-9)
