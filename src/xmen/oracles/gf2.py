"""Linear algebra over GF(2) on rows of bits packed into 64-bit words.

Parities are brought into reduced echelon form before any solver sees them: contradictions and repetitions are found
without a query, and each pivot variable is left in one parity only, which halves the time of solvers that have to
encode parities.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.compiled import compiled
from xmen.oracles.formula import Bits, Parities

Words: TypeAlias = NDArray[np.uint64]
Indices: TypeAlias = NDArray[np.int64]


@compiled
def popcount(word: np.uint64) -> np.int64:
    """The number of bits set; in this form compilers make it one instruction."""
    x = word - (word >> np.uint64(1) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + (x >> np.uint64(2) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(x * np.uint64(0x0101010101010101) >> np.uint64(56))


@compiled
def odd(words: Words, others: Words) -> bool:
    """Whether an odd number of bits is set in both."""
    # Not `words & others`, which would allocate.
    x = np.uint64(0)
    for w in range(len(words)):
        x ^= words[w] & others[w]
    return bool(popcount(x) & 1)


@compiled
def eliminate(rows: Words, columns: Indices) -> Indices:
    """Reduce rows (m, n_words) in place, taking pivots from the columns in the given order; returns the pivots.

    Row i of the result has pivot i; the rows after the last pivot are zero in all the given columns. O(m^2 n_words).
    """
    m, n_words = rows.shape
    pivots = np.empty(m, np.int64)
    rank = 0
    for column in columns:
        if rank == m:
            break
        word, bit = column >> 6, np.uint64(1) << np.uint64(column & 63)
        found = rank
        while found < m and not rows[found, word] & bit:
            found += 1
        if found == m:
            continue
        for w in range(n_words):
            rows[rank, w], rows[found, w] = rows[found, w], rows[rank, w]
        for other in range(m):
            if other != rank and rows[other, word] & bit:
                for w in range(n_words):
                    rows[other, w] ^= rows[rank, w]
        pivots[rank] = column
        rank += 1
    return pivots[:rank]


def pack(bits: Bits) -> Words:
    """Rows of bits (k, n) as words (k, ceil(n / 64)); column c is bit c % 64 of word c // 64."""
    k, n = bits.shape
    n_words = -(-n // 64)
    # An empty array has no bytes to view as words.
    if k == 0 or n == 0:
        return np.zeros((k, n_words), dtype=np.uint64)
    padded = np.zeros((k, 8 * n_words), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8").astype(np.uint64, copy=False)


def unpack(words: Words, n: int) -> Bits:
    """The inverse of `pack`: rows of n bits."""
    if words.size == 0:
        return np.zeros((len(words), n), dtype=np.bool_)
    raw = np.ascontiguousarray(words).astype("<u8", copy=False).view(np.uint8)
    return np.unpackbits(raw, axis=1, count=n, bitorder="little").view(np.bool_)


@dataclass(frozen=True)
class Reduced:
    """Parities in reduced echelon form: independent rows, each pivot column in one row only."""

    matrix: Bits  # (rank, n)
    rhs: Bits  # (rank,)
    pivots: Indices  # (rank,)

    @property
    def free(self) -> Indices:
        """The columns that determine the others."""
        return np.setdiff1d(np.arange(self.matrix.shape[1]), self.pivots)


def reduced(parities: Parities) -> Reduced | None:
    """Equivalent parities in reduced echelon form; None when they contradict each other.

    >>> even = Parities(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool), np.zeros(3, dtype=bool))
    >>> reduced(even).matrix.astype(int)
    array([[1, 0, 1],
           [0, 1, 1]])
    >>> reduced(Parities(even.matrix, ~even.rhs)) is None
    True
    """
    n = parities.matrix.shape[1]
    rows = pack(np.column_stack([parities.matrix, parities.rhs]))
    pivots = eliminate(rows, np.arange(n))
    bits = unpack(rows, n + 1)
    if np.any(bits[len(pivots) :, n]):
        return None
    kept = bits[: len(pivots)]
    return Reduced(kept[:, :n], kept[:, n], pivots)


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
