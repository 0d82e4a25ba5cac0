"""Where the draws of a round come from: what rounds ask of hash cells, rejection, or anything else that draws."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from xmen.methods.drawn_loss import DrawnLoss, Relaxed
from xmen.methods.draws import Draws
from xmen.rewards import Floats
from xmen.sampling import Info

Plan: TypeAlias = dict[str, float]
"""What to draw next, in numbers that can be stored; only its source reads it."""


class Batch(NamedTuple):
    """Draws, what they cost, how many cells were lost on the way, and what else to record of them.

    `sees_all`: nothing that has much weight at the weights they were drawn at can have been missed, which draws from P
    there do not, while others tell nothing of what they never met.
    """

    draws: Draws
    info: Info
    n_lost: int = 0
    sees_all: bool = True
    details: Mapping[str, float] = MappingProxyType({})


class Source(Protocol):
    """Draws batches of weighted trajectories; every draw is a function of the plan, the weights and the generator.

    `parts` (P,) are the shares of the parts of the loss that it draws for.
    """

    parts: Floats

    @property
    def relaxed(self) -> Relaxed | None:
        """log Z and E[f] of the relaxations that it draws from; None where no batch is relaxed."""

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        """The plan of the first round, for about `wanted` draws, and what it cost to find."""

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        """One batch, drawn as planned when the weights were found."""

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        """The plan of the next round, to be worth `effective` draws from P at these weights.

        `last`: they are expected to confirm these weights, for which they have to see all.
        """

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        """What else a model will know after the fit, by the name of its attribute."""
