"""Weighted draws that serve every theta: log Z and its gradient over a fixed sample, with the noise of both.

A draw x stands for a piece of the space of valid trajectories: its *measure* e(x), such that for any function g

    E[ sum over draws of e(x) g(x) ] = c * sum over valid tau of g(tau),

with c = 1, or a constant that nobody knows. A member of a cell of m parities has e = 2^m (over its number of copies
where copies are hashed); a sample from any Q has e = 1 / Q, up to a constant. So one batch of draws gives

    log Z-hat(theta) = log sum e(x) exp(theta . f(x)) D(x),       grad log Z-hat = sum p f,   p = e w / sum e w,

for every theta: convex, smooth, and deterministic once the draws are there. Several batches k are combined as sum_k a_k
log Z-hat_k: constants drop out of the gradient. Given the start, log Z is a mean over starts: batches then belong to
*parts*, each a space of its own, and shares a_k sum within a part to the share that demonstrations have of it.

A *relaxation* may be known exactly: a wider space, such as the trajectories of the rules that fit a product, with its
log Z and its mean of f at every theta. Draws of all of it, valid or not, are then a control variate:

    log Z-hat = log (sum of e w over valid draws) + b (log Z_relaxed - log (sum of e w over all draws)).

The noise of n draws, of which the share A is valid, is that of (1 / A - 2 b) Var_valid + b^2 Var_all over n: least at
b = Var_valid / Var_all, where it is always below 1 / A Var_valid. Where few draws are valid or the others go far
astray, b is near 0, and only the valid ones need be kept.

Draws are pairwise independent (members of hash cells are, exactly), so that the variance of the gradient is the sum
of those of its terms: V = noise * sum p^2 (f - mu)(f - mu)^T, with noise = 1 - 2^-m (0 where the whole space was read).

Trajectories that are *known* (demonstrations) are counted exactly, with e = 1, and left out of the draws: they have no
noise, and they keep every minimum finite that is finite over all trajectories. Finite is not enough: a state that
demonstrations pass and no draw does looks as if it had no other trajectories, and weights fitted to that are off by
log e in every such state. So a known trajectory also stands for others like it by the share h of a draw, its *doubt*:
e = 1 + h e(x) (`judge.doubts`).
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

OF_DRAWS = ("log_measure", "log_dynamics", "known", "valid", "batch")  # arrays with an entry per draw
OF_BATCHES = ("noise", "part", "control")  # arrays with an entry per batch


@dataclass(frozen=True)
class Draws:
    """n draws in B batches, one after the other.

    visits (n, n_states * n_actions): discounted visits of each draw, sparse. log_measure (n,): log e; of known ones,
    its value had they been drawn. log_dynamics (n,): log D. known (n,): counted exactly, without noise. valid (n,):
    others are there only as draws of a relaxation. batch (n,): the number of its batch, ascending. noise (B,): the
    factor of each batch's variance, 0 where nothing was left to chance. part (B,): the part of the loss that each batch
    estimates. control (B,): b, above 0 where a batch has all draws of a relaxation that is known exactly.
    """

    visits: csr_matrix
    log_measure: Floats
    log_dynamics: Floats
    known: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    batch: NDArray[np.int64]
    noise: Floats
    part: NDArray[np.int64]
    control: Floats

    def __len__(self) -> int:
        return len(self.log_measure)

    @property
    def n_batches(self) -> int:
        return len(self.noise)

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """The first draw of each batch (B,)."""
        found: NDArray[np.int64] = np.searchsorted(self.batch, np.arange(self.n_batches))
        return found

    @classmethod
    def of_parts(
        cls,
        visits: csr_matrix,
        log_measure: Floats,
        log_dynamics: Floats,
        valid: NDArray[np.bool_],
        part: NDArray[np.int64],
        control: Floats,
    ) -> Self:
        """Independent samples, one batch for each part; `part` (n,) is ascending and without gaps.

        Parts with b = 0 in `control` (P,) keep only the valid draws.
        """
        number = np.arange(len(control))
        known, noise = np.zeros(len(part), dtype=np.bool_), np.ones(len(control))
        every = cls(visits, log_measure, log_dynamics, known, valid, part, noise, number, control)
        return every.some(valid | (control[part] > 0.0))

    def valid_alone(self) -> Self:
        """The valid draws, without a control."""
        return replace(self.some(self.valid), control=np.zeros(self.n_batches))

    def some(self, which: NDArray[Any]) -> Self:
        """Only these draws, a mask or numbers, of all batches."""
        return replace(self, visits=self.visits[which], **{name: getattr(self, name)[which] for name in OF_DRAWS})

    def joined(self, other: Draws) -> Draws:
        """These batches, and the other's after them."""
        after = replace(other, batch=other.batch + self.n_batches)
        both = {name: np.concatenate([getattr(self, name), getattr(after, name)]) for name in (*OF_DRAWS, *OF_BATCHES)}
        return Draws(csr_matrix(vstack([self.visits, other.visits])), **both)

    def keeping(self, batches: NDArray[np.bool_]) -> Draws:
        """Only these batches (B,)."""
        kept, number = self.some(batches[self.batch]), np.cumsum(batches) - 1
        return replace(kept, batch=number[kept.batch], **{name: getattr(self, name)[batches] for name in OF_BATCHES})

    def halves(self) -> tuple[Draws, Draws]:
        """Every other draw, each standing for twice as much, beside all that is known; and the rest likewise."""
        number, doubled = np.cumsum(~self.known), replace(self, log_measure=self.log_measure + math.log(2.0))
        one, other = (doubled.some(np.flatnonzero(self.known | (number % 2 == k))) for k in (0, 1))
        return one, other

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays by name, to be stored."""
        visits = self.visits
        sparse = {"indices": visits.indices.astype(np.int32), "indptr": visits.indptr.astype(np.int64)}
        plain = {name: getattr(self, name) for name in (*OF_DRAWS, *OF_BATCHES)}
        return {"data": visits.data, **sparse, "n_columns": np.array(visits.shape[1]), **plain}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """The draws that `as_arrays` gave."""
        shape = (len(arrays["log_measure"]), int(arrays["n_columns"]))
        visits = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        return cls(visits, *(arrays[name] for name in (*OF_DRAWS, *OF_BATCHES)))
