"""What the package index shows: the README, whose links lead somewhere from any page.

An index page has no neighbours, so a link to `docs/cli.md` would lead nowhere there. With a `Source` address in
[project.urls] such links become absolute ones; without it they become plain text, and pictures go.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<target>(?!https?://)[^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>(?!https?://|#|mailto:)[^)\s]+)\)")
_PICTURE_AND_CAPTION = re.compile(_PICTURE.pattern + r"\n\n\*[^*]*\*\n+")


def index_page(readme: str, source: str | None) -> str:
    """The README for an index page; `source` is the address of the repository's files, or None."""
    if source is None:
        return _LINK.sub(lambda link: link["text"], _PICTURE.sub("", _PICTURE_AND_CAPTION.sub("", readme)))
    base = source.rstrip("/")
    pictures = _PICTURE.sub(lambda link: f"![{link['text']}]({base}/raw/main/{link['target']})", readme)
    return _LINK.sub(lambda link: f"[{link['text']}]({base}/blob/main/{link['target']})", pictures)


class CustomMetadataHook(MetadataHookInterface):
    """Sets the long description when wheel and sdist are built."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the page into the metadata."""
        project = tomllib.loads(Path(self.root, "pyproject.toml").read_text("utf-8"))["project"]
        readme = Path(self.root, "README.md").read_text("utf-8")
        page = index_page(readme, project.get("urls", {}).get("Source"))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}
