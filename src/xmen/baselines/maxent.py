"""Maximum entropy inverse reinforcement learning (Ziebart, Maas, Bagnell and Dey, AAAI 2008)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xmen.engines.settings import DEFAULT_TIME_LIMIT
from xmen.learners.base import Rules
from xmen.learners.xmen import XMEN
from xmen.methods.method import Method
from xmen.methods.neural import Training
from xmen.rewards.neural import NeuralReward
from xmen.storage.models import storable


@storable
@dataclass(eq=False, repr=False)
class MaxEntIRL(XMEN):
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
    discount, engine, seed, l2, max_iter, tol, max_nodes
        As for XMEN.
    checkpoint, checkpoint_every, resume, callback, given, warm_start, validation, patience, device, precision
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

    constraint: Rules = field(default=None, init=False)
    method: str | Method = field(default="exact", init=False)
    reward: NeuralReward | None = field(default=None, init=False)
    training: Training | None = field(default=None, init=False)
    tol: float | None = 1e-7
    cell_size: float | None = field(default=None, init=False)
    oracle: str = field(default="auto", init=False)
    delta: float | None = field(default=None, init=False)
    failure: float | None = field(default=None, init=False)
    time_limit: float | None = field(default=DEFAULT_TIME_LIMIT, init=False)
    fixed: Mapping[int, float] | None = field(default=None, init=False)
