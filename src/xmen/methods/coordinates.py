"""Which weights are learned, and what large ones cost: `fixed` and `l2` of a linear learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xmen.errors import EngineError
from xmen.rewards import Floats


class Value(NamedTuple):
    """The loss at some weights, and its gradient along those that move."""

    loss: float
    gradient: Floats


def read_l2(l2: Any, d: int | None = None) -> Floats:
    """A number, or one per feature (d,), as an array; the loss gains sum l2 theta^2 / 2."""
    expected = "l2 is a number, 0 or more, or one per feature"
    try:
        penalty = np.array(l2, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EngineError(f"{expected}; got {l2!r:.60}.") from None
    if isinstance(l2, bool) or penalty.ndim > 1 or not np.isfinite(penalty).all() or np.any(penalty < 0):
        raise EngineError(f"{expected}; got {l2!r:.60}.")
    if d is not None and penalty.ndim == 1 and penalty.shape != (d,):
        raise EngineError(f"{expected}: got {len(penalty)} numbers for {d} features.")
    return penalty


class Coordinates:
    """The d weights of a reward: some are fixed, and the others are what an optimiser moves."""

    def __init__(self, d: int, fixed: Mapping[int, float] | None, l2: Floats) -> None:
        self.values: Floats = np.zeros(d)
        free = np.ones(d, dtype=np.bool_)
        for feature, value in ({} if fixed is None else dict(fixed)).items():
            if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < d:
                raise EngineError(f"fixed names feature {feature!r}, but features are numbered 0 to {d - 1}.")
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
                raise EngineError(f"fixed: the value of feature {feature} is a finite number; got {value!r}.")
            self.values[feature] = value
            free[feature] = False
        if not free.any():
            raise EngineError(f"fixed names all {d} features: there is nothing to learn. Leave at least one out.")
        self.free = np.flatnonzero(free)
        self.l2 = np.broadcast_to(l2, d)

    def full(self, moved: Floats) -> Floats:
        """All d weights, from those that move."""
        weights = self.values.copy()
        weights[self.free] = moved
        return weights

    def direction(self, moved: Floats) -> Floats:
        """A direction of all d weights, 0 where they are fixed."""
        full = np.zeros(len(self.values))
        full[self.free] = moved
        return full

    def penalised(self, weights: Floats, loss: float, gradient: Floats) -> Value:
        """The loss with its penalty at all weights (d,), and its gradient along those that move."""
        penalty = 0.5 * float(np.sum(self.l2 * weights**2))
        return Value(loss + penalty, (gradient + self.l2 * weights)[self.free])
