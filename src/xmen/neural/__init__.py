"""Rewards given by neural networks, and their training (the extra `xmen[neural]`); torch loads when they are used."""

from xmen.neural.conv import ConvReward
from xmen.neural.fit import NeuralTraining, fit_neural
from xmen.neural.reward import FeatureReward, NeuralReward

__all__ = ["ConvReward", "FeatureReward", "NeuralReward", "NeuralTraining", "fit_neural"]
