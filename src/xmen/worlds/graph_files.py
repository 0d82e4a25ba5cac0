"""Graphs as files: GraphML, packed or not, within the limit on memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from xmen.errors import WorldError, extra_module, foreign_errors
from xmen.files import XML, unpack_whole

__all__ = ["read_graph", "require_graph"]


def require_graph(graph: Any, needed_for: str) -> None:
    """Refuse what is no networkx graph."""
    if not isinstance(graph, extra_module("networkx", needed_for).Graph):
        raise WorldError(f"from_networkx takes a networkx graph, got {type(graph).__name__} {graph!r:.60}")


def read_graph(file: Path, where: str = "") -> Any:
    """The networkx graph in a .graphml, .graphml.gz or .graphml.bz2 file; `where` begins what a message says of it."""
    networkx = extra_module("networkx", 'a world of kind "graphml"')
    with foreign_errors(f"{where or file}: {str(file)!r} is not a GraphML file"):
        return networkx.read_graphml(io.BytesIO(unpack_whole(file, XML)))
