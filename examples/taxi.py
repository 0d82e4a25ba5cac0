"""Gymnasium's Taxi with a rule that it does not have: refuel before you pick anyone up.

Taxi has no fuel. Here a station is a square of the map, and the rule spans the whole episode: nothing in Taxi's
state remembers whether the station was passed. The example learns how a careful driver drives, acts in the real
environment, adds a rule afterwards, and asks for too much.

    python examples/taxi.py [PICTURE.png]
"""

import sys

import gymnasium
import numpy as np

import xmen as xm

PICK_UP = 4  # the actions are south, north, east, west, pick up, drop off
ABOARD = 4  # the passenger's place when in the taxi; 0 to 3 are the stands R, G, Y, B
FUEL = (3, 2)  # row and column of the station
MAIN_ROAD = 2  # a row of the map

env = gymnasium.make("Taxi-v4")
world = xm.MDP.from_gymnasium(env, horizon=34)
row, column, passenger, _ = np.array([list(env.unwrapped.decode(int(o))) for o in world.observations]).T

# What can be true at one moment, and the rules over whole episodes.
fuel = xm.at(*np.flatnonzero((row == FUEL[0]) & (column == FUEL[1])))
aboard = xm.at(*np.flatnonzero(passenger == ABOARD))
blunder = xm.when(lambda s, a: a is not None and world.rewards[s, a] == -10, name="wrong pick-up or drop-off")
rules = [
    xm.before(fuel, xm.doing(PICK_UP)).named("fuel before passengers"),
    xm.never(blunder).named("no wrong pick-up or drop-off"),
]

# A driver who hurries and likes the main road; 300 rides from all over the city, of any length.
features = np.zeros((world.n_states, world.n_actions, 2))
features[:, :, 0] = 1.0
features[row == MAIN_ROAD, :, 1] = 1.0
driver = np.array([-2.5, 1.0])
demos = xm.distribution(world, rules, features @ driver, seed=1).sample(300)
print(f"{len(demos)} demonstrations of {min(map(len, demos))} to {max(map(len, demos))} actions")

# Learn what the driver values, given that the rules must be kept anyway.
model = xm.XMEN(world, rules, features=features).fit(demos)
print(f"per step, per step on the main road: learned {model.weights_.round(2)}, true {driver}")


# Act in the real environment: a policy with memory that never paints itself into a corner.
def ride(policy: xm.Policy, seed: int) -> xm.Trajectory:
    observation, _ = env.reset(seed=seed)
    policy.reset(observation)
    states, actions, arrived = [int(observation)], [], False
    while not arrived:
        actions.append(policy.act(observation))
        observation, _, arrived, _, _ = env.step(actions[-1])
        states.append(int(observation))
    return xm.Trajectory(states, actions)


without = xm.distribution(world, rules[1:], model.reward_)  # the same values, and nobody asks for fuel
for title, policy in {"without": xm.Policy(without, seed=2), "with": model.policy(seed=2)}.items():
    episodes = [ride(policy, seed) for seed in range(100)]
    print(f"in Gymnasium, {title} the rule: {sum(map(rules[0].accepts, episodes))} of 100 rides refuelled in time")

# A rule that came later, without learning again.
direct = xm.no_revisit(aboard).named("no square twice with a passenger")
later = model.sample(100, also=direct, seed=3)
before = sum(map(direct.accepts, model.sample(100, seed=3)))
print(
    f"rides that never come back to a square with a passenger: {before} of 100, now {sum(map(direct.accepts, later))}"
)

# Too much to ask.
try:
    model.sample(1, also=[direct, (xm.length() <= 10).named("ten moments at most")])
except xm.InfeasibleError as error:
    conflict = error.conflict
    print("impossible together:", *map(repr, conflict))

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharey=True)
    panels = {"without the rule": without, "fuel before passengers": model.distribution()}
    maps = {title: np.zeros((5, 5)) for title in panels}
    for title, d in panels.items():
        np.add.at(maps[title], (row, column), d.state_visits())
    top = max(visits.max() for visits in maps.values())
    for ax, (title, visits) in zip(axes, maps.items(), strict=True):
        image = ax.imshow(visits, cmap="YlGnBu", vmin=0, vmax=top)
        for name, place in zip("RGYB", env.unwrapped.locs, strict=True):
            ax.text(place[1], place[0], name, ha="center", va="center", bbox={"color": "white"})
        ax.text(FUEL[1], FUEL[0], "fuel", ha="center", va="center", bbox={"color": "white"})
        ax.set(title=title, xticks=range(5), yticks=range(5), xlabel="column", ylabel="row")
    figure.colorbar(image, ax=axes, label="expected visits of the taxi")
    figure.savefig(sys.argv[1], dpi=120)
