"""Settings and learned values as JSON plus named arrays, in one file under a checksum, and back; never pickle.

Plain values stand for themselves. Everything else is an object {"is": kind, ...}: a kind of `KINDS` with its fields;
{"is": "array"} with a key into the safetensors file; or {"is": "problem"}, a part of the problem file beside the model.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, sparray, spmatrix

from xmen import __version__
from xmen.constraints.constraint import Constraint
from xmen.constraints.text import parse_constraint, parse_event
from xmen.errors import ConstraintError, RewardError, StorageError
from xmen.events import Event
from xmen.files import NUMBERS, read_whole
from xmen.options import Options, Unsaved
from xmen.progress import Record
from xmen.rewards.linear import LinearReward, SparseReward, StateReward
from xmen.rewards.neural import ConvReward, FeatureReward, NeuralReward, build, describe
from xmen.rewards.torch_backend import as_array, require_torch, seeded, torch
from xmen.worlds import MDP, GridWorld, Network, Trajectory
from xmen.worlds.from_networkx import RoadNetwork

# ---- Files of arrays and a JSON document, under one checksum: it stands in the file itself, under the name sha256, and
# is taken with zeros in its place.

Arrays = dict[str, NDArray[Any]]
DOCUMENT = "document"  # the array that holds the JSON, as bytes
FORMAT_VERSION = 3  # of models and checkpoints; no earlier one was ever released
_ZEROS = "0" * 64
_SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def sha256(data: bytes) -> str:
    """The checksum of a file beside the sealed one."""
    return hashlib.sha256(data).hexdigest()


def sealed_arrays(arrays: Arrays, document: dict[str, Any]) -> bytes:
    """Arrays and a document as one safetensors file with its checksum."""
    versions = {"xmen": __version__, "numpy": np.__version__}
    about = {"format_version": FORMAT_VERSION, "versions": versions, **document}
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    return seal(safetensors.numpy.save({**arrays, DOCUMENT: text}, metadata={"sha256": _ZEROS}))


def seal(data: bytes) -> bytes:
    """The file with its checksum in the place that is kept for it; empty where there is no such place."""
    if (place := _SEAL.search(data)) is None:
        return b""
    before, after = data[: place.start(1)], data[place.end(1) :]
    return before + sha256(before + _ZEROS.encode() + after).encode() + after


def read_bytes(file: Path, role: str = "", hint: str = "") -> bytes:
    """The content of a file of numbers, or a StorageError that says what the file was to be."""
    try:
        return read_whole(file, NUMBERS, StorageError)
    except OSError as error:
        raise StorageError(f"{role}{file} cannot be read ({error.strerror}){hint}.") from None


def read_sealed(data: bytes, file: Path, kind: str, whole: bool = True) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a file of this kind; if `whole`, only with the right checksum."""
    try:
        arrays = {key: np.array(value) for key, value in safetensors.numpy.load(data).items()}
        document = json.loads(arrays.pop(DOCUMENT, np.zeros(0, np.uint8)).tobytes() or b"{}")
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{file} is damaged, or not a safetensors file: {error}") from error
    if not isinstance(document, dict) or document.get("format") != kind:
        raise StorageError(f"{file} was not written by xmen: it does not say that it is an {kind}.")
    if (found := document.get("format_version")) != FORMAT_VERSION:
        versions = document.get("versions")
        by = versions.get("xmen", "?") if isinstance(versions, dict) else "?"
        advice = "upgrade xmen" if isinstance(found, int) and found > FORMAT_VERSION else "make it again"
        there = f"format version {found!r:.60}, written by xmen {by!s:.60}"
        raise StorageError(f"{file} has {there}; this xmen reads version {FORMAT_VERSION}: {advice}.")
    if whole and seal(data) != data:
        raise StorageError(f"{file} is damaged, or was changed by hand: its checksum is not that of its content.")
    return document, arrays


# ---- Neural rewards: their numbers as arrays, their layers as settings where they are torch's. The code of a module of
# one's own is not saved: `xm.load(path, module=module)` gives it again.

