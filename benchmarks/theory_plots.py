"""What the figures of docs/theory.md share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from xmen.experiments.convergence import FONT
from xmen.experiments.methods import LOOKS

plt.rcParams.update(FONT)
NAMES = ("demonstrations", "exact", "cells", "paper", "maxent", "relative-entropy", "constraint-inference")
BLACK, BLUE, SKY, GREEN, ORANGE, RED, PINK = (LOOKS[name].colour for name in NAMES)


def panels(n: int, width: float = 3.4, height: float = 2.9) -> tuple[Any, Any]:
    """Axes side by side, without the frame's upper and right sides."""
    figure, axes = plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)
    for ax in axes[0]:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def save(figure: Any, path: Path) -> None:
    """A file that is the same whenever the figure is."""
    figure.savefig(path, dpi=120, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
