"""A road graph with a closed bridge: learn how people drive, then close a bridge without learning again.

A small town on both sides of a river, with three bridges. The model learns from trips what drivers value (minutes,
tolls, quiet streets). One morning the old bridge is closed: `sample(also=...)` answers at once, because the
learned reward and the rules are two different things.

    python examples/road_graph.py [PICTURE.png]
"""

import sys

import networkx as nx
import numpy as np

import xmen as xm

# Streets run along letters (west to east) and numbers (south to north); the river flows between 2 and 3.
BRIDGES = {"west bridge": ("A2", "A3"), "old bridge": ("C2", "C3"), "toll bridge": ("E2", "E3")}
QUIET = {"A", "B"}

town = nx.Graph()
places = {f"{letter}{number}": (x, number) for x, letter in enumerate("ABCDE") for number in range(1, 5)}
for one, (x, y) in places.items():
    for other, (u, v) in places.items():
        if (u, v) in ((x + 1, y), (x, y + 1)) and {y, v} != {2, 3}:
            town.add_edge(one, other, minutes=2.0, toll=0.0, quiet=float(one[0] in QUIET and other[0] in QUIET))
for name, (one, other) in BRIDGES.items():
    town.add_edge(one, other, minutes=3.0, toll=float(name == "toll bridge"), quiet=0.0)

world = xm.MDP.from_networkx(town, "C1", "D4", horizon=14)
print(world, "features:", *world.feature_names)


def road(one: str, other: str) -> xm.Event:
    """The event of driving along a road, in either direction."""
    there, back = (world.trajectory([one, other]), world.trajectory([other, one]))
    return (xm.at(there.states[0]) & xm.doing(*there.actions)) | (xm.at(back.states[0]) & xm.doing(*back.actions))


bridges = {name: road(*ends) for name, ends in BRIDGES.items()}
across = bridges["west bridge"] | bridges["old bridge"] | bridges["toll bridge"]
rules = [
    xm.no_revisit().named("no crossing twice"),
    (xm.count(across) <= 1).named("over the river only once"),
]

# 1000 trips of drivers who mind minutes and tolls and like it quiet.
drivers = np.array([-0.8, -1.5, 0.6])
demos = xm.distribution(world, rules, world.features @ drivers, seed=0).sample(1000)
model = xm.XMEN(world, rules, features=world.features).fit(demos)
for name, learned, true in zip(world.feature_names, model.weights_, drivers, strict=True):
    print(f"  {name:8} learned {learned:5.2f}   true {true:5.2f}")


def shares(d: xm.Distribution) -> dict[str, float]:
    """How likely each bridge is: exactly, from the expected visits of its two directions."""
    edges = {name: [world.trajectory(pair) for pair in (ends, ends[::-1])] for name, ends in BRIDGES.items()}
    visits = d.visits()
    return {name: sum(visits[way.states[0], way.actions[0]] for way in ways) for name, ways in edges.items()}


# The old bridge is closed. Nothing is trained again.
closed = xm.never(bridges["old bridge"]).named("old bridge closed")
before, after = model.distribution(), model.distribution(also=closed)
for name in BRIDGES:
    print(f"  {name:12} {shares(before)[name]:6.1%} of the trips, after the closure {shares(after)[name]:6.1%}")
trips = model.sample(5, also=closed, seed=1)
for trip in trips:
    print("  " + " ".join(world.node(state) for state in trip.states))

# A trip from the archive that is not possible any more, and why.
archived = next(trip for trip in demos if not closed.accepts(trip))
print(f"an archived trip: {closed.explain(archived)}")

# All bridges closed: the error names what cannot hold together, and nothing else.
everything = [xm.never(bridge).named(f"{name} closed") for name, bridge in bridges.items()]
try:
    model.sample(1, also=[(xm.length() <= 12).named("at most twelve crossings"), *everything])
except xm.InfeasibleError as error:
    conflict = error.conflict
    print("impossible together:", *map(repr, conflict))

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    for ax, d, title in ((axes[0], before, "how often each road is driven"), (axes[1], after, "the old bridge closed")):
        visits = d.visits()
        width = {pair: 0.0 for pair in town.edges}
        for state, action in zip(*np.nonzero(world.available), strict=True):
            one, other = world.edge(state, action)
            width[(one, other) if (one, other) in width else (other, one)] += 9 * visits[state, action]
        ax.axhspan(2.3, 2.7, color="#cfe8f5", zorder=0)
        nx.draw_networkx_edges(town, places, ax=ax, edge_color="#c8c8c8")
        nx.draw_networkx_edges(town, places, ax=ax, edge_color="#0072B2", width=list(width.values()))
        nx.draw_networkx_labels(town, places, ax=ax, font_size=9, bbox={"color": "white", "pad": 1.5})
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(sys.argv[1], dpi=120)
