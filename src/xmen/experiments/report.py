"""One self-contained HTML page of all that was reproduced: text, tables, figures, settings, versions, seeds, times.

Whatever depends on how fast the machine was stands between `<!-- times -->` and `<!-- /times -->`; the rest of the
page is the same, byte for byte, for the same seed and versions.
"""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from xmen import __version__
from xmen.experiments.notebook import Findings, Picture, Table
from xmen.files import write_whole

PACKAGES = ("numpy", "scipy", "numba", "pycryptosat", "matplotlib")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1.5rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; } .note, figcaption { color: #555; font-size: .93rem; }
figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; } nav a { margin-right: 1rem; }
"""


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"Python": platform.python_version(), "xmen": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def write_report(records: Sequence[Findings], folder: Path) -> Path:
    """`report.html` in the folder that has the figures."""
    path = folder / "report.html"
    write_whole(path, html(records, folder).encode())
    return path


def html(records: Sequence[Findings], folder: Path) -> str:
    """The page."""
    links = "".join(f'<a href="#{escape(one.name)}">{escape(one.name)}</a>' for one in records)
    made_with = _table(Table("versions", {"package": "", "version": ""}, [list(row) for row in versions().items()]))
    sections = "\n".join(_section(one, folder) for one in records)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>X-MEN, reproduced</title>\n<style>{STYLE}</style></head>\n<body>\n"
        f"<h1>X-MEN, reproduced</h1>\n"
        f"<p>The experiments of X-MEN: Guaranteed XOR-Maximum Entropy Constrained Inverse Reinforcement Learning (Ding "
        f"and Xue, UAI 2022), made again by xmen. The maps are ours: the paper does not print its coordinates.</p>\n"
        f"<nav>{links}</nav>\n{sections}\n<h2>Made with</h2>\n{made_with}\n</body>\n</html>\n"
    )


def _section(record: Findings, folder: Path) -> str:
    mode = "quick" if record.quick else "full"
    again = f"xmen reproduce {record.name}{' --quick' if record.quick else ''} --seed {record.seed}"
    again += f" --data {record.data}" if record.data else ""
    parts = [f'<h2 id="{escape(record.name)}">{escape(record.title)}</h2>']
    parts += [f"<p>{escape(text)}</p>" for text in record.paragraphs]
    parts += [_table(table) for table in record.tables if not table.timed]
    parts += [_figure(picture, folder) for picture in record.pictures if not picture.timed]
    settings = [[name, _setting(value)] for name, value in record.settings.items()]
    parts.append(_table(Table("settings", {"setting": "", "value": ""}, [["mode", mode], *settings])))
    parts.append(f"<p class=note>Again: <code>{escape(again)}</code></p>")
    seconds = Table("times", {"stage": "", "seconds": ".1f"}, [list(row) for row in record.times.items()])
    timed = [_table(table) for table in (*(t for t in record.tables if t.timed), seconds)]
    timed += [_figure(picture, folder) for picture in record.pictures if picture.timed]
    return "\n".join([*parts, "<!-- times -->", *timed, "<!-- /times -->"])


def _table(table: Table) -> str:
    classes = [' class="number"' if spec else "" for spec in table.columns.values()]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(table.columns, classes, strict=True))
    body = "\n".join(_row(row, classes) for row in table.cells())
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f"<table><caption>{escape(table.title)}</caption>\n<tr>{head}</tr>\n{body}\n</table>{note}"


def _row(cells: Iterable[str], classes: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td{kind}>{escape(c)}</td>" for c, kind in zip(cells, classes, strict=True)) + "</tr>"


def _figure(picture: Picture, folder: Path) -> str:
    data = base64.b64encode((folder / picture.file).read_bytes()).decode("ascii")
    alt, caption = escape(picture.caption, quote=True), escape(picture.caption)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{alt}"><figcaption>{caption}</figcaption></figure>'


def _setting(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
