"""A model as one folder with one file, `model.safetensors`: arrays, and JSON with settings, rules as text and history.

It is replaced by one rename, so that there is the old model or the new one. The folder of a model of the command line
holds a problem file as well, which says what both have: the world, the rules, the features and their weights. The model
names it and the files that it names, with their checksums.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xmen.errors import MissingExtraError, NotFittedError, StorageError, XmenError
from xmen.files import as_path, forget_half_written, half_written, not_a_link, write_whole
from xmen.progress import Record
from xmen.rewards import reward_table
from xmen.storage.codec import Decoder, Encoder, read_bytes, read_sealed, sealed_arrays, sha256
from xmen.worlds import MDP, Network

FORMAT = "xmen model"
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
    """The model that was saved at `path`, if its class has been imported: see `xmen.registry.load`.

    `parts_of` reads the parts of the problem file that a model refers to.
    """
    folder = as_path(path, "load(path)")
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise StorageError(f"{folder} {what}: a model is a folder with {MODEL}.")
    document, arrays = read_sealed(_read_own(folder / MODEL), folder / MODEL, FORMAT)
    files = _files(document, folder)
    wrong = [name for name, checksum in files.items() if sha256(_read_own(folder / name)) != checksum]
    if wrong:
        raise StorageError(
            f"{folder / wrong[0]} is damaged, was changed by hand, or is from another model: its checksum is not that "
            f"in {MODEL}."
        )
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
    """The model of a class with these settings and learned values; those that no fit leaves behind are refused.

    Otherwise they would fail later, or answer wrongly.
    """
    model = CLASSES[name](**settings)
    world, reward = settings.get("world"), learned.get("reward_")
    if isinstance(world, MDP | Network) and reward is not None:
        reward_table(reward, world.any_task)
    if (weights := learned.get("weights_")) is not None:
        if not np.array_equal(weights, getattr(reward, "weights", ())):
            raise ValueError("weights_ are not those of reward_")
        of_weights = ("weights_std_", "covariance_", "robust_covariance_")
        shapes = {key: np.shape(learned.get(key, weights)) for key in of_weights}
        shapes["features"] = getattr(settings.get("features"), "shape", weights.shape)[-1:]
        for key, shape in shapes.items():
            if {*shape} != {len(weights)}:
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
        raise StorageError(
            f"{folder} holds a {there}, and this is a {name}: it is not overwritten. Choose another path, or remove "
            "what is there."
        )
