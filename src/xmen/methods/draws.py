"""Weighted draws that serve every theta: log Z and its gradient over a fixed sample, with the noise of both.

A draw x stands for a piece of the space of valid trajectories: its *measure* e(x), such that for any function g

    E[ sum over draws of e(x) g(x) ] = c * sum over valid tau of g(tau),

with c = 1, or a constant that nobody knows. A member of a cell of m parities has e = 2^m (over its number of copies
where copies are hashed); a sample from any Q has e = 1 / Q, up to a constant. So one batch of draws gives

    log Z-hat(theta) = log sum e(x) exp(theta . f(x)) D(x),       grad log Z-hat = sum p f,   p = e w / sum e w,

for every theta: convex, smooth, and deterministic once the draws are there. Several batches k, each from its own
source, are combined as sum_k a_k log Z-hat_k: constants drop out of the gradient, and the shares a_k are those of
least variance, in proportion to each batch's effective size.

A *relaxation* may be known exactly: a wider space, such as the trajectories of the rules that fit a product, with its
log Z and its mean of f at every theta. Draws of all of it, valid or not, then have a sum whose truth is known, and that
goes up and down with the sum over the valid ones:

    log Z-hat = log (sum of e w over valid draws) + b (log Z_relaxed - log (sum of e w over all draws)).

With b = 0 that is the estimate without a relaxation; b = 1 says that only the share of what is valid has to be found.
The noise of n draws, of which the share A is valid, is that of (1 / A - 2 b) Var_valid + b^2 Var_all over n: least at
b = Var_valid / Var_all, where it is always below 1 / A Var_valid (a control variate with its best coefficient). Where
few draws are valid or the others go far astray, b is near 0, and only the valid ones need be kept.

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

OF_DRAWS = ("log_measure", "log_dynamics", "known", "valid", "batch")  # what arrays are of
OF_BATCHES = ("noise", "part", "relaxed")


@dataclass(frozen=True)
class Draws:
    """n draws in B batches, one after the other.

    visits (n, n_states * n_actions): discounted visits of each draw, sparse. log_measure (n,): log e; of those that are
    known, what it would be had they been drawn. log_dynamics (n,): log D. known (n,): counted exactly, without noise.
    valid (n,): others are there only as draws of a relaxation. batch (n,): which batch, ascending. noise (B,): the
    factor of each batch's variance, 0 where nothing was left to chance. part (B,): which part of the loss each batch is
    of. relaxed (B,): b, above 0 where a batch has all draws of a relaxation that is known exactly.
    """

    visits: csr_matrix
    log_measure: Floats
    log_dynamics: Floats
    known: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    batch: NDArray[np.int64]
    noise: Floats
    part: NDArray[np.int64]
    relaxed: Floats

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
        return cls.of_relaxed(visits, measure, log_dynamics, np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.int64))

    @classmethod
    def of_relaxed(
        cls,
        visits: csr_matrix,
        log_measure: Floats,
        log_dynamics: Floats,
        valid: NDArray[np.bool_],
        part: NDArray[np.int64],
        relaxed: Floats | None = None,
    ) -> Self:
        """One batch for each part; `part` (n,) is whose each draw is, ascending and without gaps.

        Parts with b = 0 in `relaxed` (P,) keep only the valid draws; None: all have.
        """
        n_parts = int(part[-1]) + 1
        relaxed = np.zeros(n_parts) if relaxed is None else relaxed
        known, number = np.zeros(len(part), dtype=np.bool_), np.arange(n_parts)
        found = cls(visits, log_measure, log_dynamics, known, valid, part, np.ones(n_parts), number, relaxed)
        return found._some(valid | (relaxed[part] > 0.0))

    def relaxed_by(self, b: float) -> Draws:
        """The same with this b in place of 1; with 0, only what is valid."""
        changed = replace(self, relaxed=b * self.relaxed)
        return changed if b > 0.0 else changed._some(self.valid)

    def of_part(self, part: int) -> Draws:
        """The same, as batches of this part."""
        return replace(self, part=np.full(self.n_batches, part))

    def joined(self, other: Draws) -> Draws:
        """These batches, and the other's after them."""
        after = replace(other, batch=other.batch + self.n_batches)
        both = {name: np.concatenate([getattr(self, name), getattr(after, name)]) for name in (*OF_DRAWS, *OF_BATCHES)}
        return Draws(csr_matrix(vstack([self.visits, other.visits])), **both)

    def _some(self, which: NDArray[Any]) -> Self:
        """Only these draws, a mask or numbers, of all batches."""
        own = {name: getattr(self, name)[which] for name in OF_DRAWS}
        return replace(self, visits=self.visits[which], **own)

    def keeping(self, batches: NDArray[np.bool_]) -> Draws:
        """Only these batches (B,)."""
        if batches.all():
            return self
        kept, number = self._some(batches[self.batch]), np.cumsum(batches) - 1
        return replace(kept, batch=number[kept.batch], **{name: getattr(self, name)[batches] for name in OF_BATCHES})

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
        return cls(visits, *(arrays[name] for name in (*OF_DRAWS, *OF_BATCHES)))
