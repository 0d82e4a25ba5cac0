"""Simulated tasks for rule inference: hidden rules drawn from the templates, and how near the found ones come.

A task is a random grid, four events of random cells and moves, a reward of random features, and demonstrations drawn
exactly. Its hidden rules are drawn from the templates: first the template, then one of its candidates that two random
trajectories keep (so that the rules can hold together) and not all trajectories do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.choose import distribution
from xmen.engines.exact import ExactDistribution
from xmen.events import Event
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.product.watch import Mass, join
from xmen.rewards import Floats
from xmen.rules.inference import RuleInference
from xmen.rules.templates import TEMPLATES, Candidate, View, candidates, words
from xmen.worlds import Cell, GridWorld, Trajectory, Walks

N_DEMOS = 100
MOVES = (("up", "right", "up-right"), ("up", "right", "down", "left"))


@dataclass(frozen=True)
class RuleTask:
    """A world with events, what its demonstrator values and keeps, and what it shows."""

    world: GridWorld
    events: dict[str, Event]
    features: Floats
    reward: Floats
    hidden: list[Candidate]
    demos: list[Trajectory]


@dataclass(frozen=True)
class Recovery:
    """How near the found rules come to the hidden ones.

    false: nats of the demonstrator's behaviour that the found rules forbid, 0 where they forbid none of it. missing:
    the largest gain of a hidden rule under the final model, 0 where the found rules imply it. least: the gain that a
    rule had to reach.
    """

    seed: int
    hidden: list[str]
    found: list[str]
    false: float
    missing: float
    least: float
    seconds: float

    @property
    def right(self) -> bool:
        """Equivalent to the hidden rules, up to those whose gain is below the level; nothing else is forbidden."""
        return self.false == 0.0 and self.missing < self.least

    @property
    def nearly(self) -> bool:
        """The same, but that what is forbidden by mistake is below the level too."""
        return self.false < self.least and self.missing < self.least


def make_task(seed: int, n_hidden: int, n_demos: int = N_DEMOS) -> RuleTask:
    """The task of a seed."""
    rng = np.random.default_rng([seed, n_hidden])
    side, moves = int(rng.integers(4, 7)), MOVES[int(rng.integers(2))]
    horizon = None if len(moves) == 3 else int(rng.integers(2 * side - 2, 3 * side))
    world = GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), moves=moves, horizon=horizon)
    cells = [world.cell(s) for s in range(world.n_states)]
    events = {name: world.at(*_some(cells, rng)) for name in ("circle", "cross", "square")}
    events["move"] = world.doing(moves[int(rng.integers(len(moves)))])
    features = rng.normal(size=(world.n_states, world.n_actions, 2))
    reward: Floats = features @ rng.normal(size=2) * 0.5
    rules = list(_draw_rules(world, events, reward, n_hidden, rng))
    d = distribution(world, conjunction([one.rule for one in rules]), reward, engine="exact")
    return RuleTask(world, events, features, reward, rules, d.sample(n_demos, seed=rng))


def _some(cells: list[Cell], rng: np.random.Generator) -> list[Cell]:
    chosen = rng.choice(len(cells), size=int(rng.integers(2, 5)), replace=False)
    return [cells[i] for i in sorted(chosen.tolist())]


def _draw_rules(
    world: GridWorld, events: dict[str, Event], reward: Floats, n_hidden: int, rng: np.random.Generator
) -> Iterator[Candidate]:
    free = _exact(world, None, reward)
    walks = Walks.of(world, free.sample(2, seed=rng))
    tried = candidates(words(events, world), View(walks, np.full(2, 0.5), 0.0))
    kept = [
        one
        for one in tried
        if CompiledConstraint(one.tabled, world).check(walks).all() and mass(free, one.tabled).broken > 0.0
    ]
    for _ in range(n_hidden if kept else 0):
        names = sorted({TEMPLATES[one.order].name for one in kept})
        name = names[int(rng.integers(len(names)))]
        same = [one for one in kept if TEMPLATES[one.order].name == name]
        yield same[int(rng.integers(len(same)))]


def _exact(world: GridWorld, rule: Constraint | None, reward: Floats) -> ExactDistribution:
    d = distribution(world, rule, reward, engine="exact")
    assert isinstance(d, ExactDistribution)
    return d


def mass(d: ExactDistribution, rule: Constraint) -> Mass:
    """How likely a distribution keeps and breaks a rule."""
    compiled = CompiledConstraint(rule, d.world)
    machine = join(compiled, d.world.max_length)
    answer = None if machine is None else d.chain.mass(machine)
    if answer is not None:
        return answer
    log_kept = d.log_probability(compiled, DEFAULT_MAX_NODES)
    return Mass(math.exp(log_kept), 0.0 if log_kept > -1e-12 else -math.expm1(log_kept))


def judge(seed: int, n_hidden: int, n_demos: int = N_DEMOS) -> Recovery:
    """Infer the rules of one task, and compare them with the hidden ones."""
    task = make_task(seed, n_hidden, n_demos)
    begun = time.perf_counter()
    model = RuleInference(task.world, task.events, features=task.features).fit(task.demos)
    seconds = time.perf_counter() - begun
    truth = _exact(task.world, conjunction([one.rule for one in task.hidden]), task.reward)
    false = 0.0
    if model.constraint_ is not None:
        kept, broken = mass(truth, model.constraint_)
        false = 0.0 if broken == 0.0 else -math.log(kept)
    learned = model.model_.reward_.table()
    answer = _exact(task.world, model.constraint_, learned)
    left = [mass(answer, one.rule) for one in task.hidden]
    missing = max((0.0 if broken == 0.0 else -math.log(kept) for kept, broken in left), default=0.0)
    texts = [one.text for one in task.hidden]
    return Recovery(seed, texts, model.texts_, false, missing, model.least_gain_, seconds)
