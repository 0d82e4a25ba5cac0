"""What a linear fit says about its weights: estimates, standard errors, tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csc_matrix
from scipy.stats import chi2, norm

from xmen.constraints.constraint import And, Constraint, Usually
from xmen.errors import EngineError, extra_module
from xmen.methods.demonstrations import Demonstrations
from xmen.options import require_number
from xmen.rewards.linear import Features, Floats, StateFeatures, read_features
from xmen.worlds.from_networkx import GraphWorld, RoadNetwork
from xmen.worlds.names import some

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def known_names(model: Learner) -> list[str]:
    """What the world calls the model's features: columns by their names, weights of states by these, else numbers."""
    world: Any = model.world
    own, named = model._read_features(), dict[Any, str]()
    if isinstance(own, StateFeatures):
        return [world.describe_state(state) for state in range(own.d)]
    if isinstance(world, GraphWorld | RoadNetwork):
        columns = _columns(read_features(world.features, world))
        known = zip(columns, world.feature_names, strict=True)
        named = {column: name for column, name in known if columns.count(column) == 1}
    return [named.get(column, f"feature {k}") for k, column in enumerate(_columns(own))]


def _columns(features: Features) -> list[tuple[bytes, bytes]]:
    """Each column in a form that can be compared: the places where it is not 0, and what it is there."""
    matrix = csc_matrix(features.matrix, dtype=np.float64, copy=True)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    ends = list(pairwise(matrix.indptr.tolist()))
    return [(matrix.indices[i:j].astype(np.int64).tobytes(), matrix.data[i:j].tobytes()) for i, j in ends]


def spelled(rule: Constraint | None) -> frozenset[str]:
    """The rules of a conjunction, whatever they are called and in whatever order they stand."""
    if isinstance(rule, Usually):  # has a weight, and forbids nothing
        return frozenset()
    if isinstance(rule, And):
        return frozenset().union(*map(spelled, rule.children))
    return frozenset() if rule is None else frozenset([str(replace(rule, name=None))])


def mean_uses(demos: Demonstrations) -> Floats:
    """How often a demonstration uses each transition of its world, on average (E,)."""
    walks = demos.walks
    seen = walks.edges >= 0  # demonstrations of weight 0 may do what the world cannot
    uses = demos.weights[walks.owner[seen]]
    return np.bincount(walks.edges[seen], uses, minlength=len(walks.world.source)).astype(np.float64)


def log_likelihood(model: Learner, demos: Demonstrations) -> dict[str, float]:
    """The sum of n log-likelihoods, n, and the standard error of the sum."""
    values, errors = model._log_likelihoods(demos)
    ends = np.stack([demos.walks.starts, demos.walks.last_states], axis=1)
    pair = np.unique(ends, axis=0, return_inverse=True)[1].ravel()  # trips of one pair share their error
    error = float(np.linalg.norm(np.bincount(pair, demos.weights * errors[: len(pair)], minlength=1)) * len(demos))
    return {"sum": demos.mean(values) * len(demos), "n": len(demos), "error": error}


MOST_ROWS = 40  # of a printed table
MOST_NAMED = 8  # features, in a message
LEAST_BELOW, BELOW = 0.01, 1e-6  # how far below 0 a statistic may be by rounding and the tolerance of fits
SURE = 4.0  # standard errors of a statistic that takes draws, by which it may be below 0 as well


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    standard_error: float


