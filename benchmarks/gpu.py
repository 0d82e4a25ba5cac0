"""The exact engine on a GPU, as ratios against something measured in the same run, and growth to 10^9 edges.

    python benchmarks/gpu.py [--device cuda] [--largest 15] [--out results/gpu.json]
                             [--parts gradient batch training samples policy tasks growth]

Times are wall time with the device's work finished, the shortest of a few runs; everything is printed as it goes.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_worlds import EIGHT_MOVES, generated, streets

import xmen as xm
from xmen.constraints.constraint import conjunction
from xmen.engines.exact import ExactDistribution
from xmen.engines.trips import TripEngine
from xmen.policies.behaviour import Aim, Behaviour, make_game
from xmen.product.device.run import OnDevice
from xmen.worlds.walks import EdgeWeights

HORIZON = 120
Results = dict[str, Any]


def say(text: str) -> None:
    print(text, flush=True)


def timed(function: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest of a few runs, with what they started on the device."""
    times = []
    for _ in range(repeats):
        finish()
        began = time.perf_counter()
        function()
        finish()
        times.append(time.perf_counter() - began)
    return min(times)


def finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def must_visit(device: str | None, **choices: Any) -> ExactDistribution:
    """20x20, eight moves, horizon 120, ten must-visit cells."""
    grid = xm.GridWorld(20, 20, (0, 0), (19, 19), moves=EIGHT_MOVES, horizon=HORIZON)
    cells = np.random.default_rng(0).choice(np.arange(1, grid.n_states - 1), 10, replace=False)
    return xm.distribution(grid, [xm.visit(xm.at(int(c))) for c in cells], None, device=device, **choices)


def a_reward(world: xm.MDP, seed: int = 1) -> np.ndarray:
    return -1 - np.random.default_rng(seed).random((world.n_states, world.n_actions))


def csr_products(d: ExactDistribution) -> tuple[float, float]:
    """Seconds of the 2 L products of plain forward-backward on the same matrix: launched one by one, and recorded."""
    graph = d.place.graph
    ones = torch.ones(graph.n_edges, dtype=torch.float64, device=graph.device)
    shape = (graph.n_nodes, graph.n_nodes)
    both = [
        torch.sparse_csr_tensor(rows.indptr, rows.other, ones, size=shape) for rows in (graph.leaving, graph.entering)
    ]
    vector = torch.rand(graph.n_nodes, dtype=torch.float64, device=graph.device)

    def run() -> None:
        for matrix in both:
            for _ in range(HORIZON):
                matrix @ vector

    eager = timed(run)
    try:
        recording = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recording):
            run()
        return eager, timed(recording.replay)
    except RuntimeError as error:
        say(f"  (products cannot be recorded: {str(error).splitlines()[0]})")
        return eager, eager


def gradient(device: str) -> Results:
    host, d = must_visit(None), must_visit(device)
    reward = a_reward(d.world)
    expected = host.with_reward(reward)
    found = d.with_reward(reward)
    error = (
        abs(found.log_partition() - expected.log_partition()),
        float(np.abs(found.visits() - expected.visits()).max()),
    )
    del found
    first = timed(lambda: d.with_reward(reward).visits(), 1)
    ours = timed(lambda: d.with_reward(reward).visits(), 10)
    table = torch.as_tensor(reward, device=device)
    step = d.place.gradient(d.weights)
    inner = timed(lambda: step(table), 10)
    backward = timed(lambda: d.with_reward(reward).log_partition(), 10)
    eager, recorded = csr_products(d)
    theirs = timed(lambda: host.with_reward(reward).visits(), 3)
    single = must_visit(device, precision="float32")
    single.with_reward(reward).visits()
    single_time = timed(lambda: single.with_reward(reward).visits(), 10)
    say(f"gradient, {d.product.n_nodes:,} nodes, {d.product.n_edges:,} edges, horizon {HORIZON}")
    say(f"  log Z differs from the compiled loops by {error[0]:.1e}, visits by {error[1]:.1e}")
    say(f"  with_reward(r).visits(): {1e3 * ours:.2f} ms (while kernels are recorded {1e3 * first:.0f} ms)")
    say(f"    of it log Z {1e3 * backward:.2f} ms; from and to tensors on the device {1e3 * inner:.2f} ms")
    say(f"  2 L CSR products: {1e3 * eager:.2f} ms, recorded {1e3 * recorded:.2f} ms")
    say(f"  gradient / products: {ours / eager:.2f}, against recorded ones {ours / recorded:.2f} (wanted: at most 1.5)")
    say(f"  compiled loops on one core here: {1e3 * theirs:.0f} ms, {theirs / ours:.0f} times longer (wanted: 40)")
    say(f"  float32: {1e3 * single_time:.2f} ms; {single.place.describe()}")
    return {
        "gradient_s": ours,
        "tensors_s": inner,
        "backward_s": backward,
        "products_s": eager,
        "recorded_products_s": recorded,
        "host_s": theirs,
        "float32_s": single_time,
        "error": error,
    }


