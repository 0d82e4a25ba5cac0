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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from xmen.methods.coordinates import Value
from xmen.rewards import Floats
from xmen.rewards.features import Features

CHUNK = 4_000_000  # numbers in a dense block of features
ALL: Floats = np.ones(1)  # the share of a loss that is one part


@dataclass(frozen=True)
class Draws:
    """n draws in B batches, one after the other.

    visits (n, n_states * n_actions): discounted visits of each draw, sparse. log_measure (n,): log e. log_dynamics
    (n,): log D. known (n,): counted exactly, without noise. batch (n,): which batch, ascending. noise (B,): the factor
    of each batch's variance, 0 where nothing was left to chance. part (B,): which part of the loss each batch is of.
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
        return Draws(
            csr_matrix(vstack([self.visits, other.visits])),
            np.concatenate([self.log_measure, other.log_measure]),
            np.concatenate([self.log_dynamics, other.log_dynamics]),
            np.concatenate([self.known, other.known]),
            np.concatenate([self.batch, other.batch + self.n_batches]),
            np.concatenate([self.noise, other.noise]),
            np.concatenate([self.part, other.part]),
        )

    def keeping(self, batches: NDArray[np.bool_]) -> Draws:
        """Only these batches (B,)."""
        if batches.all():
            return self
        kept = batches[self.batch]
        number = np.cumsum(batches) - 1
        return Draws(
            self.visits[kept],
            self.log_measure[kept],
            self.log_dynamics[kept],
            self.known[kept],
            number[self.batch[kept]],
            self.noise[batches],
            self.part[batches],
        )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays by name, to be stored."""
        return {
            "data": self.visits.data,
            "indices": self.visits.indices.astype(np.int32),
            "indptr": self.visits.indptr.astype(np.int64),
            "n_columns": np.array(self.visits.shape[1]),
            "log_measure": self.log_measure,
            "log_dynamics": self.log_dynamics,
            "known": self.known,
            "batch": self.batch,
            "noise": self.noise,
            "part": self.part,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """The draws that `as_arrays` told of."""
        shape = (len(arrays["log_measure"]), int(arrays["n_columns"]))
        visits = csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        names = ("log_measure", "log_dynamics", "known", "batch", "noise", "part")
        arrays = {"part": np.zeros(len(arrays["noise"]), dtype=np.int64), **arrays}  # of a time when all was one
        return cls(visits, *(arrays[name] for name in names))


class Reweighted(NamedTuple):
    """The draws at some weights: log Z-hat of each batch (B,), p of each draw within its batch (n,)."""

    log_partition: Floats
    probability: Floats


class DrawnLoss:
    """L-hat(theta) = sum_k a_k log Z-hat_k - theta . mean f + l2/2 |theta|^2 over fixed draws, and its gradient.

    `parts` (P,) are the shares of the parts of the loss; they sum to 1.
    """

    def __init__(
        self, draws: Draws, features: Features, demo_features: Floats, l2: float | Floats, parts: Floats = ALL
    ) -> None:
        self.draws, self.features, self.demo_features, self.l2, self.parts = draws, features, demo_features, l2, parts
        self.shares = self._shared(np.ones(draws.n_batches))

    def of_part(self, part: int) -> DrawnLoss:
        """One part as a loss of its own, with the batches' shares as they are; of demonstrations it knows nothing."""
        own = self.draws.part == part
        alone = DrawnLoss(self.draws.keeping(own).of_part(0), self.features, self.demo_features, self.l2)
        alone.shares = self.shares[own] / self.parts[part]
        return alone

    def _shared(self, sizes: Floats) -> Floats:
        """Shares of the batches in proportion to sizes (B,) within each part, equal ones in a part that has no size."""
        part = self.draws.part
        total = np.bincount(part, weights=sizes, minlength=len(self.parts))[part]
        even = 1.0 / np.bincount(part, minlength=len(self.parts))[part]
        shares: Floats = self.parts[part] * np.where(total > 0.0, sizes / np.where(total > 0.0, total, 1.0), even)
        return shares

    @property
    def newest(self) -> NDArray[np.int64]:
        """The last batch of each part (P,)."""
        return np.array([np.flatnonzero(self.draws.part == part)[-1] for part in range(len(self.parts))])

    def look(self, weights: Floats) -> Reweighted:
        """log Z-hat and the draws' probabilities; O(n) and one product with the sparse visits."""
        draws = self.draws
        logs = draws.visits @ self.features.table(weights).ravel() + draws.log_measure + draws.log_dynamics
        highest = np.maximum.reduceat(logs, draws.begins)
        p = np.exp(logs - highest[draws.batch])
        totals = np.add.reduceat(p, draws.begins)
        return Reweighted(highest + np.log(totals), p / totals[draws.batch])

    def __call__(self, weights: Floats) -> Value:
        look = self.look(weights)
        visits = (look.probability * self.shares[self.draws.batch]) @ self.draws.visits
        pairs = self.features.table(weights).shape
        log_z = float(self.shares @ look.log_partition)
        loss = log_z - float(weights @ self.demo_features) + 0.5 * float(np.sum(self.l2 * weights**2))
        gradient = self.features.contract(np.asarray(visits).reshape(pairs)) - self.demo_features + self.l2 * weights
        return Value(loss, gradient)

    def sizes(self, weights: Floats) -> Floats:
        """How many draws of each batch carry the weight that is not known exactly (B,).

        (sum p)^2 / sum p^2 over all that were drawn: small where a few draws have it all, and what they say of other
        trajectories is an accident.
        """
        draws = self.draws
        p = np.where(draws.known, 0.0, self.look(weights).probability)
        total, squares = np.add.reduceat(p, draws.begins), np.add.reduceat(p**2, draws.begins)
        sizes: Floats = np.divide(total**2, squares, out=np.zeros(draws.n_batches), where=squares > 0.0)
        return sizes

    def seen(self, weights: Floats) -> float:
        """`sizes` of all batches together: n draws shared by parts as n * `parts` would be worth n.

        A part that was read as a whole has no noise, and asks for none.
        """
        found = np.bincount(self.draws.part, weights=self.sizes(weights), minlength=len(self.parts))
        if len(self.parts) == 1:
            return float(found[0])
        drawn = np.setdiff1d(np.arange(len(self.parts)), self.draws.part[self.draws.noise == 0.0])
        if not found[drawn].all():
            return 0.0
        noise = float(np.sum(self.parts[drawn] ** 2 / found[drawn]))
        return 1.0 / noise if noise > 0.0 else np.inf

    def share_by_size(self, weights: Floats) -> None:
        """Set the batches' shares to those of least variance at these weights, in proportion to their sizes.

        The variance itself would not do: weights that were fitted to a batch make it look better than it is, above all
        by giving its weight to what is known.
        """
        exact, part = self.draws.noise == 0.0, self.draws.part
        self.shares = self._shared(np.where(np.isin(part, part[exact]), exact, self.sizes(weights)))

    def lift_newest(self) -> None:
        """Give the last batch of each part no smaller a share of it than its number of draws would."""
        counts = np.add.reduceat(np.where(self.draws.known, 0.0, 1.0), self.draws.begins)
        for part, (newest, whole) in enumerate(zip(self.newest.tolist(), self.parts.tolist(), strict=True)):
            own = self.draws.part == part
            least = whole * counts[newest] / max(counts[own].sum(), 1.0)
            if self.shares[newest] < least:
                self.shares[own] *= (whole - least) / (whole - self.shares[newest])
                self.shares[newest] = least

    def helping(self, least: float) -> NDArray[np.bool_]:
        """Which batches (B,) have at least this share of their part; the newest ones stay, whatever theirs."""
        found: NDArray[np.bool_] = self.shares >= least * self.parts[self.draws.part]
        found[self.newest] = True
        return found

    def spread(self, weights: Floats) -> Spread:
        """The Hessian of L-hat and the covariance of its gradient's noise, (d, d) each. O(n d^2)."""
        look, draws, d = self.look(weights), self.draws, self.features.d
        hessian, noise = np.zeros((d, d)), np.zeros((d, d))
        share = self.shares[draws.batch]
        fixed = share**2 * np.where(draws.known, 0.0, draws.noise[draws.batch])
        step = max(1, CHUNK // d)
        for k, begin in enumerate(draws.begins):
            end = draws.begins[k + 1] if k + 1 < draws.n_batches else len(draws)
            if self.shares[k] == 0.0:
                continue
            mean = self._mean(look.probability[begin:end], draws.visits[begin:end])
            for first in range(begin, end, step):
                rows = slice(first, min(first + step, end))
                p = look.probability[rows]
                away = self.features.contract(draws.visits[rows]) - mean
                hessian += away.T @ (away * (share[rows] * p)[:, None])
                noise += away.T @ (away * (fixed[rows] * p**2)[:, None])
        hessian[np.diag_indices(d)] += self.l2
        log_noise = float(np.sqrt((fixed * look.probability**2).sum()))
        return Spread(hessian, noise, log_noise)

    def _mean(self, p: Floats, visits: csr_matrix) -> Floats:
        pairs = self.features.table(np.zeros(self.features.d)).shape
        return self.features.contract(np.asarray(p @ visits).reshape(pairs))


class Spread(NamedTuple):
    """The curvature of the loss (d, d), the covariance of its gradient (d, d), and the standard error of log Z."""

    hessian: Floats
    noise: Floats
    log_partition_std: float
