"""Policies in the real environments with chance: what they promise is what is counted there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import xmen as xm


def frozen_lake(size: str, horizon: int) -> tuple[Any, xm.MDP, xm.Constraint]:
    """The goal, no hole, and never more than four equal moves in a row."""
    env = gymnasium.make("FrozenLake-v1", map_name=size, is_slippery=True, max_episode_steps=horizon)
    world = xm.MDP.from_gymnasium(env, horizon=horizon)
    table = b"".join(env.unwrapped.desc.ravel().tolist())
    holes = [s for s, letter in enumerate(table) if letter == ord("H")]
    dry = xm.never(xm.at(*holes)).named("no hole")
    return env, world, dry & (xm.longest_repeat() <= 4).named("no long runs")


def avoiding(pairs: np.ndarray, name: str) -> xm.Constraint:
    """None of these pairs of state and action."""
    return xm.never(xm.when(lambda s, a: a is not None and bool(pairs[s, a]), name=name)).named(f"nothing {name}")


def cliff() -> tuple[Any, xm.MDP, xm.Constraint]:
    """Never where the cliff may be stepped on, and the far corner first."""
    env = gymnasium.make("CliffWalking-v1", is_slippery=True, max_episode_steps=60)
    world = xm.MDP.from_gymnasium(env, horizon=60)
    return env, world, avoiding(world.rewards <= -30, "risky") & xm.visit(xm.at(0)).named("the corner")


def rainy_taxi() -> tuple[Any, xm.MDP, xm.Constraint]:
    """No illegal pick-up or drop-off, in rain."""
    env = gymnasium.make("Taxi-v4", is_rainy=True, max_episode_steps=40)
    world = xm.MDP.from_gymnasium(env, horizon=40)
    return env, world, avoiding(world.rewards == -10, "illegal")


REAL = {
    "lake 4x4": lambda: frozen_lake("4x4", 60),
    "lake 8x8": lambda: frozen_lake("8x8", 120),
    "cliff": cliff,
    "taxi": rainy_taxi,
}


def episode(env: Any, policy: xm.Policy, seed: int) -> tuple[xm.Trajectory, bool]:
    """One episode as users of gymnasium play it, and whether it arrived."""
    observation, _ = env.reset(seed=seed)
    policy.reset(observation)
    states, actions, terminated, truncated = [int(observation)], [], False, False
    while not (terminated or truncated):
        actions.append(policy.act(observation))
        observation, _, terminated, truncated, _ = env.step(actions[-1])
        states.append(int(observation))
    policy.observe(observation)
    assert policy.done
    return xm.Trajectory(states, actions), terminated


@pytest.mark.parametrize("name", REAL)
def test_promised_and_counted(name: str) -> None:
    """250 real episodes: a promise that is off by 0.13 near one half would be caught at four standard errors."""
    env, world, rule = REAL[name]()
    policy = xm.plan(world, rule, np.where(world.available, -0.1, 0.0), "best", seed=7)
    n, kept = 250, 0
    for seed in range(n):
        tau, arrived = episode(env, policy, seed)
        kept += arrived and rule.accepts(tau)
    error = np.sqrt(policy.validity * (1 - policy.validity) / n)
    assert abs(kept / n - policy.validity) <= 4 * error + 1e-12
    assert policy.validity > 0.3


def test_a_policy_learned_from_episodes_plays_on() -> None:
    """From demonstrations on the slippery lake to a policy for it, with the promise it was learned under."""
    env, world, rule = frozen_lake("4x4", 40)
    expert = xm.plan(world, rule, np.where(world.available, -0.3, 0.0), 0.3, seed=1)
    demos = [episode(env, expert, seed)[0] for seed in range(60)]
    features = np.stack([world.available.astype(float), world.rewards], axis=-1)
    model = xm.CausalXMEN(world, rule, features, validity=0.3, l2=0.01).fit(demos)
    assert model.policy().validity >= 0.3 - 1e-9
    assert episode(env, model.policy(seed=0), 5)[0].states[0] == 0


def test_an_episode_that_outlives_the_horizon_ends() -> None:
    """The documented loop, with a horizon of 60 in an environment of 100 steps: one in twelve episodes is cut off."""
    page = (Path(__file__).parents[2] / "docs" / "chance.md").read_text()
    block = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "policy.reset" in block)
    made, loop = block.split("observation, _ = env.reset(seed=0)\n")
    names: dict[str, Any] = {"xm": xm}
    exec(made, names)
    env, policy = names["env"], names["policy"]
    assert env.spec.max_episode_steps > policy.world.horizon
    late = 0
    for seed in range(200):
        names["observation"], _ = env.reset(seed=seed)
        exec(loop, names)
        late += not (names["terminated"] or names["truncated"])
        if not names["terminated"]:
            assert policy.done
            assert policy.time == policy.world.horizon
            with pytest.raises(xm.EngineError, match="over after 60 actions"):
                policy.act(names["observation"])
    assert late > 0


def test_a_shielded_environment_is_cut_off_at_the_horizon() -> None:
    env, _, rule = frozen_lake("4x4", 60)
    shielded = xm.shield(xm.MDP.from_gymnasium(env, horizon=20), rule, validity="best").wrap(env, seed=0)
    ends = set()
    for seed in range(20):
        shielded.reset(seed=seed)
        steps, terminated, truncated = 0, False, False
        while not (terminated or truncated):
            _, _, terminated, truncated, info = shielded.step(0)
            steps += 1
        assert steps <= 20
        assert truncated is (steps == 20 and not terminated)
        assert not info["action_mask"].any()
        with pytest.raises(xm.EngineError, match="over"):
            shielded.step(0)
        ends.add(terminated)
    assert ends == {True, False}
