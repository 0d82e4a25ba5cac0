"""Compiled loops where nothing can be kept on disk: a read-only installation and home, or a full disk."""

from __future__ import annotations

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
