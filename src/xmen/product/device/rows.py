"""Who carries out row operations on a device: fused kernels where they run, plain torch elsewhere."""

from __future__ import annotations

import torch

from xmen.product.device.fused import FusedRows
from xmen.product.device.kernels import AVAILABLE
from xmen.product.device.plain import PlainRows


def row_operations(device: torch.device) -> PlainRows:
    """Fused kernels on GPUs that have a compiler for them; else plain torch."""
    return FusedRows() if device.type == "cuda" and AVAILABLE else PlainRows()
