"""Files of models changed as one who knows how they are sealed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from xmen.storage.codec import Arrays, read_sealed, sealed_arrays
from xmen.storage.models import FORMAT, MODEL


def opened(folder: Path) -> tuple[dict[str, Any], Arrays]:
    """The document and the arrays of the model in a folder."""
    return read_sealed((Path(folder) / MODEL).read_bytes(), Path(MODEL), FORMAT)


def put(folder: Path, document: dict[str, Any], arrays: Arrays) -> None:
    """Write them back, under the right checksum."""
    (Path(folder) / MODEL).write_bytes(sealed_arrays(arrays, document))


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the document of a model in place."""
    document, arrays = opened(folder)
    change(document)
    put(folder, document, arrays)
