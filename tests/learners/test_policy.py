"""Policies in the real environments: every episode keeps the rules, and actions come as often as the maths says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium
import numpy as np
import pytest

import xmen as xm
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.errors import EngineError, InfeasibleError, TrajectoryError
from xmen.policies.policy import Policy

# --- the real environments ----------------------------------------------------------------------------------------


def frozen_lake() -> tuple[Any, xm.MDP, xm.Constraint, np.ndarray]:
    """Reach the goal (holes end an episode too) by way of cell 8, in at most 9 moves."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    world = xm.MDP.from_gymnasium(env, horizon=9)
    rule = xm.visit(xm.at(15)) & xm.visit(xm.at(8)) & (xm.longest_repeat() <= 2)
    return env, world, rule, np.where(world.available, -0.5, 0.0)


def cliff_walking() -> tuple[Any, xm.MDP, xm.Constraint, np.ndarray]:
    """Never step off the cliff; look at the far corner first; in at most 20 moves."""
    env = gymnasium.make("CliffWalking-v1")
    world = xm.MDP.from_gymnasium(env, horizon=20)
    falls = world.rewards == -100
    cliff = xm.when(lambda state, action: action is not None and bool(falls[state, action]), name="cliff")
    return env, world, xm.never(cliff) & xm.visit(xm.at(0)), np.where(world.available, -1.0, 0.0)


