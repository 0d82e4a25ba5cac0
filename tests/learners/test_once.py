"""Work is done once per fit: rules are checked, events and features read, rewards tabulated once, and counted here."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import fields
from unittest import mock

import numpy as np
import pytest

import xmen as xm
from learners.tasks import grid_task
from xmen.constraints.constraint import Constraint
from xmen.engines.choose import distribution
from xmen.engines.settings import EngineSettings
from xmen.learners.xmen import XMEN
from xmen.machines.tables import MachineTable
from xmen.product.graph import ground_of
from xmen.rewards.linear import read_features, reward_table


class Counted(ExitStack):
    """Counts calls while it is entered, wherever a module of xmen has taken the name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def method(self, owner: type, name: str) -> None:
        self.enter_context(mock.patch.object(owner, name, self._counting(getattr(owner, name))))

    def function(self, function) -> None:
        for module in [module for name, module in sys.modules.items() if name.startswith("xmen")]:
            if vars(module).get(function.__name__) is function:
                self.enter_context(mock.patch.object(module, function.__name__, self._counting(function)))

    def _counting(self, real):
        def counting(*given, **named):
            self.calls[real.__qualname__] += 1
            return real(*given, **named)

        return counting


@pytest.mark.parametrize("given", [None, "start"])
def test_once_per_fit(given):
    """Before, this fit checked the rule three times, read events twice for each machine, and features twice."""
    grid, rule, features, demos = grid_task(4)
    with Counted() as counted:
        counted.method(Constraint, "check_world")
        counted.method(MachineTable, "__init__")
        counted.function(read_features)
        XMEN(grid, rule, features, given=given, l2=0.01).fit(demos)
    n_leaves = sum(1 for _ in rule.leaves())
    assert counted.calls == {"Constraint.check_world": 1, "MachineTable.__init__": n_leaves, "read_features": 1}


@pytest.mark.parametrize("engine", ["exact", "reject", "xor"])
def test_once_per_distribution(engine):
    grid, rule, _, _ = grid_task(4)
    reward = xm.LinearReward(np.ones((16, grid.n_actions, 1)), [0.5])
    with Counted() as counted:
        counted.method(Constraint, "check_world")
        counted.method(xm.LinearReward, "table")
        counted.function(reward_table)
        d = distribution(grid, rule, reward, engine=engine, oracle="listed", seed=0)
        d.sample(1)
    assert d.reward is reward
    assert counted.calls == {"Constraint.check_world": 1, "LinearReward.table": 1, "reward_table": 1}


def test_machines_of_one_fit_serve_what_is_asked_later():
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, l2=0.01).fit(demos)
    with Counted() as counted:
        counted.method(MachineTable, "__init__")
        model.score(demos)
        model.sample(3, also=rule, seed=0)
    assert not counted.calls


@pytest.mark.parametrize("given", [None, "start"])
def test_further_rules_multiply_the_product_at_hand(given):
    grid, rule, features, demos = grid_task(4)
    model = XMEN(grid, rule, features, l2=0.01, given=given).fit(demos)
    own, further = model.distribution(), xm.longest_repeat() <= 2
    with Counted() as counted:
        counted.function(ground_of)
        d = model.distribution(also=further)
    assert not counted.calls  # the world's own graph is not gone through again
    whole = distribution(grid, [rule, further], model.reward_, engine="exact", given=given)
    assert d.log_partition() == pytest.approx(whole.log_partition(), abs=1e-12)
    np.testing.assert_allclose(d.visits(), whole.visits(), atol=1e-12)
    assert all(rule.accepts(tau) and further.accepts(tau) for tau in d.sample(50, seed=0))
    assert model.distribution() is own
    with pytest.raises(xm.InfeasibleError, match="longest_repeat"):
        model.distribution(also=xm.longest_repeat() <= 0)


OTHER = {
    "engine": {"engine": "reject"},
    "max_nodes": {"max_nodes": 500},
    "oracle": {"oracle": "listed"},
    "cell_size": {"cell_size": 24.0},
    "delta": {"delta": 1.05},
    "failure": {"failure": 0.01},
    "time_limit": {"time_limit": 5.0},
    "device": {"device": "cpu"},
    "precision": {"device": "cpu", "precision": "float32"},
    "discount": {"discount": 0.5},
    "given": {"given": "start"},
    "seed": {"seed": 3},
    "constraint": {"constraint": None},
}


def test_a_distribution_is_kept_until_something_that_it_depends_on_changes():
    world, rule, features, demos = grid_task(4)
    assert OTHER.keys() >= {field.name for field in fields(EngineSettings)}  # a new one is asked about here, too
    for name, settings in OTHER.items():
        model = xm.XMEN(world, {"the rule": rule}, features=features, l2=0.1).fit(demos)
        d = model.distribution()
        assert model.distribution() is d
        before = {key: getattr(model, key) for key in settings}
        changed = model.set_params(**settings).distribution()
        assert changed is not d, name
        assert model.distribution() is changed
        assert model.set_params(**before).distribution() is not changed, name


def test_the_guarantee_that_is_stated_is_the_one_asked_for():
    world, rule, features, demos = grid_task(4)
    model = xm.XMEN(world, rule, features=features, l2=0.1).fit(demos).set_params(engine="xor", oracle="listed")
    assert [model.set_params(delta=delta).distribution().guarantee.delta for delta in (1.1, 1.05)] == [1.1, 1.05]


def test_a_list_of_rules_that_changes_is_another_question():
    world, rule, features, demos = grid_task(4)
    rules = [rule]
    model = xm.XMEN(world, rules, features=features, l2=0.1).fit(demos)
    d, further = model.distribution(), [xm.length() <= 100]
    assert model.distribution(also=further) is model.distribution(also=list(further))
    further.append(xm.length() >= 1)
    rules.append(xm.length() <= 101)
    assert model.distribution() is not d
    assert str(further[1]) in str(model.distribution(also=further).constraint)
