"""What theory.py prints without a figure: constants, items 7 to 12, the cost of searches, proposals."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

import xmen as xm
from xmen.baselines.maxent import MaxEntIRL
from xmen.experiments.convergence import ListedProblem, Setting, slippery, straight, theorem5_cells
from xmen.experiments.grid import MARKOV, MEMORY
from xmen.learners.xmen import XMEN
from xmen.methods.paper import PROPOSALS, Paper, Proposal, compute_bounds
from xmen.rewards.linear import DenseFeatures

GRID = MEMORY.world


def size(rules: object) -> float:
    """The number of valid trajectories on the 9x9 grid."""
    return float(np.exp(xm.distribution(GRID, rules, None).log_partition()))


def constants() -> None:
    """What bounds the curvature of the loss on the memory map for every theta, with one weight per state."""
    per_state = np.repeat(np.eye(GRID.n_states)[:, None, :], GRID.n_actions, axis=1)
    base = xm.distribution(GRID, MEMORY.rules, None, engine="xor", oracle="listed")
    proposal = Proposal(base, DenseFeatures(per_state))
    print(f"  memory map: sigma2^2 = {compute_bounds(proposal).sigma2_squared:.1f}")


def counting() -> None:
    """Items 7 and 8: the paper's constraints are small machines, and dynamic programming counts what is valid."""
    every = xm.distribution(GRID, MEMORY.rules, None)
    print(f"  9x9 grid: {size(None):,.0f} paths; on the memory map {size(MEMORY.rules):,.0f} valid")
    print(f"  the product of world and machines has {len(every.product.state):,} nodes, 81 cells alone")
    for k in (2, 3):
        print(f"  at most {k} equal moves in a row: {size(xm.longest_repeat() <= k):,.0f} paths")


def maps() -> None:
    """Item 9: MaxEnt with a weight per state, on the map whose rules hardly need memory and on the one that does."""
    for one in (MARKOV, MEMORY):
        model = MaxEntIRL(one.world, l2=1e-4).fit(one.demonstrations(1000, seed=0))
        valid = model.distribution().probability(one.rules)
        print(f"  {one.name}: {size(one.rules):,.0f} valid paths, MaxEnt keeps the rules with probability {valid:.4f}")


def splits() -> None:
    """Items 10 and 11: what distance alone can say on a symmetric map, and what a split into two types misses."""
    problem = straight()
    upper, diagonal = problem.features[:, :, :1], problem.features[:, :, 1:]
    for name, features in (
        ("distance", np.ones_like(upper)),
        ("upper key", upper),
        ("upper key and diagonal moves", np.concatenate([upper, diagonal], axis=2)),
    ):
        model = XMEN(problem.world, problem.rule, features, method="exact").fit(problem.demos)
        probabilities = dict(probabilities_of(model, problem))
        truth = dict(probabilities_of(None, problem))
        share, wanted = (sum(p for tau, p in each.items() if passes(tau, problem)) for each in (probabilities, truth))
        two = wanted * np.log(wanted / share) + (1 - wanted) * np.log((1 - wanted) / (1 - share))
        full = sum(p * np.log(p / probabilities[tau]) for tau, p in truth.items())
        print(
            f"  {name}: upper key {share:.3f} of the time (demonstrator {wanted:.3f}), "
            f"KL of the two types {two:.4f}, of trajectories {full:.4f}, likelihood {model.score(problem.demos):.4f}"
        )


def passes(states: tuple[int, ...], problem: ListedProblem) -> bool:
    """Whether a trajectory takes the upper key."""
    return problem.world.state((1, 3)) in states


def probabilities_of(model: XMEN | None, problem: ListedProblem) -> list[tuple[tuple[int, ...], float]]:
    """P(tau) of every valid trajectory by its states; of the demonstrator for None."""
    reward = problem.features @ np.array([2.0, -0.5]) if model is None else model.reward_
    d = xm.distribution(problem.world, problem.rule, reward)
    return [(tuple(int(s) for s in tau.states), float(np.exp(d.log_prob(tau)))) for tau in problem.trajectories]


