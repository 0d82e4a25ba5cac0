"""The numbers of the first page: validity against MaxEnt, time against rejection, exactness against enumeration.

    .venv/bin/python benchmarks/first_page.py

Everything is of one run on the rules of README's first block; ratios are of times in this run.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

import xmen as xm


def problem(size: int) -> tuple[xm.GridWorld, xm.Constraint]:
    """README's grid and rules, the key and the door at the same shares of its side."""
    last = size - 1
    grid = xm.GridWorld(size, size, start=(0, 0), goal=(last, last), moves=("up", "right", "up-right"))
    key, door = grid.at((size // 4, size // 3), (size // 3, size // 4)), grid.at((2 * size // 3, 2 * size // 3))
    shade = grid.at(*[(x, y) for x in range(size) for y in range(x, size)])
    return grid, xm.first(key, among=door) & (xm.share(shade) >= 0.5) & (xm.longest_repeat() <= 3)


def main() -> None:
    """Print all of them."""
    grid, rules = problem(9)
    features = np.zeros((grid.n_states, grid.n_actions, 2))
    features[:, 2, 0], features[grid.state((4, 4)), :, 1] = 1.0, 1.0
    demos = xm.distribution(grid, rules, features @ [0.8, -2.0], seed=1).sample(200)
    ours = xm.XMEN(grid, rules, features=features).fit(demos)
    theirs = xm.MaxEntIRL(grid, features=features).fit(demos)
    broken = 1000 - sum(rules.accepts(tau) for tau in ours.sample(1000, seed=0))
    kept = theirs.distribution().probability(rules)
    print(f"of 1,000 samples X-MEN breaks a rule in {broken}; MaxEnt keeps all with probability {kept:.3f}")

    grid, rules = problem(9)
    rule = rules & xm.never(grid.at(*[(x, y) for x in range(9) for y in range(9) if (x + 2 * y) % 5 == 3]))
    began = time.perf_counter()
    d = xm.distribution(grid, rule, reward=None)
    d.sample(1000, seed=0)
    exact = time.perf_counter() - began
    free, found, began = xm.distribution(grid, None, reward=None), 0, time.perf_counter()
    for round_ in itertools.count():
        found += sum(rule.accepts(tau) for tau in free.sample(2000, seed=round_))
        if found >= 20:
            break
    rejected = (time.perf_counter() - began) * 1000 / found
    share = np.exp(d.log_partition() - free.log_partition())
    one_in, times = 1 / share, rejected / exact
    print(f"one trajectory in {one_in:,.0f} is valid: 1,000 of them {times:,.0f} times as fast as by rejection")

    grid, rules = problem(5)
    reward = np.random.default_rng(0).normal(size=(grid.n_states, grid.n_actions))
    d, paths = xm.distribution(grid, rules, reward), xm.distribution(grid, None, reward=None).best(100_000)
    valid = [tau for tau in paths if rules.accepts(tau)]
    weights = np.exp([sum(reward[s, a] for s, a in zip(tau.states, tau.actions, strict=False)) for tau in valid])
    furthest = max(abs(np.exp(d.log_prob(tau)) / p - 1) for tau, p in zip(valid, weights / weights.sum(), strict=True))
    print(f"on all {len(paths)} trajectories of 5 x 5 cells, probabilities differ from enumeration by {furthest:.0e}")


if __name__ == "__main__":
    main()
