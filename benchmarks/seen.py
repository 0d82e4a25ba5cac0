"""What learning from sightings costs: one gradient against as many calls of `visits()`, and fits on the memory grid.

.venv/bin/python benchmarks/seen.py
"""

import time

import numpy as np

import xmen as xm
from xmen.engines.seen import SeenTogether
from xmen.experiments.grid import MEMORY


def seconds(work, times=3):
    """The quickest of a few runs."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def hidden(walks, rng, share, noise=None):
    return [xm.Sighting([s if rng.random() < share else None for s in tau.states], noise=noise) for tau in walks]


def gradient_ratio(d, table, sightings):
    """The time of one gradient over that of as many calls of visits()."""
    together, weights = SeenTogether(d, sightings), np.full(len(sightings), 1.0 / len(sightings))

    def gradient():
        together(d.with_reward(table))[1](weights)

    def visits():
        d.with_reward(table).visits()

    gradient(), visits()  # compiled loops are loaded
    return seconds(gradient) / (len(sightings) * seconds(visits))


print("one gradient over n = 30 sightings in units of 30 calls of visits(), by the share of positions that is seen")
print(f"{'cells':>6} {'horizon':>8} {'edges':>8} {'30 %':>7} {'3 %':>7} {'all, noisy':>11}")
for width, horizon, n_rules in ((6, 16, 1), (9, 24, 3), (15, 40, 4), (20, 60, 5)):
    world = xm.GridWorld(width, width, start=(0, 0), goal=(width - 1, width - 1), horizon=horizon)
    rules = [xm.visit(world.at((k % 2, k + 1))) for k in range(n_rules)]
    d = xm.distribution(world, rules, np.full((world.n_states, 4), -0.3), engine="exact", seed=0)
    walks, rng = d.sample(30), np.random.default_rng(0)
    table = rng.normal(size=(world.n_states, 4))
    kinds = ((0.3, None), (0.03, None), (1.0, xm.confusion(0.1)))
    ratios = [gradient_ratio(d, table, hidden(walks, rng, *kind)) for kind in kinds]
    print(f"{width**2:6} {horizon:8} {d.product.n_edges:8,} {ratios[0]:7.2f} {ratios[1]:7.2f} {ratios[2]:11.2f}")

print("\nthe same in random worlds without an end, where every position is possible everywhere")
for n_states, horizon in ((50, 30), (200, 60), (1000, 60)):
    rng = np.random.default_rng(0)
    rows = [(s, a, int(rng.integers(n_states)), 1.0) for s in range(n_states) for a in range(4)]
    d = xm.distribution(xm.MDP(n_states, 4, rows, 0, horizon=horizon), None, None, engine="exact", seed=0)
    walks, table = d.sample(30), rng.normal(size=(n_states, 4))
    ratios = [gradient_ratio(d, table, hidden(walks, rng, *kind)) for kind in kinds]
    print(f"{n_states:6} {horizon:8} {d.product.n_edges:8,} {ratios[0]:7.2f} {ratios[1]:7.2f} {ratios[2]:11.2f}")

print("\nlearning four weights on the memory grid, 30 % of positions seen")
world, rng = MEMORY.world, np.random.default_rng(0)
features = rng.normal(size=(world.n_states, world.n_actions, 4))
truth = xm.LinearReward(features, [0.5, -0.5, 0.3, 0.2])
d = xm.distribution(world, MEMORY.rules, truth, engine="exact", seed=0)
for n in (125, 250, 500, 1000):
    parts = hidden(d.sample(n), rng, 0.3)
    began = time.perf_counter()
    model = xm.XMEN(world, MEMORY.rules, features).fit(parts)
    print(f"{n:5} sightings: {time.perf_counter() - began:6.2f} s, {model.n_iter_} iterations")
