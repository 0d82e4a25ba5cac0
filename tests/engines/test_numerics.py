"""Correct numbers where naive dynamic programming underflows, overflows or cancels.

Truth: a dense log-space dynamic program over time, written here, on worlds without constraints; and lists of all
trajectories. XMEN_TEST_DEVICE=cuda runs what is about devices on a GPU.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.special import logsumexp

import xmen as xm
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.product import layered as host_layers

MOVES = ("up", "right", "down", "left", "stay")


def dense_log_space(world, reward, discount):
    """log Z, discounted visits and state visits by plain time-indexed forward-backward in log space."""
    S, A, H = world.n_states, world.n_actions, world.max_length
    log_t = np.full((S, A, S), -np.inf)
    log_t[world.source, world.action, world.target] = np.log(world.probability)
    stop = np.where(world.terminal, 0.0, -np.inf) if world.has_terminal else np.full(S, -np.inf)
    last = stop if world.has_terminal else np.zeros(S)
    after = [last]
    for t in range(H - 1, -1, -1):
        score = log_t + (discount**t * reward)[:, :, None] + after[0][None, None]
        after.insert(0, np.logaddexp(stop, logsumexp(score.reshape(S, -1), axis=1)))
    with np.errstate(divide="ignore"):
        here = np.log(world.start)
    log_z = logsumexp(here + after[0])
    visits, states = np.zeros((S, A)), np.exp(here + after[0] - log_z)
    for t in range(H):
        joint = here[:, None, None] + log_t + (discount**t * reward)[:, :, None]
        flow = np.exp(joint + after[t + 1][None, None] - log_z)
        visits += discount**t * flow.sum(axis=2)
        states += flow.sum(axis=(0, 1))
        here = logsumexp(joint.reshape(S * A, S), axis=0)
    return log_z, visits, states


def grid(goal=(4, 4), horizon=200, slip=0.0):
    return xm.GridWorld(5, 5, start=(0, 0), goal=goal, moves=MOVES, horizon=horizon, slip=slip)


CASES = {
    "minus eight per step": (grid(), lambda rng: np.full((25, 5), -8.0)),
    "plus eight per step": (grid(), lambda rng: np.full((25, 5), 8.0)),
    "plus eight, fixed length": (grid(goal=None), lambda rng: np.full((25, 5), 8.0)),
    "wild": (grid(), lambda rng: rng.normal(0, 50, (25, 5))),
    "wild, fixed length": (grid(goal=None), lambda rng: rng.normal(0, 50, (25, 5))),
    "wild, slippery": (grid(slip=0.1), lambda rng: rng.normal(0, 50, (25, 5))),
    "one step is a cliff": (grid(), lambda rng: np.where(np.arange(25)[:, None] == 12, 900.0, -3.0) * np.ones(5)),
    "one step is a pit": (grid(), lambda rng: np.where(np.arange(25)[:, None] % 5 == 2, -900.0, 2.0) * np.ones(5)),
    "tight horizon": (grid(horizon=8), lambda rng: rng.normal(0, 300, (25, 5))),
}


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_dense_log_space(case, discount):
    world, make = CASES[case]
    reward = make(np.random.default_rng(3))
    log_z, visits, states = dense_log_space(world, reward, discount)
    d = xm.distribution(world, None, reward, discount=discount)
    assert d.log_partition() == pytest.approx(log_z, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(d.visits(), visits, atol=1e-9, rtol=1e-8)
    np.testing.assert_allclose(d.state_visits(), states, atol=1e-9, rtol=1e-8)
    assert all(world.problem(tau) is None for tau in d.sample(20, seed=0))
    assert d.log_prob(d.mode()) >= max(d.log_prob(tau) for tau in d.sample(20, seed=1)) - 1e-9


def test_recomputed_layers_change_nothing(monkeypatch):
    """With too little memory for all layers, some are made again: the same numbers must come out."""
    world, make = CASES["wild"]
    reward = make(np.random.default_rng(5))
    for discount in (1.0, 0.95):
        whole = xm.distribution(world, None, reward, discount=discount)
        expected = whole.visits(), whole.sample(50, seed=2)
        monkeypatch.setattr(host_layers, "MESSAGE_BYTES", 1000)
        sparse = xm.distribution(world, None, reward, discount=discount)
        np.testing.assert_allclose(sparse.visits(), expected[0], atol=1e-12)
        assert sparse.sample(50, seed=2) == expected[1]
        monkeypatch.undo()


def test_early_and_late_branching_have_comparable_weight():
    """Two kinds of paths, one branching first and one last: at half time their messages differ by hundreds of nats."""
    half, width = 450, 8
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 1.0)]
    # states 1 .. half: branching chain (width parallel actions); then a plain chain; and the other way round.
    first, second = 3, 3 + 2 * half
    for base, wide_first in ((first, True), (second, False)):
        rows.append((1 if wide_first else 2, 0, base, 1.0))
        for i in range(2 * half):
            wide = (i < half) == wide_first
            target = base + i + 1 if i + 1 < 2 * half else second + 2 * half
            rows += [(base + i, a, target, 1.0) for a in range(width if wide else 1)]
    goal = second + 2 * half
    # A self-loop makes the world cyclic, so that the layered schedule is the one in use.
    rows.append((1, 1, 1, 1.0))
    world = xm.MDP(goal + 1, width, rows, start=0, terminal=[goal], horizon=2 * half + 3)
    d = xm.distribution(world, None, None)
    # Paths: wide-first with no loop or with one loop, plain-first: 3 * width ** half in total.
    assert d.log_partition() == pytest.approx(np.log(3) + half * np.log(width), rel=1e-12)
    visits = d.state_visits()
    assert visits[first + half] == pytest.approx(2 / 3, abs=1e-9)
    assert visits[second + half] == pytest.approx(1 / 3, abs=1e-9)


def test_zero_probability_is_minus_infinity():
    world, _ = CASES["wild"]
    d = xm.distribution(world, xm.never(xm.at(6)), None)
    assert d.log_prob(xm.Trajectory([0, 5, 6], [0, 1])) == -np.inf
    assert d.visits()[6].max() == 0.0


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e5, 1e6])
def test_what_all_actions_have_in_common_changes_nothing(offset):
    """Fixed lengths: an offset per step cancels out of every probability, of visits and of the entropy."""
    rows = [(0, 0, 1, 1.0), (0, 1, 0, 1.0), (1, 0, 2, 1.0), (1, 1, 0, 1.0), (2, 0, 0, 1.0), (2, 1, 2, 1.0)]
    world = xm.MDP(3, 2, rows, start=0, horizon=200)
    rule = xm.longest_run(xm.at(2)) <= 5
    plain = xm.distribution(world, rule, np.zeros((3, 2)))
    d = xm.distribution(world, rule, np.full((3, 2), offset))
    # A sum of offset * 200 is rounded by about offset * 200 * 1e-16 in each of 200 steps.
    precision = 1e-9 + abs(offset) * 200 * 2.3e-16 * 200
    assert d.visits().sum() == pytest.approx(200, abs=1e-9)
    np.testing.assert_allclose(d.visits(), plain.visits(), atol=precision)
    assert d.entropy() == pytest.approx(plain.entropy(), abs=precision)


def test_rewards_beyond_the_precision_of_doubles_are_refused():
    world, _ = CASES["wild"]
    with pytest.raises(xm.RewardError, match="apart"):
        xm.distribution(world, None, np.full((25, 5), 1e9))


# --- rewards of any size, in every precision ----------------------------------------------------------------------


@pytest.fixture(params=["host", "float64", "float32"])
def place(request):
    """Where the exact engine computes, and how far from the truth rounding may take it for each action."""
    if request.param == "host":
        return {}, 1e-10
    pytest.importorskip("torch")
    device = os.environ.get("XMEN_TEST_DEVICE", "cpu")
    return {"device": device, "precision": request.param}, 1e-10 if request.param == "float64" else 1e-6


def rewards_of_any_size(rng, shape):
    """Up to 1e-3 .. 1e6, of one sign or both, and often where a number type ends: 80 to 800 nats a step."""
    largest = rng.uniform(-3, 6) if rng.random() < 0.5 else rng.uniform(1.5, 3)
    size, sign = 10 ** rng.uniform(largest - 1, largest, shape), rng.choice([-1, 1], shape)
    return size * (sign if rng.random() < 0.5 else sign.flat[0])


def assert_exact(d, world, truth, reward, error):
    steps = max(world.max_length, 1)
    # Beside the rounding of each step, numbers as large as sums of rewards are rounded by their own size.
    error = steps * (error + 1e-15 * steps * float(np.abs(reward).max(initial=0.0)))
    assert d.log_partition() == pytest.approx(truth.log_partition, abs=error)
    np.testing.assert_allclose(d.visits(), truth.visits, atol=error * steps)
    assert d.entropy() == pytest.approx(truth.entropy, abs=100 * error)
    assert all(world.problem(tau) is None for tau in d.sample(20, seed=0))


@pytest.mark.parametrize("block", range(3))
def test_any_size_of_rewards_against_the_list(place, block):
    choices, error = place
    for seed in range(block * cases(15), (block + 1) * cases(15)):
        rng = np.random.default_rng([seed, 9])
        world = random_world(rng)
        description, rule = random_formula(rng, world.n_states, world.n_actions, depth=1)
        if rng.random() < 0.5:
            description = rule = None
        reward = rewards_of_any_size(rng, (world.n_states, world.n_actions))
        discount = float(rng.choice([1.0, 0.9, 0.5]))
        truth = exact_distribution(world, description, reward, discount)
        if truth.log_weights:
            d = xm.distribution(world, rule, reward, discount=discount, engine="exact", **choices)
            assert_exact(d, world, truth, reward, error)


TURN = xm.MDP(2, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)], start=0, horizon=6)
LOOPS = [(0, 0, 1, 1.0), (0, 1, 0, 1.0), (1, 0, 2, 1.0), (1, 1, 0, 1.0)]


@pytest.mark.parametrize("reward", [-8.0, 8.0])
def test_a_drift_that_all_messages_share_is_undone_by_a_number(reward):
    """Potentials, one number for each node of the product, are for messages that drift apart."""
    d = xm.distribution(xm.MDP(2, 1, TURN.transitions, start=0, horizon=200), None, np.full((2, 1), reward))
    assert d.log_partition() == pytest.approx(200 * reward, rel=1e-12)
    assert len(d._messages._potentials) == 1


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("end", ["goal", "fixed", "turn"])
def test_steps_at_the_ends_of_a_number_type(place, end, sign):
    """What is less than the least number, or has lost digits, must not come back from there."""
    choices, error = place
    world = {
        "goal": xm.MDP(3, 2, LOOPS, start=0, terminal=[2], horizon=7),
        "fixed": xm.MDP(3, 2, [*LOOPS, (2, 0, 2, 1.0)], start=0, horizon=7),
        "turn": TURN,
    }[end]
    parts = np.linspace(0.88, 1.0, world.n_states * world.n_actions)
    for size in (45.0, 88.0, 104.0, 300.0, 625.8, 665.0, 709.0, 745.0, 1500.0):
        for discount in (1.0, 0.9):
            reward = sign * size * parts.reshape(world.n_states, world.n_actions)
            d = xm.distribution(world, None, reward, discount=discount, engine="exact", **choices)
            assert_exact(d, world, exact_distribution(world, None, reward, discount), reward, error)


def test_one_step_worth_less_than_the_least_double(place):
    world = xm.MDP(1, 1, [(0, 0, 0, 1.0)], start=0, horizon=1)
    d = xm.distribution(world, None, np.array([[-745.0]]), **place[0])
    assert (d.log_partition(), d.visits().item()) == (-745.0, 1.0)


def test_a_world_in_which_nothing_can_move(place):
    world = xm.MDP(2, 1, [], start=[0.5, 0.5], terminal=[0, 1], horizon=3)
    d = xm.distribution(world, None, None, discount=0.9, **place[0])
    assert (d.log_partition(), d.visits().sum(), d.sample(1, seed=0)[0].actions) == (0.0, 0.0, ())


def test_what_is_no_trajectory_of_the_world_does_not_leave(place, monkeypatch):
    """Drawn too short by a broken engine: without a rule, only the world can say so."""
    d = xm.distribution(TURN, None, None, **place[0])
    messages = type(d._messages)
    whole = messages.walk if not place[0] else messages._steps

    def short(self, n, rng):
        starts, steps = whole(self, n, rng)
        return starts, steps[:, :2] if not place[0] else steps[:2]

    monkeypatch.setattr(messages, "walk" if not place[0] else "_steps", short)
    with pytest.raises(xm.XmenError, match="left its world"):
        d.sample(3)
