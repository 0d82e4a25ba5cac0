"""Maximum entropy inverse reinforcement learning (Ziebart, Maas, Bagnell and Dey, AAAI 2008)."""

from __future__ import annotations

import os
from collections.abc import Iterable

from numpy.typing import ArrayLike

from xmen.engines.distribution import Seed
from xmen.learners.xmen import XMEN
from xmen.methods.validation import DEFAULT_PATIENCE
from xmen.progress.monitor import Callback
from xmen.storage.models import storable
from xmen.worlds import MDP, Trajectory


@storable
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

    def __init__(
        self,
        world: MDP,
        features: ArrayLike | None = None,
        discount: float = 1.0,
        engine: str = "auto",
        seed: Seed = None,
        l2: float = 0.0,
        max_iter: int | None = None,
        tol: float = 1e-7,
        max_nodes: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        callback: Callback | None = None,
        given: str | None = None,
        warm_start: bool = False,
        validation: Iterable[Trajectory] | None = None,
        patience: int | None = DEFAULT_PATIENCE,
        device: str | None = None,
        precision: str = "float64",
    ) -> None:
        super().__init__(
            world,
            constraint=None,
            features=features,
            discount=discount,
            method="exact",
            engine=engine,
            seed=seed,
            l2=l2,
            max_iter=max_iter,
            tol=tol,
            max_nodes=max_nodes,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            callback=callback,
            given=given,
            warm_start=warm_start,
            validation=validation,
            patience=patience,
            device=device,
            precision=precision,
        )
