"""Route choice of taxis in Shanghai: what features, links and transitions explain, and what "no link twice" adds.

The trips were published with Zhao and Liang's work on route choice (2022). All of them have at least 15 links, because
the data set was selected so: that rule is knowledge about the file and not about drivers, and stands apart.
"""

import csv
import io
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix, hstack, identity
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import splu

import xmen as xm
from xmen.errors import extra_module, foreign_errors
from xmen.experiments.notebook import Done, Floats, Notebook
from xmen.files import read_text

Route = tuple[int, ...]
Trips = Sequence[xm.Trajectory]

N_DIRECTIONS = 8  # an eighth of a circle each, from straight ahead
TRIPS = ("path", "train_CV0_size1000", "train_CV0_size10000", "test_CV0")
FILES = ("transit.npy", "edge.txt", "node.txt", *(f"{name}.csv" for name in TRIPS))
CLASSES = ("primary", "secondary", "tertiary", "residential", "unclassified")
TURNS = (*(f"direction {k}" for k in (1, 2, 3)), "around", *(f"direction {k}" for k in (5, 6, 7)))
FEATURES = ("length (100 m)", "links", *TURNS, *CLASSES)
GRAMS, SMOOTHED = 4, 0.1  # of BLEU; the count of n-grams that do not occur, by the first method of Chen and Cherry

WIDTH, HIDDEN, BATCH, RATE = 64, 128, 512, 3e-3
WARMING = 0.1  # of all steps, while the rate rises
DROPPED, FORGOTTEN, SHRINKING = 0.3, 0.2, 1e-2  # of hidden units, of embeddings; weight decay
FARTHEST = 10.0  # median links: a longer detour is as bad as any


@dataclass(frozen=True)
class City:
    """The network with links as states and relative directions as actions, what is known of links, and the trips."""

    network: xm.Network
    lengths: Floats  # (n_states,) in metres
    classes: list[str]
    lines: Floats  # (n_states, 2, 2)
    folder: Path

    def routes(self, name: str) -> list[Route]:
        file = self.folder / f"{name}.csv"
        with foreign_errors(str(file)):
            return [tuple(map(int, row["path"].split("_"))) for row in _rows(file)]

    def trips(self, name: str, most: int | None = None) -> list[xm.Trajectory]:
        """The trips of one file, the first `most` of them."""
        routes = self.routes(name)[:most]
        with foreign_errors(f"{self.folder / name}.csv"):
            return [self.network.along(list(route)) for route in routes]

    def all_training_trips(self) -> list[xm.Trajectory]:
        """All trips that are not among the test trips, in the order of the file; equal trips count one by one."""
        tested, training = Counter(self.routes("test_CV0")), []
        for route in self.routes("path"):
            if tested[route] > 0:
                tested[route] -= 1
            else:
                training.append(self.network.along(list(route)))
        return training

    def features(self, single: str = "") -> csr_matrix:
        """Length, number and class of the link that is entered, the turn; a column per `single` link or transition."""
        network = self.network
        target, n = network.target, len(network.source)
        columns = [self.lengths[target] / 100.0, np.ones(n)]
        columns += [(network.action == action).astype(float) for action in range(1, N_DIRECTIONS)]
        columns += [np.array([self.classes[link].startswith(kind) for link in target], dtype=float) for kind in CLASSES]
        blocks = [csr_matrix(np.stack(columns, axis=1))]
        if single:
            own, size = (target, network.n_states) if single == "link" else (np.arange(n), n)
            blocks.append(csr_matrix((np.ones(n), (np.arange(n), own)), shape=(n, size)))
        rows = network.source.astype(np.int64) * network.n_actions + network.action
        place = csr_matrix((np.ones(n), (rows, np.arange(n))), shape=(network.n_states * network.n_actions, n))
        return csr_matrix(place @ hstack(blocks, format="csr"))

    def graph(self) -> csr_matrix:
        """The length of the link that is entered, in metres, by link and next link."""
        network = self.network
        entering = np.maximum(self.lengths[network.target], 1e-6)  # an entry of 0 would be no edge
        return csr_matrix((entering, (network.source, network.target)), shape=(network.n_states,) * 2)


