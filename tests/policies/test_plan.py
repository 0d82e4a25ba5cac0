"""Plans against the tree of all histories, on random small worlds with chance and random formulas.

At the end, why nothing is sure: stories that hold in the tree, and words that a user understands.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xmen as xm
from policies.histories import History, Solved, TooLarge, Tree, best_chance, solve, solve_for
from strategies import cases, random_formula, random_world
from xmen.errors import EngineError, InfeasibleError
from xmen.policies.behaviour import make_game
from xmen.policies.explanation import explain
from xmen.storage.codec import seal

N_CASES = cases(70)


def drawn(case: int) -> tuple[xm.MDP, tuple, xm.Constraint, np.ndarray, float, Tree]:
    """A world, a rule in both spellings, a reward, a discount, and the tree; most worlds have chance."""
    rng = np.random.default_rng([case, 12])
    while True:
        world = random_world(rng)
        formula, rule = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        reward = rng.normal(size=(world.n_states, world.n_actions)) * rng.choice([0.3, 3.0])
        if world.deterministic and case % 4:
            continue
        try:
            return world, formula, rule, reward, float(rng.choice([1.0, 0.9])), Tree(world, formula, most=6000)
        except TooLarge:
            continue


def assert_same(policy: xm.Policy, truth: Solved, reward: np.ndarray, discount: float) -> None:
    """Everything that a policy says of itself, and the probability of every episode."""
    assert policy.validity == pytest.approx(truth.validity, abs=1e-9)
    assert policy.visits() == pytest.approx(truth.visits(discount), abs=1e-9)
    assert policy.state_visits() == pytest.approx(truth.state_visits(), abs=1e-9)
    mode = policy.mode()
    assert truth.reached()[mode.states, mode.actions] == pytest.approx(truth.largest(), rel=1e-9)
    assert policy.entropy() == pytest.approx(truth.entropy(), abs=1e-9)
    assert policy.expected_reward() == pytest.approx(float(np.sum(truth.visits(discount) * reward)), abs=1e-8)
    values = policy.behaviour.start_values @ policy.behaviour.game.start_probability
    assert values == pytest.approx(truth.mean_value(), abs=1e-9)
    for history in list(truth.tree.won)[:200]:
        wanted = truth.log_prob(history)
        assert policy.log_prob(xm.Trajectory(*history)) == pytest.approx(wanted, abs=1e-8)
    assert_probabilities(policy, truth)


def assert_probabilities(policy: xm.Policy, truth: Solved) -> None:
    """Step by step through the public face, in episodes of the tree's own chances."""
    rng = np.random.default_rng(0)
    for start in truth.tree.starts:
        history = start
        policy.reset(start[0][0])
        while history in truth.tree.outcomes:
            assert not policy.done
            state = history[0][-1]
            wanted = np.zeros(truth.tree.world.n_actions)
            for action, share in truth.shares[history].items():
                wanted[action] = share
            assert policy.probabilities(state) == pytest.approx(wanted, abs=1e-9)
            targets = truth.tree.outcomes[history][policy.act(state)]
            history = targets[int(rng.integers(len(targets)))][0]
        policy.observe(history[0][-1])
        assert policy.done


def assert_chances(policy: xm.Policy, truth: Solved, seed: int) -> None:
    """Somebody else acts at random, and the policy says what is left of its promise."""
    rng = np.random.default_rng(seed)
    for start in truth.tree.starts:
        history = start
        policy.reset(start[0][0])
        while True:
            assert policy.chance(history[0][-1]) == pytest.approx(truth.chance[history], abs=1e-9)
            if history not in truth.tree.outcomes:
                break
            actions = list(truth.tree.outcomes[history])
            action = actions[int(rng.integers(len(actions)))]
            targets = truth.tree.outcomes[history][action]
            history = targets[int(rng.integers(len(targets)))][0]
            policy.step(action, history[0][-1])
        assert policy.done
        with pytest.raises(EngineError, match="over"):
            policy.step(0, history[0][-1])