def batch(device: str) -> Results:
    d = must_visit(device)
    results: Results = {}
    for n in (1, 2, 4, 8, 16):
        rewards = [a_reward(d.world, seed) for seed in range(n)]

        def all_visits(rewards: list[np.ndarray] = rewards) -> None:
            for one in d.with_rewards(rewards):
                one.visits()

        all_visits()
        all_visits()
        results[str(n)] = timed(all_visits)
        say(f"batch of {n:2d} rewards: {1e3 * results[str(n)]:.2f} ms, {results[str(n)] / results['1']:.2f} times one")
    say("  (wanted: 16 at most 8 times one)")
    features = np.random.default_rng(2).normal(0, 0.3, (d.world.n_states, d.world.n_actions, 6))
    demos = d.with_reward(a_reward(d.world)).sample(200, seed=0)
    model = xm.XMEN(d.world, d.constraint, features, l2=1e-3, device=device)
    results["fit"] = timed(lambda: model.fit(demos), 1)
    results["bootstrap"] = timed(lambda: model.bootstrap(32, seed=0), 1)
    say(
        f"a fit of 6 weights: {results['fit']:.2f} s, {model.n_iter_} iterations, with the product; 32 resamples of "
        f"its 200 demonstrations in the same passes: {results['bootstrap']:.2f} s, with the product"
    )
    return results


def training(device: str) -> Results:
    """100 steps of a convolutional reward on 50x50 with five rules."""
    grid = xm.GridWorld(50, 50, (0, 0), (49, 49), moves=EIGHT_MOVES, horizon=120)
    rules = [
        xm.visit(grid.at((10, 30))).named("one place"),
        xm.visit(grid.at((30, 12))).named("another"),
        xm.before(grid.at((10, 30)), grid.at((40, 40))).named("in order"),
        xm.never(grid.at(*[(x, 25) for x in range(5, 45, 2)])).named("a fence"),
        (xm.count(grid.at((20, 20), (21, 21), (22, 22))) <= 2).named("seldom"),
    ]
    rng = np.random.default_rng(0)
    maps = rng.random((3, 50, 50))
    hidden = -1.0 - maps[0].T.reshape(-1)[:, None] - 0.3 * rng.random(8)
    demos = xm.distribution(grid, rules, hidden, seed=0).sample(200)
    results: Results = {}
    for again in (False, True):
        reward = xm.ConvReward(grid, maps, seed=0, device=device)
        times: list[float] = []
        began = time.perf_counter()
        history = xm.fit_neural(
            grid,
            rules,
            reward,
            demos,
            n_steps=100,
            device=device,
            seed=0,
            callback=lambda record, times=times: times.append(time.perf_counter()),  # type: ignore[misc]
        )
        whole = time.perf_counter() - began
        steps = times[-1] - times[0]
        results["again" if again else "first"] = {"whole_s": whole, "steps_99_s": steps}
        say(
            f"training, 100 steps{', once more' if again else ''}: {steps:.2f} s from the end of the first to the last "
            f"(wanted: under 1 s), {whole:.2f} s with the product; loss {history[0].loss:.2f} to {history[-1].loss:.2f}"
        )
    return results


