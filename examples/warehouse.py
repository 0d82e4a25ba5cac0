"""A warehouse round with precedence: the heavy crate first, no aisle twice, out in time, on one battery.

Five aisles between shelves, a cross aisle at the front and one at the back. Every rule is about the whole round;
none of them can be written as a reward on single cells. The model learns how pickers like to walk and then plans
new rounds that keep all rules, also those that came later.

    python examples/warehouse.py [PICTURE.png]
"""

import sys

import numpy as np

import xmen as xm

AISLES, FRONT, BACK = (0, 2, 4, 6, 8), 0, 5
HEAVY, FRAGILE, EXTRA = (6, 3), (2, 2), (4, 4)

shelves = [(x, y) for x in (1, 3, 5, 7) for y in range(1, 5)]
grid = xm.GridWorld(9, 6, start=(0, 0), goal=(8, 0), walls=shelves, horizon=40)
heavy, fragile, packing = grid.at(HEAVY), grid.at(FRAGILE), grid.at((8, 0))


def entering(x: int) -> xm.Event:
    """The event of turning into an aisle, from the front or from the back."""
    from_front = grid.at((x, FRONT)) & grid.doing("up")
    return from_front | (grid.at((x, BACK)) & grid.doing("down"))


energy = np.ones((grid.n_states, grid.n_actions), dtype=int)
energy[:, grid.moves.index("up")] = 2  # the floor rises to the back
no_aisle_twice = xm.count(entering(AISLES[0])) <= 1
for x in AISLES[1:]:
    no_aisle_twice = no_aisle_twice & (xm.count(entering(x)) <= 1)
rules = [
    xm.visit(fragile).named("fetch the fragile box"),
    xm.first(heavy, among=fragile).named("the heavy crate before the fragile box"),
    xm.response(fragile, packing, within=16).named("packed within sixteen steps"),
    no_aisle_twice.named("no aisle twice"),
    (xm.total(energy) <= 46).named("one battery"),
]
d = xm.distribution(grid, rules, reward=None)
print(f"{np.exp(d.log_partition()):,.0f} valid rounds ({d.reason})")

# Pickers mind every step, the crowd in the front aisle, and walking against the arrows on the floor.
features = np.zeros((grid.n_states, grid.n_actions, 3))
features[:, :, 0] = 1.0
features[[grid.state((x, FRONT)) for x in range(9)], :, 1] = 1.0
for x, against in zip(AISLES, ("down", "up", "down", "up", "down"), strict=True):
    features[[grid.state((x, y)) for y in range(1, 5)], grid.moves.index(against), 2] = 1.0
pickers = np.array([-0.5, -0.8, -1.2])
demos = xm.distribution(grid, rules, features @ pickers, seed=0).sample(400)

model = xm.XMEN(grid, rules, features=features).fit(demos)
for name, learned, true in zip(("a step", "the front aisle", "against an arrow"), model.weights_, pickers, strict=True):
    print(f"  {name:17} learned {learned:5.2f}   true {true:5.2f}")

# Plain maximum entropy on the same demonstrations, and how often it breaks a rule.
plain = xm.MaxEntIRL(grid, features=features).fit(demos)
rounds = plain.sample(2000, seed=1)
valid = np.mean([all(rule.accepts(tau) for rule in rules) for tau in rounds])
print(f"valid rounds: {valid:.1%} of plain MaxEnt, ", end="")
rounds = model.sample(2000, seed=1)
print(f"{np.mean([all(rule.accepts(tau) for rule in rules) for tau in rounds]):.0%} of X-MEN")

# An order that came in later, in the middle aisle. Nothing is trained again.
also = xm.visit(grid.at(EXTRA)).named("one more box")
extended = model.sample(200, also=also, seed=2)
print(f"{sum(map(also.accepts, extended))} of {len(extended)} rounds fetch one more box")
best = model.distribution(also=also).mode()
print("most likely:", " ".join(f"{x},{y}" for x, y in map(grid.cell, best.states)))

# A battery that is nearly empty.
try:
    model.sample(1, also=[also, (xm.total(energy) <= 32).named("a weak battery")])
except xm.InfeasibleError as error:
    conflict = error.conflict
    print("impossible together:", *map(repr, conflict))

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(13, 4.2), layout="constrained")
    marks = {"heavy": ([HEAVY], "s"), "fragile": ([FRAGILE], "D"), "one more": ([EXTRA], "^")}
    xm.plot_world(grid, marks, ax=axes[0])
    xm.plot_trajectories(grid, extended[:3], ax=axes[0]).set_title("three rounds")
    xm.plot_visits(grid, model.distribution(also=also).state_visits(), ax=axes[1]).set_title("expected visits")
    figure.savefig(sys.argv[1], dpi=120)
