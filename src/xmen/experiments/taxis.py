"""The Shanghai trips: taxis in a part of the city, published with Zhao and Liang's work on route choice (2022).

How well routes are predicted is measured as its authors do; behaviour cloning is here for comparison.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from scipy.sparse.csgraph import dijkstra

import xmen as xm
from xmen.errors import extra_module, foreign_errors
from xmen.experiments.notebook import Done, Floats
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
                scores = self._scores(states[chosen], goals[chosen])
                torch.nn.functional.cross_entropy(scores, taken[chosen]).backward()
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
