"""The stream of random numbers that a fit has for itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.engines.distribution import Seed


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """The seed of a learning run: one number drawn from a Generator, a child of a SeedSequence."""
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(int(seed.integers(2**63)))
    if isinstance(seed, np.random.SeedSequence):
        return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 0))
    return np.random.SeedSequence(seed, spawn_key=(0,))


def stored_seed(seeds: np.random.SeedSequence) -> dict[str, Any]:
    """A seed as the state of a run has it."""
    return {"entropy": seeds.entropy, "spawn_key": list(seeds.spawn_key)}


def child_seed(stored: dict[str, Any], number: int) -> np.random.SeedSequence:
    """The stream of one step or round: a child of the run's seed, by its number."""
    return np.random.SeedSequence(stored["entropy"], spawn_key=(*stored["spawn_key"], number))
