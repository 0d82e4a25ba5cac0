"""Route choice of taxis in Shanghai: what features, links and transitions explain, and what "no link twice" adds.

The authors' first split: training trips, and the published test set, on which nothing is chosen. All trips of the data
set have at least 15 links; that is how it was selected, so the rule "at least 15 links" is knowledge about the file and
not about drivers, and stands apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from xmen.constraints.arithmetic import length
from xmen.constraints.constraint import Constraint
from xmen.constraints.repetition import no_revisit
from xmen.engines.trips import RejectTrips, TripEngine, trip_budget
from xmen.experiments.notebook import Notebook, Stage
from xmen.experiments.roads_cloning import Cloning
from xmen.experiments.roads_data import FEATURES, City, read_city
from xmen.experiments.roads_figures import draw_curves, draw_flows
from xmen.experiments.roads_scores import score_routes
from xmen.learners.xmen import XMEN
from xmen.rewards import Floats
from xmen.worlds.trajectory import Trajectory

MOST = 50  # moves of a predicted route, as the authors have it; the longest trip has 48
TWICE = no_revisit().named("no link twice")
LONG = (length() >= 15).named("at least 15 links")
KINDS = {"14 features": {}, "and a weight per link": {"per_link": True}}
KINDS["and a weight per transition"] = {"per_transition": True}
RICHEST = "and a weight per transition"
SMALL = 1e-6  # penalty of the 14 features, which hold by themselves
PENALTIES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)  # of single weights, strong first: a fit begins where the stronger one ended
FOLDS = 3
TOL, COARSE = 1e-4, 1e-3  # per component of the gradient: of a fit, and of one that only compares penalties
NEAR = 0.005  # nats to the optimum, where draws have to say how near it is
MAX_ITER = 1000
GREEDY_DRAWS = 500  # of every pair, where a rule rejects
SIZES = (30, 100, 300, 1000, 3000, 10_000)


class Result(NamedTuple):
    """One row of the tables, with what the figures need of it."""

    name: str
    rule: str
    log_probability: float
    edit_distance: float
    bleu: float
    exact: float
    acceptance: float
    seconds: float  # of training, on the clock
    processor: float  # the same, of the processor
    weights: Sequence[float] = ()
    standard_errors: Sequence[float] = ()
    flows: Sequence[float] = ()


def run(book: Notebook) -> None:
    """`xmen reproduce roads --data FOLDER`."""
    city = read_city(book.data)
    train = city.trips(f"train_CV0_size{book.pick(1000, 10_000)}")
    test = city.trips("test_CV0", book.pick(400, None))
    _introduce(book, city, train, test)
    study = Study(book, city, test)
    penalties = {name: study.penalty(name, train) for name in KINDS}
    fits = {(name, rule): study.fit(name, rule, penalties[name], train) for name in KINDS for rule in (None, TWICE)}
    apart = [study.fit(name, LONG, penalties[name], train) for name in KINDS]
    results = list(fits.values())
    if not book.quick:
        every = city.all_training_trips()
        less = penalties[RICHEST] * len(train) / len(every)
        results += [
            study.fit(RICHEST, rule, less, every, f"all {len(every):,} training trips") for rule in (None, TWICE)
        ]
    results += [study.clone(train, book.pick(3, 8)), study.shortest()]
    curves = {name: study.curve(name, penalties[name], train) for name in KINDS}
    _show(book, city, test, fits, curves, [n for n in SIZES if n <= len(train)])
    _tables(book, results, apart, fits["14 features", None])


class Study:
    """The stages of the experiment, each kept once it is finished; `test` is only ever scored on."""

    def __init__(self, book: Notebook, city: City, test: Sequence[Trajectory]) -> None:
        self.book, self.city, self.test = book, city, test
        self.observed = [tau.states for tau in test]

    def penalty(self, name: str, train: Sequence[Trajectory]) -> float:
        """The penalty of single weights that predicts trips best that were left out of the training trips."""
        if name == "14 features":
            return SMALL

        def choose(stage: Stage) -> float:
            features = self.city.features(**KINDS[name])
            parts = [train[k::FOLDS] for k in range(FOLDS)]
            models = [XMEN(self.city.network, features=features, tol=COARSE, warm_start=True) for _ in parts]
            scores: dict[float, float] = {}
            for number, value in enumerate(PENALTIES):
                # Fewer trips need more penalty for the same shrinkage.
                penalty, total = _l2(features, value * FOLDS / (FOLDS - 1)), 0.0
                for k, model in enumerate(models):
                    others = [tau for i, part in enumerate(parts) if i != k for tau in part]
                    model.set_params(l2=penalty).fit(others)
                    total += model.score(parts[k]) * len(parts[k]) / len(train)
                    stage.done((number + (k + 1) / FOLDS) / len(PENALTIES))
                scores[value] = total
                if total < max(scores.values()):
                    break
            return max(scores, key=lambda value: scores[value])

        found = float(self.book.kept(f"penalty: {name}", choose))
        self.book.set(**{f"l2, {name}": found})
        return found

    def fit(
        self, name: str, rule: Constraint | None, penalty: float, train: Sequence[Trajectory], trips: str = ""
    ) -> Result:
        """A model of trips, and what it says of the test trips."""
        label = ", ".join(text for text in (name, "" if rule is None else rule.label, trips) if text)

        def work(stage: Stage) -> Result:
            features = self.city.features(**KINDS[name])
            model = XMEN(
                self.city.network,
                rule,
                features=features,
                l2=_l2(features, penalty),
                tol=NEAR if rule is TWICE else TOL,
                seed=self.book.seed,
                callback=stage.callback(MAX_ITER),
            )
            clock = Clock()
            model.fit(train)
            seconds, processor = clock.read()
            accepted = vars(model).get("acceptance_")
            demand = [(states[0], states[-1], 1.0) for states in self.observed]
            return Result(
                f"{name}, {trips}" if trips else name,
                "" if rule is None else rule.label,
                model.score(self.test),
                *score_routes(self.observed, self._greedy(model, rule)),
                1.0 if accepted is None else float(accepted[:, 2].mean()),
                seconds,
                processor,
                model.weights_.tolist(),
                model.standard_errors_.tolist() if name == "14 features" and rule is None else [],
                model.flows(demand).states.tolist() if rule is None else [],
            )

        return Result(*self.book.kept(label, work))

    def _greedy(self, model: XMEN, rule: Constraint | None) -> list[list[int]]:
        """The greedy route of every test trip's pair: the likeliest move at every link, under the rule."""
        network = self.city.network
        starts, goals = ([states[end] for states in self.observed] for end in (0, -1))
        problem = (network, rule, starts, goals, np.ones(len(starts)), trip_budget(None, network))
        reward = model.reward_.table()[network.source, network.action]
        if rule is TWICE:
            trips = RejectTrips(*problem)
            engine = trips.engine
            routes = trips.greedy(reward, GREEDY_DRAWS, np.random.default_rng(self.book.seed), MOST)
        else:
            engine = TripEngine(*problem)
            assert engine.shared is not None
            routes = engine.shared.greedy(np.log(network.probability) + reward, MOST)
        pairs = zip(engine.start.tolist(), routes, strict=True)
        by_pair = [[start, *network.target[edges].tolist()] for start, edges in pairs]
        return [by_pair[pair] for pair in engine.pair_of.tolist()]

    def clone(self, train: Sequence[Trajectory], epochs: int) -> Result:
        """Behaviour cloning; a twentieth of the training trips chooses the epoch."""

        def work(stage: Stage) -> Result:
            clock, held = Clock(), max(1, len(train) // 20)
            cloning = Cloning(self.city, epochs, self.book.seed)
            cloning.fit(train[held:], train[:held], stage.done)
            times = clock.read()
            scores = score_routes(self.observed, cloning.routes(self.test, MOST))
            return Result("behaviour cloning", "", float(cloning.score_samples(self.test).mean()), *scores, 1.0, *times)

        return Result(*self.book.kept("behaviour cloning", work))

    def shortest(self) -> Result:
        """The shortest way by length, which has no probability."""
        network, clock = self.city.network, Clock()
        entering = self.city.lengths[network.target]
        graph = csr_matrix((entering, (network.source, network.target)), shape=(network.n_states,) * 2)
        before = dijkstra(graph, return_predecessors=True)[1]
        routes = []
        for states in self.observed:
            route = [states[-1]]
            while route[-1] != states[0]:
                route.append(int(before[states[0], route[-1]]))
            routes.append(route[::-1])
        return Result("shortest path", "", np.nan, *score_routes(self.observed, routes), np.nan, *clock.read())

    def curve(self, name: str, penalty: float, train: Sequence[Trajectory]) -> list[float]:
        """Held-out log-probability by the number of training trips."""

        def work(stage: Stage) -> list[float]:
            features, scores = self.city.features(**KINDS[name]), []
            sizes = [n for n in SIZES if n <= len(train)]
            for n in sizes:
                l2 = _l2(features, penalty * len(train) / n)
                scores.append(
                    XMEN(self.city.network, features=features, l2=l2, tol=TOL).fit(train[:n]).score(self.test)
                )
                stage.done(len(scores) / len(sizes))
            return scores

        return list(self.book.kept(f"learning curve: {name}", work))


class Clock:
    """Seconds since it was made, on the clock and of the processor."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began[0], time.process_time() - self._began[1]


def _l2(features: csr_matrix, value: float) -> Floats:
    """The small penalty of the 14 features, and this one of single weights."""
    return np.concatenate([np.full(len(FEATURES), SMALL), np.full(features.shape[1] - len(FEATURES), value)])


def _introduce(book: Notebook, city: City, train: Sequence[Trajectory], test: Sequence[Trajectory]) -> None:
    book.title("Route choice of taxis in Shanghai")
    book.set(training_trips=len(train), test_trips=len(test), links=city.network.n_states)
    book.say(
        f"""{len(train):,} training trips and {len(test):,} test trips of the authors' first split, over
        {city.network.n_states} links and {len(city.network.source):,} transitions. The likelihood is that of each trip
        given its start and its goal, over trips of any length. Penalties of single weights are chosen by {FOLDS}-fold
        cross-validation inside the training trips, without rules; nothing is chosen on the test trips."""
    )
    book.say(
        f"""Edit distance and BLEU are those of the authors' published code: the predicted route is greedy, the
        likeliest move at every link, {MOST} moves at most, and is compared with every different route that test trips
        of its pair took. Edit distance: the least, over the length of the observed route, at most 1. BLEU: n-grams of
        links up to 4, all these routes as references, 0.1 in place of a count of 0. Exact: the trip's own route.
        Where no link may come twice, the likeliest move is that of most of {GREEDY_DRAWS} exact draws of the pair."""
    )


def _show(
    book: Notebook,
    city: City,
    test: Sequence[Trajectory],
    fits: dict[Any, Result],
    curves: dict[str, list[float]],
    sizes: Sequence[int],
) -> None:
    observed = np.bincount([s for tau in test for s in tau.states], minlength=city.network.n_states).astype(np.float64)
    book.figure(
        draw_flows(city, observed, fits[RICHEST, None].flows),
        "roads_flows",
        "Test trips through each link: observed, predicted from their starts and goals (a weight per transition, no "
        "rule), and one against the other.",
    )
    book.figure(
        draw_curves(sizes, curves),
        "roads_curve",
        "Held-out log-probability per trip against the number of training trips, without rules; the chosen penalty "
        "grows as their number falls.",
    )


def _tables(book: Notebook, results: Sequence[Result], apart: Sequence[Result], features: Result) -> None:
    columns = {"model": "", "rule": "", "log-probability": ".3f", "edit distance": ".3f", "BLEU": ".3f", "exact": ".1%"}
    columns |= {"acceptance": ".2f"}
    book.table(
        "Apart: by knowledge of how the file was made",
        columns,
        [one[:7] for one in apart],
        note="All trips of the data set have at least 15 links, because it was selected so: no property of drivers.",
    )
    book.table(
        "Training times",
        {"model": "", "rule": "", "seconds": ".1f", "of the processor": ".1f"},
        [(one.name, one.rule, one.seconds, one.processor) for one in [*results, *apart]],
        timed=True,
    )
    book.table(
        "The 14 weights",
        {"feature": "", "weight": ".3f", "standard error": ".3f"},
        list(zip(FEATURES, features.weights, features.standard_errors, strict=True)),
    )
    book.table(
        "Held-out trips",
        columns,
        [one[:7] for one in results],
        note="Log-probability in nats per test trip, given its start and goal. Acceptance: of draws without the rule, "
        "the mean over pairs.",
    )
