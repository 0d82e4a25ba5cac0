"""The figures of the roads experiment: maps with flows, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from xmen.experiments.roads_data import City
from xmen.plots.graph import plot_network
from xmen.rewards import Floats


def draw_flows(city: City, observed: Floats, predicted: ArrayLike) -> Figure:
    """Two maps, and one number against the other for every link."""

    expected = np.asarray(predicted, dtype=np.float64)
    used = city.lines[observed + expected > 0]  # a few links lie far away, and nobody goes there
    figure, axes = plt.subplots(1, 3, figsize=(17, 5), layout="constrained", width_ratios=[1, 1, 0.8])
    for ax, flows, title in ((axes[0], observed, "observed"), (axes[1], expected, "predicted")):
        plot_network(city.lines, flows, ax=ax, label="test trips")
        ax.set(title=title, xlim=_around(used[..., 0]), ylim=_around(used[..., 1]))
    axes[2].plot(observed, expected, ".", markersize=4, color="#0072b2")
    most = max(observed.max(), expected.max())
    axes[2].plot([0, most], [0, most], color="#999999", linewidth=1)
    axes[2].set(xlabel="observed test trips on a link", ylabel="predicted")
    axes[2].set_title(f"correlation {np.corrcoef(observed, expected)[0, 1]:.3f}")
    return figure


def draw_curves(sizes: Sequence[int], curves: Mapping[str, Sequence[float]]) -> Figure:
    """Held-out log-probability against the number of training trips, one line per model."""

    figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name, values in curves.items():
        ax.plot(sizes, values, "o-", label=name)
    ax.set(xscale="log", xlabel="training trips", ylabel="log-probability per test trip")
    ax.legend()
    return figure


def _around(values: Floats) -> tuple[float, float]:
    """The range of some coordinates, with a margin."""
    margin = 0.03 * float(np.ptp(values))
    return float(values.min()) - margin, float(values.max()) + margin