class LikelihoodRatio(NamedTuple):
    """2 (log L - log L_restricted), the number of weights that make the difference, and the p-value."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


@dataclass(frozen=True)
class Summary:
    """Estimates of a linear learner; print it for a table.

    All arrays are (d,). `standard_errors` come from the Hessian, `robust_errors` from the scores of the demonstrations
    (clustered where groups were given); both are nan for fixed weights and inf for those that the demonstrations do not
    determine. `t` is weight over standard error. `log_likelihood` is the sum over demonstrations, without penalty;
    `log_likelihood_error` is its standard error where it takes draws, and 0 where it is exact. `null_log_likelihood`
    is that of the same model with 0 for every weight that was learned: nan where it would take draws, or diverges, as
    without a horizon it may. `rho_square`, `aic` and `bic` compare models.
    """

    names: tuple[str, ...]
    weights: Floats
    standard_errors: Floats
    robust_errors: Floats
    log_likelihood: float
    n_demonstrations: int
    covariance: Floats = field(repr=False)  # (d, d), from the Hessian; 0 for fixed weights
    robust_covariance: Floats = field(repr=False)
    notes: Mapping[str, str] = field(default_factory=dict)
    clustered: bool = False  # whether robust errors allow for dependence within groups
    log_likelihood_error: float = 0.0
    rules: frozenset[str] = frozenset()  # that the model was fitted under, each without its name
    mean_uses: Floats | None = field(default=None, repr=False)  # (E,) of transitions by a demonstration, where known
    null_log_likelihood: float = math.nan
    lost: Floats | None = None  # standard errors over those of complete demonstrations, where some were seen in part

    @property
    def rho_square(self) -> float:
        """1 - log L / log L_null, McFadden's; nan where there is no null log-likelihood."""
        return 1.0 - self.log_likelihood / self.null_log_likelihood if self.null_log_likelihood else math.nan

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 log L."""
        return 2.0 * self.n_free - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, k log n - 2 log L."""
        return self.n_free * math.log(self.n_demonstrations) - 2.0 * self.log_likelihood

    def confidence_intervals(self, level: float = 0.95, robust: bool = False) -> Floats:
        """Where each weight lies with this probability, by the normal distribution: (d, 2), nan for fixed weights."""
        require_number("level", level, above=0.0, below=1.0)
        reach = norm.ppf(0.5 + level / 2.0) * (self.robust_errors if robust else self.standard_errors)
        return np.stack([self.weights - reach, self.weights + reach], axis=1)

    def to_frame(self, level: float = 0.95) -> Any:
        """A pandas DataFrame with a row for each feature, and a confidence interval of this level."""
        lower, upper = self.confidence_intervals(level).T
        columns = {"weight": self.weights, "standard_error": self.standard_errors, "robust_error": self.robust_errors}
        columns |= {"t": self.t, "p_value": 2.0 * norm.sf(np.abs(self.t)), "lower": lower, "upper": upper}
        return extra_module("pandas", "summary().to_frame()").DataFrame(columns, index=list(self.names))

    @property
    def t(self) -> Floats:
        """Weights in units of their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.weights / self.standard_errors

    @property
    def n_free(self) -> int:
        """The number of weights that were learned."""
        return int(np.count_nonzero(~np.isnan(self.standard_errors)))

    def ratio(self, numerator: int | str, denominator: int | str, robust: bool = False) -> Estimate:
        """The ratio of two weights, such as a value of time, with its standard error by the delta method.

        Parameters
        ----------
        numerator, denominator
            Two features, by their numbers or their `names`.
        robust
            Use the robust covariance.

        Returns
        -------
        Estimate
            The ratio a / b, and the root of g' V g with g = (1 / b, -a / b^2).
        """
        above, below = self._number(numerator), self._number(denominator)
        a, b = self.weights[above], self.weights[below]
        if b == 0.0:
            raise EngineError(f"the weight of {self.names[below]} is 0: there is no ratio to it.")
        gradient = np.zeros(len(self.weights))
        gradient[above] += 1.0 / b
        gradient[below] -= a / b**2
        covariance = self.robust_covariance if robust else self.covariance
        return Estimate(float(a / b), float(np.sqrt(gradient @ covariance @ gradient)))

    def _number(self, feature: int | str) -> int:
        """The number of a feature."""
        if isinstance(feature, str) and self.names.count(feature) == 1:
            return self.names.index(feature)
        if isinstance(feature, int | np.integer) and -len(self.names) <= feature < len(self.names):
            return int(feature) % len(self.names)
        known, last = some(map(repr, self.names), MOST_NAMED), len(self.names) - 1
        own = "summary(names=[...]) gives them names of your own"
        raise EngineError(f"{feature!r:.60} is no feature: they are {known}, numbered 0 to {last}; {own}.")

    def likelihood_ratio(self, restricted: Summary | Learner) -> LikelihoodRatio:
        """The likelihood-ratio test of this model against one that is a special case of it.

        Parameters
        ----------
        restricted
            The smaller model or its summary, of the same demonstrations under the same rules: with fewer features, or
            more of them fixed.

        Returns
        -------
        LikelihoodRatio
            The statistic, its degrees of freedom, and the probability of one as large if the smaller model were true.

        Raises
        ------
        EngineError
            Where demonstrations or rules differ, or the one cannot be a special case of the other.
        """
        if not isinstance(restricted, Summary):
            if not hasattr(restricted, "summary"):
                raise EngineError(f"likelihood_ratio takes the summary of a model; got {restricted!r:.60}.")
            restricted = restricted.summary()
        if (n := self.n_demonstrations) != (m := restricted.n_demonstrations):
            raise EngineError(f"a likelihood ratio compares fits to the same demonstrations; these had {n} and {m}.")
        if self.rules != restricted.rules:
            mine, other = (", ".join(sorted(one.rules)) or "no rules" for one in (self, restricted))
            both = f"this one is under {mine:.200}, and the restricted one under {other:.200}"
            raise EngineError(f"a likelihood ratio compares fits under the same rules; {both}.")
        uses, others = self.mean_uses, restricted.mean_uses
        if uses is None or others is None or len(uses) != len(others):  # a trip may be written down in two networks
            uses = others = np.zeros(0)
        if not np.allclose(uses, others, rtol=1e-6, atol=1e-9):
            both = f"with {uses.sum():.4g} moves on average, and {others.sum():.4g}"
            what = f"these are {self.n_demonstrations} each, but others, or weighted otherwise: {both}"
            raise EngineError(f"a likelihood ratio compares fits to the same demonstrations; {what}.")
        freedom = self.n_free - restricted.n_free
        if freedom < 1:
            both = f"the restricted model learned {restricted.n_free} weights and this one {self.n_free}"
            raise EngineError(f"{both}: the restricted one has to have fewer. Ask the larger model.")
        statistic = 2.0 * (self.log_likelihood - restricted.log_likelihood)
        noise = 2.0 * float(np.hypot(self.log_likelihood_error, restricted.log_likelihood_error))
        if statistic < -max(LEAST_BELOW, BELOW * abs(self.log_likelihood), SURE * noise):
            raise EngineError(
                f"the log-likelihood is {self.log_likelihood:.4f}, and that of the restricted model, with fewer "
                f"weights, is larger: {restricted.log_likelihood:.4f}. Neither is a special case of the other, or a "
                "penalty (l2) or too few steps keep the larger one from its maximum."
            )
        return LikelihoodRatio(statistic, freedom, float(chi2.sf(max(statistic, 0.0), freedom)))

    def __str__(self) -> str:
        width = max(8, *(len(name) for name in self.names[:MOST_ROWS]))
        kind = "clustered" if self.clustered else "robust"
        noise = f" (standard error {self.log_likelihood_error:.2g})" if self.log_likelihood_error > 0 else ""
        total = f"log-likelihood {self.log_likelihood:.4f}{noise}"
        lines = [
            f"{self.n_demonstrations} demonstrations, {total}, {self.n_free} weights",
            f"{'':{width}}  {'weight':>10}  {'std error':>10}  {kind:>10}  {'t':>9}",
        ]
        rows = zip(self.names, self.weights, self.standard_errors, self.robust_errors, self.t, strict=True)
        for name, weight, error, robust, t in list(rows)[:MOST_ROWS]:
            if np.isnan(error):
                lines.append(f"{name:{width}}  {weight:>10.4f}  {'fixed':>10}")
            else:
                lines.append(f"{name:{width}}  {weight:>10.4f}  {error:>10.4f}  {robust:>10.4f}  {t:>9.2f}")
        if len(self.names) > MOST_ROWS:
            lines.append(f"... and {len(self.names) - MOST_ROWS} more weights")
        if not math.isnan(self.null_log_likelihood):
            null = f"null log-likelihood {self.null_log_likelihood:.4f}, rho-square {self.rho_square:.4f}, "
            lines.append(f"{null}AIC {self.aic:.2f}, BIC {self.bic:.2f}")
        if self.lost is not None:
            times = ", ".join(f"{lost:.3g}" for lost in self.lost[:MOST_ROWS])
            lines.append(f"seen in part: standard errors are those of complete demonstrations times {times}")
        lines += [f"{name}: {note}" for name, note in self.notes.items()]
        return "\n".join(lines)
