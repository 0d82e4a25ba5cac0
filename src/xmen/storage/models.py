"""A model as one folder: `model.json` (settings, constraint as text, history) and `arrays.safetensors`, no pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from xmen import __version__
from xmen.errors import MissingExtraError, NotFittedError, StorageError, XmenError
from xmen.storage.codec import Arrays, Decoder, Encoder

FORMAT = "xmen model"
FORMAT_VERSION = 1
MODEL, ARRAYS = "model.json", "arrays.safetensors"
NOT_SAVED = ("callback",)  # settings that are functions: None after loading

Kind = TypeVar("Kind", bound=type)
Maker = TypeVar("Maker", bound=Callable[..., Any])

KINDS: dict[str, Any] = {}
"""The classes that a model may be of, by name: nothing else is ever made by `load`."""


def storable(kind: Kind) -> Kind:
    """Mark a learner as one whose models can be saved; those of its subclasses cannot."""
    KINDS[kind.__name__] = kind
    return kind


def restores(name: str) -> Callable[[Maker], Maker]:
    """Mark the function that makes a model of this class from the settings that `write_model` was given."""

    def mark(maker: Maker) -> Maker:
        KINDS[name] = maker
        return maker

    return mark


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as a folder, exactly at `path`; replaces an earlier model there and nothing else."""
    name, folder = type(model).__name__, Path(path)
    if KINDS.get(name) is not type(model):
        raise StorageError(f"{name} is not one of the learners that can be saved: {', '.join(KINDS)}.")
    learned = {key: value for key, value in vars(model).items() if key.endswith("_") and not key.startswith("_")}
    if "reward_" not in learned:
        raise NotFittedError(f"this {name} has not learned anything yet, so there is nothing to save: call fit first.")
    settings = {key: value for key, value in model.get_params(deep=False).items() if key not in NOT_SAVED}
    write_model(folder, name, settings, learned)


def write_model(path: str | os.PathLike[str], name: str, settings: dict[str, Any], learned: dict[str, Any]) -> None:
    """Write what `load` makes a model from: KINDS[name](**settings), which then gets the learned values."""
    folder = Path(path)
    _require_free(folder)
    encoder = Encoder()
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"xmen": __version__, "numpy": np.__version__},
        "class": name,
        "settings": {key: encoder.encode(_as_plain(value), key) for key, value in settings.items()},
        "learned": {key: encoder.encode(value, key) for key, value in learned.items()},
    }
    data = pack_arrays(encoder.arrays)
    document["arrays_sha256"] = hashlib.sha256(data).hexdigest()
    _write_folder(folder, {MODEL: json.dumps(document, indent=1).encode(), ARRAYS: data})


def load_model(path: str | os.PathLike[str], module: Any = None) -> Any:
    """The model that was saved at `path`, if its class has been imported: see `xmen.registry.load`."""
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}: a model is a folder with {MODEL} and {ARRAYS}.")
    document = read_document(_read(folder / MODEL), folder / MODEL, FORMAT, FORMAT_VERSION)
    data = _read(folder / ARRAYS)
    if hashlib.sha256(data).hexdigest() != document.get("arrays_sha256"):
        raise StorageError(f"{folder / ARRAYS} is damaged, or from another model: its checksum is not that in {MODEL}.")
    arrays = unpack_arrays(data, folder / ARRAYS)
    name = document.get("class")
    if name not in KINDS:
        raise StorageError(f"{folder / MODEL}: unknown class {name!r}; known are {', '.join(KINDS)}.")
    try:
        decoder = Decoder(arrays, module)
        settings = {key: decoder.decode(value) for key, value in document["settings"].items()}
        learned = {key: decoder.decode(value) for key, value in document["learned"].items()}
        # A class whose settings had other names before reads those itself.
        model = getattr(KINDS[name], "from_settings", KINDS[name])(**settings)
    except (StorageError, MissingExtraError):
        raise
    except (XmenError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StorageError(f"{folder / MODEL} is damaged: {type(error).__name__}: {error}") from error
    if module is not None and not decoder.module_taken:
        raise StorageError(f"{folder} has no neural reward: leave out module={type(module).__name__}.")
    vars(model).update(learned)
    return model


def pack_arrays(arrays: Arrays, metadata: dict[str, str] | None = None) -> bytes:
    """The arrays in the safetensors format."""

    data: bytes = to_bytes(arrays, metadata=metadata)
    return data


def unpack_arrays(data: bytes, file: Path) -> Arrays:
    """The arrays of a safetensors file, or a StorageError."""

    try:
        arrays: Arrays = {key: np.array(value) for key, value in from_bytes(data).items()}
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{file} is damaged, or not a safetensors file: {error}") from error
    return arrays


def read_document(text: bytes, file: Path, kind: str, version: int) -> dict[str, Any]:
    """The JSON object, if it is of this kind and not newer than `version`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{file} is damaged, or not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("format") != kind:
        raise StorageError(f"{file} was not written by xmen: it does not say that it is an {kind}.")
    found = document.get("format_version")
    if type(found) is not int or found < 1:
        raise StorageError(f"{file} is damaged: its format_version is {found!r}, not a whole number.")
    if found > version:
        written = document.get("versions", {})
        by = written.get("xmen", "a newer version") if isinstance(written, dict) else "a newer version"
        raise StorageError(
            f"{file} has format version {found}, written by xmen {by}; this xmen reads up to {version}: upgrade xmen."
        )
    return document


def write_file(file: Path, data: bytes) -> None:
    """Write so that a crash leaves either the old file or the new one, never half of one."""
    scratch = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with scratch.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(scratch, file)


def _as_plain(value: Any) -> Any:
    """Nested lists of numbers, as features may be given, become arrays, functions a word on them; the rest stays."""
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__name__)
        return f"{name}, a function that was not saved"  # `fit` will say that it does not know this
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        array = np.asarray(value)
        return array if array.dtype.kind in "biuf" else value
    return value


def _require_free(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        try:
            document = read_document((folder / MODEL).read_bytes(), folder / MODEL, FORMAT, FORMAT_VERSION)
        except (OSError, StorageError):
            document = None
        strangers = sorted({entry.name for entry in folder.iterdir()} - {MODEL, ARRAYS}) if folder.is_dir() else []
        if document is None or strangers:
            holds = f"holds {', '.join(strangers[:3])}" if strangers else "is not an xmen model"
            raise StorageError(f"{folder} already exists and {holds}: it is not overwritten. Choose another path.")
    if not folder.parent.is_dir():
        raise StorageError(f"cannot save to {folder}: the folder {folder.parent} does not exist.")


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """All files or none: they are written next to the folder, which is then put in place by renaming."""
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        scratch.mkdir()
        for name, data in files.items():
            write_file(scratch / name, data)
        if folder.exists():
            os.replace(folder, old)
        os.replace(scratch, folder)
    except OSError as error:
        raise StorageError(f"cannot save to {folder}: {error}") from error
    finally:
        for leftover in (scratch, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise StorageError(f"{file} cannot be read ({error.strerror}): a model is {MODEL} and {ARRAYS}.") from None
