import inspect
import pickle
from typing import Any

import pytest

import xmen as xm
from xmen import errors
from xmen.problem import Problem, read_problem, write_problem


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    assert errors.__doc__ is not None
    drawn = [line for line in errors.__doc__.splitlines() if "──" in line]
    names = [line.split("── ")[1].split()[0] for line in drawn]
    kinds = {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.XmenError)
    }
    assert {*names, "XmenError"} == kinds
    parents = ["XmenError"]
    for line, name in zip(drawn, names, strict=True):
        depth = (line.index("── ") - 5) // 4 + 1
        parents = [*parents[:depth], name]
        kind = getattr(errors, name)
        assert kind.__bases__[0].__name__ == parents[depth - 1]
        if "(" in line:
            assert kind.__bases__[1].__name__ == line.split("(")[1].split(")")[0]


@pytest.mark.parametrize(
    ("text", "offset", "expected"),
    [
        ("a & ", 4, "    a & \n        ^"),
        ("a\nb c\nd", 4, "    b c\n      ^"),
        ("\tx", 1, "    \tx\n    \t^"),
        ("", 5, "    \n    ^"),
    ],
)
def test_the_caret_stands_under_the_spot(text: str, offset: int, expected: str) -> None:
    assert str(errors.ConstraintSyntaxError("wrong", text, offset)) == f"wrong\n{expected}"


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidDemonstrationError("demonstration 3 is wrong", index=3, constraint="rule", position=7),
        errors.MissingFileError("trips.csv"),
        errors.ConstraintSyntaxError("wrong", "a &", 3),
        errors.InfeasibleError("nothing is left", ("a", "b")),
        errors.MissingExtraError("networkx", extra="networkx", needed_for="MDP.from_networkx"),
        errors.WorldError("plain"),
    ],
)
def test_errors_survive_the_way_between_processes(error: errors.XmenError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


# --- what is no path where a file or a folder is named: an error of xmen's, which is also Python's TypeError ---------

GRID = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
DEMOS = [xm.Trajectory([0, 1, 3], [1, 0]), xm.Trajectory([0, 2, 3], [0, 1])]

DOORS: dict[str, Any] = {
    "load": xm.load,
    "TensorBoard": xm.TensorBoard,
    "save": lambda path: xm.XMEN(GRID, l2=0.1).fit(DEMOS).save(path),
    "policy": lambda path: xm.plan(GRID).save(path),
    "write_demos": lambda path: xm.write_demos(DEMOS, path),
    "read_trips": lambda path: xm.read_trips(path, xm.Network(2, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0)])),
    "read_problem": read_problem,
    "write_problem": lambda path: write_problem(Problem(GRID), path),
    "demonstrations": lambda path: Problem(GRID, demonstrations=path),
    "validation": lambda path: Problem(GRID, validation=path),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrong", [3, 2.5, b"bytes", ["list"]], ids=repr)
def test_what_is_no_path_is_refused(door, wrong):
    with pytest.raises(xm.PathError) as caught:
        DOORS[door](wrong)
    assert isinstance(caught.value, TypeError)
    assert f"got {wrong!r}" in str(caught.value)
