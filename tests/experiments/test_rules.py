"""The experiment on rules: constraint inference agrees, the paper's rules are found, and trips are read."""

from __future__ import annotations

import pytest

import xmen as xm
from experiments.test_roads import write_city
from xmen.experiments import rules
from xmen.experiments.notebook import Notebook
from xmen.experiments.roads import read_city
from xmen.experiments.rules import find_folder


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


def test_trips_are_described(tmp_path):
    folder = write_city(tmp_path / "taxis", 6, [(0, 1, 2), (1, 3, 5)])
    city = read_city(find_folder(tmp_path, "transit.npy"))
    events, features = rules.describe(city)
    assert city.trips("train_CV0_size10000", 1) == [xm.Trajectory([0, 1, 2], [0, 0])]
    assert (str(events["primary"]), sorted(events)) == ("at(0, 3)", ["primary", "secondary", "turn", "u_turn"])
    assert features[2, 4].tolist() == [0.102, 1.0, 1.0, 1.0]
    assert features[2, 0].tolist() == [0.102, 0.0, 0.0, 1.0]
    assert find_folder(folder, "transit.npy") == folder
    edges = (folder / "edge.txt").read_text().splitlines()
    (folder / "edge.txt").write_text("\n".join(edges[:-1]))
    with pytest.raises(xm.FileFormatError, match="5 links"):
        read_city(folder)
