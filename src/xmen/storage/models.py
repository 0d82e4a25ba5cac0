"""A model as one folder: `model.json` (settings, constraint as text, history) and `arrays.safetensors`, no pickle.

`model.json` has the checksum of every other file of the model, and one of its own. All of them are put in place by one
rename. The folder of a model of the command line holds a problem file as well, and the model refers to it for what both
have: the world, the rules, the features and their weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import save as save_arrays

from xmen import __version__
from xmen.errors import FileFormatError, MissingExtraError, NotFittedError, StorageError, XmenError
from xmen.files import NUMBERS, as_path, half_written, read_whole, settle, write_together
from xmen.progress.monitor import Record
from xmen.rewards import reward_table
from xmen.storage.codec import Decoder, Encoder
from xmen.storage.sealing import check_seal, read_document, sealed_json, sha256, unpack_arrays
from xmen.worlds.mdp import MDP

FORMAT = "xmen model"
FORMAT_VERSION = 2  # in version 1 the checksum was that of the arrays alone
MODEL, ARRAYS, PROBLEM = "model.json", "arrays.safetensors", "problem.toml"
NOT_SAVED = ("callback", "validation")  # a function, and demonstrations: None after loading
ATTEMPTS = 3  # at reading a folder into which another process is saving
FOREIGN = (XmenError, KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
"""What code raises when it is given values that no model has: taken as a sign of a damaged file."""

Class = TypeVar("Class", bound=type)
Maker = TypeVar("Maker", bound=Callable[..., Any])
Parts = Mapping[str, Any]

CLASSES: dict[str, Any] = {}
"""The classes that a model may be of, by name: nothing else is ever made by `load`."""


def storable(kind: Class) -> Class:
    """Mark a learner as one whose models can be saved; those of its subclasses cannot."""
    CLASSES[kind.__name__] = kind
    return kind


def restores(name: str) -> Callable[[Maker], Maker]:
    """Mark the function that makes a model of this class from the settings that `write_model` was given."""

    def mark(maker: Maker) -> Maker:
        CLASSES[name] = maker
        return maker

    return mark


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as a folder, exactly at `path`; replaces an earlier one of its class and nothing else."""
    write_model(path, *content(model))


def save_with_problem(model: Any, folder: Path, files: Mapping[str, bytes], parts: Parts) -> None:
    """Write a fitted model and its problem into a folder that may hold other things; `parts` are in the files."""
    _write(folder, *content(model), files, parts)


