"""The model under the rules so far, and how likely it keeps a candidate: exactly where that fits, else estimated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.learners.xmen import XMEN
from xmen.rules.machine import Machines
from xmen.rules.positions import Positions
from xmen.worlds import MDP, Network

N_DRAWS = 20_000  # trajectories behind an estimate
FEWEST_DRAWS = 200  # accepted ones without which nothing is estimated


@dataclass(frozen=True)
class Kept:
    """P(c) as log_kept and 1 - P(c) as broken (exactly 0 only where c is certain), with the error of log_kept."""

    log_kept: float
    broken: float
    std: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether this is no estimate."""
        return self.std == 0.0

    @property
    def certain(self) -> bool:
        """Whether every trajectory is known to keep it."""
        return self.exact and self.broken == 0.0


@dataclass(frozen=True)
class SearchSettings:
    """What all models of one search share."""

    world: MDP | Network
    features: ArrayLike | None
    discount: float
    l2: float
    max_nodes: int | None
    seed: int


@dataclass
class Shared:
    """What the models of one search hand on: joined machines, and candidates whose product did not fit before."""

    machines: Machines
    too_large: set[Constraint] = field(default_factory=set)


@dataclass
class Model(ABC):
    """A reward fitted under `multiplied`; the rules in `rejecting` did not fit the product, and reject its draws."""

    setting: SearchSettings
    fitted: XMEN
    multiplied: list[Constraint]
    rejecting: list[Constraint]
    shared: Shared

    def __getstate__(self) -> dict[str, Any]:
        # Compiled work is made again when it is asked for.
        compiled = {name for kind in type(self).__mro__ for name, value in vars(kind).items() if _is_cached(value)}
        return {name: value for name, value in vars(self).items() if name not in compiled}

    def keeps(self, constraint: Constraint) -> Kept:
        """How likely a trajectory of the model keeps the constraint."""
        exact = None if self.rejecting or constraint in self.shared.too_large else self._exactly(constraint)
        return self._by_draws(constraint) if exact is None else exact

    def implies(self, strong: Constraint, weak: Constraint) -> bool:
        """Whether every trajectory of the model that keeps the one keeps the other, as far as that is known."""
        return not self.rejecting and self._implies(strong, weak)

    def prepare(self) -> None:
        """Compile what all candidates share, before they are tried side by side."""
        if self.rejecting:
            _ = self._accepted
        else:
            self._compile()

    @abstractmethod
    def _compile(self) -> None:
        """Make what `_exactly` needs."""

    @abstractmethod
    def _exactly(self, constraint: Constraint) -> Kept | None:
        """The answer of an exact engine; None, and a note in `shared`, where there is no room for it."""

    @abstractmethod
    def _implies(self, strong: Constraint, weak: Constraint) -> bool:
        """`implies`, where all rules so far fit."""

    @abstractmethod
    def _draw(self) -> Positions:
        """Trajectories of the model under `multiplied`, the same ones whoever asks."""

    @cached_property
    def _accepted(self) -> Positions:
        drawn = self._draw()
        valid = np.ones(len(drawn), dtype=np.bool_)
        for rule in self.rejecting:
            valid &= drawn.keeps(rule)
        return Positions(drawn.walks[valid])

    def _by_draws(self, constraint: Constraint) -> Kept:
        n = len(self._accepted)
        if n < FEWEST_DRAWS:
            return Kept(0.0, 0.0, math.inf)
        share = float(np.mean(self._accepted.keeps(constraint)))
        share = max(share, 3.0 / n)  # with none of n, at most 3 / n (19 times of 20): no gain is claimed beyond that
        return Kept(math.log(share), 1.0 - share, math.sqrt(max(1.0 - share, 1.0 / n) / (share * n)))


def _is_cached(value: object) -> bool:
    return isinstance(value, cached_property)
