"""Independent jobs: the same results wherever they run, and nothing lost when workers time out or die."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

import joblib
import numpy as np
import pytest

from sampling.exact_hash import BatchedRows, LinearWeight
from sampling.jobs_by_hand import Die, Draw, ImpatientRows, Process, SlowAtFirst, Thread
from xmen.errors import XmenError
from xmen.sampling import (
    CellPlan,
    Space,
    UnfinishedError,
    bound_partition,
    estimate,
    run_jobs,
    sample_cells,
    spawn,
)


def seeds(n: int, seed: int = 0) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(n)


def first_numbers(n: int) -> list[float]:
    return [float(np.random.default_rng(seed).random()) for seed in seeds(n)]


def linear_space(n_rows: int = 400, n_bits: int = 20) -> Space:
    rng = np.random.default_rng(7)
    bits = np.unique(rng.random((n_rows, n_bits)) < 0.5, axis=0)
    weight = LinearWeight(rng.normal(size=n_bits) * 0.2)
    return Space(BatchedRows(bits), weight, float(weight(bits).max()))


def as_floats(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float64)


def everything() -> tuple[object, ...]:
    """What a user would compute: an estimate, a bound, a plan, samples."""
    space, rng = linear_space(), np.random.default_rng(3)
    learned = estimate(space, 3, 20, rng, as_floats)
    bound = bound_partition(space, 3, 0.01, rng)
    rows, info = sample_cells(space, CellPlan.solve(1.2, bound, cell_size=8.0), 40, rng)
    return learned.log_partition, learned.expectation.tolist(), bound, rows.tolist(), info


def test_results_come_in_order_and_from_their_own_seeds() -> None:
    expected = [np.random.default_rng(seed).random(3).tolist() for seed in seeds(70)]
    assert run_jobs(Draw(), seeds(70)) == expected


def test_spawned_seeds_differ_from_call_to_call() -> None:
    rng = np.random.default_rng(0)
    states = [tuple(seed.generate_state(4)) for seed in spawn(rng, 3) + spawn(rng, 3)]
    assert len(set(states)) == 6


@pytest.mark.system
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_a_users_parallel_config_is_followed(backend: str) -> None:
    alone = everything()
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert (os.getpid() in run_jobs(Process(), seeds(4))) == (backend == "threading")
        assert everything() == alone


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.system
def test_a_dask_cluster_agrees() -> None:
    distributed = pytest.importorskip("distributed")
    alone = everything()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert os.getpid() not in run_jobs(Process(), seeds(4))
        assert everything() == alone


@pytest.mark.system
def test_a_killed_worker_costs_only_its_own_tasks(tmp_path: Path) -> None:
    numbers = first_numbers(12)
    job = Die(tmp_path, numbers[9], once=True)
    with joblib.parallel_config(n_jobs=2):
        results = run_jobs(job, seeds(12))
    assert results == numbers
    assert job.marker.exists()
    # What was finished did not run again, except results that were on their way when the pool broke.
    runs = [(tmp_path / f"ran-{value}").stat().st_size for value in numbers]
    assert runs[9] == 1
    assert sum(runs) <= 12 + 4


@pytest.mark.system
def test_a_deadly_task_ends_in_an_error_that_keeps_what_was_finished(tmp_path: Path) -> None:
    numbers = first_numbers(6)
    expected = pytest.raises(UnfinishedError, match=r"of 6 .*\. \d were lost")
    with joblib.parallel_config(n_jobs=2), expected as caught:
        run_jobs(Die(tmp_path, numbers[2]), seeds(6))
    assert 2 not in caught.value.finished
    assert caught.value.finished.items() <= dict(enumerate(numbers)).items()
    assert isinstance(caught.value, XmenError)


def test_time_outs_are_tried_again_on_the_same_seed() -> None:
    numbers = first_numbers(40)
    results = run_jobs(SlowAtFirst(2), seeds(40))
    assert results == [(value, 2 if value < 0.3 else 0) for value in numbers]


def test_running_out_of_patience_keeps_what_was_learned() -> None:
    numbers = first_numbers(40)
    late = [i for i, value in enumerate(numbers) if value < 0.3]
    with pytest.raises(UnfinishedError, match=f"{len(late)} met .* 4 times") as caught:
        run_jobs(SlowAtFirst(99), seeds(40))
    assert sorted(set(range(40)) - set(caught.value.finished)) == late
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.finished, again.n_asked) == (str(caught.value), caught.value.finished, 40)


def test_hard_cells_are_not_dropped() -> None:
    """Cells with many rows time out. The estimate is that of a patient oracle, not one without its largest cells."""
    space = linear_space()
    patient = estimate(space, 3, 30, np.random.default_rng(1))
    bits = space.oracle.bits  # type: ignore[attr-defined]
    hard = Space(ImpatientRows(bits, time_limit=1.0, rows_per_second=45.0), space.log_weight, space.log_max)
    learned = estimate(hard, 3, 30, np.random.default_rng(1))
    assert learned.log_partition == patient.log_partition
    assert learned.info.n_points == patient.info.n_points
    assert hard.oracle.time_limit == 1.0


def test_an_estimate_without_its_hard_cells_says_so() -> None:
    bits = linear_space().oracle.bits  # type: ignore[attr-defined]
    space = Space(ImpatientRows(bits, time_limit=1.0, rows_per_second=6.0))
    with pytest.raises(UnfinishedError, match=r"log Z = \d\.\d+ .*biased"):
        estimate(space, 3, 30, np.random.default_rng(1))


def test_other_errors_are_raised_as_they_are() -> None:
    def broken(rng: np.random.Generator, attempt: int) -> None:
        raise ZeroDivisionError("not ours")

    with pytest.raises(ZeroDivisionError, match="not ours"):
        run_jobs(broken, seeds(3))


def test_jobs_that_wait_run_in_threads_unless_somebody_asks_for_something(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    waiting = [run_jobs(Thread(2), seeds(12), waiting=True), run_jobs(Thread(), seeds(12))]
    assert len(set(waiting[0])) > 1
    assert set(waiting[1]) == {threading.get_ident()}
    with joblib.parallel_config(n_jobs=1):
        assert set(run_jobs(Thread(), seeds(12), waiting=True)) == {threading.get_ident()}
    assert run_jobs(Draw(), seeds(20), waiting=True) == run_jobs(Draw(), seeds(20))
