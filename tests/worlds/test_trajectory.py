import pickle

import numpy as np
import pytest

from xmen import Trajectory, TrajectoryError


def test_holds_python_ints_whatever_came_in() -> None:
    tau = Trajectory(np.array([0, 3, 4], dtype=np.int32), [np.int64(1), 2.0])
    assert tau.states == (0, 3, 4)
    assert tau.actions == (1, 2)
    assert {type(value) for value in tau.states + tau.actions} == {int}


def test_length_is_the_number_of_actions_and_empty_ones_are_true() -> None:
    assert len(Trajectory([0, 1, 2], [0, 0])) == 2
    assert len(Trajectory([7], [])) == 0
    assert Trajectory([7], [])


def test_equality_hash_and_pickle() -> None:
    tau = Trajectory([0, 1], [3])
    same = Trajectory._trusted((0, 1), (3,))
    assert tau == same
    assert hash(tau) == hash(same)
    assert tau != Trajectory([0, 1], [2])
    assert tau != ((0, 1), (3,))
    assert pickle.loads(pickle.dumps(tau)) == tau


def test_is_immutable_and_has_no_room_for_more() -> None:
    tau = Trajectory([0, 1], [3])
    for change in (
        lambda: setattr(tau, "states", (1, 2)),
        lambda: setattr(tau, "reward", 1.0),
        lambda: delattr(tau, "states"),
    ):
        with pytest.raises(AttributeError, match="immutable"):
            change()


def test_repr_is_short_and_a_short_one_can_be_read_back() -> None:
    tau = Trajectory([0, 1, 5], [2, 0])
    assert eval(repr(tau)) == tau
    long = Trajectory(range(1000), range(999))
    assert len(repr(long)) < 150
    assert "1000" in repr(long)


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([0, 1], [0, 1], "2 states and 2 actions"),
        ([], [], "0 states and 0 actions"),
        ([0, -1], [0], "state at position 1 is -1"),
        ([0, 1, 2], [0, -4], "action at position 1 is -4"),
        ([0, 1.5], [0], r"state at position 1 is 1\.5"),
        ([0, float("nan")], [0], "state at position 1 is nan"),
        ([0, float("inf")], [0], "state at position 1 is inf"),
        ([0, 1], [None], "action at position 0 is None"),
        ([0, 1], ["up"], "action at position 0 is 'up'"),
        ([True, 1], [0], "state at position 0 is .*True"),
        ([0, 1], [np.True_], "action at position 0 is the truth value"),
        (5, [0], "states .*got int 5"),
        ([0, 1], "0", "actions .*got str '0'"),
        (np.zeros((2, 2), dtype=int), [0], r"\(2, 2\)"),
    ],
)
def test_refuses(states: object, actions: object, message: str) -> None:
    with pytest.raises(TrajectoryError, match=message):
        Trajectory(states, actions)  # type: ignore[arg-type]