NEURAL_KINDS: dict[str, type[NeuralReward]] = {one.__name__: one for one in (NeuralReward, ConvReward, FeatureReward)}


def encode_reward(encoder: Encoder, reward: NeuralReward, name: str) -> dict[str, Any]:
    """A neural reward as JSON, its arrays in the encoder."""
    kind, known = type(reward).__name__, ", ".join(NEURAL_KINDS)
    if NEURAL_KINDS.get(kind) is not type(reward):
        raise StorageError(f"{name} is a {kind}, which cannot be saved: of neural rewards, {known} can.")
    given = reward.body if isinstance(reward, FeatureReward) else reward.module  # the part that the user made
    parameters = list(reward.module.named_parameters())
    try:
        return {
            "kind": kind,
            "network": repr(given),
            "layers": _layers(reward, given),
            "dtype": next((str(p.dtype).removeprefix("torch.") for _, p in parameters if p.is_floating_point()), None),
            "frozen": [key for key, parameter in parameters if not parameter.requires_grad],
            "n_actions": reward.n_actions,
            "state": encoder.encode_all(reward.state(), name),
            **encoder.encode_all({"inputs": as_array(reward.inputs), "grid": getattr(reward, "grid", None)}, name),
        }
    except RewardError as error:
        raise StorageError(f"{name} cannot be saved: {error}") from None


def _layers(reward: NeuralReward, given: torch.nn.Module) -> dict[str, Any] | None:
    """The settings of the layers, if a module made from them is the same module."""
    described, dtypes = describe(given), {p.dtype for p in given.parameters() if p.is_floating_point()}
    if described is None or len(dtypes) > 1:
        return None
    with seeded(0):
        again = build(described).to(reward.device, next(iter(dtypes), None))
    if [name for name, _ in again.named_parameters()] != [name for name, _ in given.named_parameters()]:
        return None
    again.load_state_dict(given.state_dict())
    with torch.no_grad():
        same = torch.equal(again.eval()(reward.inputs), given.eval()(reward.inputs))
    return described if same else None


def decode_reward(decoder: Decoder, fields: dict[str, Any]) -> NeuralReward:
    """The reward, with the module that the decoder was given, or with layers made from settings."""
    require_torch("a model with a neural reward")
    given, decoder.module_taken = decoder.module, True
    if given is None and fields["layers"] is None:
        own = "the model has a network of your own, whose numbers are saved and whose code is not"
        advice = "Make the same network again and call xm.load(path, module=network)"
        raise StorageError(f"{own}. {advice}. It was {fields['network']}")
    state = decoder.decode_all(fields["state"])
    inputs = torch.as_tensor(np.array(decoder.decode(fields["inputs"])))
    kind, frozen = NEURAL_KINDS[fields["kind"]], set(fields["frozen"])
    try:
        with seeded(0):  # nobody else's random numbers are used up
            module = _fresh(fields, sum(map(np.size, state.values()))) if given is None else copy.deepcopy(given)
            if kind is ConvReward:  # which adds the last map, that of open cells
                reward: NeuralReward = ConvReward(decoder.decode(fields["grid"]), inputs[0, :-1], module=module)
            else:
                reward = kind(module, inputs, fields["n_actions"])
        reward.load_state(state)
        reward.table()
    except RewardError as error:
        if given is None:
            raise
        other = f"module={type(given).__name__} is not the network of this model"
        raise StorageError(f"{other}: {error}\nIt was {fields['network']}") from None
    except (IndexError, RuntimeError) as error:
        raise ValueError(f"no {fields['kind']}: {error}") from None
    parameters = dict(reward.module.named_parameters())
    for key, parameter in parameters.items():
        parameter.requires_grad_(key not in frozen)
    if not frozen <= set(parameters):
        raise ValueError(f"the network has no {sorted(frozen - set(parameters))}")
    return reward


