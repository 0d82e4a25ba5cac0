import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worlds.worlds_by_hand import ByHand, worlds_by_hand
from xmen import MDP, Trajectory, TrajectoryError, WorldError

CHAIN = [(0, 0, 1, 1.0), (1, 0, 2, 1.0)]


@given(worlds_by_hand())
def test_problem_and_dynamics_agree_with_enumeration(hand: ByHand) -> None:
    world = hand.build()
    complete = hand.complete()
    lengths = [len(actions) for _, actions in complete]
    for length in range(min(hand.horizon + 1, 3) + 1):
        for states in itertools.product(range(hand.n_states), repeat=length + 1):
            for actions in itertools.product(range(hand.n_actions), repeat=length):
                tau = Trajectory(states, actions)
                expected = complete.get((states, actions))
                problem = world.problem(tau)
                assert (problem is None) == (expected is not None), (tau, problem)
                if problem is not None:
                    assert 0 <= problem[0] <= len(tau)
                if expected is not None:
                    assert world.log_dynamics(tau) == pytest.approx(math.log(expected), abs=1e-12)
    for states, actions in complete:
        assert world.problem(Trajectory(states, actions)) is None
    assert world.max_length >= max(lengths, default=0)
    if world.acyclic and world.has_terminal:
        assert world.max_length == max(lengths, default=0) or world.max_length == hand.horizon


@given(worlds_by_hand())
def test_columns_are_the_table(hand: ByHand) -> None:
    world = hand.build()
    kept = {(s, a): outcomes for (s, a), outcomes in hand.table.items() if s not in hand.terminal}
    rows = sorted((s, a, t, p) for (s, a), outcomes in kept.items() for t, p in outcomes.items())
    assert world.transitions.tolist() == [list(row) for row in rows]
    assert world.row_start.tolist() == [sum(row[0] < s for row in rows) for s in range(hand.n_states + 1)]
    assert {(s, a) for s, a in np.argwhere(world.available).tolist()} == set(kept)
    assert world.deterministic == all(p == 1.0 for *_, p in rows)
    assert world.has_terminal == bool(hand.terminal)
    assert set(np.flatnonzero(world.terminal).tolist()) == hand.terminal
    again = (
        MDP(world.n_states, world.n_actions, world.transitions, world.start, world.terminal, world.horizon)
        if (len(rows) or hand.terminal >= set(hand.start))
        else world
    )
    np.testing.assert_array_equal(again.transitions, world.transitions)


@given(worlds_by_hand())
def test_acyclic_means_no_way_back(hand: ByHand) -> None:
    successors = {
        s: {t for (u, _), outcomes in hand.table.items() if u == s and s not in hand.terminal for t in outcomes}
        for s in range(hand.n_states)
    }

    def beyond(states: set[int]) -> set[int]:
        seen: set[int] = set()
        while states - seen:
            seen |= states
            states = set().union(*(successors[s] for s in states))
        return seen

    reached = beyond(set(hand.start))
    assert hand.build().acyclic == all(s not in beyond(successors[s]) for s in reached)


def test_rows_are_merged_dropped_and_made_exact() -> None:
    world = MDP(
        3,
        1,
        [(0, 0, 1, 0.25), (0, 0, 2, 0.5), (0, 0, 1, 0.25), (0, 0, 0, 0.0), (1, 0, 2, 1 - 1e-12), (2, 0, 0, 1.0)],
        start=0,
        terminal=[2, 2],
    )
    assert world.transitions.tolist() == [[0, 0, 1, 0.5], [0, 0, 2, 0.5], [1, 0, 2, 1.0]]
    assert (world.source.dtype, world.probability.dtype, world.row_start.dtype) == (np.int32, np.float64, np.int64)
    assert world.max_length == 2


