"""A walk behind a pillar, and why a sighting is not an event: python examples/pillar.py seen.png draws both."""

import sys

import numpy as np

import xmen as xm

yard = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), horizon=12)
bridge = xm.visit(yard.at((2, 2))).named("bridge")
once = xm.no_revisit().named("no cell twice")
d = xm.distribution(yard, once, np.full((25, 4), -0.5), engine="exact", seed=0)

# Three positions are hidden: did she cross the bridge?
given = d.seen(xm.Sighting([(0, 0), (1, 0), (1, 1), None, None, None, (3, 3), (3, 4), (4, 4)]))
print(f"across the bridge: {d.probability(bridge):.3f} before, {given.probability(bridge):.3f} now")

# "Passed (1, 1), then (3, 3)" as an event, and as a record by cameras that see one position in five.
event = xm.sequence(yard.at((1, 1)), yard.at((3, 3)))
record = xm.Sighting([(0, 0), (1, 1), (3, 3), (4, 4)], each=0.2)
steps = np.linspace(-3.0, 4.0, 29)
laws = d.with_rewards([np.full((25, 4), weight) for weight in steps])
as_event = np.array([np.log(law.probability(event)) for law in laws])
as_record = np.array([law.log_seen(record) for law in laws])
best = [f"{steps[values.argmax()]:.2f}" for values in (as_event, as_record)]
print(f"the most likely weight of a step: {best[0]} as an event, {best[1]} as what was seen")

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    xm.plot_visits(yard, given.state_visits(), ax=left).set_title("where she was, given what was seen")
    right.plot(steps, as_event - as_event.max(), label="as an event: whoever wanders most")
    right.plot(steps, as_record - as_record.max(), label="as what was seen, each = 0.2")
    right.set(xlabel="weight of a step", ylabel="log-likelihood, less its largest")
    right.legend()
    figure.savefig(sys.argv[1], dpi=110)
