"""Settings and learned values as JSON plus named arrays, and back; never pickle.

Plain values stand for themselves. Everything else is an object {"is": kind, ...}; arrays are {"is": "array"} with a
key into the safetensors file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, sparray, spmatrix

from xmen.constraints.constraint import Constraint
from xmen.constraints.text import parse_constraint, parse_event
from xmen.errors import ConstraintError, StorageError
from xmen.events import Event
from xmen.options import Options, Unsaved
from xmen.progress.monitor import Record
from xmen.rewards import LinearReward
from xmen.rewards.features import StateReward
from xmen.rewards.neural import NeuralReward
from xmen.rewards.sparse import SparseReward
from xmen.storage.networks import decode_reward, encode_reward
from xmen.worlds.grid import GridWorld
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network
from xmen.worlds.trajectory import Trajectory

Arrays = dict[str, NDArray[Any]]

WORLD_ARRAYS = ("source", "action", "target", "probability", "start", "terminal")
SPARSE_ARRAYS = ("data", "indices", "indptr")


class Encoder:
    """Collects arrays while it turns values into JSON."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._coded: dict[int, tuple[Any, Any]] = {}  # by identity, with what has to stay alive for it

    def encode(self, value: Any, name: str) -> Any:
        """The value as JSON; `name` is what the user calls it, and the key of its arrays."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return float(value) if math.isfinite(value) else {"is": "float", "text": repr(float(value))}
        if isinstance(value, PurePath):
            return str(value)
        for kind, encode in ENCODERS:
            if isinstance(value, kind):
                coded: Any = encode(self, value, name)
                return coded

        if isinstance(value, NeuralReward):
            return encode_reward(self, value, name)
        raise StorageError(
            f"{name} is a {type(value).__name__}, which cannot be saved: models are arrays and plain settings. "
            f"Set {name} to None before saving, and give it again after loading."
        )

    def encode_once(self, value: Any, as_array: Callable[[Any], NDArray[Any]], name: str) -> Any:
        """`as_array(value)` as JSON; the same object met again is not stored again."""
        if id(value) not in self._coded:
            self._coded[id(value)] = value, self._array(as_array(value), name)
        return self._coded[id(value)][1]

    def _array(self, value: NDArray[Any], name: str) -> Any:
        if value.dtype.kind not in "biuf":
            raise StorageError(f"{name} is an array of {value.dtype}, which cannot be saved: use numbers.")
        key = name
        while key in self.arrays:
            key += "'"
        self.arrays[key] = np.asarray(value, order="C")  # a single number keeps its shape ()
        return {"is": "array", "key": key}

    def _constraint(self, value: Constraint, name: str) -> Any:
        return {"is": "constraint", "text": _text(value, parse_constraint, name)}

    def _event(self, value: Event, name: str) -> Any:
        return {"is": "event", "text": _text(value, parse_event, name)}

    def _grid(self, value: GridWorld, name: str) -> Any:
        if type(value) is not GridWorld:  # what a subclass changed is only in its arrays
            return self._world(value, name)
        return {
            "is": "GridWorld",
            "width": value.width,
            "height": value.height,
            "start": value.start_cell,
            "goal": value.goal_cell,
            "moves": value.moves,
            "walls": sorted(value.walls),
            "horizon": value.horizon,
            "slip": value.slip,
        }

    def _world(self, value: MDP, name: str) -> Any:
        arrays = {field: self.encode(getattr(value, field), f"{name}.{field}") for field in WORLD_ARRAYS}
        sizes = {"n_states": value.n_states, "n_actions": value.n_actions, "horizon": value.horizon}
        return {"is": "MDP", "made_as": type(value).__name__, **sizes, **arrays}

    def _network(self, value: Network, name: str) -> Any:
        arrays = {field: self.encode(getattr(value, field), f"{name}.{field}") for field in WORLD_ARRAYS[:4]}
        sizes = {"n_states": value.n_states, "n_actions": value.n_actions, "horizon": value.horizon}
        return {"is": "Network", **sizes, **arrays}

    def _sparse(self, value: Any, name: str) -> Any:
        matrix = value.tocsr()
        arrays = {field: self._array(getattr(matrix, field), f"{name}.{field}") for field in SPARSE_ARRAYS}
        return {"is": "sparse", "shape": list(matrix.shape), **arrays}

    def _sparse_reward(self, value: SparseReward, name: str) -> Any:
        fields = {field: self.encode(getattr(value, field), f"{name}.{field}") for field in ("matrix", "weights")}
        return {"is": "SparseReward", "n_actions": value.n_actions, **fields}

    def _state_reward(self, value: StateReward, name: str) -> Any:
        return {
            "is": "StateReward",
            "weights": self.encode(value.weights, f"{name}.weights"),
            "n_actions": value.n_actions,
        }

    def _linear_reward(self, value: LinearReward, name: str) -> Any:
        fields = {field: self.encode(getattr(value, field), f"{name}.{field}") for field in ("features", "weights")}
        return {"is": "LinearReward", **fields}

    def _record(self, value: Record, name: str) -> Any:
        return {"is": "Record", **{key: self.encode(part, name) for key, part in value.as_dict().items()}}

    def _trajectory(self, value: Trajectory, name: str) -> Any:
        return {"is": "Trajectory", "states": value.states, "actions": value.actions}

    def _options(self, value: Options, name: str) -> Any:
        kept = {key: Unsaved(_name_of(part)) if callable(part) else part for key, part in value.chosen().items()}
        return {"is": type(value).__name__, **{key: self.encode(part, f"{name}.{key}") for key, part in kept.items()}}

    def _unsaved(self, value: Unsaved, name: str) -> Any:
        return {"is": "function", "name": value.name}

    def _list(self, value: list[Any] | tuple[Any, ...], name: str) -> Any:
        return [self.encode(part, f"{name}[{i}]") for i, part in enumerate(value)]

    def _mapping(self, value: Mapping[Any, Any], name: str) -> Any:
        if value and all(isinstance(key, int | np.integer) for key in value):
            return {"is": "numbered", "items": [[int(key), self.encode(part, name)] for key, part in value.items()]}
        if not all(isinstance(key, str) for key in value):
            raise StorageError(f"{name} is a dictionary with keys that are not text, which cannot be saved.")
        return {"is": "dict", "items": {key: self.encode(part, f"{name}.{key}") for key, part in value.items()}}

    def _seeds(self, value: np.random.SeedSequence, name: str) -> Any:
        return {"is": "SeedSequence", "entropy": value.entropy, "spawn_key": list(value.spawn_key)}

    def _generator(self, value: np.random.Generator, name: str) -> Any:
        state = value.bit_generator.state
        if state["bit_generator"] != "PCG64":
            raise StorageError(f"{name} is a random generator that cannot be saved; give an integer seed.")
        return {"is": "Generator", "state": dict(state)}


ENCODERS: list[tuple[type, Callable[[Encoder, Any, str], Any]]] = [
    (np.ndarray, Encoder._array),
    (Constraint, Encoder._constraint),
    (Event, Encoder._event),
    (GridWorld, Encoder._grid),
    (MDP, Encoder._world),
    (Network, Encoder._network),
    (spmatrix, Encoder._sparse),
    (sparray, Encoder._sparse),
    (StateReward, Encoder._state_reward),
    (SparseReward, Encoder._sparse_reward),
    (LinearReward, Encoder._linear_reward),
    (Record, Encoder._record),
    (Trajectory, Encoder._trajectory),
    (np.random.SeedSequence, Encoder._seeds),
    (np.random.Generator, Encoder._generator),
    (Options, Encoder._options),
    (Unsaved, Encoder._unsaved),
    (list, Encoder._list),
    (tuple, Encoder._list),
    (Mapping, Encoder._mapping),
]


def _text(value: Constraint | Event, parse: Callable[[str], Constraint | Event], name: str) -> str:
    """The text of a constraint or an event, if it reads back as the same."""
    text = str(value)
    try:
        same = str(parse(text)) == text
    except ConstraintError as error:
        raise StorageError(
            f"{name} cannot be saved, because it has no text form: {error}\n"
            "Build it from events and constraints other than when(...) and monitor(...)."
        ) from None
    if not same:
        raise StorageError(f"{name} cannot be saved: its text `{text}` does not read back as the same.")
    return text


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


class Decoder:
    """The inverse, given the arrays. Whatever does not fit raises KeyError, TypeError or ValueError.

    `module` is the network of a neural reward whose code was not saved.
    """

    def __init__(self, arrays: Arrays, module: Any = None) -> None:
        self.arrays = arrays
        self._module, self.module_taken = module, False

    def take_module(self) -> Any:
        """The module that was given, if any, noting that it has a place."""
        self.module_taken = True
        return self._module

    def decode(self, value: Any) -> Any:
        """The value that the JSON stands for."""
        if isinstance(value, list):
            return [self.decode(part) for part in value]
        if not isinstance(value, dict):
            return value
        decode = DECODERS.get(value["is"])
        if decode is None and value["is"] in Options.kinds:
            fields = {key: self.decode(part) for key, part in value.items() if key != "is"}
            return Options.kinds[value["is"]](**fields)
        if decode is None:
            raise ValueError(f"unknown kind of value {value['is']!r}")
        return decode(self, {key: part for key, part in value.items() if key != "is"})

    def _array(self, fields: dict[str, Any]) -> NDArray[Any]:
        return self.arrays[fields["key"]]

    def _float(self, fields: dict[str, Any]) -> float:
        return float(fields["text"])

    def _constraint(self, fields: dict[str, Any]) -> Constraint:
        return parse_constraint(fields["text"])

    def _event(self, fields: dict[str, Any]) -> Event:
        return parse_event(fields["text"])

    def _neural_reward(self, fields: dict[str, Any]) -> Any:

        return decode_reward(self, fields)

    def _grid(self, fields: dict[str, Any]) -> GridWorld:
        return GridWorld(**fields)

    def _world(self, fields: dict[str, Any]) -> MDP:
        parts = {name: self.decode(fields[name]) for name in WORLD_ARRAYS}
        rows = np.column_stack([parts[name] for name in WORLD_ARRAYS[:4]])
        world = MDP(
            fields["n_states"],
            fields["n_actions"],
            rows,
            parts["start"],
            terminal=np.flatnonzero(parts["terminal"]),
            horizon=fields["horizon"],
        )
        # Dividing by sums that are 1 up to rounding changes last digits: put back what was saved.
        for name in ("probability", "start"):
            if getattr(world, name).shape != parts[name].shape or not np.allclose(getattr(world, name), parts[name]):
                raise ValueError(f"the world's {name} is not what it should be")
            parts[name].flags.writeable = False
            setattr(world, name, parts[name])
        return world

    def _network(self, fields: dict[str, Any]) -> Network:
        rows = np.column_stack([self.decode(fields[name]) for name in WORLD_ARRAYS[:4]])
        return Network(fields["n_states"], fields["n_actions"], rows, horizon=fields["horizon"])

    def _sparse(self, fields: dict[str, Any]) -> csr_matrix:
        return csr_matrix(tuple(self.decode(fields[name]) for name in SPARSE_ARRAYS), shape=tuple(fields["shape"]))

    def _sparse_reward(self, fields: dict[str, Any]) -> SparseReward:
        return SparseReward(self.decode(fields["matrix"]), self.decode(fields["weights"]), fields["n_actions"])

    def _state_reward(self, fields: dict[str, Any]) -> StateReward:
        return StateReward(self.decode(fields["weights"]), fields["n_actions"])

    def _linear_reward(self, fields: dict[str, Any]) -> LinearReward:
        return LinearReward(self.decode(fields["features"]), self.decode(fields["weights"]))

    def _record(self, fields: dict[str, Any]) -> Record:
        return Record(**{key: self.decode(part) for key, part in fields.items()})

    def _trajectory(self, fields: dict[str, Any]) -> Trajectory:
        return Trajectory(fields["states"], fields["actions"])

    def _function(self, fields: dict[str, Any]) -> Unsaved:
        return Unsaved(str(fields["name"]))

    def _dict(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {key: self.decode(part) for key, part in fields["items"].items()}

    def _numbered(self, fields: dict[str, Any]) -> dict[int, Any]:
        return {key: self.decode(part) for key, part in fields["items"]}

    def _seeds(self, fields: dict[str, Any]) -> np.random.SeedSequence:
        return np.random.SeedSequence(fields["entropy"], spawn_key=tuple(fields["spawn_key"]))

    def _generator(self, fields: dict[str, Any]) -> np.random.Generator:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = fields["state"]
        return generator


DECODERS: dict[str, Callable[[Decoder, dict[str, Any]], Any]] = {
    "array": Decoder._array,
    "float": Decoder._float,
    "constraint": Decoder._constraint,
    "event": Decoder._event,
    "NeuralReward": Decoder._neural_reward,
    "GridWorld": Decoder._grid,
    "MDP": Decoder._world,
    "Network": Decoder._network,
    "sparse": Decoder._sparse,
    "SparseReward": Decoder._sparse_reward,
    "StateReward": Decoder._state_reward,
    "LinearReward": Decoder._linear_reward,
    "Record": Decoder._record,
    "Trajectory": Decoder._trajectory,
    "function": Decoder._function,
    "dict": Decoder._dict,
    "numbered": Decoder._numbered,
    "SeedSequence": Decoder._seeds,
    "Generator": Decoder._generator,
}
