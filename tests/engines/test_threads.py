"""One distribution asked by many threads: every engine gives each of them the answer it gives to one alone."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xmen as xm
from xmen.product import layered as host_layers

N_THREADS = 4


@pytest.fixture(autouse=True)
def restless():
    """Threads take turns a thousand times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def open_grid(horizon=12, discounted=True):
    """A grid with cycles: every number of actions has messages of its own."""
    moves = ("up", "right", "down", "left") if discounted else ("up", "right", "up-right")
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=moves, horizon=horizon)
    rules = xm.visit(grid.at((1, 2))).named("a cell") & (xm.count(grid.at((2, 1), (2, 2))) <= 2).named("seldom")
    features = np.random.default_rng(0).normal(0, 1.5, (grid.n_states, grid.n_actions, 2))
    return grid, rules & (xm.longest_repeat() <= 3), xm.LinearReward(features, [0.8, -0.6])


def make(kind):
    if kind == "any length":
        grid = open_grid()[0]
        rows = [(s, a, t, 1.0) for s, a, t in zip(grid.source, grid.action, grid.target, strict=True)]
        network = xm.Network(grid.n_states, grid.n_actions, rows)
        reward = xm.LinearReward(np.ones((grid.n_states, grid.n_actions, 1)), [-2.0])
        return xm.distribution(network.task(0, 15), xm.visit(grid.at((1, 2))), reward, seed=0)
    grid, rules, reward = open_grid(discounted=kind != "single pass")
    choices = {
        "layered": {"discount": 0.9},
        "layered, no discount": {},
        "layers made again": {"discount": 0.9},
        "single pass": {},
        "reject": {"discount": 0.9, "engine": "reject", "max_nodes": 200},
        "listed": {"discount": 0.9, "engine": "xor", "oracle": "listed"},
        "cryptominisat": {"engine": "xor", "oracle": "cryptominisat"},
        "cadical": {"engine": "xor", "oracle": "cadical"},
    }[kind]
    if kind in ("cryptominisat", "cadical"):
        grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right", "up-right"))
        rules, reward = xm.never(grid.at((1, 1))), xm.LinearReward(np.ones((9, 3, 1)), [0.1])
        choices |= {"delta": 1.5, "failure": 0.1}
    return xm.distribution(grid, rules, reward, seed=0, **choices)


KINDS = ["layered", "layered, no discount", "layers made again", "single pass", "any length", "reject", "listed"]
KINDS += [pytest.param(name, marks=pytest.mark.system) for name in ("cryptominisat", "cadical")]


def at_once(ask, n_threads=N_THREADS):
    """The answers of threads that begin together, each asked with its number."""
    together = threading.Barrier(n_threads)

    def begin(thread):
        together.wait()
        return ask(thread)

    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(begin, range(n_threads)))


def refused(question):
    def ask(d):
        try:
            return question(d)
        except xm.EngineError as error:
            return str(error)

    return ask


def questions(kind):
    """Everything that can be asked, each with an answer that one seed settles."""
    other = np.full(make(kind).visits().shape, 0.3)
    probe = make(kind).sample(1, seed=9)[0]
    n = {"cryptominisat": 1, "cadical": 3, "listed": 20, "reject": 20}.get(kind, 100)
    return [
        lambda d: d.log_partition(return_std=True),
        lambda d: [a.tolist() for a in d.visits(return_std=True)],
        lambda d: d.state_visits().tolist(),
        lambda d: d.entropy(),
        refused(lambda d: d.mode()),
        lambda d: d.log_prob(probe),
        lambda d: d.expected_features().tolist(),
        lambda d: d.sample(n, seed=1),
        lambda d: d.sample(n, seed=2),
        lambda d: repr(d),
        refused(lambda d: d.with_reward(other).mode()),
        refused(lambda d: d.sample_paws(2, seed=3)[0] if kind == "listed" else None),
        refused(lambda d: [d.log_completions(t, d.product.starts).tolist() for t in range(9)] if "lay" in kind else 0),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_get_the_answers_of_one_alone(kind, monkeypatch):
    if kind == "layers made again":
        monkeypatch.setattr(host_layers, "MESSAGE_BYTES", 0)
    asked = questions(kind)
    alone = [question(make(kind)) for question in asked]
    slow = kind in ("cryptominisat", "cadical", "listed", "reject")
    n_threads, rounds = (2, 1) if slow else (N_THREADS, 2)
    shared = make(kind)

    def ask(thread):
        order = np.random.default_rng(thread).permutation(np.repeat(np.arange(len(asked)), rounds))
        return [(i, asked[i](shared)) for i in order.tolist()]

    for answers in at_once(ask, n_threads):
        for i, answer in answers:
            assert answer == alone[i], f"question {i} of {kind}"


@pytest.mark.parametrize("kind", ["layered", "layered, no discount", "single pass", "any length", "reject", "listed"])
def test_without_a_seed_threads_get_different_valid_samples(kind):
    """Each thread's samples are its own: no two threads have the same stream.

    Two equal batches of 100 from thousands of trajectories have a probability far below 1e-100. The mean score is
    within five standard errors, which finds a shift of a fifth of the standard deviation with 800 samples.
    """
    d = make(kind)
    batches = at_once(lambda thread: d.sample(100))
    assert all(d.constraint.accepts(tau) for batch in batches for tau in batch)
    assert len({tuple(batch) for batch in batches}) == N_THREADS
    exact = xm.distribution(d.world, d.constraint, d.reward, discount=d.discount)
    scores = np.array([exact.score(tau) for batch in batches for tau in batch])
    expected = exact.log_partition() - exact.entropy()
    assert abs(scores.mean() - expected) < 5 * scores.std() / np.sqrt(len(scores))


def test_what_was_spent_adds_up():
    d = make("listed")
    d.sample(1, seed=0)
    before = d.info
    alone = make("listed")
    alone.sample(1, seed=0)
    for seed in range(N_THREADS):
        alone.sample(20, seed=seed)
    at_once(lambda thread: d.sample(20, seed=thread))
    assert d.info == alone.info != before


def test_models_share_one_distribution():
    grid, rules, reward = open_grid()
    demos = xm.distribution(grid, rules, reward, seed=1).sample(30)
    model = xm.XMEN(grid, rules, features=reward.features, discount=0.9, seed=0, max_iter=3, tol=1.0).fit(demos)
    vars(model).pop("_answering", None)
    batches = at_once(lambda thread: model.sample(20))
    assert len({tuple(batch) for batch in batches}) == N_THREADS


def test_garbage_collection_stops_while_trajectories_are_made_and_goes_on_afterwards(monkeypatch):
    d, seen, made = make("single pass"), set(), xm.Trajectory._trusted
    monkeypatch.setattr(xm.Trajectory, "_trusted", lambda *given: seen.add(gc.isenabled()) or made(*given))
    with ThreadPoolExecutor(N_THREADS) as pool:
        list(pool.map(lambda seed: d.sample(30, seed=seed), range(20)))
    assert (seen, gc.isenabled()) == ({False}, True)


@pytest.mark.parametrize("kind", ["layered", "single pass", "reject", "listed"])
def test_distributions_can_be_copied_and_pickled(kind):
    d = make(kind)
    answer = d.log_partition(), d.sample(20, seed=1)
    for twin in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert (twin.log_partition(), twin.sample(20, seed=1)) == answer
