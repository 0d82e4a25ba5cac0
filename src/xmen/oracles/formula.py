"""The formulas that oracles answer questions about, and the parities that cut them into cells.

Nothing here knows of worlds or trajectories: a formula is a set of clauses, and the hash variables are those that
determine each of its models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Formula:
    """Clauses over the variables 1 .. n_variables; literal -v is the negation of v.

    Models that agree on the hash variables are equal, so a model is known by its row of hash bits, in the order
    of `hash_variables`.
    """

    n_variables: int
    clauses: NDArray[np.int32]  # flat, each clause closed by a 0
    hash_variables: tuple[int, ...]

    @property
    def n_hash(self) -> int:
        """The number of hash variables."""
        return len(self.hash_variables)

    @property
    def n_clauses(self) -> int:
        """The number of clauses."""
        return int(np.count_nonzero(self.clauses == 0))

    def clause_list(self) -> list[list[int]]:
        """The clauses as lists of literals."""
        ends = np.flatnonzero(self.clauses == 0)
        starts = np.concatenate([[0], ends + 1])[:-1]
        return [self.clauses[a:b].tolist() for a, b in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class Parities:
    """m parities over the hash variables: (matrix @ bits) mod 2 == rhs."""

    matrix: Bits  # (m, n_hash)
    rhs: Bits  # (m,)

    @property
    def m(self) -> int:
        """The number of parities."""
        return len(self.rhs)

    @classmethod
    def dense(cls, m: int, n_hash: int, rng: np.random.Generator) -> Self:
        """Independent parities with each variable in with probability 1/2: pairwise independent cells.

        Sparse parities would be faster to solve and would void every bound.
        """
        bits = rng.integers(0, 2, size=(m, n_hash + 1), dtype=np.uint8).astype(np.bool_)
        return cls(bits[:, :-1], bits[:, -1])

    def hold(self, bits: Bits) -> Bits:
        """Which rows of hash bits (k, n_hash) satisfy all parities."""
        odd = (bits.astype(np.float32) @ self.matrix.T.astype(np.float32)).astype(np.int64) & 1
        good: Bits = np.all(odd.astype(np.bool_) == self.rhs, axis=1)
        return good
