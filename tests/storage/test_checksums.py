"""Any changed bit of what is stored is found, and what older versions stored is still read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import run, write_problem
from learners.tasks import grid_task
from strategies import cases
from xmen.storage.checkpoint import read_checkpoint
from xmen.storage.sealing import DOCUMENT, check_seal, seal, sealed_arrays, sealed_json, unpack_arrays

OLD = Path(__file__).parent / "format_1"


def flips(data: bytes, n: int, seed: int):
    """The data with one bit changed, at n different places."""
    rng = np.random.default_rng(seed)
    for place in rng.choice(len(data), min(n, len(data)), replace=False).tolist():
        yield data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def every_flip_is_found(folder):
    """Whatever bit of whatever file of a model is changed, it is not loaded; and it is when all are as they were."""
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        for changed in flips(data, cases(60), seed=len(data)):
            file.write_bytes(changed)
            with pytest.raises(xm.StorageError):
                xm.load(folder)
        file.write_bytes(data)
    xm.load(folder)


def test_any_flipped_bit_of_a_model_is_found(tmp_path):
    write_problem(tmp_path)
    grid, rule, features, demos = grid_task(4)
    xm.XMEN(grid, rule, features, l2=0.1).fit(demos).save(tmp_path / "python")
    assert run(f"fit {tmp_path / 'p.toml'} --l2 0.1 --out {tmp_path / 'command'}").exit_code == 0
    for folder in (tmp_path / "python", tmp_path / "command"):
        every_flip_is_found(folder)


def test_any_flipped_bit_of_a_checkpoint_is_found(tmp_path):
    grid, rule, features, demos = grid_task(4)
    file = tmp_path / "c"
    xm.XMEN(grid, rule, features, checkpoint=file, callback=lambda r: r.iteration == 3).fit(demos)
    data = file.read_bytes()
    read_checkpoint(file)
    for changed in flips(data, cases(1500), seed=0):
        file.write_bytes(changed)
        with pytest.raises(xm.StorageError):
            read_checkpoint(file)
    with pytest.raises(xm.StorageError, match="damaged"):
        xm.XMEN(grid, rule, features, checkpoint=file, resume=True).fit(demos)


def test_a_horizon_that_was_edited_is_refused(tmp_path):
    grid = xm.GridWorld(3, 3, (0, 0), (2, 2), horizon=20)
    model = xm.MaxEntIRL(grid, l2=1.0).fit(xm.distribution(grid, seed=0).sample(20))
    model.save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    assert '"horizon": 20' in file.read_text()
    file.write_text(file.read_text().replace('"horizon": 20', '"horizon": 19'))
    with pytest.raises(xm.StorageError, match="was changed by hand"):
        xm.load(tmp_path / "m")


def test_wrong_shapes_under_the_right_checksum_are_storage_errors(tmp_path):
    grid, rule, features, demos = grid_task(4)
    folder, file = tmp_path / "m", tmp_path / "c"
    model = xm.XMEN(grid, rule, features, checkpoint=file, callback=lambda r: r.iteration == 3).fit(demos)
    model.set_params(checkpoint=None).save(folder)
    original = json.loads((folder / "model.json").read_text())
    for learned in (
        {"weights_": [1.0]},
        {"reward_": {"is": "StateReward", "weights": {"is": "array", "key": "weights_"}, "n_actions": 3}},
        {"history_": [3]},
        {"history_": "long"},
        {"n_iter_": "many"},
        {"converged_": 1.5},
    ):
        document = {**original, "learned": {**original["learned"], **learned}}
        (folder / "model.json").write_bytes(sealed_json({k: v for k, v in document.items() if k != "sha256"}))
        with pytest.raises(xm.StorageError):
            xm.load(folder)
    arrays = unpack_arrays(file.read_bytes(), file)
    stored = json.loads(arrays.pop(DOCUMENT).tobytes())
    for key, array in arrays.items():
        for wrong in (array[..., :-1], array[None], np.zeros(0), np.float64(3.0)):
            file.write_bytes(sealed_arrays({**arrays, key: np.asarray(wrong)}, stored))
            with pytest.raises(xm.StorageError):
                xm.XMEN(grid, rule, features, checkpoint=file, resume=True).fit(demos)


def test_seals():
    data = sealed_json({"format": "a thing", "sha256 is": '"sha256": "' + "1" * 64 + '"'})
    check_seal(data, Path("it"))
    assert seal(data) == data
    with pytest.raises(xm.StorageError):
        check_seal(data.replace(b"thing", b"think"), Path("it"))
    with pytest.raises(xm.StorageError):
        check_seal(b"{}", Path("it"))


# --- what version 0.1 stored ---


@pytest.mark.parametrize("name", ["chance", "inferred", "states"])
def test_models_of_format_1_are_read_as_they_were(name):
    expected = json.loads((OLD / "expected.json").read_text())[name]
    model = xm.load(OLD / name)
    assert [[list(t.states), list(t.actions)] for t in model.sample(5, seed=3)] == expected["samples"]
    demos = [xm.Trajectory(*demo) for demo in expected["demos"]]
    assert model.score(demos) == pytest.approx(expected["ten"], abs=1e-9)


def test_a_folder_of_the_command_line_of_format_1_is_read_and_replaced(tmp_path):
    before = {path.name for path in (OLD / "command").iterdir()}
    assert run(f"sample {OLD / 'command'} -n 4 --also 'never(corner)'").exit_code == 0
    assert {path.name for path in (OLD / "command").iterdir()} == before
    for file in (OLD / "command").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert run(f"fit {tmp_path / 'problem.toml'} --l2 0.2 --out {tmp_path}").exit_code == 0
    assert json.loads((tmp_path / "model.json").read_text())["format_version"] == 2
    assert xm.load(tmp_path).l2 == 0.2


def test_a_model_of_the_command_line_says_nothing_that_its_problem_says(tmp_path, monkeypatch):
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    text = (tmp_path / "model" / "model.json").read_text()
    assert not unpack_arrays((tmp_path / "model" / "arrays.safetensors").read_bytes(), Path("arrays"))
    assert "visit(" not in text
    assert "up-right" not in text
    for weight in xm.load("model").weights_.tolist():
        assert repr(weight) not in text
        assert repr(weight) in (tmp_path / "model" / "problem.toml").read_text()
    (tmp_path / "model" / "problem.toml").write_text((tmp_path / "p.toml").read_text())
    refused = run("sample model")
    assert refused.exit_code == 2
    assert "problem.toml is damaged, was changed by hand" in refused.stderr


def test_checkpoints_of_other_versions_are_refused_with_what_to_do(tmp_path):
    grid, rule, features, demos = grid_task(4)
    settings = {"features": features, "l2": 0.1, "checkpoint": tmp_path / "state"}
    xm.XMEN(grid, rule, **settings).fit(demos)
    whole, arrays = read_checkpoint(tmp_path / "state")

    def refusal(**changes):
        (tmp_path / "state").write_bytes(sealed_arrays(arrays, whole | changes))
        with pytest.raises(xm.StorageError) as caught:
            xm.XMEN(grid, rule, resume=True, **settings).fit(demos)
        return str(caught.value)

    before = {name: value for name, value in whole["identity"].items() if name not in ("warm_start", "given")}
    said = refusal(identity=before)
    assert "a checkpoint of another version of xmen, which did not know given, warm_start" in said
    assert "start the fit anew, without resume" in said
    fewer = {name: value for name, value in whole["state"].items() if name != "n_calls"}
    assert "whose states have other parts (n_calls)" in refusal(state=fewer)
    assert "without a checksum" in refusal(format_version=1)


def test_any_flipped_bit_of_newer_models_is_found(tmp_path):
    """Causal models, models of trips, rounds of cells, policies: no flip loads as something else."""
    grid, rule, features, demos = grid_task(4)
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    trips = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 2], [1])]
    xm.CausalXMEN(grid, rule, features=features, l2=0.1).fit(demos).save(tmp_path / "causal")
    xm.XMEN(ring, None, features=np.ones((3, 2, 1)), l2=0.1, checkpoint=tmp_path / "c").fit(trips).save(tmp_path / "t")
    xm.plan(grid, rule, None).save(tmp_path / "policy")
    for folder in (tmp_path / "causal", tmp_path / "t", tmp_path / "policy"):
        every_flip_is_found(folder)


@pytest.mark.parametrize("learner", ["causal", "trips", "cells"])
def test_any_flipped_bit_of_newer_checkpoints_is_found(tmp_path, learner):
    grid, rule, features, demos = grid_task(4)
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    choices = {"checkpoint": tmp_path / "c", "checkpoint_every": 1, "l2": 0.1, "callback": lambda r: r.iteration == 1}
    if learner == "causal":
        xm.CausalXMEN(grid, rule, features=features, **choices).fit(demos)
    elif learner == "trips":
        trips = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 2], [1])]
        xm.XMEN(ring, None, features=np.ones((3, 2, 1)), **choices).fit(trips)
    else:
        method = xm.Cells(n_cells=4)
        xm.XMEN(grid, rule, features, method=method, oracle="listed", seed=0, **choices).fit(demos)
    data = (tmp_path / "c").read_bytes()
    read_checkpoint(tmp_path / "c")
    for changed in flips(data, cases(300), seed=0):
        (tmp_path / "c").write_bytes(changed)
        with pytest.raises(xm.StorageError):
            read_checkpoint(tmp_path / "c")
