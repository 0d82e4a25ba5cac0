"""Where dynamic programming runs: compiled loops on the host, or torch on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmen.errors import EngineError
from xmen.options import require_choice
from xmen.product.graph import Product
from xmen.rewards.torch_backend import require_torch

if TYPE_CHECKING:
    from torch import device as Device

    from xmen.product.device.run import OnDevice

DEVICES = ("auto", "cpu", "cuda")
PRECISIONS = ("float64", "float32")


def check_place(device: object, precision: object) -> None:
    """Refuse a device or a precision that there is not, without loading torch."""
    if device is not None and not (isinstance(device, str) and device.startswith("cuda:")):
        require_choice("device", device, DEVICES)
    require_choice("precision", precision, PRECISIONS)
    if precision != "float64" and device is None:
        raise EngineError(f'precision={precision!r} is for a device: give device="cuda", "cpu" or "auto" with it.')


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
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else None
        if device is None:
            return None
    if device != "cpu" and not torch.cuda.is_available():
        raise EngineError(
            f"device={device!r} needs a GPU that torch can use, and torch {torch.__version__} finds none here. Leave "
            'device out for compiled loops on the host, or use device="auto", which takes a GPU where there is one.'
        )
    try:
        found: Device = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise EngineError(
            f"device={device!r} cannot be used: {reason} There are {torch.cuda.device_count()} GPUs."
        ) from None
    return found


def place_product(product: Product, device: Device, precision: str) -> OnDevice:
    """The product on a device, moved once."""
    from xmen.product.device.run import OnDevice

    return OnDevice(product, device, precision)
