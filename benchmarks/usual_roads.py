"""No U-turn, as drivers mostly have it: hard, usually, as a feature, or not there, on taxi trips through Shanghai.

    python benchmarks/usual_roads.py --data FOLDER

FOLDER has the taxi trips of `xmen reproduce roads`. Each model is learned from 10,000 training trips by the features of
links and turns: log-probability per test trip given its start and its goal, how many of the training trips make no
U-turn by the model and by the drivers, and the processor seconds of the fit. Then the weights of U-turns with their
errors, and what the rule adds to the feature by a likelihood ratio.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import xmen as xm
from xmen.experiments.roads import FEATURES, read_city

AROUND = FEATURES.index("around")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    city = read_city(parser.parse_args().data)
    trips, tested, features = city.trips("train_CV0_size10000"), city.trips("test_CV0"), city.features()
    rule = xm.never(xm.doing(AROUND - FEATURES.index("direction 1") + 1)).named("no U-turn")
    without = np.delete(np.arange(len(FEATURES)), AROUND)
    keeping = [trip for trip in trips if rule.accepts(trip)]
    demand = [(trip.states[0], trip.states[-1], 1.0) for trip in trips]
    print(
        f"{len(keeping):,} of {len(trips):,} training trips make no U-turn, and of {len(tested):,} test trips ", end=""
    )
    print(f"{sum(map(rule.accepts, tested)):,}\n\n{'':32}{'log-prob':>9}{'keep it':>9}{'seconds':>9}")
    models = {}
    for name, given, columns in (
        ("hard, and those who keep it", rule, without),
        ("no rule, no feature", None, without),
        ("a feature: their number", None, slice(None)),
        ("usually", xm.usually(rule), without),
        ("usually, and their number", xm.usually(rule), slice(None)),
    ):
        began = time.process_time()
        model = xm.XMEN(city.network, given, features=features[:, columns])
        models[name] = model.fit(keeping if given is rule else trips)
        seconds, share = time.process_time() - began, 1.0
        if given is not rule:  # some pairs have no trip without: those that have one are counted twice
            twice = model.flows(demand, also=xm.usually(rule, weight=np.log(2.0))).log_z - model.flows(demand).log_z
            share = float(np.expm1(twice).mean())
        print(f"{name:32}{model.score(tested):9.3f}{share:9.4f}{seconds:9.1f}", flush=True)
    number, both = models["a feature: their number"], models["usually, and their number"]
    print(f"\nwith the feature alone: {number.weights_[AROUND]:.3f} +- {number.standard_errors_[AROUND]:.3f} a U-turn")
    table = both.summary(names=FEATURES)
    for name in ("around", "no U-turn"):
        k = table.names.index(name)
        print(f"with both, {name}: {table.weights[k]:.3f} +- {table.standard_errors[k]:.3f}")
    found = table.likelihood_ratio(number)
    print(f"is it a rule, too? 2 log L grows by {found.statistic:.1f}, p = {found.p_value:.2g}")


if __name__ == "__main__":
    main()
