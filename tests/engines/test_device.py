"""The torch back-end of the exact engine against the compiled loops: the same answers, the same samples.

XMEN_TEST_DEVICE=cuda runs the same tests on a GPU.
"""

from __future__ import annotations

import copy
import math
import os
import pickle

import numpy as np
import pytest
import torch

import xmen as xm
from engines.test_horizon_free import random_network
from engines.test_trips import pairs_of
from engines.truth import assert_alike
from strategies import cases, random_formula, random_world
from xmen.engines.trips import TripEngine
from xmen.machines.tables import CompiledConstraint
from xmen.product.device import workspace as memory
from xmen.product.device.plain import uniforms
from xmen.product.device.run import DeviceMachines
from xmen.worlds.walks import Walks

DEVICE = os.environ.get("XMEN_TEST_DEVICE", "cpu")


def random_pair(seed, **choices):
    """The same random problem on the host and on the device; None where nothing is valid."""
    rng = np.random.default_rng(seed)
    world = random_world(rng)
    _, rule = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 4)))
    reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
    settings = {"discount": 1.0 if rng.random() < 0.5 else 0.9, "given": "start" if rng.random() < 0.3 else None}
    try:
        host = xm.distribution(world, rule, reward, seed=seed, engine="exact", **settings)
    except xm.InfeasibleError:
        return None
    return host, xm.distribution(world, rule, reward, seed=seed, device=DEVICE, **settings, **choices)


def walking(horizon=40, size=1.5, terminal=(), seed=0, **choices):
    """A small world with chance and cycles, on which numbers drift far for large rewards."""
    rows = [(s, a, (s + a + 1) % 7, 0.75) for s in range(7) for a in range(2)]
    rows += [(s, a, (s + 3 * a + 2) % 7, 0.25) for s in range(7) for a in range(2)]
    world = xm.MDP(7, 2, rows, start=[0.6, 0.4, 0, 0, 0, 0, 0], terminal=terminal, horizon=horizon)
    reward = np.random.default_rng(seed).normal(0, size, (7, 2))
    return xm.distribution(world, xm.count(xm.at(2)) >= 2, reward, seed=0, **choices)


@pytest.mark.parametrize("block", range(4))
def test_random_worlds_and_formulas(block):
    feasible = 0
    for seed in range(block * cases(20), (block + 1) * cases(20)):
        pair = random_pair(seed)
        if pair is None:
            continue
        feasible += 1
        host, d = pair
        assert_alike(d, host)
        assert d.sample(30, seed=2) == host.sample(30, seed=2)
        assert [d.sample(7), d.sample(7)] == [host.sample(7), host.sample(7)]  # successive calls go on alike
    assert feasible >= cases(5)


def test_uniform_numbers_are_those_of_numpy():
    """Bit for bit, whatever was drawn before; and the generator goes on as if it had drawn them itself."""
    for seed in range(5):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        for n in (1, 2, 7, 1000, 4097, 0, 3):
            ours.integers(5), theirs.integers(5)  # leaves half a number behind
            assert np.array_equal(uniforms(ours, n, torch.device(DEVICE)).cpu().numpy(), theirs.random(n))
        assert ours.integers(2**31, dtype=np.uint32) == theirs.integers(2**31, dtype=np.uint32)
    ours, theirs = (np.random.Generator(np.random.MT19937(0)) for _ in range(2))
    assert np.array_equal(uniforms(ours, 5, torch.device(DEVICE)).cpu().numpy(), theirs.random(5))


def test_machines_find_what_is_not_valid():
    """Walks without rules, of which some break a rule: on the device, on the host, and by the rule itself."""
    found = set()
    for seed in range(cases(20)):
        rng = np.random.default_rng([seed, 5])
        world = random_world(rng)
        _, rule = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 4)))
        free, compiled = xm.distribution(world, None, None), CompiledConstraint(rule, world)
        taus, machines = free.sample(50, rng), DeviceMachines(compiled, torch.device(DEVICE))
        walks = Walks.of(world, taus)
        edges, going = (
            torch.as_tensor(walks.as_rows(values).T.copy(), device=DEVICE)
            for values in (walks.edges, np.ones(len(walks.edges), dtype=np.bool_))
        )
        ends = torch.as_tensor(walks.last_states.astype(np.int64), device=DEVICE)
        answers = [rule.accepts(tau) for tau in taus]
        assert machines.check(edges, going, ends).tolist() == compiled.check(walks).tolist() == answers
        found |= set(answers)
    assert found == {True, False}


