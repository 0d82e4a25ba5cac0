"""The loss over fixed draws (see `draws`): its value and gradient at any theta, and how many draws carry it there."""

from __future__ import annotations

import copy
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from xmen.errors import DivergenceError
from xmen.methods.coordinates import Value
from xmen.methods.draws import Draws
from xmen.rewards import Floats
from xmen.rewards.features import Features

LARGEST = 600.0  # of log-weights over that of the best valid draw
ALL: Floats = np.ones(1)  # the share of a loss that is one part


class Relaxed(Protocol):
    """What is known exactly of the relaxations that draws were made from, one of each part."""

    def __call__(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """log Z_relaxed of each part (P,), and the mean of f in each, summed with these shares (P,): (d,).

        DivergenceError where the weights of ever longer trajectories do not add up.
        """


class Reweighted(NamedTuple):
    """The draws at some weights.

    log_sum (B,): log Z-hat of each batch, of a relaxed one less b log Z_relaxed. valid (n,): p of each draw among the
    valid ones of its batch; every (n,): b times that among all of them. pull (n,): what f of each draw counts in the
    gradient. log_every (B,): log of the sum over all of them.
    """

    log_sum: Floats
    valid: Floats
    every: Floats
    pull: Floats
    log_every: Floats


class DrawnLoss:
    """L-hat(theta) = sum_k a_k log Z-hat_k - theta . mean f + l2/2 |theta|^2 over fixed draws, and its gradient.

    `parts` (P,) are the shares of the parts of the loss; they sum to 1. `shares` (B,) are the a_k. `relaxed` is asked
    where some batches are.
    """

    def __init__(
        self,
        draws: Draws,
        features: Features,
        demo_features: Floats,
        l2: float | Floats,
        parts: Floats = ALL,
        relaxed: Relaxed | None = None,
    ) -> None:
        self.draws, self.features, self.demo_features, self.l2, self.parts = draws, features, demo_features, l2, parts
        self.relaxed = relaxed
        self.shares = self._shared(np.ones(draws.n_batches))
        self.doubt(np.zeros(len(draws)))

    def over(self, draws: Draws) -> DrawnLoss:
        """The same loss over other draws, without doubts; in as many batches with the same shares."""
        other = DrawnLoss(draws, self.features, self.demo_features, self.l2, self.parts, self.relaxed)
        if draws.n_batches == self.draws.n_batches:
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
        self._looked: tuple[Floats, Reweighted] | None = None  # the last weights that were looked at
        with np.errstate(divide="ignore"):
            drawn = draws.log_measure + np.where(draws.known, np.log(share), 0.0)
        self._log_measure: Floats = np.logaddexp(np.where(draws.known, 0.0, -np.inf), drawn)
        self.by_chance: Floats = np.exp(drawn - self._log_measure)  # the part of e that is (n,)

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
        last = np.zeros(len(self.parts), dtype=np.int64)
        np.maximum.at(last, self.draws.part, np.arange(self.draws.n_batches))
        return last

    def look(self, weights: Floats) -> Reweighted:
        """log Z-hat and the draws' probabilities; O(n) and one product with the sparse visits."""
        if self._looked is None or not np.array_equal(self._looked[0], weights):
            self._looked = weights, self._look(weights)
        return self._looked[1]

    def _look(self, weights: Floats) -> Reweighted:
        draws, batch = self.draws, self.draws.batch
        logs = draws.visits @ self.features.table(weights).ravel() + self._log_measure + draws.log_dynamics
        highest = np.maximum.reduceat(np.where(draws.valid, logs, -np.inf), draws.begins)
        every = np.exp(np.minimum(logs - highest[batch], LARGEST))
        valid = np.where(draws.valid, every, 0.0)
        totals = np.add.reduceat(valid, draws.begins)
        log_sum, valid = highest + np.log(totals), valid / totals[batch]
        if not draws.relaxed.any():
            return Reweighted(log_sum, valid, np.zeros(1), valid, log_sum)
        totals = np.add.reduceat(every, draws.begins)
        log_every, every = highest + np.log(totals), every / totals[batch]
        # The log of a sum of n draws is too small by half its variance, about sum p^2 / 2. With thousands of parts of a
        # few draws each that would outweigh the noise of all of them together, so it is added, and its gradient too.
        some = np.where(draws.relaxed > 0.0, draws.noise, 0.0)
        squares, all_squares = (some * np.add.reduceat(p**2, draws.begins) for p in (valid, every))
        log_sum = log_sum + 0.5 * squares - draws.relaxed * (log_every + 0.5 * all_squares)
        pull = valid * (1.0 + some[batch] * valid - squares[batch])
        of_all = 1.0 + some[batch] * every - all_squares[batch]
        every *= draws.relaxed[batch]
        return Reweighted(log_sum, valid, every, pull - every * of_all, log_every)

    def __call__(self, weights: Floats) -> Value:
        look, draws = self.look(weights), self.draws
        visits = (look.pull * self.shares[draws.batch]) @ draws.visits
        log_z, gradient = float(self.shares @ look.log_sum), self.features.contract(np.asarray(visits))
        if draws.relaxed.any():
            assert self.relaxed is not None
            shares: Floats = np.zeros(len(self.parts))
            np.add.at(shares, draws.part, self.shares * draws.relaxed)
            try:
                known, mean = self.relaxed(weights, shares)
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
        sizes: Floats = np.add.reduceat(self.worth(weights), self.draws.begins)
        return sizes

    def worth(self, weights: Floats) -> Floats:
        """How many draws each draw is worth (n,): its share of the weight in its batch, times the batch's size."""
        draws = self.draws
        p = np.where(draws.known, 0.0, self.look(weights).valid)
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

    def accepted(self, weights: Floats) -> float:
        """The mean log of the share of valid draws in relaxed batches, as the draws alone have it; 0 without any."""
        draws, look = self.draws, self.look(weights)
        some = np.where(draws.relaxed > 0.0, self.shares, 0.0)
        logs = look.log_sum - (1.0 - draws.relaxed) * look.log_every
        return float(some @ logs) / float(some.sum()) if some.any() else 0.0

    def acceptance(self, weights: Floats) -> Floats:
        """The share of its relaxation that is valid, of each part (P,), as the draws of all batches have it.

        0 where the weights of ever longer trajectories do not add up.
        """
        draws, nothing = self.draws, np.zeros(len(self.parts))
        assert self.relaxed is not None
        try:
            known = self.relaxed(weights, nothing)[0]
        except DivergenceError:
            return nothing
        logs = self.shares * (self.look(weights).log_sum - (1.0 - draws.relaxed) * known[draws.part])
        found = np.bincount(draws.part, weights=logs, minlength=len(self.parts))
        acceptance: Floats = np.exp(np.minimum(np.divide(found, self.parts, out=nothing, where=self.parts > 0.0), 0.0))
        return acceptance

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
        draws, newest = self.draws, self.newest
        counts = np.add.reduceat(np.where(draws.known, 0.0, 1.0), draws.begins)
        of_part = np.maximum(np.bincount(draws.part, weights=counts, minlength=len(self.parts)), 1.0)
        least = self.parts * counts[newest] / of_part
        low = self.shares[newest] < least
        rest = self.parts - self.shares[newest]
        others = np.divide(self.parts - least, rest, out=np.ones(len(rest)), where=low & (rest > 0.0))
        lifted = np.where(low, least, self.shares[newest])
        self.shares = self.shares * others[draws.part]
        self.shares[newest] = lifted

    def helping(self, least: float) -> NDArray[np.bool_]:
        """Which batches (B,) have at least this share of their part; the newest ones stay, whatever theirs."""
        found: NDArray[np.bool_] = self.shares >= least * self.parts[self.draws.part]
        found[self.newest] = True
        return found
