"""Graphs as files: GraphML, packed or not, within the limit on memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from xmen.errors import MissingExtraError, foreign_errors
from xmen.files import XML, unpack_whole

__all__ = ["read_graph"]


def read_graph(file: Path, where: str = "") -> Any:
    """The networkx graph in a .graphml, .graphml.gz or .graphml.bz2 file; `where` begins what a message says of it."""
    try:
        import networkx
    except ImportError:
        raise MissingExtraError("networkx", extra="networkx", needed_for='a world of kind "graphml"') from None
    with foreign_errors(f"{where or file}: {str(file)!r} is not a GraphML file"):
        return networkx.read_graphml(io.BytesIO(unpack_whole(file, XML)))
