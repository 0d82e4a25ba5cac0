"""The page is part of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmen.studio.app import PAGE

ROOT = Path(__file__).parents[2]


def test_every_file_of_the_page_is_in_the_wheel():
    wheel = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in wheel.recurse_included_files()}
    page = {f"xmen/studio/page/{file.relative_to(PAGE).as_posix()}" for file in PAGE.rglob("*") if file.is_file()}
    assert "xmen/studio/page/index.html" in page
    assert page <= packed
