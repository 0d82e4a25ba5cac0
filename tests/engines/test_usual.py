"""Rules that are usually kept, against enumeration on random worlds and formulas."""

import numpy as np
import pytest

import xmen as xm
from engines.truth import assert_agrees, summed
from reference import exact_distribution, holds, positions
from strategies import cases, random_formula, random_world


def random_case(seed):
    rng = np.random.default_rng(seed)
    world = random_world(rng)
    made = [random_formula(rng, world.n_states, world.n_actions, depth=int(rng.integers(0, 3))) for _ in range(3)]
    reward = rng.normal(0, 1.5, (world.n_states, world.n_actions))
    discount = 1.0 if rng.random() < 0.5 else 0.9
    return world, made, reward, discount, rng.normal(0, 2, 2)


def truth_of(world, made, reward, discount, weights):
    """The distribution by listing, and for every valid trajectory which of the two usual rules it keeps."""
    (hard, _), *usual = made
    plain = exact_distribution(world, hard, reward, discount).log_weights
    kept = {tau: np.array([holds(one, positions(*tau)) for one, _ in usual]) for tau in plain}
    return summed(world, {tau: float(log + kept[tau] @ weights) for tau, log in plain.items()}, discount), kept


@pytest.mark.filterwarnings("ignore::xmen.RuleWarning")
@pytest.mark.parametrize("block", range(10))
def test_agrees_with_enumeration(block):
    feasible = 0
    for seed in range(block * cases(10), (block + 1) * cases(10)):
        world, made, reward, discount, weights = random_case(seed)
        truth, keeps = truth_of(world, made, reward, discount, weights)
        if not keeps:
            continue
        feasible += 1
        rule = made[0][1] & xm.usually(made[1][1], weight=weights[0]) & xm.usually(made[2][1], weight=weights[1])
        d = xm.distribution(world, rule, reward, discount, engine="exact", seed=seed)
        assert_agrees(d, truth, str(seed), atol=1e-8)
        kept = sum(np.exp(log - truth.log_partition) * keeps[tau] for tau, log in truth.log_weights.items())
        np.testing.assert_allclose(np.diag(d._flow.kept), kept, atol=1e-8, err_msg=str(seed))
        if 0.01 < kept[0] < 0.99:
            asked = made[0][1] & xm.usually(made[1][1], share=0.7)
            solved = xm.distribution(world, asked, reward, discount, engine="exact")
            assert solved.probability(made[1][1]) == pytest.approx(0.7, abs=1e-9), seed
            assert solved.with_reward(-reward).probability(made[1][1]) == pytest.approx(0.7, abs=1e-9), seed
    assert feasible >= cases(2)


def test_several_shares_are_solved_together():
    """Of 20 ways over 4x4 some keep both, one, or none: any two shares that these allow are met, and no others."""
    grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    centre, low = xm.visit(grid.at((1, 1))), xm.never(grid.at((3, 2)))
    reward = np.random.default_rng(0).normal(size=(16, 2))
    for first, second in ((0.9, 0.2), (0.05, 0.95), (0.5, 0.5)):
        both = xm.usually(centre, share=first) & xm.usually(low, share=second)
        d = xm.distribution(grid, both, reward)
        assert d.probability(centre) == pytest.approx(first, abs=1e-9)
        assert d.probability(low) == pytest.approx(second, abs=1e-9)
        again = d.with_reward(2.0 * reward)
        assert again.probability(centre) == pytest.approx(first, abs=1e-9)
        assert again.probability(low) == pytest.approx(second, abs=1e-9)
        # The weights are those of a distribution that enumeration would have: the same in every listed ratio.
        weights, listed = d.weights.rules, xm.distribution(grid).best(20)
        walks = [sum(reward[s, a] for s, a in zip(t.states, t.actions, strict=False)) for t in listed]
        logs = walks + np.array([[rule.accepts(t) for rule in (centre, low)] for t in listed]) @ weights
        np.testing.assert_allclose([d.log_prob(t) for t in listed], logs - np.logaddexp.reduce(logs), atol=1e-8)
    corner = xm.visit(grid.at((0, 3)))  # no way passes the corner and the centre
    with pytest.raises(xm.InfeasibleError, match=r"share=0\.7.*share=0\.6"):
        xm.distribution(grid, xm.usually(corner, share=0.7) & xm.usually(centre, share=0.6))


def test_every_trajectory_keeps_it_and_its_rule_says_whether_it_was_kept():
    rule = xm.never(xm.at(1)).named("no lava")
    soft = xm.usually(rule, weight=1.5)
    tau = xm.Trajectory([0, 1], [0])
    assert soft.accepts(tau)
    assert soft.explain(tau) is None
    assert soft.rule.explain(tau) is not None
    assert soft.label == "no lava"
    assert soft.named("dry").label == "dry"
    assert (soft & xm.visit(xm.at(1))).accepts(tau)
    assert xm.parse_constraint(str(soft)) == soft


@pytest.mark.parametrize(
    "make",
    [
        lambda soft, hard: soft | hard,
        lambda soft, hard: ~soft,
        lambda soft, hard: hard >> soft,
        lambda soft, hard: soft >> hard,
        lambda soft, hard: xm.exactly(1, soft, hard),
        lambda soft, hard: xm.usually(hard & soft),
    ],
)
def test_it_stands_at_the_top_only(make):
    with pytest.raises(xm.ConstraintError, match="top"):
        make(xm.usually(xm.visit(xm.at(1))), xm.visit(xm.at(2)))


