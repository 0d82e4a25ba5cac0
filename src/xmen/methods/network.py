"""What XMEN does with `reward=`, a network to be trained: checks, and the run of its training.

Imported when it is needed: the rest of the learners know nothing of networks.
"""

from __future__ import annotations

from typing import Any

from xmen.engines.distribution import Distribution
from xmen.engines.settings import DEFAULT_CELL_SIZE
from xmen.errors import EngineError, RewardError
from xmen.methods.likelihood import CellsLikelihood, DistributionLikelihood, Likelihood
from xmen.methods.network_run import DEFAULT_MAX_ITER, NeuralRun
from xmen.methods.network_training import NeuralTraining
from xmen.methods.runs import Task
from xmen.methods.seeds import seed_sequence
from xmen.rewards.neural import NeuralReward


def check_network(learner: Any) -> None:
    """Refuse a reward that cannot be trained in this world, and settings that do not go with one."""
    reward, world = learner.reward, learner.world
    if not isinstance(reward, NeuralReward):
        is_module = hasattr(reward, "parameters") and hasattr(reward, "forward")
        raise RewardError(
            "reward takes a network to be trained, a NeuralReward, ConvReward or FeatureReward; got "
            f"{type(reward).__name__}. "
            + ("Write NeuralReward(module, inputs)." if is_module else "For a linear reward give features.")
        )
    if learner.features is not None:
        raise EngineError(
            "features and reward are both given: features are for a linear reward, and a reward by a network has its "
            f"own inputs. Leave out one of features and reward={reward!r}."
        )
    if learner.method == "paper":
        raise EngineError(
            "method='paper' is for linear rewards: its step and its guarantee are those of theta . f. Train a network "
            "with method='exact' or 'cells', or give features."
        )
    if (reward.n_states, reward.n_actions) != (world.n_states, world.n_actions):
        raise RewardError(
            f"reward is for {reward.n_states} states and {reward.n_actions} actions, but the world has "
            f"{world.n_states} states and {world.n_actions} actions: give inputs of shape "
            f"({world.n_states}, {world.n_actions}, d)."
        )


def network_run(task: Task, base: Distribution) -> NeuralRun:
    """Trains a copy of the learner's reward, by hash cells where `base` is of the XOR engine."""

    learner = task.learner
    visits = task.demos.visits(learner.discount)
    likelihood: Likelihood = DistributionLikelihood(base, visits)
    if base.engine == "xor":
        size = DEFAULT_CELL_SIZE if learner.cell_size is None else float(learner.cell_size)
        likelihood = CellsLikelihood(base, visits, learner.n_cells, size)
    training = NeuralTraining(
        likelihood, learner.reward.copy(), learner.optimiser, learner.learning_rate, float(learner.l2)
    )
    max_iter = DEFAULT_MAX_ITER if learner.max_iter is None else int(learner.max_iter)
    kept = base if likelihood.exact else None
    return NeuralRun(training, seed_sequence(learner.seed), max_iter, float(learner.tol), kept, advise=True)


def network_identity(learner: Any) -> dict[str, Any]:
    """What a checkpoint has to agree on. The numbers in the network are not part of it: the checkpoint has them."""
    made = learner.optimiser
    named = f"{made.__module__}.{made.__qualname__}" if hasattr(made, "__qualname__") else type(made).__name__
    return {"reward": learner.reward.structure(), "optimiser": named if callable(made) else made}
