"""Gradients of trips as the network, the goals and the machine states grow, and what else could be done.

    python benchmarks/roads.py [--out FILE.json] [--large]

Each line: seconds of a gradient of all trips, of the block solves that it cannot avoid (same run), their ratio, and the
ratio of what else could be done: one factorisation per goal, and the layered engine over 200 moves or more, both timed
on a few goals. Memory is the peak of the process so far.
"""

import argparse
import json
import resource
import time

import numpy as np

import xmen as xm
from xmen.engines.trips import TripEngine
from xmen.product.factor import Factor


def city(size: int) -> xm.Network:
    """Two-way streets of a square grid, links as states."""
    nodes = [(x, y) for x in range(size) for y in range(size)]
    moves = ((1, 0), (0, 1), (-1, 0), (0, -1))
    links = [(n, (n[0] + dx, n[1] + dy)) for n in nodes for dx, dy in moves if 0 <= n[0] + dx < size > n[1] + dy >= 0]
    leaving: dict[tuple[int, int], list[int]] = {}
    for number, (one, _) in enumerate(links):
        leaving.setdefault(one, []).append(number)
    rows = [(i, a, j, 1.0) for i, (_, other) in enumerate(links) for a, j in enumerate(leaving[other])]
    return xm.Network(len(links), 4, np.array(rows))


def timed(call, repeat: int = 3) -> float:
    """The least of some timings: other work on the machine only adds."""
    seconds = []
    for _ in range(repeat):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def measure(size: int, n_goals: int, n_counts: int) -> dict[str, float]:
    network, rng = city(size), np.random.default_rng(0)
    n = network.n_states
    goals = rng.choice(n, min(n_goals, n), replace=False)
    starts = rng.integers(0, n, len(goals))
    starts[starts == goals] = (goals[starts == goals] + 1) % n
    rule = None if n_counts == 1 else xm.count(xm.doing(0)) >= n_counts - 1
    reward = np.full(len(network.source), -1.6) + rng.normal(0, 0.1, len(network.source))
    engine = TripEngine(network, rule, starts, goals, np.ones(len(goals)), 10**7)
    engine.value(reward)  # compiled loops
    gradient = timed(lambda: engine.value(reward))
    shared = engine.shared
    factor = Factor(shared.product.pattern, np.exp(reward[shared.product.edge]))
    columns = [len(batch.states) for batch in shared.batches]

    def unavoidable() -> None:
        for width in columns:
            unit = np.zeros((shared.product.n_nodes, width))
            unit[np.arange(width), np.arange(width)] = 1.0
            factor.solve_transposed(factor.solve(unit))

    blocks = timed(unavoidable)
    few = range(min(3, engine.n_pairs))
    alone = np.mean([timed(lambda p=p: engine.alone(p, reward).edge_visits(), 1) for p in few]) * engine.n_pairs
    table = np.zeros((n, 4))
    table[network.source, network.action] = reward
    pair = int(engine.start[0]), int(engine.goal[0])
    task = network.task(*pair, horizon=max(200, 4 * size))
    swept = timed(lambda: xm.distribution(task, engine.constraint, table).visits(), 1)
    return {
        "links": n,
        "goals": len(goals),
        "machine states": n_counts,
        "nodes": shared.product.n_nodes,
        "gradient": gradient,
        "block solves": blocks,
        "over block solves": gradient / blocks,
        "per goal / shared": alone / gradient,
        "sweeps / shared": swept * engine.n_pairs / gradient,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", help="write the rows as JSON")
    parser.add_argument("--large", action="store_true", help="up to 200,000 links, 1,000 goals, 30 machine states")
    chosen = parser.parse_args()
    cases = [(14, 100, 1), (30, 1, 1), (30, 100, 1), (14, 50, 5)]
    if chosen.large:
        cases += [(42, 466, 1), (42, 1000, 1), (100, 100, 1), (224, 20, 1), (14, 100, 30)]
    rows = []
    for case in cases:
        rows.append(measure(*case))
        if len(rows) == 1:
            print("  ".join(f"{name:>17}" for name in rows[0]))
        print("  ".join(f"{value:>17.4g}" for value in rows[-1].values()), flush=True)
    if chosen.out:
        with open(chosen.out, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
