"""How learning went: the loss and the norm of its gradient, iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from xmen.errors import WorldError
from xmen.plots.canvas import axes
from xmen.progress.monitor import Record

LOSS_COLOUR, VALIDATION_COLOUR, GRADIENT_COLOUR = "#0072B2", "#009E73", "#D55E00"


def plot_history(history: Sequence[Record], ax: Axes | None = None) -> Axes:
    """The loss (left scale) and the gradient's norm (right scale, logarithmic) of a learner's `history_`.

    Where a method has errors, the loss has a band of two standard errors on each side, and a dotted line shows the
    gradient's own standard error: below it there is only noise. A loss that a method does not know is left out. With
    validation its loss is a curve of its own, marked where it is least.

    Parameters
    ----------
    history
        `model.history_`.
    ax
        Where to draw; new axes if not given.

    Returns
    -------
    Axes
        With the curves; nothing is shown.

    Raises
    ------
    WorldError
        When there is nothing to draw.
    """

    if not history:
        raise WorldError("there is no history to draw: this model was fitted without a single iteration")
    ax = axes(ax, 7.0, 4.0)
    columns = {
        name: np.array([getattr(record, name) for record in history])
        for name in ("iteration", "loss", "loss_std", "gradient_norm", "gradient_std")
    }
    held_out = np.array([record.details.get("validation_loss", np.nan) for record in history])
    right: Any = ax.twinx() if np.isfinite([columns["loss"], held_out]).any() else ax
    x, marker = columns["iteration"], "." if len(history) <= 60 else None
    handles: list[Any] = []
    if right is not ax:
        loss, error = columns["loss"], columns["loss_std"]
        if (error > 0).any():
            ax.fill_between(x, loss - 2 * error, loss + 2 * error, color=LOSS_COLOUR, alpha=0.2, linewidth=0)
        if np.isfinite(loss).any():
            handles += ax.plot(x, loss, "-", color=LOSS_COLOUR, marker=marker, label="loss")
        if np.isfinite(held_out).any():
            best = int(np.nanargmin(held_out))
            handles += ax.plot(x, held_out, "-", color=VALIDATION_COLOUR, marker=marker, label="validation")
            ring: dict[str, Any] = {"color": VALIDATION_COLOUR, "fillstyle": "none", "markersize": 11}
            handles += ax.plot(x[best], held_out[best], "o", label="its least", **ring)
        ax.set_ylabel("loss (nats per demonstration)", color=LOSS_COLOUR)
    for name, line, label in (("gradient_norm", "--", "gradient norm"), ("gradient_std", ":", "its standard error")):
        values = np.where(columns[name] > 0, columns[name], np.nan)  # zero has no place on a logarithmic scale
        if np.isfinite(values).any():
            right.set_yscale("log")
        elif name == "gradient_std":
            continue
        handles += right.plot(x, values, line, color=GRADIENT_COLOUR, marker=marker, label=label)
    right.set_ylabel("norm of the gradient", color=GRADIENT_COLOUR)
    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False)
    return ax
