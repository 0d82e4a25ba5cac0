"""One checksum over everything in a file: JSON, or arrays with JSON among them.

The checksum stands in the file itself, under the name sha256, and is taken with zeros in its place.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from xmen import __version__
from xmen.errors import StorageError

Arrays = dict[str, NDArray[Any]]

DOCUMENT = "document"  # the array that holds the JSON, as bytes
FORMAT_VERSION = 3  # of models and checkpoints; no earlier one was ever released
_ZEROS = "0" * 64
_SEAL = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')


def sha256(data: bytes) -> str:
    """The checksum of a file beside the sealed one."""
    return hashlib.sha256(data).hexdigest()


def sealed_json(document: dict[str, Any]) -> bytes:
    """The document as JSON with its checksum."""
    return seal(json.dumps({"sha256": _ZEROS, **document}, indent=1).encode())


def sealed_arrays(arrays: Arrays, document: dict[str, Any]) -> bytes:
    """Arrays and a document as one safetensors file with its checksum."""
    versions = {"xmen": __version__, "numpy": np.__version__}
    about = {"format_version": FORMAT_VERSION, "versions": versions, **document}
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    return seal(save({**arrays, DOCUMENT: text}, metadata={"sha256": _ZEROS}))


def seal(data: bytes) -> bytes:
    """The same with the checksum in the place that is kept for it, or that an older one has."""
    place = _SEAL.search(data)
    assert place is not None
    blank = data[: place.start(1)] + _ZEROS.encode() + data[place.end(1) :]
    return data[: place.start(1)] + sha256(blank).encode() + data[place.end(1) :]


def check_seal(data: bytes, file: Path) -> None:
    """Raise StorageError unless the checksum is that of the rest."""
    if _SEAL.search(data) is None or seal(data) != data:
        raise StorageError(f"{file} is damaged, or was changed by hand: its checksum is not that of its content.")


def unpack_arrays(data: bytes, file: Path) -> Arrays:
    """The arrays of a safetensors file, or a StorageError."""
    try:
        return {key: np.array(value) for key, value in load(data).items()}
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(f"{file} is damaged, or not a safetensors file: {error}") from error


def read_sealed(data: bytes, file: Path, kind: str, whole: bool = True) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a file of this kind; if `whole`, only with the right checksum."""
    arrays = unpack_arrays(data, file)
    try:
        document = json.loads(arrays.pop(DOCUMENT, np.zeros(0, np.uint8)).tobytes() or b"{}")
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{file} is damaged: {error}") from None
    if not isinstance(document, dict) or document.get("format") != kind:
        raise StorageError(f"{file} was not written by xmen: it does not say that it is an {kind}.")
    found, versions = document.get("format_version"), document.get("versions")
    if found != FORMAT_VERSION:
        by = versions.get("xmen", "?") if isinstance(versions, dict) else "?"
        advice = "upgrade xmen" if isinstance(found, int) and found > FORMAT_VERSION else "make it again"
        raise StorageError(
            f"{file} has format version {found!r:.60}, written by xmen {by!s:.60}; this xmen reads version "
            f"{FORMAT_VERSION}: {advice}."
        )
    if whole:
        check_seal(data, file)
    return document, arrays
