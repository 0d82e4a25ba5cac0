"""The 9x9 grid world: X-MEN by three methods, MaxEnt, relative entropy IRL and constraint inference on three maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from xmen.baselines.constraint_inference import ConstraintInference
from xmen.baselines.maxent import MaxEntIRL
from xmen.constraints.occurrence import visit
from xmen.engines.choose import distribution
from xmen.engines.exact import ExactDistribution
from xmen.experiments import grid_figures as figures
from xmen.experiments.grid_maps import MARKOV, MEMORY, ONE_TRIANGLE, GridMap
from xmen.experiments.methods import (
    ALL,
    Effort,
    fit_all,
    fit_one,
    fit_within,
    generate,
    noticed,
    valid_probability,
)
from xmen.experiments.notebook import Notebook
from xmen.learners.base import Learner
from xmen.learners.xmen import XMEN
from xmen.machines.tables import release
from xmen.product.best import list_walks
from xmen.registry import LOOKS
from xmen.rewards import Floats
from xmen.worlds import MOVES, Trajectory

PRIOR_VARIANCE = 10.0  # of the weights, for X-MEN and MaxEnt alike
NOTE = """Oracle: what answered for X-MEN's gradient; other methods ask none. Valid: of 1,000 generated; P(valid) and
P(triangle), of passing a triangle, are exact. KL: the paper's measure, KL(demonstrations || model) in nats over the two
arms (types: over arm, square and circle) among valid paths alone. KL+: with "not valid" as one more type, which
demonstrations never have; ours. Log-likelihood in nats per demonstration, of those learned from and of 1,000 others. On
its own map the paper reports 100 % valid and a KL of 0.005 for X-MEN, and at most 50 % valid for its rivals; a perfect
model would have an expected KL of 0.005 if its arms were counted in 100 draws. RE-IRL: relative entropy IRL; MLCI:
maximum likelihood constraint inference on the known reward, with its authors' threshold of 0.1 nats. "X-MEN paper"
generates as the paper does, from a pool of draws that is sampled again by importance weights."""
SOLVER = "cryptominisat"
ORACLES = {"exact": "none", "cells": "listed", "paper": "listed"}  # of the fits that all maps have
SWEPT = ("exact", "maxent", "relative-entropy", "constraint-inference")  # X-MEN keeps the rules with any method


def run(book: Notebook) -> None:
    """Demonstrations, fits, figures and tables on all maps."""
    book.title("The 9x9 grid world: 70 % of the demonstrations on upper paths, 30 % on lower paths")
    book.say(
        """The moves are up, right and up-right. A path is valid when the triangle is the first symbol it meets, it
        meets no cross, and it meets exactly one square and exactly one circle. The true reward is 0 everywhere and 1
        at the goal. The paper's coordinates are not published, so all maps are ours. The first was made so that the
        rules truly need memory; on the second, rewards of states can say nearly all of it, and plain MaxEnt does well.
        On a third, every valid path passes one triangle, as on the paper's map."""
    )
    book.say(
        """Rewards that are learned have one weight per state. The paper gives every state and action a distance
        feature, which encourages short trajectories: we read it as the length of the step, 1 or the square root of 2.
        Alone it cannot tell the two arms of a mirror-symmetric map apart (see the table of features). X-MEN is given
        the rules; its rivals are given what they can use. Rollouts of relative entropy IRL follow what MaxEnt has
        learned, mixed with uniform choices, and its thresholds are those of a confidence of 0.01, nearly 0: that
        favours this baseline."""
    )
    n_demos, n_drawn, n_shown = 1000, 1000, 100
    cases = {one.name: Case(one, n_demos, book.seed) for one in (MEMORY, MARKOV, ONE_TRIANGLE)}
    effort = effort_for(
        n_demos,
        paper_iter=book.pick(40, 1000),
        paper_samples=16,
        rollouts=book.pick(20_000, 100_000),
    )
    book.set(demonstrations=n_demos, upper_share=0.7, generated=n_drawn, features="one weight per state")
    book.set(**vars(effort))
    figures.maps(book, {name: case.map for name, case in cases.items()})
    both = {name: case for name, case in cases.items() if case.map is not ONE_TRIANGLE}

    rows = {}
    for name, case in cases.items():
        world, rules, names = case.map.world, case.map.rules, (*ALL, "constraint-inference")
        models = fit_all(world, rules, None, case.demos, seed=book.seed, book=book, effort=effort, names=names)
        solved = fit_solved(book, case, effort)
        with book.stage("what the models say"):
            drawn = {key: generate(key, model, n_drawn, book.seed) for key, model in models.items()}
            types = {"demonstrations": case.demonstrated_types}
            types |= {key: case.types_of(model) for key, model in models.items()}
            valid = {key: valid_probability(model, case.map.rules) for key, model in models.items()}
            rows[name] = [
                case.row(key, ORACLES.get(key, ""), model, drawn[key], valid[key], types[key])
                for key, model in models.items()
            ]
            for key, model in solved.items():
                some = generate(key, model, n_drawn, book.seed)
                rows[name].append(
                    case.row(key, SOLVER, model, some, valid_probability(model, rules), case.types_of(model))
                )
        if case.map is ONE_TRIANGLE:  # its table says what there is to say
            continue
        shown = {"demonstrations": case.demos[:: n_demos // n_shown]}
        shown |= {key: some[:n_shown] for key, some in drawn.items()}
        few = {key: shown[key][::5] for key in ("demonstrations", "exact", "maxent")}
        figures.generated(book, case.map, few, valid)
        figures.marginals(book, case.map, shown, valid)
        inferred = models["constraint-inference-maxent"]
        assert isinstance(inferred, ConstraintInference)
        book.say(
            f"""On the {name} map MLCI on MaxEnt's reward adds {len(inferred.constraints_)} rules of its own: a rule has
            to gain more than one demonstration is worth, 1 / {n_demos:,} nats. Smaller gains would forbid what the
            demonstrator may do."""
        )
        figures.path_types(book, case.map, types)

    figures.by_demonstrations(book, sweep_demonstrations(book, both))
    figures.by_time(book, sweep_time(book, cases[MEMORY.name], effort))
    with book.stage("compare features"):
        compared = [row for case in both.values() for row in feature_rows(case, effort.l2)]
    book.table(
        "what features can say",
        {
            "map": "",
            "features": "",
            "method": "",
            "P(valid)": ".1%",
            "upper": ".1%",
            "KL, arms": ".4f",
            "KL+, arms": ".4f",
        },
        compared,
        note="""Upper: the share of the upper arm among valid paths; 70 % in the demonstrations. KL and KL+ are those of
        the tables below. MaxEnt with one weight per state and move is the likeliest of all Markov policies. MLCI on the
        true reward: as its authors use it.""",
    )
    columns = {"method": "", "valid": ".1%", "oracle": "", "P(valid)": ".1%", "P(triangle)": ".1%"}
    columns |= dict.fromkeys(("KL, arms", "KL, types", "KL+, arms", "KL+, types"), ".4f")
    columns |= {"log-lik.": ".3f", "held out": ".3f"}
    for name, case in reversed(cases.items()):
        n_valid = round(np.exp(case.uniform.log_partition()))
        n_paths = round(np.exp(distribution(case.map.world, None, None).log_partition()))
        title = "one triangle for both arms" if case.map is ONE_TRIANGLE else f"the {name} map"
        book.table(f"{title}: {n_valid:,} of {n_paths:,} paths are valid", columns, rows[name], note=NOTE)


def effort_for(n_demos: int, **settings: Any) -> Effort:
    """A Gaussian prior on weights, and no rule inferred that gains less than one demonstration is worth."""
    return Effort(l2=1 / (n_demos * PRIOR_VARIANCE), kl_threshold=1 / n_demos, **settings)


@dataclass(frozen=True)
class Case:
    """One map with its demonstrations, and others held out."""

    map: GridMap
    n_demos: int
    seed: int

    @cached_property
    def demos(self) -> list[Trajectory]:
        """What the methods learn from."""
        return self.map.demonstrations(self.n_demos, self.seed)

    @cached_property
    def held_out(self) -> list[Trajectory]:
        """1,000 others of the same demonstrator."""
        return self.map.demonstrations(1000, self.seed + 10_000)

    @cached_property
    def uniform(self) -> ExactDistribution:
        """All valid paths, equally likely."""
        d = distribution(self.map.world, self.map.rules, None, engine="exact")
        assert isinstance(d, ExactDistribution)
        return d

    @cached_property
    def paths(self) -> list[Trajectory]:
        """All valid paths."""
        product = self.uniform.product
        walks = list_walks(product, most=100_000)
        assert walks is not None, "the maps have some thousand valid paths"
        return release(walks, product.compiled)

    @cached_property
    def membership(self) -> Floats:
        """Which valid path is of which type, (types, paths)."""
        return self.map.of_type(self.paths)

    @cached_property
    def demonstrated_types(self) -> Floats:
        """The share of each path type among the demonstrations, and of invalid ones: none."""
        return np.append(self.map.of_type(self.demos).mean(axis=1), 0.0)

    def types_of(self, model: Learner) -> Floats:
        """The probability of each path type under a model, and of paths that are not valid: exact, by listing."""
        found = self.membership @ np.exp(model.score_samples(self.paths))
        return np.append(found, max(0.0, 1.0 - found.sum()))

    def row(
        self, key: str, oracle: str, model: Learner, drawn: Sequence[Trajectory], exact: float, types: Floats
    ) -> tuple[object, ...]:
        """What the table says of a method, with its exact P(valid)."""
        valid = np.mean([all(rule.accepts(tau) for rule in self.map.rules) for tau in drawn])
        given = self.demonstrated_types
        kl = [divergence_among_valid(merge(given), merge(types)), divergence_among_valid(given, types)]
        kl += [divergence(merge(given), merge(types)), divergence(given, types)]
        triangle = visit(self.map.world.at(*self.map.symbols["triangle"]))
        scores = [model.score(demos) for demos in (self.demos, self.held_out)]
        return (LOOKS[key].label, valid, oracle, exact, valid_probability(model, triangle), *kl, *scores)


def merge(types: Floats) -> Floats:
    """Upper, lower and not valid: the finer types added up."""
    half = len(types) // 2
    return np.array([types[:half].sum(), types[half:-1].sum(), types[-1]])


def among_valid(types: Floats) -> Floats:
    """The shares of the types among valid paths, "not valid" at 0; unchanged where nothing is valid."""
    total = types[:-1].sum()
    return np.append(types[:-1] / total, 0.0) if total > 0 else types


def fit_solved(book: Notebook, case: Case, effort: Effort) -> dict[str, Learner]:
    """X-MEN with a real NP oracle: cells on the memory map, everywhere in the full run; the paper's on the memory map.

    Cells of about 64 solutions: left to themselves they would read all valid paths as one cell, there are so few.
    """
    memory = case.map is MEMORY
    names = [*(["cells"] if memory or not book.quick else []), *(["paper"] if memory and not book.quick else [])]
    solved = effort.with_(oracle=SOLVER, cell_size=64.0, cells_tol=0.01, paper_iter=min(effort.paper_iter, 200))
    found = {}
    for name in names:
        with book.stage(f"fit {LOOKS[name].label} with {SOLVER}"), noticed():
            found[name] = fit_one(name, case.map.world, case.map.rules, None, case.demos, seed=book.seed, effort=solved)
    return found


def divergence(p: Floats, q: Floats) -> float:
    """KL(p || q) in nats; inf where q has no mass and p has. Over types with "not valid" among them it is our KL+."""
    some = p > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(p[some] * (np.log(p[some]) - np.log(q[some]))))


def divergence_among_valid(p: Floats, q: Floats) -> float:
    """The paper's KL: over types of path among valid paths alone."""
    return divergence(among_valid(p), among_valid(q))


def feature_rows(case: Case, l2: float) -> list[tuple[object, ...]]:
    """How valid and how balanced X-MEN and MaxEnt become with weaker and stronger features."""
    world = case.map.world
    x, y = np.array([world.cell(s) for s in range(world.n_states)]).T
    goal = world.width - 1
    distance = np.maximum(goal - x, goal - y).astype(float)[:, None] / goal
    lengths = np.array([np.hypot(*MOVES[move]) for move in world.moves])
    side = np.sign(y - x).astype(float)[:, None]
    tables = {
        "length of the step": np.tile(lengths[None, :, None], (world.n_states, 1, 1)),
        "distance to the goal": _per_state(distance, world.n_actions),
        "distance to the goal, side": _per_state(np.hstack([distance, side]), world.n_actions),
        "one per state": None,
        "one per state, move": np.eye(world.n_states * world.n_actions).reshape(world.n_states, world.n_actions, -1),
    }
    learners: dict[tuple[str, str], Learner] = {("true reward", "constraint-inference"): ConstraintInference(world)}
    for name, features in tables.items():
        learners[name, "exact"] = XMEN(world, case.map.rules, features, method="exact", l2=l2)
        learners[name, "maxent"] = MaxEntIRL(world, features, l2=l2)
    rows: list[tuple[object, ...]] = []
    for (name, key), model in learners.items():
        with noticed():
            types = merge(case.types_of(model.fit(case.demos)))
        given = merge(case.demonstrated_types)
        kl = divergence_among_valid(given, types), divergence(given, types)
        rows.append((case.map.name, name, LOOKS[key].label, 1 - types[2], types[0] / types[:2].sum(), *kl))
    return rows


def _per_state(columns: Floats, n_actions: int) -> Floats:
    return np.repeat(columns[:, None, :], n_actions, axis=1)


def sweep_demonstrations(book: Notebook, cases: Mapping[str, Case]) -> figures.Sweep:
    """P(valid) and the held-out log-likelihood against the number of demonstrations, over several draws of them."""
    sizes = (1, 3, 10, 30, 100, 300, 1000)
    repeats = book.pick(2, 20)
    found: figures.Sweep = {}
    with book.stage("sweep the number of demonstrations") as stage:
        for step, (name, case) in enumerate(cases.items()):
            for i, n in enumerate(sizes):
                effort = effort_for(n, rollouts=book.pick(5000, 20_000))
                for repeat in range(repeats):
                    seed = book.seed + 100 + repeat
                    demos = case.map.demonstrations(n, seed)
                    models = fit_all(case.map.world, case.map.rules, None, demos, seed=seed, effort=effort, names=SWEPT)
                    for key, model in models.items():
                        point = (valid_probability(model, case.map.rules), model.score(case.held_out))
                        found.setdefault(name, {}).setdefault(key, {}).setdefault(n, []).append(point)
                stage.done((step * len(sizes) + i + 1) / (len(sizes) * len(cases)))
    return found


def sweep_time(book: Notebook, case: Case, effort: Effort) -> dict[str, list[tuple[float, float, float]]]:
    """(seconds, P(valid), held-out log-likelihood) of fits that are stopped when their time is up."""
    budgets = book.pick((0.03, 0.1, 0.3, 1.0), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0))
    found: dict[str, list[tuple[float, float, float]]] = {}
    long = effort.with_(paper_iter=2000)
    with book.stage("sweep the training time") as stage:
        for i, key in enumerate(ALL):
            fit = partial(fit_one, key, case.map.world, case.map.rules, None, case.demos, seed=book.seed, effort=long)
            for budget in budgets:
                model, seconds = fit_within(budget, fit)
                valid, likelihood = valid_probability(model, case.map.rules), model.score(case.held_out)
                found.setdefault(key, []).append((seconds, valid, likelihood))
                if seconds < budget:  # it was done before its time was up
                    break
            stage.done((i + 1) / len(ALL))
    return found