def _rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_text(file), newline="")))


def read_city(folder: Path | None) -> City:
    """The city in a folder, or an error that says what is missing."""
    if folder is None:
        raise xm.XmenError(f"reproduce roads needs --data FOLDER: the Shanghai taxi trips, with {', '.join(FILES)}.")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise xm.FileFormatError(f"{folder} has no {missing[0]}: the Shanghai taxi trips have {', '.join(FILES)}.")
    with foreign_errors(f"{folder} does not hold the Shanghai taxi trips"):
        moves = np.load(folder / "transit.npy").astype(np.int64)
        if moves.ndim != 2 or moves.shape[1] != 3 or not len(moves):
            shaped = f"has shape {moves.shape}: expected moves of shape (n, 3)"
            raise xm.FileFormatError(f"{folder / 'transit.npy'} {shaped}")
        n_links = int(moves[:, [0, 2]].max()) + 1
        network = xm.Network(n_links, N_DIRECTIONS, np.column_stack([moves, np.ones(len(moves))]))
        links = sorted(_rows(folder / "edge.txt"), key=lambda row: int(row["n_id"]))
        if [int(row["n_id"]) for row in links] != list(range(n_links)):
            raise xm.FileFormatError(f"{folder}: edge.txt has {len(links)} links, and transit.npy has {n_links}")
        places = {row["osmid"]: (float(row["x"]), float(row["y"])) for row in _rows(folder / "node.txt")}
        lines = np.array([(places[row["u"]], places[row["v"]]) for row in links])
        classes = [row["highway"].strip("[]' ") for row in links]
        return City(network, np.array([float(row["length"]) for row in links]), classes, lines, folder)


