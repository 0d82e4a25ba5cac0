"""Paths that avoid forbidden pairs: small rules by the hundred, and where which engine answers.

On an n by n grid with the moves up and right, from corner to corner, some pairs of cells may not both be visited:
incompatible sites, exclusive permits, conflicts of interest. In graphs without cycles it is NP-hard to say whether
such a path exists at all (Gabow, Maheshwari and Osterweil, 1976). Where few paths are left, the truth is a search that
counts them one by one.
"""

import time
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

import xmen as xm
from xmen.compiled import compiled
from xmen.experiments.methods import LOOKS, SOLVER, noticed, timed
from xmen.experiments.notebook import Done, Floats, Notebook

GRIDS = ((10, 150), (14, 300), (18, 600), (22, 800), (24, 900))  # side, pairs
LEARNED = (10, 150), (14, 300)  # quick, full
STEPS = 400_000_000  # of the search that counts, dead ends too: some seconds
N_DRAWN, N_DEMOS = 10, 100
TRUTH = (1.5, -1.0, 1.0, -1.5)  # weights of those who made the demonstrations
ENGINES: dict[str, Any] = {"counted": {}, "exact": {}, "reject": {"time_limit": 60.0}, "xor": {"oracle": SOLVER}}
COLUMNS = {"grid": "", "pairs": ",", "engine": "", "log2 Z": ".3f", "seconds": ".1f", "for 10 draws": ".1f"}


def run(book: Notebook) -> None:
    """Engines side by side on growing grids, and three ways to learn."""
    book.title("Paths that avoid forbidden pairs")
    book.say("""Paths from corner to corner of a grid, by moves up and right, that never visit both cells of any
        forbidden pair. Pairs are drawn uniformly among all cells but the corners; one random path is kept valid.""")
    book.set(oracle=SOLVER)
    rows, small = list[tuple[Any, ...]](), PairsTask(4, 2, book.seed)
    for engine in ENGINES:
        ask(small, engine, print)  # loops are compiled on first use, and are no part of the times
    for side, n_pairs in GRIDS[: book.pick(1, None)]:
        task = PairsTask(side, n_pairs, book.seed)
        for engine in ENGINES:
            answer = book.kept(f"{task}: {engine}", partial(ask, task, engine))
            rows.append((f"{side}x{side}", n_pairs, engine, *answer))
    note = f"""Log2 Z, of the number of valid paths, with its standard error; seconds to it, and for {N_DRAWN} draws
        more: of xor within a factor of 1.18 of their probabilities, except with probability 0.001."""
    book.table("engines side by side", {**COLUMNS, "why not": ""}, rows, note, timed=True)

    (side, n_pairs), exact = book.pick(*LEARNED), xm.EngineSettings("exact", oracle=SOLVER)
    task = PairsTask(side, n_pairs, book.seed)
    reward: Any = {"features": task.features, "seed": book.seed}
    asked_exactly = xm.distribution(task.world, task.rules, task.features @ np.array(TRUTH), engine="exact")
    demos, learned, best = asked_exactly.sample(N_DEMOS, seed=book.seed), list[tuple[Any, ...]](), 0.0
    paper = {"method": xm.Paper(), "max_iter": book.pick(2, 50)}
    ways: dict[str, Any] = {"exact": {"method": "exact"}, "cells-solver": {"method": xm.Cells()}, "paper-solver": paper}
    for name, way in ways.items():
        with book.stage(f"{task}: fit {LOOKS[name].label}"), noticed():
            model, seconds = timed(xm.XMEN(task.world, task.rules, engine=exact, **reward, **way).fit, demos)
        score = model.score(demos)
        best = best if learned else score
        learned.append((LOOKS[name].label, seconds, best - score, model.n_iter_))
    columns = {"method": "", "seconds": ".1f", "nats from the optimum": ".4f", "iterations": ","}
    note = f"""{task} pairs, {N_DEMOS} demonstrations, four features. Nats per demonstration, exact."""
    book.table("learning under forbidden pairs", columns, learned, note, timed=True)