def luck() -> None:
    """Item 12: P conditions on lucky transitions. Acting by its choices in the real world keeps the rule less often."""
    problem = slippery()
    p, log_d, taus = problem.probabilities(problem.best), problem.log_dynamics, problem.trajectories
    words = [tuple(x for pair in zip(tau.states, tau.actions, strict=False) for x in pair) for tau in taus]
    mass: dict[tuple[int, ...], float] = defaultdict(float)
    for word, chance in zip(words, p, strict=True):
        for n in range(1, len(word) + 1):
            mass[word[:n]] += chance
    # A prefix ends with a state or with an action; their ratio is the choice of that action.
    acted = np.array([np.prod([mass[w[:n]] / mass[w[: n - 1]] for n in range(2, len(w) + 1, 2)]) for w in words])
    moves = {(int(s), int(a), int(t)): float(x) for s, a, t, x in _edges(problem)}
    slips = [
        sum(moves[step] < 0.5 for step in zip(tau.states, tau.actions, tau.states[1:], strict=False)) / len(tau)
        for tau in taus
    ]
    print(f"  slippery grid: {problem.world.slip:.0%} of moves slip in the world, {p @ np.array(slips):.1%} under P")
    print(
        f"  acting by P's choices keeps the rule with probability {acted @ np.exp(log_d):.3f}; samples of P always do"
    )


def _edges(problem: ListedProblem) -> zip[tuple[int, int, int, float]]:
    world = problem.world
    return zip(world.source, world.action, world.target, world.probability, strict=True)


def cost() -> None:
    """Theorem 5 counts n' levels of 24 ln(n'/failure) cells per search; here is what searches need."""
    for side in (3, 4, 5, 6):
        grid = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), moves=("up", "right", "up-right"))
        features = np.zeros((grid.n_states, grid.n_actions, 1))
        features[:, 2, 0] = 1.0
        problem = ListedProblem(f"{side}x{side}", grid, None, features, (0.0,), seed=0, n_demos=20)
        base = xm.distribution(grid, None, None, engine="xor", oracle="listed")
        proposal = Proposal(base, DenseFeatures(features))
        theta, setting = np.array([0.5]), Setting(1.18, 16, 16)
        pool = proposal.draw(theta, 0 * theta, 0.0, 16, 1.18, 1e-3, np.random.default_rng(0))
        warm = proposal.draw(theta, 0 * theta, 0.0, 16, 1.18, 1e-3, np.random.default_rng(1), pool.log2_mass)
        counted = theorem5_cells(problem, theta * problem.span, setting, 1e-3)
        print(
            f"  {side}x{side}: {len(problem.rows)} trajectories; Theorem 5 counts {counted:,} cells; searches "
            f"open {pool.search.n_cells} from 0, {warm.search.n_cells} from the last level, with "
            f"{warm.search.n_queries:,} solver calls; 16 draws open {warm.draws.n_cells}, with "
            f"{warm.draws.n_queries:,} solver calls"
        )


def proposals(n_seeds: int, n_iter: int = 40) -> None:
    """The effective sample size of 16 draws in the second half of a fit, by proposal."""
    problem = slippery()
    for proposal in PROPOSALS:
        sizes, gaps = [], []
        for seed in range(n_seeds):
            model = XMEN(
                problem.world,
                problem.rule,
                problem.features,
                method=Paper(proposal=proposal, self_normalised=True),
                seed=seed,
                max_iter=n_iter,
            ).fit(problem.demos)
            sizes += [record.details["effective_sample_size"] for record in model.history_[n_iter // 2 :]]
            gaps.append(problem.gap(model.weights_ * problem.span))
        print(
            f"  {proposal}: effective sample size {np.mean(sizes):.2f} of 16 draws (least {min(sizes):.2f}), "
            f"gap {np.mean(gaps):.4f} (worst {max(gaps):.4f})"
        )


def defaults(n_iter: int = 100) -> None:
    """Algorithm 1 as its defaults have it: one weight per state on the memory map, 100 demonstrations, 16 draws."""
    demos = MEMORY.demonstrations(100, seed=0)
    best = XMEN(GRID, MEMORY.rules, method="exact").fit(demos).score(demos)
    for oracle, delta in (("listed", 1.03), ("listed", 1.1), ("listed", 1.5), ("cryptominisat", 1.1)):
        settings = {"engine": xm.EngineSettings("exact", oracle=oracle), "max_iter": n_iter, "seed": 0}
        model = XMEN(GRID, MEMORY.rules, method=Paper(delta=delta), **settings).fit(demos)
        calls = np.mean([record.details["queries"] for record in model.history_])
        gap, seconds = best - model.score(demos), model.history_[-1].seconds
        print(
            f"  {oracle}, delta {delta}: {gap:.3f} nats from the optimum, {calls:,.0f} calls per step, {seconds:.0f} s"
        )
