"""The Shanghai trips: taxis in a part of the city, published with Zhao and Liang's work on route choice (2022)."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack

from xmen.errors import FileFormatError, XmenError, foreign_errors
from xmen.files import NUMBERS, read_text, read_whole
from xmen.worlds import Network, Trajectory

TRIPS = ("path", "train_CV0_size1000", "train_CV0_size10000", "test_CV0")
FILES = ("transit.npy", "edge.txt", "node.txt", *(f"{name}.csv" for name in TRIPS))
CLASSES = ("primary", "secondary", "tertiary", "residential", "unclassified")
TURNS = (*(f"direction {k}" for k in (1, 2, 3)), "around", *(f"direction {k}" for k in (5, 6, 7)))
FEATURES = ("length (100 m)", "links", *TURNS, *CLASSES)


@dataclass(frozen=True)
class City:
    """The network with links as states, what is known of each link, and trips by the name of their file."""

    network: Network
    lengths: NDArray[np.float64]  # (n_states,) in units of 100 m
    classes: list[str]
    lines: NDArray[np.float64]  # (n_states, 2, 2)
    folder: Path

    def trips(self, name: str, most: int | None = None) -> list[Trajectory]:
        """The trips of one file, the first `most` of them."""
        return [self.network.along(list(route)) for route in self._routes(name)[:most]]

    def all_training_trips(self) -> list[Trajectory]:
        """All trips that are not among the test trips, in the order of the file; equal trips count one by one."""
        tested = Counter(self._routes("test_CV0"))
        training = []
        for route in self._routes("path"):
            if tested[route] > 0:
                tested[route] -= 1
            else:
                training.append(self.network.along(list(route)))
        return training

    def _routes(self, name: str) -> list[tuple[int, ...]]:
        file = self.folder / f"{name}.csv"
        with foreign_errors(str(file)):
            return [tuple(int(link) for link in row["path"].split("_")) for row in read_rows(file)]

    def features(self, per_link: bool = False, per_transition: bool = False) -> csr_matrix:
        """Length, number and class of the link that is entered, and the turn; and one column per link or transition."""
        network = self.network
        target, n = network.target, len(network.source)
        columns = [self.lengths[target], np.ones(n)]
        columns += [(network.action == action).astype(float) for action in range(1, 8)]
        columns += [np.array([self.classes[link].startswith(kind) for link in target], dtype=float) for kind in CLASSES]
        blocks = [csr_matrix(np.stack(columns, axis=1))]
        if per_link:
            blocks.append(csr_matrix((np.ones(n), (np.arange(n), target)), shape=(n, network.n_states)))
        if per_transition:
            blocks.append(csr_matrix((np.ones(n), (np.arange(n), np.arange(n))), shape=(n, n)))
        rows = network.source.astype(np.int64) * network.n_actions + network.action
        place = csr_matrix((np.ones(n), (rows, np.arange(n))), shape=(network.n_states * network.n_actions, n))
        return csr_matrix(place @ hstack(blocks, format="csr"))


def read_city(folder: Path | None) -> City:
    """The city in a folder, or an error that says what is missing."""
    if folder is None:
        raise XmenError("reproduce roads needs --data FOLDER: the Shanghai taxi trips, with " + ", ".join(FILES) + ".")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise FileFormatError(f"{folder} has no {missing[0]}: the Shanghai taxi trips have {', '.join(FILES)}.")
    with foreign_errors(f"{folder} does not hold the Shanghai taxi trips"):
        return _read_city(folder)


def read_rows(file: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file by the names in its first line."""
    return csv.DictReader(io.StringIO(read_text(file), newline=""))


def read_moves(folder: Path) -> NDArray[np.int64]:
    """The moves (link, direction, next link) between links, shape (n, 3)."""
    moves: NDArray[np.int64] = np.load(io.BytesIO(read_whole(folder / "transit.npy", NUMBERS))).astype(np.int64)
    if moves.ndim != 2 or moves.shape[1] != 3 or not len(moves):
        raise FileFormatError(f"{folder / 'transit.npy'} has shape {moves.shape}: expected moves of shape (n, 3)")
    return moves


def _read_city(folder: Path) -> City:
    moves = read_moves(folder)
    n_links = int(moves[:, [0, 2]].max()) + 1
    places = {row["osmid"]: (float(row["x"]), float(row["y"])) for row in read_rows(folder / "node.txt")}
    lengths, classes, lines = np.zeros(n_links), [""] * n_links, np.zeros((n_links, 2, 2))
    for row in read_rows(folder / "edge.txt"):
        link = int(row["n_id"])
        lengths[link] = float(row["length"]) / 100.0
        classes[link] = row["highway"].strip("[]' ")
        lines[link] = places[row["u"]], places[row["v"]]
    network = Network(n_links, 8, np.column_stack([moves, np.ones(len(moves))]))
    return City(network, lengths, classes, lines, folder)