@pytest.mark.parametrize("case", range(N_CASES))
def test_sure(case: int) -> None:
    world, _, rule, reward, discount, tree = drawn(case)
    truth = solve(tree, reward, discount, "sure")
    if any(truth.value[start] == -np.inf for start in tree.starts):
        with pytest.raises(InfeasibleError) as raised:
            xm.plan(world, rule, reward, "sure", discount)
        assert raised.value.best == pytest.approx(best_chance(tree), abs=1e-9)
        return
    policy = xm.plan(world, rule, reward, "sure", discount, seed=case)
    assert policy.validity == 1.0
    assert_same(policy, truth, reward, discount)
    for tau in policy.rollout(300):
        assert rule.accepts(tau)
        assert world.problem(tau) is None


@pytest.mark.parametrize("case", range(N_CASES))
def test_best(case: int) -> None:
    world, _, rule, reward, discount, tree = drawn(case)
    policy = xm.plan(world, rule, reward, "best", discount, seed=case)
    truth = solve(tree, reward, discount, "best")
    assert_same(policy, truth, reward, discount)
    assert_chances(policy, truth, case)


@pytest.mark.parametrize("case", range(N_CASES))
def test_probability(case: int) -> None:
    """p between what comes by itself, for which no bonus is paid, and the best there is, where the two differ."""
    world, _, rule, reward, discount, tree = drawn(case)
    free, best = solve(tree, reward, discount, "bonus", 0.0).validity, best_chance(tree)
    policy = xm.plan(world, rule, reward, max(0.0, free - 0.02), discount)
    assert policy.behaviour.aim == 0.0
    assert policy.validity == pytest.approx(free, abs=1e-9)
    p = free + float(np.random.default_rng(case).uniform(0.0, 0.98)) * (best - free)
    policy = xm.plan(world, rule, reward, p, discount, seed=case)
    if best - free < 1e-6:
        return
    assert policy.validity == pytest.approx(p, abs=1e-6)
    assert policy.validity >= p - 1e-12
    truth = solve_for(tree, reward, discount, p)
    assert policy.visits() == pytest.approx(truth.visits(discount), abs=1e-6)
    bonus = policy.behaviour.aim
    assert_same(policy, solve(tree, reward, discount, "bonus", bonus), reward, discount)
    if best < 1.0 - 1e-6:
        with pytest.raises(InfeasibleError, match="best probability"):
            xm.plan(world, rule, reward, min(1.0, best + 1e-6), discount)


@pytest.mark.parametrize("case", range(cases(30)))
def test_visits_while_there_is_hope(case: int) -> None:
    """Between those of histories that can still win and all visits; all of them where nothing can be lost."""
    world, _, rule, reward, discount, tree = drawn(case)
    found = xm.plan(world, rule, reward, "best", discount).behaviour.hopeful_visits()
    truth = solve(tree, reward, discount, "best")
    winning = {(w[0][: t + 1], w[1][:t]) for w, won in tree.won.items() if won for t in range(len(w[1]) + 1)}
    mass = truth.reached()
    least = np.zeros_like(found)
    for states, actions in winning & set(tree.outcomes):
        for action, share in truth.shares[states, actions].items():
            least[states[-1], action] += mass.get((states, actions), 0.0) * share
    assert np.all(found >= least - 1e-9)
    assert np.all(found <= truth.visits(1.0) + 1e-9)
    free = xm.plan(world, None, reward, "best", discount)
    if free.validity == 1.0:
        assert free.behaviour.hopeful_visits() == pytest.approx(
            solve(Tree(world, None), reward, discount, "best").visits(1.0)
        )