def test_a_walk_that_is_not_valid_does_not_leave(monkeypatch):
    d = walking(device=DEVICE)
    monkeypatch.setattr(DeviceMachines, "check", lambda self, edges, going, ends: np.arange(len(ends)) > 0)
    with pytest.raises(xm.XmenError, match="broke its constraint"):
        d.sample(5)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("rule", [None, xm.count(xm.at(2)) <= 1])
def test_all_goals_of_a_network_side_by_side(discount, rule):
    rng = np.random.default_rng(36)
    network = random_network(rng)
    network = xm.Network(network.n_states, network.n_actions, network.transitions, horizon=9)
    starts, goals, weights = pairs_of(rng, network)
    host, ours = (
        TripEngine(network, rule, starts, goals, weights, 10**5, discount, device) for device in (None, DEVICE)
    )
    for chosen in (None, rng.random(host.n_pairs)):
        reward = rng.normal(size=(network.n_states, network.n_actions))[network.source, network.action]
        found, wanted = (engine.value(reward, chosen) for engine in (ours, host))
        np.testing.assert_allclose(found.log_z, wanted.log_z, atol=1e-10)
        np.testing.assert_allclose(found.visits, wanted.visits, atol=1e-10)


@pytest.mark.parametrize("discount", [1.0, 0.97])
@pytest.mark.parametrize(("horizon", "size"), [(40, 1.5), (300, 1.5), (300, 40.0)])
@pytest.mark.parametrize("terminal", [(), (5,)])
def test_long_horizons_and_large_rewards(horizon, size, discount, terminal):
    """Messages that leave the range of a double are brought back in the same places."""
    choices = {"horizon": horizon, "size": size, "discount": discount, "terminal": terminal}
    host, d = walking(**choices), walking(**choices, device=DEVICE)
    assert_alike(d, host)
    assert d.sample(50, seed=3) == host.sample(50, seed=3)


def test_zero_stays_zero():
    d = walking(horizon=6, device=DEVICE)
    assert d.log_prob(xm.Trajectory([0, 1, 3, 4, 5, 6, 0], [0, 1, 0, 0, 0, 0])) == -math.inf
    assert d.log_completions(5, np.arange(3, dtype=np.uint32)).min() == -math.inf


@pytest.mark.parametrize("place", ["on the device", "on the host"])
@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_layers_made_again_change_nothing(monkeypatch, place, discount):
    host = walking(horizon=300, size=40.0, discount=discount)
    whole = walking(horizon=300, size=40.0, discount=discount, device=DEVICE)
    assert "all 301 layers" in repr(whole)
    whole.log_partition()
    graph = whole.place.graph
    item, stride = 8, 17
    flows = 1 if discount == 1.0 else 2
    fixed = graph.n_edges * item * (2 + flows) + graph.n_nodes * 7 * item + memory.in_log_space(graph, 1, item)
    room = fixed + item * (stride + 1) * graph.n_nodes
    room += item * sum(graph.layer_ends[::stride]) if place == "on the device" else 0
    monkeypatch.setattr(memory, "free_bytes", lambda device: int(room / memory.HEADROOM) + 8)
    d = walking(horizon=300, size=40.0, discount=discount, device=DEVICE)
    assert_alike(d, host)
    assert d.sample(50, seed=3) == host.sample(50, seed=3)
    assert ("every 17th of 301 layers" in repr(d), "in host memory" in repr(d)) == (True, place == "on the host")
    nodes = np.arange(3, dtype=np.uint32)
    for t in (290, 20, 21, 22, 290):
        np.testing.assert_allclose(d.log_completions(t, nodes), host.log_completions(t, nodes), rtol=1e-12)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 100)
    with pytest.raises(xm.EngineError, match=r"GB .* free"):
        walking(device=DEVICE).log_partition()


