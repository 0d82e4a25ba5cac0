"""Who carries out row operations on a device: fused kernels where they run, plain torch elsewhere."""

from __future__ import annotations

import os

import torch

from xmen.product.device.fused import FusedRows
from xmen.product.device.kernels import AVAILABLE
from xmen.product.device.plain import PlainRows


def row_operations(device: torch.device) -> PlainRows:
    """Fused kernels on GPUs that have a compiler for them, or under Triton's interpreter; else plain torch."""
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return FusedRows() if AVAILABLE and (device.type == "cuda" or interpreted) else PlainRows()
