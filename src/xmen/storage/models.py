"""A model as one folder with one file, `model.safetensors`: arrays, and JSON with settings, rules as text and history.

It is replaced by one rename, so that there is the old model or the new one. The folder of a model of the command line
holds a problem file as well, which says what both have: the world, the rules, the features and their weights. The model
names it and the files that it names, with their checksums.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xmen.errors import MissingExtraError, NotFittedError, StorageError, XmenError
from xmen.files import as_path, forget_half_written, half_written, not_a_link, write_whole
from xmen.progress import Record
from xmen.rewards import reward_table
from xmen.storage.codec import Arrays, Decoder, Encoder, read_bytes, read_sealed, sealed_arrays, sha256
from xmen.worlds import MDP, Network

FORMAT, CHECKPOINT_FORMAT = "xmen model", "xmen checkpoint"
MODEL, PROBLEM = "model.safetensors", "problem.toml"
NOT_SAVED = ("callback", "validation")  # a function, and demonstrations: None after loading
FOREIGN = (XmenError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
"""What code raises when it is given values that no model has: taken as a sign of a damaged file."""

Maker = TypeVar("Maker", bound=Callable[..., Any])
Parts = Mapping[str, Any]

CLASSES: dict[str, Any] = {}
"""The classes that a model may be of, by name: nothing else is ever made by `load`."""


def storable(maker: Maker, name: str = "") -> Maker:
    """Mark a learner (not its subclasses), or a function of saved settings, as the maker of models of its `name`."""
    CLASSES[name or maker.__name__] = maker
    return maker


def content(model: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The class of a fitted model, its settings, and what it has learned."""
    name = type(model).__name__
    if CLASSES.get(name) is not type(model):
        raise StorageError(f"{name} is not one of the learners that can be saved: {', '.join(CLASSES)}.")
    learned = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    if "reward_" not in learned:
        raise NotFittedError(f"this {name} has not learned anything yet, so there is nothing to save: call fit first.")
    return name, {key: value for key, value in model.get_params(deep=False).items() if key not in NOT_SAVED}, learned


def write_model(
    path: str | os.PathLike[str],
    name: str,
    settings: Parts,
    learned: Parts,
    files: Mapping[str, bytes] | None = None,
    parts: Parts | None = None,
) -> None:
    """Write what `load` makes a model from, CLASSES[name](**settings) and learned values, as the folder `path`.

    It replaces an earlier model of its class and nothing else. Given the `files` of its problem, which say its `parts`,
    it goes beside them, and the folder may hold other things.
    """
    folder, encoder = as_path(path, "save(path)"), Encoder(parts)
    if files is None:
        _require_free(folder, name)
    document = {
        "format": FORMAT,
        "class": name,
        "files": {file: sha256(data) for file, data in (files or {}).items()},
        "settings": encoder.encode_all(settings),
        "learned": encoder.encode_all(learned),
    }
    made = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        forget_half_written(folder)
        write_whole(not_a_link(folder / MODEL), sealed_arrays(encoder.arrays, document))
    except OSError as error:
        raise StorageError(f"cannot save to {folder}: {error}") from error
    finally:
        if made and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def load_model(path: str | os.PathLike[str], module: Any, parts_of: Callable[[Path], Parts]) -> Any:
    """The model that was saved at `path`, of an imported class; `parts_of` reads the problem file that it refers to."""
    folder = as_path(path, "load(path)")
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}: a model is a folder with {MODEL}.")
    document, arrays = read_sealed(_read_own(folder / MODEL), folder / MODEL, FORMAT)
    files = _files(document, folder)
    for file, checksum in files.items():
        if sha256(_read_own(folder / file)) != checksum:
            why = f"its checksum is not that in {MODEL}"
            raise StorageError(f"{folder / file} is damaged, was changed by hand, or is from another model: {why}.")
    name = document.get("class")
    if not isinstance(name, str) or name not in CLASSES:
        raise StorageError(f"{folder / MODEL}: unknown class {name!r}; known are {', '.join(CLASSES)}.")
    try:
        problems = [folder / name for name in files if name.endswith(".toml")]
        decoder = Decoder(arrays, module, parts_of(problems[0]) if problems else {})
        model = make(name, decoder.decode_all(document["settings"]), decoder.decode_all(document["learned"]))
    except (StorageError, MissingExtraError):
        raise
    except FOREIGN as error:
        raise StorageError(f"{folder / MODEL} is damaged: {type(error).__name__}: {error}") from error
    if module is not None and not decoder.module_taken:
        raise StorageError(f"{folder} has no neural reward: leave out module={type(module).__name__}.")
    return model


