"""Any changed bit of what is stored is found, and whatever it says under the right checksum is checked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_matrix

import xmen as xm
from cli.commands import run, write_problem
from learners.tasks import grid_task
from learners.test_stopping import fit
from storage.resealed import opened, put
from strategies import cases
from xmen.storage.codec import read_sealed, seal, sealed_arrays
from xmen.storage.models import read_checkpoint


def flips(data: bytes, n: int, seed: int):
    """The data with one bit changed, at n different places."""
    rng = np.random.default_rng(seed)
    for place in rng.choice(len(data), min(n, len(data)), replace=False).tolist():
        yield data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


SAVED = ("exact", "causal", "trips", "policy", "command")


@pytest.mark.parametrize("what", SAVED)
def test_any_flipped_bit_of_a_model_is_found(tmp_path, what):
    folder = tmp_path / "m"
    if what == "policy":
        xm.plan(*grid_task(4)[:2], None).save(folder)
    elif what == "command":
        write_problem(tmp_path)
        assert run(f"fit {tmp_path / 'p.toml'} --l2 0.1 --out {folder}").exit_code == 0
    else:
        fit(what, max_iter=3).save(folder)
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        for changed in flips(data, cases(60), seed=len(data)):
            file.write_bytes(changed)
            with pytest.raises(xm.StorageError):
                xm.load(folder)
        file.write_bytes(data)
    xm.load(folder)


@pytest.mark.parametrize("what", ["exact", "causal", "trips", "cells"])
def test_any_flipped_bit_of_a_checkpoint_is_found(tmp_path, what):
    file, last = tmp_path / "c", 1 if what == "cells" else 3
    fit(what, checkpoint=file, checkpoint_every=1, callback=lambda record: record.iteration == last)
    data = file.read_bytes()
    read_checkpoint(file)
    for changed in flips(data, cases(600), seed=0):
        file.write_bytes(changed)
        with pytest.raises(xm.StorageError):
            read_checkpoint(file)
    with pytest.raises(xm.StorageError, match="damaged"):
        fit(what, checkpoint=file, resume=True)


def test_a_horizon_that_was_edited_is_refused(tmp_path):
    grid = xm.GridWorld(3, 3, (0, 0), (2, 2), horizon=20)
    model = xm.MaxEntIRL(grid, l2=1.0).fit(xm.distribution(grid, seed=0).sample(20))
    model.save(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    assert b'"horizon": 20' in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(b'"horizon": 20', b'"horizon": 19'))
    with pytest.raises(xm.StorageError, match="changed by hand"):
        xm.load(tmp_path / "m")


def test_wrong_shapes_under_the_right_checksum_are_storage_errors(tmp_path):
    grid, rule, features, demos = grid_task(4)
    folder, file = tmp_path / "m", tmp_path / "c"
    model = xm.XMEN(grid, rule, features, checkpoint=file, callback=lambda r: r.iteration == 3).fit(demos)
    model.set_params(checkpoint=None).save(folder)
    original, numbers = opened(folder)
    other = {"is": "StateReward", "weights": {"is": "array", "key": "weights_"}, "n_actions": 3}
    wrong_parts = [("weights_", [1.0]), ("reward_", other), ("history_", [3]), ("history_", "long")]
    for name, value in [*wrong_parts, ("n_iter_", "many"), ("converged_", 1.5)]:
        put(folder, {**original, "learned": {**original["learned"], name: value}}, numbers)
        with pytest.raises(xm.StorageError):
            xm.load(folder)
    stored, arrays = read_checkpoint(file)
    for key, array in arrays.items():
        for wrong in (array[..., :-1], array[None], np.zeros(0), np.float64(3.0)):
            file.write_bytes(sealed_arrays({**arrays, key: np.asarray(wrong)}, stored))
            with pytest.raises(xm.StorageError):
                xm.XMEN(grid, rule, features, checkpoint=file, resume=True).fit(demos)


def tampered(folder, key, wrong):
    """Load a model whose arrays of this name are replaced, under the right checksum."""
    document, arrays = opened(folder)
    assert key in arrays, sorted(arrays)
    put(folder, document, {**arrays, key: np.asarray(wrong(arrays[key].copy()))})
    with pytest.raises(xm.StorageError, match=r"model\.safetensors is damaged"):
        xm.load(folder)
    put(folder, document, arrays)
    return xm.load(folder)


def replaced(place, value):
    def change(array):
        array[place] = value
        return array

    return change


SPARSE = {
    "a column that is not there": ("indices", replaced(0, 10**6)),
    "a column below 0": ("indices", replaced(-1, -1)),
    "columns that are no whole numbers": ("indices", lambda array: array.astype(np.float64)),
    "columns that are too few": ("indices", lambda array: array[:-1]),
    "numbers that are too many": ("data", lambda array: np.append(array, 1.0)),
    "a row that begins before the last": ("indptr", replaced(3, 10**6)),
    "no numbers, and rows that have some": ("indptr", replaced(-1, 0)),
    "rows that are too few": ("indptr", lambda array: array[:-1]),
    "rows that do not begin at 0": ("indptr", replaced(0, -5)),
}


@pytest.mark.parametrize("what", SPARSE)
@pytest.mark.parametrize("world", ["grid", "network"])
def test_sparse_features_are_checked_before_they_are_used(tmp_path, what, world):
    """Compiled code would follow wrong columns anywhere, and end the process."""
    grid, rule, features, demos = grid_task(4)
    if world == "network":
        grid, rule, features, demos = ring_task()
    sparse = csr_matrix(features.reshape(-1, features.shape[2]))
    xm.XMEN(grid, rule, sparse, l2=0.1).fit(demos).save(tmp_path / "m")
    part, wrong = SPARSE[what]
    tampered(tmp_path / "m", f"features.{part}", wrong)


def ring_task():
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0)])
    trips = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 2], [1])]
    return ring, None, np.random.default_rng(0).normal(size=(3, 2, 2)), trips


def test_a_networks_model_has_as_many_weights_as_features(tmp_path):
    ring, rule, features, trips = ring_task()
    model = xm.XMEN(ring, rule, features, l2=0.1).fit(trips)
    model.summary()
    model.save(tmp_path / "m")
    for wrong in (lambda w: w[:-1], lambda w: np.append(w, 0.0), lambda w: w[None], lambda w: w[0]):
        tampered(tmp_path / "m", "reward_.weights", wrong)
    for key in ("features", "reward_.features", "covariance_"):
        if key in opened(tmp_path / "m")[1]:
            tampered(tmp_path / "m", key, lambda array: array[..., :-1])
    xm.XMEN(ring, rule, l2=0.1).fit(trips).save(tmp_path / "states")  # a weight per state
    tampered(tmp_path / "states", "reward_.weights", lambda w: np.append(w, 0.0))


def test_a_road_network_is_checked_in_full(tmp_path):
    graph = nx.MultiDiGraph()
    for number, (u, v) in enumerate([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (2, 0)]):
        graph.add_edge(u, v, length=1.0 + number)
    nx.set_node_attributes(graph, {node: {"x": node % 2, "y": node // 2} for node in graph})
    roads = xm.Network.from_networkx(graph)
    trips = [xm.Trajectory([int(roads.source[0]), int(roads.target[0])], [int(roads.action[0])])]
    xm.XMEN(roads, None, roads.features, l2=0.1).fit(trips).save(tmp_path / "m")
    keys = sorted(key for key in opened(tmp_path / "m")[1] if key.startswith("world."))
    assert len(keys) > 6
    for key in keys:
        tampered(tmp_path / "m", key, lambda array: array[:-1])


def test_seals():
    data = sealed_arrays({}, {"format": "a thing", "sha256 is": '"sha256": "' + "1" * 64 + '"'})
    read_sealed(data, Path("it"), "a thing")
    assert seal(data) == data
    for old, new in ((b"sha256 is", b"sha256 as"), (b'"sha256":"', b'"sha255":"')):
        with pytest.raises(xm.StorageError, match="checksum"):
            read_sealed(data.replace(old, new), Path("it"), "a thing")
    assert seal(b"{}") == b""


def test_a_model_of_the_command_line_says_nothing_that_its_problem_says(tmp_path, monkeypatch):
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("fit p.toml --l2 0.1 --out model").exit_code == 0
    document, arrays = opened(tmp_path / "model")
    text = json.dumps(document)
    assert not arrays
    assert "visit(" not in text
    assert "up-right" not in text
    for weight in xm.load("model").weights_.tolist():
        assert repr(weight) not in text
        assert repr(weight) in (tmp_path / "model" / "problem.toml").read_text()
    (tmp_path / "model" / "problem.toml").write_text((tmp_path / "p.toml").read_text())
    refused = run("sample model")
    assert refused.exit_code == 2
    assert "problem.toml is damaged" in refused.stderr


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
    fewer = {name: value for name, value in whole["state"].items() if name != "iteration"}
    assert re.search("given, warm_start.*anew", refusal(identity=before))
    assert re.search("another version.*iteration|iteration.*another version", refusal(state=fewer))
    assert "version 1" in refusal(format_version=1)
