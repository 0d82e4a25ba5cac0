"""The experiment on rules: constraint inference agrees, the paper's rules are found, and trips are read."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from xmen.experiments import rules
from xmen.experiments.notebook import Notebook
from xmen.experiments.rules import find_folder, read_taxis


def test_constraint_inference_is_the_same_search_over_never(tmp_path):
    book = Notebook("rules", tmp_path, quick=True)
    rules.constraint_inference(book)
    (table,) = book.record.tables
    assert len(table.rows) == rules.MARKOV_RULES
    for _, theirs, their_gain, ours, gain in table.rows:
        cell = tuple(int(k) for k in theirs.split("(")[1].rstrip(")").split(","))
        assert ours == f"never(state {rules.MEMORY.world.state(cell):02})"
        assert gain == pytest.approx(their_gain, abs=1e-9)


@pytest.mark.system
def test_all_four_rules_are_found_from_thirty_demonstrations(tmp_path, monkeypatch):
    book = Notebook("rules", tmp_path, quick=True)
    monkeypatch.setattr(book, "pick", lambda quick, full: (30,))
    monkeypatch.setattr(rules, "MARKOV", rules.MEMORY)
    rules.paper_maps(book)
    rows = [row for row in book.record.tables[0].rows if row[1] == "none"]
    assert all(row[4] == pytest.approx(0.0, abs=1e-9) and row[5] == pytest.approx(0.0, abs=1e-9) for row in rows)


def test_trips_are_read(tmp_path):
    folder = tmp_path / "taxis"
    folder.mkdir()
    np.save(folder / "transit.npy", [(0, 0, 1), (1, 2, 2), (2, 4, 1), (1, 0, 0)])
    header = "u,v,highway,length,n_id"
    lines = ["0,1,primary,500,0", "1,2,secondary,250,1", "2,1,primary,100,2"]
    (folder / "edge.txt").write_text("\n".join([header, *lines]))
    (folder / "path.csv").write_text("ori,des,path,len\n0,2,0_1_2,3\n2,0,2_1_0,3\n")
    taxis = read_taxis(find_folder(tmp_path, "transit.npy"), 1)
    assert taxis.trips == [xm.Trajectory([0, 1, 2], [0, 2])]
    assert taxis.network.problem(taxis.trips[0]) is None
    assert str(taxis.events["primary"]) == "at(0, 2)"
    assert taxis.features[2, 4].tolist() == [0.1, 1.0, 1.0, 1.0]
    assert find_folder(folder, "transit.npy") == folder
    (folder / "edge.txt").write_text("\n".join([header, *lines[:2]]))
    with pytest.raises(xm.FileFormatError, match="2 links"):
        read_taxis(folder, 1)