def ask(task: "PairsTask", engine: str, done: Done) -> tuple[Any, ...]:
    """Log2 Z and its error, the seconds to it, the seconds of ten draws, and why there are none."""
    if engine == "counted":
        counted, seconds = timed(task.count)
        return [float(np.log2(counted)), 0.0] if counted else None, seconds, None, "" if counted else "too many"
    began, log2_z, ready = time.perf_counter(), None, None
    try:
        d = xm.distribution(task.world, task.rules, None, engine=engine, seed=task.seed, **ENGINES[engine])
        log2_z = [float(one / np.log(2.0)) for one in d.log_partition(return_std=True)]
        ready = time.perf_counter() - began
        drawn = timed(d.sample, N_DRAWN)[1]
    except xm.XmenError as error:
        return log2_z, ready, None, f"{error}"[:60]
    return log2_z, ready, drawn, ""


@dataclass(frozen=True)
class PairsTask:
    """A grid with forbidden pairs; one random path is kept valid, so that there is something to find."""

    side: int
    n_pairs: int
    seed: int

    def __str__(self) -> str:
        return f"{self.side}x{self.side}, {self.n_pairs}"

    @cached_property
    def world(self) -> xm.GridWorld:
        return xm.GridWorld(self.side, self.side, (0, 0), (self.side - 1, self.side - 1), moves=("up", "right"))

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of cells, uniformly, but for those that would forbid the path that is kept."""
        rng, n = np.random.default_rng([self.seed, self.side, self.n_pairs]), self.side
        kept = set(np.append(0, rng.permutation(np.repeat((n, 1), n - 1)).cumsum()).tolist())
        found = dict[tuple[int, int], None]()
        while len(found) < self.n_pairs:
            a, b = sorted(rng.choice(np.arange(1, n * n - 1), 2, replace=False).tolist())
            if not {a, b} <= kept:
                found[a, b] = None
        return list(found)

    @cached_property
    def rules(self) -> list[xm.Constraint]:
        """Never both, for every pair."""
        return [~(xm.visit(xm.at(a)) & xm.visit(xm.at(b))) for a, b in self.pairs]

    @cached_property
    def features(self) -> Floats:
        """Four: time above the diagonal, time in the middle, moves up on the left half, moves to the right below."""
        (y, x), (up, right), middle = np.divmod(np.arange(self.side**2), self.side), np.eye(2), (self.side - 1) / 2
        inside = np.maximum(abs(x - middle), abs(y - middle)) < self.side / 5
        columns = [(y > x)[:, None] * (up + right), inside[:, None] * (up + right)]
        columns += [(x < middle)[:, None] * up, (y < middle)[:, None] * right]
        return np.stack(columns, axis=2) / self.side

    def count(self) -> int | None:
        """The number of valid paths, one by one, depth first; None where there are too many."""
        partners = [set[int]() for _ in range(self.side**2)]
        for a, b in self.pairs:
            partners[a].add(b)
            partners[b].add(a)
        first = np.cumsum([0, *map(len, partners)])
        found = int(_count(self.side, first, np.array([b for some in partners for b in some], dtype=np.int64), STEPS))
        return None if found < 0 else found


@compiled
def _count(side: int, first: Any, partners: Any, most: int) -> int:
    blocked, path = np.zeros(side * side, np.int64), np.zeros(2 * side, np.int64)
    tried = np.zeros(2 * side, np.int64)
    depth = steps = found = 0
    while depth >= 0:
        cell = path[depth]
        if cell == side * side - 1 or tried[depth] == 2:
            found += cell == side * side - 1
            for i in range(first[cell], first[cell + 1]):
                blocked[partners[i]] -= 1
            depth -= 1
            continue
        tried[depth] += 1
        if tried[depth] == 1:
            following, inside = cell + side, cell < side * (side - 1)
        else:
            following, inside = cell + 1, (cell + 1) % side != 0
        if inside and blocked[following] == 0:
            steps += 1
            if steps > most:
                return -1
            depth += 1
            path[depth], tried[depth] = following, 0
            for i in range(first[following], first[following + 1]):
                blocked[partners[i]] += 1
    return found
