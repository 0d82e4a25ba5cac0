"""The proposal of the paper: Q(tau) in proportion to exp(theta-hat . f) I_C, drawn by PAWS, without the dynamics D.

A draw from Q stands for P by its importance weight P/Q, which is D(tau) up to a constant where theta-hat = theta. One
coordinate more than the paper has lets Q carry a power of the dynamics, D^beta: weights are then D^(1 - beta).

**Certificates.** A number of parities that was certified at one theta-hat serves those nearby. A level search
certifies, but for its failure probability, that k parities leave cells of mean size Z / (u 2^k) <= mu, copies being
thinned to sizes of their weights over the largest possible weight u of a copy. So

    log Z <= log mu + k log 2 + log u,

which says nothing of copies any more. At another theta-hat every trajectory's weight has changed by at most the
*drift*, the largest (theta-hat' - theta-hat) . f(tau) + (beta' - beta) log D(tau), and so has Z. The equation, with the
u of that place, then gives parities that leave cells of mean mu or less, without a question to the oracle and within
the same failure probability. The drift is paid for in parities, which make draws fail more often; after PATIENCE bits
of it a fresh search is cheaper.
"""

import math
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from xmen.engines.xor import XorDistribution
from xmen.errors import EngineError
from xmen.oracles.formula import Bits
from xmen.product.best import list_walks
from xmen.rewards.linear import Features, Floats
from xmen.sampling import Info, PawsPlan, find_level, sample_paws
from xmen.sampling.paws import largest_mean
from xmen.worlds import EdgeWeights, Walks

SPAN_STEP = 0.25  # nats; spans are rounded up to multiples of it, so that plans are solved once for many rewards
LARGEST_LOG = 300.0  # of a ratio of weights, far from overflow
CARRIED_BITS = 3.0  # by which a carried level may be above the one that a search would find
# Trajectories of the relaxation that are listed for the constants of the theorems, and numbers in their features.
MOST_RELAXED, MOST_NUMBERS = 300_000, 10_000_000
ROUNDING = 0.05  # nats by which a solver's adder may misjudge a weight; it costs draws, and nothing of delta
PATIENCE = 1.0  # bits of drift after which a fresh search is cheaper
LOG2 = math.log(2.0)


class Certificate(NamedTuple):
    """log Z of Q at `place` (d + 1,), theta-hat and beta, is at most `log_mass`; `centre` (d + 1,): the mean of f and
    log D over the draws there, by which the costs of drifting are judged."""

    log_mass: float
    place: Floats
    centre: Floats

    def paid(self, place: Floats, drift: float) -> float:
        """The bits by which the bound has moved away from what Z is likely to have done."""
        return (drift - float((place - self.place) @ self.centre)) / LOG2


def certify(plan: PawsPlan, log_unit: float, k: int) -> float:
    """The bound on log Z that k, found by a search over copies of a weight of at most exp(log_unit), certifies."""
    return math.log(largest_mean(plan.pivot, plan.faithful)) + k * LOG2 + log_unit


def parities_for(log_mass: float, plan: PawsPlan, log_unit: float) -> int:
    """The fewest parities k that surely leave cells of the plan's mean or less, where log Z is at most log_mass."""
    return max(0, math.ceil((log_mass - certify(plan, log_unit, 0)) / LOG2))


class Pool(NamedTuple):
    """Draws from Q: the walks, f(tau) (n, d), log D (n,), log of P/Q up to a constant (n,), and the cost.

    `k` parities cut the cells, after `extra` more each gave a draw; `log2_mass` is about log2 Z of Q, from k;
    `certificate` is what k rests on.
    """

    walks: Walks
    features: Floats
    log_dynamics: Floats
    log_weights: Floats
    k: int
    log2_mass: float
    search: Info
    draws: Info
    certificate: Certificate

    @property
    def account(self) -> dict[str, float]:
        """For the history: what the draws cost, and how many of P they are worth."""
        spent = self.search + self.draws
        return {
            "parities": self.k,
            "cells": spent.n_cells,
            "search_cells": self.search.n_cells,
            "queries": spent.n_queries,
            "solutions": spent.n_points,
            "failures": spent.n_failures,
            "effective_sample_size": effective_sample_size(self.log_weights),
        }


