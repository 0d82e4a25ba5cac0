"""Taxi trips of which few links were seen: what is learned from them, and which hidden links are found.

    python benchmarks/seen_roads.py --data FOLDER [--out FILE.json] [--held-out 200]

FOLDER has the Shanghai taxi trips of `xmen reproduce roads`. Of each of 1,000 training trips the first and the last
link are kept, and every other one with probability q. Weights that were learned from what is left are compared with
those of the complete trips, in standard errors of the latter: of the length of a link, and over all weights the root
mean square and the largest. "filled" are shortest paths from each link that was seen to the next. Then hidden links of
held-out trips: those that the model, learned at the same q, finds likelier than not, and those of the shortest paths.
Last, the seconds of one gradient for 250, 500 and 1,000 trips, over those of as many complete ones.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import dijkstra

import xmen as xm
from xmen.engines.trips import SeenTrips, TripEngine
from xmen.experiments.roads import FEATURES, City, read_city


def seen_of(trip: xm.Trajectory, q: float, rng: np.random.Generator) -> xm.Sighting:
    """What was seen of a trip."""
    first, *inner, last = trip.states
    return xm.Sighting([first, *(link for link in inner if rng.random() < q), last], each=q)


def filled(city: City, seen: xm.Sighting) -> xm.Trajectory:
    """Shortest paths from each link that was seen to the next, none through the last."""
    graph, route = city.graph().tolil(), list[int](seen.seen[:1])
    graph[seen.seen[-1]] = 0.0
    graph = graph.tocsr()
    for after in seen.seen[1:]:
        here = route[-1]
        if here == after:  # seen twice: the shortest way round
            entered = graph[here].indices
            lengths = graph[here].data + dijkstra(graph, indices=entered)[:, after]
            route.append(int(entered[np.argmin(lengths)]))
            here = route[-1]
        before, way = dijkstra(graph, indices=here, return_predecessors=True)[1], [after]
        while way[-1] != here:
            way.append(int(before[way[-1]]))
        route += way[-2::-1]
    return city.network.along(route)


def found(guess: set[int], hidden: set[int]) -> np.ndarray:
    """How many were guessed, how many there are, and how many are both."""
    return np.array([len(guess), len(hidden), len(guess & hidden)], dtype=float)


def gradient_seconds(
    city: City, weights: np.ndarray, trips: list[xm.Trajectory], seen: list[xm.Sighting]
) -> tuple[float, float]:
    """Seconds of one gradient of complete trips, and of the same seen in part."""
    network, n = city.network, len(trips)
    rows = city.features()[network.source.astype(np.int64) * network.n_actions + network.action]
    reward, shares = rows @ weights, np.full(n, 1.0 / n)
    ends = [trip.states[0] for trip in trips], [trip.states[-1] for trip in trips]
    engine = TripEngine(network, None, *ends, shares, None)
    partly, seconds = SeenTrips(engine, engine.pair_of, seen), []
    for call in (lambda: engine.value(reward), lambda: partly.value(reward, shares)):
        call()  # compiled loops
        times = []
        for _ in range(5):
            began = time.process_time()
            call()
            times.append(time.process_time() - began)
        seconds.append(min(times))
    return seconds[0], seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--held-out", type=int, default=200)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", xm.IdentifiabilityWarning)
    city, rng, rows = read_city(chosen.data), np.random.default_rng(0), list[dict[str, float]]()
    trips, tested = city.trips("train_CV0_size1000"), city.trips("test_CV0", chosen.held_out)

    def learned(demos: list[xm.Trajectory] | list[xm.Sighting]) -> tuple[xm.XMEN, float]:
        began = time.process_time()
        return xm.XMEN(city.network, features=city.features()).fit(demos), time.process_time() - began

    complete, seconds = learned(trips)
    error = complete.standard_errors_
    print(f"{len(trips)} complete trips: {seconds:.1f} s; {complete.summary(names=FEATURES)}")
    for q in (0.2, 0.1):
        seen = [seen_of(trip, q, rng) for trip in trips]
        partly, seconds = learned(seen)
        by_shortest, _ = learned([filled(city, y) for y in seen])
        row = {
            "q": q,
            "links seen": sum(len(y) for y in seen) / sum(len(trip) + 1 for trip in trips),
            "seconds": seconds,
        }
        for name, model in (("seen", partly), ("filled", by_shortest)):
            away = np.abs(model.weights_ - complete.weights_) / error
            row |= {f"{name}: length": away[0], f"{name}: all": np.sqrt(np.mean(away**2)), f"{name}: most": away.max()}
        counts = np.zeros((2, 3))
        for trip in tested:
            y = seen_of(trip, q, rng)
            hidden, visits = set(trip.states) - set(y.seen), partly.seen(y).state_visits()
            counts[0] += found(set(np.flatnonzero(visits > 0.5).tolist()) - set(y.seen), hidden)
            counts[1] += found(set(filled(city, y).states) - set(y.seen), hidden)
        for name, (guessed, there, both) in zip(("seen", "filled"), counts, strict=True):
            row |= {f"{name}: precision": both / guessed, f"{name}: recall": both / there}
        for n in (250, 500, 1000):
            whole, part = gradient_seconds(city, complete.weights_, trips[:n], seen[:n])
            row |= {f"gradient of {n}": part, f"times that of {n} complete": part / whole}
        rows.append(row)
        print("\n".join(f"{name:>32}  {value:.4g}" for name, value in row.items()), flush=True)
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