def _fresh(fields: dict[str, Any], n_saved: int) -> torch.nn.Module:
    """Fresh layers, if as many numbers as they have were saved: a line of settings can ask for any number of them."""
    with torch.device("meta"):  # shapes without memory
        n_numbers = sum(parameter.numel() for parameter in build(fields["layers"]).parameters())
    if n_numbers > n_saved:
        raise ValueError(f"its layers have {n_numbers:,} numbers, and {n_saved:,} were saved")
    if (dtype := fields["dtype"] or "float32") not in ("float16", "float32", "float64"):
        raise ValueError(f"layers of {dtype!r:.60}")
    return build(fields["layers"]).to(getattr(torch, dtype))


# ---- Worlds, rewards and records: the fields that each is made from again


class Kind(NamedTuple):
    """How values of a type are stored: the fields that `make` is called with again, by name."""

    type: Any
    fields: Callable[[Any], Mapping[str, Any]]
    make: Callable[..., Any]
    exact: bool = False  # not its subclasses: what they changed would be lost


def _of(*names: str) -> Callable[[Any], Mapping[str, Any]]:
    """The fields that are attributes of the same names."""
    return lambda value: {name: getattr(value, name) for name in names}


def _text(value: Constraint | Event) -> Mapping[str, Any]:
    """The text of a constraint or an event, if it reads back as the same."""
    parse: Callable[[str], object] = parse_constraint if isinstance(value, Constraint) else parse_event
    text = str(value)
    try:
        again = str(parse(text))
    except ConstraintError as error:
        advice = "Build it from events and constraints other than when(...) and monitor(...)"
        raise ValueError(f"it has no text form: {error}\n{advice}.") from None
    if again != text:
        raise ValueError(f"its text `{text}` does not read back as the same.")
    return {"text": text}


def _grid_fields(grid: GridWorld) -> Mapping[str, Any]:
    same = _of("width", "height", "moves", "horizon", "slip", "bump")(grid)
    fields = {**same, "start": grid.given_start, "goal": grid.given_goal, "walls": sorted(grid.walls)}
    starts = grid.start[grid.start > 0]
    return fields if np.all(starts == starts[0]) else {**fields, "start_probability": grid.start}


def _grid(start_probability: Any = None, **fields: Any) -> GridWorld:
    grid = GridWorld(**fields)
    return grid if start_probability is None else grid.with_start(start_probability)


def _world(n_states: int, n_actions: int, horizon: int | None, start: Any, terminal: Any, **rows: Any) -> MDP:
    world = MDP(n_states, n_actions, _rows(rows), start, terminal=np.flatnonzero(terminal), horizon=horizon)
    # Dividing by sums that are 1 up to rounding changes last digits: put back what was saved.
    for name, saved in (("probability", rows["probability"]), ("start", start)):
        if getattr(world, name).shape != saved.shape or not np.allclose(getattr(world, name), saved):
            raise ValueError(f"the world's {name} is not what it should be")
        saved.flags.writeable = False
        setattr(world, name, saved)
    return world


def _road_fields(network: RoadNetwork) -> Mapping[str, Any]:
    known = _of(*SIZES, *ROWS, "names", "features", "feature_names", "attributes", "lines", "turn_class")(network)
    if network.shapes is None:
        return known
    return {**known, "points": np.concatenate(network.shapes), "sizes": np.array([*map(len, network.shapes)])}


def _roads(
    n_states: int, n_actions: int, horizon: int | None, points: Any = None, sizes: Any = None, **known: Any
) -> RoadNetwork:
    rows = _rows({name: known.pop(name) for name in ROWS})
    known["feature_names"] = tuple(known["feature_names"])
    known["shapes"] = None if points is None else tuple(np.split(points, np.cumsum(sizes)[:-1]))
    lengths = {"names": n_states, "lines": n_states, "shapes": n_states, "turn_class": len(rows)}
    fitting = all(known[name] is None or len(known[name]) == n for name, n in lengths.items())
    whole = points is None or (sizes.sum() == len(points) and sizes.min() >= 0)
    if not (fitting and whole and known["features"].shape == (n_states * n_actions, len(known["feature_names"]))):
        raise ValueError(f"these are not the names, features, turns and lines of {n_states} places")
    return RoadNetwork.restored(n_states, n_actions, rows, horizon, **known)


