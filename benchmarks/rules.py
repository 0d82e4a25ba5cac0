"""How long a greedy step of rule inference takes: by candidates, world size and horizon, and against one gradient.

    python benchmarks/rules.py --out build/rules.json

The world is a grid with four moves and cycles, the reward is 0, and 100 demonstrations keep a hidden rule. A step is
the exact gain of every candidate that they keep (in the last table, of every candidate); one gradient is a backward and
a forward pass of the exact engine on the same world, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import xmen as xm
from xmen.machines.tables import CompiledConstraint
from xmen.rules.search import Search, Shared, fit_model
from xmen.rules.templates import View, candidates, words
from xmen.worlds import Walks

N_DEMOS = 100


def measure(side: int, horizon: int, n_events: int, n_jobs: int, every: bool = False) -> dict[str, float]:
    """One greedy step on a grid of this size, with as many events of four cells each."""
    seed = 0
    rng = np.random.default_rng(seed)
    world = xm.GridWorld(side, side, start=(0, 0), goal=(side - 1, side - 1), horizon=horizon)
    cells = [world.cell(s) for s in range(world.n_states)]
    events = {f"e{i:02}": world.at(*(cells[k] for k in rng.choice(len(cells), 4, False))) for i in range(n_events)}
    hidden = xm.count(events["e00"]) <= 2
    base = xm.distribution(world, None, None, engine="exact")
    demos = xm.distribution(world, hidden, None, engine="exact").sample(N_DEMOS, seed=seed)

    base.with_reward(None).visits()  # compile
    begun = time.perf_counter()
    base.with_reward(None).visits()
    gradient = time.perf_counter() - begun

    weights = np.full(N_DEMOS, 1.0 / N_DEMOS)
    setting = xm.RuleInference(world, events, np.zeros((world.n_states, world.n_actions, 1)), n_jobs=n_jobs, seed=seed)
    walks = Walks.of(world, demos)
    begun = time.perf_counter()
    tried = candidates(words(events, world), View(walks, weights, 0.0))
    keeps = np.array([CompiledConstraint(one.tabled, world).check(walks) for one in tried])
    checked = time.perf_counter() - begun
    if every:
        keeps[:] = True
    search = Search(setting, [], demos, weights, tried, keeps)
    model = fit_model(setting, [], demos, weights, Shared(world))
    model.keeps(tried[0].tabled)  # compile
    begun = time.perf_counter()
    ranked = search._rank(model, weights > 0)
    step = time.perf_counter() - begun
    return {
        "side": side,
        "horizon": horizon,
        "events": n_events,
        "candidates": len(tried),
        "kept": len(ranked),
        "estimated": sum(not one.kept.exact for one in ranked),
        "check (s)": checked,
        "step (s)": step,
        "per kept candidate (ms)": 1e3 * step / max(1, len(ranked)),
        "one gradient (ms)": 1e3 * gradient,
        "candidate / gradient": step / max(1, len(ranked)) / gradient,
    }


def show(title: str, rows: Sequence[dict[str, float]]) -> None:
    """One aligned table."""
    print(title)
    print("  ".join(f"{name:>10}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>{max(10, len(name))}.4g}" for name, value in row.items()), flush=True)


def main() -> None:
    """Growth with candidates, world size and horizon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/rules.json"))
    options = parser.parse_args()
    runs = {
        "candidates": [measure(10, 30, n, options.jobs) for n in (2, 4, 8)],
        "world size": [measure(side, 40, 4, options.jobs) for side in (5, 10, 20)],
        "horizon": [measure(10, horizon, 4, options.jobs) for horizon in (20, 40, 80)],
        "a step over all candidates": [measure(20, 60, 8, options.jobs, every=True)],
    }
    for title, rows in runs.items():
        show(title, rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
