"""Distributions given what was seen, against enumeration: every trajectory, and every way to read a record."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

import xmen as xm
from engines.truth import assert_agrees, assert_alike, follows, key, share_of, summed
from reference import exact_distribution
from strategies import cases, random_formula, random_world
from xmen.engines import diagnosis


@pytest.fixture(autouse=True)
def short_advice(monkeypatch):
    """Which horizon would have done is asked elsewhere; here the search for it would take most of the time."""
    monkeypatch.setattr(diagnosis, "shortest_valid", partial(diagnosis.shortest_valid, max_nodes=2_000))


def likelihood(rows, states, more=False, each=None):
    """p(y | tau) from the sentences of the documentation; rows (entries, n_states) are those of single entries."""
    n, n_entries = len(states), len(rows)
    if each is None:
        if n < n_entries or (n > n_entries and not more):
            return 0.0
        return math.prod(rows[t, states[t]] for t in range(n_entries))
    total = 0.0
    for inner in itertools.product((False, True), repeat=max(0, n - 2)):
        recorded = [0, *(t for t in range(1, n - 1) if inner[t - 1]), *([n - 1] if n > 1 else [])]
        if len(recorded) == n_entries or (more and len(recorded) > n_entries):
            way = math.prod(each if there else 1.0 - each for there in inner)
            total += way * math.prod(rows[k, states[recorded[k]]] for k in range(n_entries))
    return total


def random_sighting(rng, world, trajectories):
    """A sighting of one of the trajectories or of none, of any kind, and its likelihood as a function of states."""
    n_states = world.n_states
    states = list(trajectories[rng.integers(len(trajectories))][0])
    if rng.random() < 0.2:
        states = rng.integers(n_states, size=rng.integers(1, len(states) + 2)).tolist()
    more, each = bool(rng.random() < 0.4), None
    if rng.random() < 0.4:
        each = float(rng.choice([0.0, 0.3, 0.7, 1.0], p=[0.1, 0.4, 0.4, 0.1]))
        keep = rng.random(len(states)) < each
        keep[[0, -1]] = True
        entries = [s for s, kept in zip(states, keep, strict=True) if kept]
    else:
        hidden = rng.random(len(states)) < 0.5
        entries = [None if gone else s for s, gone in zip(states, hidden, strict=True)]
    if more:
        entries = entries[: rng.integers(1, len(entries) + 1)]
    table, error = rng.random((n_states, n_states)), 0.2
    table[rng.random(table.shape) < 0.3] = 0.0
    confused = np.full((n_states, n_states), error / max(1, n_states - 1))
    np.fill_diagonal(confused, 1.0 - error)
    kinds = [(None, np.eye(n_states)), (xm.confusion(error), confused), (table, table)]
    noise, of_symbol = kinds[rng.integers(3)]
    rows = np.array([np.ones(n_states) if entry is None else of_symbol[:, entry] for entry in entries])
    return xm.Sighting(entries, noise=noise, more=more, each=each), partial(likelihood, rows, more=more, each=each)


def posterior(truth, chance, discount, world):
    """P(tau | y) by listing; what is summed is P(tau) p(y | tau), so that log p(y) stands where log Z does."""
    chances = {tau: chance(tau[0]) for tau in truth.log_weights}
    logs = {tau: w - truth.log_partition for tau, w in truth.log_weights.items()}
    return summed(world, {tau: logs[tau] + math.log(p) for tau, p in chances.items() if p > 0.0}, discount)


def check(d, seen, truth, context):
    """The posterior of a sighting, or none where nothing explains it."""
    log_p = truth.log_partition
    if log_p == -math.inf:
        assert d.log_seen(seen) == -math.inf, context
        with pytest.raises(xm.InfeasibleError):
            d.seen(seen)
        return None
    e = d.seen(seen)
    assert d.log_seen(seen) == pytest.approx(log_p, abs=1e-9), context
    assert_agrees(e, truth, context, log_z=d.log_partition() + log_p)
    likeliest = [truth.log_weights[key(tau)] for tau in e.best(5)]
    np.testing.assert_allclose(likeliest, sorted(truth.log_weights.values())[:-6:-1], atol=1e-9, err_msg=context)
    return e


@pytest.mark.parametrize("block", range(6))
def test_agrees_with_enumeration(block):
    n_possible = n_impossible = 0
    for seed in range(block * cases(6), (block + 1) * cases(6)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        description, constraint = random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3)))
        reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
        discount = 1.0 if rng.random() < 0.5 else 0.9
        truth = exact_distribution(world, description, reward, discount)
        if not truth.log_weights:
            continue
        d = xm.distribution(world, constraint, reward, discount=discount, seed=seed, engine="exact")
        for _ in range(3):
            seen, chance = random_sighting(rng, world, list(truth.log_weights))
            after, context = posterior(truth, chance, discount, world), f"seed {seed}: {constraint}, {seen}"
            e = check(d, seen, after, context)
            if e is None:
                n_impossible += 1
                continue
            n_possible += 1
            further, rule = random_formula(rng, world.n_states, world.n_actions, depth=1)
            assert e.probability(rule) == pytest.approx(share_of(further, after), abs=1e-9), (context, str(rule))
    assert n_possible >= cases(4)
    assert n_possible + n_impossible >= cases(6)


def chain(horizon, rng):
    """Three states, from each to each, without an end: all trajectories have exactly `horizon` actions."""
    rows = [(s, a, a, 1.0) for s in range(3) for a in range(3)]
    return xm.MDP(3, 3, rows, start=rng.dirichlet(np.ones(3)), horizon=horizon)


@pytest.mark.parametrize("given", [None, "start"])
def test_worlds_without_an_end_and_given_starts(given):
    rng = np.random.default_rng(3)
    world = chain(4, rng)
    reward = rng.normal(size=(3, 3))
    truth = exact_distribution(world, None, reward, 1.0)
    if given:
        by_start = [exact_distribution(world.with_start(s), None, reward).log_partition for s in range(3)]
        for states, actions in truth.log_weights:
            truth.log_weights[states, actions] += truth.log_partition - by_start[states[0]]
    d = xm.distribution(world, None, reward, engine="exact", given=given)
    for _ in range(cases(6)):
        seen, chance = random_sighting(rng, world, list(truth.log_weights))
        check(d, seen, posterior(truth, chance, 1.0, world), str(seen))
    assert d.log_seen(xm.Sighting(3 * [None])) == -math.inf  # all trajectories have five positions
    assert d.log_seen(xm.Sighting(6 * [None], more=True)) == -math.inf


def test_rules_that_are_usually_kept_are_weighed_as_before():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    soft = xm.usually(xm.visit(grid.at((1, 1))).named("middle"), weight=1.3)
    d = xm.distribution(grid, soft & xm.never(grid.at((2, 0))), None, engine="exact")
    taus = d.best(100)
    for seen in (xm.Sighting([None, (0, 1), None, None, (2, 2)]), xm.Sighting([(0, 0), (2, 2)], each=0.3)):
        shares = np.array([math.exp(d.log_prob(tau)) for tau in taus])
        rows = np.exp(seen.log_rows(grid))
        shares *= [likelihood(rows, tau.states, each=seen.each) for tau in taus]
        e = d.seen(seen)
        assert d.log_seen(seen) == pytest.approx(math.log(shares.sum()), abs=1e-12)
        np.testing.assert_allclose([math.exp(e.log_prob(tau)) for tau in taus], shares / shares.sum(), atol=1e-12)
        middle = sum(p for p, tau in zip(shares, taus, strict=True) if soft.rule.accepts(tau)) / shares.sum()
        assert e.moments()[-1] == pytest.approx(middle, abs=1e-12)


def test_a_second_sighting_adds_to_the_first():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=8)
    d = xm.distribution(grid, xm.visit(grid.at((2, 0))), np.full((9, 4), -0.4), engine="exact")
    first, second = xm.Sighting([(0, 0), (1, 0)], more=True), xm.Sighting([(0, 0), (1, 1), (2, 2)], each=0.4)
    both = d.seen(first).seen(second)
    assert d.seen(first).log_seen(second) == pytest.approx(
        d.log_seen(second) + d.seen(second).log_seen(first) - d.log_seen(first)
    )
    other = d.seen(second).seen(first)
    np.testing.assert_allclose(both.visits(), other.visits(), atol=1e-12)
    assert both.entropy() == pytest.approx(other.entropy(), abs=1e-10)
    assert both.best(3) == other.best(3)
    again = d.with_reward(None).seen(first)
    np.testing.assert_allclose(d.seen(first).with_reward(None).visits(), again.visits(), atol=1e-12)


def test_samples_have_the_frequencies_of_the_posterior():
    """20,000 draws: a shift of .01 of the mass from one half of the trajectories to the other has p below 1e-6."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    d = xm.distribution(grid, None, np.random.default_rng(0).normal(size=(9, 4)), engine="exact", seed=0)
    for seen in (
        xm.Sighting([None, None, (1, 1)], more=True, noise=xm.confusion(0.4)),
        xm.Sighting([(0, 0), (1, 0), (2, 2)], each=0.3),
    ):
        e = d.seen(seen)
        taus = e.best(1000)
        shares = np.exp([e.log_prob(tau) for tau in taus])
        assert shares.sum() == pytest.approx(1.0)
        assert follows(e.sample(20_000, seed=1), dict(zip(taus, shares, strict=True)))


