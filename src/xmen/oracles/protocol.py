"""What every oracle answers: is there a model, and which models lie in this cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from xmen.oracles.formula import Bits, Formula, Parities


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
