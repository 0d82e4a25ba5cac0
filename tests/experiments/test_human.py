"""The obstacle experiment: drawings on a grid, held-out scores, errors that name the file, and the whole run."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from xmen.experiments import human, reproduce
from xmen.experiments.methods import ALL, XMEN, Effort
from xmen.experiments.notebook import Notebook

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "human_obstacle"


def write_drawings(folder, n=6):
    """Arcs around the disc, to the left and to the right in turn, each a little wider than the last."""
    folder.mkdir(parents=True, exist_ok=True)
    y = np.linspace(0.02, 0.98, 15)
    for index in range(n):
        side = 1 if index % 2 else -1
        x = 0.5 + side * (0.22 + 0.02 * index) * np.sin(np.pi * y)
        lines = [f"{a:.6f},{b:.6f}" for a, b in zip(x, y, strict=True)]
        (folder / f"t{index + 1}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


# --- from points to cells ---------------------------------------------------------------------------------------


def test_cells_are_neighbours_from_start_to_goal():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.choice([5, 9, 13]))
        y = np.sort(rng.uniform(0.05, 0.95, 8))
        cells = human.path_cells(np.column_stack([rng.uniform(0, 1, 8), y]), n)
        assert cells[0] == (n // 2, 0)
        assert cells[-1] == (n // 2, n - 1)
        steps = np.abs(np.diff(cells, axis=0)).max(axis=1)
        assert (steps == 1).all()


def test_every_cell_of_a_path_is_touched_by_it():
    points = np.array([(0.2, 0.3), (0.25, 0.6), (0.6, 0.9)])
    whole = np.vstack([(0.5, 0.0), points, (0.5, 1.0)])
    along = np.concatenate([np.linspace(a, b, 2000) for a, b in pairwise(whole)])
    touched = {(int(x), int(y)) for x, y in np.clip(np.floor(along * 9), 0, 8)}
    assert set(human.path_cells(points, 9)) <= touched


@pytest.mark.parametrize(
    ("points", "cells"),
    [
        # Through the corners' neighbourhood: clipped cells give way to diagonal moves.
        ([(0.5, 0.1), (0.9, 0.51), (0.5, 0.9)], [(2, 0), (3, 1), (4, 2), (3, 3), (2, 4)]),
        # A whole cell along one side and then up is no diagonal.
        ([(0.5, 0.1), (0.7, 0.1), (0.7, 0.3)], [(2, 0), (3, 0), (3, 1), (3, 2), (2, 3), (2, 4)]),
        # A short step over the border and back is no move.
        ([(0.5, 0.1), (0.5, 0.25), (0.605, 0.3), (0.5, 0.35), (0.5, 0.9)], [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]),
    ],
)
def test_diagonals_corners_and_short_steps(points, cells):
    assert human.path_cells(np.array(points), 5) == cells


def test_paths_that_turn_back_are_refused_by_name(tmp_path):
    folder = write_drawings(tmp_path)
    (folder / "t2.txt").write_text("0.5,0.02\n0.7,0.8\n0.8,0.3\n0.5,0.98\n", "utf-8")
    drawings = human.read_drawings(folder)
    grid = xm.GridWorld(13, 13, start=(6, 0), goal=(6, 12), moves=tuple(human.DRAWN_MOVES), horizon=26)
    with pytest.raises(xm.FileFormatError, match=r"t2\.txt: .*turning back"):
        human.as_trajectory(grid, "t2", drawings["t2"])


# --- files ------------------------------------------------------------------------------------------------------


def test_files_are_read_in_their_natural_order(tmp_path):
    names = list(human.read_drawings(write_drawings(tmp_path, n=11)))
    assert names == [f"t{i}" for i in range(1, 12)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5,0\nhello\n", r"t3\.txt, line 2: .*'hello'"),
        ("0.5,0\n\n0.5\n", r"t3\.txt, line 3: "),
        ("0.5,0\n0.5,1,2\n", r"t3\.txt, line 2: expected"),
        ("0.5,0\n0.5,nan\n", r"t3\.txt, line 2: .*nan"),
        ("0.5,0\n1.2,0.5\n", r"t3\.txt, line 2: .*\(1\.2, 0\.5\)"),
        ("0.5,0\n", r"t3\.txt: .*at least 2 .*got 1"),
        ("", r"t3\.txt: .*at least 2 .*got 0"),
        ("0.1,0.6\n0.5,1\n", r"t3\.txt: the path must start .*0\.2 .*\(0\.5, 0\.0\)"),
        ("0.5,0\n0.9,0.9\n", r"t3\.txt: the path must end"),
    ],
)
def test_malformed_files_are_named_with_their_line(tmp_path, text, message):
    folder = write_drawings(tmp_path)
    (folder / "t3.txt").write_text(text, "utf-8")
    with pytest.raises(xm.FileFormatError, match=message):
        human.read_drawings(folder)


def test_folders_without_paths_are_refused(tmp_path):
    with pytest.raises(xm.FileFormatError, match="nowhere"):
        human.read_drawings(tmp_path / "nowhere")
    with pytest.raises(xm.FileFormatError, match=r"2 files .*at least 3"):
        human.read_drawings(write_drawings(tmp_path, n=2))
    (tmp_path / "t1.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "t9.txt").write_text("0.5,0\n0.5,1\n", "utf-8")
    with pytest.raises(xm.FileFormatError, match=r"t1\.txt"):
        human.read_drawings(tmp_path)


def test_a_path_through_the_obstacle_is_named_with_the_rule(tmp_path):
    folder = write_drawings(tmp_path)
    (folder / "t4.txt").write_text("0.5,0.02\n0.5,0.98\n", "utf-8")
    with pytest.raises(xm.InvalidDemonstrationError, match=r"t4\.txt .*never on the obstacle") as caught:
        human.drawn_task(folder)
    assert caught.value.index == 3


# --- tasks and methods ------------------------------------------------------------------------------------------


def test_demonstrations_are_shortest_valid_ways():
    task = human.choke_task(seed=3)
    assert len(task.demos) == 10
    for tau in task.demos:
        cells = [task.world.cell(state) for state in tau.states]
        assert human.CHOKE in cells
        assert not set(cells) & set(human.OBSTACLES)
        assert len(tau) == human.shortest_length(task) == 18
        assert all(len(set(tau.actions[i : i + 4])) > 1 for i in range(len(tau) - 3))
    wide = human.choke_task(seed=3, moves=("left", "up", "down", "right"), horizon=24)
    assert [tau.states for tau in wide.demos] == [tau.states for tau in task.demos]
    xm.check_demos(wide.world, wide.demos, wide.rules)
    assert human.shortest_length(wide) == 18


def test_no_turn_sharper_than_a_right_angle(tmp_path):
    task = human.drawn_task(write_drawings(tmp_path))
    turns = {"left": 0, "up-left": 1, "up": 2, "up-right": 3, "right": 4}
    wide = xm.distribution(task.world, None, None, seed=0).sample(300)
    for tau in wide:
        names = [task.world.moves[action] for action in tau.actions]
        sharp = any(abs(turns[a] - turns[b]) > 2 for a, b in pairwise(names))
        assert task.parts[1].accepts(tau) != sharp
        assert not task.parts[1].accepts(tau) or len(set(tau.states)) == len(tau.states)


def test_what_methods_are_asked_is_exact():
    task = human.choke_task(seed=0)
    effort = Effort(l2=0.3, paper_iter=3, paper_samples=8, rollouts=500, epsilon=0.1, solver_iter=1)
    for name in ALL:
        model = task.fit(name, effort, seed=0)
        p = model.distribution().probability(task.rules)
        drawn = model.sample(2000, seed=0)
        share = np.mean([task.rules.accepts(tau) for tau in drawn])
        assert abs(share - p) <= 4 * np.sqrt(p * (1 - p) / 2000)  # a bias of 0.05 would be seen
        d = model.distribution()
        expected = np.mean([d.log_prob(tau) for tau in task.demos])
        assert model.score(task.demos) == pytest.approx(expected, abs=1e-9)
        assert (p == pytest.approx(1.0)) == (name in XMEN)
    with pytest.raises(xm.XmenError, match="'nobody'"):
        task.fit("nobody", effort, seed=0)


def test_rules_nobody_keeps_have_probability_zero():
    task = human.choke_task(seed=0)
    d = task.fit("maxent", Effort(l2=0.3), seed=0).distribution()
    assert d.probability(xm.never(task.world.at((0, 0)))) == 0.0


def test_held_out_scores_are_of_models_that_have_not_seen_the_demonstration():
    task = human.choke_task(seed=1)
    task = replace(task, demos=task.demos[:4])
    found = human.leave_one_out("exact", task, [Effort(l2=0.3), Effort(l2=1.0)], 0, lambda share: None)
    model = xm.XMEN(task.world, task.rules, features=task.features, l2=1.0).fit(task.demos[1:])
    assert found.scores[1, 0] == pytest.approx(model.score(task.demos[:1]), abs=1e-6)
    assert found.log_valid == pytest.approx(np.zeros((2, 4)), abs=1e-12)


def test_the_choice_of_a_setting():
    efforts = (Effort(l2=1.0), Effort(l2=2.0), Effort(l2=3.0))
    scores = np.array([[-1.0, -np.inf, -1.0], [-2.0, -3.0, -4.0], [-3.0, -3.0, -2.0]])
    found = human.HeldOut(efforts, scores, np.log([[0.5] * 3] * 3))
    assert found.best is efforts[2]  # one impossible demonstration is worse than any likelihood
    assert found.log_likelihood.tolist() == [-3.0, -3.0, -2.0]
    assert found.given_rules == pytest.approx(scores[2] + np.log(2.0))
    # Without the first: the third row. Without the second: the first row, to which that one is impossible.
    assert found.nested.tolist() == [-3.0, -np.inf, -4.0]


# --- the whole run ----------------------------------------------------------------------------------------------


def in_haste(name, book, maxent_l2):
    """One setting per method, and few steps."""
    quick = Effort(l2=0.3, epsilon=0.1, kl_threshold=0.5, rollouts=500, paper_iter=3, paper_samples=8)
    return [replace(quick, solver_iter=1)]


@pytest.mark.system
def test_same_seed_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(human, "settings_of", in_haste)
    monkeypatch.setattr(human, "BUDGET", (0.2, 0.2))
    folder = write_drawings(tmp_path / "drawn", n=4)
    first, second = (reproduce("human", tmp_path / name, quick=True, data=folder) for name in ("one", "two"))
    untimed = [[table for table in record.tables if not table.timed] for record in (first, second)]
    assert untimed[0] == untimed[1]
    assert (first.paragraphs, first.settings) == (second.paragraphs, second.settings)
    files = [picture.file for picture in first.pictures]
    assert len(files) == len(set(files)) == 5
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    tables = {table.title: table for table in first.tables}
    for title in ("choke point: all methods", "drawings: all methods"):
        for row in tables[title].rows:
            cells = dict(zip(tables[title].columns, row, strict=True))
            valid, exact = (np.ravel(cells[name])[0] for name in ("valid", "P(valid)"))
            keeps = row[0].startswith(("X-MEN", "demonstrations"))
            assert (valid == 1.0 and exact == pytest.approx(1.0)) == keeps
            assert cells.get("shortest", [1.0, 0.0]) == [1.0, 0.0]
    assert [row[2] for row in tables["choke point with four moves"].rows][-1] == 1.0
    for row in tables["choke point: equal time"].rows:
        assert (row[3] == pytest.approx(1.0)) == row[0].startswith("X-MEN")


def test_the_run_rule_makes_them_go_up_first(tmp_path):
    book = Notebook("human", tmp_path, quick=True)
    human.gap(book)
    (table,) = book.record.tables
    kept, maxent, free = ([*row[1:]] for row in table.rows)
    assert kept == pytest.approx([1.0, 1.0])
    assert all(p < 0.9 for p in (*free, *maxent))
    # By hand: every move to the right into the gap that follows a move to the right is the first of four in a row.
    task = human.choke_task(0, obstacles=human.GAP_OBSTACLES, choke=human.GAP)
    for tau in task.demos:
        cells = [task.world.cell(state) for state in tau.states]
        before = cells.index(human.BEFORE_GAP)
        assert cells[before : before + 6] == [(3, 3), (3, 4), (4, 4), (5, 4), (6, 4), (6, 5)]


def test_without_data_the_report_says_how_to_give_some(tmp_path, monkeypatch):
    monkeypatch.setattr(human, "choke_point", lambda book: None)
    record = reproduce("human", tmp_path, quick=True)
    assert any("not public" in text for text in record.paragraphs)
    assert any("--data FOLDER" in text for text in record.paragraphs)


@pytest.mark.skipif(not REAL.is_dir(), reason="the drawings are not here")
def test_real_drawings():
    task = human.drawn_task(REAL)
    assert len(task.demos) == len(set(task.demos)) == 19
    assert {len(tau) for tau in task.demos} <= set(range(12, 20))
    effort = Effort(l2=0.1, rollouts=1000, epsilon=0.1)
    valid = {name: task.fit(name, effort, 0).distribution().probability(task.rules) for name in human.HELD_OUT}
    assert valid["exact"] == pytest.approx(1.0)
    assert all(0.1 < valid[name] < 0.95 for name in human.HELD_OUT[1:])
