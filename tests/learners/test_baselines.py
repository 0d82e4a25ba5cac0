"""What all baselines promise: settings as given, saved models that answer the same, and scikit-learn's clone."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.baselines.relative_entropy import RelativeEntropyIRL
from xmen.registry import load

GRID = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
REWARD = np.random.default_rng(0).normal(0, 1, (16, 2))
RULE = xm.never(GRID.at((1, 2)))
DEMOS = xm.distribution(GRID, RULE, REWARD, seed=0).sample(60)

BASELINES = [
    MaxEntIRL(GRID, l2=0.01),
    RelativeEntropyIRL(GRID, n_samples=2000, seed=0),
    ConstraintInference(GRID, REWARD, kl_threshold=0.05),
]


@pytest.mark.parametrize("learner", BASELINES, ids=lambda learner: type(learner).__name__)
def test_contract(learner, tmp_path):
    given = learner.get_params()
    assert learner.fit(DEMOS) is learner
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


@pytest.mark.parametrize("learner", BASELINES, ids=lambda learner: type(learner).__name__)
def test_scikit_learn_can_clone_and_search(learner):
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    copy = base.clone(learner)
    assert type(copy) is type(learner)
    assert not hasattr(copy, "reward_")
    scores = selection.cross_val_score(MaxEntIRL(GRID, l2=0.1), DEMOS, cv=3)
    assert np.isfinite(scores).all()
