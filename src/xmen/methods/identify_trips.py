"""What trips cannot tell: as `identify`, where every demonstration has its own start and goal.

A combination of features is not identified when it is the same on all trips of a pair, for every pair. Trips are drawn
where every move costs the same, and enough for their weights to add up: there no feature hides behind its weight.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.engines.trips import TripEngine
from xmen.methods.identify import MOST_FEATURES, echelon, null_space, warn_unbounded, warn_unidentified
from xmen.methods.runs import Task
from xmen.rewards import Floats
from xmen.rewards.features import StateFeatures

RADIUS = 0.9  # of M where trips are drawn
DRAWS, MOST_PAIRS = 8, 400  # trips of a pair, and pairs that are looked at
STEP = 0.05  # the largest change of a reward along a combination that is tried
SAME = 1e-7  # share of all uses of edges by which they may differ where nothing has changed


def warn_undetermined_trips(
    engine: TripEngine, task: Task, rows: csr_matrix, demo_features: Floats, ended: str
) -> None:
    """Warn of weights that no trips could tell, and of those without a finite optimum; without a horizon.

    rows (E, d) are the features of the network's edges, demo_features (d,) their mean over the demonstrations.
    """
    # As elsewhere: who chose no features is told nothing of them.
    if engine.shared is None or isinstance(task.features, StateFeatures):
        return
    possible = csr_matrix(rows[np.unique(engine.shared.product.edge)])
    least, most = (np.asarray(found.todense()).ravel() for found in (possible.min(axis=0), possible.max(axis=0)))
    never = (demo_features == 0.0) & (least >= 0.0) & (most > 0.0)
    warn_unbounded(np.flatnonzero(never).tolist(), ended)
    if rows.shape[1] <= MOST_FEATURES:
        warn_unidentified(unidentified_trips(engine, rows, task.features.scale))


def unidentified_trips(engine: TripEngine, rows: csr_matrix, scale: Floats) -> Floats:
    """A basis (k, d), in reduced echelon form, of the combinations that are the same on all trips of every pair.

    Trips propose what they cannot tell apart; a step along a random mixture of it that changes no expected use of any
    edge proves it.
    """
    assert engine.shared is not None
    rng, nothing = np.random.default_rng(0), np.zeros(rows.shape[0])
    plain = nothing + min(0.0, float(np.log(RADIUS / max(engine.shared.radius(nothing), 1e-300))))
    constant = null_space(_differences(engine, rows, plain, rng) / scale)
    none: Floats = np.empty((0, rows.shape[1]))
    if not len(constant):
        return none
    mixed = rows @ ((rng.normal(size=len(constant)) @ constant) / scale)
    step = STEP / max(float(np.abs(mixed).max(initial=0.0)), 1e-300)
    before, after = engine.value(plain).visits, engine.value(plain + step * mixed).visits
    changed = float(np.abs(after - before).max(initial=0.0))
    return echelon(constant / scale) if changed <= SAME * float(before.sum()) else none


def _differences(engine: TripEngine, rows: csr_matrix, reward: Floats, rng: np.random.Generator) -> Floats:
    """f of drawn trips less that of the first one of their pair (n, d)."""
    assert engine.shared is not None
    wanted = np.zeros(engine.n_pairs, dtype=np.int64)
    wanted[rng.permutation(engine.n_pairs)[:MOST_PAIRS]] = DRAWS
    parts = [csr_matrix((1, rows.shape[1]))]
    for pair, edges, lengths in engine.shared.draw(np.log(engine.network.probability) + reward, wanted, rng):
        owner = np.repeat(np.arange(len(pair)), lengths)
        uses = csr_matrix((np.ones(len(edges)), (owner, edges)), shape=(len(pair), rows.shape[0]))
        found = csr_matrix(uses @ rows)
        parts.append(csr_matrix(found - found[np.searchsorted(pair, pair)]))  # pairs come in order
    return np.asarray(vstack(parts).todense())
