"""Maximum entropy inverse reinforcement learning (Ziebart, Maas, Bagnell and Dey, AAAI 2008)."""

from collections.abc import Iterable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from xmen.engines.distribution import Seed
from xmen.engines.settings import EngineSettings
from xmen.learners.base import Progress, takes_parts
from xmen.learners.xmen import MaximumEntropy
from xmen.storage.models import storable
from xmen.worlds import MDP, Network, Trajectory


@storable
@takes_parts
@dataclass(eq=False, repr=False)
class MaxEntIRL(MaximumEntropy):
    """The maximum-entropy baseline: P(tau) = exp(theta . f(tau)) D(tau) / Z over all trajectories of the world, without
    rules.

    This is XMEN(method="exact") without a constraint: the same exact passes and the same optimiser. What the
    demonstrator must not do is only made unlikely, so samples may do it; `sample(n, also=rule)` keeps a rule, but the
    weights were learned without it. One gradient costs O(horizon times transitions).

    Parameters
    ----------
    world
        An MDP or GridWorld.
    features
        Shape (n_states, n_actions, d); None is one weight per state.
    discount, engine, seed, l2, max_iter, tol, given, warm_start, validation, progress
        As for XMEN, as is what there is after `fit`.

    Examples
    --------
    >>> import xmen as xm
    >>> fork = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
    >>> left, right = xm.Trajectory([0, 1], [0]), xm.Trajectory([0, 2], [1])
    >>> goes_left = [[[1.0], [0.0]], [[0.0], [0.0]], [[0.0], [0.0]]]
    >>> MaxEntIRL(fork, goes_left).fit([left, left, left, right]).weights_.round(6)  # log 3
    array([1.098612])
    """

    world: MDP | Network
    features: ArrayLike | None = None
    discount: float = 1.0
    engine: str | EngineSettings = "auto"
    seed: Seed = None
    l2: float | ArrayLike = 0.0
    max_iter: int | None = None
    tol: float | None = 1e-7
    given: str | None = None
    warm_start: bool = False
    validation: Iterable[Trajectory] | None = None
    progress: Progress | None = None
