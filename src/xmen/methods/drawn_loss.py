"""The loss over fixed draws (see `draws`): its value and gradient at any theta, its curvature, and its noise."""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from xmen.methods.coordinates import Value
from xmen.methods.draws import Draws
from xmen.rewards import Floats
from xmen.rewards.features import Features

CHUNK = 4_000_000  # numbers in a dense block of features
ALL: Floats = np.ones(1)  # the share of a loss that is one part


class Reweighted(NamedTuple):
    """The draws at some weights: log Z-hat of each batch (B,), p of each draw within its batch (n,)."""

    log_partition: Floats
    probability: Floats


class DrawnLoss:
    """L-hat(theta) = sum_k a_k log Z-hat_k - theta . mean f + l2/2 |theta|^2 over fixed draws, and its gradient.

    `parts` (P,) are the shares of the parts of the loss; they sum to 1. `shares` (B,) are the a_k.
    """

    def __init__(
        self, draws: Draws, features: Features, demo_features: Floats, l2: float | Floats, parts: Floats = ALL
    ) -> None:
        self.draws, self.features, self.demo_features, self.l2, self.parts = draws, features, demo_features, l2, parts
        self.shares = self._shared(np.ones(draws.n_batches))
        self.doubt(np.zeros(len(draws)))

    def over(self, draws: Draws) -> DrawnLoss:
        """The same loss over other draws in as many batches, without doubts."""
        other = DrawnLoss(draws, self.features, self.demo_features, self.l2, self.parts)
        other.shares = self.shares
        return other

    def restrained(self, restraint: float) -> Self:
        """This loss, and restraint / 2 * |theta|^2 in units of the features."""
        other = copy.copy(self)
        other.l2 = self.l2 + restraint * self.features.scale**2
        return other

    def doubt(self, share: Floats) -> None:
        """Let known trajectories stand for these shares (n,) of a draw as well; those of others are not read."""
        draws = self.draws
        with np.errstate(divide="ignore"):
            drawn = draws.log_measure + np.where(draws.known, np.log(share), 0.0)
        self._log_measure: Floats = np.logaddexp(np.where(draws.known, 0.0, -np.inf), drawn)
        self._by_chance: Floats = np.exp(drawn - self._log_measure)  # the part of e that is

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
        logs = draws.visits @ self.features.table(weights).ravel() + self._log_measure + draws.log_dynamics
        highest = np.maximum.reduceat(logs, draws.begins)
        p = np.exp(logs - highest[draws.batch])
        totals = np.add.reduceat(p, draws.begins)
        return Reweighted(highest + np.log(totals), p / totals[draws.batch])

    def __call__(self, weights: Floats) -> Value:
        look = self.look(weights)
        visits = (look.probability * self.shares[self.draws.batch]) @ self.draws.visits
        log_z = float(self.shares @ look.log_partition)
        loss = log_z - float(weights @ self.demo_features) + 0.5 * float(np.sum(self.l2 * weights**2))
        gradient = self.features.contract(np.asarray(visits)) - self.demo_features + self.l2 * weights
        return Value(loss, gradient)

    def sizes(self, weights: Floats) -> Floats:
        """How many draws of each batch carry the weight that is not known exactly (B,).

        (sum p)^2 / sum p^2 over all that were drawn: small where a few draws have it all, and what they say of other
        trajectories is an accident.
        """
        sizes: Floats = np.add.reduceat(self.worth(weights), self.draws.begins)
        return sizes

    def worth(self, weights: Floats) -> Floats:
        """How many draws each draw is worth (n,): its share of the weight in its batch, times the batch's size."""
        draws = self.draws
        p = np.where(draws.known, 0.0, self.look(weights).probability)
        total, squares = np.add.reduceat(p, draws.begins), np.add.reduceat(p**2, draws.begins)
        scale = np.divide(total, squares, out=np.zeros(draws.n_batches), where=squares > 0.0)
        worth: Floats = p * scale[draws.batch]
        return worth

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

        The variance itself would take a (d, d) matrix for each batch, and weights that were fitted to a batch make it
        look better than it is. Measured on 8 tasks of one weight per state, two fits each: shares by 1 / tr(H^+ V_k)
        end 0.0125 nats from the optimum on average, shares by size too.
        """
        exact, part = self.draws.noise == 0.0, self.draws.part
        self.shares = self._shared(np.where(np.isin(part, part[exact]), exact, self.sizes(weights)))

    def lift_newest(self) -> None:
        """Give the last batch of each part no smaller a share of it than its number of draws would."""
        counts = np.add.reduceat(np.where(self.draws.known, 0.0, 1.0), self.draws.begins)
        for part, (newest, whole) in enumerate(zip(self.newest.tolist(), self.parts.tolist(), strict=True)):
            own = self.draws.part == part
            least = whole * counts[newest] / max(counts[own].sum(), 1.0)
            if self.shares[newest] < min(least, whole):  # least is whole where the part has one batch, up to rounding
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
        fixed = share**2 * draws.noise[draws.batch] * self._by_chance**2
        step = max(1, CHUNK // d)
        for k, begin in enumerate(draws.begins):
            end = draws.begins[k + 1] if k + 1 < draws.n_batches else len(draws)
            if self.shares[k] == 0.0:
                continue
            mean = self.features.contract(np.asarray(look.probability[begin:end] @ draws.visits[begin:end]))
            for first in range(begin, end, step):
                rows = slice(first, min(first + step, end))
                p = look.probability[rows]
                away = self.features.contract(draws.visits[rows]) - mean
                hessian += away.T @ (away * (share[rows] * p)[:, None])
                noise += away.T @ (away * (fixed[rows] * p**2)[:, None])
        hessian[np.diag_indices(d)] += self.l2
        log_noise = float(np.sqrt((fixed * look.probability**2).sum()))
        return Spread(hessian, noise, log_noise)


class Spread(NamedTuple):
    """The curvature of the loss (d, d), the covariance of its gradient (d, d), and the standard error of log Z."""

    hessian: Floats
    noise: Floats
    log_partition_std: float
