"""The state of a torch optimiser as named arrays, and back, with every number in the type it had.

A tensor is an array under its name; other values have names that end in their kind: `t?number`, `al?none`,
`old_dirs?list` (the length), whose parts follow as `old_dirs.0`, `old_dirs.1`, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import RewardError
from xmen.rewards.torch_backend import as_array, torch

Arrays = dict[str, NDArray[Any]]


def flatten(value: Any, name: str) -> Arrays:
    """The arrays that a value is made of; RewardError for what is not made of numbers."""
    if isinstance(value, torch.Tensor):
        return {name: as_array(value)}
    if value is None:
        return {f"{name}?none": np.zeros(0)}
    if isinstance(value, bool | int | float):
        return {f"{name}?number": np.array(value)}
    if isinstance(value, list | tuple):
        out = {f"{name}?list": np.array(len(value))}
        for i, part in enumerate(value):
            out |= flatten(part, f"{name}.{i}")
        return out
    raise RewardError(f"the optimiser keeps a {type(value).__name__} as {name}, which cannot be saved as numbers.")


def unflatten(arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """The value that `flatten` took apart."""
    if name in arrays:
        return torch.as_tensor(np.array(arrays[name]))
    if f"{name}?none" in arrays:
        return None
    if f"{name}?number" in arrays:
        return arrays[f"{name}?number"].item()
    return [unflatten(arrays, f"{name}.{i}") for i in range(int(arrays[f"{name}?list"].item()))]


def optimiser_arrays(optimiser: Any) -> Arrays:
    """The state of an optimiser, as `optimiser.<parameter>.<name>`."""
    out: Arrays = {}
    for index, values in optimiser.state_dict()["state"].items():
        for name, value in values.items():
            out |= flatten(value, f"optimiser.{index}.{name}")
    return out


def load_optimiser(optimiser: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Put back what `optimiser_arrays` gave, in an optimiser made in the same way."""
    names = {(key.split(".")[1], key.split(".")[2].split("?")[0]) for key in arrays if key.startswith("optimiser.")}
    inner: dict[int, dict[str, Any]] = {}
    for index, name in sorted(names):
        inner.setdefault(int(index), {})[name] = unflatten(arrays, f"optimiser.{index}.{name}")
    optimiser.load_state_dict({**optimiser.state_dict(), "state": inner})
