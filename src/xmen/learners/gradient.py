"""What learners that follow a gradient share: features or a network, checkpoints, validation and warm starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from xmen.errors import EngineError, RewardError
from xmen.learners.base import Learner
from xmen.learners.identity import run_identity
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.network_training import Training, check_network
from xmen.methods.runs import Outcome, Run, drive
from xmen.methods.validation import check_patience, validated
from xmen.options import Options, require_whole
from xmen.progress.monitor import Callback, Monitor
from xmen.rewards import Floats, Reward
from xmen.rewards.neural import NeuralReward
from xmen.storage.checkpoint import Checkpoint

# What only some methods know of their answer.
ESTIMATES = ("weights_std_", "distance_", "distance_bound_", "acceptance_", "gradient_noise_")


class GradientLearner(Learner):
    """A learner that is driven step by step; subclasses are dataclasses with these settings among theirs."""

    features: ArrayLike | None
    reward: NeuralReward | None
    training: Training | None
    l2: float | ArrayLike
    fixed: Mapping[int, float] | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    resume: bool
    callback: Callback | None
    warm_start: bool
    patience: int | None

    def _record(self, name: str) -> Options:
        return self.training or Training() if name == "training" else super()._record(name)

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise EngineError(f"checkpoint is the name of a file, or None; got {self.checkpoint!r:.60}.")
        if not isinstance(self.fixed, Mapping | None):
            raise EngineError(f"fixed maps numbers of features to weights, as {{0: 1.5}}; got {self.fixed!r:.60}.")
        require_whole("checkpoint_every", self.checkpoint_every, least=1)
        check_patience(self.patience)
        if self.resume is True and self.checkpoint is None:
            raise EngineError("resume=True needs checkpoint=..., the file to go on from.")

    def _check_reward(self) -> None:
        """Either features or a network, and the settings that go with it."""
        if self.training is not None and not isinstance(self.training, Training):
            raise EngineError(f"training takes a record such as xm.Training('lbfgs'); got {self.training!r:.60}.")
        if self.reward is not None:
            if np.ndim(self.l2):
                raise EngineError(
                    "l2 of a network's parameters is one number, 0 or more; one per feature is for features."
                )
            return check_network(self.reward, self.world.any_task, self.features)
        if isinstance(self.features, Reward):
            raise RewardError(
                f"features are arrays, and here a {type(self.features).__name__}: a network to be trained is given as "
                "reward=..., without features."
            )
        self._read_features()
        if self.training is not None:
            raise EngineError(
                f"training={self.training!r} is for training a network, and there is none: give reward=..., or leave "
                "training out. A linear reward has its own."
            )

    def _begin(self) -> tuple[Floats | None, NeuralReward | None, dict[str, Any] | None]:
        """Weights, network and memory of the optimiser that a fit begins with; for a warm start, the last fit's."""
        last = vars(self) if self.warm_start else {}
        weights, reward, d = last.get("weights_"), last.get("reward_"), self._read_features().d
        if self.reward is None and weights is not None and len(weights) != d:
            raise EngineError(
                f"warm_start=True begins with the last fit's weights, {len(weights)} of them, and now there are {d} "
                "features: give the same features, or a new learner."
            )
        network = reward if isinstance(reward, NeuralReward) else self.reward
        return weights, network, last.get("optimiser_state_")

    def _drive(self, run: Run[Any], identity: Mapping[str, Any], demos: Demonstrations) -> Outcome:
        """Take the run to its end, and keep what was learned; `identity`: the settings that make it this run."""
        features, monitor, checkpoint = self._read_features(), Monitor(self.callback), None
        if self.checkpoint is not None:
            same = run_identity(identity, demos, self._validation)
            checkpoint = Checkpoint(self.checkpoint, self.checkpoint_every, self.resume, same)
        outcome = drive(validated(run, features, self._validation), monitor, checkpoint)
        answer = outcome.answer
        self._learned(answer if isinstance(answer, Reward) else features.reward(answer), monitor, outcome.converged)
        for name in ESTIMATES:  # of an earlier fit
            self.__dict__.pop(name, None)
        # The optimiser's state can be as large as the model: it is kept for a warm start only.
        kept = outcome.learned.items()
        vars(self).update({name: value for name, value in kept if name != "optimiser_state_" or self.warm_start})
        return outcome
