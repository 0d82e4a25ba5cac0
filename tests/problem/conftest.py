"""The three problem files, written into a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from problem.files import GRID, REWARD, TABLE, WALK


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    file = tmp_path / "grid.toml"
    file.write_text(GRID)
    return file


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    (tmp_path / "walk.csv").write_text(WALK)
    (tmp_path / "reward.csv").write_text(REWARD)
    file = tmp_path / "table.toml"
    file.write_text(TABLE)
    return file


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    networkx = pytest.importorskip("networkx")
    roads = networkx.DiGraph()
    roads.add_edge("home", "park", length=2.0, street="Elm")
    roads.add_edge("home", "shop", length=1.0, street="Oak")
    roads.add_edge("park", "work", length=1.0, street="Ash")
    roads.add_edge("shop", "work", length=4.0, street="Fir")
    networkx.write_graphml(roads, tmp_path / "roads.graphml")
    file = tmp_path / "roads.toml"
    file.write_text(
        'format = 1\n[world]\nkind = "graphml"\nfile = "roads.graphml"\nsource = "home"\ntarget = "work"\n'
        '[events]\nshop = { nodes = ["shop"] }\n[[constraints]]\nname = "buy milk"\nrule = "visit(shop)"\n'
        '[reward]\nfeatures = ["length"]\nweights = [-1.0]\n'
    )
    return file