def test_a_device_gives_the_same_answers():
    pytest.importorskip("torch")
    grid = xm.GridWorld(4, 3, start=(0, 0), goal=(3, 2), horizon=9)
    reward = np.random.default_rng(0).normal(size=(12, 4))
    host, device = (
        xm.distribution(grid, xm.visit(grid.at((0, 2))), reward, engine="exact", discount=0.9, device=where)
        for where in (None, "cpu")
    )
    for seen in (xm.Sighting([None, None, (0, 2)], more=True), xm.Sighting([(0, 0), (0, 2), (3, 2)], each=0.3)):
        one, other = host.seen(seen), device.seen(seen)
        assert_alike(one, other, 1e-10)
        assert host.log_seen(seen) == pytest.approx(device.log_seen(seen), abs=1e-10)
        assert one.sample(5, seed=0) == other.sample(5, seed=0)
    with pytest.raises(xm.InfeasibleError, match="position 2"):
        device.seen(xm.Sighting([None, None, None]))


@pytest.mark.parametrize(
    ("sighting", "position", "conflict", "facts"),
    [
        (xm.Sighting([(0, 0), (1, 0), None, None, (2, 2)]), 1, ("grass",), ["position 0,", "position 1 ", "(1, 0)"]),
        (xm.Sighting([(2, 2)]), 0, (), ["position 0 "]),
        (xm.Sighting([(0, 0), (0, 1), None]), 2, (), ["none ends", "position 2"]),
        (xm.Sighting([(0, 0), (1, 0), (2, 2)], each=0.2), 1, ("grass",), ["entry 1 "]),
        (xm.Sighting([0, 2], noise=np.eye(9)), 1, (), ["position 1 ", "(2)"]),  # there is noise already
    ],
)
def test_what_nothing_explains_names_the_position_and_the_rule(sighting, position, conflict, facts):
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    d = xm.distribution(grid, [xm.never(grid.at((1, 0))).named("grass"), xm.visit(grid.at((1, 1)))], engine="exact")
    with pytest.raises(xm.InfeasibleError) as raised:
        d.seen(sighting)
    assert (raised.value.position, raised.value.conflict) == (position, conflict)
    said = str(raised.value)
    assert all(fact in said for fact in facts)
    assert ("Noise" in said) == (sighting.certain and not conflict)