@pytest.mark.parametrize("case", range(cases(40)))
def test_breaking_each_rule(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([case, 13])
    world, formula, rule, reward, discount, _ = drawn(case)
    other_formula, other = random_formula(rng, world.n_states, world.n_actions, depth=1)
    both = rule.named("one") & other.named("two")
    tree = Tree(world, ("and", formula, other_formula), most=50_000)
    policy = xm.plan(world, both, reward, "best", discount)
    truth = solve(tree, reward, discount, "best")
    assert policy.validity == pytest.approx(truth.validity, abs=1e-9)
    wanted = {"one": truth.breaking(formula), "two": truth.breaking(other_formula)}
    broken = policy.breaks()
    assert {name: broken[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)
    monkeypatch.setattr("xmen.product.watch.MAX_ROWS", 0)  # machines that are too large are met as they come
    assert policy.breaks() == pytest.approx(broken, abs=1e-12)


@pytest.mark.parametrize("validity", ["sure", "best", 0.0, 0.3])
def test_without_rules(validity: object) -> None:
    world = xm.MDP(3, 1, [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (1, 0, 0, 1.0)], start=0, terminal=[2], horizon=4)
    if validity == "sure":
        with pytest.raises(InfeasibleError, match="in time"):
            xm.plan(world, None, None, validity)
        return
    policy = xm.plan(world, None, None, validity)
    assert policy.validity == pytest.approx(0.75)  # 0 - 2, or 0 - 1 - 0 - 2 in time
    assert policy.breaks() == {}


def test_validity_is_checked() -> None:
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    for wrong in ("surely", -0.1, 1.1, True, None, float("nan")):
        with pytest.raises(EngineError, match="validity"):
            xm.plan(grid, None, None, wrong)


def test_greedy_choices_keep_what_they_promise() -> None:
    # Action 0 is safe, action 1 risky and likelier to be taken: half of each keeps 0.75, the likelier one 0.5.
    world = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 1, 0.5), (0, 1, 2, 0.5)], start=0, terminal=[1, 2])
    rule, reward = xm.visit(xm.at(1)), [[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(EngineError, match="random choices"):
        xm.plan(world, rule, reward, 0.6, greedy=True)
    for validity in ("sure", "best"):
        policy = xm.plan(world, rule, reward, validity, greedy=True)
        policy.reset(0)
        assert policy.act(0) == 0


def test_a_probability_next_to_the_best_is_the_best() -> None:
    world = xm.MDP(3, 2, [(0, 0, 1, 0.7), (0, 0, 2, 0.3), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    rule = xm.visit(xm.at(1))
    for p in (0.7, 0.7 - 1e-10):
        policy = xm.plan(world, rule, None, p)
        policy.reset(0)
        assert policy.probabilities(0).tolist() == [1.0, 0.0]
    with pytest.raises(InfeasibleError, match=r"probability 0.8.*best .*: 0.7"):
        xm.plan(world, rule, None, 0.8)


@pytest.mark.parametrize("validity", ["sure", "best", 0.5])
def test_save_and_load(tmp_path: Path, validity: object) -> None:
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), slip=0.0 if validity == "sure" else 0.2, horizon=30)
    rule = xm.visit(grid.at((0, 2))).named("the corner") & xm.never(grid.at((2, 1))).named("not there")
    reward = np.random.default_rng(0).normal(size=(12, 4)) - 1.0
    policy = xm.plan(grid, rule, reward, validity, 0.95, seed=1)
    policy.save(tmp_path / "policy")
    again = xm.load(tmp_path / "policy")
    assert again.validity == policy.validity
    assert again.breaks() == policy.breaks()
    assert np.array_equal(again.visits(), policy.visits())
    assert again.rollout(50, seed=3) == policy.rollout(50, seed=3)
    with pytest.raises(xm.StorageError, match="no neural reward"):
        xm.load(tmp_path / "policy", module=object())


def test_a_damaged_policy_is_refused(tmp_path: Path) -> None:
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    xm.plan(grid).save(tmp_path / "policy")
    file = tmp_path / "policy" / "model.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"sure"', b'"luck"'))
    with pytest.raises(xm.StorageError, match="changed by hand"):
        xm.load(tmp_path / "policy")
    file.write_bytes(seal(file.read_bytes()))
    with pytest.raises(xm.StorageError, match=r"damaged.*luck"):
        xm.load(tmp_path / "policy")


def test_a_lost_way_may_be_longer_than_every_complete_trajectory() -> None:
    """No horizon: the goal is one action away, and a dead end three."""
    rows = [(0, 0, 1, 1.0), (0, 1, 2, 0.5), (0, 1, 1, 0.5), (2, 0, 3, 1.0), (2, 1, 4, 1.0), (3, 0, 4, 1.0)]
    world = xm.MDP(5, 2, rows, start=0, terminal=[1])
    tree = Tree(world, None)
    reward = np.random.default_rng(0).normal(size=(5, 2))
    assert world.max_length == 1
    assert_same(xm.plan(world, None, reward, 0.0), solve(tree, reward, 1.0, "bonus", 0.0), reward, 1.0)
    assert {len(tau) for tau in xm.plan(world, None, reward, 0.0, seed=0).rollout(200)} == {1, 2, 3}


def test_log_prob_of_what_cannot_be() -> None:
    world = xm.MDP(3, 2, [(0, 0, 1, 0.5), (0, 0, 0, 0.5), (0, 1, 2, 1.0)], start=0, terminal=[1, 2], horizon=2)
    policy = xm.plan(world, None, None, 0.0)
    assert policy.log_prob(xm.Trajectory([0], [])) == 0.0  # nothing was chosen yet
    assert policy.log_prob(xm.Trajectory([0, 0], [0])) == pytest.approx(policy.log_prob(xm.Trajectory([0, 1], [0])))
    for states, actions in (([0, 2], [0]), ([1], []), ([0, 1, 2], [0, 0]), ([0, 0, 0, 1], [0, 0, 0]), ([9, 1], [0])):
        assert policy.log_prob(xm.Trajectory(states, actions)) == -np.inf
    with pytest.raises(EngineError, match="Trajectory"):
        policy.log_prob([0, 1])


@pytest.mark.parametrize("validity", ["best", 0.5])
def test_layers_that_do_not_fit_are_made_again(monkeypatch: pytest.MonkeyPatch, validity: object) -> None:
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), horizon=17, slip=0.1)
    rule = xm.visit(grid.at((0, 3))).named("the corner")
    reward = np.random.default_rng(0).normal(size=(16, 4)) - 1.0
    kept = xm.plan(grid, rule, reward, validity, 0.95)
    monkeypatch.setattr("xmen.policies.game.LAYER_BYTES", 1)
    again = xm.plan(grid, rule, reward, validity, 0.95)
    assert len(again.behaviour._kept) < 8
    assert again.validity == kept.validity
    assert np.array_equal(again.visits(), kept.visits())
    assert again.rollout(20, seed=0) == kept.rollout(20, seed=0)
    tau = kept.rollout(1, seed=2)[0]
    assert again.log_prob(tau) == kept.log_prob(tau)


