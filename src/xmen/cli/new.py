"""`xmen new`: a commented problem file with demonstrations, so that the first five minutes work.

The texts are in the folder `starters`. The demonstrations are drawn by the library itself: from the rules of the
starter, the weights below and a fixed seed.
"""

from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import typer

from xmen.cli._output import print_json, working
from xmen.errors import FileFormatError
from xmen.files import write_whole
from xmen.problem import read_problem
from xmen.rewards import LinearReward
from xmen.worlds import write_demos

SEED = 0  # of the demonstrations


class Starter(NamedTuple):
    """A kind of world to start from: the demonstrator's weights, how many demonstrations, and further files."""

    weights: tuple[float, ...]
    n_demos: int
    files: tuple[str, ...] = ()  # copied from starters/KIND_file to STEM_file


STARTERS = {
    "grid": Starter((-2.0, 0.6, -1.0, -0.5), 200),
    "table": Starter((0.6, -0.4, -1.0), 200, ("transitions.csv",)),
    "graph": Starter((-0.8, -0.7, 0.6), 300, ("roads.graphml",)),
}


def run_new(path: Path, world: str, force: bool, as_json: bool) -> None:
    """Write the starter and say what to type next; nothing is overwritten unless `force`."""
    if world not in STARTERS:
        raise FileFormatError(f"--world {world}: there are starters for {', '.join(STARTERS)}")
    if path.suffix.lower() != ".toml":
        raise FileFormatError(f"{path}: a problem file ends in .toml, such as {path.name or 'grid'}.toml")
    if not path.parent.is_dir():
        raise FileFormatError(f"{path}: there is no folder {str(path.parent)!r}; make it first")
    with working("drawing demonstrations"), TemporaryDirectory() as scratch:
        written = write_starter(Path(scratch) / path.name, world)
        content = {path.with_name(file.name): file.read_bytes() for file in written}
    there = [str(file) for file in content if file.exists()]
    if there and not force:
        raise FileFormatError(f"{', '.join(there)}: already there; choose another name, or --force to replace")
    fresh = [file for file in content if not file.exists()]
    try:  # all of the files, or none of those that were not there
        for file, data in content.items():
            write_whole(file, data)
    except BaseException:
        for file in fresh:
            file.unlink(missing_ok=True)
        raise
    if as_json:
        print_json({"problem": str(path), "files": [str(file) for file in content]})
        return
    typer.echo(f"wrote {', '.join(map(str, content))}\n\nnext:")
    model = f"{path.stem}_model"
    for command, what in (
        (f"xmen check {path}", "do the rules fit together, do the demonstrations keep them?"),
        (f"xmen fit {path}", f"learn what the demonstrator values: {model}"),
        (f"xmen sample {model} -n 5", "new trajectories that keep every rule"),
        (f"xmen plot {model}", "a picture of all of this"),
    ):
        typer.echo(f"  {command}\n      {what}")


def write_starter(path: Path, kind: str) -> list[Path]:
    """Write a starter's files next to each other; the problem file comes first in the answer."""
    starter, texts = STARTERS[kind], resources.files("xmen.cli") / "starters"
    text = (texts / f"{kind}.toml").read_text(encoding="utf-8")
    text = text.replace("{stem}", path.stem).replace("{weights}", ", ".join(map(str, starter.weights)))
    path.write_text(text, encoding="utf-8")
    files = [path]
    for name in starter.files:
        files.append(path.with_name(f"{path.stem}_{name}"))
        files[-1].write_bytes((texts / f"{kind}_{name}").read_bytes())
    problem = read_problem(path)
    assert isinstance(problem.reward, LinearReward)
    assert problem.demonstrations is not None
    reward = LinearReward(problem.reward.features, starter.weights)
    write_demos(problem.distribution().with_reward(reward).sample(starter.n_demos, seed=SEED), problem.demonstrations)
    return [*files, problem.demonstrations]
