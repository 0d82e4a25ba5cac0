"""What a user may choose about the engine that answers, as one record."""

from __future__ import annotations

from dataclasses import dataclass

from xmen.engines.place import check_place
from xmen.errors import EngineError
from xmen.options import Options, require_number, require_whole
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.sampling.bounds import require_delta, require_probability

DEFAULT_DELTA = 1.18  # below the 2^(1/4) = 1.189 that c = delta^2 <= sqrt 2 needs in the paper's Theorem 4
DEFAULT_FAILURE = 0.001
DEFAULT_CELL_SIZE = 48.0
LARGEST_CELL = 1e9  # solutions, more than anyone can list
DEFAULT_TIME_LIMIT = 60.0  # seconds


@dataclass(frozen=True, repr=False)
class EngineSettings(Options):
    """The engine settings of `xm.distribution`, of every learner and of problem files, checked when made.

    engine: "auto" or the name of an engine; `xmen.engines.table` knows which there are. max_nodes: the budget of the
    product. The rest is for hashing: oracle; delta and failure, of the sampling guarantee; cell_size, the expected
    number of solutions in a cell; time_limit, seconds per call of the oracle (cells that are too slow are tried again
    with more), or of rejection without a valid draw, None for no limit. device, precision: where the exact engine
    computes, and in which numbers. Elsewhere None is the engine's own default.
    """

    engine: str = "auto"
    max_nodes: int | None = None
    oracle: str = "auto"
    cell_size: float | None = None
    delta: float | None = None
    failure: float | None = None
    time_limit: float | None = DEFAULT_TIME_LIMIT
    device: str | None = None
    precision: str = "float64"

    def __post_init__(self) -> None:
        require_whole("max_nodes", self.max_nodes, least=1, optional=True)
        require_number("cell_size", self.cell_size, above=0.0, below=LARGEST_CELL, optional=True)
        if not isinstance(self.oracle, str):
            raise EngineError(f"oracle is a name, such as 'auto' or 'cryptominisat'; got {self.oracle!r:.60}.")
        require_number("time_limit", self.time_limit, above=0.0, optional=True)
        check_place(self.device, self.precision)
        if self.device not in (None, "auto") and self.engine in ("reject", "xor"):
            raise EngineError(
                f"device={self.device!r} is for engine='exact', and engine={self.engine!r} computes on the host: leave "
                "out one of them."
            )
        if self.delta is not None:
            require_number("delta", self.delta)
            require_delta(self.delta)
        if self.failure is not None:
            require_number("failure", self.failure)
            require_probability(self.failure)

    @property
    def node_budget(self) -> int:
        """The most nodes that a product may have."""
        return DEFAULT_MAX_NODES if self.max_nodes is None else int(self.max_nodes)

    @property
    def guarantee(self) -> tuple[float, float]:
        """delta and failure, with the defaults for what was left out."""
        delta = DEFAULT_DELTA if self.delta is None else float(self.delta)
        return delta, DEFAULT_FAILURE if self.failure is None else float(self.failure)
