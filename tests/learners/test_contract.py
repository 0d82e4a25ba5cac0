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
def test_scores_take_weights_as_repetitions(make: Callable[..., Learner]) -> None:
    counts = np.arange(len(DEMOS)) % 3
    learner: Any = quietly(make(), DEMOS, sample_weight=counts)
    repeated = [tau for tau, n in zip(DEMOS, counts, strict=True) for _ in range(n)]
    assert learner.score(DEMOS, sample_weight=counts) == pytest.approx(learner.score(repeated), abs=1e-9)
    with pytest.raises(xm.XmenError, match="weight"):
        make().fit(DEMOS, sample_weight=-np.ones(len(DEMOS)))
    with pytest.raises(xm.XmenError, match="weight"):
        make().fit(DEMOS, sample_weight=[1.0])


@learners
def test_what_is_refused(make: Callable[..., Learner]) -> None:
    learner: Any = make()
    for question in (
        lambda: learner.score(DEMOS),
        lambda: learner.sample(1),
        lambda: learner.distribution(),
        lambda: learner.save("nowhere"),
    ):
        with pytest.raises(xm.XmenError, match="fit"):
            question()
    with pytest.raises(xm.InvalidDemonstrationError, match="demonstration 1"):
        learner.fit([DEMOS[0], xm.Trajectory([0, 15], [0])])
    with pytest.raises(xm.XmenError):
        learner.fit([])
    with pytest.raises(ValueError, match="no setting 'momentum'"):
        learner.set_params(momentum=1)
    assert not hasattr(learner, "reward_")


@learners
def test_scikit_learn_can_clone_and_search(make: Callable[..., Learner]) -> None:
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    learner = make()
    copy = base.clone(learner)
    assert type(copy) is type(learner)
    assert not hasattr(copy, "reward_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xm.LearningWarning)
        scores = selection.cross_val_score(copy, DEMOS, cv=3)
    assert np.isfinite(scores).all()
