"""What rejection multiplies in of `no_revisit`: the states near by that were visited, beside the last few visited ones.

    .venv/bin/python benchmarks/shadows.py [--data FOLDER]

For grids, a network as large as that of a town (links are states, some streets one-way), and trips of Shanghai taxis
where their folder is given: product nodes, acceptance, and processor seconds from the rules to 1,000 valid samples.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import networkx as nx
import numpy as np

import xmen as xm
from xmen.constraints import repetition
from xmen.constraints.repetition import NoRecentRevisit, NoRevisit
from xmen.experiments.roads import read_city

SAMPLES, TRIPS = 1_000, 3


def recent(self: NoRevisit, world: xm.MDP) -> Iterator[list[xm.Constraint]]:
    """Only the last few states, as many as fit."""
    return ([NoRecentRevisit(self.event, window)] for window in reversed(self.WINDOWS))


def town(blocks: int, seed: int = 0) -> tuple[xm.Network, np.ndarray]:
    """Streets around blocks, a third of them one-way, and a cost per link that makes detours rare."""
    rng, roads = np.random.default_rng(seed), nx.MultiDiGraph()
    for one, other in nx.grid_2d_graph(blocks, blocks).edges:
        ways = [(one, other), (other, one)]
        kept = ways if rng.random() < 2 / 3 else [ways[int(rng.integers(2))]]
        roads.add_edges_from((*way, {"length": 1.0 + rng.random()}) for way in kept)
    network = xm.Network.from_networkx(roads)
    return network, np.full((network.n_states, network.n_actions), -1.6)


def problems(data: Path | None) -> Iterator[tuple[str, xm.MDP, np.ndarray | None]]:
    for n, horizon in ((6, 20), (8, 24)):
        moves = ("up", "down", "left", "right")
        yield (
            f"{n}x{n}, {horizon} moves",
            xm.GridWorld(n, n, (0, 0), (n - 1, n - 1), moves=moves, horizon=horizon),
            None,
        )
    network, reward = town(46)
    rng = np.random.default_rng(0)
    for trip in range(TRIPS):
        start, goal = rng.integers(network.n_states, size=2)
        yield (
            f"town of {network.n_states:,} links, trip {trip}",
            network.task(network.names[start], network.names[goal]),
            reward,
        )
    if data is not None:
        city = read_city(data)
        demos, features = city.trips("train_CV0_size1000"), city.features()
        model = xm.XMEN(city.network, features=features).fit(demos)
        reward = np.asarray(features @ model.weights_).reshape(city.network.n_states, -1)
        for trip, tau in enumerate(demos[:TRIPS]):
            yield f"Shanghai, trip {trip}", city.network.task(tau.states[0], tau.states[-1]), reward


def measure(world: xm.MDP, reward: np.ndarray | None) -> tuple[int, float, float]:
    began = time.process_time()
    d = xm.distribution(world, xm.no_revisit(), reward, engine="reject", seed=0)
    d.sample(SAMPLES, seed=1)
    seconds = time.process_time() - began
    sizes = d.sizes()
    return sizes["product nodes"], sizes["acceptance"], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    near: Callable[..., object] = NoRevisit.relaxations
    print(f"{'':36}{'nodes':>9}{'accepts':>9}{'seconds':>9}   |{'nodes':>9}{'accepts':>9}{'seconds':>9}")
    small = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=6)
    for relaxations in (recent, near):  # compiles
        repetition.NoRevisit.relaxations = relaxations
        xm.distribution(small, xm.no_revisit(), engine="reject", max_nodes=100).sample(10)
    for name, world, reward in problems(parser.parse_args().data):
        line = f"{name:36}"
        for relaxations, between in ((recent, "   |"), (near, "")):
            repetition.NoRevisit.relaxations = relaxations
            fresh = world.with_start(world.start)  # what one has found to be too large is not told to the other
            line += "{:9,}{:9.3f}{:9.2f}".format(*measure(fresh, reward)) + between
        print(line, flush=True)


if __name__ == "__main__":
    main()
