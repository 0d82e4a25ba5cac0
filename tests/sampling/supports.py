"""Small supports and weights on which every hash can be listed, and what a sampler draws from one cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sampling.exact_hash import BatchedRows, Draws, all_bits, output, table_space, worst_factor
from xmen.oracles.formula import Bits
from xmen.sampling import CellPlan, Info, PartitionBound, PawsPlan, Space
from xmen.sampling import cells as cell_sampler
from xmen.sampling.paws import largest_mean

CUBE = all_bits(5)
FIRST = 5  # rows in the first read of a cell
RANDOM = np.random.default_rng(20220801)
SUPPORTS: dict[str, Bits] = {
    "cube of 4 bits": all_bits(4),
    "cube of 5 bits": CUBE,
    # Cells cut a subspace into halves and quarters and treat the point outside like chance: the hardest mixture.
    "subspace and a point": np.array([*CUBE[:16], CUBE[31]]),
    "two subspaces": np.array([*CUBE[:8], *CUBE[20:24], *CUBE[24:28]]),
    "20 random rows": CUBE[np.sort(RANDOM.choice(32, 20, replace=False))],
    "27 random rows": CUBE[np.sort(RANDOM.choice(32, 27, replace=False))],
}
WEIGHTS = {
    "equal": lambda n: np.zeros(n),
    "within a factor 2": lambda n: -math.log(2) * np.random.default_rng(n).random(n),
    "exponential": lambda n: -np.random.default_rng(n).exponential(1.0, n),
    "geometric": lambda n: -0.3 * np.arange(n),
    "one heavy": lambda n: np.where(np.arange(n) == n // 2, 0.0, -2.0),
}


def known(space: Space) -> PartitionBound:
    """Z itself as its own bound."""
    log_z = float(np.logaddexp.reduce(space.log_weights(space.oracle.bits)))  # type: ignore[attr-defined]
    return PartitionBound(log_z, log_z, log_z, space.log_max, 0.001, 1, 1.0, Info())


def plan_of(space: Space, m: int, delta: float = 1.25) -> CellPlan:
    """Cells of m parities, Z being known."""
    size = math.exp(known(space).log_upper - space.log_max)
    return CellPlan.solve(delta, known(space), cell_size=size / 2**m)


def weighted(name: str, weights: str) -> tuple[Space, dict[tuple[bool, ...], float]]:
    """The support with these weights, and the true probabilities."""
    bits = SUPPORTS[name]
    return table_space(bits, np.asarray(WEIGHTS[weights](len(bits))))


def uniform(bits: Bits) -> dict[tuple[bool, ...], float]:
    return {tuple(row): 1.0 / len(bits) for row in bits.tolist()}


def project(found: dict[tuple[bool, ...], float]) -> dict[tuple[bool, ...], float]:
    """The probabilities of models of 4 bits from those of their copies."""
    models: dict[tuple[bool, ...], float] = {}
    for row, chance in found.items():
        models[row[:4]] = models.get(row[:4], 0.0) + chance
    return models


def paws_draws(bits: Bits, pivot: int) -> Draws:
    return cell_draws(Space(BatchedRows(bits)), pivot - 1.0)


def cell_draws(space: Space, cap: float) -> Draws:
    return lambda parities: cell_sampler.possible_draws(space, parities, cap, FIRST)[:2]


@dataclass(frozen=True)
class Sampler:
    """Cells of m parities with a weight of at most `cap`: what they should draw, and within which factor."""

    space: Space
    m: int
    cap: float
    delta: float
    true: dict[tuple[bool, ...], float]

    @classmethod
    def of_cells(cls, name: str, weights: str, m: int) -> Sampler:
        space, true = weighted(name, weights)
        plan = plan_of(space, m)
        return cls(space, m, plan.cap, plan.delta, true)

    @classmethod
    def of_paws(cls, name: str, k: int, pivot: int = 8, extra: int = 3) -> Sampler:
        """The published PAWS at level k, on equal weights."""
        bits = SUPPORTS[name]
        plan = PawsPlan(1, pivot, extra, 0.0, 0.01, 5, faithful=True)
        assert len(bits) / 2**k <= largest_mean(pivot, faithful=True)  # a good level
        return cls(Space(BatchedRows(bits)), k + extra, pivot - 1.0, plan.delta, uniform(bits))

    def worst(self, draws: Draws | None = None, **hashes: Any) -> float:
        """The factor that the cells keep, or other draws in their place, or other hashes."""
        draws = draws or cell_draws(self.space, self.cap)
        return worst_factor(output(draws, self.m, self.space.n_hash, **hashes), self.true)


def chi_square_of(rows: Bits, expected: dict[tuple[bool, ...], float]) -> tuple[float, int]:
    counts = dict.fromkeys(expected, 0)
    for row in map(tuple, rows.tolist()):
        counts[row] += 1
    chi_square = sum((counts[r] - len(rows) * p) ** 2 / (len(rows) * p) for r, p in expected.items())
    return chi_square, len(expected) - 1
