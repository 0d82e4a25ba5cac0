"""Parities as clauses, for solvers that know nothing else."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from xmen.oracles.gf2 import Reduced

# A parity is cut into pieces of this many variables, the last of each piece being new: 8 clauses per piece.
PIECE = 4


@cache
def _signs(n: int, odd: bool) -> NDArray[np.int32]:
    """The clauses (2^(n-1), n), as signs of n variables, that leave exactly the assignments of the given parity."""
    # A clause forbids one assignment: the one that makes all its literals false.
    wrong = [bits for bits in product((False, True), repeat=n) if (sum(bits) % 2 == 1) != odd]
    return np.where(np.array(wrong, dtype=np.bool_).reshape(-1, n), -1, 1).astype(np.int32)


def parity_clauses(parities: Reduced, hashed: NDArray[np.int64], n_variables: int) -> list[list[int]]:
    """Clauses that hold where the parities do, over the hash variables and new ones above n_variables.

    Each new variable is the parity of those before it, so every model of the parities extends in exactly one way.

    >>> one = Reduced(np.array([[True, True]]), np.array([True]), np.array([0]))
    >>> parity_clauses(one, np.array([3, 7]), 7)
    [[3, 7], [-3, -7]]
    """
    clauses: list[list[int]] = []
    top = n_variables
    for row, odd in zip(parities.matrix, parities.rhs, strict=True):
        variables = hashed[row].tolist()
        while len(variables) > PIECE:
            top += 1
            piece = [*variables[: PIECE - 1], top]
            clauses += (_signs(PIECE, False) * np.array(piece, dtype=np.int32)).tolist()
            variables = [top, *variables[PIECE - 1 :]]
        clauses += (_signs(len(variables), bool(odd)) * np.array(variables, dtype=np.int32)).tolist()
    return clauses