def _rows(columns: Mapping[str, Any]) -> NDArray[Any]:
    return np.column_stack([columns[name] for name in ROWS])


def _sparse_fields(matrix: Any) -> Mapping[str, Any]:
    return _of("data", "indices", "indptr", "shape")(matrix.tocsr())


def _sparse(data: Any, indices: Any, indptr: Any, shape: list[int]) -> csr_matrix:
    n_rows, n_columns = shape
    whole = indices.dtype.kind == indptr.dtype.kind == "i" and data.ndim == indices.ndim == indptr.ndim == 1
    sizes = len(indptr) == n_rows + 1 and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)
    # scipy looks at the rest of them in compiled code, without asking.
    if not (whole and sizes and np.all(indptr[:-1] <= indptr[1:]) and np.all((indices >= 0) & (indices < n_columns))):
        raise ValueError(f"no sparse matrix of shape {shape} has these rows and columns")
    return csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))


def _generator(state: dict[str, Any]) -> np.random.Generator:
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator


ROWS = ("source", "action", "target", "probability")
SIZES = ("n_states", "n_actions", "horizon")
KINDS: dict[str, Kind] = {
    "float": Kind(float, lambda value: {"text": repr(value)}, lambda text: float(text)),
    "constraint": Kind(Constraint, _text, parse_constraint),
    "event": Kind(Event, _text, parse_event),
    "GridWorld": Kind(GridWorld, _grid_fields, _grid, exact=True),
    "MDP": Kind(MDP, _of(*SIZES, *ROWS, "start", "terminal"), _world),
    "RoadNetwork": Kind(RoadNetwork, _road_fields, _roads),
    "Network": Kind(
        Network,
        _of(*SIZES, *ROWS),
        lambda n_states, n_actions, horizon, **rows: Network(n_states, n_actions, _rows(rows), horizon=horizon),
    ),
    "sparse": Kind(sparray, _sparse_fields, _sparse),
    "sparse matrix": Kind(spmatrix, _sparse_fields, _sparse),
    "StateReward": Kind(StateReward, _of("weights", "n_actions"), StateReward),
    "SparseReward": Kind(SparseReward, _of("matrix", "weights", "n_actions"), SparseReward),
    "LinearReward": Kind(LinearReward, _of("features", "weights"), LinearReward),
    "Record": Kind(Record, Record.as_dict, Record),
    "Trajectory": Kind(Trajectory, _of("states", "actions"), Trajectory),
    "SeedSequence": Kind(np.random.SeedSequence, _of("entropy", "spawn_key"), np.random.SeedSequence),
    "function": Kind(Unsaved, _of("name"), Unsaved),
}
"""What can be stored, in the order in which it is tried; nothing else is ever made from a file."""


# ---- Any value as JSON plus named arrays, and back


