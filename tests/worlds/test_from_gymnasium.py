"""The real environments: what they do, step by step, is what the world says is possible, and as often."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import xmen as xm
from xmen import MDP, Trajectory, WorldError

ENVIRONMENTS = [
    ("FrozenLake-v1", {"is_slippery": True}),
    ("FrozenLake-v1", {"is_slippery": False}),
    ("FrozenLake8x8-v1", {}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("Taxi-v4", {"is_rainy": True}),
]


@pytest.fixture(params=ENVIRONMENTS, ids=str)
def env(request: pytest.FixtureRequest) -> Any:
    name, settings = request.param
    return gymnasium.make(name, max_episode_steps=-1, **settings).unwrapped


def episodes(env: Any, n: int, seed: int, limit: int = 400) -> list[tuple[list[int], list[int], bool]]:
    """Observations, actions and whether the environment terminated, under a uniform policy."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        observation, _ = env.reset(seed=int(rng.integers(2**31)))
        observations, actions, terminated = [int(observation)], [], False
        while not terminated and len(actions) < limit:
            action = int(rng.integers(env.action_space.n))
            observation, _, terminated, _, _ = env.step(action)
            observations.append(int(observation))
            actions.append(action)
        found.append((observations, actions, terminated))
    return found


def test_episodes_of_the_real_environment_are_the_trajectories_of_the_world(env: Any) -> None:
    world = MDP.from_gymnasium(env, horizon=400)
    assert world.n_states == env.observation_space.n  # nothing has to be split in any of them
    n_terminated = 0
    for observations, actions, terminated in episodes(env, 60, seed=1):
        tau = Trajectory(observations, actions)
        assert world.log_dynamics(tau) > -np.inf
        problem = world.problem(tau)
        assert (problem is None) == terminated
        assert terminated or "not terminal" in problem[1]
        n_terminated += terminated
    # A uniform taxi driver needs some 2,000 steps; the other environments end often enough.
    assert n_terminated > 0 or env.spec.id.startswith("Taxi")


def test_samples_of_the_world_can_be_played_in_the_real_environment(env: Any) -> None:
    """Constrained sampling gives complete trajectories; forced into the environment, they end there too."""
    world = MDP.from_gymnasium(env, horizon=30)
    reward = np.where(world.available, -1.0, 0.0)
    for tau in xm.distribution(world, None, reward).sample(20, seed=0):
        env.reset(seed=0)
        env.s = tau.states[0]
        for position, action in enumerate(tau.actions):
            _, observation, _, terminated = force(env, action, tau.states[position + 1])
            assert observation == tau.states[position + 1]
            assert terminated == (position + 1 == len(tau))


def force(env: Any, action: int, target: int) -> tuple[float, int, float, bool]:
    """Step with the environment's own code until chance gives the wanted outcome."""
    before = env.s
    for _ in range(1000):
        env.s = before
        observation, reward, terminated, _, info = env.step(action)
        if observation == target:
            return info["prob"], int(observation), reward, terminated
    raise AssertionError(f"action {action} in {before} did not lead to {target} in 1000 trials")


def test_probabilities_and_rewards_match_what_the_environment_does(env: Any) -> None:
    """One-step frequencies from 3,000 steps of the environment; 5 sigma, so a bias of 0.05 is caught."""
    world = MDP.from_gymnasium(env, horizon=400)
    env.reset(seed=3)
    rng = np.random.default_rng(3)
    n_draws = 3000
    choices = np.argwhere(world.available)
    for state, action in choices[rng.choice(len(choices), size=4, replace=False)].tolist():
        counts, total = np.zeros(world.n_states), 0.0
        for _ in range(n_draws):
            env.s = state
            observation, reward, *_ = env.step(action)
            counts[observation] += 1
            total += reward
        row = slice(world.row_start[state], world.row_start[state + 1])
        chosen = world.action[row] == action
        expected = np.zeros(world.n_states)
        expected[world.target[row][chosen]] = world.probability[row][chosen]
        tolerance = 5 * np.sqrt(expected * (1 - expected) / n_draws) + 1e-12
        assert np.all(np.abs(counts / n_draws - expected) <= tolerance)
        largest = max(abs(r) for outcomes in env.P[state].values() for _, _, r, _ in outcomes)
        assert abs(total / n_draws - world.rewards[state, action]) <= 5 * largest / np.sqrt(n_draws)


