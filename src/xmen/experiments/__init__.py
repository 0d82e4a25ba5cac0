"""The paper's figures, made again, and what goes beyond it: `xmen reproduce NAME`, or `all` of them but `roads`.

Each experiment is one module with `run(book)`, read from top to bottom. They use the library as anyone would.
"""

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import xmen as xm
from xmen.experiments.notebook import Findings, Notebook

EXPERIMENTS = ("figure1", "grid", "human", "convergence", "rules", "pairs")
"""In the order of the paper, and what goes beyond it; `roads` needs data that the user brings, and is not in `all`."""


def reproduce(name: str, folder: Path, **settings: Any) -> Findings:
    """Run one experiment: figures and a JSON record go to `folder`, and the record is returned.

    Settings are those of `Notebook`. Ctrl-C ends it without a record, also in the middle of a fit; `resume` goes on
    after the last long stage that such a run has finished.
    """
    known = (*EXPERIMENTS, "roads")
    if name not in known:
        raise xm.XmenError(f"there is no experiment {name!r}: choose one of {', '.join(known)}, or all.")
    folder.mkdir(parents=True, exist_ok=True)
    book, module = Notebook(name, folder, **settings), import_module(f"xmen.experiments.{name}")
    with warnings.catch_warnings(), plt.rc_context(getattr(module, "FONT", {})):
        # A fit would keep what it has on Ctrl-C: half of one is no part of a result.
        warnings.simplefilter("error", xm.InterruptedWarning)
        try:
            module.run(book)
        except xm.InterruptedWarning:
            raise KeyboardInterrupt from None
    return book.finish()
