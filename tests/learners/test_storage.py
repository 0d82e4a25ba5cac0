"""Models and checkpoints on disk: what comes back is what was there, and everything else is a clear error."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import xmen as xm
from learners.quiet import quietly
from learners.tasks import grid_task, small_task
from storage.resealed import edit, opened, put
from strategies import cases
from xmen.errors import StorageError
from xmen.learners.xmen import XMEN
from xmen.registry import load
from xmen.storage.codec import sealed_arrays
from xmen.storage.models import read_checkpoint


@pytest.fixture
def model():
    grid, rule, features, demos = grid_task(5)
    return XMEN(grid, rule, features, seed=3, l2=0.1).fit(demos)


def test_round_trip_on_a_grid(model, tmp_path):
    model.callback = lambda record: None  # is left behind
    model.save(tmp_path / "taste")
    assert sorted(p.name for p in (tmp_path / "taste").iterdir()) == ["model.safetensors"]
    assert [p.name for p in tmp_path.iterdir()] == ["taste"]
    loaded = load(tmp_path / "taste")
    assert type(loaded) is XMEN
    assert loaded.callback is None
    assert isinstance(loaded.world, xm.GridWorld)
    assert loaded.world.cell(7) == model.world.cell(7)
    assert str(loaded.constraint) == str(model.constraint)
    assert loaded.sample(20) == XMEN(**model.get_params()).fit(grid_task(5)[3]).sample(20)


def test_round_trip_on_random_tasks(tmp_path):
    """Stochastic worlds, every rule that has a text form; the same log-likelihood to the last bit."""
    for seed in range(cases(25)):
        task = small_task(seed, spellable=True)
        model = XMEN(task.world, task.constraint, task.features, task.discount, l2=0.1)
        quietly(model, task.demos, task.weights)
        model.save(tmp_path / "model")  # over the one before
        loaded = load(tmp_path / "model")
        assert loaded.score(task.demos, task.weights) == model.score(task.demos, task.weights)
        assert loaded.sample(5, seed=1) == model.sample(5, seed=1)


def test_default_features_and_lists(tmp_path):
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, list(rule.children), l2=0.1).fit(demos)
    model.save(str(tmp_path / "states"))
    loaded = load(str(tmp_path / "states"))
    assert loaded.features is None
    np.testing.assert_array_equal(loaded.reward_.table(), model.reward_.table())
    XMEN(grid, rule, features.tolist(), seed=np.random.SeedSequence(5), l2=0.1).fit(demos).save(tmp_path / "lists")
    assert load(tmp_path / "lists").score(demos) == pytest.approx(
        XMEN(grid, rule, features, l2=0.1).fit(demos).score(demos)
    )


def test_rules_without_text_say_so(tmp_path):
    grid, rule, features, demos = grid_task(4)
    odd = xm.visit(xm.when(lambda state, action: True, name="anything"))
    model = XMEN(grid, rule & odd, features).fit(demos)
    with pytest.raises(StorageError, match=r"constraint .* no text form"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_events_are_saved_as_text(tmp_path):
    grid, _, _, demos = grid_task(5)
    grass, odd = grid.at((2, 2), (3, 2)), ~xm.at(4) & (xm.doing(2) | xm.at(0, 1)) & xm.anytime
    events = {"grass": grass, "any name at all": odd}
    model = xm.ConstraintInference(grid, events=events, kl_threshold=0.0, max_constraints=3).fit(demos)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.events == events
    assert [str(rule) for rule in loaded.constraints_] == [str(rule) for rule in model.constraints_]
    assert loaded.score(demos) == model.score(demos)
    assert [str(rule) for rule in loaded.fit(demos).constraints_] == [str(rule) for rule in model.constraints_]
    model.events = {"grass": grass & xm.when(lambda state, action: True, name="sunny")}
    with pytest.raises(StorageError, match=r"events\.grass .* no text form.*when"):
        model.save(tmp_path / "m")


def test_foreign_folders_are_not_overwritten(model, tmp_path):
    model.save(tmp_path / "mixed")
    for home, name in (("home", "thesis.tex"), ("mixed", "notes.txt")):
        (tmp_path / home).mkdir(exist_ok=True)
        (tmp_path / home / name).write_text("years of work")
    (tmp_path / "file").write_text("years of work")
    for place, named in (("home", "not overwritten"), ("file", "not overwritten"), ("mixed", r"holds notes\.txt")):
        with pytest.raises(StorageError, match=named):
            model.save(tmp_path / place)
    for kept in ("home/thesis.tex", "mixed/notes.txt", "file"):
        assert (tmp_path / kept).read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    model.save(tmp_path / "empty")
    with pytest.raises(StorageError, match="not exist"):
        model.save(tmp_path / "no" / "such" / "place")


def test_another_kind_of_model_is_not_overwritten(model, tmp_path):
    """A policy does not take the place of the model that it was made from, nor one learner's model that of another."""
    model.save(tmp_path / "model")
    for other in (model.policy(), xm.MaxEntIRL(model.world, model.features).fit(model.sample(20, seed=0))):
        with pytest.raises(StorageError, match=f"a XMEN.* a {type(other).__name__}"):
            other.save(tmp_path / "model")
    assert np.array_equal(xm.load(tmp_path / "model").weights_, model.weights_)
    model.save(tmp_path / "model")


