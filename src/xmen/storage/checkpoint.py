"""The whole state of a run in one file, written so that a crash leaves the old or the new one, never half of one."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from xmen.errors import StorageError
from xmen.files import write_whole
from xmen.progress import Record
from xmen.storage.codec import Arrays, Decoder, Encoder, read_bytes, read_sealed, sealed_arrays
from xmen.storage.models import FOREIGN, checked_history

FORMAT = "xmen checkpoint"


@dataclass(frozen=True)
class RunState:
    """Where a run stands: a record of arrays, numbers and plain dictionaries, which can be stored."""


State = TypeVar("State", bound=RunState)


class Checkpoint:
    """Stores a run's state every `every` iterations; `identity` says what run it is, and has to match to go on."""

    def __init__(self, path: str | os.PathLike[str], every: int, resume: bool, identity: Mapping[str, Any]) -> None:
        self.file, self.every, self.resume = Path(path), every, resume
        self.identity = {name: digest(value, name) for name, value in identity.items()}

    def due(self, iteration: int) -> bool:
        """Whether this iteration is one to store."""
        return iteration % self.every == 0

    def save(self, state: RunState, history: list[Record]) -> None:
        """Replace the stored state."""
        encoder, about = Encoder(), {"format": FORMAT, "identity": self.identity, "state_type": type(state).__name__}
        parts = {  # a state inside a state is the list of its parts
            name: list(vars(value).values()) if isinstance(value, RunState) else value
            for name, value in vars(state).items()
        }
        document = about | encoder.encode_all({"history": history}) | {"state": encoder.encode_all(parts)}
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
        try:
            decoder = Decoder(arrays)
            return state_type(**decoder.decode_all(document["state"])), checked_history(
                decoder.decode(document["history"])
            )
        except FOREIGN as error:
            raise self.misfit(error) from error

    def misfit(self, error: Exception) -> StorageError:
        """The refusal of a stored state at which no run of this version was ever, with what to do."""
        return StorageError(
            f"{self.file} is damaged, or from another version of xmen ({type(error).__name__}: {error}): start the fit "
            "anew, without resume; a model that was saved can be loaded and fitted on with warm_start=True."
        )

    def _require_ours(self) -> None:
        """Refuse to replace a file that is not a checkpoint, before any work is done."""
        if self.file.exists():
            try:
                read_checkpoint(self.file, whole=False)
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
            planned = ", by which this method plans its steps," if other == ["max_iter"] else ""
            raise StorageError(
                f"{self.file} is a checkpoint of another run: {', '.join(other) or 'the method'}{planned} differ. "
                "Resume with the same settings and demonstrations, start the fit anew, or choose another path."
            )


def read_checkpoint(file: Path, whole: bool = True) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of a checkpoint; if `whole`, only with the right checksum."""
    return read_sealed(read_bytes(file, "the checkpoint "), file, FORMAT, whole)


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