def score_routes(observed: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """Means over trips of one predicted route each: edit distance, BLEU, and the share that was predicted exactly.

    A route is compared with every different route that trips of its pair have taken: the least edit distance over the
    length of the observed route, at most 1, and BLEU with all of them as references.
    """
    trips = [(tuple(a), tuple(b)) for a, b in zip(observed, predicted, strict=True)]
    taken: dict[Route, dict[Route, None]] = {}
    for route, _ in trips:
        taken.setdefault((route[0], route[-1]), {})[route] = None
    compared: dict[tuple[Route, Route], tuple[float, float, bool]] = {}
    for route, guess in set(trips):
        others = list(taken[route[0], route[-1]])
        nearest = min(1.0, *(edit_distance(other, guess) / len(other) for other in others))
        compared[route, guess] = nearest, bleu(others, guess), route == guess
    distance, blue, exact = np.mean([compared[trip] for trip in trips], axis=0)
    return float(distance), float(blue), float(exact)


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """The least number of insertions, deletions and substitutions."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        corner, row[0] = row[0], i
        for j, b in enumerate(other, start=1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]


def bleu(references: Sequence[Sequence[int]], candidate: Sequence[int]) -> float:
    """BLEU of one candidate against some references, with n-grams up to 4, smoothed."""
    if set(candidate).isdisjoint(chain(*references)):
        return 0.0
    logs = []
    for n in range(1, GRAMS + 1):
        grams, *others = (Counter(zip(*(one[i:] for i in range(n)), strict=False)) for one in (candidate, *references))
        logs.append(np.log(((grams & reduce(or_, others)).total() or SMOOTHED) / max(1, grams.total())))
    length = len(candidate)
    nearest = min((abs(len(reference) - length), len(reference)) for reference in references)[1]
    return float(np.exp(min(0.0, 1.0 - nearest / length) + np.mean(logs)))


class Cloning:
    """log pi(move | link, goal), trained on every step of every trip.

    pi is the soft-max of a score of every move from a link, by what it enters and where the goal is: the 14 features,
    how much nearer the goal is by the shortest way and how much of it is left (which Zhao and Liang's policies see
    too), the places of both and the direction between them, an embedding of each; and a weight per transition.
    """

    def __init__(self, city: City, seed: int) -> None:
        torch: Any = extra_module("torch", "the behaviour-cloning baseline", "neural")
        network, n_links = city.network, city.network.n_states
        self._torch, self._rng = torch, np.random.default_rng(seed)
        torch.manual_seed(seed)
        moves, self._slot = leaving(network)
        self._moves, self._none = torch.from_numpy(np.maximum(moves, 0)), torch.from_numpy(moves < 0)
        self._target = torch.from_numpy(network.target.astype(np.int64))
        rows = network.source.astype(np.int64) * network.n_actions + network.action
        left = np.minimum(dijkstra(city.graph()) / (float(np.median(city.lengths)) or 1.0), FARTHEST**2)  # median links
        middle = city.lines.mean(axis=1)
        centre, spread = middle.mean(axis=0), float(middle.std())
        numbers = (city.features()[rows].toarray(), left, *((p - centre) / spread for p in (middle, city.lines[:, 1])))
        self._known, self._left, self._middle, self._end = (torch.from_numpy(n.astype(np.float32)) for n in numbers)
        self._heading = torch.nn.functional.normalize(self._end - self._middle, dim=1)
        self._links, self._goals = torch.nn.Embedding(n_links, WIDTH), torch.nn.Embedding(n_links, WIDTH)
        self._own = torch.nn.Embedding(len(network.source), 1)
        torch.nn.init.zeros_(self._own.weight)
        self._forget = torch.nn.Dropout(FORGOTTEN)
        layers: list[Any] = []
        for size in (2 * WIDTH + self._known.shape[1] + 10, HIDDEN):
            layers += [torch.nn.Linear(size, HIDDEN), torch.nn.ReLU(), torch.nn.Dropout(DROPPED)]
        self._layers = torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN, 1))
        self._modules = torch.nn.ModuleList([self._links, self._goals, self._own, self._forget, self._layers])

    def fit(self, demos: Trips, validation: Trips, epochs: int, done: Done = lambda share: None) -> "Cloning":
        """Adam with a rate that rises and falls; keeps the epoch that predicts the validation trips best."""
        torch = self._torch
        optimiser = torch.optim.AdamW(self._modules.parameters(), lr=RATE, weight_decay=SHRINKING)
        states, goals, taken = self._steps(demos)
        n_batches = max(1, len(states) // BATCH)
        n_steps = epochs * n_batches + 1
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=n_steps, pct_start=WARMING)
        best, kept = -np.inf, self._modules.state_dict()
        for epoch in range(epochs):
            self._modules.train()
            for rows in np.array_split(self._rng.permutation(len(states)), n_batches):
                chosen = torch.from_numpy(rows)
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(self._scores(states[chosen], goals[chosen]), taken[chosen]).backward()
                optimiser.step()
                schedule.step()
            score = self.score(validation)
            if score > best:
                best, kept = score, {name: value.clone() for name, value in self._modules.state_dict().items()}
            done((epoch + 1) / epochs)
        self._modules.load_state_dict(kept)
        return self

    def _scores(self, states: Any, goals: Any) -> Any:
        """The score of each move from some links towards as many goals, (n, moves)."""
        moves = self._moves[states]
        entered, goal = self._target[moves], goals[:, None].expand(moves.shape)
        left = self._left[entered, goal]
        nearer = (self._left[states, goals][:, None] - left).clamp(-FARTHEST, FARTHEST)
        ahead = self._middle[goal] - self._end[entered]
        far = ahead.norm(dim=2, keepdim=True)
        towards = ahead / far.clamp(min=1e-6)
        seen = [nearer[..., None], left[..., None] / FARTHEST, self._known[moves], self._end[entered]]
        seen += [self._middle[goal], towards, far, (self._heading[entered] * towards).sum(dim=2, keepdim=True)]
        seen += [self._forget(self._links(entered)), self._forget(self._goals(goal))]
        scores = (self._layers(self._torch.cat(seen, dim=2)) + self._own(moves))[..., 0]
        return scores.masked_fill(self._none[states], -1e9)

    def _steps(self, demos: Trips) -> tuple[Any, Any, Any]:
        """The link, the goal and the move taken, as a number among those of its link, of every step of every trip."""
        states = np.array([s for tau in demos for s in tau.states[:-1]], dtype=np.int64)
        goals = np.array([tau.states[-1] for tau in demos for _ in tau.actions], dtype=np.int64)
        taken = self._slot[states, [a for tau in demos for a in tau.actions]]
        return tuple(map(self._torch.from_numpy, (states, goals, taken)))

    def score(self, demos: Trips) -> float:
        """The mean over trips of log P(tau | start, goal), the sum of log pi."""
        self._modules.eval()
        states, goals, taken = self._steps(demos)
        with self._torch.no_grad():
            logs = self._torch.log_softmax(self._scores(states, goals), dim=1)[np.arange(len(taken)), taken]
        return float(logs.numpy().astype(np.float64).sum() / len(demos))

    def after(self, goal: int) -> list[int]:
        """The likeliest next link from each link towards a goal."""
        links = self._torch.arange(len(self._moves))
        self._modules.eval()
        with self._torch.no_grad():
            best = self._scores(links, self._torch.full_like(links, goal)).argmax(dim=1)
        return list(self._target[self._moves[links, best]].tolist())


def leaving(network: xm.Network) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The transitions from each link (n_states, most of a link), -1 where there are no more; the place of each action
    among them (n_states, n_actions)."""
    source, edges = network.source, np.arange(len(network.source))  # sorted by source
    place = edges - np.searchsorted(source, source)
    moves = np.full((network.n_states, place.max() + 1), -1)
    slot = np.zeros((network.n_states, network.n_actions), dtype=np.int64)
    moves[source, place], slot[source, network.action] = edges, place
    return moves, slot


# ---- What is learned from the trips

MOST = 50  # moves of a predicted route, as the authors have it; the longest trip has 48
LEAST = 15  # links of a trip, because of how the file was made
TWICE = xm.no_revisit().named("no link twice")
LONG = (xm.length() >= LEAST).named(f"at least {LEAST} links")
PLAIN, PER_LINK, RICHEST = "14 features", "and a weight per link", "and a weight per transition"
KINDS = {PLAIN: "", PER_LINK: "link", RICHEST: "transition"}
SMALL = 1e-6  # penalty of the 14 features, which hold by themselves
PENALTIES = (3e-3, 1e-3, 3e-4, 1e-4, 3e-5)  # of single weights, strong first: a fit begins where the stronger one ended
FOLDS = 3
TOL, COARSE = 1e-4, 1e-3  # per component of the gradient: of a fit, and of one that only compares penalties
NEAR = 0.005  # nats to the optimum, where draws have to say how near it is
MAX_ITER = 1000
GREEDY_DRAWS = 500  # of every pair, where a rule rejects
SIZES = (30, 100, 300, 1000, 3000, 10_000)


def clock() -> Floats:
    """Seconds, on the clock and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


class Result(NamedTuple):
    """One row of the tables, with what the figures need of it; seconds are those of training."""

    name: str
    rule: str
    log_probability: float
    edit_distance: float
    bleu: float
    exact: float
    acceptance: float
    seconds: float
    processor: float
    flows: Sequence[float] = ()


def run(book: Notebook) -> None:
    """`xmen reproduce roads --data FOLDER`: every long stage is kept once it is finished."""
    city = read_city(book.data)
    train = city.trips(f"train_CV0_size{book.pick(1000, 10_000)}")
    study = Study(city, train, city.trips("test_CV0", book.pick(400, None)), book.seed)
    book.title("Route choice of taxis in Shanghai")
    book.set(training_trips=len(train), test_trips=len(study.test), links=city.network.n_states)
    book.say(f"""{len(train):,} training trips and {len(study.test):,} test trips of the authors' first split, over
        {city.network.n_states} links and {len(city.network.source):,} transitions. The likelihood is that of each trip
        given its start and its goal, over trips of any length. Penalties of single weights are chosen by {FOLDS}-fold
        cross-validation inside the training trips, without rules; nothing is chosen on the test trips.""")
    book.say(f"""Edit distance and BLEU are those of the authors' published code: the predicted route is greedy, the
        likeliest move at every link, {MOST} moves at most, and is compared with every different route that test trips
        of its pair took. Exact: the trip's own route. Where no link may come twice, the likeliest move is that of most
        of {GREEDY_DRAWS} exact draws of the pair.""")
    penalties = {PLAIN: SMALL}
    for name in (PER_LINK, RICHEST):
        penalties[name] = book.kept(f"penalty: {name}", partial(study.choose_penalty, name))
        book.set(**{f"l2, {name}": penalties[name]})

    def fit(name: str, rule: xm.Constraint | None, penalty: float, trips: Sequence[Any], more: str = "") -> Result:
        label = ", ".join(text for text in (name, "" if rule is None else rule.label, more) if text)
        found = Result(*book.kept(label, partial(study.fit, name, rule, penalty, trips)))
        return found._replace(name=f"{name}, {more}" if more else name)

    fits = {(name, rule): fit(name, rule, penalties[name], train) for name in KINDS for rule in (None, TWICE)}
    apart = [fit(name, LONG, penalties[name], train) for name in KINDS]
    results = list(fits.values())
    if not book.quick:
        every = city.all_training_trips()
        less, more = penalties[RICHEST] * len(train) / len(every), f"all {len(every):,} training trips"
        results += [fit(RICHEST, rule, less, every, more) for rule in (None, TWICE)]
    results += [Result(*book.kept("behaviour cloning", partial(study.clone, book.pick(3, 8)))), study.shortest()]
    sizes = [n for n in SIZES if n <= len(train)]
    draw_flows(book, study, np.array(fits[RICHEST, None].flows))
    figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name in KINDS:
        curve = partial(study.curve, name, penalties[name], sizes)
        ax.plot(sizes, book.kept(f"learning curve: {name}", curve), "o-", label=name)
    ax.set(xscale="log", xlabel="training trips", ylabel="log-probability per test trip")
    ax.legend()
    caption = "Held-out log-probability per trip by the number of training trips; the penalty grows as that falls."
    book.figure(figure, "roads_curve", caption)
    columns = {"model": "", "rule": "", "log-probability": ".3f", "edit distance": ".3f", "BLEU": ".3f", "exact": ".1%"}
    columns |= {"acceptance": ".2f"}
    note = "All trips of the data set have at least 15 links, because it was selected so: no property of drivers."
    book.table("Apart: by knowledge of how the file was made", columns, [one[:7] for one in apart], note)
    times = [(one.name, one.rule, one.seconds, one.processor) for one in [*results, *apart]]
    timed = {"model": "", "rule": "", "seconds": ".1f", "of the processor": ".1f"}
    book.table("Training times", timed, times, timed=True)
    note = """Log-probability in nats per test trip, given its start and goal. Acceptance: of draws without the rule,
        the mean over pairs."""
    book.table("Held-out trips", columns, [one[:7] for one in results], note)


@dataclass(frozen=True)
class Study:
    """The stages of the experiment; `test` is only ever scored on."""

    city: City
    train: list[xm.Trajectory]
    test: list[xm.Trajectory]
    seed: int

    def choose_penalty(self, name: str, done: Done) -> float:
        """The penalty of single weights that predicts trips best that were left out of the training trips."""
        features, train = self.city.features(KINDS[name]), self.train
        models = [xm.XMEN(self.city.network, features=features, tol=COARSE, warm_start=True) for _ in range(FOLDS)]
        scores: dict[float, float] = {}
        for value in PENALTIES:
            penalty = penalties_of(features, value * FOLDS / (FOLDS - 1))  # fewer trips need more to shrink as much
            scores[value] = 0.0
            for k, model in enumerate(models):
                model.set_params(l2=penalty).fit([tau for i, tau in enumerate(train) if i % FOLDS != k])
                scores[value] += model.score(train[k::FOLDS]) * len(train[k::FOLDS]) / len(train)
            done(len(scores) / len(PENALTIES))
            if scores[value] < max(scores.values()):
                break
        return max(scores, key=lambda value: scores[value])

    def fit(self, name: str, rule: Any, penalty: float, trips: Sequence[xm.Trajectory], done: Done) -> Result:
        """A model of trips, and what it says of the test trips."""
        features, began = self.city.features(KINDS[name]), clock()
        settings: Any = {"l2": penalties_of(features, penalty), "tol": NEAR if rule is TWICE else TOL}
        settings |= {"seed": self.seed, "callback": lambda record: done(record.iteration / MAX_ITER)}
        model = xm.XMEN(self.city.network, rule, features, **settings).fit(trips)
        (seconds, processor), accepted = clock() - began, getattr(model, "acceptance_", None)
        ends = [(tau.states[0], tau.states[-1], 1.0) for tau in self.test]
        routes = self.score(greedy_routes(self.city.network, model.reward_.table(), rule, ends, self.seed))
        acceptance = 1.0 if accepted is None else float(accepted[:, 2].mean())
        flows = model.flows(ends).states.tolist() if rule is None else []
        label = "" if rule is None else rule.label
        return Result(name, label, model.score(self.test), *routes, acceptance, seconds, processor, flows)

    def score(self, routes: Sequence[Sequence[int]]) -> tuple[float, float, float]:
        return score_routes([tau.states for tau in self.test], routes)

    def clone(self, epochs: int, done: Done) -> Result:
        """Behaviour cloning; a twentieth of the training trips chooses the epoch."""
        began, held = clock(), max(1, len(self.train) // 20)
        cloning = Cloning(self.city, self.seed).fit(self.train[held:], self.train[:held], epochs, done)
        times, after = clock() - began, {goal: [cloning.after(goal)] for goal in {tau.states[-1] for tau in self.test}}
        routes = [follow(after[tau.states[-1]], tau.states[0], tau.states[-1]) for tau in self.test]
        return Result("behaviour cloning", "", cloning.score(self.test), *self.score(routes), 1.0, *times)

    def shortest(self) -> Result:
        """The shortest way by length, which has no probability."""
        began, routes = clock(), []
        before = dijkstra(self.city.graph(), return_predecessors=True)[1]
        for tau in self.test:
            route = [tau.states[-1]]
            while route[-1] != tau.states[0]:
                route.append(int(before[tau.states[0], route[-1]]))
            routes.append(route[::-1])
        return Result("shortest path", "", np.nan, *self.score(routes), np.nan, *(clock() - began))

    def curve(self, name: str, penalty: float, sizes: Sequence[int], done: Done) -> list[float]:
        features, scores = self.city.features(KINDS[name]), list[float]()
        for n in sizes:
            l2 = penalties_of(features, penalty * len(self.train) / n)
            model = xm.XMEN(self.city.network, features=features, l2=l2, tol=TOL).fit(self.train[:n])
            scores.append(model.score(self.test))
            done(len(scores) / len(sizes))
        return scores


def penalties_of(features: csr_matrix, value: float) -> Floats:
    """The small penalty of the 14 features, and this one of single weights."""
    return np.concatenate([np.full(len(FEATURES), SMALL), np.full(features.shape[1] - len(FEATURES), value)])


def greedy_routes(network: xm.Network, reward: Floats, rule: Any, ends: Sequence[Any], seed: int) -> list[list[int]]:
    """The greedy route from each start to each goal: the likeliest move at every link under the rule, MOST at most.

    The weight of all ways from a link to the goal is z = W z with z = 1 at the goal, W the weights of single moves.
    With "at least 15 links" this holds from the 15th link on, and before it the goal is worth nothing.
    """
    n, rng, moves = network.n_states, np.random.default_rng(seed), leaving(network)[0]
    weight = network.probability * np.exp(reward[network.source, network.action])
    w = csr_matrix((weight, (network.source, network.target)), shape=(n, n))
    solve = splu(csc_matrix(identity(n) - w)).solve
    steps, targets = np.where(moves >= 0, weight[moves], 0.0), network.target[moves]
    routes: dict[tuple[int, int], list[int]] = {}
    for goal in sorted({goal for _, goal, *_ in ends}):
        starts = sorted({start for start, end, *_ in ends if end == goal})
        z = solve(np.eye(n)[goal])
        worth = [np.maximum(z / z[goal], 0.0)]
        for _ in range(LEAST - 1 if rule is LONG else 0):
            worth.insert(0, w @ worth[0])
            worth[0][goal] = 0.0
        values = [steps * one[targets] for one in worth]  # of each move from each link, by the place of the next link
        if rule is TWICE:
            drawn = draw_routes(values[0], targets, starts, goal, rng)
            routes |= {(start, goal): most_taken(walks, goal) for start, walks in drawn.items()}
        else:
            after = [targets[np.arange(n), one.argmax(axis=1)] for one in values]
            routes |= {(start, goal): follow(after, start, goal) for start in starts}
    return [routes[start, goal] for start, goal, *_ in ends]


def follow(after: Sequence[Sequence[int]], start: int, goal: int) -> list[int]:
    """The route by the next link of each; `after` has a list for each place in a route, the last for the rest."""
    route = [start]
    while route[-1] != goal and len(route) <= MOST:
        route.append(int(after[min(len(route), len(after) - 1)][route[-1]]))
    return route


def draw_routes(values: Floats, targets: Any, starts: Sequence[int], goal: int, rng: Any) -> dict[int, Any]:
    """Walks to the goal by start that pass no link twice, (n, L) with the goal repeated at the end: exact draws."""
    shares = np.cumsum(values, axis=1) / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)
    walks = np.repeat(starts, GREEDY_DRAWS)[:, None]
    while (under_way := walks[:, -1] != goal).any():
        here = walks[under_way, -1]
        chosen = (rng.random((len(here), 1)) >= shares[here]).sum(axis=1)
        entered = np.full(len(walks), goal)
        entered[under_way] = targets[here, np.minimum(chosen, targets.shape[1] - 1)]
        fresh = ~under_way | (walks != entered[:, None]).all(axis=1)
        walks = np.column_stack([walks, entered])[fresh]
    return {start: walks[walks[:, 0] == start] for start in starts}


def most_taken(walks: Any, goal: int) -> list[int]:
    """At every link what most walks do that have come the same way."""
    route = walks[0, :1].tolist() if len(walks) else []
    while len(walks) and route[-1] != goal and len(route) <= MOST:
        taken = walks[:, len(route)]
        route.append(int(np.bincount(taken).argmax()))
        walks = walks[taken == route[-1]]
    return route


def draw_flows(book: Notebook, study: Study, expected: Floats) -> None:
    lines = study.city.lines
    observed = np.bincount([s for tau in study.test for s in tau.states], minlength=len(lines)).astype(np.float64)
    used = lines[observed + expected > 0].reshape(-1, 2)  # a few links lie far away, and nobody goes there
    margin = 0.03 * np.ptp(used, axis=0)
    (left, low), (right, high) = used.min(axis=0) - margin, used.max(axis=0) + margin
    figure, axes = plt.subplots(1, 3, figsize=(17, 5), layout="constrained", width_ratios=[1, 1, 0.8])
    for ax, flows, title in ((axes[0], observed, "observed"), (axes[1], expected, "predicted")):
        xm.plot_network(lines, flows, ax=ax, label="test trips")
        ax.set(title=title, xlim=(left, right), ylim=(low, high))
    axes[2].plot(observed, expected, ".", markersize=4, color="#0072b2")
    most = max(observed.max(), expected.max())
    axes[2].plot([0, most], [0, most], color="#999999", linewidth=1)
    axes[2].set(xlabel="observed test trips on a link", ylabel="predicted")
    axes[2].set_title(f"correlation {np.corrcoef(observed, expected)[0, 1]:.3f}")
    caption = "Test trips through each link: observed, predicted (a weight per transition), one against the other."
    book.figure(figure, "roads_flows", caption)