def taxi() -> tuple[Any, xm.MDP, xm.Constraint, np.ndarray]:
    """No illegal pick-up or drop-off, and the taxi calls at the middle of the map; in at most 24 moves."""
    env = gymnasium.make("Taxi-v4")
    world = xm.MDP.from_gymnasium(env, horizon=24)
    illegal = world.rewards == -10
    wrong = xm.when(lambda state, action: action is not None and bool(illegal[state, action]), name="illegal")
    middle = [s for s in range(500) if divmod(s // 20, 5) == (2, 2)]
    return env, world, xm.never(wrong) & xm.visit(xm.at(*middle)), np.where(world.available, -0.7, 0.0)


REAL = [frozen_lake, cliff_walking, taxi]


def episode(env: Any, policy: Policy, seed: int | None = None) -> xm.Trajectory:
    """One episode, played as users of gymnasium would."""
    observation, _ = env.reset(seed=seed)
    policy.reset(observation)
    observations, actions, terminated, truncated = [int(observation)], [], False, False
    while not (terminated or truncated):
        action = policy.act(observation)
        observation, _, terminated, truncated, _ = env.step(action)
        observations.append(int(observation))
        actions.append(action)
    assert terminated
    assert policy.done
    return xm.Trajectory(observations, actions)


@pytest.mark.parametrize("make", REAL)
@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_every_real_episode_keeps_the_rules(make: Any, greedy: bool, discount: float) -> None:
    env, world, rule, reward = make()
    d = xm.distribution(world, rule, reward, discount)
    policy = Policy(d, greedy=greedy, seed=0)
    for seed in range(5 if greedy else 150):
        tau = episode(env, policy, seed)
        assert rule.accepts(tau), rule.explain(tau)
        assert world.problem(tau) is None
        assert policy.time == len(tau)


@pytest.mark.parametrize("make", [frozen_lake, cliff_walking])
@pytest.mark.slow
def test_action_frequencies_match_samples(make: Any) -> None:
    """Uses of each action per time, over 4,000 real episodes and 40,000 samples.

    At five standard errors, a probability near one half that is off by 0.042 would be caught.
    """
    env, world, rule, reward = make()
    d = xm.distribution(world, rule, reward)
    policy, n, n_samples = Policy(d, seed=3), 4000, 40_000
    played = Counter((t, a) for _ in range(n) for t, a in enumerate(episode(env, policy).actions))
    drawn = Counter((t, a) for tau in d.sample(n_samples, seed=4) for t, a in enumerate(tau.actions))
    for key in played | drawn:
        p = drawn[key] / n_samples
        error = np.sqrt((p * (1 - p) + 1 / n) * (1 / n + 1 / n_samples))
        assert abs(played[key] / n - p) < 5 * error, key


@pytest.mark.parametrize("make", REAL)
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_probabilities_multiply_to_that_of_the_trajectory(make: Any, discount: float) -> None:
    """The product of P(a | history) over an episode is P(tau) / P(s_0), exactly."""
    _, world, rule, reward = make()
    d = xm.distribution(world, rule, reward, discount)
    samples = d.sample(30, seed=1)
    assert_chain_rule(d, samples)


def assert_chain_rule(d: xm.Distribution, samples: list[xm.Trajectory]) -> None:
    policy, world = Policy(d, seed=0), d.world
    for tau in samples:
        at_start = np.zeros(world.n_states)
        at_start[tau.states[0]] = 1.0
        there = xm.MDP(
            world.n_states, world.n_actions, world.transitions, at_start, np.flatnonzero(world.terminal), world.horizon
        )
        wanted = xm.distribution(there, d.constraint, d.reward, d.discount, engine="exact").log_prob(tau)
        policy.reset(tau.states[0])
        total = 0.0
        for state, action in zip(tau.states[:-1], tau.actions, strict=True):
            shares = policy.probabilities(state)
            assert shares.sum() == pytest.approx(1.0)
            total += np.log(shares[action])
            force(policy, state, action)
        assert total == pytest.approx(wanted, abs=1e-8)
        assert policy.done


def force(policy: Policy, state: int, action: int) -> None:
    """Act until chance gives the wanted action, from the same memory each time."""
    memory = policy._memory
    for _ in range(100_000):
        if policy.act(state) == action:
            return
        policy._memory = memory
    raise AssertionError("an action of positive probability never came")


# --- any deterministic world --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(cases(60)))
def test_random_deterministic_worlds(case: int) -> None:
    """P(a | history) after every prefix, against a list of all valid trajectories and their weights."""
    rng = np.random.default_rng(case)
    drawn = random_world(rng)
    rows = {(int(s), int(a)): (s, a, t, 1.0) for s, a, t, _ in drawn.transitions}  # the last outcome, for certain
    terminal = np.flatnonzero(drawn.terminal)
    world = xm.MDP(drawn.n_states, drawn.n_actions, list(rows.values()), drawn.start, terminal, drawn.horizon)
    formula, rule = random_formula(rng, world.n_states, world.n_actions)
    reward, discount = rng.normal(size=(world.n_states, world.n_actions)), 0.8 if case % 2 else 1.0
    weights = {tau: np.exp(w) for tau, w in exact_distribution(world, formula, reward, discount).log_weights.items()}
    if not weights:
        with pytest.raises(InfeasibleError):
            xm.distribution(world, rule, reward, discount, engine="exact")
        return
    policy = Policy(xm.distribution(world, rule, reward, discount, engine="exact"), seed=0)
    for states, actions in list(weights)[:20]:
        policy.reset(states[0])
        for t, action in enumerate(actions):
            assert not policy.done
            wanted = np.zeros(world.n_actions)
            for (other_states, other_actions), weight in weights.items():
                if other_states[: t + 1] == states[: t + 1] and other_actions[:t] == actions[:t]:
                    wanted[other_actions[t]] += weight
            assert policy.probabilities(states[t]) == pytest.approx(wanted / wanted.sum(), abs=1e-9)
            force(policy, states[t], action)
        assert policy.done


def test_greedy_takes_the_most_likely_next_action() -> None:
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    reward = np.random.default_rng(0).normal(size=(16, 2))
    policy = Policy(xm.distribution(grid, xm.longest_repeat() <= 2, reward), greedy=True)
    state, actions = 0, []
    policy.reset(state)
    while not policy.done:
        shares = policy.probabilities(state)
        actions.append(policy.act(state))
        assert actions[-1] == np.argmax(shares)
        state += 1 if actions[-1] else 4
    assert len(set(actions)) == 2


def test_rewards_that_underflow_in_plain_numbers() -> None:
    """-8 per move over up to 200 moves: layers that were done in log space give the same conditionals."""
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), horizon=200)
    d = xm.distribution(grid, xm.count(grid.at((3, 3))) >= 20, np.full((36, 4), -8.0), 0.995)
    assert_chain_rule(d, d.sample(3, seed=0))


