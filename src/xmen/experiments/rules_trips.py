"""Taxi trips through a road network, as published for route choice research: read, and made into a network.

A folder with `transit.npy` (rows from_link, direction, to_link), `edge.txt` (attributes of links, n_id is the link) and
a table of trips (`ori,des,path,len`, the links of a path joined by underscores).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from xmen.errors import FileFormatError, foreign_errors
from xmen.events import Event, at, doing
from xmen.experiments.roads_data import read_moves, read_rows
from xmen.rewards import Floats
from xmen.worlds import Network, Trajectory

N_DIRECTIONS = 8
U_TURN = 4  # directions are counted from straight ahead, an eighth of a circle each
CLASSES = ("primary", "secondary", "tertiary", "residential")
METRES = 1000.0  # lengths are measured in kilometres


@dataclass(frozen=True)
class Taxis:
    """Links as states, relative directions as actions; features: length, turns, U-turns, and a constant."""

    network: Network
    trips: list[Trajectory]
    events: dict[str, Event]
    features: Floats  # (links, directions, 4)
    feature_names: tuple[str, ...] = ("length (km)", "turn", "U-turn", "link")


def find_taxis(data: Path) -> Path | None:
    """The folder with trips: the one given, or one inside it."""
    return next((one for one in (data, *sorted(data.iterdir())) if (one / "transit.npy").is_file()), None)


def read_taxis(folder: Path, n_trips: int) -> Taxis:
    """The network, and the first trips of the published training set."""
    with foreign_errors(f"{folder} does not hold the Shanghai taxi trips"):
        return _read_taxis(folder, n_trips)


def _read_taxis(folder: Path, n_trips: int) -> Taxis:
    moves = read_moves(folder)
    links = {int(row["n_id"]): row for row in read_rows(folder / "edge.txt")}
    n_links = len(links)
    if sorted(links) != list(range(n_links)) or moves[:, [0, 2]].max() >= n_links:
        raise FileFormatError(f"{folder}: edge.txt has {n_links} links, and transit.npy mentions others")
    network = Network(n_links, N_DIRECTIONS, [(s, a, t, 1.0) for s, a, t in moves.tolist()])
    action = {(s, t): a for s, a, t in moves.tolist()}
    files = sorted(folder.glob("train_CV0_size*.csv"), key=lambda one: one.stat().st_size)
    trips: list[Trajectory] = []
    for row in islice(read_rows(files[-1] if files else folder / "path.csv"), n_trips):
        states = list(map(int, row["path"].split("_")))
        trips.append(Trajectory(states, [action[pair] for pair in pairwise(states)]))
    features = np.zeros((n_links, N_DIRECTIONS, 4))
    features[:, :, 0] = np.array([float(links[i]["length"]) / METRES for i in range(n_links)])[:, None]
    features[:, 1:, 1] = 1.0
    features[:, U_TURN, 2] = 1.0
    features[:, :, 3] = 1.0
    events: dict[str, Event] = {"turn": doing(*range(1, N_DIRECTIONS)), "u_turn": doing(U_TURN)}
    for name in CLASSES:
        members = [i for i in range(n_links) if links[i]["highway"] == name]
        if members:
            events[name] = at(*members)
    return Taxis(network, trips, events, features)
