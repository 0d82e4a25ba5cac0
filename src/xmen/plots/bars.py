"""Numbers with names as horizontal bars: for worlds that have no map, and for weights of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from xmen.errors import WorldError
from xmen.plots.canvas import axes, short

MOST_BARS = 25
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xxx")


def plot_bars(
    names: Sequence[str], series: Mapping[str, Sequence[float]], ax: Axes | None = None, *, label: str = ""
) -> Axes:
    """One group of bars per name, one bar in it per series; of many names, those with the largest numbers.

    Parameters
    ----------
    names
        What the numbers belong to: states, features.
    series
        One number per name, in each series.
    ax
        Where to draw; new axes if not given.
    label
        Of the scale.

    Returns
    -------
    Axes
        With the bars; nothing is shown.

    Raises
    ------
    WorldError
        When a series has another length than `names`.

    Examples
    --------
    plot_bars(["new", "worn"], {"demonstrations": [8.1, 2.0], "model": [8.0, 2.1]}, label="visits per trajectory")
    """
    values = np.array([list(numbers) for numbers in series.values()], dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(names) or not len(names):
        raise WorldError(f"there are {len(names)} names, and series of {[len(s) for s in series.values()]} numbers")
    kept = np.sort(np.argsort(-np.abs(values).max(axis=0), kind="stable")[:MOST_BARS])
    ax = axes(ax, 7.0, 1.2 + 0.18 * len(kept) * (1 + len(series)))
    thick = 0.8 / len(series)
    for k, (name, numbers) in enumerate(zip(series, values, strict=True)):
        where = np.arange(len(kept)) + (k - (len(series) - 1) / 2) * thick
        style = k % len(_COLOURS)
        look: dict[str, Any] = {"color": _COLOURS[style], "hatch": _HATCHES[style], "edgecolor": "white"}
        ax.barh(where, numbers[kept], height=thick, label=name, **look)
    left_out = len(names) - len(kept)
    ax.set_yticks(np.arange(len(kept)), [short(names[k], 30) for k in kept])
    ax.set_ylim(len(kept) - 0.4, -0.6)  # the first on top
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_xlabel(label + (f"   (the largest {len(kept)} of {len(names)})" if left_out else ""))
    ax.spines[["top", "right"]].set_visible(False)
    if len(series) > 1:
        ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=len(series))
    return ax