def test_what_is_not_served_is_refused():
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    centre = xm.visit(grid.at((1, 1)))
    with pytest.raises(xm.ConstraintError, match=r"weight.*share"):
        xm.distribution(grid, xm.usually(centre))
    for engine in ("reject", "xor"):
        with pytest.raises(xm.EngineError, match=r"share=0\.9"):
            xm.distribution(grid, xm.usually(centre, share=0.9), engine=engine)
    with pytest.raises(xm.ConstraintError, match="weight="):
        xm.plan(grid, xm.usually(centre, share=0.5), np.zeros((9, 2)))
    with pytest.raises(xm.InfeasibleError, match=r"share=0\.5"):
        xm.distribution(grid, centre & xm.usually(centre, share=0.5))


def test_rejection_thins_out_what_it_cannot_multiply():
    """1 / (4 e + 2) of a standard error of about 0.003: a factor of e left out would be off by 0.17."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    centre = xm.visit(grid.at((1, 1)))
    d = xm.distribution(grid, xm.usually(centre, weight=1.0), engine="reject", max_nodes=1, seed=0)
    assert d.log_partition() == pytest.approx(np.log(4 * np.e + 2), abs=0.01)
    assert d.probability(centre, n=10_000, seed=1) == pytest.approx(4 * np.e / (4 * np.e + 2), abs=0.015)


@pytest.mark.parametrize("weight", [1.0, 5.0, -5.0])
@pytest.mark.parametrize("max_nodes", [None, 1])
@pytest.mark.parametrize("oracle", ["listed", "cryptominisat"])
def test_hashing_embeds_the_weights_of_rules(oracle, max_nodes, weight):
    """Six ways fit one cell, which is read and weighed exactly; weights that differ by 5 nats are copied first."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    centre, low = xm.visit(grid.at((1, 1))).named("centre"), xm.never(grid.at((0, 1))).named("low")
    rule = xm.usually(centre, weight=weight) & xm.usually(low, weight=0.5)
    exact = xm.distribution(grid, rule, engine="exact")
    d = xm.distribution(grid, rule, engine="xor", oracle=oracle, max_nodes=max_nodes, cell_size=200, seed=0)
    assert d.log_partition() == pytest.approx(exact.log_partition(), abs=1e-9)
    np.testing.assert_allclose(d.visits(), exact.visits(), atol=1e-9)
    for tau in exact.best(6):
        assert d.log_prob(tau) == pytest.approx(exact.log_prob(tau), abs=1e-9)
    # A share of 300 draws within delta = 1.1 of its probability: a weight of 5 left out would be off by 0.3.
    share = exact.probability(centre)
    assert d.probability(centre, n=300) == pytest.approx(share, abs=0.1 * share + 4 * np.sqrt(share / 300))


@pytest.mark.filterwarnings("ignore::xmen.RuleWarning")
def test_copies_of_a_solver_have_the_weights_of_rules():
    """The adder has the weight of a rule exactly where the rule's own sentence says that a trajectory keeps it."""
    found, seed = 0, 0
    while found < cases(5):
        world, made, reward, _, weights = random_case(seed)
        seed, (truth, keeps) = seed + 1, truth_of(world, made, reward, 1.0, weights)
        if 2 <= len(keeps) <= 200 and len({tuple(kept) for kept in keeps.values()}) > 1:
            found += 1
            (_, hard), (_, one), (_, other) = made
            rule = hard & xm.usually(one, weight=weights[0]) & xm.usually(other, weight=weights[1])
            asked = {"engine": "xor", "oracle": "cryptominisat", "cell_size": 10_000, "seed": seed}
            d = xm.distribution(world, rule, reward, **asked)
            assert d.log_partition() == pytest.approx(truth.log_partition, abs=1e-8), seed


def test_a_policy_has_a_bonus_on_ends_that_keep_it():
    """Without chance the policy is P(tau) itself; with chance its value is that of the tree, worked out by hand."""
    grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    centre, reward = xm.visit(grid.at((1, 1))).named("centre"), np.random.default_rng(0).normal(size=(9, 2))
    rule = xm.usually(centre, weight=1.5) & xm.never(grid.at((2, 0)))
    policy, d = xm.plan(grid, rule, reward), xm.distribution(grid, rule, reward)
    for tau in d.best(5):
        assert policy.log_prob(tau) == pytest.approx(d.log_prob(tau), abs=1e-9)
    assert policy.breaks()["centre"] == pytest.approx(1.0 - d.probability(centre), abs=1e-9)
    # Action 0 keeps the rule half the time, action 1 never: exp(0.5 * 2) to 1.
    rows = [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (0, 1, 2, 1.0), (1, 0, 3, 1.0), (2, 0, 3, 1.0)]
    world = xm.MDP(4, 2, rows, start=0, terminal=[3])
    policy = xm.plan(world, xm.usually(xm.visit(xm.at(1)), weight=2.0))
    assert policy.log_prob(xm.Trajectory([0, 2, 3], [0, 0])) == pytest.approx(1.0 - np.log(np.e + 1.0), abs=1e-9)
