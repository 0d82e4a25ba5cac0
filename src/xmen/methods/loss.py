"""Weighted draws that serve every theta: log Z, its gradient and curvature over a fixed sample, and their noise.

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
e = 1 + h e(x) (`rounds.doubts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse, vstack

from xmen.errors import DivergenceError
from xmen.methods.runs import Value
from xmen.rewards.linear import Features, Floats

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]

OF_DRAWS = ("log_measure", "log_dynamics", "known", "valid", "batch")  # arrays with an entry per draw
OF_BATCHES = ("noise", "part", "control")  # arrays with an entry per batch


@dataclass(frozen=True)
class Draws:
    """n draws in B batches, one after the other."""

    visits: csr_matrix  # (n, n_states * n_actions): discounted visits of each draw
    log_measure: Floats  # (n,): log e; of known ones, its value had they been drawn
    log_dynamics: Floats  # (n,): log D
    known: Bools  # (n,): counted exactly, without noise
    valid: Bools  # (n,): others are there only as draws of a relaxation
    batch: Ints  # (n,): the number of its batch, ascending
    noise: Floats  # (B,): the factor of each batch's variance, 0 where nothing was left to chance
    part: Ints  # (B,): the part of the loss that each batch estimates
    control: Floats  # (B,): b, above 0 where a batch has all draws of a relaxation that is known exactly

    def __len__(self) -> int:
        return len(self.log_measure)

    @property
    def n_batches(self) -> int:
        return len(self.noise)

    @cached_property
    def begins(self) -> Ints:
        """The first draw of each batch (B,)."""
        return np.searchsorted(self.batch, np.arange(self.n_batches))

    def total(self, weights: Floats) -> Floats:
        """The sum of these weights (n,) over each batch (B,)."""
        return np.asarray(np.add.reduceat(weights, self.begins))

    @classmethod
    def of_parts(
        cls, visits: csr_matrix, log_measure: Floats, log_dynamics: Floats, valid: Bools, part: Ints, control: Floats
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

    def keeping(self, batches: Bools) -> Draws:
        """Only these batches (B,)."""
        kept, number = self.some(batches[self.batch]), np.cumsum(batches) - 1
        return replace(kept, batch=number[kept.batch], **{name: getattr(self, name)[batches] for name in OF_BATCHES})

    def halves(self) -> tuple[Draws, Draws]:
        """Every other draw, each standing for twice as much, beside all that is known; and the rest likewise."""
        number, doubled = np.cumsum(~self.known), replace(self, log_measure=self.log_measure + math.log(2.0))
        one, other = (doubled.some(np.flatnonzero(self.known | (number % 2 == k))) for k in (0, 1))
        return one, other

    def as_arrays(self) -> dict[str, Any]:
        """The arguments that make these draws, to be stored."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


LARGEST_LOG_WEIGHT = 600.0  # nats: log-weights over that of the best valid draw are cut here, as exp(700) overflows
ALL: Floats = np.ones(1)  # the share of a loss that is one part


Relaxation: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""At weights (d,), the exact log Z_relaxed of each part (P,), and the mean of f in each, summed with shares (P,): (d,).

