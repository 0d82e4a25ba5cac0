"""Settings of models that were saved while XMEN had those of all methods as keywords of its own."""

from __future__ import annotations

from typing import Any

from xmen.methods.cells import Cells
from xmen.methods.network_training import Training
from xmen.methods.paper import Paper
from xmen.options import Unsaved

OF_PAPER = ("n_samples", "n_demonstrations", "self_normalised", "proposal", "burn_in")
UNSAVED = ", a function that was not saved"


def with_records(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings with a record for the method and for the training of a network.

    What was of the run and of the engine at once (delta, failure, cell_size) is now of both.
    """
    if "n_samples" not in settings:
        return settings
    kept = dict(settings)
    of_paper = {name: kept.pop(name) for name in OF_PAPER}
    n_cells, learning_rate, optimiser = kept.pop("n_cells"), kept.pop("learning_rate"), kept.pop("optimiser")
    network = kept["reward"] is not None
    if kept["method"] == "paper":
        of_paper |= {"delta": kept["delta"], "failure": kept["failure"], "learning_rate": learning_rate}
        kept["method"] = Paper(**of_paper)
    elif kept["method"] == "cells":
        kept["method"] = Cells(n_cells, kept["cell_size"])
    if network:
        named, unsaved, _ = str(optimiser).partition(UNSAVED)
        kept["training"] = Training(Unsaved(named) if unsaved else optimiser, learning_rate)
    return kept