def test_what_contradicts_an_earlier_sighting_is_compared_with_that():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    d = xm.distribution(grid, xm.visit(grid.at((1, 1))).named("middle"), engine="exact")
    first, second = xm.Sighting([(0, 0), (1, 0)], more=True), xm.Sighting([(0, 0), (0, 1), None], more=True)
    with pytest.raises(xm.InfeasibleError, match=r"before it: .*position 1 .*\(0, 1") as raised:
        d.seen(first).seen(second)
    assert raised.value.position == 1
    assert d.seen(first).log_seen(second) == -math.inf


def test_rejection_ranks_nothing_by_rules_that_it_left_out():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    soft = xm.usually(xm.no_revisit().named("simple"), weight=3.0)
    d = xm.distribution(grid, soft, None, engine="reject", max_nodes=10, seed=0).seen(xm.Sighting(7 * [None]))
    with pytest.raises(xm.EngineError, match="max_nodes"):
        d.best(2)


def test_what_is_not_weighed_is_refused():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    either = grid.with_start(np.bincount([0, 3], [0.3, 0.7], minlength=9))
    d = xm.distribution(either, xm.no_revisit(), given="start", engine="reject", max_nodes=5, seed=0)
    with pytest.raises(xm.EngineError, match=r"engine='exact' .*several starts"):
        d.seen(xm.Sighting(5 * [None]))
    exact = xm.distribution(grid, None, engine="exact")
    with pytest.raises(xm.XmenError, match="Sighting"):
        exact.seen([0, None])
    with pytest.raises(xm.XmenError, match="networks"):
        exact.seen(xm.Sighting(5 * [None], start=0))


def test_rejection_from_the_posterior_of_the_relaxation():
    """The bound on revisits is left to reject; estimates are compared in their standard errors."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=8)
    reward = np.random.default_rng(0).normal(size=(9, 4))
    exact = xm.distribution(grid, xm.no_revisit(), reward, engine="exact")
    reject = xm.distribution(grid, xm.no_revisit(), reward, engine="reject", max_nodes=40, seed=0)
    assert reject.sizes()["rejecting"]
    for seen in (xm.Sighting([None, (1, 0), None], more=True), xm.Sighting([(0, 0), (1, 1), (2, 2)], each=0.4)):
        one, other = exact.seen(seen), reject.seen(seen)
        error = math.hypot(reject.log_partition(return_std=True)[1], other.log_partition(return_std=True)[1])
        assert reject.log_seen(seen) == pytest.approx(exact.log_seen(seen), abs=5 * error)
        visits, errors = other.visits(return_std=True)
        assert (np.abs(visits - one.visits()) <= 5 * errors + 1e-9).all()
        assert other.entropy() == pytest.approx(one.entropy(), abs=0.2)
        assert other.best(3) == one.best(3)
        assert other.log_prob(one.mode()) == pytest.approx(one.log_prob(one.mode()), abs=5 * error)
        assert all(one.log_prob(tau) > -math.inf for tau in other.sample(50, seed=0))
    assert reject.log_seen(xm.Sighting([(2, 2)])) == -math.inf
