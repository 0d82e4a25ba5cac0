"""What all tasks share travels to each worker once, and answers are the same wherever they are found."""

from __future__ import annotations

import operator

import joblib
import numpy as np
import pytest

from xmen.processes import Held

pytestmark = pytest.mark.system

LETTERS = {number: chr(97 + number) for number in range(12)}


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