def test_what_is_too_large_says_so() -> None:
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), horizon=30, slip=0.1)
    with pytest.raises(xm.ProductTooLargeError, match=r"(?s)max_nodes = 100 .*horizon"):
        xm.plan(grid, xm.longest_repeat() <= 4, None, "best", max_nodes=100)


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
    story = ("state 0, action 0 .* state 1; .*action 0 .* state 3, .*'stay dry'", "Without 'stay dry' or .*'no detour'")
    for words in (*story, "best probability .*0.9", "validity='best'.* 0.9"):
        assert re.search(words, str(error))
    assert error.best == pytest.approx(0.9)
    assert set(error.dropping) == {"stay dry", "no detour"}
    assert set(error.conflict) == {"stay dry", "no detour"}
    assert xm.plan(world, dry, None).validity == 1.0


def test_what_the_world_alone_forbids() -> None:
    world = xm.MDP(2, 1, [(0, 0, 1, 0.5), (0, 0, 0, 0.5)], start=0, terminal=[1], horizon=3)
    for rule, best, words in (
        (xm.always(xm.anytime), 0.875, "Even without rules .*in time"),
        (xm.never(xm.at(0)).named("not here"), 0.0, "No episode"),
    ):
        with pytest.raises(InfeasibleError, match=words) as raised:
            xm.plan(world, rule, None)
        assert raised.value.best == pytest.approx(best)
        assert raised.value.conflict == ()
