"""Rewards given by neural networks, and their training (the extra `xmen[neural]`); torch loads when they are used."""

from xmen.neural.conv import ConvReward
from xmen.neural.fit import fit_neural
from xmen.neural.reward import FeatureReward, NeuralReward
from xmen.neural.training import NeuralTraining

__all__ = ["ConvReward", "FeatureReward", "NeuralReward", "NeuralTraining", "fit_neural"]