def test_rows_can_be_arrays_generators_and_fractions() -> None:
    rows = [(0, 0, 1, Fraction(1, 3)), (0, 0, 2, Fraction(2, 3)), (1, 0, 2, 1)]
    expected = MDP(3, 1, rows, start=0, terminal=2).transitions
    np.testing.assert_array_equal(MDP(3, 1, iter(rows), start=0, terminal=(2,)).transitions, expected)
    floats = np.array([[float(x) for x in row] for row in rows])
    np.testing.assert_array_equal(MDP(3, 1, floats, start=[1, 0, 0], terminal={2}).transitions, expected)


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2)], ids=["by state", "by action"])
def test_rows_can_be_a_dense_table_by_state_or_by_action(axes: tuple[int, int, int]) -> None:
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 2, 0.75), (1, 0, 0, 0.25)]
    table = np.zeros((3, 2, 3))
    for s, a, t, p in rows:
        table[s, a, t] = p
    given, dense = (MDP(3, 2, one, start=0, terminal=[2], horizon=5) for one in (rows, table.transpose(axes)))
    lists = MDP(3, 2, table.transpose(axes).tolist(), start=0, terminal=[2], horizon=5)
    matrices = MDP(3, 2, tuple(table.transpose(axes)), start=0, terminal=[2], horizon=5)
    for name in ("source", "action", "target", "probability"):
        for other in (dense, lists, matrices):
            assert np.array_equal(getattr(given, name), getattr(other, name))


def test_a_dense_table_of_another_shape_or_that_could_be_either_is_refused() -> None:
    with pytest.raises(WorldError, match=r"shape \(3, 3, 2\).*\(3, 2, 3\) by state.*\(2, 3, 3\) by action"):
        MDP(3, 2, np.zeros((3, 3, 2)), start=0, terminal=[2])
    with pytest.raises(WorldError, match=r"may be by state.*np.argwhere"):
        MDP(2, 2, np.full((2, 2, 2), 0.5), start=0, terminal=[1])
    with pytest.raises(WorldError, match=r"2 more such pairs\): divide them by their sums, in float64"):
        MDP(3, 1, np.full((3, 1, 3), 1 / 3).astype(np.float32), start=0, horizon=2)
    with pytest.raises(WorldError, match="row 0 must have 4 entries"):
        MDP(2, 1, [[[0.0, 1.0], [1.0]], [[0.0, 1.0]]], start=0, terminal=[1])
    with pytest.raises(WorldError, match="the probability is -1"):
        MDP(2, 1, np.array([[[0.0, -1.0]], [[0.0, 0.0]]]), start=0, terminal=[1])


def test_arrays_are_read_only_also_after_pickling() -> None:
    world = MDP(3, 1, CHAIN, start=0, terminal=[2])
    for copy in (world, pickle.loads(pickle.dumps(world))):
        for name in ("start", "terminal", "source", "action", "target", "probability", "row_start", "available"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(copy, name)[0] = 1


def test_building_does_not_freeze_or_keep_the_caller_arrays() -> None:
    rows = np.array(CHAIN, dtype=float)
    start, terminal = np.array([1.0, 0.0, 0.0]), np.array([False, False, True])
    world = MDP(3, 1, rows, start, terminal)
    rows[:], start[:], terminal[:] = 0, 0, False
    assert world.transitions.tolist() == [list(row) for row in CHAIN]
    assert world.start.tolist() == [1.0, 0.0, 0.0]
    assert world.terminal.tolist() == [False, False, True]


def test_unreachable_goals_and_terminal_starts_are_legal() -> None:
    assert MDP(3, 1, [(0, 0, 1, 1.0)], start=0, terminal=[2]).max_length == 0
    still = MDP(2, 1, [], start=1, terminal=[1])
    assert still.max_length == 0
    assert still.problem(Trajectory([1], [])) is None
    assert MDP(1, 1, [(0, 0, 0, 1.0)], start=0, horizon=0).problem(Trajectory([0], [])) is None


def test_cycles_behind_the_goal_or_out_of_reach_need_no_horizon() -> None:
    world = MDP(4, 1, [(0, 0, 1, 1.0), (1, 0, 0, 1.0), (2, 0, 3, 1.0), (3, 0, 2, 1.0)], start=0, terminal=[1])
    assert world.acyclic
    assert world.max_length == 1


def test_longest_path_ignores_dead_ends_and_respects_the_horizon() -> None:
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (2, 0, 3, 1.0), (3, 0, 4, 1.0)]
    assert MDP(5, 2, rows, start=0, terminal=[1]).max_length == 1
    assert MDP(5, 2, rows, start=0, terminal=[1, 4]).max_length == 3
    assert MDP(5, 2, rows, start=0, terminal=[1, 4], horizon=2).max_length == 2


