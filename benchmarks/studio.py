"""Studio: from an edit on the page to the counts that it changes, against the same check called in Python.

    python benchmarks/studio.py [--quick] [--out results/studio.json]

A wall of the starter grid is set and taken away by the keyboard in Chromium; the clock runs in the page, from the key
to the frame in which the new counts are shown. Between two of these edits, Python checks the same two documents in
this process, without a page, a server or another process: both feel what else the machine does. On a grid of 50 x 50
cells, with the rules of the starter, it is the time until the edit itself is drawn that counts: the live status may
give up there (after three seconds), and Python alone would not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from xmen.studio.document import Document
from xmen.studio.worker import check

ROOT = Path(__file__).parents[1]
sys.path[0] = str(ROOT / "tests")  # in place of this folder, in which `studio` would be this file

from studio.browser.conftest import ARGUMENTS  # noqa: E402
from studio.browser.server import Server  # noqa: E402
from studio.browser.tools import NO_CHROMIUM, find_chromium  # noqa: E402
from studio.browser.window import Window  # noqa: E402

TARGET = 300.0  # milliseconds from an edit to its counts, on the starter grid
CELL = (0, 2)  # no mark lies on it, and trajectories pass it
console = Console()

EDIT = """async () => {
    const [map, status] = [document.querySelector('#map'), document.querySelector('#status')];
    const frame = () => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)));
    const checked = new Promise((done) => {
        const watch = new MutationObserver(() => {
            if (status.classList.contains('waiting')) return;
            watch.disconnect();
            done();
        });
        watch.observe(status, { attributes: true });
    });
    const begin = performance.now();
    map.dispatchEvent(new KeyboardEvent('keydown', { key: ' ', bubbles: true }));
    await frame();
    const drawn = performance.now() - begin;
    await checked;
    await frame();
    return [drawn, performance.now() - begin];
}"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer edits")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    options = parser.parse_args()
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    with TemporaryDirectory() as scratch, Server(Path(scratch)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        window = Window(browser.new_page())
        window.page.set_default_timeout(120_000)
        window.open(server.address)
        rows = [measure("starter, 8 x 8", server, window, 6 if options.quick else 20, compare=True)]
        enlarge(server, window)
        rows.append(measure("50 x 50", server, window, 4 if options.quick else 10, compare=False))
        browser.close()
    show(rows)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=2), encoding="utf-8")


def enlarge(server: Server, window: Window) -> None:
    """The same marks and rules in the corner of a large grid, without demonstrations."""
    problem = server.ask("GET", "document")["problem"]
    problem["world"].update(width=50, height=50, goal=[49, 49], horizon=110)
    server.put(problem, [])
    window.page.locator("#map .ground rect").nth(2499).wait_for(state="attached")
    window.settle()


def measure(name: str, server: Server, window: Window, n_edits: int, compare: bool) -> dict[str, Any]:
    """Milliseconds: medians of the page, and of Python (`compare`) over the same edits, one after the other."""
    page = window.page
    window.choose("Walls")
    for _ in range(2):  # a wall, and none again: the keyboard is then at this cell
        window.cell(CELL).click()
        window.settle()
    drawn, shown, python = [], [], []
    for edit in range(n_edits + 2):
        first, counted = page.evaluate(EDIT)
        window.settle()
        seconds = checked_alone(server) if compare else 0.0
        if edit >= 2:  # the first ones compile and import
            drawn.append(first)
            shown.append(counted)
            python.append(1000 * seconds)
    medians = {
        "drawn": statistics.median(drawn),
        "shown": statistics.median(shown),
        "python": statistics.median(python),
    }
    return {"world": name, "edits": n_edits, **medians, "slowest": max(shown)}


def checked_alone(server: Server) -> float:
    """Seconds of the check of the server's document, in this process."""
    record = server.ask("GET", "document")
    document = Document(record["problem"], record["demonstrations"])
    begin = time.perf_counter()
    list(check(document, server.folder / "grid.toml"))
    return time.perf_counter() - begin


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("world", "edits", "drawn (ms)", "counts shown (ms)", "slowest (ms)", "Python alone (ms)", "ratio")
    for row in rows:
        numbers = [f"{row[key]:.0f}" for key in ("drawn", "shown", "slowest")]
        alone = [f"{row['python']:.0f}", f"{row['shown'] / row['python']:.1f}"] if row["python"] else ["", ""]
        table.add_row(row["world"], str(row["edits"]), *numbers, *alone)
    console.print(table)
    starter = rows[0]
    verdict = "within" if starter["shown"] <= TARGET else "above"
    console.print(f"starter grid: counts after {starter['shown']:.0f} ms, {verdict} the {TARGET:.0f} ms that are meant")


if __name__ == "__main__":
    main()
