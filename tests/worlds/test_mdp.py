import itertools
import math
import pickle
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import enumerate_trajectories
from xmen import MDP, Trajectory, TrajectoryError, WorldError

CHAIN = [(0, 0, 1, 1.0), (1, 0, 2, 1.0)]


@dataclass
class ByHand:
    """A small world as plain dictionaries: table[state, action] = {next_state: probability}."""

    n_states: int
    n_actions: int
    table: dict[tuple[int, int], dict[int, float]]
    start: dict[int, float]
    terminal: set[int]
    horizon: int

    def build(self) -> MDP:
        rows = [(s, a, t, p) for (s, a), outcomes in self.table.items() for t, p in outcomes.items()]
        start = [self.start.get(s, 0.0) for s in range(self.n_states)]
        return MDP(self.n_states, self.n_actions, rows, start, self.terminal, self.horizon)


@st.composite
def worlds_by_hand(draw: st.DrawFn) -> ByHand:
    n_states = draw(st.integers(1, 4))
    n_actions = draw(st.integers(1, 2))
    states = st.integers(0, n_states - 1)
    table = {}
    for pair in itertools.product(range(n_states), range(n_actions)):
        targets = draw(st.lists(states, unique=True, max_size=2))
        if targets:
            table[pair] = {t: 1.0 / len(targets) for t in targets}
    starts = draw(st.lists(states, unique=True, min_size=1, max_size=2))
    terminal = draw(st.sets(states, max_size=2))
    if not table:
        table[0, 0] = {0: 1.0}
    return ByHand(n_states, n_actions, table, {s: 1.0 / len(starts) for s in starts}, terminal, draw(st.integers(0, 4)))


@given(worlds_by_hand())
def test_problem_and_dynamics_agree_with_enumeration(hand: ByHand) -> None:
    world = hand.build()
    complete = {(states, actions): weight for states, actions, weight in enumerate_trajectories(world)}
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
    assert world.start.tolist() == [hand.start.get(s, 0.0) for s in range(hand.n_states)]
    assert world.horizon == hand.horizon
    assert world.row_start.tolist() == [sum(row[0] < s for row in rows) for s in range(hand.n_states + 1)]
    assert {(s, a) for s, a in np.argwhere(world.available).tolist()} == set(kept)
    assert world.deterministic == all(p == 1.0 for *_, p in rows)
    assert world.has_terminal == bool(hand.terminal)
    assert set(np.flatnonzero(world.terminal).tolist()) == hand.terminal
    if rows or hand.terminal >= set(hand.start):
        again = MDP(world.n_states, world.n_actions, world.transitions, world.start, world.terminal, world.horizon)
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
    ("states", "actions", "position", "words"),
    [
        ([1, 2], [0], 0, "starts in state 1.* state 0"),
        ([9, 2], [0], 0, "state 9 .*0 to 3"),
        ([0, 1], [0], 1, "ends in state 1.* state 2"),
        ([0, 1, 2, 0], [0, 0, 0], 2, "after state 2"),
        ([0, 3], [0], 0, "action 0 in state 0 .* state 3 .*state 0, state 1"),
        ([0, 10**30], [0], 1, f"state {10**30}"),
        ([0, 1], [1], 0, "action 1 .* state 0 .*action 0"),
        ([0, 1], [7], 0, "action 7 .*0 to 1"),
        ([0, 1], [10**30], 0, f"action {10**30}"),
        ([0, 0, 0, 0, 1, 2], [0] * 5, 4, "has 5 actions, .*horizon .* 4"),
        ([0, 3, 2, 2, 2, 2], [0] * 5, 0, "action 0 in state 0"),  # the first thing that is wrong
    ],
)
def test_problem_says_what_and_where(states: list[int], actions: list[int], position: int, words: str) -> None:
    rows = [(0, 0, 1, 0.5), (0, 0, 0, 0.5), (1, 0, 2, 1.0), (3, 0, 2, 1.0)]
    world = MDP(4, 2, rows, start=0, terminal=[2], horizon=4)
    problem = world.problem(Trajectory(states, actions))
    assert problem is not None
    assert problem[0] == position
    assert re.search(words, problem[1])
    incomplete = words.startswith(("ends", "has"))
    assert (world.log_dynamics(Trajectory(states, actions)) > -np.inf) == incomplete