def test_taxi_ends_only_with_a_drop_off_at_the_destination() -> None:
    env = gymnasium.make("Taxi-v4").unwrapped
    world = MDP.from_gymnasium(env, horizon=200)
    corners = [env.encode(row, column, i, i) for i, (row, column) in enumerate(env.locs)]
    assert np.flatnonzero(world.terminal).tolist() == sorted(corners)
    assert np.count_nonzero(world.start) == 300
    assert world.rewards[env.encode(0, 0, 4, 0), 5] == 20.0
    assert world.rewards[env.encode(0, 0, 4, 1), 4] == -10.0


def test_frozen_lake_merges_equal_outcomes() -> None:
    world = MDP.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=True), horizon=100)
    corner = world.transitions[(world.source == 0) & (world.action == 0)]
    assert corner[:, 2].tolist() == [0, 4]
    assert corner[:, 3] == pytest.approx([2 / 3, 1 / 3])


def test_horizon_defaults_to_the_time_limit_of_the_environment() -> None:
    assert MDP.from_gymnasium(gymnasium.make("FrozenLake-v1")).horizon == 100
    assert MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=7).horizon == 7
    with pytest.raises(WorldError, match="horizon"):
        MDP.from_gymnasium(gymnasium.make("CliffWalking-v1"))


def table_env(table: Any, start: Any, n_states: int = 3, n_actions: int = 2) -> Any:
    return SimpleNamespace(
        P=table,
        initial_state_distrib=start,
        observation_space=gymnasium.spaces.Discrete(n_states),
        action_space=gymnasium.spaces.Discrete(n_actions),
    )


def test_a_state_entered_with_and_without_the_flag_is_split() -> None:
    # From 0, action 0 walks to 1 and goes on; action 1 leads to 1 and ends there, half of the time.
    table = {
        0: {0: [(1.0, 1, 0.0, False)], 1: [(0.5, 1, 4.0, True), (0.5, 1, 2.0, False)]},
        1: {0: [(1.0, 2, 1.0, True)]},
        2: {},
    }
    world = MDP.from_gymnasium(table_env(table, [1.0, 0.0, 0.0]))
    assert world.n_states == 4
    assert world.observations.tolist() == [0, 1, 2, 1]
    assert np.flatnonzero(world.terminal).tolist() == [2, 3]
    assert world.problem(Trajectory([0, 3], [1])) is None
    assert world.problem(Trajectory([0, 1, 2], [1, 0])) is None
    assert world.log_dynamics(Trajectory([0, 3], [1])) == pytest.approx(np.log(0.5))
    assert world.rewards.tolist() == [[0.0, 3.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_start_that_is_also_an_end_is_split() -> None:
    table = {0: {0: [(1.0, 0, 0.0, True)], 1: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, True)]}}
    world = MDP.from_gymnasium(table_env(table, [1.0, 0.0], n_states=2))
    assert world.problem(Trajectory([0, 2], [0])) is None
    assert world.problem(Trajectory([0, 1, 2], [1, 0])) is None
    assert world.problem(Trajectory([0], [])) is not None


ROW = {0: {0: [(1.0, 1, 0.0, True)]}, 1: {}, 2: {}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: "FrozenLake-v1", r"gymnasium\.make\('FrozenLake-v1'\)"),
        (lambda: object(), "object has no transition table: .* FrozenLake, CliffWalking and Taxi"),
        (lambda: table_env({**ROW, 1: {0: [(1.0, 2)]}}, [1, 0, 0]), r"P\[1\]\[0\] .*next_state"),
        (lambda: table_env({**ROW, 1: {0: 5}}, [1, 0, 0]), r"P\[1\]\[0\] must list"),
        (lambda: table_env({**ROW, 1: {0: [(1.0, 7, 0.0, False)]}}, [1, 0, 0]), r"P\[1\]\[0\] .*state 7, .* 0 to 2"),
        (lambda: table_env({**ROW, 0: {0: [(0.4, 1, 0.0, True)]}}, [1, 0, 0]), r"action 0 in state 0 sum to 0\.4"),
        (lambda: table_env(ROW, None), "initial_state_distrib"),
        (lambda: table_env(ROW, [1.0, 0.0]), "length 3, got .*length 2"),
        (lambda: gymnasium.make("Blackjack-v1"), "BlackjackEnv has no transition table"),
        (lambda: gymnasium.make("CartPole-v1"), "CartPoleEnv has no transition table"),
        (lambda: gymnasium.make("Taxi-v4", fickle_passenger=True), "outside its transition table"),
        (lambda: SimpleNamespace(P={}, observation_space=gymnasium.spaces.Box(0, 1), action_space=None), "got Box"),
    ],
)
def test_refuses(make: Any, message: str) -> None:
    with pytest.raises(WorldError, match=message):
        MDP.from_gymnasium(make(), horizon=3)
