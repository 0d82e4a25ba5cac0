"""Small inputs with large appetites are refused by an estimate, with the limit named and the way to raise it."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from cli.commands import refused, told
from storage.resealed import opened, put
from xmen.errors import MEMORY
from xmen.files import read_text, unpack_whole
from xmen.rewards.linear import StateFeatures

PIPE_OR_DEVICE = "pipe or a device"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XMEN_MEMORY", raising=False)


def problem(text: str) -> None:
    Path("p.toml").write_text(f"format = 1\n[world]\n{text}\n")


GRID = 'kind = "grid"\nwidth = {}\nheight = {}\nstart = [0, 0]\ngoal = [1, 1]\nhorizon = {}'
TABLE = 'kind = "table"\ntransitions = "rows.csv"\nn_states = {}\nn_actions = {}\nstart = 0\nterminal = [1]'
COMMANDS = ["check", "engines", "plan", "sample", "plot", "fit", "rules"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("world", [GRID.format(20000, 20000, 9), TABLE.format(10**9, 1), TABLE.format(3, 10**9)])
def test_worlds_that_fit_in_no_memory(command, world):
    problem(world)
    Path("rows.csv").write_text("state,action,next_state,probability\n0,0,1,1\n")
    refused(f"{command} p.toml", "GB of memory", "limit of 4 GB", "XMEN_MEMORY=")


@pytest.mark.parametrize("command", ["check", "plan", "sample", "plot"])
def test_horizons_that_fit_in_no_memory(command):
    problem(GRID.format(3, 3, 10**9))
    assert "horizon of 1,000,000,000 actions" in told(f"{command} p.toml", code=2)


SMALL = xm.GridWorld(3, 3, (0, 0), (2, 2), horizon=6)
CYCLE = xm.GridWorld(3, 3, (0, 0), (2, 2), horizon=10**8)
WALK = xm.Trajectory([0, 1, 2, 5, 8], [1, 1, 0, 0])
SQUARE = xm.GridWorld(2, 2, (0, 0), (1, 1), moves=("up", "right"))
AROUND = xm.Trajectory([0, 1, 3], [1, 0])
QUESTIONS = {
    **{engine: lambda engine=engine: xm.distribution(CYCLE, engine=engine) for engine in ("exact", "reject", "xor")},
    "without an end": lambda: xm.distribution(xm.GridWorld(3, 3, (0, 0), None, horizon=10**8)),
    "plan": lambda: xm.plan(CYCLE, None, None),
    "shield": lambda: xm.shield(CYCLE, None),
    "maxent": lambda: xm.MaxEntIRL(CYCLE).fit([WALK]),
    "relative entropy": lambda: xm.RelativeEntropyIRL(CYCLE).fit([WALK]),
    "constraint inference": lambda: xm.ConstraintInference(CYCLE).fit([WALK]),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_horizons_in_python(question):
    with pytest.raises(xm.XmenError, match="horizon of 100,000,000 actions"):
        QUESTIONS[question]()


@pytest.mark.parametrize("question", ["log_partition", "mode", "best"])
def test_layers_of_many_nodes(question, monkeypatch):
    """What a horizon needs grows with the nodes: it is known before the first layer is made."""
    d = xm.distribution(xm.GridWorld(30, 30, (0, 0), (29, 29), horizon=300))
    monkeypatch.setenv("XMEN_MEMORY", "0.1MB")
    with pytest.raises(xm.EngineError, match="horizon of 300 actions"):
        d.best(3) if question == "best" else getattr(d, question)()


def test_more_samples_than_memory_holds():
    problem(GRID.format(3, 3, 6))
    for n in (10**10, 10**20, 10**400):
        refused(f"sample p.toml -n {n}", "a list of")
    for d in (xm.distribution(SMALL, engine=engine) for engine in ("exact", "reject", "xor")):
        with pytest.raises(xm.EngineError, match="10,000,000,000 trajectories of 4 actions"):
            d.sample(10**10)
    with pytest.raises(xm.EngineError, match="10,000,000,000"):
        xm.plan(SMALL, None, None).rollout(10**10)


def test_more_of_the_best_than_memory_holds():
    """To ask for more than there are is fine; to ask for most of 2 * 10**41 is not."""
    few = xm.distribution(SMALL)
    assert len(few.best(10**20)) == round(np.exp(few.log_partition()))
    many = xm.distribution(xm.GridWorld(5, 5, (0, 0), (4, 4), horizon=80))
    with pytest.raises(xm.EngineError, match=r"1e\+20 trajectories of 8 actions"):
        many.best(10**20)
    ring = xm.Network(3, 2, [(0, 0, 1, 1.0), (1, 0, 2, 1.0), (2, 0, 0, 1.0), (0, 1, 2, 1.0), (1, 1, 0, 1.0)])
    endless = xm.distribution(ring.task(0, 2), None, np.full((3, 2), -2.0))
    with pytest.raises(xm.EngineError, match=r"1e\+20"):
        endless.best(10**20)


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_archives_that_unpack_to_more(suffix, monkeypatch):
    """Unpacking ends where the limit is passed: no more than that is ever in memory."""
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    Path(f"roads.graphml{suffix}").write_bytes(pack(b"<graphml>" + b"<node id='n'/>" * 100_000))
    problem(f'kind = "graphml"\nfile = "roads.graphml{suffix}"\nsource = "a"\ntarget = "b"\nhorizon = 3')
    monkeypatch.setenv("XMEN_MEMORY", "10MB")
    refused("check p.toml", f"roads.graphml{suffix}, with 166,667 bytes")
    monkeypatch.setenv("XMEN_MEMORY", "1GB")
    refused("check p.toml", "GraphML file")
    assert len(unpack_whole(f"roads.graphml{suffix}")) == 1_400_009


@pytest.mark.parametrize("command", [*COMMANDS, "sample -n 1 --also 'visit(at(1))'"])
def test_pipes_and_devices_are_no_files(command):
    os.mkfifo("pipe")
    words = command.split(" ", 1)
    for file in ("pipe", "/dev/zero"):
        refused(" ".join([words[0], file, *words[1:]]), file, PIPE_OR_DEVICE)


def test_pipes_in_python():
    for name in ("pipe.csv", "pipe.jsonl", "run.safetensors"):
        os.mkfifo(name)
    ring = xm.Network(2, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)])
    for read in (
        lambda: xm.read_demos("pipe.csv"),
        lambda: xm.read_demos("pipe.csv", SQUARE),
        lambda: xm.read_demos("pipe.jsonl"),
        lambda: xm.read_trips("pipe.jsonl", ring),
        lambda: read_text("/dev/zero"),
        lambda: xm.XMEN(SQUARE, None, checkpoint="run.safetensors", resume=True).fit([AROUND]),
    ):
        with pytest.raises(xm.FileFormatError, match=PIPE_OR_DEVICE):
            read()


def test_layers_that_nobody_saved():
    torch = pytest.importorskip("torch")
    reward = xm.NeuralReward(torch.nn.Linear(4, 2), np.eye(4), n_actions=2)
    xm.XMEN(SQUARE, None, reward=reward, l2=0.1).fit([AROUND]).save("model")
    document, arrays = opened(Path("model"))
    text = json.dumps(document)
    assert text.count('"out_features": 2') >= 1
    put(Path("model"), json.loads(text.replace('"out_features": 2', '"out_features": 200000000000')), arrays)
    with pytest.raises(xm.StorageError, match="1,000,000,000,000 numbers, and 10 "):
        xm.load("model")


def test_formulas_that_never_end(monkeypatch):
    """183 characters: each of ten alternatives doubles what is open."""
    formula = " & ".join(f"(X F a{i} | F b{i})" for i in range(10))
    events = {f"{x}{i}": xm.at(2 * i + (x == "b")) for i in range(10) for x in "ab"}
    rule = xm.ltlf(formula, **events)
    assert len(formula) < 183
    grid = xm.GridWorld(6, 6, (0, 0), (5, 5), horizon=14)
    monkeypatch.setenv("XMEN_COMPARISONS", "2000000")
    with pytest.raises(xm.ConstraintError, match=r"limit of 2,000,000\. Split"):
        xm.distribution(grid, rule)
    monkeypatch.setenv("XMEN_COMPARISONS", "1e9")
    assert rule.accepts(xm.Trajectory(list(range(20)), [0] * 19))


def test_one_feature_for_each_state(monkeypatch):
    grid = xm.GridWorld(100, 100, (0, 0), (99, 99), moves=("up", "right"))
    reward = StateFeatures(grid).reward(np.zeros(grid.n_states))
    monkeypatch.setenv("XMEN_MEMORY", "1GB")
    with pytest.raises(xm.RewardError, match=r"10,000 features .* 10,000 states .* 1\.6 GB"):
        _ = reward.features


@pytest.mark.parametrize(
    ("text", "most"), [("16GB", 16e9), ("16 gb", 16e9), ("2.5M", 2.5e6), ("1e12", 1e12), ("", 4e9), ("123", 123)]
)
def test_amounts(text, most, monkeypatch):
    monkeypatch.setenv("XMEN_MEMORY", text)
    assert MEMORY.most == most


@pytest.mark.parametrize("text", ["much", "-1", "4 GiBs", "nan", "1e9999"])
def test_amounts_that_are_none(text, monkeypatch):
    monkeypatch.setenv("XMEN_MEMORY", text)
    problem(GRID.format(3, 3, 6))
    refused("check p.toml", "XMEN_MEMORY", f"got {text!r}")


def test_what_is_asked_for_is_enough(monkeypatch):
    """The amount that a message names lets the same input through."""
    with pytest.raises(xm.WorldError) as caught:
        MEMORY.require(5e9, "this", xm.WorldError)
    amount = str(caught.value).split("XMEN_MEMORY=")[1].split(" ")[0]
    assert amount == "6GB"
    monkeypatch.setenv("XMEN_MEMORY", amount)
    MEMORY.require(5e9, "this", xm.WorldError)