def test_what_is_no_model_says_why(model, tmp_path):
    (tmp_path / "file").write_text("{}")
    (tmp_path / "void").mkdir()
    for place, named in (("nowhere", "not exist"), ("file", "is a file"), ("void", r"model\.safetensors")):
        with pytest.raises(StorageError, match=named):
            load(tmp_path / place)
    model.save(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    data = file.read_bytes()
    for damaged in (data[:-5], b"", data[:-1] + bytes([data[-1] ^ 1]), pickle.dumps({"weights": 1}), b"{}"):
        file.write_bytes(damaged)
        with pytest.raises(StorageError, match=r"model\.safetensors is damaged"):
            load(tmp_path / "m")
    for change, named in (
        ({"format": "somebody else's"}, "not written by xmen"),
        ({"format_version": 9, "versions": {"xmen": "9.9"}}, r"version 9.* xmen 9\.9.*upgrade"),
        ({"class": "os.system"}, r"'os\.system'"),
    ):
        file.write_bytes(data)
        edit(tmp_path / "m", lambda document, change=change: document.update(change))
        with pytest.raises(StorageError, match=named):
            load(tmp_path / "m")


@pytest.mark.parametrize("part", ["settings", "learned"])
def test_any_wrong_value_is_a_storage_error(model, tmp_path, part):
    """Each value in turn is removed or replaced by nonsense: a model, or a StorageError, and nothing else."""
    model.save(tmp_path / "m")
    original, arrays = opened(tmp_path / "m")
    for key in original[part]:
        for nonsense in ({"is": "array", "key": "none"}, {"is": "magic"}, {}, [{}], {"is": "constraint", "text": "x("}):
            put(tmp_path / "m", {**original, part: {**original[part], key: nonsense}}, arrays)
            with pytest.raises(StorageError):
                load(tmp_path / "m")
    put(tmp_path / "m", {**original, part: 3}, arrays)
    with pytest.raises(StorageError):
        load(tmp_path / "m")


# ---------------------------------------------------------------------------------- checkpoints


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    grid, rule, features, demos = grid_task(5)
    file = tmp_path / "c"
    settings = {"features": features, "checkpoint": file, "resume": True}
    XMEN(grid, rule, **settings).fit(demos)  # resume without a checkpoint is a fresh start
    further = rule & xm.visit(grid.at((1, 1), (0, 1), (1, 0)))
    for constraint, l2, shown, differs in (
        (rule, 0.5, demos, "another run: l2 differ"),
        (rule, 0.0, demos[:-1], "another run: demonstrations differ"),
        (further, 0.0, demos, "another run: .*constraint.* differ"),
    ):
        with pytest.raises(StorageError, match=differs):
            XMEN(grid, constraint, l2=l2, **settings).fit(shown)
    file.write_bytes(b"not a checkpoint")
    with pytest.raises(StorageError, match="damaged"):
        XMEN(grid, rule, **settings).fit(demos)
    with pytest.raises(StorageError, match="replace"):
        XMEN(grid, rule, features, checkpoint=file).fit(demos)
    assert file.read_bytes() == b"not a checkpoint"
    with pytest.raises(StorageError, match="not exist"):
        XMEN(grid, rule, features, checkpoint=tmp_path / "no" / "c").fit(demos)


def test_a_checkpoint_whose_parts_do_not_fit_each_other_is_refused(tmp_path):
    """Of one of the moves that L-BFGS remembers it is lost what that did to the gradient."""
    grid, rule, features, demos = grid_task(4)
    settings = {"features": features, "checkpoint": tmp_path / "c"}
    XMEN(grid, rule, **settings, callback=lambda record: record.iteration == 3).fit(demos)
    document, arrays = read_checkpoint(tmp_path / "c")
    (tmp_path / "c").write_bytes(sealed_arrays({**arrays, "changes": arrays["changes"][:-1]}, document))
    with pytest.raises(StorageError, match=r"damaged, or from another version .* without resume"):
        XMEN(grid, rule, **settings, resume=True).fit(demos)