@pytest.mark.parametrize(
    ("horizon", "discount", "n_rewards"),
    # One batch of 18 is full, one is not; of 301 layers, more lie between two that are brought back than are looked at.
    [(30, 1.0, 18), (30, 0.9, 18), (300, 1.0, 3)],
)
def test_batches_are_what_each_is_alone(horizon, discount, n_rewards):
    host, d = (walking(horizon, discount=discount, device=device) for device in (None, DEVICE))
    rewards = [np.random.default_rng(k).normal(0, 1.5 * k, (7, 2)) for k in range(n_rewards)]
    for one, other in zip(d.with_rewards(rewards), host.with_rewards(rewards), strict=True):
        assert_alike(one, other)
        assert one.sample(5, seed=4) == other.sample(5, seed=4)
    assert d.with_rewards([]) == host.with_rewards([]) == []


def test_one_after_the_other_and_both_at_once():
    """A reward that is gone leaves its memory to the next; two that are alive have their own."""
    host, d = walking(), walking(device=DEVICE)
    rewards = [np.random.default_rng(k).normal(0, 1, (7, 2)) for k in range(3)]
    first, second = d.with_reward(rewards[0]), d.with_reward(rewards[1])
    first.log_partition(), second.log_partition()
    np.testing.assert_allclose(first.visits(), host.with_reward(rewards[0]).visits(), atol=1e-12)
    np.testing.assert_allclose(second.visits(), host.with_reward(rewards[1]).visits(), atol=1e-12)
    del first, second
    for reward in rewards:
        np.testing.assert_allclose(d.with_reward(reward).visits(), host.with_reward(reward).visits(), atol=1e-12)


def test_single_precision_is_as_exact_as_it_says():
    for seed in range(cases(15)):
        pair = random_pair(seed, precision="float32")
        if pair is None:
            continue
        host, d = pair
        edges = d.edge_visits()
        error = d.place.error
        assert abs(d.log_partition() - host.log_partition()) <= error.log_partition + 1e-9
        assert np.abs(edges - host.edge_visits()).max(initial=0.0) <= error.visits + 1e-9
        assert max(error) < 1e-3
        assert f"visits by at most {error.visits:.1e}" in repr(d)
        assert all(host.log_prob(tau) > -math.inf for tau in d.sample(20, seed=0))
    for size in (1.5, 10.0):
        host, d = walking(horizon=60, size=size), walking(horizon=60, size=size, device=DEVICE, precision="float32")
        assert d.log_partition() == pytest.approx(host.log_partition(), abs=d.place.error.log_partition + 1e-9)
        assert d.place.error.log_partition < 1e-6 * (1 + abs(host.log_partition()))


def test_copies_answer_alike():
    d = walking(device=DEVICE)
    d.log_partition()
    for again in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert again.log_partition() == d.log_partition()
        assert again.sample(5, seed=0) == d.sample(5, seed=0)


def test_without_a_horizon_the_host_answers():
    network = xm.Network(4, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (1, 1, 0, 1.0), (2, 0, 3, 1.0), (2, 1, 1, 1.0)])
    reward = np.full((4, 2), -1.5)
    d, host = (xm.distribution(network.task(0, 3), None, reward, device=where) for where in (DEVICE, None))
    assert d.log_partition() == host.log_partition()
    assert d.place is None


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"device": "gpu"}, "'gpu'.*'auto', 'cpu', 'cuda'"),
        ({"device": DEVICE, "precision": "half"}, "'half'"),
        ({"precision": "float32"}, "device="),
        ({"device": DEVICE, "engine": "xor"}, "engine='xor'"),
    ],
)
def test_mistakes_are_explained(choices, words):
    with pytest.raises(xm.EngineError, match=words):
        walking(**choices)


def test_auto_answers_as_the_host_does():
    assert walking(device="auto").log_partition() == pytest.approx(walking().log_partition(), abs=1e-9)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so():
    with pytest.raises(xm.EngineError, match="device='cuda'"):
        walking(device="cuda")
    assert walking(device="auto").place is None