def samples(device: str) -> Results:
    results: Results = {}
    small = xm.GridWorld(9, 9, (0, 0), (8, 8), moves=("up", "right", "up-right"))
    rules = [
        xm.first(small.at((2, 3)), among=small.at((3, 2))),
        xm.never(small.at((4, 5))),
        xm.exactly(1, xm.visit(small.at((5, 5), (6, 4))), xm.visit(small.at((4, 6)))),
        xm.longest_repeat() <= 3,
    ]
    cases = {
        "9x9, four rules": xm.distribution(small, rules, None, device=device),
        "20x20, ten cells": must_visit(device),
    }
    for name, d in cases.items():
        fitted = d.with_reward(a_reward(d.world))
        fitted.log_partition()
        n = 1_000_000
        fitted.draw(1000, np.random.default_rng(0))

        walks = timed(lambda fitted=fitted, n=n: fitted.draw(n, np.random.default_rng(0)), 2)  # type: ignore[misc]
        both = timed(lambda fitted=fitted, n=n: fitted.checked(n, np.random.default_rng(0)), 2)  # type: ignore[misc]
        objects = timed(lambda fitted=fitted: fitted.sample(100_000, seed=0), 2)  # type: ignore[misc]
        results[name] = {"drawn_per_s": n / walks, "checked_per_s": n / both, "trajectories_per_s": 1e5 / objects}
        say(
            f"samples, {name}: {n / walks:,.0f} walks/s, {n / both:,.0f} checked walks/s (wanted: 1,000,000), "
            f"{1e5 / objects:,.0f} checked Trajectory objects/s"
        )
    return results


def policy(device: str) -> Results:
    """One gradient of the causal likelihood: a policy backwards, and what comes of it forwards."""
    grid = xm.GridWorld(20, 20, (0, 0), (19, 19), horizon=80, slip=0.1)
    cells = np.random.default_rng(0).choice(np.arange(1, grid.n_states - 1), 10, replace=False)
    rule = conjunction([xm.visit(xm.at(int(c))) for c in cells])
    table, results = a_reward(grid), Results()
    games = {"host": make_game(grid, rule), "device": make_game(grid, rule, device=device)}
    starts = games["host"].start_probability
    n_edges, n_choices = len(games["host"].probability), games["host"].n_choices
    say(f"policies, {n_choices:,} choices with {n_edges:,} outcomes, horizon 80")
    for aim in ("sure", "best", 2.0):
        kind, visits = aim if isinstance(aim, str) else "bonus", {}

        def gradient(where: str, aim: Aim = aim, visits: dict[str, np.ndarray] = visits) -> None:
            visits[where] = Behaviour(games[where], table, 1.0, aim).visits(starts)

        gradient("device")
        times = {"device": timed(lambda: gradient("device"), 5), "host": timed(lambda: gradient("host"), 1)}
        results[kind] = times
        say(
            f"  {kind}: gradient {1e3 * times['device']:.1f} ms, by compiled loops {1e3 * times['host']:.0f} ms, "
            f"{times['host'] / times['device']:.0f} times longer; visits differ by "
            f"{np.abs(visits['device'] - visits['host']).max():.1e}"
        )
    return results


def tasks(device: str) -> Results:
    """Trips to 64 goals: with a horizon side by side, without one by the factorisation on the host."""
    rng, results = np.random.default_rng(0), Results()
    network = streets(30, 90)
    starts, goals = rng.integers(0, network.n_states, 256), rng.choice(network.n_states, 64)[np.arange(256) % 64]
    reward = -1.5 - rng.random((network.n_states, 4))[network.source, network.action]
    engines = [TripEngine(network, None, starts, goals, np.ones(256), 10**6, device=where) for where in (None, device)]
    found = [engine.value(reward) for engine in engines]
    host, ours = timed(lambda: engines[0].value(reward), 1), timed(lambda: engines[1].value(reward))
    error = np.abs(found[0].log_z - found[1].log_z).max(), np.abs(found[0].visits - found[1].visits).max()
    results["horizon"] = {"host_s": host, "device_s": ours, "error": error}
    say(
        f"256 trips to 64 goals, {network.n_states} crossings, horizon 90: gradient {1e3 * ours:.1f} ms in one pass, "
        f"{1e3 * host:.0f} ms goal by goal on the host; log Z differs by {error[0]:.1e}, visits by {error[1]:.1e}"
    )
    for side in (30, 60, 100):
        network = streets(side, None)
        starts, goals = rng.integers(0, network.n_states, (2, 256))
        reward = np.full(len(network.source), -2.0)
        engine = TripEngine(network, None, starts, goals[np.arange(256) % 64], np.ones(256), 10**6)
        engine.value(reward)
        sparse = timed(lambda engine=engine, reward=reward: engine.value(reward), 3)  # type: ignore[misc]
        system = torch.eye(network.n_states, dtype=torch.float64, device=device)
        system[torch.as_tensor(network.source.astype(np.int64)), torch.as_tensor(network.target.astype(np.int64))] -= (
            float(np.exp(-2.0))
        )
        columns = torch.zeros((network.n_states, 64), dtype=torch.float64, device=device)
        columns[torch.as_tensor(goals[:64]), torch.arange(64)] = 1.0

        def solve(system: torch.Tensor = system, columns: torch.Tensor = columns) -> None:
            factors, pivots = torch.linalg.lu_factor(system)
            for adjoint in (False, True):
                torch.linalg.lu_solve(factors, pivots, columns, adjoint=adjoint)

        solve()
        dense = timed(solve, 3)
        results[str(network.n_states)] = {"sparse_s": sparse, "dense_s": dense}
        say(
            f"  no horizon, {network.n_states:,} crossings: gradient {1e3 * sparse:.1f} ms by sparse factors on the "
            f"host; dense factors on the device, and two solves, {1e3 * dense:.1f} ms"
        )
    return results


