"""Maximum likelihood for neural rewards: L(w) = -mean over demonstrations of R(tau) + log Z + l2/2 |w|^2.

Each step asks an engine for log Z and expected visits under the present reward, over one product that is compiled
once, and backpropagates visits_model - visits_demo through the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.engines.choose import distribution
from xmen.engines.distribution import as_constraint
from xmen.learners.base import world_likelihoods
from xmen.methods.demonstrations import gather
from xmen.methods.likelihood import likelihood_of
from xmen.methods.neural import NeuralRun, NeuralTraining, Optimiser, Training
from xmen.methods.runs import DEFAULT_PATIENCE, Run, Validation, check_patience, drive, validated
from xmen.progress import Callback, Monitor, Record
from xmen.rewards.neural import NeuralReward
from xmen.worlds import MDP, Trajectory


def fit_neural(
    world: MDP,
    constraint: Constraint | Iterable[Constraint] | None,
    reward: NeuralReward,
    demos: Iterable[Trajectory],
    *,
    discount: float = 1.0,
    sample_weight: ArrayLike | None = None,
    optimiser: Optimiser = "adam",
    learning_rate: float | None = None,
    n_steps: int = 100,
    l2: float = 0.0,
    callback: Callback | None = None,
    seed: int | None = None,
    engine: str = "auto",
    max_nodes: int | None = None,
    n_threads: int | None = 1,
    validation: Iterable[Trajectory] | None = None,
    patience: int | None = DEFAULT_PATIENCE,
    device: str | None = None,
    precision: str = "float64",
) -> list[Record]:
    """Train the network of a reward in place on demonstrations.

    `XMEN(world, constraint, reward=reward)` trains a copy in the same way, with checkpoints, and keeps it as a model
    that can be saved. Ctrl-C ends training early; the network is then as it was after the last whole step.

    Parameters
    ----------
    world
        The world of the demonstrations.
    constraint
        A constraint, a list of them, or None.
    reward
        The NeuralReward, ConvReward or FeatureReward whose network is trained.
    demos
        The demonstrations; all have to be valid.
    discount
        gamma, with 0 < gamma <= 1.
    sample_weight
        One weight per demonstration.
    optimiser
        "adam", "sgd", "lbfgs" (several evaluations per step, with a line search), or a function from parameters to a
        torch optimiser.
    learning_rate
        None is 0.01, and 1 for "lbfgs".
    n_steps
        The largest number of steps.
    l2
        The loss gains l2 / 2 times the sum of squared parameters.
    callback
        Gets a Record after each step, and ends training by returning True.
    seed
        With a seed, two runs from the same parameters give the same result.
    engine
        The engine that finds the visits, as for `xm.distribution`.
    max_nodes
        The budget of the product of world and constraint.
    n_threads
        How many threads torch may use meanwhile; None leaves its own setting.
    validation
        Demonstrations that are watched and not learned from: each record's details have their "validation_loss", minus
        their mean log-likelihood after the step. The network ends as it was where that was least.
    patience
        How many steps without a smaller validation loss end training; None: none do.
    device, precision
        Where the exact engine computes, as for `xm.distribution`. On the device of the network, rewards and visits
        never leave it.

    Returns
    -------
    list[Record]
        One per step: the loss and the norm of its gradient before the step. There are fewer than `n_steps` when nothing
        moves any more.

    Raises
    ------
    InvalidDemonstrationError
        When a demonstration is not possible or breaks the constraint.
    RewardError
        When a setting makes no sense, or the network gives a number that is not finite; the parameters are then those
        before that step.
    """
    rule = as_constraint(constraint)
    found = gather(world, rule, demos, sample_weight)
    compiled = distribution(world, rule, reward, discount, engine, seed, max_nodes, device=device, precision=precision)
    likelihood = likelihood_of(compiled, found.visits(compiled.discount))
    training = NeuralTraining(likelihood, reward, Training(optimiser, learning_rate, n_threads), l2)
    monitor = Monitor(callback)
    run: Run[Any] = NeuralRun(training, np.random.SeedSequence(seed), n_steps)
    if validation is not None:
        check_patience(patience)
        watched = gather(world, rule, validation)
        watch = Validation(
            watched, lambda table: world_likelihoods(compiled.with_reward(table), watched.walks), patience
        )
        run = validated(run, None, watch)
    drive(run, monitor, None)
    return monitor.history
