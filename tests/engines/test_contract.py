"""One contract for every engine, against the list of all valid trajectories.

The engines are those of the table that `xm.distribution` reads: a new engine is under this contract as soon as it has
a name there. `SETTINGS` has what an engine needs to show itself on worlds this small, if it needs anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import xmen as xm
from engines.truth import follows, key
from reference import ExactDistribution, exact_distribution
from strategies import build, cases, random_formula, random_world
from xmen.engines.choose import ENGINES

NAMES = [name for name in ENGINES if name != "auto"]
SETTINGS: dict[str, dict[str, Any]] = {
    "reject": {"max_nodes": 40},  # the relaxations get an eighth: something is left to reject
    "xor": {"oracle": "listed", "cell_size": 8, "delta": 1.1},
}
ANYTHING = xm.Sighting([None], more=True)
QUESTIONS = {
    "log_partition": lambda d: d.log_partition(),
    "visits": lambda d: d.visits(),
    "state_visits": lambda d: d.state_visits(),
    "mode": lambda d: d.mode(),
    "entropy": lambda d: d.entropy(),
    "expected_features": lambda d: d.expected_features(),
    "log_prob": lambda d: d.log_prob(d.sample(1, seed=0)[0]),
    "best": lambda d: [d.log_prob(tau) for tau in d.best(3)],
    "log_seen": lambda d: d.log_seen(ANYTHING),
    "seen": lambda d: d.seen(ANYTHING).log_partition(),
}


@dataclass
class Case:
    """A world with a rule in both spellings, and the truth by enumeration."""

    world: xm.MDP
    description: tuple
    reward: xm.LinearReward
    discount: float
    truth: ExactDistribution

    @property
    def constraint(self) -> xm.Constraint:
        return build(self.description)

    def distribution(self, engine: str, **more: Any) -> xm.Distribution:
        settings = {"discount": self.discount, "engine": engine, "seed": 0, **SETTINGS.get(engine, {}), **more}
        return xm.distribution(self.world, self.constraint, settings.pop("reward", self.reward), **settings)


@cache
def case(kind: str) -> Case:
    if kind == "grid":
        world: xm.MDP = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right", "up-right"))
        description: tuple = ("and", ("longest_repeat", "<=", 2), ("never", ("at", (6,))), ("no_revisit", ("anytime",)))
        discount = 1.0
    else:
        rows = [(s, a, (s + a + 1) % 5, 0.75) for s in range(4) for a in range(2)]
        rows += [(s, a, (s + a + 2) % 5, 0.25) for s in range(4) for a in range(2)]
        world = xm.MDP(5, 2, rows, start=[0.6, 0.4, 0, 0, 0], terminal=[4], horizon=6)
        description = ("and", ("no_revisit", ("at", (0, 1))), ("response", ("at", (2,)), ("doing", (1,)), 1))
        discount = 0.9
    rng = np.random.default_rng(5)  # a reward under which the most likely trajectory of the grid breaks a rule
    reward = xm.LinearReward(rng.normal(size=(world.n_states, world.n_actions, 3)), [0.5, -0.4, 0.3])
    return Case(world, description, reward, discount, exact_distribution(world, description, reward.table(), discount))


engines = pytest.mark.parametrize("engine", NAMES)
kinds = pytest.mark.parametrize("kind", ["grid", "chance"])


def test_the_cases_are_worth_asking_about() -> None:
    for kind in ("grid", "chance"):
        n_all = len(exact_distribution(case(kind).world, None, case(kind).reward.table()).log_weights)
        assert 20 < len(case(kind).truth.log_weights) < n_all - 5
    relaxed = case("chance").distribution("reject")
    assert relaxed.acceptance < 1  # type: ignore[attr-defined]
    assert case("grid").distribution("xor").n_parities > 0  # type: ignore[attr-defined]


@engines
def test_it_says_who_answers_and_what_is_guaranteed(engine: str) -> None:
    d = case("grid").distribution(engine)
    assert isinstance(d, xm.Distribution)
    assert d.engine == engine
    assert engine in repr(d)
    assert d.reason
    assert d.world is case("grid").world
    delta, failure = d.guarantee
    assert delta >= 1
    assert 0 <= failure < 1
    assert (delta == 1) == (failure == 0) == (engine != "xor")


@engines
@kinds
def test_samples_are_valid(engine: str, kind: str) -> None:
    samples = case(kind).distribution(engine).sample(400, seed=1)
    assert len(samples) == 400
    assert all(isinstance(tau, xm.Trajectory) for tau in samples)
    assert {key(tau) for tau in samples} <= set(case(kind).truth.log_weights)


@engines
def test_seeds_decide(engine: str) -> None:
    d, again = case("chance").distribution(engine), case("chance").distribution(engine)
    assert d.sample(30, seed=5) == d.sample(30, seed=5) == again.sample(30, seed=5)
    assert d.sample(30, seed=5) != d.sample(30, seed=6)
    first, second = d.sample(30), d.sample(30)
    assert first != second
    log_z = again.log_partition()  # asked before: the order of questions changes no answer
    assert [first, second, d.log_partition()] == [again.sample(30), again.sample(30), log_z]
    assert d.sample(30, seed=np.random.default_rng(3)) == d.sample(30, seed=np.random.default_rng(3))


@engines
def test_no_samples_and_bad_numbers_of_them(engine: str) -> None:
    d = case("chance").distribution(engine)
    assert d.sample(0) == []
    assert d.sample(0, seed=1) == []
    roomy = case("chance").distribution(engine, max_nodes=np.int64(10_000))
    assert len(roomy.sample(np.int64(3), seed=np.int64(1))) == 3  # type: ignore[arg-type]
    for n in (-1, 1.5, True, "many", None):
        with pytest.raises(xm.EngineError, match=r"sample\(n\)"):
            d.sample(n)  # type: ignore[arg-type]
    for seed in (-1, 1.5, "lucky"):
        with pytest.raises(xm.EngineError, match="seed"):
            d.sample(1, seed=seed)  # type: ignore[arg-type]
        with pytest.raises(xm.EngineError, match="seed"):
            case("chance").distribution(engine, seed=seed)
    if engine != "xor":
        with pytest.raises(xm.EngineError, match="whole number"):
            d.best(-1)


@engines
@kinds
def test_numbers_agree_with_the_list(engine: str, kind: str) -> None:
    """Within 6 stated standard errors; an engine that states none has to be right to rounding."""
    d, truth = case(kind).distribution(engine), case(kind).truth
    log_z, std = d.log_partition(return_std=True)
    assert abs(log_z - truth.log_partition) <= 6 * std + 1e-9
    assert log_z == d.log_partition()
    visits, errors = d.visits(return_std=True)
    assert visits.shape == errors.shape == (case(kind).world.n_states, case(kind).world.n_actions)
    assert np.all(np.abs(visits - truth.visits) <= 6 * errors + 1e-9)
    np.testing.assert_array_equal(visits, d.visits())
    if engine == "exact" or (d.guarantee.delta == 1 and not errors.any()):
        assert std == errors.max() == 0
    room = 1e-9 if not errors.any() else 0.2
    np.testing.assert_allclose(d.state_visits(), truth.state_visits, atol=room)
    assert d.entropy() == pytest.approx(truth.entropy, abs=room)
    np.testing.assert_allclose(
        d.expected_features(), np.einsum("sa,sad->d", d.visits(), case(kind).reward.features), atol=1e-12
    )


@engines
@kinds
def test_log_probabilities(engine: str, kind: str) -> None:
    d, truth = case(kind).distribution(engine), case(kind).truth
    for states, actions in list(truth.log_weights)[::7]:
        weight = d.log_prob(xm.Trajectory(states, actions)) + d.log_partition()
        assert weight == pytest.approx(truth.log_weights[states, actions], abs=1e-9)
    everything = exact_distribution(case(kind).world, None, case(kind).reward.table()).log_weights
    broken = next(tau for tau in everything if tau not in truth.log_weights)
    valid = next(iter(truth.log_weights))
    impossible = [
        broken,  # the rule does not allow it
        (valid[0][:-1], valid[1][:-1]),  # ends too early
        ((valid[0][0], valid[0][0]), (0,)),  # the world has no such move
        ((99,), ()),  # nor such a state
        ((valid[0][0], 99), (0,)),
    ]
    assert [d.log_prob(xm.Trajectory(*tau)) for tau in impossible] == [-math.inf] * 5
    for no_trajectory in (valid, [0, 1]):
        with pytest.raises(xm.EngineError, match="Trajectory"):
            d.log_prob(no_trajectory)  # type: ignore[arg-type]


@engines
@kinds
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_refused_names_an_engine_that_answers(engine: str, kind: str, question: str) -> None:
    answer, refusal = ask(case(kind), engine, question)
    if question == "mode" and not refusal:
        assert key(answer) in case(kind).truth.modes
    elif not refusal:
        assert np.all(np.isfinite(answer))
    else:
        named = [name for name in NAMES if name != engine and f"engine={name!r}" in refusal]
        assert named, refusal
        assert not any(ask(case(kind), name, question)[1] for name in named)


def ask(case: Case, engine: str, question: str) -> tuple[Any, str]:
    """The answer, or the words of the refusal."""
    try:
        return QUESTIONS[question](case.distribution(engine)), ""
    except xm.EngineError as error:
        return None, str(error)


@engines
def test_expected_features_need_features(engine: str) -> None:
    d = case("grid").distribution(engine, reward=None)
    with pytest.raises(xm.RewardError, match="LinearReward"):
        d.expected_features()


@engines
@kinds
def test_another_reward(engine: str, kind: str) -> None:
    """`with_reward` answers like a distribution made with that reward, and leaves the old one as it was."""
    d = case(kind).distribution(engine)
    before = d.log_partition()
    table = np.random.default_rng(8).normal(1.0, 1.0, size=(d.world.n_states, d.world.n_actions))
    other = d.with_reward(table)
    assert type(other) is type(d)
    assert (other.engine, other.world, other.constraint) == (engine, d.world, d.constraint)
    truth = exact_distribution(d.world, case(kind).description, table, d.discount)
    log_z, std = other.log_partition(return_std=True)
    assert abs(log_z - truth.log_partition) <= 6 * std + 1e-9
    assert {key(tau) for tau in other.sample(50, seed=1)} <= set(truth.log_weights)
    assert abs(truth.log_partition - case(kind).truth.log_partition) > 0.1
    assert d.log_partition() == before
    with pytest.raises(xm.RewardError, match="shape"):
        d.with_reward(np.zeros((2, 2)))


@pytest.mark.parametrize(
    "settings",
    [*({"engine": name} for name in NAMES), {"engine": "reject", "max_nodes": 1000}, {"oracle": "cryptominisat"}],
    ids=str,
)
def test_rules_that_cannot_hold_together_are_named(settings: dict[str, Any]) -> None:
    """The conflict and nothing else, in the order in which they were given."""
    world = xm.GridWorld(6, 6, start=(0, 0), goal=(5, 5), moves=("up", "right"))
    rules = [
        xm.never(world.at((2, 2))).named("not the middle"),
        xm.visit(world.at((5, 0))).named("east"),
        (xm.longest_repeat() <= 5).named("no long runs"),
        xm.visit(world.at((0, 5))).named("north"),
        xm.no_revisit().named("never twice"),
    ]
    with pytest.raises(xm.InfeasibleError) as caught:
        xm.distribution(world, rules, None, **{"engine": "xor", **settings})
    assert caught.value.conflict == ("east", "north")
    assert "'east', 'north'" in str(caught.value)
    assert "middle" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "n_worlds"),
    [
        ({"engine": "reject", "max_nodes": 6}, 40),
        ({"engine": "xor", "oracle": "listed", "cell_size": 2, "delta": 1.5}, 40),
        ({"engine": "xor", "oracle": "cryptominisat", "cell_size": 2, "delta": 1.5}, 12),
    ],
    ids=["reject", "listed", "cryptominisat"],
)
def test_random_problems(settings: dict[str, Any], n_worlds: int) -> None:
    """Tiny budgets and cells force rejection and hashing on small worlds, with chance and discounts too."""
    tried = inexact = 0
    for seed in range(cases(n_worlds)):
        rng = np.random.default_rng(seed)
        world = random_world(rng)
        parts = [random_formula(rng, world.n_states, world.n_actions, depth=1) for _ in range(1 + seed % 2)]
        rules = [part for _, part in parts]
        reward = rng.normal(size=(world.n_states, world.n_actions))
        discount = float(rng.choice([1.0, 0.9]))
        truth = exact_distribution(world, ("and", *(part for part, _ in parts)), reward, discount)
        if not truth.log_weights and settings["engine"] == "xor":  # rejection may only find out as it draws
            with pytest.raises(xm.InfeasibleError):
                xm.distribution(world, rules, reward, discount, seed=seed, **settings)
        if not 0 < len(truth.log_weights) <= 400:
            continue
        d = xm.distribution(world, rules, reward, discount, seed=seed, **settings)
        log_z, std = d.log_partition(return_std=True)
        assert abs(log_z - truth.log_partition) <= 5 * std + 1e-9, f"seed {seed}: {rules}"
        assert {key(tau) for tau in d.sample(20 if d.engine == "reject" else 5)} <= truth.log_weights.keys()
        tried += 1
        inexact += std > 0
    assert tried >= cases(5)
    assert inexact >= cases(1)


@engines
@kinds
def test_samples_follow_the_distribution(engine: str, kind: str) -> None:
    """4,000 samples, level 1e-4.

    Power: probabilities off by 20 % on half of the mass (chi-square distance 0.04) shift the statistic by 160, on fewer
    than 60 cells whose deviation is at most 11: found with probability above 0.999.
    """
    n, truth = 4000, case(kind).truth
    probability = {tau: math.exp(weight - truth.log_partition) for tau, weight in truth.log_weights.items()}
    kept = [p for p in probability.values() if n * p >= 5]
    assert 10 < len(kept) < 60
    assert sum(kept) > 0.9
    assert follows((key(tau) for tau in case(kind).distribution(engine).sample(n, seed=11)), probability)


def test_unknown_engines_are_refused_with_the_list() -> None:
    with pytest.raises(xm.EngineError) as caught:
        xm.distribution(case("grid").world, None, None, engine="magic")
    assert all(repr(name) in str(caught.value) for name in ENGINES)
