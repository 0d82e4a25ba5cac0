"""Trips of many drivers, each with its own start and goal: estimate, test, and ask what a closed street changes.

A town of two-way streets with avenues that are faster. Links are the states, so that a U-turn is an event and "no link
twice" is a rule. The model gives weights with standard errors, flows, and the routes of a pair.

    python examples/trips.py [PICTURE.png]
"""

import sys

import networkx as nx
import numpy as np

import xmen as xm

SIZE = 5
town = nx.MultiDiGraph()
for x in range(SIZE):
    for y in range(SIZE):
        town.add_node((x, y), x=x, y=y)
for one in list(town):
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        other = (one[0] + dx, one[1] + dy)
        if other in town:
            avenue = one[1] == other[1] == 2 or one[0] == other[0] == 1
            town.add_edge(one, other, minutes=1.0 if avenue else 2.0, highway="avenue" if avenue else "street")

network = xm.Network.from_networkx(town)
print(network, "features:", *network.feature_names)
names = ("minutes", "left", "u-turn")
features = network.select(*names)

# Drivers of a known taste, 300 trips between random links.
taste = np.array([-0.9, -0.5, -3.0])
reward = (features @ taste).reshape(network.n_states, network.n_actions)
rng = np.random.default_rng(0)
pairs = [rng.choice(network.n_states, 2, replace=False).tolist() for _ in range(300)]
demos = [xm.distribution(network.task(*pair), None, reward, seed=rng).sample(1)[0] for pair in pairs]

model = xm.XMEN(network, features=features).fit(demos)
summary = model.summary(names=names)
print(summary)
value = summary.ratio(1, 0)
print(f"a left turn is worth {value.value:.2f} minutes, standard error {value.standard_error:.2f}")
smaller = xm.XMEN(network, features=network.select("minutes", "u-turn")).fit(demos)
test = summary.likelihood_ratio(smaller.summary())
print(f"without left turns: chi-square {test.statistic:.1f} with {test.degrees_of_freedom} degree of freedom")

# The three likeliest routes of one pair that never turn round and pass at most 12 links.
start, goal = network.state(((0, 0), (1, 0))), network.state(((3, 4), (4, 4)))
rules = xm.never(network.turning("u-turn")) & (xm.length() <= 12)
routes = model.distribution(start=start, goal=goal, also=rules).best(3)
for route in routes:
    links = [network.names[state] for state in route.states]
    print(f"{np.exp(model.score_samples([route])[0]):.3f}", *(f"{u[0]}{u[1]}" for u, _, _ in links))

# What a closed avenue changes for a morning of trips.
demand = [(*pair, 10.0) for pair in pairs[:40]]
closed = [network.state(((1, 2), (2, 2))), network.state(((2, 2), (1, 2)))]
change = model.closure(demand, closed)
print(f"{change.before.states[closed].sum():.0f} of {10 * len(demand)} trips used the closed avenue; now it is 0,")
print(f"and {np.abs(change.after.states - change.before.states).sum() / 2:.0f} uses of links have moved elsewhere")

if len(sys.argv) > 1:
    ax = xm.plot_network(network, change.before.states, routes, label="expected trips per link")
    ax.set_title("A morning of trips, and three routes of one pair")
    ax.figure.savefig(sys.argv[1], dpi=120)
