"""Answers are the same in other processes and on clusters, and what all tasks share travels to each worker once."""

from __future__ import annotations

import gc
import operator
import os
from contextlib import ExitStack, contextmanager

import joblib
import numpy as np
import pytest

import xmen as xm
from xmen.engines.trips import TripEngine
from xmen.processes import Held
from xmen.sampling import run_jobs

pytestmark = pytest.mark.system

LETTERS = {number: chr(97 + number) for number in range(12)}


def town(size=6):
    """Two-way streets of a square grid, links as states."""
    import networkx

    graph = networkx.grid_2d_graph(size, size)
    for x, y in graph:
        graph.nodes[x, y].update(x=x, y=y)
    for (x, y), (u, v) in graph.edges:
        graph.edges[(x, y), (u, v)]["length"] = 1.0 + 0.3 * ((x + 2 * y + u + v) % 3)
    return xm.Network.from_networkx(graph)


def trips(network):
    reward = (network.select("length", "left") @ [-1.6, -0.4]).reshape(network.n_states, network.n_actions)
    rng, found = np.random.default_rng(0), []
    for goal in range(network.n_states):
        start = int(rng.integers(network.n_states - 1))
        found += xm.distribution(network.task(start + (start >= goal), goal), None, reward, seed=rng).sample(1)
    return found


def everything():
    """What a user would compute: a fit over more than one batch of goals, a fit by cells, samples by hashing."""
    network = town()
    roads = xm.XMEN(network, features=network.select("length", "left"), max_iter=8, tol=1e-2).fit(trips(network))
    grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right", "up-right"))
    rule, features = xm.visit(grid.at((1, 2))) | xm.visit(grid.at((3, 2))), np.zeros((25, 3, 1))
    features[:, 2, 0] = 1.0
    demos = xm.distribution(grid, rule, features @ [0.5], seed=1).sample(40)
    cells = xm.XMEN(grid, rule, features=features, method=xm.Cells(cell_size=8.0), seed=2, tol=0.05).fit(demos)
    samples = xm.distribution(grid, rule, None, engine="xor", seed=3).sample(10)
    return roads.weights_.tolist(), cells.weights_.tolist(), samples


class Process:
    """The process that a job ran in."""

    def __call__(self, rng, attempt):
        return os.getpid()


@contextmanager
def dask():
    distributed = pytest.importorskip("distributed", reason="the Dask cluster needs the extra dask")
    with ExitStack() as stack:
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        stack.enter_context(cluster)
        stack.enter_context(distributed.Client(cluster))
        stack.enter_context(joblib.parallel_config("dask"))
        yield


@contextmanager
def ray():
    module = pytest.importorskip("ray", reason="the Ray cluster needs the extra ray")
    from joblib.pool import PicklingPool
    from ray.util.joblib import register_ray

    bases = PicklingPool.__bases__
    module.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            yield
    finally:
        module.shutdown()
        # Ray makes joblib's own pools its own, for the rest of the process; those that there are have to be gone first.
        gc.collect()
        PicklingPool.__bases__ = bases


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("cluster", [dask, ray])
def test_a_cluster_agrees_with_one_process(cluster, monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    alone = everything()
    network = town()
    ends = np.arange(network.n_states)
    engine = TripEngine(network, None, (ends + 7) % len(ends), ends, np.ones(len(ends)), 10_000)
    reward = np.full(len(network.source), -1.6)
    expected = engine.value(reward)
    with cluster():
        assert os.getpid() not in run_jobs(Process(), np.random.SeedSequence(0).spawn(4))
        assert everything() == alone
        found = [engine.value(reward + 0.0) for _ in range(8)]
    for one in found:
        np.testing.assert_array_equal(one.visits, expected.visits)
        np.testing.assert_array_equal(one.log_z, expected.log_z)
    assert 2 <= engine.shared.held.n_sent <= 8  # the network to two workers, and not with each of 16 tasks


# --- what tasks share ---


def test_alone_nothing_travels():
    held = Held(LETTERS)
    assert list(held.map(operator.getitem, range(12))) == list(LETTERS.values())
    assert (held.n_sent, held.n_bytes) == (0, 0)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_answers_come_in_the_order_of_tasks(backend):
    held = Held(LETTERS)
    with joblib.parallel_config(backend, n_jobs=2):
        for _ in range(2):
            assert list(held.map(operator.getitem, [5, 3, 3, 0, 11])) == ["f", "d", "d", "a", "l"]
    assert held.n_sent == 0 if backend == "threading" else held.n_sent > 0


def test_a_value_travels_once_to_a_worker_however_many_tasks_there_are():
    held = Held({"weights": np.arange(50_000.0), **LETTERS})
    with joblib.parallel_config("loky", n_jobs=2):
        for _ in range(4):
            assert list(held.map(operator.getitem, [0] * 20)) == ["a"] * 20
    assert 2 <= held.n_sent <= 10  # of 80 tasks; one worker may be quick enough to take what was meant for both
    assert held.n_bytes > 400_000


def test_workers_that_have_forgotten_get_it_again():
    held, others = Held(LETTERS), [Held({0: number}) for number in range(8)]
    with joblib.parallel_config("loky", n_jobs=2):
        assert list(held.map(operator.getitem, range(4))) == list("abcd")
        before = held.n_sent
        for number, other in enumerate(others):
            assert list(other.map(operator.getitem, [0] * 4)) == [number] * 4
        assert list(held.map(operator.getitem, range(6))) == list("abcdef")
    assert held.n_sent > before
