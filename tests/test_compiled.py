"""Compiled loops where nothing can be kept on disk: a read-only installation and home, or a full disk."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from numba.core.caching import CacheImpl, CompileResultCacheImpl

from xmen.compiled import compiled

NOWHERE = """
from numba.core.caching import CacheImpl
for locator in CacheImpl._locator_classes:  # what a read-only file system does to all of them
    def refuse(self):
        raise OSError(30, "Read-only file system")
    locator.ensure_cache_path = refuse
import xmen as xm
from xmen.product import graph, sweeps
print(xm.visit(xm.at(1)).accepts(xm.Trajectory([0, 1], [0])))
"""


FIT = """
import xmen as xm
grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"), slip=0.1, horizon=5)
rule = xm.count(grid.at((1, 1), (0, 2))) <= 1
demos = xm.distribution(grid, rule, discount=0.9, seed=0).sample(20)
model = xm.XMEN(grid, rule, discount=0.9, l2=0.1).fit(demos)
print(demos[:3], model.weights_.round(9).tolist(), xm.distribution(grid, rule, engine="xor", seed=1).sample(2))
"""


def double(x: int) -> int:
    return 2 * x


@pytest.mark.system
def test_a_read_only_installation_and_home():
    done = subprocess.run([sys.executable, "-c", NOWHERE], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_without_a_place_every_process_compiles_for_itself(monkeypatch):
    for locator in CacheImpl._locator_classes:
        monkeypatch.setattr(locator, "from_function", classmethod(lambda cls, function, file: None))
    assert compiled(double)(21) == 42


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")])
def test_a_disk_that_fills_up(monkeypatch, error, tmp_path):
    def refuse(self: object, data: object) -> object:
        raise error

    monkeypatch.setattr(CompileResultCacheImpl, "reduce", refuse)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiled(double)(21) == 42


@pytest.mark.system
def test_without_the_compiler_answers_are_the_same():
    """As people debug: NUMBA_DISABLE_JIT=1."""
    told = [
        subprocess.run(
            [sys.executable, "-c", FIT], capture_output=True, text=True, env={**os.environ, **more}, check=True
        )
        for more in ({}, {"NUMBA_DISABLE_JIT": "1"})
    ]
    assert told[0].stdout == told[1].stdout != ""
