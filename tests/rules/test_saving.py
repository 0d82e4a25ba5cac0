"""What a search for rules has found, saved and loaded: the same answers, and everything else is a clear error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xmen as xm
from cli.commands import run
from storage.resealed import edit

GRID = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"))
EVENTS = {"lamp": GRID.at((0, 2), (1, 1), (2, 3), (1, 4)), "a puddle": GRID.at((3, 3), (2, 0))}
NAMES = ["never", "visit", "count equal", "before", "first among"]


@pytest.fixture(scope="module")
def demos():
    return xm.distribution(GRID, xm.count(EVENTS["lamp"]) == 1, None).sample(60, seed=0)


@pytest.fixture(scope="module")
def found(demos):
    known = (xm.length() <= 12).named("short")
    return xm.RuleInference(GRID, EVENTS, known=known, templates=NAMES, l2=0.01, seed=4).fit(demos)


def there_and_back(a, b):
    return xm.sequence(a, b, a)


def same_answers(loaded, model, demos):
    assert loaded.get_params().keys() == model.get_params().keys()
    assert (loaded.texts_, loaded.n_candidates_) == (model.texts_, model.n_candidates_)
    assert [str(rule) for rule in loaded.rules_] == [str(rule) for rule in model.rules_]
    assert str(loaded.constraint_) == str(model.constraint_)
    np.testing.assert_array_equal(loaded.gains_, model.gains_)
    assert loaded.least_gain_ == model.least_gain_
    assert loaded.verdicts() == model.verdicts()
    assert loaded.undecided() == model.undecided()
    assert loaded.table() == model.table()
    assert loaded.score(demos) == model.score(demos)


def test_what_was_found_comes_back(found, demos, tmp_path):
    assert found.texts_ == ["count(lamp) == 1"]
    assert {one.status for one in found.verdicts()} >= {"found", "implied", "broken"}
    found.save(tmp_path / "rules")
    assert sorted(path.name for path in (tmp_path / "rules").iterdir()) == ["model.safetensors"]
    loaded = xm.load(tmp_path / "rules")
    same_answers(loaded, found, demos)
    assert loaded.events == EVENTS
    assert loaded.model_.sample(5, seed=2) == found.model_.sample(5, seed=2)
    assert loaded.model_.world is loaded.world
    loaded.save(tmp_path / "rules")  # in the place of the one before
    same_answers(xm.load(tmp_path / "rules"), found, demos)


def test_a_loaded_one_needs_demonstrations_for_stability_and_can_be_fitted_again(found, demos, tmp_path):
    found.save(tmp_path / "rules")
    loaded = xm.load(tmp_path / "rules")
    with pytest.raises(xm.NotFittedError, match=r"fit\(demos\)"):
        loaded.stability(2)
    shares = loaded.fit(demos).stability(2)
    loaded.save(tmp_path / "rules")
    again = xm.load(tmp_path / "rules")
    np.testing.assert_array_equal(again.stability_, shares)
    same_answers(again, loaded, demos)


def test_contenders_come_back_with_their_examples(tmp_path):
    grid = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    events = {"a": grid.at((3, 3), (2, 3)), "b": grid.at((0, 3))}
    demos = xm.distribution(grid, xm.first(events["a"], among=events["b"]), None).sample(60, seed=1)
    nothing = np.zeros((36, 2, 1))
    model = xm.RuleInference(grid, events, features=nothing, templates=["visit", "first among"], min_gain=0).fit(demos)
    assert model.undecided()[0].example is not None
    model.set_params(features=None)  # the model that was fitted keeps its own
    model.save(tmp_path / "m")
    same_answers(xm.load(tmp_path / "m"), model, demos)


def test_trips_come_back(tmp_path):
    moves = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (2, 0, 3), (1, 1, 2), (3, 0, 4)]
    network = xm.Network(5, 2, [(s, a, t, 1.0) for s, a, t in moves])
    demos = [xm.Trajectory([0, 1, 3, 4], [0, 0, 0])] * 20 + [xm.Trajectory([1, 3, 4], [0, 0])] * 20
    settings = {"features": np.zeros((5, 2, 1)), "templates": ["never", "visit"], "min_gain": 0.9, "l2": 0.1}
    model = xm.RuleInference(network, {"bridge": xm.at(2), "hill": xm.at(1)}, **settings).fit(demos)
    model.save(tmp_path / "m")
    same_answers(xm.load(tmp_path / "m"), model, demos)


def test_templates_of_ones_own_leave_their_names(demos, tmp_path):
    model = xm.RuleInference(GRID, EVENTS, templates=["count equal", there_and_back], l2=0.01).fit(demos)
    model.save(tmp_path / "m")
    loaded = xm.load(tmp_path / "m")
    assert loaded.texts_ == model.texts_
    assert loaded.verdicts() == model.verdicts()
    with pytest.raises(xm.ConstraintError, match="there_and_back"):
        loaded.fit(demos)
    loaded.save(tmp_path / "m")


def test_what_cannot_be_saved(demos, tmp_path):
    with pytest.raises(xm.NotFittedError):
        xm.RuleInference(GRID, EVENTS).save(tmp_path / "m")
    odd = {"odd": xm.when(lambda state, action: state % 2 == 1, name="odd")}
    model = xm.RuleInference(GRID, odd, templates=["never"], l2=0.01).fit(demos)
    with pytest.raises(xm.StorageError, match=r"events\.odd .*text form"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_neither_class_takes_the_place_of_the_other(found, tmp_path):
    found.save(tmp_path / "rules")
    found.model_.save(tmp_path / "model")
    for saved, folder, words in (
        (found.model_, "rules", "RuleInference.* XMEN"),
        (found, "model", "XMEN.* RuleInference"),
    ):
        with pytest.raises(xm.StorageError, match=f"holds a {words}"):
            saved.save(tmp_path / folder)


def test_newer_versions_and_wrong_values_are_refused(found, tmp_path):
    folders = (tmp_path / f"rules {number}" for number in itertools.count())

    def refused(change, words):
        folder = next(folders)
        found.save(folder)
        edit(folder, change)
        with pytest.raises(xm.StorageError, match=words):
            xm.load(folder)

    def report(document, part):
        return document["settings"]["found"]["items"]["report"][part]

    refused(lambda d: d.update(format_version=9, versions={"xmen": "9.9"}), r"format version 9, .*upgrade")
    refused(lambda d: d["settings"].pop("found"), "damaged")
    refused(lambda d: d["settings"]["found"]["items"].update(rules=[]), "damaged")
    refused(lambda d: d["settings"]["found"]["items"]["model"]["items"].update({"class": "MaxEntIRL"}), "damaged")
    refused(lambda d: report(d, "verdicts")[0].update(gain="much"), "gain .*'much'")
    refused(lambda d: report(d, "verdicts")[0].pop("status"), "damaged")
    refused(lambda d: report(d, "level").update(m=3), "not the verdicts of one search")
    refused(lambda d: report(d, "verdicts")[0].update(odds=1), "Verdict.* 'odds'")


@pytest.mark.parametrize("command", ["sample", "plot", "plan"])
def test_commands_say_what_such_a_folder_is(found, tmp_path, command):
    found.save(tmp_path / "rules")
    refused = run(f"{command} {tmp_path / 'rules'}")
    assert refused.exit_code == 2
    assert all(words in refused.stderr for words in ("RuleInference", "count(lamp) == 1", "xmen rules"))
