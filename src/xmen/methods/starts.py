"""Whether demonstrations start where the joint model says that trajectories start."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from xmen.engines.exact import ExactDistribution
from xmen.methods.demonstrations import Demonstrations
from xmen.notices import StartsWarning, notify
from xmen.rewards import Floats

LEVEL = 1e-3  # of a chi-square test: rarer than this is more than noise


def warn_of_starts(base: ExactDistribution, table: Floats, demos: Demonstrations) -> None:
    """Warn where the shares of starts differ by more than noise: the joint model re-weights them, silently.

    The test is Pearson's, with as many demonstrations as their weights are worth.
    """
    world = base.world
    starts = np.flatnonzero(world.start > 0)
    if base.given is not None or len(starts) < 2:
        return
    expected = base.with_reward(table).start_probabilities()[starts]
    seen = np.bincount(demos.walks.starts, weights=demos.weights, minlength=world.n_states)[starts]
    n = 1.0 / float(np.sum(demos.weights**2))
    statistic = n * float(np.sum((seen - expected) ** 2 / np.maximum(expected, 1e-12)))
    if chdtrc(len(starts) - 1, statistic) >= LEVEL:
        return
    worst = int(np.argmax(np.abs(seen - expected)))
    notify(
        f"{seen[worst]:.1%} of the demonstrations start in {world.describe_state(int(starts[worst]))}, but "
        f"{expected[worst]:.1%} of the learned model's trajectories do: P is joint, so a start with many or good "
        'completions becomes more likely. With given="start" each demonstration counts given its start.',
        StartsWarning,
    )