def test_fixed_length_trajectories_have_exactly_the_horizon() -> None:
    world = MDP(1, 1, [(0, 0, 0, 1.0)], start=0, horizon=2)
    assert world.problem(Trajectory([0, 0, 0], [0, 0])) is None
    for n_actions, position in ((1, 1), (3, 2)):
        problem = world.problem(Trajectory([0] * (n_actions + 1), [0] * n_actions))
        assert problem is not None
        assert problem[0] == position
        assert re.search(f"{n_actions} actions.* exactly 2", problem[1])


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
        ({"n_states": 0}, "n_states .*got 0"),
        ({"n_states": 2.5}, r"n_states .*got 2\.5 .float"),
        ({"n_states": True}, "n_states .*got True .bool"),
        ({"n_states": 2**40}, "n_states .* at most"),
        ({"n_actions": -1}, "n_actions .*got -1"),
        ({"n_actions": "two"}, "n_actions .*got 'two' .str"),
        ({"transitions": []}, "transitions is empty"),
        ({"transitions": 7}, "transitions .*got 7 .int"),
        ({"transitions": "abcd"}, "transitions .*str"),
        ({"transitions": [(0, 0, 1)]}, "row 0 .*4.* got 3"),
        ({"transitions": [*CHAIN, (1, 0, 2)]}, "row 2 .*4.* got 3"),
        ({"transitions": [*CHAIN, 5]}, "row 2 .*got 5"),
        ({"transitions": np.zeros((3, 3))}, "row 0 .*4.* got 3"),
        ({"transitions": [(0, "up", 1, 1.0)]}, "row 0: action .*got 'up' .str"),
        ({"transitions": [(0, 0, 1, "1.0")]}, "row 0: probability .*got '1.0' .str"),
        ({"transitions": [(0, None, 1, 1.0)]}, "row 0: action .*got None .NoneType"),
        ({"transitions": [*CHAIN, (3, 0, 1, 1.0)]}, "row 2 .*: state is 3.* 0 to 2"),
        ({"transitions": [(-1, 0, 1, 1.0)]}, "row 0 .*: state is -1"),
        ({"transitions": [(0, 1, 1, 1.0)]}, "row 0 .*: action is 1.* 0 to 0"),
        ({"transitions": [(0, 0, 9, 1.0)]}, "row 0 .*: next_state is 9"),
        ({"transitions": [(0, 0, 1.5, 1.0)]}, r"row 0 .*: next_state is 1\.5"),
        ({"transitions": [(0, 0, NAN, 1.0)]}, "row 0 .*: next_state is nan"),
        ({"transitions": [(float("inf"), 0, 0, 1.0)]}, "row 0 .*: state is inf"),
        ({"transitions": [(10**400, 0, 0, 1.0)]}, "row 0: state "),
        ({"transitions": [(0, 0, 1, NAN)]}, "row 0 .*probability is nan"),
        ({"transitions": [(0, 0, 1, -0.5), (0, 0, 2, 1.5)]}, r"row 0 .*probability is -0\.5"),
        ({"transitions": [(0, 0, 1, float("inf"))]}, "row 0 .*probability is inf"),
        ({"transitions": [*CHAIN, (0, 0, 2, 0.1)]}, r"action 0 in state 0 sum to 1\.1"),
        ({"transitions": [(0, 0, 1, 0.9), (1, 0, 2, 0.5)]}, r"state 0 sum to 0\.9, .*\(1 more such pairs\)"),
        ({"transitions": [(0, 0, 1, 0.0), (1, 0, 2, 1.0)]}, "action 0 in state 0 sum to 0,"),
        ({"transitions": [(0, 0, 1, 1 - 1e-8), (1, 0, 2, 1.0)]}, r"sum to 0\.99999999"),
        ({"start": 3}, "start state 3 .* 0 to 2"),
        ({"start": -1}, "start state -1"),
        ({"start": 0.0}, "start .*length 3, got .* .float"),
        ({"start": True}, "start .* got .* .bool"),
        ({"start": None}, "start .* got None"),
        ({"start": "abc"}, "start must be"),
        ({"start": [0, 1]}, "length 3, got .*length 2"),
        ({"start": []}, "length 3, got .*length 0"),
        ({"start": [[1, 0, 0]]}, "start must be"),
        ({"start": [[1, 0], 0]}, "start must be"),
        ({"start": [0.5, 0.4, 0]}, r"start: .* sum to 0\.9, not to 1"),
        ({"start": [1.5, -0.5, 0]}, r"start: .*state 1 is -0\.5"),
        ({"start": [NAN, 1, 0]}, "start: .*state 0 is nan"),
        ({"terminal": [3]}, "terminal state 3 .* 0 to 2"),
        ({"terminal": [-1]}, "terminal state -1"),
        ({"terminal": ["goal"]}, "terminal .*got 'goal' .str"),
        ({"terminal": "2"}, "terminal must be states"),
        ({"terminal": [True]}, "terminal .* got .* .bool"),
        ({"terminal": 2.0}, "terminal must be states"),
        ({"terminal": None}, "terminal must be states"),
        ({"terminal": np.array([True])}, r"\(3,\), got \(1,\)"),
        ({"horizon": -1}, "horizon .*got -1"),
        ({"horizon": 2.0}, r"horizon .*got 2\.0 .float"),
        ({"horizon": True}, "horizon .*got True .bool"),
        ({"horizon": "10"}, "horizon .*got '10' .str"),
        ({"horizon": 10**30}, "horizon .* at most"),
        ({"terminal": ()}, "without terminal states .*horizon"),
        ({"transitions": [*CHAIN[:1], (1, 0, 2, 0.5), (1, 0, 0, 0.5)]}, r"\(state 0 -> state 1 -> state 0\).*horizon"),
        ({"transitions": [(0, 0, 0, 0.5), (0, 0, 2, 0.5)]}, r"\(state 0 -> state 0\)"),
        (
            {"n_actions": 2, "transitions": np.zeros((3, 3, 2))},
            r"\(3, 3, 2\).*\(3, 2, 3\) by state.*\(2, 3, 3\) by action",
        ),
        ({"n_states": 2, "n_actions": 2, "transitions": np.full((2, 2, 2), 0.5), "terminal": [1]}, "may be by state"),
        ({"transitions": np.full((3, 1, 3), 1 / 3).astype(np.float32), "terminal": ()}, r"2 more .*float64"),
        ({"n_states": 2, "transitions": [[[0.0, 1.0], [1.0]], [[0.0, 1.0]]]}, "row 0 .*4 entries"),
        ({"n_states": 2, "transitions": np.array([[[0.0, -1.0]], [[0.0, 0.0]]]), "terminal": [1]}, "probability is -1"),
    ],
)
def test_refuses(change: dict[str, object], message: str) -> None:
    with pytest.raises(WorldError, match=message):
        MDP(**{**GOOD, **change})  # type: ignore[arg-type]


def test_a_long_cycle_is_named_by_its_beginning() -> None:
    ring = [(s, 0, (s + 1) % 50, 1.0) for s in range(50)]
    with pytest.raises(WorldError, match=r"state 0 -> state 1 -> .* -> state 7 -> \.\.\.") as caught:
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
    assert re.search("all 3 actions of the horizon .*state 0", world.problem(late)[1])
    assert "has no actions" in world.problem(stuck)[1]
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
        number = f"{len(fitting)} actions" if fitting else "no action"
        with pytest.raises(TrajectoryError, match=f"position 0: {number} .* state {state} to state {after}"):
            world.along([state, after])


def test_states_that_are_not_there_are_named_with_their_position() -> None:
    world = MDP(3, 1, CHAIN, 0, [2])
    assert world.along([0, 1, 2]) == Trajectory([0, 1, 2], [0, 0])
    for states, words in (
        ([0, 1, 7], "position 1: state 7 .*0 to 2"),
        ([0, 1, 2, 1], "state 2 to state 1.*nothing leads"),
    ):
        with pytest.raises(TrajectoryError, match=words):
            world.along(states)
