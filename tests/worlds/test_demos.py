from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xmen as xm
from xmen import (
    FileFormatError,
    GridWorld,
    InvalidDemonstrationError,
    Trajectory,
    TrajectoryError,
    check_demos,
    read_demos,
    write_demos,
)
from xmen.worlds.demos import as_trajectories
from xmen.worlds.tables import RecordedDemos


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    actions = draw(st.lists(st.integers(0, 10**12), max_size=8))
    states = draw(st.lists(st.integers(0, 10**12), min_size=len(actions) + 1, max_size=len(actions) + 1))
    return Trajectory(states, actions)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".CSV"])
@given(demos=st.lists(trajectories(), max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_is_exact(tmp_path: Path, suffix: str, demos: list[Trajectory]) -> None:
    path = tmp_path / f"demos{suffix}"
    write_demos(demos, path)
    assert read_demos(str(path)) == demos


def test_the_formats_are_what_the_documentation_says(tmp_path: Path) -> None:
    demos = [Trajectory([0, 1, 3], [0, 1]), Trajectory([3], [])]
    write_demos(demos, tmp_path / "demos.csv")
    assert (tmp_path / "demos.csv").read_text() == "demo,step,state,action\n0,0,0,0\n0,1,1,1\n0,2,3,\n1,0,3,\n"
    write_demos(iter(demos), tmp_path / "demos.jsonl")
    assert (tmp_path / "demos.jsonl").read_text() == (
        '{"states": [0, 1, 3], "actions": [0, 1]}\n{"states": [3], "actions": []}\n'
    )


def test_gaps_are_written_to_tables_and_read_back(tmp_path: Path) -> None:
    grid, file = GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=9), tmp_path / "d.csv"
    whole, numbers = Trajectory([0, 1], [1]), xm.Sighting([0, None, 4, None, None])
    for world, seen in ((None, numbers), (grid, numbers), (grid, xm.Sighting([(0, 0), None, 4, None, None]))):
        write_demos([seen, whole], file, world)
        assert read_demos(file, world) == [numbers, whole]
    for more in ({"noise": xm.confusion(0.1)}, {"more": True}, {"each": 0.5}):
        with pytest.raises(TrajectoryError, match="complete trajectories"):
            write_demos([xm.Sighting([0], **more)], file)
    with pytest.raises(TrajectoryError, match="complete trajectories"):
        write_demos([numbers], tmp_path / "d.jsonl")


def test_line_ends_of_other_systems_and_blank_lines_are_fine(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"demo,step,state,action\r\n0,0,5,1\r\n0,1,6,\r\n\r\n")
    (tmp_path / "a.jsonl").write_bytes(b'{"actions": [1], "states": [5, 6]}\r\n\r\n')
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbfdemo,step,state,action\n0,0,5,1\n0,1,6,\n")
    for name in ("a.csv", "a.jsonl", "b.csv"):
        assert read_demos(tmp_path / name) == [Trajectory([5, 6], [1])]


HEADER = "demo,step,state,action\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv, line 1: expected the header demo,step,state,action"),
        ("a.csv", "state,action\n", "line 1: .*got the columns state, action"),
        ("a.csv", HEADER + "0,0,1\n", "line 2: expected 4 fields .*, got 3: '0,0,1'"),
        ("a.csv", HEADER + "0,0,1,2,3\n", "line 2: expected 4 fields .*, got 5"),
        ("a.csv", HEADER + "0,0,x,1\n", "line 2, demonstration '0': 'x' is no state"),
        ("a.csv", HEADER + "0,0,1.5,1\n", r"line 2, demonstration '0': '1\.5' is no state"),
        ("a.csv", HEADER + "0,0,-1,1\n", "line 2, demonstration '0': '-1' is no state"),
        ("a.csv", HEADER + "0,0,1,up\n0,1,2,\n", "line 2, demonstration '0': 'up' is no action"),
        ("a.csv", HEADER + "0,0,,1\n", "line 2, demonstration '0': '' is no state"),
        ("a.csv", HEADER + "0,0,1,0\n0,2,1,\n", "line 3, .*step 2 follows step 0"),
        ("a.csv", HEADER + "0,first,1,0\n", "line 2, .*step first follows nothing"),
        ("a.csv", HEADER + "0,0,1,0\n1,0,1,\n", "line 2, demonstration '0': its last row has the action '0'"),
        ("a.csv", HEADER + "0,0,1,\n0,1,2,\n", "line 2, demonstration '0': actions are missing: world="),
        ("a.csv", HEADER + "0,0,1,\n1,0,1,\n0,1,2,\n", "line 4: .*'0' do not stand together"),
        ("a.csv", HEADER + "0,0,1,0\n", "line 2, demonstration '0': its last row has the action '0'"),
        ("a.csv", HEADER + '0,0,"1,0\n', "line 2: expected 4 fields"),
        ("a.csv", HEADER + '0,0,"' + "1" * 200_000, "a.csv, line 2: .*field larger than field limit"),
        ("a.csv", HEADER + "0,0," + "1" * 5000 + ",\n", "line 2, demonstration '0': '111.* is no state"),
        ("a.jsonl", '{"states": [' + "1" * 5000 + '], "actions": []}', "line 1: expected JSON"),
        ("a.jsonl", "[1, 2]\n", r"a.jsonl, line 1: got list \[1, 2\]: expected .*states and actions"),
        ("a.jsonl", "{\n", "line 1: expected JSON"),
        ("a.jsonl", '{"states": [0, 1]}\n', "line 1: actions are missing: world="),
        ("a.jsonl", '{"states": 0, "actions": []}', "line 1: expected an object .*'states': 0"),
        ("a.jsonl", '{"states": [0, 1], "actions": [true]}', "line 1: True is no action"),
        ("a.jsonl", '{"states": [0, 1.5], "actions": [0]}', r"line 1: 1\.5 is no state"),
        ("a.jsonl", '{"states": [0, -1], "actions": [0]}', "line 1: -1 is no state"),
        ("a.jsonl", '\n{"states": [0, 1], "actions": []}', "line 2: .*got 2 states and 0 actions"),
        ("a.txt", "", "a.txt: demonstrations are .csv or .jsonl files, got the suffix '.txt'"),
        ("a", "", "got the suffix ''"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_demos(tmp_path / name)


def test_columns_may_stand_in_any_order_that_the_header_says(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("Action, state,step,demo\n1,0,0,0\n,5,1,0\n,3,0,1\n")
    assert read_demos(file) == [Trajectory([0, 5], [1]), Trajectory([3], [])]
    for header, fault in (
        ("demo,step,state,state", "two columns have the same name"),
        ("demo,step,state,action,Action", "two columns have the same name"),
        ("demo,step", "got the columns demo, step"),
    ):
        file.write_text(f"{header}\n")
        with pytest.raises(FileFormatError, match=f"line 1: .*{fault}"):
            read_demos(file)


def test_tables_of_numbers_need_no_world(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("trip;who;state;action\nA;Ada;3,0;1\nA;Ada;4;\n\nB;Bob;4;\n")
    demos = read_demos(tmp_path / "a.csv")
    assert demos == [Trajectory([3, 4], [1]), Trajectory([4], [])]
    assert demos.metadata == [{"who": "Ada"}, {"who": "Bob"}]


def test_other_encodings_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"states": "\xff"}')
    with pytest.raises(FileFormatError, match="expected UTF-8 text, got byte 0xff"):
        read_demos(tmp_path / "a.jsonl")


def test_a_wrong_entry_leaves_no_half_written_file(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match=r"demonstration 1 must be a Trajectory, got list \[0\]"):
        write_demos([Trajectory([0], []), [0]], tmp_path / "a.csv")  # type: ignore[list-item]
    with pytest.raises(FileFormatError, match="suffix"):
        write_demos([Trajectory([0], [])], tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


GRID = GridWorld(3, 2, (0, 0), (2, 1), moves=("up", "right"))
GOOD = Trajectory([0, 3, 4, 5], [0, 1, 1])


def test_good_demonstrations_pass() -> None:
    check_demos(GRID, [GOOD])
    check_demos(GRID, [GOOD], xm.visit(GRID.at((1, 1))))


def test_an_impossible_demonstration_is_named_with_its_position() -> None:
    with pytest.raises(InvalidDemonstrationError, match=r"demonstration 1 is not possible .* cell \(0, 0\)") as caught:
        check_demos(GRID, [GOOD, Trajectory([0, 5], [0])])
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (1, None, 0)


def test_a_forbidden_demonstration_is_named_with_constraint_and_position() -> None:
    rules = xm.visit(GRID.at((0, 1))).named("key first") & xm.never(GRID.at((1, 1))).named("not the swamp")
    with pytest.raises(InvalidDemonstrationError, match=r"demonstration 0 breaks .*not the swamp") as caught:
        check_demos(GRID, [GOOD], rules)
    assert (caught.value.index, caught.value.constraint, caught.value.position) == (0, "not the swamp", 2)


def test_rules_may_be_a_list() -> None:
    rules = [xm.visit(GRID.at((2, 0))).named("the corner"), xm.never(GRID.at((1, 1))).named("not the swamp")]
    check_demos(GRID, [GOOD], [])
    check_demos(GRID, [GOOD], (rule for rule in [xm.visit(GRID.at((1, 1)))]))
    with pytest.raises(InvalidDemonstrationError) as caught:
        check_demos(GRID, [GOOD], rules)
    # The corner is lost at the end only; the conjunction says the same.
    assert (caught.value.constraint, caught.value.position) == ("not the swamp", 2)
    with pytest.raises(InvalidDemonstrationError) as joined:
        check_demos(GRID, [GOOD], rules[0] & rules[1])
    assert str(joined.value) == str(caught.value)
    for wrong in ([rules[0], GRID.at((1, 1))], "visit(at(3))", [rules]):
        with pytest.raises(xm.ConstraintError, match="check_demos takes a constraint or a list of them"):
            check_demos(GRID, [GOOD], wrong)  # type: ignore[arg-type]


def test_what_a_learner_keeps_does_not_change_with_the_list_of_its_user():
    demos = RecordedDemos([xm.Trajectory([0, 1], [1])], names=["ann"])
    kept = as_trajectories(demos)
    demos.append(xm.Trajectory([0], []))
    assert (kept, kept.names) == (demos[:1], ["ann"])


def test_as_many_as_are_explained_are_all_of_them():
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    short = xm.Trajectory([0, 1], [1])
    for n, said in ((200, "\n200 of 200 demonstrations are"), (201, "\n200 or more of 201 demonstrations are")):
        with pytest.raises(InvalidDemonstrationError, match=said):
            xm.check_demos(grid, [short] * n)


def test_a_state_that_does_not_exist_is_named_at_its_own_position() -> None:
    for states, actions, position in (([0, 100], [0], 1), ([0, 3, 100], [0, 1], 2), ([100], [], 0)):
        with pytest.raises(InvalidDemonstrationError, match="state 100 does not exist") as caught:
            check_demos(GRID, [Trajectory(states, actions)])
        assert caught.value.position == position
    with pytest.raises(InvalidDemonstrationError, match="action 9 does not exist") as caught:
        check_demos(GRID, [Trajectory([0, 100], [9])])  # the action comes first
    assert caught.value.position == 0


@pytest.mark.parametrize(
    ("demos", "message"),
    [
        ([], "no demonstrations: give at least one"),
        (GOOD, "got one Trajectory: write"),
        ([GOOD, (0, 1)], r"demonstration 1 must be a Trajectory, got tuple \(0, 1\)"),
        (3, "expected a list of trajectories, got int 3"),
        ("demos.csv", "expected a list of trajectories, got str"),
    ],
)
def test_refuses_what_is_not_a_list_of_trajectories(demos: object, message: str) -> None:
    with pytest.raises(TrajectoryError, match=message):
        check_demos(GRID, demos)  # type: ignore[arg-type]
