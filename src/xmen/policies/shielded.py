"""A Gymnasium environment behind a shield."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium
import numpy as np

from xmen.engines.distribution import Seed, generator

if TYPE_CHECKING:
    from xmen.policies.shield import Shield


class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Lets through what the shield allows, and puts an allowed action in the place of any other.

    Episodes are cut off (`truncated`) where the shield's world ends them.
    """

    def __init__(self, env: Any, shield: Shield, seed: Seed = None) -> None:
        super().__init__(env)
        self.shield = shield
        self._draws = generator(seed)
        self._observation: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; `info["action_mask"]` says what may be done (int8, as in Gymnasium's own environments)."""
        if seed is not None:
            self._draws = generator(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        self.shield.reset(observation)
        self._observation = observation
        return observation, {**info, "action_mask": self._mask(), "shielded": False}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take the action if it is allowed, else an allowed one; an error once the episode is over."""
        self.shield._due()
        allowed = np.flatnonzero(self._mask())
        done = int(action) if int(action) in allowed else int(self._draws.choice(allowed))
        observation, reward, terminated, truncated, info = self.env.step(done)
        self.shield.step(done, observation)
        self._observation = observation
        over = truncated or (self.shield.done and not terminated)
        shown = {**info, "action_mask": self._mask(), "shielded": done != int(action)}
        return observation, reward, terminated, over, shown

    def _mask(self) -> Any:
        return self.shield.mask(self._observation).astype(np.int8)