def test_many_parallel_ways_are_one_way() -> None:
    # 256 parallel edges would wrap an 8-bit count to zero.
    rows = [(0, a, 1, 1.0) for a in range(256)] + [(1, 0, 2, 1.0)]
    assert MDP(3, 256, rows, start=0, terminal=[2]).max_length == 2


@pytest.mark.parametrize(
    ("states", "actions", "position", "sentence"),
    [
        ([1, 2], [0], 0, "starts in state 1, which is not a start (start: state 0)"),
        ([9, 2], [0], 0, "state 9 does not exist: the world has states 0 to 3"),
        ([0, 1], [0], 1, "ends in state 1, which is not terminal (terminal: state 2)"),
        ([0, 1, 2, 0], [0, 0, 0], 2, "goes on after state 2, which is terminal"),
        ([0, 3], [0], 0, "action 0 in state 0 never leads to state 3 (it leads to state 0, state 1)"),
        ([0, 10**30], [0], 1, f"state {10**30} does not exist"),
        ([0, 1], [1], 0, "action 1 is not available in state 0 (available: action 0)"),
        ([0, 1], [7], 0, "action 7 does not exist: the world has actions 0 to 1"),
        ([0, 1], [10**30], 0, f"action {10**30} does not exist"),
        ([0, 0, 0, 0, 1, 2], [0] * 5, 4, "has 5 actions, the horizon allows 4"),
    ],
)
def test_problem_says_what_and_where(states: list[int], actions: list[int], position: int, sentence: str) -> None:
    rows = [(0, 0, 1, 0.5), (0, 0, 0, 0.5), (1, 0, 2, 1.0), (3, 0, 2, 1.0)]
    world = MDP(4, 2, rows, start=0, terminal=[2], horizon=4)
    problem = world.problem(Trajectory(states, actions))
    assert problem is not None
    assert problem[0] == position
    assert sentence in problem[1]
    if sentence.startswith(("ends", "has")):
        assert world.log_dynamics(Trajectory(states, actions)) > -np.inf
    else:
        assert world.log_dynamics(Trajectory(states, actions)) == -np.inf


def test_fixed_length_trajectories_have_exactly_the_horizon() -> None:
    world = MDP(1, 1, [(0, 0, 0, 1.0)], start=0, horizon=2)
    assert world.problem(Trajectory([0, 0, 0], [0, 0])) is None
    for n_actions, position in ((1, 1), (3, 2)):
        problem = world.problem(Trajectory([0] * (n_actions + 1), [0] * n_actions))
        assert problem == (position, f"has {n_actions} actions, without terminal states it must have exactly 2")


@given(worlds_by_hand(), st.lists(st.tuples(*[st.integers(-2, 5)] * 3), max_size=8))
def test_find_transitions(hand: ByHand, triples: list[tuple[int, int, int]]) -> None:
    world = hand.build()
    rows = [tuple(map(int, row[:3])) for row in world.transitions]
    found = world.find_transitions(*(np.array([t[i] for t in triples], dtype=int) for i in range(3)))
    assert found.tolist() == [rows.index(t) if t in rows else -1 for t in triples]


