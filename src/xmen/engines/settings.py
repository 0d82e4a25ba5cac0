"""The settings of the engine that answers, as one record, and the device on which it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xmen.errors import EngineError
from xmen.options import Options, require_choice, require_number, require_whole
from xmen.oracles.registry import ORACLE_NAMES
from xmen.product.graph import DEFAULT_MAX_NODES, Product
from xmen.rewards.torch_backend import choose_device, require_torch
from xmen.sampling.space import require_delta, require_failure

if TYPE_CHECKING:
    from torch import device as Device

    from xmen.product.device.run import OnDevice


def find_device(device: str | None) -> Device | None:
    """The torch device that was asked for; None is compiled loops on the host.

    "auto" is a GPU if there is one. EngineError where the device is not there, MissingExtraError without torch.
    """
    if device is None:
        return None
    try:
        torch = require_torch(f"device={device!r}", extra="gpu")
    except ImportError:
        if device == "auto":
            return None
        raise
    if device == "cpu" or torch.cuda.is_available():
        named, advice = "cuda" if device == "auto" else device, f"There are {torch.cuda.device_count()} GPUs."
        return choose_device(named, EngineError, advice)
    if device == "auto":
        return None
    none = f"device={device!r} needs a GPU that torch can use, and torch {torch.__version__} finds none here"
    advice = 'or use device="auto", which takes a GPU where there is one'
    raise EngineError(f"{none}. Leave device out for compiled loops on the host, {advice}.")


def place_product(product: Product, device: Device, precision: str) -> OnDevice:
    """The product on a device, moved once."""
    from xmen.product.device.run import OnDevice

    return OnDevice(product, device, precision)


DEFAULT_CELL_SIZE = 48.0
DEFAULT_DELTA = 1.18
DEFAULT_FAILURE = 0.001
LARGEST_CELL = 1e9  # solutions, more than anyone can list
DEFAULT_TIME_LIMIT = 60.0  # seconds


@dataclass(frozen=True, repr=False)
class EngineSettings(Options):
    """The settings of an engine, those of `xm.distribution`, learners and problem files; checked when made.

    Parameters
    ----------
    engine, max_nodes, oracle, cell_size, delta, failure, time_limit, device, precision
        As for `xm.distribution`; where None stands, it is the engine's own default.
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
        require_choice("oracle", self.oracle, ORACLE_NAMES)
        require_number("time_limit", self.time_limit, above=0.0, optional=True)
        if self.device is not None and not (isinstance(self.device, str) and self.device.startswith("cuda:")):
            require_choice("device", self.device, ("auto", "cpu", "cuda"))
        require_choice("precision", self.precision, ("float64", "float32"))
        if self.precision != "float64" and self.device is None:
            raise EngineError(f'precision={self.precision!r} is for a device: give device="cuda", "cpu" or "auto".')
        if self.device not in (None, "auto") and self.engine in ("reject", "xor"):
            both = f"device={self.device!r} is for engine='exact', and engine={self.engine!r} computes on the host"
            raise EngineError(f"{both}: leave out one of them.")
        for name, require in (("delta", require_delta), ("failure", require_failure)):
            value = getattr(self, name)
            require_number(name, value, optional=True)
            if value is not None:
                require(value)

    @property
    def node_budget(self) -> int:
        """The most nodes that a product may have."""
        return DEFAULT_MAX_NODES if self.max_nodes is None else int(self.max_nodes)

    @property
    def guarantee(self) -> tuple[float, float]:
        """delta and failure, with the defaults for what was left out."""
        return float(self.delta or DEFAULT_DELTA), float(self.failure or DEFAULT_FAILURE)  # neither may be 0


def Xor(**settings: Any) -> EngineSettings:
    """The settings of engine="xor" as one record: `engine=xm.Xor(delta=1.1)`.

    Parameters
    ----------
    **settings
        Those of `EngineSettings` but `engine`.

    Returns
    -------
    EngineSettings
        The record.

    Examples
    --------
    >>> Xor(delta=1.1)
    EngineSettings(engine='xor', delta=1.1)
    """
    return EngineSettings("xor", **settings)
