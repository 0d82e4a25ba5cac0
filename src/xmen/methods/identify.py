"""What demonstrations cannot tell: combinations of features that never vary, and weights that would run to infinity.

A combination c of features is not identified when c . f(tau) is the same for every valid trajectory: any multiple of
c can be added to the weights without changing the distribution. A feature is unbounded when every demonstration has
the least (or most) of it that a valid trajectory can have, and others have more (less): its weight has no optimum.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen import errors
from xmen.constraints.constraint import Usually
from xmen.engines.diagnosis import multiply
from xmen.engines.exact import LARGEST_WEIGHT, ExactDistribution
from xmen.engines.reject import RejectDistribution
from xmen.engines.trips import TripEngine
from xmen.engines.xor import XorDistribution
from xmen.errors import Feature, Message, Setting, joined, listing, notify
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.information import Information
from xmen.methods.runs import FitSettings, Task, read_l2
from xmen.product.best import best_walk
from xmen.rewards.linear import Features, Floats, RuleFeatures, StateFeatures
from xmen.worlds import EdgeWeights, Walks

RELATIVE = 1e-9  # differences below this share of the largest possible sum are rounding errors
MOST_FEATURES = 400  # more are not examined: a decomposition of their covariance would dominate the fit
MOST_SEARCHES = 40  # features whose range is searched for; the rest goes unexamined
MOST_NODES_ASKED = 1_000_000  # of a product that is made for these questions alone
UNSEEN = 1e-6  # curvature below this share of that of complete demonstrations is none: differences find it to 1e-8
SHARE = 1e-3  # of a direction, below which it hardly is one of a weight
SHOWN = 6
EPSILON = 1e-12  # shares of demonstrations nearer to 0 or 1 are these


def warn_undetermined(
    base: ExactDistribution | XorDistribution | RejectDistribution, task: Task, settings: FitSettings, ended: str
) -> None:
    """Warn of weights that no demonstrations could tell, and of those without a finite optimum.

    `ended` says where the fit stopped all the same. A penalty decides: with one there is nothing to say. Nor is there
    where the product of world and constraint is too large to be looked at.
    """
    if np.any(read_l2(settings.l2) > 0.0) or settings.fixed:
        return
    if not isinstance(base, ExactDistribution):
        product = base.relaxation.product
        if base.relaxation.rejecting:
            try:
                product = multiply(base.world, base.constraint, MOST_NODES_ASKED)
            except errors.ProductTooLargeError:
                return
        base = ExactDistribution(product, base.law.with_reward(None), None)
    features = task.features.bare if isinstance(task.features, RuleFeatures) else task.features
    # Sightings have no features that could be compared.
    warn_unbounded([] if task.demos.sightings else unbounded(base, features, task.demos), ended)
    # One-hot states are never all identified (the goal's, for one); who chose nothing is told nothing.
    if not isinstance(features, StateFeatures) and features.d <= MOST_FEATURES:
        warn_unidentified(unidentified(base, features))


def warn_of_usual(usual: list[Usually], shares: Floats, weights: Mapping[str, float], converged: bool) -> None:
    """Warn of learned weights of rules that all demonstrations keep or break; refuse shares that drive theirs away."""
    for rule, share in zip(usual, shares.tolist(), strict=True):
        if rule.weight is None and not EPSILON < share < 1.0 - EPSILON:
            what = "every demonstration keeps" if share > 0.5 else "no demonstration keeps"
            advice = "make the rule hard" if share > 0.5 else "drop it, or make its negation hard"
            sentence = "{} {!r}: its weight has no finite optimum, and stopped where it was. Better {}."
            notify(Message(sentence, what, rule.label, advice), errors.UnboundedWarning)
        if rule.share is not None and not converged and abs(weights[rule.label]) > LARGEST_WEIGHT:
            sentence = "no weights keep {!r} with share={:g}: other rules, or these together, decide how often."
            raise errors.InfeasibleError(Message(sentence, rule.label, share))


def warn_unbounded(which: list[int], ended: str) -> None:
    """Warn of features whose weights have no finite optimum, if there are any."""
    if which:
        notify(of_unbounded(which, f", and the fit ended {ended}"), errors.UnboundedWarning)


def of_unbounded(which: list[int], ended: str = "") -> Message:
    """The sentence about features whose weights have no finite optimum."""
    sentence = (
        "every demonstration has the least or the most possible of {}: the likelihood rises for ever as these weights "
        "grow{}. Set {} > 0 for finite weights, or add demonstrations."
    )
    return Message(sentence, listing([Feature(k) for k in which], SHOWN), ended, Setting("l2"))


def warn_unidentified(basis: Floats) -> None:
    """Warn of combinations of features (k, d) that never vary, if there are any."""
    if len(basis):
        notify(of_unidentified(basis), errors.IdentifiabilityWarning)


def unidentified(base: ExactDistribution, features: Features) -> Floats:
    """A basis (k, d), in reduced echelon form, of all combinations that are the same on every valid trajectory.

    Exact in the end: sampled trajectories propose the combinations that they cannot tell apart, and the longest and
    shortest path under a random one of these either prove them all constant or add two trajectories that differ.
    """
    rng = np.random.default_rng(0)
    d = features.d
    drawn = base.with_reward(None).draw(max(200, 4 * d), rng)
    rows = features.contract(drawn.visit_rows(base.discount))
    for _ in range(d + 1):  # each round but the last finds one more that can be told apart
        constant = null_space(rows / features.scale)
        if not len(constant):
            break
        mixed = (rng.normal(size=len(constant)) @ constant) / features.scale
        low, high, ends = _range(base, features.table(mixed))
        if high - low <= RELATIVE * float(np.abs(mixed) @ features.scale) * base.world.max_length:
            break
        rows = np.concatenate([rows, *(features.contract(walks.visit_rows(base.discount)) for walks in ends)])
    return echelon(constant / features.scale)


def warn_unseen(told: Information) -> None:
    """Warn of weights that what was seen does not determine, though complete demonstrations might."""
    assert told.complete is not None
    at = np.ix_(told.coordinates.free, told.coordinates.free)
    unit = np.sqrt(np.maximum(np.diag(told.complete[at]), 1e-300))
    curved, basis = np.linalg.eigh(told.complete[at] / np.outer(unit, unit))
    basis = basis[:, curved > 10.0 * UNSEEN]  # what no demonstrations could tell was not lost by not seeing
    values, vectors = np.linalg.eigh(basis.T @ (told.hessian[at] / np.outer(unit, unit)) @ basis)
    flat = np.abs(basis @ vectors[:, values <= UNSEEN]).max(axis=1, initial=0.0) > SHARE
    if flat.any():
        which = listing([Feature(k) for k in told.coordinates.free[flat].tolist()], SHOWN)
        sentence = (
            "what was seen does not determine the weight of {}: it is as likely under others. Show more positions, "
            "drop features, or set {} > 0 to prefer small weights."
        )
        notify(Message(sentence, which, Setting("l2")), errors.IdentifiabilityWarning)


def of_unidentified(basis: Floats) -> Message:
    """The sentence about combinations of features (k, d) that never vary: single features first."""
    alone = [int(np.flatnonzero(row)[0]) for row in basis if np.count_nonzero(row) == 1]
    joint = [row for row in basis if np.count_nonzero(row) > 1]
    more = [f"and {len(joint) - SHOWN} more"] if len(joint) > SHOWN else []
    shown = joined([*map(_sum, joint[:SHOWN]), *more], "; ")
    single = listing([Feature(k) for k in alone], SHOWN) if alone else ""
    which = Message("{} {} the same on every valid trajectory", single, "is" if len(alone) == 1 else "are each")
    if joint:
        verb = "is" if len(joint) == 1 else "are"
        which = Message("{}; so {} {}", which, verb, shown) if alone else Message("{} never varies", shown)
    sentence = (
        "no demonstrations could tell these weights: {}. The distribution is the same whatever they are; drop "
        "features, or set {} > 0 to prefer small weights."
    )
    return Message(sentence, which, Setting("l2"))


def unbounded(base: ExactDistribution, features: Features, demos: Demonstrations) -> list[int]:
    """Features of which all demonstrations have the least or most possible, though not all valid trajectories do."""

    def reached() -> Floats:
        return features.contract(base.with_reward(None).visits())

    def extremes(k: int, table: Floats) -> tuple[float, float, float]:
        least, most, _ = _range(base, table)
        largest = float(np.abs(table).max(initial=0.0)) * max(1, base.world.max_length)
        return least, most, RELATIVE * largest

    return at_an_end(features, demos, base.discount, reached, extremes)


def at_an_end(
    features: Features,
    demos: Demonstrations,
    discount: float,
    reached: Callable[[], Floats],
    extremes: Callable[[int, Floats], tuple[float, float, float]],
) -> list[int]:
    """Features of which all demonstrations have the least or the most possible.

    `reached` gives expected features that are above 0 where they can be; `extremes` the least and the most of a feature
    (k, and its table), and how far apart they have to be to differ.
    """
    low, high = demos.feature_range(features, discount)
    same = np.flatnonzero(high - low <= RELATIVE * np.maximum(features.scale, np.abs(high)))
    if not len(same):
        return []
    can_be = reached() > 0
    found, searches = [], 0
    for k in same.tolist():
        table = features.table(np.eye(1, features.d, k)[0])
        if low[k] == 0.0 and table.min() >= 0.0:
            if can_be[k]:
                found.append(k)
            continue
        if searches == MOST_SEARCHES:
            break
        searches += 1
        least, most, blur = extremes(k, table)
        if most - least > blur and (low[k] <= least + blur or low[k] >= most - blur):
            found.append(k)
    return found


def _range(base: ExactDistribution, table: Floats) -> tuple[float, float, tuple[Walks, Walks]]:
    """The least and the largest discounted sum of `table` over valid trajectories, and where they are attained."""
    weights = EdgeWeights.counting(base.world, base.discount).with_table(base.world, table)
    high, longest = best_walk(base.product, weights)
    low, shortest = best_walk(base.product, weights.negated())
    return -low, high, (shortest, longest)


def null_space(rows: Floats) -> Floats:
    """Orthonormal combinations (k, d) that are the same on all rows."""
    centred = rows - rows.mean(axis=0)
    # The triangular factor has the same singular values, and d rows instead of one per trajectory.
    _, values, vectors = np.linalg.svd(np.linalg.qr(centred, mode="r"), full_matrices=True)
    largest = max(float(values.max(initial=0.0)), float(np.abs(rows).max(initial=0.0)))
    rank = int(np.count_nonzero(values > RELATIVE * largest)) if largest > 0 else 0
    return vectors[rank:]


def echelon(basis: Floats) -> Floats:
    """The reduced row echelon form: as many zeros as can be had, a leading 1 each."""
    rows = basis.copy()
    done = 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) <= 1e-7 * np.abs(rows).max():
            rows[done:, column] = 0.0
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column][:, None] * rows[done]
        done += 1
    rows[np.abs(rows) <= 1e-7] = 0.0
    return rows


def _sum(row: Floats) -> Message:
    which = np.flatnonzero(row).tolist()
    signs = [f"{row[k]:+.3g}" if number else f"{row[k]:.3g}" for number, k in enumerate(which)]
    terms = [Message("{} * {}", sign, Feature(k)) for sign, k in zip(signs, which, strict=True)]
    more = [f"... ({len(terms)} features)"] if len(terms) > SHOWN else []
    return joined([*terms[:SHOWN], *more], " ")


# ---- What trips cannot tell: combinations of features that are the same on all trips of a pair, for every pair.
#
# Trips are drawn where every move costs the same, and enough for their weights to add up: no feature hides there.


def warn_undetermined_trips(engine: TripEngine, task: Task, rows: csr_matrix, demo_features: Floats) -> None:
    """Warn of weights that no trips could tell, and of those without a finite optimum; without a horizon.

    rows (E, d) are the features of the network's edges, demo_features (d,) their mean over the demonstrations.
    """
    # As elsewhere: who chose no features is told nothing of them.
    features = task.features.bare if isinstance(task.features, RuleFeatures) else task.features
    if engine.shared is None or isinstance(features, StateFeatures):
        return
    rows, demo_features = csr_matrix(rows[: len(engine.network.source), : features.d]), demo_features[: features.d]
    possible = csr_matrix(rows[np.unique(engine.shared.product.edge)])
    least, most = (np.asarray(found.todense()).ravel() for found in (possible.min(axis=0), possible.max(axis=0)))
    never = (demo_features == 0.0) & (least >= 0.0) & (most > 0.0)
    warn_unbounded(np.flatnonzero(never).tolist(), "where its steps became small")
    if rows.shape[1] <= MOST_FEATURES:
        warn_unidentified(unidentified_trips(engine, rows, features.scale))


def unidentified_trips(engine: TripEngine, rows: csr_matrix, scale: Floats) -> Floats:
    """A basis (k, d), in reduced echelon form, of the combinations that are the same on all trips of every pair.

    Trips (8 of each of at most 400 pairs) propose what they cannot tell apart, f of each less that of the first one of
    its pair; a step along a random mixture of it that changes no expected use of any edge proves it.
    """
    assert engine.shared is not None
    rng, nothing = np.random.default_rng(0), np.zeros(rows.shape[0])
    plain = nothing + engine.offset(nothing)
    wanted = np.zeros(engine.n_pairs, dtype=np.int64)
    wanted[rng.permutation(engine.n_pairs)[:400]] = 8
    apart = [csr_matrix((1, rows.shape[1]))]
    for pair, edges, lengths in engine.shared.draw(engine.log_dynamics[: rows.shape[0]] + plain, wanted, rng):
        owner = np.repeat(np.arange(len(pair)), lengths)
        uses = csr_matrix((np.ones(len(edges)), (owner, edges)), shape=(len(pair), rows.shape[0]))
        found = csr_matrix(uses @ rows)
        apart.append(csr_matrix(found - found[np.searchsorted(pair, pair)]))  # pairs come in order
    constant = null_space(np.asarray(vstack(apart).todense()) / scale)
    if not len(constant):
        return constant
    mixed = rows @ ((rng.normal(size=len(constant)) @ constant) / scale)
    step = 0.05 / max(float(np.abs(mixed).max(initial=0.0)), 1e-300)  # no reward changes by more
    before, after = engine.value(plain).visits, engine.value(plain + step * mixed).visits
    changed = float(np.abs(after - before).max(initial=0.0))
    return echelon(constant / scale) if changed <= 1e-7 * float(before.sum()) else constant[:0]
