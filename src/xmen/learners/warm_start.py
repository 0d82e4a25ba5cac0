"""What a further fit begins with: the weights or the network of the last one, and what its optimiser knew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xmen.errors import EngineError
from xmen.rewards import Floats
from xmen.rewards.neural import NeuralReward

if TYPE_CHECKING:
    from xmen.learners.base import Learner


def earlier_weights(learner: Learner, d: int) -> Floats | None:
    """The weights of the last fit; None where there was none, or it trained a network."""
    weights: Floats | None = vars(learner).get("weights_")
    if weights is not None and len(weights) != d:
        raise EngineError(
            f"warm_start=True begins with the last fit's weights, {len(weights)} of them, and now there are {d} "
            "features: give the same features, or a new learner."
        )
    return weights


def earlier_network(learner: Learner, reward: NeuralReward | None) -> NeuralReward | None:
    """The network of the last fit, or the one that is given."""
    last = vars(learner).get("reward_")
    return last if isinstance(last, NeuralReward) else reward


def remembered(learner: Any, learned: Mapping[str, Any]) -> dict[str, Any]:
    """What a model keeps of a fit: the optimiser's state, which can be as large as the model, only for a warm start."""
    return {name: value for name, value in learned.items() if name != "optimiser_state_" or learner.warm_start}


def earlier_memory(learner: Learner) -> dict[str, Any] | None:
    """What the optimiser of the last fit knew, as far as its method has one."""
    return vars(learner).get("optimiser_state_")
