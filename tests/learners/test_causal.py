"""CausalXMEN against the tree of all histories: the dual loss, its gradient and its optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import xmen as xm
from learners.tasks import slopes, small_task
from policies.histories import Tree, best_chance, solve
from policies.test_plan import drawn
from strategies import cases
from xmen.learners.causal import CausalXMEN
from xmen.methods.likelihood import Objective
from xmen.methods.runs import Coordinates
from xmen.rewards.linear import read_features

N_FEATURES = 3


class Drawn:
    """A world with chance, a rule, features, and episodes of a policy of the kind that is to be learned."""

    def __init__(self, case: int, validity: str) -> None:
        for seed in range(1000 * case, 1000 * case + 1000):
            self.world, _, self.rule, reward, self.discount, self.tree = drawn(seed)
            best = best_chance(self.tree)
            if best < 0.05 or (validity == "sure" and best < 1.0 - 1e-9) or self.world.deterministic:
                continue
            self.validity: Any = round(0.6 * best, 3) if validity == "p" else validity
            try:
                policy = xm.plan(self.world, self.rule, reward, self.validity, self.discount)
            except xm.InfeasibleError:
                continue
            self.demos = policy.rollout(60, seed=case)
            if policy.entropy() > 0.3:
                break
        rng = np.random.default_rng(case)
        self.features = rng.normal(size=(self.world.n_states, self.world.n_actions, N_FEATURES))
        self.weights = rng.gamma(1.0, size=len(self.demos)) + 0.1
        self.theta = rng.normal(size=N_FEATURES)

    def model(self, **settings: Any) -> CausalXMEN:
        return CausalXMEN(
            self.world, self.rule, self.features, validity=self.validity, discount=self.discount, **settings
        )

    def objective(self) -> Objective:
        model = self.model()
        demos = model._gather(self.demos, self.weights)
        return Objective(
            model._loss(demos), read_features(self.features, self.world), Coordinates(N_FEATURES, None, np.zeros(()))
        )

    def tree_loss(self, theta: np.ndarray) -> float:
        """By the definition: values of starts by the tree, returns by summing along demonstrations."""
        shares = self.weights / self.weights.sum()
        reward = self.features @ theta
        returns = sum(
            w * self.discount**t * reward[s, a]
            for w, tau in zip(shares, self.demos, strict=True)
            for t, (s, a) in enumerate(zip(tau.states[:-1], tau.actions, strict=True))
        )

        def value(kind: str, bonus: float = 0.0) -> float:
            solved = solve(self.tree, reward, self.discount, kind, bonus)
            starts = [solved.value[(tau.states[0],), ()] for tau in self.demos]
            return float(np.dot(shares, starts))

        if isinstance(self.validity, str):
            return value(self.validity) - returns
        found = minimize_scalar(
            lambda b: value("bonus", b) - b * self.validity,
            bounds=(0.0, 400.0),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return min(found.fun, value("bonus", 0.0)) - returns


@pytest.mark.parametrize("validity", ["sure", "best", "p"])
@pytest.mark.parametrize("case", range(cases(12)))
def test_loss_and_gradient(case: int, validity: str) -> None:
    task = Drawn(case, validity)
    objective = task.objective()
    found = objective(task.theta)
    assert found.loss == pytest.approx(task.tree_loss(task.theta), abs=1e-9 if validity != "p" else 1e-7)
    slope = slopes(lambda at: objective(at).loss, task.theta, 1e-6)
    np.testing.assert_allclose(found.gradient, slope, rtol=2e-7, atol=2e-7 + (1e-6 if validity == "p" else 0))


@pytest.mark.parametrize("validity", ["sure", "best", "p"])
@pytest.mark.parametrize("case", range(cases(6)))
def test_the_policy_has_the_demonstrated_features(case: int, validity: str) -> None:
    """With l2 the optimum is where E_pi[f] - mean f + l2 theta = 0, by the tree."""
    task, l2 = Drawn(case + 50, validity), 0.1
    model = task.model(l2=l2).fit(task.demos, task.weights)
    assert model.converged_
    shares = task.weights / task.weights.sum()
    demonstrated = np.zeros(N_FEATURES)
    for w, tau in zip(shares, task.demos, strict=True):
        for t, (s, a) in enumerate(zip(tau.states[:-1], tau.actions, strict=True)):
            demonstrated += w * task.discount**t * task.features[s, a]
    policy = model.policy()
    solved = solve(task.tree, task.features @ model.weights_, task.discount, *_aim(policy))
    starts: dict = {}
    for w, tau in zip(shares, task.demos, strict=True):
        starts[(tau.states[0],), ()] = starts.get(((tau.states[0],), ()), 0.0) + w
    if len(task.tree.starts) == 1 or validity != "p":  # with p, the world's own starts set the policy's bonus
        solved.tree.starts = starts
        expected = np.einsum("sa,sad->d", solved.visits(task.discount), task.features)
        assert expected - demonstrated + l2 * model.weights_ == pytest.approx(np.zeros(N_FEATURES), abs=1e-6)


def _aim(policy: xm.Policy) -> tuple[str, float]:
    aim = policy.behaviour.aim
    return ("bonus", aim) if isinstance(aim, float) else (aim, 0.0)


@pytest.mark.parametrize("case", range(cases(8)))
def test_score_is_the_mean_log_probability_of_the_actions(case: int) -> None:
    task = Drawn(case + 100, "p")
    model = task.model(l2=0.3).fit(task.demos, task.weights)
    policy = model.policy()
    each = [policy.log_prob(tau) for tau in task.demos]
    assert model.score(task.demos, task.weights) == pytest.approx(np.average(each, weights=task.weights), abs=1e-9)
    assert model.score_samples(task.demos) == pytest.approx(each, abs=1e-9)


@pytest.mark.parametrize("case", range(cases(8)))
def test_without_chance_it_is_xmen(case: int) -> None:
    """The same optimum as XMEN, given the start where there are several."""
    for seed in range(100 * case, 100 * case + 100):
        task = small_task(seed)
        starts = {tau.states[0] for tau in task.demos}
        if task.world.deterministic and starts == set(np.flatnonzero(task.world.start).tolist()):
            break
    settings = {"features": task.features, "discount": task.discount, "l2": 0.05}
    ours = CausalXMEN(task.world, task.constraint, **settings).fit(task.demos, task.weights)
    theirs = xm.XMEN(task.world, task.constraint, given="start", **settings).fit(task.demos, task.weights)
    assert ours.weights_ == pytest.approx(theirs.weights_, abs=1e-6)
    assert ours.score(task.demos) == pytest.approx(theirs.score(task.demos), abs=1e-6)
    assert ours.history_[-1].loss == pytest.approx(theirs.history_[-1].loss, abs=1e-6)


def test_the_tree_knows_luck() -> None:
    """The reference itself: with one action nothing is chosen, whatever the reward."""
    world = xm.MDP(4, 1, [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (1, 0, 3, 1), (2, 0, 3, 1)], start=0, terminal=[3])
    solved = solve(Tree(world, None), np.full((4, 1), 5.0), 1.0, "sure")
    assert solved.visits(1.0)[:, 0] == pytest.approx([1, 0.5, 0.5, 0])
    assert solved.entropy() == 0.0
