"""The one place that loads torch, and what everything neural asks of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import RewardError, XmenError, extra_module, in_words
from xmen.rewards import Floats, real_array

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


def as_tensor(values: Any, what: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Finite numbers as a tensor of this type; a tensor of whole numbers keeps its own, for embeddings."""
    if isinstance(values, torch.Tensor):
        real_array(values.detach().cpu().to(torch.float64).numpy(), what)
        return values.detach().to(device=device, dtype=dtype if values.is_floating_point() else values.dtype)
    return torch.as_tensor(real_array(values, what), dtype=dtype, device=device)


def as_floats(tensor: torch.Tensor) -> Floats:
    """A copy of the numbers of a tensor, wherever it lives."""
    return as_array(tensor.detach().cpu().to(torch.float64))


def as_array(tensor: torch.Tensor) -> NDArray[Any]:
    """A copy of a tensor in its own type."""
    if tensor.dtype is torch.bfloat16:
        raise RewardError("numbers of type bfloat16 cannot be saved: numpy does not have them. Use float32 or float16.")
    array: NDArray[Any] = np.array(tensor.detach().cpu().numpy())
    return array


@contextmanager
def repeatable() -> Iterator[None]:
    """Convolutions on a GPU take the same way every time, so that equal seeds give equal results."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield


@contextmanager
def quiet_on_gpus(device: torch.device) -> Iterator[None]:
    """Without torch's remark on the first backward pass, whose thread has no CUDA context yet and then gets one."""
    if device.type != "cuda":
        yield
        return
    with warnings.catch_warnings():
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