def test_fixed_length_worlds_end_at_the_horizon() -> None:
    grid = xm.GridWorld(3, 1, start=(0, 0), goal=None, moves=("left", "right"), horizon=4)
    policy = Policy(xm.distribution(grid, xm.count(grid.at((2, 0))) == 2, None), seed=0)
    state = 0
    policy.reset(state)
    for t in range(4):
        assert not policy.done
        assert policy.time == t
        state += 2 * policy.act(state) - 1
    assert policy.done
    with pytest.raises(EngineError, match="over after 4"):
        policy.act(state)


def test_an_environment_that_ends_where_it_can_also_pass() -> None:
    """Terminal twins: the world has an extra state, and the environment keeps showing its own observation."""
    from types import SimpleNamespace

    table = {
        0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 1, 0.0, True)]},
        1: {0: [(1.0, 0, 0.0, False)]},
    }
    env = SimpleNamespace(
        P=table,
        observation_space=gymnasium.spaces.Discrete(2),
        action_space=gymnasium.spaces.Discrete(2),
        initial_state_distrib=[1.0, 0.0],
    )
    world = xm.MDP.from_gymnasium(env, horizon=5)
    assert world.n_states == 3
    policy = Policy(xm.distribution(world, xm.length() == 4, None), seed=0)
    policy.reset(0)
    assert [policy.act(0), policy.act(1), policy.act(0)] == [0, 0, 1]
    assert policy.done
    with pytest.raises(EngineError, match="over after 3"):
        policy.act(1)


# --- what cannot be promised --------------------------------------------------------------------------------------


CHANCE = xm.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=True), horizon=30)
GRID = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))


@pytest.mark.parametrize(
    ("world", "engine", "named"),
    [(CHANCE, "auto", r"lucky .*sample\(n\)"), (GRID, "reject", r"engine='exact'.* engine='reject'")],
)
def test_what_cannot_be_promised_is_refused(world: xm.MDP, engine: str, named: str) -> None:
    with pytest.raises(EngineError, match=named):
        Policy(xm.distribution(world, xm.visit(xm.at(4)), None, engine=engine))


def test_misuse_is_explained() -> None:
    policy = Policy(xm.distribution(GRID, xm.visit(GRID.at((0, 2))), None))
    with pytest.raises(EngineError, match="reset"):
        policy.act(0)
    for start, error, named in (
        (1, InfeasibleError, r"cell \(1, 0\).* never starts"),
        (99, InfeasibleError, "state 99"),
        ("here", TrajectoryError, "here"),
    ):
        with pytest.raises(error, match=named):
            policy.reset(start)
    policy.reset(np.array(0))
    with pytest.raises(TrajectoryError, match=r"after reset .* 4"):
        policy.act(4)
    assert policy.act(0) == 0
    with pytest.raises(TrajectoryError, match=r"action number 1 .* shows 1, .* cell \(0, 1\)"):
        policy.act(1)
    assert policy.act(3) == 0  # the memory is as it was


def test_a_start_from_which_the_rule_cannot_be_kept() -> None:
    world = xm.MDP(3, 1, [(0, 0, 2, 1.0), (1, 0, 2, 1.0)], start=[0.5, 0.5, 0.0], terminal=2)
    policy = Policy(xm.distribution(world, xm.never(xm.at(1)), None))
    policy.reset(0)
    with pytest.raises(InfeasibleError, match="state 1: no trajectory"):
        policy.reset(1)


def test_another_promise_on_what_was_learned() -> None:
    """`validity` asks of a model's reward what `xm.plan` asks of any, also where the model alone gives no policy."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=8, slip=0.2)
    rule = xm.never(grid.at((1, 1)))
    demos = xm.plan(grid, rule, validity=0.6, seed=0).rollout(50)
    features = np.zeros((9, 4, 1))
    features[4] = 1.0
    causal = xm.CausalXMEN(grid, rule, features, validity=0.5, l2=0.1).fit(demos)
    assert causal.policy().validity == pytest.approx(0.5, abs=1e-6)
    alone = xm.RelativeEntropyIRL(grid, features, seed=0, tol=0.1).fit([tau for tau in demos if not grid.problem(tau)])
    for model, also in ((causal, None), (alone, rule)):
        for validity in ("best", 0.7):
            wanted = xm.plan(grid, rule, model.reward_, validity)
            found = model.policy(also, validity=validity)
            assert found.validity == wanted.validity
            assert found.visits() == pytest.approx(wanted.visits())
    with pytest.raises(EngineError, match="deterministic worlds"):
        alone.policy()
