"""A feature that depends on the trip: the link size, which says how much of a pair's traffic a link would carry.

Routes that share their links are less of a choice than routes that do not. Fosgerau, Frejinger and Karlstrom (2013)
give every link a size for every pair of an origin and a destination: the flow that it carries when the pair's trips
follow a guess of the parameters. A network has one reward for all trips, so each pair gets a copy of the network, and
its own sizes in it: one network whose parts are not connected, which a fit solves as one sparse system.

    python examples/link_size.py
"""

import networkx as nx
import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack

import xmen as xm

SIZE, N_PAIRS, N_TRIPS = 4, 25, 40
rng = np.random.default_rng(0)
town = nx.grid_2d_graph(SIZE, SIZE)
for x, y in town:
    town.nodes[x, y].update(x=x, y=y)
for street in town.edges:
    town.edges[street]["minutes"] = float(rng.choice([1.0, 1.5, 2.0]))
network = xm.Network.from_networkx(town)
base = network.select("minutes", "u-turn")
pairs = [rng.choice(network.n_states, 2, replace=False).tolist() for _ in range(N_PAIRS)]


def link_sizes(start: int, goal: int, guess: np.ndarray) -> np.ndarray:
    """The expected number of times that a trip of this pair uses each link, under a guess of the weights."""
    reward = (base @ guess).reshape(network.n_states, network.n_actions)
    return xm.distribution(network.task(start, goal), None, reward).state_visits()


def copies(n: int) -> xm.Network:
    """n copies of the network side by side; state s of copy k is k * n_states + s."""
    one = np.column_stack([network.source, network.action, network.target, network.probability])
    moved = [one + np.array([k, 0, k, 0]) * network.n_states for k in range(n)]
    return xm.Network(n * network.n_states, network.n_actions, np.concatenate(moved))


sizes = [link_sizes(start, goal, np.array([-1.0, -4.0])) for start, goal in pairs]
row = network.source.astype(int) * network.n_actions + network.action
entered = [csr_matrix((size[network.target], (row, 0 * row)), shape=(base.shape[0], 1)) for size in sizes]
features = csr_matrix(vstack([hstack([base, column]) for column in entered]))
names = ("minutes", "u-turn", "link size")

# Drivers of a known taste, who avoid what everyone of their pair uses.
world, taste = copies(N_PAIRS), np.array([-0.8, -3.0, -0.9])
reward = (features @ taste).reshape(world.n_states, world.n_actions)
demos = []
for k, (start, goal) in enumerate(pairs):
    task = world.task(k * network.n_states + start, k * network.n_states + goal)
    demos += xm.distribution(task, None, reward, seed=rng).sample(N_TRIPS)

model = xm.XMEN(world, features=features).fit(demos)
without = xm.XMEN(world, features=features[:, :2]).fit(demos)
summary = model.summary(names=names)
test = summary.likelihood_ratio(without.summary())
print(summary)
print(f"without link sizes: chi-square {test.statistic:.1f} with {test.degrees_of_freedom} degree of freedom")