class Proposal:
    """Q for any theta-hat over the trajectories behind one oracle."""

    def __init__(self, base: XorDistribution, features: Features) -> None:
        self.hashed, self.product = base.hashed, base.relaxation.product
        self.world, self.discount, self.features = base.world, base.discount, features

    @cached_property
    def constant_dynamics(self) -> bool:
        """Whether D(tau) is the same for all trajectories: then Q is P, and no weights are needed."""
        starts = self.world.start[self.world.start > 0]
        return self.world.deterministic and bool(np.all(starts == starts[0]))

    @cached_property
    def listed_features(self) -> Floats | None:
        """f(tau) of all valid trajectories (n, d), where they are listed."""
        walks = self.hashed.walks
        return None if walks is None else self.rows(walks)

    @cached_property
    def points(self) -> Floats | None:
        """f(tau) (n, d) of trajectories that all valid ones are among: of their list, else of a short relaxation's."""
        if self.listed_features is not None:
            return self.listed_features
        walks = list_walks(self.product, min(MOST_RELAXED, MOST_NUMBERS // max(self.features.d, 1)))
        return None if walks is None else self.rows(walks)

    @cached_property
    def _listed_dynamics(self) -> Floats:
        assert self.hashed.walks is not None
        return self.log_dynamics(self.hashed.walks)

    def rows(self, walks: Walks) -> Floats:
        """f(tau) of each walk (n, d)."""
        return self.features.contract(walks.visit_rows(self.discount))

    def log_dynamics(self, walks: Walks) -> Floats:
        """log D(tau) of each walk (n,)."""
        return walks.scores(EdgeWeights.of(self.world))

    def range_of(self, table: Floats, beta: float) -> tuple[float, float]:
        """Bounds on R + beta log D over valid trajectories: attained where they are listed, else by relaxation."""
        return self.hashed.log_range(EdgeWeights.of(self.world, table, self.discount).tempered(beta), self.product)

    def draw(
        self,
        weights: Floats,
        shift: Floats,
        beta: float,
        n: int,
        delta: float,
        failure: float,
        rng: np.random.Generator,
        log2_mass: float = math.nan,
        certificate: Certificate | None = None,
    ) -> Pool:
        """n draws from Q with theta-hat = weights + shift, within `delta` of Q except with probability `failure`.

        `log2_mass` is that of an earlier pool: the search for k starts where it points (nan: at 0). A level is tested
        once in a search wherever it starts, so that this costs nothing of the guarantee. A `certificate` of an earlier
        pool saves the search as long as theta-hat has not moved far from it.
        """
        hashed, table, scores = self.hashed, self.features.table(weights + shift), None
        if self.listed_features is None:
            (low, high), rounding = self.range_of(table, beta), ROUNDING
        else:
            scores = self.listed_features @ (weights + shift) + (beta * self._listed_dynamics if beta else 0.0)
            low, high, rounding = float(scores.min()), float(scores.max()), 0.0
        span = SPAN_STEP * math.ceil((high - low) / SPAN_STEP)
        plan = _solve(delta, failure, span, hashed.decoder.width, rounding)
        edges = EdgeWeights.of(self.world, table, self.discount).tempered(beta)
        embedding = hashed.embedding(edges, plan.levels(high), scores, rounding)
        # Copies have a size of Z / u in all, and k leaves about P of it.
        log_unit = embedding.residual().log_max
        offset = math.log2(plan.pivot) + log_unit / LOG2
        start = 0 if math.isnan(log2_mass) else max(0, round(log2_mass - offset))
        place = np.append(weights + shift, beta)
        k, search = self._carried(certificate, place, plan, log_unit), Info()
        bits: Bits | None = None
        if k is not None:
            try:
                bits, draws = sample_paws(embedding, plan, k, n, rng, spared=CARRIED_BITS)
            except EngineError:  # the bound has drifted too far above the truth: cells are empty
                certificate = None
        if bits is None or k is None:
            k, search = find_level(embedding, plan, rng, start=start)
            certificate = None
            bits, draws = sample_paws(embedding, plan, k, n, rng)
        walks = hashed.decoder.decode(bits)
        rows, log_dynamics = self.rows(walks), self.log_dynamics(walks)
        log_weights = (1.0 - beta) * log_dynamics - rows @ shift
        if certificate is None:
            centre = np.append(rows.mean(axis=0), log_dynamics.mean())
            certificate = Certificate(certify(plan, log_unit, k), place, centre)
        # What the cells held on average says where to search next; they were cut by the plan's extra parities too.
        held = math.log2(max(draws.n_points, 1) / max(draws.n_cells, 1)) + plan.extra - math.log2(plan.pivot)
        mass = k + offset + (held if search == Info() else 0.0)
        return Pool(walks, rows, log_dynamics, log_weights, k, mass, search, draws, certificate)

    def _carried(self, certificate: Certificate | None, place: Floats, plan: PawsPlan, log_unit: float) -> int | None:
        """The parities that a certificate still vouches for; None where a search is due."""
        if certificate is None:
            return None
        moved = place - certificate.place
        drift = self.range_of(self.features.table(moved[:-1]), float(moved[-1]))[1]
        if certificate.paid(place, drift) > PATIENCE:
            return None
        return parities_for(certificate.log_mass + drift, plan, log_unit)


@lru_cache(maxsize=256)
def _solve(delta: float, failure: float, log_span: float, n_hash: int, rounding: float) -> PawsPlan:
    return PawsPlan.solve(delta, failure, log_span=log_span, n_hash=n_hash, rounding=rounding, thinned=True)


def split_shares(log_weights: Floats) -> Floats:
    """What each draw counts in Algorithm 1's E_P[f]: mean of w f over the first half, over the mean of w of the second.

    A ratio of two independent means: biased by O(1/M2) unless w is constant, and without a bound of its own.
    """
    half = len(log_weights) // 2
    w = np.exp(np.minimum(log_weights - log_weights[half:].max(), LARGEST_LOG))
    return np.where(np.arange(len(w)) < half, w / half / w[half:].mean(), 0.0)


def self_normalised_shares(log_weights: Floats) -> Floats:
    """w over the sum of w, all draws in both: biased by O(1/n) too, but a mean of features that were drawn."""
    w = np.exp(log_weights - log_weights.max())
    shares: Floats = w / w.sum()
    return shares


def effective_sample_size(log_weights: Floats) -> float:
    """(sum w)^2 / sum w^2: how many draws from P the weighted draws from Q are worth."""
    return float(1.0 / (self_normalised_shares(log_weights) ** 2).sum())


def variance_descent(rows: Floats, log_weights: Floats) -> Floats:
    """The direction in which theta-hat lowers the variance of w = P/Q: mean of f under w^2, less the mean under Q.

    E_Q[w^2] = E_P[P/Q] has the gradient -E_P[(P/Q)(f - E_Q[f])] in theta-hat; both means are of the draws at hand.
    """
    direction: Floats = self_normalised_shares(2.0 * log_weights) @ rows - rows.mean(axis=0)
    return direction
