"""The one place that loads torch, and what everything neural asks of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import RewardError, XmenError, extra_module, in_words
from xmen.rewards import Floats

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Torch, loaded when something of it is first asked for: `import xmen` goes without."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("torch"), name)

    torch = _Torch()


def require_torch(needed_for: str, extra: str = "neural") -> Any:
    """The module torch, or an error that says which extra brings it."""
    return extra_module("torch", needed_for, extra)


def choose_device(
    device: str | torch.device | None,
    refusal: type[XmenError] = RewardError,
    advice: str = "Leave it out to get one that can.",
) -> torch.device:
    """The device asked for; without a wish the GPU if there is one, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)  # naming a device that is not there fails only when it is used
    except (RuntimeError, AssertionError, TypeError) as error:
        raise refusal(f"device={device!r} cannot be used ({in_words(error)}). {advice}") from None
    return chosen


def as_floats(tensor: torch.Tensor) -> Floats:
    """A copy of the numbers of a tensor, wherever it lives."""
    return as_array(tensor.detach().cpu().to(torch.float64))


def as_array(tensor: torch.Tensor) -> NDArray[Any]:
    """A copy of a tensor in its own type."""
    if tensor.dtype is torch.bfloat16:
        raise RewardError("numbers of type bfloat16 cannot be saved: numpy does not have them. Use float32 or float16.")
    return np.array(tensor.detach().cpu().numpy())


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Convolutions on a GPU take the same way every time, so that equal seeds give equal results."""
    on_gpu = device.type == "cuda"
    same = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with same, warnings.catch_warnings() if on_gpu else nullcontext():
        if on_gpu:  # torch's remark on the first backward pass, whose thread has no context yet and then gets one
            warnings.filterwarnings("ignore", message="Attempting to run cuBLAS, but there was no current CUDA context")
        yield


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Torch's random numbers start from `seed` inside, and go on outside as if nothing had happened."""
    if seed is None:
        yield
        return
    devices = torch.cuda.device_count()
    with torch.random.fork_rng(devices=range(devices)):
        # The same numbers either way; torch.manual_seed prepares for GPUs, which takes longer than a small network.
        (torch if devices else torch.default_generator).manual_seed(seed)
        yield


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Torch uses n threads inside; None leaves it as it is."""
    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
