"""Rules that were found: what each gained, and whether demonstrations that were held out keep them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from xmen.errors import WorldError
from xmen.plots.canvas import axes, short
from xmen.rules.inference import RuleInference
from xmen.worlds.trajectory import Trajectory

GAIN_COLOUR, HELD_OUT_COLOUR = "#0072B2", "#D55E00"
LONGEST_TEXT = 44


def plot_rules(model: RuleInference, held_out: Sequence[Trajectory] | None = None, ax: Axes | None = None) -> Axes:
    """The gain of each rule in the order found, and the share of held-out demonstrations that keep all rules so far.

    Parameters
    ----------
    model
        A fitted `RuleInference`.
    held_out
        Demonstrations that it has not seen; without them only gains are drawn.
    ax
        Where to draw; a new figure if None.

    Returns
    -------
    Axes
        Gains on the lower scale, in nats per demonstration; a dashed line is the gain that a further rule would have
        had to reach. The share of held-out demonstrations is on the upper scale.

    Raises
    ------
    WorldError
        Where no rule was found: there is nothing to draw.
    """
    if not model.rules_:
        raise WorldError("no rule was found: there is nothing to draw")
    ax = axes(ax, 7.5, 1.8 + 0.45 * len(model.rules_))
    places = np.arange(len(model.rules_))
    ax.barh(places, model.gains_, height=0.6, color=GAIN_COLOUR)
    ax.axvline(model.least_gain_, color=GAIN_COLOUR, linestyle="--", linewidth=1.0)
    ax.set_yticks(places, [short(text, LONGEST_TEXT) for text in model.texts_])
    ax.set_xlim(0.0, 1.1 * float(model.gains_.max()))
    ax.set_ylim(len(places) - 0.5, -0.5)  # the first on top
    ax.set_xlabel("gain (nats per demonstration; dashed: the least that counts)", color=GAIN_COLOUR)
    ax.spines[["top", "right"]].set_visible(False)
    if held_out is not None and len(held_out):
        keeps = np.array([[rule.accepts(tau) for tau in held_out] for rule in model.rules_])
        top = ax.twiny()
        top.set_xlim(-0.02, 1.02)
        top.plot(np.logical_and.accumulate(keeps, axis=0).mean(axis=1), places, "o-", color=HELD_OUT_COLOUR)
        top.set_xlabel(f"share of {len(held_out):,} held-out demonstrations that keep all rules so far")
        top.xaxis.label.set_color(HELD_OUT_COLOUR)
        top.spines[["right"]].set_visible(False)
    return ax
