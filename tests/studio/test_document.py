"""One document, counted versions, and files that the command line and Python read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from studio.conftest import window_of
from studio.problems import changed, on_disk, write_problem
from xmen.cli.studio import open_desk
from xmen.problem import demo_weights, read_problem
from xmen.studio.document import Desk, open_document


def test_the_document_is_the_problem_file_and_its_demonstrations(document, tmp_path):
    assert document["problem"] == on_disk(tmp_path)
    assert (document["version"], document["saved_version"], document["file"]) == (1, 1, "p.toml")
    world, demos = read_problem(tmp_path / "p.toml").world, xm.read_demos(tmp_path / "p_demos.csv")
    for record, demo in zip(document["demonstrations"], demos, strict=True):
        assert [world.state(tuple(cell)) for cell in record["states"]] == list(demo.states)
        assert [world.moves.index(move) for move in record["actions"]] == list(demo.actions)
        assert record["weight"] == 1.0


def test_what_is_saved_is_what_python_reads(window, document, tmp_path):
    rules = [
        {"name": "fetch the key", "rule": "visit(key)", "off": True},
        {"name": "dry", "rule": "never(mud)"},
        {"name": "later", "rule": "never(", "off": True},
    ]
    demos = [{**document["demonstrations"][0], "weight": 2.5}, document["demonstrations"][1]]
    assert window.change(demos, constraints=rules, world={"walls": [[2, 1]], "slip": None}) == {"version": 2}
    assert on_disk(tmp_path)["constraints"] != rules  # nothing is written before it is saved
    assert sorted(window.save()["files"]) == ["p.toml", "p_demos.csv"]
    read = read_problem(tmp_path / "p.toml")
    assert list(read.rules) == ["dry"]
    assert read.world.walls == frozenset({(2, 1)})
    assert on_disk(tmp_path)["constraints"] == rules
    assert on_disk(tmp_path)["studio"]["colours"] == {"key": "#E69F00"}
    assert demo_weights(read.demos()) == [2.5, 1.0]
    again = window_of(Desk(tmp_path / "p.toml"), window.session.live_worker).get("document")
    assert again["demonstrations"] == demos
    assert again["problem"]["constraints"] == rules


def test_a_file_with_rules_that_cannot_be_read_is_opened_and_mended(tmp_path, worker):
    path = write_problem(tmp_path)
    demos = read_problem(path).demos()
    broken = path.read_text().replace('"count(mud) <= 1"', '"count(mudd) <= 1"')
    path.write_text(broken + '\n[[constraints]]\nname = "fetch the key"\nrule = "never("\n')
    with pytest.raises(xm.XmenError, match="mudd"):
        read_problem(path)
    window = window_of(Desk(path), worker)
    now = window.get("document")
    assert now["problem"]["constraints"][1] == {"name": "hardly any mud", "rule": "count(mudd) <= 1"}
    assert len(now["demonstrations"]) == len(demos)
    first, second = window.check()["errors"]
    assert (first["part"], first["index"], first["offset"]) == ("rule", 1, 6)
    assert "mudd" in first["message"]
    assert (second["part"], second["index"]) == ("rule", 2)
    assert "Rules, hardly any mud: " in str(window.save(422))
    rules = [now["problem"]["constraints"][0], {"name": "hardly any mud", "rule": "count(mud) <= 1"}]
    window.change(constraints=rules)
    assert window.check()["errors"] == []
    window.save()
    assert list(read_problem(path).rules) == ["fetch the key", "hardly any mud"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('rule = "visit(key)"', "rule = 3", "got 3"),
        ('rule = "visit(key)"', 'rul = "visit(key)"', "'rule'"),
        ('rule = "visit(key)"', 'rule = "visit(key)"\nwhy = "it is dark"', "'why'"),
        ("horizon = 8", "horizon = -8", "horizon"),
        ("cells = [[0, 2], [2, 0]]", "cells = [[0, 9]]", "key"),
    ],
)
def test_what_the_page_has_no_field_for_is_refused_in_the_words_of_the_file(tmp_path, before, after, words):
    path = write_problem(tmp_path)
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(xm.XmenError, match=words):
        Desk(path)


def test_comments_and_order_of_a_hand_survive(window, document, tmp_path):
    before = (tmp_path / "p.toml").read_text()
    assert "#" in before
    window.save()
    assert (tmp_path / "p.toml").read_text() == before
    rules = [{"name": "dry", "rule": "never(mud)"}, *reversed(document["problem"]["constraints"])]
    window.change(constraints=rules, world={"walls": [[2, 1]]})
    window.save()
    after = (tmp_path / "p.toml").read_text()
    assert on_disk(tmp_path)["constraints"] == rules
    for line in before.splitlines():
        assert line in after or line.startswith("walls")


def test_two_windows_do_not_overwrite_each_other(window, document):
    assert window.put(changed(document["problem"], constraints=[]), base=1) == {"version": 2}
    refused = window.put(document["problem"], base=1, status=409)
    assert (refused["version"], refused["on_disk"]) == (2, False)
    assert window.get("document")["problem"].get("constraints") == []


def test_what_another_program_wrote_is_not_overwritten(window, tmp_path):
    for name in ("p.toml", "p_demos.csv"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text("something else\n")
        assert name in window.save(409)["error"]
        assert (tmp_path / name).read_text() == "something else\n"
        (tmp_path / name).write_text(before)
    (tmp_path / "p.toml").write_text("format = 1\n")
    assert window.save(409)["on_disk"] is True
    window.save(force=True)
    window.save()
    assert read_problem(tmp_path / "p.toml").world.n_states == 16


def test_demonstrations_come_and_go_whatever_is_wrong_with_rules_and_features(window, document):
    events = {"key": document["problem"]["events"]["key"]}  # no mud, which a rule and a feature are about
    window.put({**document["problem"], "events": events})
    assert {mistake["part"] for mistake in window.check()["errors"]} == {"rule", "reward"}
    text = window.ask("POST", "csv/write", {"demonstrations": document["demonstrations"]})["text"]
    assert window.ask("POST", "csv/read", {"text": text})["demonstrations"] == document["demonstrations"]
    failed = window.finished("learn")
    assert failed["error"]["error"].startswith("Rules, hardly any mud: ")
    window.put({**document["problem"], "events": events, "constraints": []})
    assert window.finished("learn")["error"]["error"].startswith("Learn, features: unknown feature 'mud'")


OFF_THE_GRID = {"states": [[0, 0], [9, 9]], "actions": ["up"]}


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"constraints": [{"name": "a", "rule": "visit(key"}]}, "Rules, a: "),
        ({"studio": {"learner": "guess"}}, "learner"),
        ({"demonstrations": [OFF_THE_GRID]}, "demonstration 0"),
        ({"demonstrations": [{**OFF_THE_GRID, "name": "on Monday"}]}, "demonstration on Monday"),
    ],
)
def test_a_document_with_mistakes_is_kept_and_not_saved(window, tmp_path, change, fact):
    before = (tmp_path / "p.toml").read_bytes()
    window.change(**change)
    assert fact in window.save(422)["error"]
    assert (tmp_path / "p.toml").read_bytes() == before


def test_a_document_without_demonstrations_names_none(window, tmp_path):
    window.change([])
    window.save()
    assert "demonstrations" not in on_disk(tmp_path)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"world": {"width": 10**9, "height": 10**9}}, "40,000 cells"),
        ({"world": {"width": 201, "height": 200}}, "201 x 200"),
        ({"world": {"horizon": 10**7}}, "horizon"),
        ({"events": {f"e{k}": "at(1)" for k in range(300)}}, "200 events"),
        ({"constraints": [{"name": str(k), "rule": "never(key)"} for k in range(300)]}, "200 rules"),
        ({"constraints": [{"name": "long", "rule": "x" * 30_000}]}, "characters"),
        ({"reward": {"table": "../secret.csv"}}, "names of files"),
        ({"validation": "../secret.csv"}, "names of files"),
        ({"world": {"kind": "graphml", "file": "/etc/passwd"}}, "names of files"),
        ({"world": {"kind": "table"}}, "kind of the world"),
        ({"world": None}, "kind of the world"),
        ({"world": [1, 2]}, "kind of the world"),
    ],
)
def test_what_is_too_large_or_elsewhere_is_refused_before_it_is_read(window, tables, words):
    assert words in window.change(status=422, **tables)["error"]
    assert window.get("document")["version"] == 1


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd"])
def test_demonstrations_of_elsewhere_are_refused(window, document, file):
    assert "names of files" in window.put({**document["problem"], "demonstrations": file}, status=422)["error"]


@pytest.mark.parametrize(
    "demonstrations",
    [
        [3],
        [{"states": [[0, 0]]}],
        [{"states": [[0, 0]], "actions": ["up"]}],
        [{"states": [[0, 0]], "actions": [], "weight": -1}],
        [{"states": [[0, 0]], "actions": [], "weight": True}],
        [{"states": [], "actions": []}] * 10_001,
    ],
)
def test_what_is_no_list_of_demonstrations_is_refused(window, demonstrations):
    window.change(demonstrations, status=422)


def test_files_outside_of_the_folder_are_not_opened(window, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    text = (tmp_path / "p.toml").read_text().replace('"p_demos.csv"', '"../p_demos.csv"')
    (inner / "p.toml").write_text(text)
    with pytest.raises(xm.XmenError, match="outside the folder"):
        Desk(inner / "p.toml")
    (inner / "p_demos.csv").symlink_to(tmp_path / "p_demos.csv")
    (inner / "p.toml").write_text((tmp_path / "p.toml").read_text())
    with pytest.raises(xm.XmenError, match="outside the folder"):
        Desk(inner / "p.toml")


@pytest.mark.parametrize(
    "tables",
    [
        {"constraints": [{"name": "toll", "rule": "total('../secret.csv') <= 3"}]},
        {"constraints": [{"name": "toll", "rule": "total('{folder}/secret.csv') <= 3"}]},
        {"costs": {"toll": "../secret.csv"}},
    ],
)
def test_rules_read_no_files_outside_of_the_folder(tmp_path, worker, tables):
    inner = tmp_path / "inner"
    inner.mkdir()
    window = window_of(Desk(write_problem(inner)), worker)
    costs = "state,cost\n" + "".join(f"{state},7\n" for state in range(16))
    (tmp_path / "secret.csv").write_text(costs)
    tables = json.loads(json.dumps(tables).replace("{folder}", str(tmp_path)))
    window.change(**tables)
    (mistake,) = window.check()["errors"]
    assert "outside the folder" in mistake["message"]
    assert window.save(422)
    refused = window.finished("generate", also=["total('../secret.csv') <= 3"])
    assert refused["state"] == "failed"
    (inner / "near.csv").write_text(costs)
    rules = [{"name": "toll", "rule": "total('near.csv') <= 49"}]
    window.change(constraints=rules, costs={"toll": [7] * 16})
    assert (window.check()["errors"], window.check()["feasible"]) == ([], True)
    window.save()
    assert on_disk(inner)["costs"] == {"toll": [7] * 16}


def test_csv_in_and_out(window, document):
    demos = document["demonstrations"]
    demos[0]["weight"] = 3.0
    text = window.ask("POST", "csv/write", {"demonstrations": demos})["text"]
    assert window.ask("POST", "csv/read", {"text": text})["demonstrations"] == demos
    words = "trip,x,y,who\n1,0,0,ann\n1,0,1,ann\n"
    (found,) = window.ask("POST", "csv/read", {"text": words})["demonstrations"]
    states = [[0, 0], [0, 1]]
    assert found == {"states": states, "actions": ["up"], "name": "1", "weight": 1.0, "about": {"who": "ann"}}
    refused = window.ask("POST", "csv/read", {"text": "demo,step,state,action\n0,0,a,0\n"}, 422)["error"]
    assert refused.startswith("demonstrations.csv")


def test_demonstrations_with_gaps_are_read_saved_and_read_back(window, tmp_path):
    words = "trip,x,y,bus\n1,0,0,8\n1,0,1,8\ntuesday,0,0,9\ntuesday,,,9\ntuesday,1,1,9\n"
    found = window.ask("POST", "csv/read", {"text": words})["demonstrations"]
    gap = {"states": [[0, 0], None, [1, 1]], "actions": [], "name": "tuesday", "weight": 1.0, "about": {"bus": "9"}}
    assert found[1] == gap
    window.change(found)
    assert window.get("document")["demonstrations"][1] == gap
    window.save()
    again = open_document(tmp_path / "p.toml")
    assert again.demonstrations[1] == gap
    assert read_problem(tmp_path / "p.toml").demos()[1] == xm.Sighting([0, None, 5])
    refused = window.change([{"states": [[0, 0], None], "actions": ["up"]}], status=422)
    assert "gaps" in refused["error"]


def test_a_file_with_noise_keeps_its_demonstrations_whole(window, tmp_path):
    window.change(settings={"noise": 0.1})
    before = (tmp_path / "p_demos.csv").read_text()
    window.save()
    assert open_document(tmp_path / "p.toml").demonstrations == window.get("document")["demonstrations"]
    assert (tmp_path / "p_demos.csv").read_text() == before


def test_demonstrations_keep_their_names_and_every_one_has_its_own(window):
    drawn = {"states": [[0, 0], [0, 1], [0, 2], [1, 2], [2, 2]], "actions": ["up", "up", "right", "right"]}
    names = ["1", "monday", None, "monday"]
    window.change([drawn if name is None else {**drawn, "name": name} for name in names])
    text = window.ask("POST", "csv/write", {"demonstrations": window.get("document")["demonstrations"]})["text"]
    assert list(dict.fromkeys(line.split(",")[0] for line in text.splitlines()[1:])) == ["1", "monday", "2", "3"]
    found = window.ask("POST", "csv/read", {"text": text})["demonstrations"]
    assert [one["name"] for one in found] == ["1", "monday", "2", "3"]


def test_saving_under_another_name_leaves_the_first_files_alone_and_goes_on_there(window, document, tmp_path):
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    window.change(document["demonstrations"][:3], constraints=[])
    for name in ("../q", "", "a/b", ".toml", "q?"):
        assert "no name" in window.ask("POST", "save", {"name": name}, 422)["error"]
    saved = window.ask("POST", "save", {"name": "q"})
    assert (saved["file"], saved["files"]) == ("q.toml", ["q_demos.csv", "q.toml"])
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert len(read_problem(tmp_path / "q.toml").demos()) == 3
    assert "# written by hand" in (tmp_path / "q.toml").read_text()
    window.put(document["problem"], document["demonstrations"][:2])
    assert window.save()["files"] == ["q_demos.csv", "q.toml"]
    assert len(read_problem(tmp_path / "q.toml").demos()) == 2
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    (tmp_path / "r.toml").write_text("mine")
    refused = window.ask("POST", "save", {"name": "r.toml"}, 409)
    assert "r.toml" in refused["error"]
    assert refused["on_disk"] is True


def test_a_new_problem_is_an_empty_grid_that_answers_and_is_saved_under_its_name(window, tmp_path):
    before = (tmp_path / "p.toml").read_bytes()
    window.job("learn")
    assert "p.toml" in window.ask("POST", "new", {"name": "p", "width": 4, "height": 3}, 409)["error"]
    assert "40,000 cells" in window.ask("POST", "new", {"name": "q", "width": 400, "height": 300}, 422)["error"]
    assert window.ask("POST", "new", {"name": "plan", "width": 4, "height": 3})["file"] == "plan.toml"
    document = window.get("document")
    assert (document["file"], document["saved_version"], document["demonstrations"]) == ("plan.toml", None, [])
    checked = window.check()
    assert (checked["errors"], checked["feasible"], checked["demonstrations"]) == ([], True, [])
    assert window.get("jobs")["jobs"] == []  # what was learned was of another problem
    assert window.save()["files"] == ["plan.toml"]
    assert read_problem(tmp_path / "plan.toml").world.goal_cells == ((3, 2),)
    assert (tmp_path / "p.toml").read_bytes() == before


def test_the_command_line_begins_with_an_empty_grid_if_asked(tmp_path):
    desk = open_desk(tmp_path / "plan.toml", demo=False, new=True)
    assert desk.save() == ["plan.toml"]
    for arguments, words in (
        ((tmp_path / "plan.toml", False, True), r"plan\.toml.* there already"),
        ((tmp_path / "plan.csv", False, True), r"plan\.csv"),
        ((None, True, True), "one of them"),
        ((tmp_path / "other.toml", False, False), "--new"),
    ):
        with pytest.raises(xm.FileFormatError, match=words):
            open_desk(*arguments)


@pytest.mark.parametrize("demo", [False, True])
def test_something_to_start_from_is_a_file_once_it_is_saved(tmp_path, monkeypatch, worker, demo):
    monkeypatch.chdir(tmp_path)
    window = window_of(open_desk(None, demo), worker)
    assert window.get("document")["saved_version"] is None
    assert list(tmp_path.iterdir()) == []
    window.save()
    again = window_of(open_desk(None, demo), worker)
    assert again.get("document")["problem"] == window.get("document")["problem"]
    assert again.get("document")["saved_version"] == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_the_page_of_the_documentation_shows_the_python_of_the_starter(tmp_path, monkeypatch, worker, capsys):
    monkeypatch.chdir(tmp_path)
    window = window_of(open_desk(None, demo=False), worker)
    page = (Path(__file__).parents[2] / "docs" / "studio.md").read_text("utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.S)
    assert window.get("python")["text"] == block
    window.save()
    exec(compile(block, "studio.md", "exec"), {})
    assert capsys.readouterr().out.count("Trajectory(") == 5


def test_the_demo_is_the_map_and_the_rules_of_the_paper(tmp_path, monkeypatch):
    from xmen.experiments.grid import MEMORY

    monkeypatch.chdir(tmp_path)
    desk = open_desk(None, demo=True)
    desk.save()
    problem = read_problem(tmp_path / "memory.toml")
    ours, theirs = problem.distribution(), xm.distribution(MEMORY.world, MEMORY.rules, None)
    assert np.isclose(ours.log_partition(), theirs.log_partition())
    assert {name: set(event.states) for name, event in problem.events.items()} == {
        name: {MEMORY.world.state(cell) for cell in cells} for name, cells in MEMORY.symbols.items()
    }
    assert all(rule.accepts(demo) for demo in problem.demos() for rule in MEMORY.rules)


def test_a_graph_is_shown_on_its_coordinates(tmp_path, worker):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    for name, x, y in (("a", 0.0, 0.0), ("b", 2.0, 0.0), ("c", 2.0, 1.0)):
        graph.add_node(name, x=x, y=y)
    graph.add_edges_from([("a", "b"), ("b", "c"), ("c", "b")], length=1.0)
    networkx.write_graphml(graph, tmp_path / "roads.graphml")
    window = window_of(open_desk(tmp_path / "roads.graphml", demo=False), worker)
    found = window.get("document")
    kind = {"kind": "graphml", "file": "roads.graphml"}
    assert found["problem"]["world"] == {**kind, "source": "a", "target": "c", "horizon": 4}
    assert found["layout"]["states"] == [
        {"name": "a", "x": 0.0, "y": 0.0},
        {"name": "b", "x": 1.0, "y": 0.0},
        {"name": "c", "x": 1.0, "y": 0.5},
    ]
    assert found["layout"]["edges"][0] == [0, 0, 1, 1.0]
    rules, demonstration = [{"name": "m", "rule": "visit(middle)"}], {"states": ["a", "b", "c"], "actions": [0, 0]}
    window.change([demonstration], events={"middle": {"nodes": ["b"]}}, constraints=rules)
    checked = window.check()
    assert (checked["errors"], checked["feasible"], checked["trajectories"]["valid"]) == ([], True, 1)
    assert checked["demonstrations"] == [{"valid": True, "broken": []}]
    assert {"name": "length", "sentence": "length of the edge"} in checked["features"]
    window.save()
    assert len(read_problem(tmp_path / "roads.toml").demos()) == 1