def growth(device: str, largest: int) -> list[Results]:
    """One gradient on ever larger products of one family, the first of them also built by the library.

    Rewards are from -3 to -2, so that longer trajectories are not likelier than shorter ones, as in fitted models.
    """
    rows: list[Results] = []
    small = generated(20, 5, 60, device)
    cells = np.random.default_rng(0).choice(
        [small.world.state((x, y)) for x in range(12) for y in range(12) if (x, y) != (0, 0)], 5, replace=False
    )
    law = EdgeWeights.of(small.world, a_reward(small.world))
    truth = xm.distribution(small.world, [xm.visit(xm.at(int(c))) for c in cells], a_reward(small.world))
    found = OnDevice(small, torch.device(device)).messages([law])[0]
    off = abs(found.log_partition - truth.log_partition())
    say(f"growth; log Z of a generated product differs from the library's own by {off:.1e}")
    del found
    for n_cells in (2, 5, 8, 10, 12, 13, 14, 15):
        if n_cells > largest:
            break
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        product = generated(64, n_cells, 150, device)
        made = time.perf_counter() - began
        began = time.perf_counter()
        place = OnDevice(product, torch.device(device))
        finish()
        moved = time.perf_counter() - began
        law = EdgeWeights.of(product.world, a_reward(product.world) - 1.0)
        repeats = 3 if n_cells < 13 else 1
        if repeats > 1:
            place.messages([law])[0].flow()
            place.messages([law])[0].flow()
        seconds = timed(lambda place=place, law=law: place.messages([law])[0].flow(), repeats)  # type: ignore[misc]
        plan = place.describe()
        memory = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        per_edge = 1e12 * seconds / product.n_edges / product.horizon
        say(
            f"  {product.n_edges:13,} edges, {product.n_nodes:11,} nodes, horizon {product.horizon}: gradient "
            f"{1e3 * seconds:9.2f} ms, {per_edge:7.1f} ps per edge and action, {memory:6.2f} GB at most; "
            f"generated in {made:.1f} s, moved in {moved:.1f} s; {plan}"
        )
        rows.append(
            {
                "edges": product.n_edges,
                "nodes": product.n_nodes,
                "gradient_s": seconds,
                "gigabytes": memory,
                "plan": plan,
            }
        )
        del place, product
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parts = ("gradient", "batch", "training", "samples", "policy", "tasks", "growth")
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument(
        "--largest", type=int, default=15, help="must-visit cells of the largest product; 15: 10^9 edges"
    )
    parser.add_argument("--out", type=Path, default=Path("results/gpu.json"))
    arguments = parser.parse_args()
    device = arguments.device
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "the CPU"
    say(f"torch {torch.__version__} on {name}")
    results: Results = {"device": name}
    for part in arguments.parts:
        began = time.perf_counter()
        results[part] = growth(device, arguments.largest) if part == "growth" else globals()[part](device)
        say(f"  ({part}: {time.perf_counter() - began:.1f} s in all)")
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
