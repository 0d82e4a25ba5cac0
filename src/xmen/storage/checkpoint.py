"""The whole state of a run in one file, written so that a crash leaves the old or the new one, never half of one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from xmen.errors import StorageError
from xmen.progress.monitor import Record
from xmen.storage.codec import Decoder, Encoder
from xmen.storage.models import pack_arrays, read_document, unpack_arrays, write_file

FORMAT = "xmen checkpoint"
FORMAT_VERSION = 1
DOCUMENT = "document"  # the array that holds the JSON, as bytes: one file, replaced at once

State = TypeVar("State", bound=tuple[Any, ...])


class Checkpoint:
    """Stores a run's state every `every` iterations; `identity` says what run it is, and has to match to go on."""

    def __init__(self, path: str | os.PathLike[str], every: int, resume: bool, identity: Mapping[str, Any]) -> None:
        self.file, self.every, self.resume = Path(path), every, resume
        self.identity = {name: digest(value, name) for name, value in identity.items()}

    def due(self, iteration: int) -> bool:
        """Whether this iteration is one to store."""
        return iteration % self.every == 0

    def save(self, state: tuple[Any, ...], history: list[Record]) -> None:
        """Replace the stored state."""
        encoder = Encoder()
        fields = state._asdict()  # type: ignore[attr-defined]
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "identity": self.identity,
            "state_type": type(state).__name__,
            "state": {name: encoder.encode(value, name) for name, value in fields.items()},
            "history": encoder.encode(history, "history"),
        }
        text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
        try:
            write_file(self.file, pack_arrays({**encoder.arrays, DOCUMENT: text}))
        except OSError as error:
            raise StorageError(f"cannot write the checkpoint {self.file}: {error}") from error

    def load(self, state_type: type[State]) -> tuple[State, list[Record]] | None:
        """The stored state and history to go on from; None when this is a fresh start."""
        if not self.resume or not self.file.exists():
            self._require_ours()
            return None
        document, arrays = self._read()
        self._require_same(document, state_type.__name__)
        try:
            decoder = Decoder(arrays)
            state = state_type(**{name: decoder.decode(value) for name, value in document["state"].items()})
            history = decoder.decode(document["history"])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{self.file} is damaged: {type(error).__name__}: {error}") from error
        return state, history

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise StorageError(f"the checkpoint {self.file} cannot be read: {error.strerror}.") from None
        arrays = unpack_arrays(data, self.file)
        if DOCUMENT not in arrays:
            raise StorageError(f"{self.file} was not written by xmen: it does not say that it is an {FORMAT}.")
        return read_document(arrays.pop(DOCUMENT).tobytes(), self.file, FORMAT, FORMAT_VERSION), arrays

    def _require_ours(self) -> None:
        """Refuse to replace a file that is not a checkpoint, before any work is done."""
        if self.file.exists():
            try:
                self._read()
            except StorageError as error:
                raise StorageError(f"the checkpoint would replace a file that is none: {error}") from None
        elif not self.file.parent.is_dir():
            raise StorageError(
                f"cannot write the checkpoint {self.file}: the folder {self.file.parent} does not exist."
            )

    def _require_same(self, document: dict[str, Any], state_type: str) -> None:
        stored = document.get("identity")
        stored = stored if isinstance(stored, dict) else {}
        other = sorted(k for k in {*stored, *self.identity} if stored.get(k) != self.identity.get(k))
        if other or document.get("state_type") != state_type:
            raise StorageError(
                f"{self.file} is a checkpoint of another run: {', '.join(other) or 'the method'} differ. Resume with "
                "the same settings and demonstrations, or choose another checkpoint path."
            )


def digest(value: Any, name: str) -> str:
    """A fingerprint of any setting: equal for equal values."""
    encoder = Encoder()
    try:
        text = json.dumps(encoder.encode(value, name), sort_keys=True)
    except StorageError:
        text = str(value)  # no stored form: its text is the best there is
    hasher = hashlib.sha256(text.encode())
    for key in sorted(encoder.arrays):
        array = encoder.arrays[key]
        hasher.update(f"{key} {array.dtype} {array.shape}".encode() + array.tobytes())
    return hasher.hexdigest()[:16]
