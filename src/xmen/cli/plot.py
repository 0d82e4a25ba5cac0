"""`xmen plot`: one figure of a problem or a model."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from xmen.cli._output import NO, YES, check_target, print_facts, print_json, print_notes, working
from xmen.cli._pictures import WHAT, Panel, Pictures, pictures_of
from xmen.cli._subject import extra_rules, open_subject
from xmen.files import write_whole
from xmen.options import require_choice
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
) -> int:
    """Draw the figure and say where it is; the exit code says whether the rules allow anything to be drawn."""
    require_choice("--what", what, WHAT)
    if out is not None:
        check_target(out, SUFFIXES, "pictures")
    subject = open_subject(path, demos)
    target = Path(f"{subject.name}.png") if out is None else out
    check_target(target, SUFFIXES, "pictures")
    with working("drawing"):
        pictures = pictures_of(subject, extra_rules(also, subject.problem), n, seed)
        # A causal model may have learned from episodes that chance cut short: they are drawn as far as they went.
        drawn = what in ("overview", "demos", "visits") and pictures.policy is None
        if drawn and subject.problem.demonstrations is not None:
            check_demos(subject.problem.world, pictures.demonstrations)
        panels = _panels(pictures, what)
        _draw(panels, target, pictures)
    missing = [] if pictures.missing is None else [f"expected visits are not drawn: {pictures.missing}"]
    if as_json:
        titles = [panel.title for panel in panels]
        print_json({"picture": str(target), "what": what, "panels": titles, "notes": missing})
    else:
        print_facts({"picture": str(target), "shows": "; ".join(panel.title for panel in panels)})
        print_notes(missing)
    return NO if missing else YES


def _panels(pictures: Pictures, what: str) -> list[Panel]:
    single = {
        "world": pictures.world_panel,
        "demos": pictures.demos,
        "samples": pictures.sample_panel,
        "visits": pictures.visits,
        "history": pictures.history,
    }
    several = {"overview": pictures.overview, "reward": pictures.rewards}
    return several[what]() if what in several else [single[what]()]


def _draw(panels: Sequence[Panel], target: Path, pictures: Pictures) -> None:
    """All panels in one figure, without a window, whatever the user's display is."""

    columns = min(len(panels), pictures.columns + (pictures.columns == 2 and len(panels) not in (1, 2, 4)))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(pictures.size[0] * columns, pictures.size[1] * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        panel.draw(ax)
        ax.set_title(panel.title)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    picture = io.BytesIO()
    figure.savefig(picture, dpi=DPI, format=target.suffix.lower().removeprefix("."))
    write_whole(target, picture.getvalue())
