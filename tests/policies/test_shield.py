"""Shields against the tree of all histories, and in the real environments with an agent that does as it likes."""

from __future__ import annotations

import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import xmen as xm
from policies.histories import History, Solved, best_chance, solve
from policies.test_plan import drawn
from strategies import cases
from xmen.errors import EngineError, InfeasibleError, TrajectoryError


def allowed(truth: Solved, history: History, validity: str) -> np.ndarray:
    """By the definition: all outcomes safe, or the largest chance."""
    outcomes = truth.tree.outcomes[history]
    out = np.zeros(truth.tree.world.n_actions, dtype=bool)
    if validity == "sure":
        for action, targets in outcomes.items():
            out[action] = all(truth.value[following] > -np.inf for following, _ in targets)
        return out
    odds = {a: sum(p * truth.chance[following] for following, p in targets) for a, targets in outcomes.items()}
    for action, chance in odds.items():
        out[action] = chance >= max(odds.values()) - 1e-12
    return out


@pytest.mark.parametrize("validity", ["sure", "best"])
@pytest.mark.parametrize("case", range(cases(35)))
def test_masks(case: int, validity: str) -> None:
    world, _, rule, _, _, tree = drawn(case)
    truth = solve(tree, np.zeros((world.n_states, world.n_actions)), 1.0, validity)
    if validity == "sure" and any(truth.value[start] == -np.inf for start in tree.starts):
        with pytest.raises(InfeasibleError) as raised:
            xm.shield(world, rule, validity)
        assert raised.value.best == pytest.approx(best_chance(tree), abs=1e-9)
        return
    guard, rng = xm.shield(world, rule, validity), np.random.default_rng(case)
    for start in list(tree.starts) * 3:
        history = start
        guard.reset(start[0][0])
        while history in tree.outcomes:
            mask = guard.mask(history[0][-1])
            assert np.array_equal(mask, allowed(truth, history, validity))
            action = int(rng.choice(np.flatnonzero(mask)))
            targets = tree.outcomes[history][action]
            history = targets[int(rng.integers(len(targets)))][0]
            guard.step(action, history[0][-1])
        assert guard.done
        assert not guard.mask(history[0][-1]).any()
        if validity == "sure":
            assert tree.won[history]


def test_an_agent_that_does_as_it_likes_behind_a_shield() -> None:
    """FrozenLake, slippery, at random: from 0 holes avoided to the best chance there is of not falling in 40 steps."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    world = xm.MDP.from_gymnasium(env, horizon=40)
    # The same lake without ends: an episode has 40 steps, and what counts is not to fall.
    rows = [*world.transitions, *[(s, 0, s, 1.0) for s in np.flatnonzero(world.terminal)]]
    endless = xm.MDP(16, 4, rows, start=0, horizon=40)
    holes = xm.never(xm.at(5, 7, 11, 12)).named("no hole")
    guard = xm.shield(endless, holes, "sure")
    shielded, n_replaced = guard.wrap(env), 0
    agent = np.random.default_rng(0)
    for episode in range(40):
        _, info = shielded.reset(seed=episode)
        over = False
        while not over:
            assert info["action_mask"].dtype == np.int8
            observation, _, terminated, truncated, info = shielded.step(int(agent.integers(4)))
            n_replaced += info["shielded"]
            assert observation not in (5, 7, 11, 12)
            over = terminated or truncated
    assert n_replaced > 100


def test_the_mask_is_all_that_counts() -> None:
    """An agent that draws from info["action_mask"] is never corrected."""
    env = gymnasium.make("CliffWalking-v1", is_slippery=True)
    world = xm.MDP.from_gymnasium(env, horizon=60)
    falls = world.rewards <= -30
    rule = xm.never(xm.when(lambda s, a: a is not None and bool(falls[s, a]), name="by the cliff")).named("no cliff")
    shielded, agent = xm.shield(world, rule, "best").wrap(env), np.random.default_rng(1)
    _, info = shielded.reset(seed=1)
    for _ in range(60):
        _, _, terminated, truncated, info = shielded.step(int(agent.choice(np.flatnonzero(info["action_mask"]))))
        assert not info["shielded"]
        if terminated or truncated:
            break


def test_a_shielded_environment_is_pickled() -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    rule = xm.never(xm.at(5, 7, 11, 12)).named("no hole")
    shielded = xm.shield(xm.MDP.from_gymnasium(env, horizon=20), rule, "best").wrap(env, seed=0)
    shielded.reset(seed=1)
    again = pickle.loads(pickle.dumps(shielded))
    for action in (0, 1, 2):
        assert str(shielded.step(action)) == str(again.step(action))


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.parametrize("validity", ["sure", "best"])
def test_a_shielded_environment_passes_gymnasiums_check_and_has_the_mask_that_maskable_ppo_asks_for(validity) -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=validity == "best")
    lake = xm.MDP.from_gymnasium(env, horizon=30)
    shielded = xm.shield(lake, xm.never(xm.at(5)), validity).wrap(env, seed=0)
    for early in (shielded.action_masks, lambda: shielded.step(0)):
        with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
            early()
    check_env(shielded, skip_render_check=True)
    _, info = shielded.reset(seed=1)
    masks = shielded.action_masks()
    assert masks.dtype == np.bool_
    assert np.array_equal(masks, info["action_mask"])
    masks[:] = False  # a copy
    assert shielded.action_masks().any()


def test_misuse_is_explained() -> None:
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    rule = xm.visit(grid.at((0, 2))).named("the corner")
    guard = xm.shield(grid, rule)
    with pytest.raises(EngineError, match="reset"):
        guard.mask(0)
    guard.reset(0)
    with pytest.raises(EngineError, match=r"action 1 .*cell \(0, 0\).*move 'up'"):
        guard.step(1, 1)
    with pytest.raises(TrajectoryError, match="shows 1"):
        guard.step(0, 1)
    assert guard.time == 0  # the memory is as it was
    guard.step(0, 3)
    assert guard.mask(3).tolist() == [True, False]
    with pytest.raises(EngineError, match="'sure' or 'best'"):
        xm.shield(grid, rule, 0.9)
    with pytest.raises(InfeasibleError, match="starts there"):
        guard.reset(5)


def test_a_shield_needs_gymnasium_only_to_wrap() -> None:
    code = (
        "import sys, xmen as xm; sys.modules['gymnasium'] = None\n"  # importing it now fails
        "guard = xm.shield(xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=('up', 'right')))\n"
        "try:\n    guard.wrap(None)\nexcept xm.MissingExtraError as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "shield.wrap" in told