GOOD = {"n_states": 3, "n_actions": 1, "transitions": CHAIN, "start": 0, "terminal": [2], "horizon": None}
NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_states": 0}, "n_states is a whole number, 1 or more; got 0"),
        ({"n_states": 2.5}, r"n_states is a whole number, . or more; got 2\.5 .float"),
        ({"n_states": True}, "n_states is a whole number, . or more; got True .bool"),
        ({"n_states": 2**40}, "n_states is a whole number, .* at most"),
        ({"n_actions": -1}, "n_actions is a whole number, 1 or more; got -1"),
        ({"n_actions": "two"}, "n_actions is a whole number, . or more; got 'two' .str"),
        ({"transitions": []}, "transitions is empty"),
        ({"transitions": 7}, r"transitions must be rows \(state, action, next_state, probability\), got 7 .int"),
        ({"transitions": "abcd"}, "transitions must be rows"),
        ({"transitions": [(0, 0, 1)]}, "row 0 must have 4 entries .* got 3"),
        ({"transitions": [*CHAIN, (1, 0, 2)]}, "row 2 must have 4 entries .* got 3"),
        ({"transitions": [*CHAIN, 5]}, "row 2 must be .* got 5"),
        ({"transitions": np.zeros((3, 3))}, "row 0 must have 4 entries .* got 3"),
        ({"transitions": [(0, "up", 1, 1.0)]}, "row 0: action must be a number, got 'up' .str"),
        ({"transitions": [(0, 0, 1, "1.0")]}, "row 0: probability must be a number, got '1.0' .str"),
        ({"transitions": [(0, None, 1, 1.0)]}, "row 0: action must be a number, got None .NoneType"),
        ({"transitions": [*CHAIN, (3, 0, 1, 1.0)]}, "row 2 .*: state is 3, but states are the integers 0 to 2"),
        ({"transitions": [(-1, 0, 1, 1.0)]}, "row 0 .*: state is -1"),
        ({"transitions": [(0, 1, 1, 1.0)]}, "row 0 .*: action is 1, but actions are the integers 0 to 0"),
        ({"transitions": [(0, 0, 9, 1.0)]}, "row 0 .*: next_state is 9"),
        ({"transitions": [(0, 0, 1.5, 1.0)]}, r"row 0 .*: next_state is 1\.5"),
        ({"transitions": [(0, 0, NAN, 1.0)]}, "row 0 .*: next_state is nan"),
        ({"transitions": [(float("inf"), 0, 0, 1.0)]}, "row 0 .*: state is inf"),
        ({"transitions": [(10**400, 0, 0, 1.0)]}, "row 0: state must be a number"),
        ({"transitions": [(0, 0, 1, NAN)]}, "row 0 .*: the probability is nan"),
        ({"transitions": [(0, 0, 1, -0.5), (0, 0, 2, 1.5)]}, r"row 0 .*: the probability is -0\.5"),
        ({"transitions": [(0, 0, 1, float("inf"))]}, "row 0 .*: the probability is inf"),
        ({"transitions": [*CHAIN, (0, 0, 2, 0.1)]}, r"action 0 in state 0 sum to 1\.1, not to 1$"),
        ({"transitions": [(0, 0, 1, 0.9), (1, 0, 2, 0.5)]}, r"state 0 sum to 0\.9, not to 1 \(1 more such pairs\)"),
        ({"transitions": [(0, 0, 1, 0.0), (1, 0, 2, 1.0)]}, "action 0 in state 0 sum to 0, not to 1"),
        ({"transitions": [(0, 0, 1, 1 - 1e-8), (1, 0, 2, 1.0)]}, r"sum to 0\.99999999, not to 1"),
        ({"start": 3}, "start state 3 does not exist: the world has states 0 to 2"),
        ({"start": -1}, "start state -1 does not exist"),
        ({"start": 0.0}, "start must be one state .* or a probability vector of length 3, got .* .float"),
        ({"start": True}, "start must be one state .* got .* .bool"),
        ({"start": None}, "start must be one state .* got None .NoneType"),
        ({"start": "abc"}, "start must be one state"),
        ({"start": [0, 1]}, "probability vector of length 3, got a vector of length 2"),
        ({"start": []}, "probability vector of length 3, got a vector of length 0"),
        ({"start": [[1, 0, 0]]}, "start must be one state"),
        ({"start": [[1, 0], 0]}, "start must be one state"),
        ({"start": [0.5, 0.4, 0]}, r"start: the probabilities sum to 0\.9, not to 1"),
        ({"start": [1.5, -0.5, 0]}, r"start: the probability of state 1 is -0\.5"),
        ({"start": [NAN, 1, 0]}, "start: the probability of state 0 is nan"),
        ({"terminal": [3]}, "terminal state 3 does not exist: the world has states 0 to 2"),
        ({"terminal": [-1]}, "terminal state -1 does not exist"),
        ({"terminal": ["goal"]}, r"terminal must be states \(integers\), got 'goal' .str. among them"),
        ({"terminal": "2"}, "terminal must be states"),
        ({"terminal": [True]}, "terminal must be states .* got .* .bool"),
        ({"terminal": 2.0}, "terminal must be states"),
        ({"terminal": None}, "terminal must be states"),
        ({"terminal": np.array([True])}, r"boolean mask must have shape \(3,\), got \(1,\)"),
        ({"horizon": -1}, "horizon is a whole number, 0 or more; got -1"),
        ({"horizon": 2.0}, r"horizon is a whole number, . or more; got 2\.0 .float"),
        ({"horizon": True}, "horizon is a whole number, . or more; got True .bool"),
        ({"horizon": "10"}, "horizon is a whole number, . or more; got '10' .str"),
        ({"horizon": 10**30}, "horizon is a whole number, .* at most"),
        ({"terminal": ()}, "without terminal states all trajectories have exactly `horizon` actions: give a horizon"),
        (
            {"transitions": [*CHAIN[:1], (1, 0, 2, 0.5), (1, 0, 0, 0.5)]},
            r"round in circles \(state 0 -> state 1 -> state 0\).*give a horizon",
        ),
        ({"transitions": [(0, 0, 0, 0.5), (0, 0, 2, 0.5)]}, r"\(state 0 -> state 0\)"),
    ],
)
def test_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        MDP(**{**GOOD, **change})  # type: ignore[arg-type]


