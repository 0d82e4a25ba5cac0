"""Maximum likelihood constraint inference against a greedy search over listed trajectories."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

import xmen as xm
from reference import exact_distribution, happens, positions
from strategies import FormulaRules, NumpyChoices, build_event, cases, random_world
from xmen.baselines.constraint_inference import ConstraintInference
from xmen.errors import InterruptedWarning
from xmen.machines.tables import CompiledConstraint

DIAGONAL = ("up", "right", "down", "left", "up-right", "up-left", "down-right", "down-left")


def meets(event, tau):
    return any(happens(event, position) for position in positions(*tau))


def test_meeting_probabilities_by_enumeration():
    """P(event happens somewhere | something forbidden never does), on random worlds, rewards and discounts."""
    compared = 0
    for seed in range(cases(150)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        rules = FormulaRules(NumpyChoices(rng), world.n_states, world.n_actions)
        events, forbidden = [rules.event() for _ in range(3)], rules.event()
        reward, discount = rng.normal(0, 1.5, (world.n_states, world.n_actions)), 1.0 if seed % 2 else 0.9
        truth = exact_distribution(world, ("never", forbidden), reward, discount)
        if not truth.log_weights:
            continue
        compared += 1
        expected = [
            sum(math.exp(w - truth.log_partition) for tau, w in truth.log_weights.items() if meets(event, tau))
            for event in events
        ]
        d = xm.distribution(world, xm.never(build_event(forbidden)), reward, discount, engine="exact")
        rules = [CompiledConstraint(xm.never(build_event(event)), world) for event in events]
        found = [d.chain.mass_broken(rule, 10**6) for rule in rules]
        np.testing.assert_allclose(found, expected, atol=1e-12, err_msg=f"seed {seed}")
    assert compared > cases(40)


def greedy_by_enumeration(weights, demos, candidates, threshold):
    """The algorithm in one breath: (names, probabilities eliminated, divergences), over listed trajectories."""
    share = {tau: n / len(demos) for tau, n in Counter(demos).items()}
    left, chosen, eliminated = dict(weights), [], []
    possible = [(name, event) for name, event in candidates if not any(meets(event, tau) for tau in share)]

    def divergence():
        z = math.fsum(map(math.exp, left.values()))
        return math.fsum(p * math.log(p * z / math.exp(left[tau])) for tau, p in share.items())

    kl = [divergence()]
    while possible:
        z = math.fsum(map(math.exp, left.values()))
        mass = [math.fsum(math.exp(w) for tau, w in left.items() if meets(event, tau)) / z for _, event in possible]
        best = next(i for i, p in enumerate(mass) if p >= max(mass) - 1e-12)
        name, event = possible[best]
        left, before = {tau: w for tau, w in left.items() if not meets(event, tau)}, left
        after = divergence()
        if kl[-1] - after < threshold or mass[best] <= 1e-12:
            left = before
            break
        chosen.append(name)
        eliminated.append(mass[best])
        kl.append(after)
    return chosen, eliminated, kl


def test_agrees_with_greedy_search_by_enumeration():
    rules_found = 0
    for seed in range(cases(60)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        reward = rng.normal(0, 1, (world.n_states, world.n_actions))
        discount = 1.0 if seed % 2 else 0.9
        weights = exact_distribution(world, None, reward, discount).log_weights
        if len(weights) < 10:
            continue
        taus = list(weights)
        p = np.exp(np.array(list(weights.values())))
        demos = [taus[i] for i in rng.choice(len(taus), 4, p=p / p.sum())]
        named = {
            f"event {i}": FormulaRules(NumpyChoices(rng), world.n_states, world.n_actions).event() for i in range(2)
        }
        candidates = [(f"never {name}", event) for name, event in named.items()]
        candidates += [(f"never action {a}", ("doing", (a,))) for a in range(world.n_actions)]
        candidates += [(f"never state {s}", ("at", (s,))) for s in range(world.n_states)]
        names, eliminated, kl = greedy_by_enumeration(weights, demos, candidates, 0.05)
        events = {name: build_event(event) for name, event in named.items()}
        model = ConstraintInference(world, reward, discount, events=events, kl_threshold=0.05)
        model.fit([xm.Trajectory(*tau) for tau in demos])
        assert [rule.name for rule in model.constraints_] == names, f"seed {seed}"
        np.testing.assert_allclose(model.eliminated_, eliminated, atol=1e-9)
        np.testing.assert_allclose(model.kl_, kl, atol=1e-9)
        share = Counter(demos)
        entropy = -sum(n / 4 * math.log(n / 4) for n in share.values())
        assert model.score([xm.Trajectory(*tau) for tau in demos]) == pytest.approx(-model.kl_[-1] - entropy, abs=1e-9)
        rules_found += len(names)
    assert rules_found > cases(5)


def test_three_ways_by_hand():
    """Three ways with rewards log 1, log 2, log 3 and demonstrations of the first: the third goes with probability
    1/2, and then the second with 2/3. The divergence falls from log 6 to log 3 to 0."""
    world = xm.MDP(4, 3, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (0, 2, 3, 1.0)], start=0, terminal=[1, 2, 3])
    reward = np.zeros((4, 3))
    reward[0] = np.log([1, 2, 3])
    model = ConstraintInference(world, reward, candidates=("states",)).fit([xm.Trajectory([0, 1], [0])])
    assert [str(rule) for rule in model.constraints_] == [
        "never(at(3)).named('never state 3')",
        "never(at(2)).named('never state 2')",
    ]
    np.testing.assert_allclose(model.eliminated_, [1 / 2, 2 / 3], atol=1e-12)
    np.testing.assert_allclose(model.kl_, [math.log(6), math.log(3), 0], atol=1e-12)
    assert model.converged_
    # Actions do the same here, and come before states.
    model = ConstraintInference(world, reward, max_constraints=1).fit([xm.Trajectory([0, 1], [0])])
    assert [rule.name for rule in model.constraints_] == ["never action 2"]
    assert not model.converged_
    assert model.n_iter_ == 1
    # A rule that forbids 1/2 lowers the divergence by log 2 = 0.693.
    for threshold, expected in ((0.69, 1), (0.70, 0)):
        model = ConstraintInference(world, reward, candidates=("states",), max_constraints=1, kl_threshold=threshold)
        assert len(model.fit([xm.Trajectory([0, 1], [0])]).constraints_) == expected


def obstacle(height):
    """A 9x9 grid with an obstacle column between start and goal, straight steps 1 and diagonal steps sqrt 2."""
    grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 0), moves=DIAGONAL, horizon=14)
    reward = np.full((81, 8), -2.0)
    reward[:, 4:] *= math.sqrt(2)
    return grid, reward, [(4, y) for y in range(height)]


@pytest.fixture(scope="module")
def rock():
    """The grid, its reward, the obstacle's cells and 500 demonstrations around it.

    With far fewer, cells behind the obstacle stay unseen and are taken for part of it, as the paper reports too.
    """
    grid, reward, cells = obstacle(5)
    return grid, reward, cells, xm.distribution(grid, xm.never(grid.at(*cells)), reward, seed=0).sample(500)


def test_the_obstacle_is_found_cell_by_cell(rock):
    grid, reward, cells, demos = rock
    model = ConstraintInference(grid, reward).fit(demos)
    assert {rule.name for rule in model.constraints_} == {f"never cell ({x}, {y})" for x, y in cells}
    assert model.converged_
    assert np.all(np.diff(model.kl_) < -0.1)
    assert not any(x == 4 and y < 5 for tau in model.sample(500, seed=0) for x, y in map(grid.cell, tau.states))
    truth = xm.distribution(grid, xm.never(grid.at(*cells)), reward)
    assert model.score(demos) == pytest.approx(np.mean([truth.log_prob(tau) for tau in demos]), abs=1e-9)


def test_the_first_rule_is_the_most_probable_by_the_engine(rock):
    """Eliminated probability = P(visit) under the nominal model, one product per candidate: another way to it."""
    grid, reward, _, demos = rock
    nominal = xm.distribution(grid, None, reward).log_partition()
    unseen = set(range(81)) - {s for tau in demos for s in tau.states}
    unseen = {s for s in unseen if grid.cell(s)[1] < 6}  # the horizon leaves no time to go higher
    p = {s: math.exp(xm.distribution(grid, xm.visit(xm.at(s)), reward).log_partition() - nominal) for s in unseen}
    model = ConstraintInference(grid, reward, candidates=("states",), max_constraints=1).fit(demos)
    best = max(p, key=p.get)
    assert str(model.constraints_[0]) == f"never(at({best})).named('never {grid.describe_state(best)}')"
    assert model.eliminated_[0] == pytest.approx(p[best], abs=1e-12)


def test_a_named_event_explains_more_at_once(rock):
    grid, reward, cells, demos = rock
    model = ConstraintInference(grid, reward, events={"the rock": grid.at(*cells)}).fit(demos)
    assert [rule.name for rule in model.constraints_] == ["never the rock"]
    one_by_one = ConstraintInference(grid, reward).fit(demos)
    assert model.kl_[-1] == pytest.approx(one_by_one.kl_[-1], abs=1e-9)


def test_further_rules_weights_and_fitting_again():
    grid, reward, cells = obstacle(3)
    demos = xm.distribution(grid, xm.never(grid.at(*cells)), reward, seed=0).sample(60)
    other = xm.distribution(grid, xm.visit(grid.at((4, 1))), reward, seed=0).sample(5)
    model = ConstraintInference(grid, reward).fit(demos)
    high = xm.visit(grid.at(*[(x, 5) for x in range(9)]))
    assert all(high.accepts(tau) for tau in model.sample(50, also=high, seed=1))
    assert model.score(other) == -math.inf
    assert ConstraintInference(grid, reward).fit(demos + other).constraints_ != model.constraints_
    model.fit(demos + other, sample_weight=[1.0] * 60 + [0.5] * 5)  # nothing is left over from the first fit
    assert not any(rule.name == "never cell (4, 1)" for rule in model.constraints_)
    assert model.score(other) > -math.inf


def test_a_linear_reward_stays_one(rock):
    grid, reward, _, demos = rock
    linear = xm.LinearReward(reward[:, :, None], [1.0])
    model, plain = (ConstraintInference(grid, given, max_constraints=2).fit(demos) for given in (linear, reward))
    assert model.reward_ is linear
    assert [str(a) for a in plain.constraints_] == [str(b) for b in model.constraints_]
    assert plain.score(demos) == model.score(demos)


def test_interrupts_keep_what_was_found(rock):
    def interrupt(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    grid, reward, _, demos = rock
    with pytest.warns(InterruptedWarning):
        model = ConstraintInference(grid, reward, callback=interrupt).fit(demos)
    assert len(model.constraints_) == len(model.eliminated_) == len(model.kl_) - 1 == 2


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"candidates": "states"}, "candidates .* 'states' and 'actions'"),
        ({"candidates": ("cells",)}, "candidates .* 'states' and 'actions'"),
        ({"candidates": ()}, "nothing to infer"),
        ({"kl_threshold": -0.1}, "kl_threshold .* -0.1"),
        ({"kl_threshold": "low"}, "kl_threshold .* 'low'"),
        ({"kl_threshold": math.nan}, "kl_threshold .* nan"),
        ({"max_constraints": -1}, "max_constraints .* -1"),
        ({"events": [xm.at(1)]}, "events .* list"),
        ({"events": {"rock": 3}}, r"events\['rock'\]"),
        ({"events": {"rock": xm.at(99)}}, "state 99"),
    ],
)
def test_bad_settings(settings, named):
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    with pytest.raises(xm.XmenError, match=named):
        ConstraintInference(**{"world": grid, **settings}).fit([xm.Trajectory([0, 1, 3], [1, 0])])


def test_a_reward_that_was_given_has_no_errors():
    grid = xm.GridWorld(2, 2, start=(0, 0), goal=(1, 1), moves=("up", "right"))
    model = ConstraintInference(grid).fit([xm.Trajectory([0, 1, 3], [1, 0])])
    with pytest.raises(xm.EngineError, match="was given"):
        model.summary()
