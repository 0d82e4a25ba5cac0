"""What notebooks show: small tables of facts. All text is escaped: names in files are text, never HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

LONGEST = 300  # characters of one fact
_LEFT = ' style="text-align: left"'


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A table with one fact per row.

    >>> facts_html("a <model>", {"weights": 3})
    '<table><caption><b>a &lt;model&gt;</b></caption><tr><th style="text-align: left">weights</th><td \
style="text-align: left">3</td></tr></table>'
    """
    rows = "".join(f"<tr><th{_LEFT}>{_text(name)}</th><td{_LEFT}>{_text(one)}</td></tr>" for name, one in facts.items())
    return f"<table><caption><b>{_text(title)}</b></caption>{rows}</table>"


def table_html(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a header."""
    head = "".join(f"<th>{_text(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption><b>{_text(title)}</b></caption><tr>{head}</tr>{body}</table>"


def _text(value: object) -> str:
    text = str(value)
    return escape(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
