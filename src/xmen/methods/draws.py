"""Weighted draws that serve every theta: log Z and its gradient over a fixed sample, with the noise of both.

A draw x stands for a piece of the space of valid trajectories: its *measure* e(x), such that for any function g

    E[ sum over draws of e(x) g(x) ] = c * sum over valid tau of g(tau),

with c = 1, or a constant that nobody knows. A member of a cell of m parities has e = 2^m (over its number of copies
where copies are hashed); a sample from any Q has e = 1 / Q, up to a constant. So one batch of draws gives

    log Z-hat(theta) = log sum e(x) exp(theta . f(x)) D(x),       grad log Z-hat = sum p f,   p = e w / sum e w,

for every theta: convex, smooth, and deterministic once the draws are there. Several batches k, each from its own
source, are combined as sum_k a_k log Z-hat_k: constants drop out of the gradient, and the shares a_k are those of
least variance, in proportion to each batch's effective size.

Draws are pairwise independent (members of hash cells are, exactly), so that the variance of the gradient is the sum
of those of its terms: V = noise * sum p^2 (f - mu)(f - mu)^T, with noise = 1 - 2^-m (0 where the whole space was read).
Given the start, log Z is a mean over starts: batches then belong to *parts*, each a space of its own with the share
that the demonstrations have of it, and shares a_k sum to that within a part.

Trajectories that are *known* (demonstrations) can be counted exactly, with e = 1, and left out of the draws: they have
no noise, and they keep every minimum finite that is finite over all trajectories.

Finite is not enough. A state that demonstrations pass and no draw does looks as if it had no other trajectories, and
weights fitted to that are off by log e in every such state. So a known trajectory may also stand for what is like it
and was not drawn: by the share h of a draw, its *doubt*, with e = 1 + h e(x). The doubt is its leverage, which is 1
where nobody else has its features and falls as one over the number of draws that do (`doubt`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from xmen.rewards import Floats

OF_DRAWS, OF_BATCHES = ("log_measure", "log_dynamics", "known", "batch"), ("noise", "part")  # what arrays are of


@dataclass(frozen=True)
class Draws:
    """n draws in B batches, one after the other.

    visits (n, n_states * n_actions): discounted visits of each draw, sparse. log_measure (n,): log e; of those that are
    known, what it would be had they been drawn. log_dynamics (n,): log D. known (n,): counted exactly, without noise.
    batch (n,): which batch, ascending. noise (B,): the factor of each batch's variance, 0 where nothing was left to
    chance. part (B,): which part of the loss each batch is of.
    """

    visits: csr_matrix
    log_measure: Floats
    log_dynamics: Floats
    known: NDArray[np.bool_]
    batch: NDArray[np.int64]
    noise: Floats
    part: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.log_measure)

    @property
    def n_batches(self) -> int:
        """B."""
        return len(self.noise)

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """Where each batch begins (B,)."""
        found: NDArray[np.int64] = np.searchsorted(self.batch, np.arange(self.n_batches))
        return found

    @property
    def whole(self) -> bool:
        """Whether no batch is empty."""
        return bool(np.all(np.bincount(self.batch, minlength=self.n_batches)))

    @classmethod
    def of_samples(
        cls, visits: csr_matrix, log_dynamics: Floats, log_proposal: Floats, n_drawn: int | None = None
    ) -> Self:
        """One batch of independent samples, each drawn with probability exp(log_proposal) (n,), up to a constant.

        They are what is left of `n_drawn`, of which the others turned out to weigh nothing (None: all are left).
        """
        n = len(log_proposal)
        measure = -log_proposal - np.log(n if n_drawn is None else n_drawn)
        nothing = np.zeros(n, dtype=np.int64)
        return cls(visits, measure, log_dynamics, nothing.astype(np.bool_), nothing, np.ones(1), nothing[:1])

    def of_part(self, part: int) -> Draws:
        """The same, as batches of this part."""
        return replace(self, part=np.full(self.n_batches, part))

    def joined(self, other: Draws) -> Draws:
        """These batches, and the other's after them."""
        after = replace(other, batch=other.batch + self.n_batches)
        both = {name: np.concatenate([getattr(self, name), getattr(after, name)]) for name in (*OF_DRAWS, *OF_BATCHES)}
        return Draws(csr_matrix(vstack([self.visits, other.visits])), **both)

    def _some(self, which: NDArray[Any]) -> Draws:
        """Only these draws, a mask or numbers, of all batches."""
        own = {name: getattr(self, name)[which] for name in OF_DRAWS}
        return replace(self, visits=self.visits[which], **own)

    def keeping(self, batches: NDArray[np.bool_]) -> Draws:
        """Only these batches (B,)."""
        if batches.all():
            return self
        kept, number = self._some(batches[self.batch]), np.cumsum(batches) - 1
        return replace(kept, batch=number[kept.batch], noise=self.noise[batches], part=self.part[batches])

    def halves(self) -> tuple[Draws, Draws]:
        """Every other draw, each standing for twice as much, beside all that is known; and the rest likewise."""
        number, doubled = np.cumsum(~self.known), replace(self, log_measure=self.log_measure + math.log(2.0))
        one, other = (doubled._some(np.flatnonzero(self.known | (number % 2 == k))) for k in (0, 1))
        return one, other

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays by name, to be stored."""
        visits = self.visits
        sparse = {"indices": visits.indices.astype(np.int32), "indptr": visits.indptr.astype(np.int64)}
        plain = {name: getattr(self, name) for name in (*OF_DRAWS, *OF_BATCHES)}
        return {"data": visits.data, **sparse, "n_columns": np.array(visits.shape[1]), **plain}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """The draws that `as_arrays` told of."""
        shape = (len(arrays["log_measure"]), int(arrays["n_columns"]))
        visits = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        arrays = {"part": np.zeros(len(arrays["noise"]), dtype=np.int64), **arrays}  # of a time when all was one
        return cls(visits, *(arrays[name] for name in (*OF_DRAWS, *OF_BATCHES)))
