"""Rewards r(s, a): tables, linear in features, or given by a neural network (torch loads when one is made)."""

from xmen.rewards.linear import LARGEST_RETURN, Floats, LinearReward, Reward, real_array, reward_table

__all__ = ["LARGEST_RETURN", "Floats", "LinearReward", "Reward", "real_array", "reward_table"]
