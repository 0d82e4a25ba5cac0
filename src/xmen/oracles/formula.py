"""The formulas that oracles answer questions about, the parities that cut them into cells, and what an oracle is.

Nothing here knows of worlds or trajectories: a formula is a set of clauses, and the hash variables are those that
determine each of its models.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xmen.errors import OracleTimeoutError

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

    @cached_property
    def hashed(self) -> NDArray[np.int64]:
        return np.array(self.hash_variables, dtype=np.int64)

    @property
    def n_hash(self) -> int:
        return len(self.hash_variables)

    @property
    def n_clauses(self) -> int:
        return int(np.count_nonzero(self.clauses == 0))

    def clause_list(self) -> list[list[int]]:
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
        return np.asarray(np.all(odd.astype(np.bool_) == self.rhs, axis=1))


class Stopwatch:
    """Adds up the seconds inside `with` blocks: what the caller takes between two solutions is not the oracle's."""

    def __init__(self, name: str, limit: float | None) -> None:
        self.name, self.limit = name, limit
        self._used = 0.0
        self._began: float | None = None

    def __enter__(self) -> "Stopwatch":
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._used, self._began = self.used, None

    @property
    def used(self) -> float:
        return self._used + (0.0 if self._began is None else time.perf_counter() - self._began)

    @property
    def left(self) -> float | None:
        """Seconds to go, None without a limit; raises OracleTimeoutError when there are none."""
        left = None if self.limit is None else self.limit - self.used
        if left is not None and left <= 0:
            raise self.expired()
        return left

    def check(self) -> None:
        """Raises OracleTimeoutError when there is no time left."""
        if self.limit is not None and self.used >= self.limit:
            raise self.expired()

    def expired(self) -> OracleTimeoutError:
        advice = "give it more time (time_limit), or an easier question (fewer parities, another oracle)"
        return OracleTimeoutError(f"{self.name} was stopped at its time limit of {self.limit:g} s: {advice}")


class Answer(NamedTuple):
    """A model's hash bits, or None with a set of assumptions that cannot hold together."""

    bits: Bits | None
    core: tuple[int, ...] = ()


class Oracle(Protocol):
    """An NP oracle for one formula. Oracles keep no state between calls that could change an answer.

    Every call that exceeds `time_limit` seconds (None: no limit) raises OracleTimeoutError.
    """

    name: str
    formula: Formula
    time_limit: float | None
    n_queries: int  # how often the solver was asked, for the accounts of samplers

    def solve(self, assumptions: Sequence[int] = ()) -> Answer:
        """A model under assumed literals; or, when there is none, a core: a subset of the assumptions to blame."""

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        """All models that satisfy the parities, each once, as rows of hash bits; the caller may stop early."""
