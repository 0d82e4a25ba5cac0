"""`xmen studio`: the page on which worlds, rules and demonstrations are drawn."""

from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from xmen.cli._output import STOPPED, YES
from xmen.cli.new import write_starter
from xmen.errors import FileFormatError, extra_module, foreign_errors
from xmen.experiments.grid import MEMORY
from xmen.problem import toml_text
from xmen.studio.document import Desk, Document, empty_document, open_document
from xmen.worlds import write_demos
from xmen.worlds.from_networkx import read_graph

STARTER, DEMO = Path("grid.toml"), Path("memory.toml")
EMPTY = (10, 8)  # width and height of a new problem
N_DEMOS, SEED = 30, 0  # of the memory map
COLOURS = {"triangle": "#009E73", "cross": "#D55E00", "square": "#0072B2", "circle": "#CC79A7"}
RULES = {
    "triangle first": "first(triangle, among=triangle | cross | square | circle)",
    "no crosses": "never(cross)",
    "exactly one square": "count(square) == 1",
    "exactly one circle": "count(circle) == 1",
}


def run_studio(path: Path | None, browser: bool, port: int, demo: bool, new: bool) -> int:
    """Serve until Ctrl-C; the exit code says how it ended."""
    for module in ("fastapi", "uvicorn"):
        extra_module(module, "xmen studio", "studio")
    from xmen.studio.app import serve

    desk = open_desk(path, demo, new)
    try:
        serve(desk, port, browser, lambda at: typer.echo(f"Studio: {at}\nIt saves to {desk.path}. Ctrl-C ends it."))
    except KeyboardInterrupt:
        typer.echo("\nStudio has ended; what was saved is saved.", err=True)
        return STOPPED
    return YES


def open_desk(path: Path | None, demo: bool, new: bool = False) -> Desk:
    """A problem file, a graph, or something to start from; the latter two become files once they are saved."""
    if demo and path is not None:
        raise FileFormatError("--demo opens a map of its own: give no file with it")
    target = path or (DEMO if demo else STARTER)
    if new:
        return _empty(target, demo)
    if target.suffix.lower() == ".graphml":
        return _from_graph(target)
    if target.exists():
        return Desk(target)
    if path is not None:
        raise FileFormatError(f"there is no file {str(path)!r}: with --new it begins as an empty grid")
    with TemporaryDirectory() as folder:
        scratch = Path(folder) / target.name
        _write_demo(scratch) if demo else write_starter(scratch, "grid")
        return Desk(target, open_document(scratch))


def _empty(target: Path, demo: bool) -> Desk:
    """An empty grid, to be saved under a name that no file has."""
    if demo:
        raise FileFormatError("--demo opens a map of its own, and --new an empty grid: give one of them")
    if target.suffix.lower() != ".toml" or target.exists():
        why = "is there already" if target.exists() else "is no name of a problem file"
        raise FileFormatError(f"{target} {why}: give another name with --new, such as plan.toml")
    return Desk(target, empty_document(*EMPTY))


def _write_demo(path: Path) -> None:
    """The paper's rules on the memory map, which is ours; of its demonstrations seven in ten take the upper arm."""
    demos, moves = f"{path.stem}_demos.csv", list(MEMORY.world.moves)
    grid = {"kind": "grid", "width": 9, "height": 9, "start": [0, 0], "goal": [8, 8], "moves": moves}
    problem = {
        "format": 1,
        "demonstrations": demos,
        "world": grid,
        "events": {name: {"cells": [list(cell) for cell in cells]} for name, cells in MEMORY.symbols.items()},
        "constraints": [{"name": name, "rule": rule} for name, rule in RULES.items()],
        "settings": {"seed": SEED},
        "studio": {"colours": COLOURS, "l2": 0.01},
    }
    path.write_text(toml_text(problem), encoding="utf-8")
    write_demos(MEMORY.demonstrations(N_DEMOS, SEED), path.with_name(demos))


def _from_graph(path: Path) -> Desk:
    """A problem about a graph: from its first node to the one that is farthest from there."""
    problem_file = path.with_suffix(".toml")
    if problem_file.exists():
        raise FileFormatError(f"{path} has a problem file already: xmen studio {problem_file}")
    graph = read_graph(path)
    networkx = extra_module("networkx", "a GraphML file")
    with foreign_errors(f"{path} is not a graph to walk through"):
        source = next(iter(graph.nodes))
        steps = networkx.single_source_shortest_path_length(graph, source)
        target = max(steps, key=lambda node: steps[node])
    world = {"kind": "graphml", "file": path.name, "source": str(source), "target": str(target)}
    horizon = max(2 * steps[target], steps[target] + 2)
    return Desk(problem_file, Document({"format": 1, "world": {**world, "horizon": horizon}}, []))