def make(name: str, settings: dict[str, Any], learned: dict[str, Any]) -> Any:
    """The model of a class with these settings and learned values; refused where no fit leaves such values behind."""
    model = CLASSES[name](**settings)
    world, reward = settings.get("world"), learned.get("reward_")
    if isinstance(world, MDP | Network):
        reward_table(reward, world.any_task)
    if (weights := learned.get("weights_")) is not None:
        if not np.array_equal(weights, getattr(reward, "weights", ())):
            raise ValueError("weights_ are not those of reward_")
        of_weights: list[str] = [key for key in learned if key.endswith(("weights_std_", "covariance_"))]
        shapes, n_rules = {key: np.shape(learned[key]) for key in of_weights}, len(learned.get("rule_weights_", ()))
        shapes["features"] = getattr(settings.get("features"), "shape", weights.shape)[-1:]
        for key, shape in shapes.items():
            if {*shape} != {len(weights) + (0 if key == "features" else n_rules)}:
                raise ValueError(f"{key} has the shape {shape}, and there are {len(weights)} weights")
    checked_history(learned.get("history_", []))
    for key, kind in (("n_iter_", int), ("converged_", bool)):
        if type(learned.get(key, kind())) is not kind:
            raise TypeError(f"{key} is {learned[key]!r}")
    getattr(model, "_check_settings", lambda: None)()  # as `fit` does: nothing else would, before it answers
    vars(model).update(learned)
    return model


def checked_history(history: Any) -> list[Record]:
    """The history, if it is a list of records with their numbers."""
    names = ("iteration", "loss", "gradient_norm", "seconds", "loss_std", "gradient_std")
    records = isinstance(history, list) and all(isinstance(one, Record) for one in history)
    if not records or not all(isinstance(getattr(one, name), int | float) for one in history for name in names):
        raise TypeError("the history is a list of records")
    return list(history)


def _read_own(file: Path) -> bytes:
    return read_bytes(not_a_link(file), hint=f": a model is a folder with {MODEL}")