class Encoder:
    """Collects arrays while it turns values into JSON; `parts` are in the problem file, and are not repeated."""

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        self.arrays: Arrays = {}
        self._parts = parts or {}
        self._keys: dict[tuple[Any, ...], str] = {}  # of arrays, by their content

    def encode(self, value: Any, name: str) -> Any:
        """The value as JSON; `name` is what the user calls it, and the key of its arrays."""
        if isinstance(value, np.integer | np.floating):
            value = int(value) if isinstance(value, np.integer) else float(value)
        if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, list | tuple):
            return [self.encode(part, f"{name}[{i}]") for i, part in enumerate(value)]
        for part, known in self._parts.items():
            if _same(value, known):
                return {"is": "problem", "part": part}
        if isinstance(value, np.ndarray):
            return {"is": "array", "key": self._key(value, name)}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"is": "dict", "items": self.encode_all(value, name)}
        if isinstance(value, Mapping) and all(isinstance(key, int | np.integer) for key in value):
            return {"is": "numbered", "items": [[int(key), self.encode(part, name)] for key, part in value.items()]}
        if isinstance(value, Mapping):
            raise StorageError(f"{name} is a dictionary with keys that are not text, which cannot be saved.")
        if isinstance(value, NeuralReward):
            return {"is": "NeuralReward", **encode_reward(self, value, name)}
        if isinstance(value, np.random.Generator):
            state = dict(value.bit_generator.state)
            if state["bit_generator"] != "PCG64":
                raise StorageError(f"{name} is a random generator that cannot be saved; give an integer seed.")
            return {"is": "Generator", "state": state}
        if isinstance(value, Options):
            return {"is": type(value).__name__, **self.encode_all(value.chosen(), name)}
        for kind, (type_, fields, _, exact) in KINDS.items():
            if isinstance(value, type_) and (type(value) is type_ or not exact):
                try:
                    stored = fields(value)
                except ValueError as error:
                    raise StorageError(f"{name} cannot be saved, because {error}") from None
                return {"is": kind, **self.encode_all(stored, name)}
        if callable(value):  # left behind
            return {"is": "function", "name": getattr(value, "__qualname__", type(value).__name__)}
        what = f"a {type(value).__name__}, which cannot be saved: models are arrays and plain settings"
        advice = f"Set {name} to None before saving, and give it again after loading"
        raise StorageError(f"{name} is {what}. {advice}.")

    def encode_all(self, values: Mapping[str, Any], name: str = "") -> dict[str, Any]:
        """Values as JSON by their keys; `name` is what the user calls all of them."""
        return {key: self.encode(value, f"{name}.{key}" if name else key) for key, value in values.items()}

    def _key(self, value: NDArray[Any], name: str) -> str:
        if value.dtype.kind not in "biuf":
            raise StorageError(f"{name} is an array of {value.dtype}, which cannot be saved: use numbers.")
        content = value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest()
        if content not in self._keys:
            key = self._keys[content] = next(name + "'" * n for n in count() if name + "'" * n not in self.arrays)
            self.arrays[key] = np.asarray(value, order="C")  # a single number keeps its shape ()
        return self._keys[content]


def _same(value: Any, known: Any) -> bool:
    """Whether a value is a part of the problem: the same object, or one that is sure to be equal."""
    if value is known or type(value) is not type(known):
        return value is known
    if isinstance(value, np.ndarray):
        return value.dtype == known.dtype and np.array_equal(value, known)
    return isinstance(value, Constraint | dict) and bool(value == known)


class Decoder:
    """The inverse; KeyError, TypeError or ValueError for what does not fit. `module`: a network without its code."""

    def __init__(self, arrays: Arrays, module: Any = None, parts: Mapping[str, Any] | None = None) -> None:
        self.arrays, self._parts = arrays, parts or {}
        self.module, self.module_taken = module, False

    def decode(self, value: Any) -> Any:
        """The value that the JSON stands for."""
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        fields = {key: part for key, part in value.items() if key != "is"}
        name = value["is"]
        if name in SPECIAL:
            return SPECIAL[name](self, fields)
        make = KINDS[name].make if name in KINDS else Options.kinds.get(name)
        if make is None:
            raise ValueError(f"unknown kind of value {name!r}")
        return make(**self.decode_all(fields))

    def decode_all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that JSON stands for, by their keys."""
        return {key: self.decode(value) for key, value in values.items()}


SPECIAL: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "array": lambda decoder, fields: decoder.arrays[fields["key"]],
    "problem": lambda decoder, fields: decoder._parts[fields["part"]],
    "NeuralReward": decode_reward,
    "dict": lambda decoder, fields: decoder.decode_all(fields["items"]),
    "numbered": lambda decoder, fields: {key: decoder.decode(part) for key, part in fields["items"]},
    "Generator": lambda decoder, fields: _generator(fields["state"]),
}
"""Kinds that are more than their fields."""
