"""Thin ice: what luck, hope and promises differ by, on one slippery map.

A pond lies between the hut and the village. On the ice a step goes astray one time in five; on firm ground never. The
short way leads across the ice, past holes, the long way around it. The lantern has to be fetched first, and nobody may
stay on the ice for more than six steps at a stretch. Five ways to behave, all under the same reward: what each
promises, what is counted over 100,000 episodes, and what the promise costs.

    python examples/thin_ice.py [PICTURE.png]
"""

import sys

import numpy as np

import xmen as xm

EPISODES, SLIP = 100_000, 0.2
MAP = """
. . . . . . . . .
. . ~ ~ ~ ~ ~ . .
. . ~ O ~ ~ ~ . .
h l ~ ~ ~ O ~ . v
. . ~ ~ ~ ~ ~ . .
. . ~ O ~ ~ ~ . .
"""
letters = [row.split() for row in reversed(MAP.strip().splitlines())]  # y goes up
cells = {mark: [(x, y) for y, row in enumerate(letters) for x, m in enumerate(row) if m == mark] for mark in ".~Ohlv"}
grid = xm.GridWorld(9, 6, start=cells["h"][0], goal=cells["v"][0], horizon=20)
on_ice = np.zeros(grid.n_states, dtype=bool)
on_ice[[grid.state(cell) for cell in cells["~"] + cells["O"]]] = True

# The same grid with chance: on the ice a step may go the way of any other move instead.
rows = []
for state, action, target, _ in grid.transitions:
    others = [row[2] for row in grid.transitions if row[0] == state and row[1] != action]
    slip = SLIP if on_ice[int(state)] else 0.0
    rows.append((state, action, target, 1.0 - slip))
    rows += [(state, action, other, slip / len(others)) for other in others]


class Pond(xm.MDP):
    """The map with some amount of time; messages speak of its cells and moves."""

    def __init__(self, horizon: int) -> None:
        super().__init__(grid.n_states, grid.n_actions, rows, grid.start, np.flatnonzero(grid.terminal), horizon)

    def describe_state(self, state: int) -> str:
        return grid.describe_state(state)

    def describe_action(self, action: int) -> str:
        return grid.describe_action(action)


ice, lantern = xm.at(*np.flatnonzero(on_ice).tolist()), grid.at(*cells["l"])
rules = (
    xm.never(grid.at(*cells["O"])).named("no hole")
    & xm.first(lantern, among=ice).named("the lantern first")
    & (xm.longest_run(ice) <= 6).named("off the ice after six steps")
)
reward = np.full((grid.n_states, grid.n_actions), -5.0)  # every step costs


def act_out(d: xm.Distribution, n: int, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Episodes that choose each action as likely as P does, while the world's chances decide.

    The share of them that kept the rules, and the mean visits; an episode that has lost its rules stops there.
    """
    product, world = d.product, d.world
    source = np.repeat(np.arange(product.n_nodes), np.diff(product.indptr.astype(int)))
    action, after = world.action[product.edge], world.target[product.edge]
    following = np.full((product.n_nodes, world.n_actions, world.n_states), -1)
    following[source, action, after] = product.target
    chance = np.zeros((world.n_states, world.n_actions, world.n_states))
    chance[world.source, world.action, world.target] = world.probability
    visits = np.zeros((world.n_states, world.n_actions))
    node, log_t = np.full(n, int(product.starts[0])), np.log(world.probability[product.edge])
    for t in range(product.horizon):
        now = product.depth[source] <= t  # edges that t actions can have led to
        log_weight = (log_t + reward[product.state[source], action])[now]
        log_weight += d.log_completions(t + 1, product.target[now])
        weight = np.zeros((product.n_nodes, world.n_actions))
        np.add.at(weight, (source[now], action[now]), np.exp(log_weight - log_weight.max()))
        going = np.flatnonzero((node >= 0) & (weight[node].sum(axis=1) > 0))
        here = node[going]
        chosen = draw(weight[here], rng)
        np.add.at(visits, (product.state[here], chosen), 1.0 / n)
        node[going] = following[here, chosen, draw(chance[product.state[here], chosen], rng)]
    return float(np.mean((node >= 0) & product.accepting[node])), visits


def draw(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One column of each row, in proportion to its weights."""
    sums = weights.cumsum(axis=1)
    return (sums < rng.random(len(sums))[:, None] * sums[:, -1:]).sum(axis=1)


def counted(policy: xm.Policy, rule: xm.Constraint, seed: int) -> float:
    """The share of real episodes that arrived and kept the rules."""
    episodes = policy.rollout(EPISODES, seed=seed)
    village = grid.state(cells["v"][0])
    judged = {tau: tau.states[-1] == village and rule.accepts(tau) for tau in set(episodes)}
    return float(np.mean([judged[tau] for tau in episodes]))


results: list[tuple[str, float, float, float, np.ndarray]] = []
pond = Pond(20)
d = xm.distribution(pond, rules, reward, engine="exact")
lucky, visits = act_out(d, EPISODES, np.random.default_rng(0))
hope = xm.plan(pond, rules, reward, validity=0.0)  # asks for nothing: the rules play no part
results.append(("luck: P(tau), acted out", 1.0, lucky, np.nan, visits))  # its samples are all valid
for name, policy in (
    ("hope: no rules", hope),
    ("0.5 or more", xm.plan(pond, rules, reward, validity=0.5)),
    ("0.9 or more", xm.plan(pond, rules, reward, validity=0.9)),
    ("best", xm.plan(pond, rules, reward, validity="best")),
    ("sure", xm.plan(pond, rules, reward, validity="sure")),
):
    share = counted(policy, rules, seed=1)
    results.append((name, policy.validity, share, policy.expected_reward(), policy.visits()))

print(f"{'with time for the detour':26} promised   counted   reward given up")
for name, promised, share, value, _ in results:
    given_up = "" if np.isnan(value) else f"{results[1][3] - value:8.2f}"
    print(f"{name:26} {promised:8.4f}  {share:8.4f}   {given_up}")

# With less time there is no way around, and nothing is sure.
hurried = Pond(13)
try:
    xm.plan(hurried, rules, reward)
except xm.InfeasibleError as error:
    print("\nin a hurry:", error)
best = xm.plan(hurried, rules, reward, validity="best")
print(f"{'best, in a hurry':26} {best.validity:8.4f}  {counted(best, rules, seed=2):8.4f}")
for name, broken in best.breaks().items():
    print(f"  {name:30} broken with probability {broken:.4f}")

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    del results[4]  # where a sure policy exists, it is the best one
    results.append(("best, in a hurry", best.validity, counted(best, rules, 2), best.expected_reward(), best.visits()))
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.6), layout="constrained")
    marks = {"hole": (cells["O"], "o"), "lantern": (cells["l"], "*")}
    for ax, (name, promised, share, _, visits) in zip(axes.flat, results, strict=True):
        xm.plot_visits(grid, visits.sum(axis=1), ax=ax)
        xm.plot_world(grid, marks, ax=ax)
        ax.add_patch(plt.Rectangle((1.5, -0.5), 5, 5, fill=False, edgecolor="tab:cyan", linewidth=2))  # the ice
        ax.set(xlabel="", ylabel="")
        ax.set_title(f"{name}\npromised {promised:.3f}, counted {share:.3f}")
    figure.savefig(sys.argv[1], dpi=110)
