"""X-MEN: maximum-entropy inverse reinforcement learning under hard constraints, with three ways to the gradient."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from xmen.engines.choose import distribution
from xmen.engines.diagnosis import node_budget
from xmen.engines.distribution import ENGINES, Seed
from xmen.engines.trips import TripEngine
from xmen.errors import EngineError, ProductTooLargeError, RewardError
from xmen.learners.base import Learner, Rules
from xmen.learners.settings import require_number, require_whole
from xmen.methods.coordinates import read_l2
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.exact import ExactRun
from xmen.methods.network import check_network, network_identity, network_run
from xmen.methods.network_training import Optimiser
from xmen.methods.paper import PaperRun
from xmen.methods.rounds import RoundsRun
from xmen.methods.runs import Run, Task, drive
from xmen.methods.trips import TripRun
from xmen.progress.monitor import Callback, Monitor
from xmen.rewards import Reward
from xmen.rewards.features import read_features
from xmen.rewards.neural import NeuralReward
from xmen.storage.checkpoint import Checkpoint
from xmen.storage.models import storable
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network

NOT_PART_OF_A_RUN = ("callback", "checkpoint", "checkpoint_every", "resume", "engine", "delta", "failure")
ESTIMATES = ("weights_std_", "distance_", "distance_bound_")  # what only some methods know of their answer


@storable
class XMEN(Learner):
    """Fits r(s, a) = theta . f(s, a) so that P(tau) = exp(R) D I_C / Z makes the demonstrations most likely.

    The loss is L(theta) = -mean R + log Z + l2/2 |theta|^2, its gradient E_P[f] - mean f + l2 theta. `method` says how
    that gradient is found, `engine` what `distribution`, `sample` and `score` use afterwards:

    - "exact": dynamic programming and L-BFGS, to the optimum (no component of the gradient above `tol`, in units of
      the largest value of its feature). The default wherever the product of world and constraint fits `max_nodes`.
    - "cells": rounds of whole hash cells, each minimised over by L-BFGS and judged by the next round's cells, until
      the answer is within `tol` nats of the optimum (left at its default: 0.005). At least `n_cells` cells a round, of
      about `cell_size` solutions (None: as suits; where they would hold everything, all is read as one). At most
      `max_iter` rounds (20). The default where the product does not fit.
    - "paper": Algorithm 1 of the paper: `n_samples` draws (2 M2) from exp(theta . f) I_C by PAWS within `delta`,
      `n_demonstrations` demonstrations (M1; None: all), split-sample importance weights (or `self_normalised`), steps
      of `learning_rate` (the theorem's largest), the mean of `max_iter` iterates after the first `burn_in` share of
      them. `failure` is that of all iterations together. `proposal`: "adaptive" moves theta-hat to lower the variance
      of the weights, "dynamics" a power of D as well.

    `features` is (n_states, n_actions, d), or a scipy.sparse matrix (n_states * n_actions, d) with row
    s * n_actions + a; None is one weight per state, whatever the action. `l2` is a number or one per feature, and
    `fixed` maps features to weights that are not learned.

    On a `Network` every demonstration is a trip with its own start and goal: the fit maximises the mean of
    log P(tau | its start, its goal), and `distribution`, `sample` and `policy` take `start=` and `goal=`.

    With `reward`, a NeuralReward, ConvReward or FeatureReward, a network is trained instead, r(s, a) = network(s, a),
    and theta above is all its parameters: `max_iter` steps of `optimiser` ("adam", "sgd", "lbfgs", or a function from
    parameters to a torch optimiser) at `learning_rate` (0.01; 1 for "lbfgs"), fewer if the norm of the gradient falls
    to `tol`. The gradient is "exact" or from "cells". The network that was given stays as it is: `reward_` has a copy.

    With `given="start"` the likelihood is that of each demonstration given where it starts: the loss is the mean over
    demonstrations of log Z(s_0) - R, and `score` the mean of log P(tau | s_0). See `xm.distribution`.

    `callback` gets a Record per iteration and stops the fit by returning True; Ctrl-C stops it too, and the model stays
    usable. `checkpoint` is a file that holds the whole state every `checkpoint_every` iterations; with `resume=True` a
    fit goes on from it (or starts, when there is none) and ends, bit for bit, where an uninterrupted one would have.

    After `fit`: `reward_`, its `weights_` if it is linear, `history_`, `n_iter_`, `converged_`, and `method_`, the
    method that was used. `converged_` is what the method can know of it: the gradient met `tol` ("exact"), was within
    its noise at the answer ("cells", where the last record is of the answer), or so on average over the averaged
    iterates ("paper"). Otherwise a ConvergenceWarning says why not. "cells" also leaves `weights_std_` (d,), the
    standard errors that its draws leave in the weights, and `distance_`, how far the answer is from the optimum in
    nats, with `distance_bound_`, which lies above the true distance 95 times in 100.

    >>> import xmen as xm
    >>> grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> rule = xm.visit(grid.at((1, 2), (2, 1)))
    >>> shy = np.zeros((16, 2, 1)); shy[grid.state((2, 1))] = 1.0
    >>> demos = xm.distribution(grid, rule, -2.0 * shy[:, :, 0], seed=0).sample(300)
    >>> model = XMEN(grid, rule, features=shy).fit(demos)
    >>> bool(-2.5 < model.weights_[0] < -1.5), model.converged_
    (True, True)
    """

    takes_networks: ClassVar[bool] = True

    def __init__(
        self,
        world: MDP | Network,
        constraint: Rules = None,
        features: ArrayLike | None = None,
        discount: float = 1.0,
        method: str = "auto",
        engine: str = "auto",
        seed: Seed = None,
        reward: NeuralReward | None = None,
        optimiser: Optimiser = "adam",
        l2: float | ArrayLike = 0.0,
        max_iter: int | None = None,
        tol: float = 1e-7,
        learning_rate: float | None = None,
        n_cells: int = 16,
        n_samples: int = 16,
        n_demonstrations: int | None = 16,
        self_normalised: bool = False,
        proposal: str = "fixed",
        burn_in: float = 0.5,
        cell_size: float | None = None,
        max_nodes: int | None = None,
        oracle: str = "auto",
        delta: float | None = None,
        failure: float | None = None,
        time_limit: float | None = 60.0,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        callback: Callback | None = None,
        given: str | None = None,
        fixed: Mapping[int, float] | None = None,
    ) -> None:
        self.world = world
        self.constraint = constraint
        self.features = features
        self.discount = discount
        self.method = method
        self.engine = engine
        self.seed = seed
        self.reward = reward
        self.optimiser = optimiser
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.n_cells = n_cells
        self.n_samples = n_samples
        self.n_demonstrations = n_demonstrations
        self.self_normalised = self_normalised
        self.proposal = proposal
        self.burn_in = burn_in
        self.cell_size = cell_size
        self.max_nodes = max_nodes
        self.oracle = oracle
        self.delta = delta
        self.failure = failure
        self.time_limit = time_limit
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.callback = callback
        self.given = given
        self.fixed = fixed

    def _engine_settings(self) -> dict[str, Any]:
        names = ("max_nodes", "oracle", "delta", "failure", "cell_size", "time_limit")
        return {name: getattr(self, name) for name in names}

    def _check_settings(self) -> None:
        super()._check_settings()
        if isinstance(self.world, Network):
            self._check_network()
        self._check_reward()
        if self.method not in METHODS and self.method != "auto":
            known = ", ".join(map(repr, ("auto", *METHODS)))
            raise EngineError(f"unknown method {self.method!r}: choose one of {known}.")
        if self.engine not in ENGINES:
            raise EngineError(f"unknown engine {self.engine!r}: choose one of {', '.join(map(repr, ENGINES))}.")
        if self.method == "exact" and self.engine in ("reject", "xor"):
            raise EngineError(
                f"method='exact' with engine={self.engine!r} makes no sense: where the gradient is exact, so is the "
                "engine. Use engine='exact' or 'auto', or method='cells'."
            )
        if self.given is not None and self.method == "paper":
            raise EngineError(
                "method='paper' with given='start' makes no sense: Algorithm 1 draws from the joint distribution. Use "
                "method='exact' or 'cells', or leave given out."
            )
        read_l2(self.l2)
        if self.fixed and self.method in ("cells", "paper"):
            raise EngineError(f"method={self.method!r} learns every weight: fixed needs method='exact' or 'auto'.")
        require_number("tol", self.tol, least=0.0)
        require_number("learning_rate", self.learning_rate, above=0.0, optional=True)
        require_number("cell_size", self.cell_size, above=0.0, optional=True)
        require_whole("max_iter", self.max_iter, least=1, optional=True)
        require_whole("n_cells", self.n_cells, least=2)
        require_whole("n_samples", self.n_samples, least=2)
        require_whole("n_demonstrations", self.n_demonstrations, least=1, optional=True)
        require_number("burn_in", self.burn_in, least=0.0)
        if self.burn_in >= 1.0:
            raise EngineError(f"burn_in is a share of the iterations, below 1; got {self.burn_in!r}.")
        if self.proposal not in ("fixed", "adaptive", "dynamics"):
            raise EngineError(f"unknown proposal {self.proposal!r}: choose 'fixed', 'adaptive' or 'dynamics'.")
        require_whole("checkpoint_every", self.checkpoint_every, least=1)
        if self.resume and self.checkpoint is None:
            raise EngineError("resume=True needs checkpoint=..., the file to go on from.")

    def _check_network(self) -> None:
        """What makes no sense on a network."""
        if self.method in ("cells", "paper"):
            raise EngineError(
                f"method={self.method!r} hashes the trajectories of one world, and every trip through a network has "
                "its own: use method='exact' or 'auto'."
            )
        if self.reward is not None:
            raise EngineError("on a network the reward is linear: give features, and leave reward out.")
        if self.given is not None:
            raise EngineError("on a network every trip is given its start and its goal already: leave given out.")
        if self.discount < 1.0 and self.world.horizon is None:
            raise EngineError(
                f"discount = {self.discount:g} needs a horizon: Network(..., horizon=...), or discount = 1."
            )

    def _check_reward(self) -> None:
        """Either features or a network, and the settings that go with it."""
        if self.reward is not None:
            return check_network(self)
        if isinstance(self.features, Reward):
            raise RewardError(
                f"features are arrays, and here a {type(self.features).__name__}: a network to be trained is given as "
                "reward=..., without features."
            )
        read_features(self.features, self.world)
        if self.optimiser != "adam":
            raise EngineError(
                f"optimiser={self.optimiser!r} is for training a network, and there is none: give reward=..., or leave "
                "optimiser out. A linear reward has its own."
            )

    def _fit(self, demos: Demonstrations) -> None:
        task = Task(demos, read_features(self.features, self.world), self)
        name, run = self._prepare(task)
        monitor = Monitor(self.callback)
        outcome = drive(run, monitor, self._checkpoint(name, demos))
        self.method_ = name
        answer = outcome.answer
        reward = answer if isinstance(answer, Reward) else task.features.reward(answer)
        self._learned(reward, monitor, outcome.converged)
        for name in ESTIMATES:  # of an earlier fit
            self.__dict__.pop(name, None)
        vars(self).update(outcome.learned)
        base = outcome.base
        # Given the start, learning was in a world of the demonstrations' own starts: that one does not answer.
        if base is not None and base.world is self.world and self.engine in ("auto", base.engine):
            answering = base.with_reward(self.reward_)
            answering.reason = base.reason
            self._keep(None, answering)

    def _prepare(self, task: Task) -> tuple[str, Run[Any]]:
        """The method that will be used, and its run."""
        if isinstance(self.world, Network):
            return "exact", _trips(task)
        if self.method != "auto":
            return self.method, METHODS[self.method](task)
        try:
            return "exact", METHODS["exact"](task)
        except ProductTooLargeError:
            return "cells", METHODS["cells"](task)

    def _checkpoint(self, method: str, demos: Demonstrations) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        left_out = set(NOT_PART_OF_A_RUN) - ({"delta", "failure"} if method == "paper" else set())
        identity = {name: value for name, value in self.get_params().items() if name not in left_out}
        identity["method"] = method
        identity["demonstrations"] = [demos.walks.starts, demos.walks.edges, demos.walks.lengths, demos.weights]
        if issparse(identity["features"]):
            matrix = identity["features"].tocsr()
            identity["features"] = [matrix.data, matrix.indices, matrix.indptr]
        elif identity["features"] is not None:
            identity["features"] = np.asarray(identity["features"], dtype=np.float64)
        if self.fixed:
            identity["fixed"] = {str(feature): float(value) for feature, value in sorted(self.fixed.items())}
        for name in ("reward", "optimiser"):
            identity.pop(name, None)
        if self.reward is not None:
            identity |= network_identity(self)
        return Checkpoint(self.checkpoint, self.checkpoint_every, self.resume, identity)


def _exact(task: Task) -> Run[Any]:
    learner = task.learner
    base = distribution(
        task.demos.seen_world(learner.given),
        learner._rule(),
        None,
        discount=learner.discount,
        engine="exact",
        seed=learner.seed,
        max_nodes=learner.max_nodes,
        given=learner.given,
    )
    if learner.reward is not None:
        return network_run(task, base)

    return ExactRun(task, base)  # type: ignore[arg-type]


def _trips(task: Task) -> Run[Any]:
    learner, demos = task.learner, task.demos
    counted = np.flatnonzero(demos.weights > 0)
    engine = TripEngine(
        learner.world,
        learner._rule(),
        demos.walks.starts[counted],
        demos.walks.last_states[counted],
        demos.weights[counted],
        node_budget(learner.max_nodes),
        learner.discount,
    )
    return TripRun(task, engine)


def _cells(task: Task) -> Run[Any]:
    learner = task.learner
    if learner.given is not None and np.count_nonzero(learner.world.start) > 1:
        raise EngineError(
            "method='cells' learns from the joint distribution, and this world has several starts: with given='start' "
            "use method='exact', or a world with one start."
        )
    settings = {**learner._engine_settings(), "delta": None, "failure": None}  # these are about samples
    base = distribution(learner.world, learner._rule(), None, discount=learner.discount, engine="xor", **settings)
    if learner.reward is not None:
        return network_run(task, base)

    return RoundsRun(task, base)  # type: ignore[arg-type]


def _paper(task: Task) -> Run[Any]:

    learner = task.learner
    settings = {**learner._engine_settings(), "delta": None, "failure": None}  # the run has its own
    base = distribution(learner.world, learner._rule(), None, discount=learner.discount, engine="xor", **settings)
    return PaperRun(task, base)  # type: ignore[arg-type]


METHODS: dict[str, Callable[[Task], Run[Any]]] = {"exact": _exact, "cells": _cells, "paper": _paper}
"""How a gradient can be found: each entry makes a run from a task."""
