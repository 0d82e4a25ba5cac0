"""`xmen plot`: one figure of a problem or a model."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xmen.cli._output import check_target, print_facts, print_json, working
from xmen.cli._pictures import WHAT, Panel, Pictures, pictures_of
from xmen.cli._source import extra_rules, open_source
from xmen.errors import EngineError
from xmen.worlds import check_demos

SUFFIXES = (".png", ".pdf", ".svg")
DPI = 120


def run_plot(
    path: Path,
    demos: Path | None,
    out: Path | None,
    what: str,
    also: Sequence[str],
    n: int,
    seed: int,
    as_json: bool,
) -> None:
    """Draw the figure and say where it is."""
    if what not in WHAT:
        close = get_close_matches(what, WHAT, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise EngineError(f"--what {what}: unknown picture{hint} Choose one of {', '.join(WHAT)}.")
    if out is not None:
        check_target(out, SUFFIXES, "pictures")
    source = open_source(path, demos)
    target = Path(f"{source.name}.png") if out is None else out
    check_target(target, SUFFIXES, "pictures")
    with working("drawing"):
        pictures = pictures_of(source, extra_rules(also, source.problem), n, seed)
        if what in ("overview", "demos", "visits") and source.problem.demonstrations is not None:
            check_demos(source.problem.world, pictures.demonstrations)
        panels = _panels(pictures, what)
        _draw(panels, target, pictures)
    if as_json:
        print_json({"picture": str(target), "what": what, "panels": [panel.title for panel in panels]})
    else:
        print_facts({"picture": str(target), "shows": "; ".join(panel.title for panel in panels)})


def _panels(pictures: Pictures, what: str) -> list[Panel]:
    single = {
        "world": pictures.world_panel,
        "demos": pictures.demos,
        "samples": pictures.sample_panel,
        "visits": pictures.visits,
        "reward": pictures.reward,
        "history": pictures.history,
    }
    return pictures.overview() if what == "overview" else [single[what]()]


def _draw(panels: Sequence[Panel], target: Path, pictures: Pictures) -> None:
    """All panels in one figure, without a window, whatever the user's display is."""
    from matplotlib.figure import Figure

    columns = min(len(panels), pictures.columns + (pictures.columns == 2 and len(panels) == 3))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(pictures.size[0] * columns, pictures.size[1] * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        panel.draw(ax)
        ax.set_title(panel.title)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    figure.savefig(target, dpi=DPI)