def content(model: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The class of a fitted model, its settings, and what it has learned."""
    name = type(model).__name__
    if CLASSES.get(name) is not type(model):
        raise StorageError(f"{name} is not one of the learners that can be saved: {', '.join(CLASSES)}.")
    learned = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    if "reward_" not in learned:
        raise NotFittedError(f"this {name} has not learned anything yet, so there is nothing to save: call fit first.")
    return name, {key: value for key, value in model.get_params(deep=False).items() if key not in NOT_SAVED}, learned


def write_model(path: str | os.PathLike[str], name: str, settings: dict[str, Any], learned: dict[str, Any]) -> None:
    """Write what `load` makes a model from: CLASSES[name](**settings), which then gets the learned values."""
    folder = as_path(path, "save(path)")
    _require_free(folder, name)
    _write(folder, name, settings, learned, {}, {})


def _write(
    folder: Path,
    name: str,
    settings: dict[str, Any],
    learned: dict[str, Any],
    beside: Mapping[str, bytes],
    parts: Parts,
) -> None:
    encoder = Encoder(parts)
    settings = {key: encoder.encode(_as_plain(value), key) for key, value in settings.items()}
    learned = {key: encoder.encode(value, key) for key, value in learned.items()}
    files = {ARRAYS: save_arrays(encoder.arrays), **beside}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"xmen": __version__, "numpy": np.__version__},
        "class": name,
        "files": {file: sha256(data) for file, data in files.items()},
        "settings": settings,
        "learned": learned,
    }
    made = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        settle(folder)
        write_together(folder, {**files, MODEL: sealed_json(document)}, instead_of=_files(folder))
    except OSError as error:
        raise StorageError(f"cannot save to {folder}: {error}") from error
    finally:
        if made and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def load_model(path: str | os.PathLike[str], module: Any, parts_of: Callable[[Path], Parts]) -> Any:
    """The model that was saved at `path`, if its class has been imported: see `xmen.registry.load`.

    `parts_of` reads the parts of the problem file that a model refers to.
    """
    folder = as_path(path, "load(path)")
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}: a model is a folder with {MODEL} and {ARRAYS}.")
    document, arrays = _read_together(folder)
    name = document.get("class")
    if not isinstance(name, str) or name not in CLASSES:
        raise StorageError(f"{folder / MODEL}: unknown class {name!r}; known are {', '.join(CLASSES)}.")
    try:
        parts = parts_of(folder / PROBLEM) if PROBLEM in document.get("files", {}) else {}
        decoder = Decoder(unpack_arrays(arrays, folder / ARRAYS), module, parts)
        settings = {key: decoder.decode(value) for key, value in document["settings"].items()}
        learned = {key: decoder.decode(value) for key, value in document["learned"].items()}
        model = make(name, settings, learned)
    except (StorageError, MissingExtraError):
        raise
    except FOREIGN as error:
        raise StorageError(f"{folder / MODEL} is damaged: {type(error).__name__}: {error}") from error
    if module is not None and not decoder.module_taken:
        raise StorageError(f"{folder} has no neural reward: leave out module={type(module).__name__}.")
    return model


def make(name: str, settings: dict[str, Any], learned: dict[str, Any]) -> Any:
    """The model of a class with these settings, checked, and with what it had learned."""
    # A class whose settings had other names before reads those itself.
    model = getattr(CLASSES[name], "from_settings", CLASSES[name])(**settings)
    _check(settings, learned)
    getattr(model, "_check_settings", lambda: None)()  # as `fit` does: nothing else would, before it answers
    vars(model).update(learned)
    return model


def _check(settings: dict[str, Any], learned: dict[str, Any]) -> None:
    """Refuse learned values that no fit leaves behind; otherwise they would fail later, or answer wrongly."""
    world, reward, history = settings.get("world"), learned.get("reward_"), learned.get("history_", [])
    if isinstance(world, MDP) and reward is not None:
        reward_table(reward, world)
    if "weights_" in learned and not np.array_equal(learned["weights_"], getattr(reward, "weights", ())):
        raise ValueError("weights_ are not those of reward_")
    if not isinstance(history, list) or not all(isinstance(record, Record) for record in history):
        raise TypeError("history_ is a list of records")
    for key, kind in (("n_iter_", int), ("converged_", bool)):
        if type(learned.get(key, kind())) is not kind:
            raise TypeError(f"{key} is {learned[key]!r}")


def _read_together(folder: Path) -> tuple[dict[str, Any], bytes]:
    """`model.json` and the arrays of one and the same save, all checksums right."""
    for attempt in range(ATTEMPTS):
        try:
            settle(folder)
        except OSError as error:
            raise StorageError(f"the last save to {folder} cannot be finished: {error}") from None
        text = _read(folder / MODEL)
        document = read_document(text, folder / MODEL, FORMAT, FORMAT_VERSION)
        data = {ARRAYS: _read(folder / ARRAYS)}
        if document["format_version"] == 1:
            sums: Any = {ARRAYS: document.get("arrays_sha256")}
        else:
            check_seal(text, folder / MODEL)
            sums = document.get("files")
            if not isinstance(sums, dict) or not all(Path(name).name == name for name in sums):
                raise StorageError(f"{folder / MODEL} is damaged: its files are {sums!r:.60}.")
            data |= {name: _read(folder / name) for name in sums if name not in data}
        wrong = [name for name in {*sums, ARRAYS} if name not in data or sha256(data[name]) != sums.get(name)]
        if not wrong:
            return document, data[ARRAYS]
        if attempt == ATTEMPTS - 1:
            raise StorageError(
                f"{folder / min(wrong)} is damaged, was changed by hand, or is from another model: its checksum is not "
                f"that in {MODEL}."
            )
    raise AssertionError


def has_model(folder: Path) -> bool:
    """Whether the folder holds a model of this xmen or an older one, whole or not."""
    try:
        settle(folder)
    except OSError:
        return False
    return bool(_document(folder))


def _document(folder: Path) -> dict[str, Any]:
    """What the model in the folder says of itself now; nothing where there is none."""
    try:
        return read_document(read_whole(folder / MODEL), folder / MODEL, FORMAT, FORMAT_VERSION)
    except (OSError, FileFormatError):
        return {}


def _files(folder: Path) -> list[str]:
    """The files of the model that is in the folder now."""
    named = _document(folder).get("files", {})
    return [name for name in named if Path(name).name == name] if isinstance(named, dict) else []


def _as_plain(value: Any) -> Any:
    """Nested lists of numbers, as features may be given, become arrays, functions a word on them; the rest stays."""
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__name__)
        return f"{name}, a function that was not saved"  # `fit` will say that it does not know this
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else value
    return value


def _require_free(folder: Path, name: str) -> None:
    inside = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    strangers = sorted(name for name in inside - {MODEL, ARRAYS} if not half_written(name))
    if folder.is_dir() and not strangers and not inside & {MODEL, ARRAYS}:
        return
    if (folder.exists() or folder.is_symlink()) and (strangers or not has_model(folder)):
        holds = f"holds {', '.join(strangers[:3])}" if strangers else "is not an xmen model"
        raise StorageError(f"{folder} already exists and {holds}: it is not overwritten. Choose another path.")
    there = _document(folder).get("class", name)
    if there != name:
        raise StorageError(
            f"{folder} holds a {there}, and this is a {name}: it is not overwritten. Choose another path, or remove "
            "what is there."
        )
    if not folder.parent.is_dir():
        raise StorageError(f"cannot save to {folder}: the folder {folder.parent} does not exist.")


def _read(file: Path) -> bytes:
    try:
        return read_whole(file, NUMBERS, StorageError)
    except OSError as error:
        raise StorageError(f"{file} cannot be read ({error.strerror}): a model is {MODEL} and {ARRAYS}.") from None