DivergenceError where the weights of ever longer trajectories do not add up."""


class Reweighted(NamedTuple):
    """The draws at some weights."""

    log_sum: Floats  # (B,): log Z-hat of each batch, less b log Z_relaxed where it has a control
    valid: Floats  # (n,): p of each draw among the valid ones of its batch
    every: Floats  # (n,): b times p of each draw among all of its batch
    pull: Floats  # (n,): the factor of each draw's f in the gradient
    log_every: Floats  # (B,): log of the sum over all draws of each batch


@dataclass(frozen=True, eq=False)
class DrawnLoss:
    """L-hat(theta) = sum_k a_k log Z-hat_k - theta . mean f + l2/2 |theta|^2 over fixed draws, and its gradient."""

    draws: Draws
    features: Features
    demo_features: Floats
    l2: float | Floats
    parts: Floats = field(default_factory=lambda: ALL)  # (P,): the shares of the parts of the loss, which sum to 1
    relaxation: Relaxation | None = None  # asked where some batches have a control
    given_shares: Floats | None = None  # (B,): the a_k; None: equal ones within each part
    doubt: Floats | None = None  # (n,): the share of a draw that each known trajectory stands for; not read of others
    _looked: list[tuple[Floats, Reweighted]] = field(default_factory=list, init=False, repr=False)  # the last one

    def restrained(self, restraint: float) -> DrawnLoss:
        """This loss, and restraint / 2 * |theta|^2 in units of the features."""
        return replace(self, l2=self.l2 + restraint * self.features.scale**2)

    def of_part(self, part: int) -> DrawnLoss:
        """One part as a loss of its own, with the batches' shares as they are; without doubts and relaxation."""
        own = self.draws.part == part
        draws, shares = self.draws.keeping(own), self.shares[own] / self.parts[part]
        draws = replace(draws, part=np.zeros(draws.n_batches, dtype=np.int64))
        return DrawnLoss(draws, self.features, self.demo_features, self.l2, given_shares=shares)

    @cached_property
    def shares(self) -> Floats:
        """a_k of each batch (B,)."""
        return self._shared(np.ones(self.draws.n_batches)) if self.given_shares is None else self.given_shares

    def _shared(self, sizes: Floats) -> Floats:
        """Shares of the batches in proportion to sizes (B,) within each part, equal ones in a part that has no size."""
        part = self.draws.part
        total = np.bincount(part, weights=sizes, minlength=len(self.parts))[part]
        even = 1.0 / np.bincount(part, minlength=len(self.parts))[part]
        return self.parts[part] * np.where(total > 0.0, sizes / np.where(total > 0.0, total, 1.0), even)

    @cached_property
    def measures(self) -> tuple[Floats, Floats]:
        """log e of each draw, and the part of e that was left to chance (n,) each."""
        draws = self.draws
        with np.errstate(divide="ignore"):
            doubt = np.log(np.zeros(len(draws)) if self.doubt is None else self.doubt)
        drawn = draws.log_measure + np.where(draws.known, doubt, 0.0)
        log_measure = np.logaddexp(np.where(draws.known, 0.0, -np.inf), drawn)
        return log_measure, np.exp(drawn - log_measure)

    def look(self, weights: Floats) -> Reweighted:
        """log Z-hat and the draws' probabilities; O(n) and one product with the sparse visits."""
        if not (self._looked and np.array_equal(self._looked[0][0], weights)):
            self._looked[:] = [(weights, self._look(weights))]
        return self._looked[0][1]

    def _look(self, weights: Floats) -> Reweighted:
        draws, batch = self.draws, self.draws.batch
        logs = draws.visits @ self.features.table(weights).ravel() + self.measures[0] + draws.log_dynamics
        highest = np.maximum.reduceat(np.where(draws.valid, logs, -np.inf), draws.begins)
        every = np.exp(np.minimum(logs - highest[batch], LARGEST_LOG_WEIGHT))
        valid = np.where(draws.valid, every, 0.0)
        totals = draws.total(valid)
        log_sum, valid = highest + np.log(totals), valid / totals[batch]
        if not draws.control.any():
            return Reweighted(log_sum, valid, np.zeros(1), valid, log_sum)
        totals = draws.total(every)
        log_every, every = highest + np.log(totals), every / totals[batch]
        # The log of a sum of n draws is too small by half its variance, about sum p^2 / 2. With thousands of parts of a
        # few draws each that would outweigh the noise of all of them together, so it is added, and its gradient too.
        some = np.where(draws.control > 0.0, draws.noise, 0.0)
        squares, all_squares = (some * draws.total(p**2) for p in (valid, every))
        log_sum = log_sum + 0.5 * squares - draws.control * (log_every + 0.5 * all_squares)
        pull = valid * (1.0 + some[batch] * valid - squares[batch])
        of_all = 1.0 + some[batch] * every - all_squares[batch]
        every *= draws.control[batch]
        return Reweighted(log_sum, valid, every, pull - every * of_all, log_every)

    def __call__(self, weights: Floats) -> Value:
        look, draws = self.look(weights), self.draws
        visits = (look.pull * self.shares[draws.batch]) @ draws.visits
        log_z, gradient = float(self.shares @ look.log_sum), self.features.contract(np.asarray(visits))
        if draws.control.any():
            assert self.relaxation is not None
            shares: Floats = np.zeros(len(self.parts))
            np.add.at(shares, draws.part, self.shares * draws.control)
            try:
                known, mean = self.relaxation(weights, shares)
            except DivergenceError:
                return Value(np.inf, np.full(len(weights), np.nan))
            log_z, gradient = log_z + float(shares @ known), gradient + mean
        loss = log_z - float(weights @ self.demo_features) + 0.5 * float(np.sum(self.l2 * weights**2))
        return Value(loss, gradient - self.demo_features + self.l2 * weights)

    def sizes(self, weights: Floats) -> Floats:
        """How many draws of each batch carry the weight that is not known exactly (B,).

        (sum p)^2 / sum p^2 over all that were drawn: small where a few draws have it all, and what they say of other
        trajectories is an accident.
        """
        return self.draws.total(self.worth(weights))

    def worth(self, weights: Floats) -> Floats:
        """How many draws each draw is worth (n,): its share of the weight in its batch, times the batch's size."""
        draws = self.draws
        p = np.where(draws.known, 0.0, self.look(weights).valid)
        total, squares = draws.total(p), draws.total(p**2)
        scale = np.divide(total, squares, out=np.zeros(draws.n_batches), where=squares > 0.0)
        return np.asarray(p * scale[draws.batch])

    def seen(self, weights: Floats) -> float:
        """The number of independent draws that all batches are worth, shared among parts as `parts` says.

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

    def accepted(self, weights: Floats) -> float:
        """The mean log of the share of valid draws in relaxed batches, as the draws alone have it; 0 without any."""
        draws, look = self.draws, self.look(weights)
        some = np.where(draws.control > 0.0, self.shares, 0.0)
        logs = look.log_sum - (1.0 - draws.control) * look.log_every
        return float(some @ logs) / float(some.sum()) if some.any() else 0.0

    def acceptance(self, weights: Floats) -> Floats:
        """The share of its relaxation that is valid, of each part (P,), as the draws of all batches have it.

        0 where the weights of ever longer trajectories do not add up.
        """
        draws, nothing = self.draws, np.zeros(len(self.parts))
        assert self.relaxation is not None
        try:
            known = self.relaxation(weights, nothing)[0]
        except DivergenceError:
            return nothing
        logs = self.shares * (self.look(weights).log_sum - (1.0 - draws.control) * known[draws.part])
        found = np.bincount(draws.part, weights=logs, minlength=len(self.parts))
        return np.exp(np.minimum(np.divide(found, self.parts, out=nothing, where=self.parts > 0.0), 0.0))

    def shared(self, weights: Floats) -> DrawnLoss:
        """This loss with the batches' shares of least variance at these weights, in proportion to their sizes.

        The variance itself would take a (d, d) matrix for each batch, and weights that were fitted to a batch make it
        look better than it is. Measured on 8 tasks of one weight per state, two fits each: shares by 1 / tr(H^+ V_k)
        end 0.0125 nats from the optimum on average, shares by size too.
        """
        exact, part = self.draws.noise == 0.0, self.draws.part
        sizes = np.where(np.isin(part, part[exact]), exact, self.sizes(weights))
        return replace(self, given_shares=self._shared(sizes))


# ---- The curvature of a loss over draws, and the noise of its gradient.
#
# With p the probabilities of the valid draws of a batch and mu their mean of f, the Hessian of log Z-hat is sum p (f
# - mu)(f - mu)^T; of a relaxed batch it stands for what would be left of three such sums. One draw more or less moves
# the gradient by x = p (f - mu) - b q (f - nu), where q and nu are p and mu of all draws of a relaxed batch. The
# noise is the sum of x x^T: in parts with thousands of batches by sparse products, without a loop.

CHUNK = 4_000_000  # numbers in a dense block of features
MOST_FEATURES = 1500  # whose covariances are kept; beyond, each stands alone
MANY, FEW = 64, 64  # batches and features from which these stay sparse where they are


class Spread:
    """Curvature and noise of a loss at some weights, each found when it is asked for.

    O(n d^2) each, or with sparse features n times the square of those of a draw. Of more than `MOST_FEATURES` features
    both are diagonals alone, (d,).
    """

    def __init__(self, loss: DrawnLoss, weights: Floats) -> None:
        self._loss, self._look = loss, loss.look(weights)
        self._share = loss.shares[loss.draws.batch]
        self._table = Table(loss.draws, loss.features, self._look.valid * self._share)
        self._mean = self._table.sums(self._look.valid)
        self._chance = self._share**2 * loss.draws.noise[loss.draws.batch] * loss.measures[1] ** 2
        self._change = self._look.valid - self._look.every

    @cached_property
    def hessian(self) -> Floats:
        """The curvature of the loss (d, d)."""
        loss = self._loss
        found = self._table.squares(self._share * self._look.valid) - gram(self._mean, self._mean, loss.shares)
        found[(np.arange(loss.features.d),) * found.ndim] += loss.l2
        return found

    @cached_property
    def noise(self) -> Floats:
        """The covariance of the gradient (d, d)."""
        draws, table, mean, every = self._loss.draws, self._table, self._mean, self._look.every
        # x = change (f - mu) + b q (nu - mu), and its square term by term; terms of two are half of one and its mirror.
        moved = self._chance * self._change**2
        half = gram(table.sums(moved) - _scaled(mean, 0.5 * draws.total(moved)), mean)
        found = table.squares(moved) - half - half.T
        if not draws.control.any():
            return found
        both, alone = self._chance * self._change * every, self._chance * every**2
        inverse = np.divide(1.0, draws.control, out=np.zeros(draws.n_batches), where=draws.control > 0.0)
        apart = table.sums(every * inverse[draws.batch]) - _scaled(mean, np.where(draws.control > 0.0, 1.0, 0.0))
        own = _scaled(apart, 0.5 * draws.total(alone))
        half = gram(table.sums(both) - _scaled(mean, draws.total(both)) + own, apart)
        return found + half + half.T

    @property
    def unseen(self) -> float:
        """How many nats breaks of rules are worth that no draw has shown, on average.

        Where few draws break a rule they look less noisy than they are, and exact where none does. But if none of n
        does, the share that would is about 1 / n, and up to 3 / n 19 times in 20; and a share p that is not left out
        costs -log(1 - p) nats at most. With k breaks at hand most others are like these: 1 / (1 + k) of that is left.
        """
        n_broken = np.count_nonzero(~self._loss.draws.valid)
        return float(np.max(self._share * self._look.every)) / (1 + n_broken)

    @property
    def error(self) -> Floats:
        """The noise, and what was not seen as if it could lie in any direction, so that it is worth as many nats."""
        return self.noise + 2.0 * self.unseen / self._loss.features.d * self.hessian if self.unseen else self.noise

    @cached_property
    def log_partition_std(self) -> float:
        """The standard error of log Z-hat."""
        draws = self._loss.draws
        # Of x the mean is 0; of a change of log Z-hat it is 1 - b over the number of draws, where all are there.
        mean = np.where(draws.control > 0.0, (1.0 - draws.control) / draws.total(np.ones(len(draws))), 0.0)
        variance = np.sum(self._chance * (self._change**2 - mean[draws.batch] ** 2))
        return float(np.sqrt(max(variance, 0.0) + self.unseen**2))


def best_control(draws: Draws, features: Features, parts: Floats) -> float:
    """The b of least noise, Var_valid / Var_all, for draws with one batch per part where they were drawn.

    One number for all parts, in which each has its share of the noise, and each feature counts by its own curvature.
    """
    table = Table(draws, features, np.ones(len(draws)))
    n, n_valid = draws.total(np.ones(len(draws))), draws.total(draws.valid.astype(np.float64))
    curvature = _variances(table, draws.valid / n_valid[draws.batch], parts)
    valid = _variances(table, draws.valid / n_valid[draws.batch], parts**2 / n)
    every = _variances(table, 1.0 / n[draws.batch], parts**2 / n)
    some = curvature > 0.0
    total = float(np.sum(every[some] / curvature[some]))
    return min(float(np.sum(valid[some] / curvature[some])) / total, 1.0) if total > 0.0 else 1.0


def _variances(table: Table, p: Floats, weights: Floats) -> Floats:
    """The variance of each feature (d,) in each batch, summed with weights (B,)."""
    mean = table.sums(p)
    return table.squares(p * weights[table.draws.batch], alone=True) - gram(mean, mean, weights, alone=True)


class Table:
    """f of every draw: sparse where that pays, else dense in blocks and less a common mean, against rounding."""

    def __init__(self, draws: Draws, features: Features, weights: Floats, dense: bool = False) -> None:
        self.draws, self.features, self._bounds = draws, features, np.append(draws.begins, len(draws))
        many = draws.n_batches > MANY and features.d > FEW
        self.sparse = not dense and issparse(features.matrix) and (many or features.d > MOST_FEATURES)
        if self.sparse:
            self._rows = csr_matrix(draws.visits @ features.matrix)
        else:
            self._centre = features.contract(np.asarray(weights @ draws.visits)) / max(float(weights.sum()), 1e-300)

    def blocks(self, numbers: Ints) -> Iterator[tuple[Ints, Floats]]:
        """Some draws' f less the mean of all, a block at a time."""
        step = max(1, CHUNK // self.features.d)
        for first in range(0, len(numbers), step):
            some = numbers[first : first + step]
            yield some, self.features.contract(self.draws.visits[some]) - self._centre

    def sums(self, weights: Floats) -> Any:
        """The sum of f with these weights (n,) over each batch (B, d)."""
        shape = (self.draws.n_batches, len(self.draws))
        chosen = csr_matrix((weights, np.arange(len(weights)), self._bounds), shape=shape)
        if self.sparse:  # sums of many draws are not sparse any more
            found = chosen @ self._rows
            return found if self.features.d > MOST_FEATURES else found.toarray()
        common = np.outer(self.draws.total(weights), self._centre)
        return self.features.contract(csr_matrix(chosen @ self.draws.visits)) - common

    def squares(self, weights: Floats, alone: bool = False) -> Floats:
        """The sum of f f^T with these weights (n,) over all draws; `alone`: only of each feature by itself."""
        if self.sparse and alone:
            return np.asarray(self._rows.power(2).T @ weights)
        if self.sparse:
            return gram(self._rows, self._rows, weights)
        blocks = self.blocks(np.arange(len(self.draws)))
        return sum((gram(away, away, weights[some], alone) for some, away in blocks), np.zeros(1))


def _scaled(rows: Any, weights: Floats) -> Any:
    if not issparse(rows):
        return rows * weights[:, None]
    data = rows.data * np.repeat(weights, np.diff(rows.indptr))
    return csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)


def gram(left: Any, right: Any, weights: Floats | None = None, alone: bool = False) -> Floats:
    """left^T diag(weights) right, (d, d); `alone`, or of many features, its diagonal (d,)."""
    if weights is not None:
        left = _scaled(left, weights)
    if alone or left.shape[1] > MOST_FEATURES:
        found = left.multiply(right) if issparse(left) else left * right
        return np.asarray(found.sum(axis=0)).ravel()
    return np.asarray((left.T @ right).toarray() if issparse(left) else left.T @ right)