def _files(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The checksums of the files beside the model, which lie in its folder."""
    files = document.get("files", {})
    if not isinstance(files, dict) or not all(Path(name).name == name != ".." for name in files):
        raise StorageError(f"{folder / MODEL} is damaged: its files are {files!r:.60}.")
    return files


def model_in(folder: Path) -> tuple[str, dict[str, Any]]:
    """The class of the model in a folder, and the checksums of the files beside it, the problem last; or nothing."""
    try:
        document = read_sealed(_read_own(folder / MODEL), folder / MODEL, FORMAT, whole=False)[0]
    except StorageError:
        return "", {}
    return str(document.get("class")), _files(document, folder)


def _require_free(folder: Path, name: str) -> None:
    """Refuse a place that holds anything but a model of this class."""
    if not folder.parent.is_dir():
        raise StorageError(f"cannot save to {folder}: the folder {folder.parent} does not exist.")
    inside = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    strangers = sorted(other for other in inside - {MODEL} if not half_written(other))
    if not strangers and MODEL not in inside and (folder.is_dir() or not os.path.lexists(folder)):
        return
    there, _ = model_in(folder)
    if strangers or not there:
        holds = f"holds {', '.join(strangers[:3])}" if strangers else "is not an xmen model"
        raise StorageError(f"{folder} already exists and {holds}: it is not overwritten. Choose another path.")
    if there != name:
        holds = f"holds a {there}, and this is a {name}"
        raise StorageError(f"{folder} {holds}: it is not overwritten. Choose another path, or remove what is there.")


# ---- Checkpoints: the whole state of a run in one file. A crash leaves the old or the new one, never half of one.


@dataclass(frozen=True)
class RunState:
    """Where a run stands: a record of arrays, numbers and plain dictionaries, which can be stored."""


State = TypeVar("State", bound=RunState)


class Checkpoint:
    """Stores a run's state every `every` iterations; `identity` says what run it is, and has to match to go on."""

    def __init__(self, path: str | os.PathLike[str], every: int, resume: bool, identity: Mapping[str, Any]) -> None:
        self.file, self.every, self.resume = Path(path), every, resume
        self.identity = {name: digest(value, name) for name, value in identity.items()}

    def save(self, state: RunState, history: list[Record]) -> None:
        """Replace the stored state."""
        encoder = Encoder()
        parts = dict(vars(state))
        for name in [name for name, value in parts.items() if isinstance(value, RunState)]:
            parts[name] = list(vars(parts[name]).values())  # a state inside a state is the list of its parts
        document = {"format": CHECKPOINT_FORMAT, "identity": self.identity, "state_type": type(state).__name__}
        document |= {"state": encoder.encode_all(parts), **encoder.encode_all({"history": history})}
        try:
            write_whole(self.file, sealed_arrays(encoder.arrays, document))
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint {self.file}: {error}") from error

    def load(self, state_type: type[State]) -> tuple[State, list[Record]] | None:
        """The stored state and history to go on from; None when this is a fresh start."""
        if not self.resume or not self.file.exists():
            self._require_ours()
            return None
        document, arrays = read_checkpoint(self.file)
        self._require_same(document, state_type.__name__)
        decoder = Decoder(arrays)
        try:
            history = checked_history(decoder.decode(document["history"]))
            return state_type(**decoder.decode_all(document["state"])), history
        except FOREIGN as error:
            raise self.misfit(error) from error

    def misfit(self, error: Exception) -> StorageError:
        """The refusal of a stored state at which no run of this version was ever, with what to do."""
        fault = f"is damaged, or from another version of xmen ({type(error).__name__}: {error})"
        saved = "a model that was saved can be loaded and fitted on with warm_start=True"
        return StorageError(f"{self.file} {fault}: start the fit anew, without resume; {saved}.")

    def _require_ours(self) -> None:
        """Refuse to replace a file that is not a checkpoint, before any work is done."""
        if self.file.exists():
            try:
                read_checkpoint(self.file, whole=False)
            except StorageError as error:
                raise StorageError(f"the checkpoint would replace a file that is none: {error}") from None
        elif not (folder := self.file.parent).is_dir():
            raise StorageError(f"cannot write the checkpoint {self.file}: the folder {folder} does not exist.")

    def _require_same(self, document: dict[str, Any], state_type: str) -> None:
        stored = document["identity"] if isinstance(document.get("identity"), dict) else {}
        other = sorted(k for k in {*stored, *self.identity} if stored.get(k) != self.identity.get(k))
        if other or document.get("state_type") != state_type:
            planned = ", by which this method plans its steps," if other == ["max_iter"] else ""
            differ = f"is a checkpoint of another run: {', '.join(other) or 'the method'}{planned} differ"
            advice = "Resume with the same settings and demonstrations, start the fit anew, or choose another path"
            raise StorageError(f"{self.file} {differ}. {advice}.")


def read_checkpoint(file: Path, whole: bool = True) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a checkpoint; if `whole`, only with the right checksum."""
    return read_sealed(read_bytes(file, "the checkpoint "), file, CHECKPOINT_FORMAT, whole)


def digest(value: Any, name: str) -> str:
    """A fingerprint of any setting: equal for equal values."""
    encoder = Encoder()
    try:
        text = json.dumps(encoder.encode(value, name), sort_keys=True)
    except StorageError:
        text = str(value)  # no stored form: its text is the best there is
    arrays = sorted(encoder.arrays.items())
    stored = [f"{key} {array.dtype} {array.shape}".encode() + array.tobytes() for key, array in arrays]
    return sha256(b"".join([text.encode(), *stored]))[:16]
