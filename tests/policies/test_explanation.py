"""Why nothing is sure: stories that hold in the tree of all histories, and words that a user understands."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from policies.histories import History, best_chance, solve
from policies.test_plan import drawn
from strategies import cases
from xmen.errors import InfeasibleError
from xmen.policies.behaviour import make_game
from xmen.policies.explanation import explain


@pytest.mark.parametrize("case", range(cases(45)))
def test_stories_hold(case: int) -> None:
    """Every step of the story is an outcome from which nothing is sure, and after it every action can be lost."""
    world, _, rule, _, _, tree = drawn(case)
    nothing = np.zeros((world.n_states, world.n_actions))
    sure, best = solve(tree, nothing, 1.0, "sure"), solve(tree, nothing, 1.0, "best")
    why = explain(make_game(world, rule))
    if why is None:
        assert all(sure.value[start] > -np.inf for start in tree.starts)
        return
    assert why.best == pytest.approx(best_chance(tree), abs=1e-9)
    history: History = ((why.start,), ())
    assert sure.value[history] == -np.inf
    for action, state in why.story:
        history = ((*history[0], state), (*history[1], action))
        assert sure.value[history] == -np.inf
    if history in tree.won:
        assert not why.failing
        assert not tree.won[history]
        return
    assert [action for action, _ in why.failing] == sorted(tree.outcomes[history])
    for action, state in why.failing:
        assert best.chance[(*history[0], state), (*history[1], action)] <= 1e-12
    assert shortest(tree, sure, best) <= len(why.story)
    assert str(why)


def shortest(tree, sure, best) -> int:
    """The least number of steps from an unsafe start to where every action can be lost at once."""
    front = [start for start in tree.starts if sure.value[start] == -np.inf]
    for n_steps in range(20):
        for history in front:
            targets = tree.outcomes.get(history, {}).values()
            if all(any(best.chance[h] <= 1e-12 for h, _ in outcomes) for outcomes in targets):
                return n_steps
        front = [
            h
            for history in front
            for outcomes in tree.outcomes[history].values()
            for h, _ in outcomes
            if sure.value[h] == -np.inf
        ]
    raise AssertionError


def test_the_words() -> None:
    """A bridge that may break under way: three steps of which one can go wrong."""
    rows = [(0, 0, 1, 1.0), (1, 0, 2, 0.9), (1, 0, 3, 0.1), (0, 1, 4, 1.0), (4, 0, 2, 1.0)]
    world = xm.MDP(5, 2, rows, start=0, terminal=[2, 3])
    dry = xm.never(xm.at(3)).named("stay dry")
    quick = xm.never(xm.at(4)).named("no detour")
    with pytest.raises(InfeasibleError) as raised:
        xm.plan(world, dry & quick, None)
    error = raised.value
    assert str(error) == (
        "no policy keeps the rules surely: from state 0, action 0 may lead to state 1; there every action can fail: "
        "action 0 may lead to state 3, which breaks 'stay dry'. The best probability there is: 0.9. Without 'stay dry' "
        "or without 'no detour' all other rules can be kept surely. Ask for validity='best', or for a probability up "
        "to 0.9."
    )
    assert error.best == pytest.approx(0.9)
    assert set(error.dropping) == {"stay dry", "no detour"}
    assert set(error.conflict) == {"stay dry", "no detour"}
    assert xm.plan(world, dry, None).validity == 1.0


def test_what_the_world_alone_forbids() -> None:
    world = xm.MDP(2, 1, [(0, 0, 1, 0.5), (0, 0, 0, 0.5)], start=0, terminal=[1], horizon=3)
    with pytest.raises(InfeasibleError, match="Even without rules no policy is sure to arrive in time") as raised:
        xm.plan(world, xm.always(xm.anytime), None)
    assert raised.value.conflict == ()
    assert raised.value.best == pytest.approx(0.875)
    with pytest.raises(InfeasibleError, match=r"No episode at all can keep them") as raised:
        xm.plan(world, xm.never(xm.at(0)).named("not here"), None)
    assert raised.value.best == 0.0