def test_a_long_cycle_is_named_by_its_beginning() -> None:
    ring = [(s, 0, (s + 1) % 50, 1.0) for s in range(50)]
    with pytest.raises(WorldError, match=r"state 0 -> state 1 -> .* -> state 7 -> \.\.\.\)") as caught:
        MDP(52, 1, [*ring, (50, 0, 51, 1.0)], start=0, terminal=[51])
    assert len(str(caught.value)) < 300


def test_large_tables_are_read() -> None:
    n_states, n_actions = 100_000, 8
    rng = np.random.default_rng(0)
    state, action = np.divmod(np.arange(n_states * n_actions), n_actions)
    rows = np.column_stack([state, action, rng.integers(0, n_states, len(state)), np.ones(len(state))])
    world = MDP(n_states, n_actions, rows, start=0, terminal=[5], horizon=100)
    assert len(world.source) == n_actions * (n_states - 1)  # none leave the terminal state


def test_unfinished_episodes_are_told_from_impossible_ones():
    """Out of time, or stuck; not what cannot happen, breaks off, or arrives."""
    rows = [(0, 0, 0, 0.5), (0, 0, 1, 0.5), (0, 1, 2, 1.0)]
    world = MDP(3, 2, rows, start=0, terminal=[1], horizon=3)
    late, stuck = Trajectory([0, 0, 0, 0], [0, 0, 0]), Trajectory([0, 0, 2], [0, 1])
    assert world.unfinished(late)
    assert world.unfinished(stuck)
    assert "runs out of time: after all 3 actions of the horizon it is in state 0" in world.problem(late)[1]
    assert world.problem(stuck)[1].endswith("and has no actions")
    for other in ([0, 0], [0, 1], [1], [0, 2, 0], [0, 0, 0, 0, 0], [9, 0]):
        assert not world.unfinished(Trajectory(other, [0] * (len(other) - 1)))
    endless = MDP(3, 2, rows, start=0, horizon=3)
    assert not endless.unfinished(late)
    assert endless.unfinished(stuck)


@given(worlds_by_hand())
def test_the_action_between_two_states_is_the_only_one_there_is(hand: ByHand) -> None:
    world = hand.build()
    for state, after in itertools.product(range(hand.n_states), repeat=2):
        fitting = [
            action
            for (source, action), outcomes in hand.table.items()
            if source == state and after in outcomes and state not in hand.terminal
        ]
        if len(fitting) == 1:
            assert world.along([state, after]) == Trajectory([state, after], fitting)
            continue
        with pytest.raises(TrajectoryError, match="expected exactly one") as caught:
            world.along([state, after])
        number = f"{len(fitting)} actions lead" if fitting else "no action leads"
        assert f"position 0: {number} from state {state} to state {after}" in str(caught.value)


def test_states_that_are_not_there_are_named_with_their_position() -> None:
    world = MDP(3, 1, CHAIN, 0, [2])
    assert world.along([0, 1, 2]) == Trajectory([0, 1, 2], [0, 0])
    with pytest.raises(TrajectoryError, match="position 1: state 7 does not exist: the world has states 0 to 2"):
        world.along([0, 1, 7])
    with pytest.raises(TrajectoryError, match="state 2 to state 1, expected exactly one; nothing leads on from there"):
        world.along([0, 1, 2, 1])
