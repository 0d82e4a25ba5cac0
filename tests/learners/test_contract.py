"""What every learner promises, XMEN with each of its methods and the baselines alike.

The learners are those of the table that storage reads, the methods those of XMEN's: a new one fails the first test here
until it has a row in `CASES`, and is under the contract from then on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmen as xm
from learners.quiet import quietly
from xmen.learners.base import Learner
from xmen.learners.xmen import METHODS
from xmen.registry import LEARNERS, load

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
REWARD = np.random.default_rng(0).normal(0, 1, (16, 2))
RULE = xm.never(GRID.at((1, 2)))
DEMOS = xm.distribution(GRID, RULE, REWARD, seed=0).sample(60)

# (learner, method of XMEN) -> its settings; the world comes first.
CASES: dict[tuple[str, str | None], dict[str, Any]] = {
    ("XMEN", "exact"): {"l2": 0.01},
    ("XMEN", "cells"): {"l2": 0.01, "oracle": "listed", "max_iter": 40, "seed": 0},
    ("XMEN", "paper"): {"l2": 0.01, "oracle": "listed", "max_iter": 8, "seed": 0},
    ("XMEN", "reject"): {"l2": 0.01, "seed": 0},
    ("CausalXMEN", None): {"l2": 0.01},
    ("MaxEntIRL", None): {"l2": 0.01},
    ("RelativeEntropyIRL", None): {"n_samples": 2000, "seed": 0},
    ("ConstraintInference", None): {"reward": REWARD, "kl_threshold": 0.05},
}


def maker(name: str, method: str | None) -> Callable[..., Learner]:
    rules = {"constraint": RULE, "method": method} if name == "XMEN" else {}
    return lambda **more: getattr(xm, name)(GRID, **rules, **CASES[name, method], **more)


learners = pytest.mark.parametrize(
    "make", [maker(*case) for case in CASES], ids=["-".join(filter(None, case)) for case in CASES]
)


def test_every_learner_and_every_method_is_here() -> None:
    assert {name for name, _ in CASES} == {learner.kind.__name__ for learner in LEARNERS.values()}
    assert {method for name, method in CASES if name == "XMEN"} == set(METHODS)


@learners
def test_contract(make: Callable[..., Learner], tmp_path: Path) -> None:
    learner: Any = make()
    given = learner.get_params()
    assert quietly(learner, DEMOS) is learner
    assert all(learner.get_params()[name] is value for name, value in given.items())
    assert learner.reward_.table().shape == (16, 2)
    assert learner.n_iter_ == len(learner.history_) > 0
    score = learner.score(DEMOS)
    d = learner.distribution()
    assert d.engine == "exact"
    assert score == pytest.approx(np.mean([d.log_prob(tau) for tau in DEMOS]), abs=1e-9)
    assert score > xm.distribution(GRID, None, None).log_prob(DEMOS[0])  # all paths are equally likely there
    assert all(GRID.problem(tau) is None for tau in learner.sample(100, seed=1))
    assert all(RULE.accepts(tau) for tau in learner.sample(100, also=RULE, seed=1))
    learner.save(str(tmp_path / "model"))
    loaded = load(tmp_path / "model")
    assert loaded.score(DEMOS) == score
    assert loaded.sample(20, seed=3) == learner.sample(20, seed=3)


@learners
def test_the_records_are_what_the_callback_saw(make: Callable[..., Learner]) -> None:
    seen: list[Any] = []
    learner: Any = quietly(make(callback=seen.append), DEMOS)
    assert learner.history_ == seen
    assert [record.iteration for record in seen] == list(range(1, len(seen) + 1))
    assert isinstance(learner.converged_, bool)
    stopped: Any = quietly(make(callback=lambda record: record.iteration == 1), DEMOS)
    assert stopped.n_iter_ == len(stopped.history_) == 1
    assert np.isfinite(stopped.reward_.table()).all()

    def interrupt(record: Any) -> None:
        raise KeyboardInterrupt

    with pytest.warns(xm.InterruptedWarning):
        interrupted: Any = make(callback=interrupt).fit(DEMOS)
    np.testing.assert_array_equal(interrupted.reward_.table(), stopped.reward_.table())
    assert interrupted.n_iter_ == 1
    assert interrupted.sample(1)


@learners
def test_the_same_again(make: Callable[..., Learner]) -> None:
    """Fits do not depend on those before; `also` and samples leave the model as it is."""
    learner: Any = quietly(make(), DEMOS)
    table, score = learner.reward_.table(), learner.score(DEMOS)
    inner = learner.distribution(also=xm.visit(GRID.at((2, 2))))
    assert inner.log_partition() < learner.distribution().log_partition()
    learner.sample(5)
    np.testing.assert_array_equal(learner.reward_.table(), table)
    quietly(learner, DEMOS[:1] * 20)
    assert not np.array_equal(learner.reward_.table(), table) or learner.score(DEMOS) != score
    np.testing.assert_array_equal(quietly(learner, DEMOS).reward_.table(), table)
    assert learner.score(DEMOS) == score


@learners
def test_weights_are_repetitions(make: Callable[..., Learner]) -> None:
    counts = np.arange(len(DEMOS)) % 3
    learner: Any = quietly(make(), DEMOS, sample_weight=counts)
    repeated = [tau for tau, n in zip(DEMOS, counts, strict=True) for _ in range(n)]
    assert learner.score(DEMOS, sample_weight=counts) == pytest.approx(learner.score(repeated), abs=1e-9)
    if not isinstance(learner, xm.RelativeEntropyIRL):  # whose threshold goes by the number of demonstrations
        np.testing.assert_allclose(quietly(make(), repeated).reward_.table(), learner.reward_.table(), atol=1e-8)


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        ([1.0], r"shape \(1,\) for 60"),
        (np.ones((60, 1)), r"shape \(60, 1\) for 60"),
        (-np.ones(60), "-1.0 for demonstration 0"),
        (np.r_[np.ones(59), np.nan], "nan for demonstration 59"),
        (np.zeros(60), "sample_weight is 0"),
        (["x"] * 60, "numbers"),
    ],
)
def test_weights_that_make_no_sense(weights: Any, named: str) -> None:
    for case in CASES:
        with pytest.raises(xm.TrajectoryError, match=named):
            maker(*case)().fit(DEMOS, sample_weight=weights)


@pytest.mark.parametrize(
    ("demos", "error", "named"),
    [
        (None, xm.TrajectoryError, "NoneType"),
        (5, xm.TrajectoryError, "int"),
        ([], xm.TrajectoryError, "no demonstrations"),
        (DEMOS[0], xm.TrajectoryError, r"write \[trajectory\]"),
        ([DEMOS[0], 3], xm.TrajectoryError, "demonstration 1 .* int"),
        ([DEMOS[0], xm.Trajectory([0, 15], [0])], xm.InvalidDemonstrationError, "demonstration 1"),
        ([xm.Trajectory([10**30], [])], xm.InvalidDemonstrationError, "demonstration 0"),
    ],
)
def test_demonstrations_that_are_none(demos: Any, error: type[Exception], named: str) -> None:
    for case in CASES:
        with pytest.raises(error, match=named):
            maker(*case)().fit(demos)


@pytest.mark.parametrize(
    ("setting", "value", "error", "named"),
    [
        ("world", "grid", xm.EngineError, "MDP.* str"),
        ("world", None, xm.EngineError, "MDP.* NoneType"),
        ("discount", 0, xm.EngineError, "discount .* 0"),
        ("discount", 1.5, xm.EngineError, "discount .* 1.5"),
        ("l2", -1.0, xm.EngineError, "l2 .* -1.0"),
        ("tol", np.nan, xm.EngineError, "tol .* nan"),
        ("tol", "small", xm.EngineError, "tol .* 'small'"),
        ("max_iter", -1, xm.EngineError, "max_iter .* -1"),
        ("max_iter", 1.5, xm.EngineError, "max_iter .* 1.5"),
        ("resume", True, xm.EngineError, "checkpoint"),
        ("checkpoint", 3, xm.EngineError, "checkpoint .* 3"),
        ("patience", 0, xm.EngineError, "patience .* 0"),
        ("patience", 1.5, xm.EngineError, "patience .* 1.5"),
        ("patience", "long", xm.EngineError, "patience .* 'long'"),
        ("max_nodes", 0, xm.EngineError, "max_nodes .* 0"),
        ("engine", "magic", xm.EngineError, "'magic'.* 'auto', 'exact', 'reject', 'xor'"),
        ("given", "end", xm.EngineError, "given .* 'end'"),
        ("device", "magic", xm.EngineError, "device 'magic'"),
        ("features", np.ones((3, 3, 1)), xm.RewardError, r"\(3, 3, 1\).* 16 states"),
        ("features", np.zeros((16, 2)), xm.RewardError, r"\(16, 2\).* 16 states"),
        ("features", np.full((16, 2, 1), np.nan), xm.RewardError, r"nan at \(0, 0, 0\)"),
        ("reward", np.zeros((2, 2)), xm.RewardError, r"ndarray|\(2, 2\)"),
        ("constraint", "visit(at(3))", xm.ConstraintError, r"visit\(at\(3\)\)"),
    ],
)
def test_settings_that_make_no_sense(setting: str, value: Any, error: type[Exception], named: str) -> None:
    having: list[Any] = [learner for learner in (maker(*case)() for case in CASES) if setting in learner.get_params()]
    assert having
    for learner in having:
        with pytest.raises(error, match=named):
            learner.set_params(**{setting: value}).fit(DEMOS)
        assert not hasattr(learner, "reward_")


@learners
def test_what_needs_a_fit_says_so(make: Callable[..., Learner], tmp_path: Path) -> None:
    learner: Any = make()
    for question in (
        lambda: learner.score(DEMOS),
        lambda: learner.sample(1),
        lambda: learner.distribution(),
        lambda: learner.save(tmp_path / "model"),
    ):
        with pytest.raises(xm.NotFittedError, match="fit"):
            question()
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match=r"'momentum'; it has 'world'"):
        learner.set_params(momentum=1)


@learners
def test_scikit_learn_can_clone_and_search(make: Callable[..., Learner]) -> None:
    base, selection = pytest.importorskip("sklearn.base"), pytest.importorskip("sklearn.model_selection")
    validation = pytest.importorskip("sklearn.utils.validation")
    learner: Any = quietly(make(), DEMOS)
    copy = base.clone(learner)
    assert type(copy) is type(learner)
    assert not hasattr(copy, "reward_")
    with pytest.raises(pytest.importorskip("sklearn.exceptions").NotFittedError):
        validation.check_is_fitted(copy)
    validation.check_is_fitted(quietly(copy, DEMOS))
    np.testing.assert_array_equal(copy.reward_.table(), learner.reward_.table())
    settings = {"l2": [0.001, 100.0]} if "l2" in learner.get_params() else {"seed": [0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xm.LearningWarning)
        search = selection.GridSearchCV(make(), settings, cv=3, error_score="raise").fit(DEMOS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(DEMOS) == search.best_estimator_.score(DEMOS)
    assert search.best_params_ == {name: values[0] for name, values in settings.items()}
