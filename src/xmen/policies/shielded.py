"""A Gymnasium environment behind a shield."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from xmen.engines.distribution import Seed, generator
from xmen.events import Bools
from xmen.policies.policy import Shield


class ShieldedEnv(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Lets through what the shield allows, and puts an allowed action in the place of any other."""

    def __init__(self, env: Any, shield: Shield, seed: Seed) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, shield=shield, seed=seed)
        gymnasium.Wrapper.__init__(self, env)
        self.shield, self._draws = shield, generator(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        if seed is not None:
            self._draws = generator(seed)
        observation, info = self.env.reset(seed=seed, options=options)
        self.shield.reset(observation)
        return observation, self._shown(info, observation, shielded=False)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        allowed = np.flatnonzero(self.action_masks())
        self.shield._due()
        done = int(action) if int(action) in allowed else int(self._draws.choice(allowed))
        observation, reward, terminated, truncated, info = self.env.step(done)
        self.shield.step(done, observation)
        over = truncated or (self.shield.done and not terminated)
        return observation, reward, terminated, over, self._shown(info, observation, done != int(action))

    def action_masks(self) -> Bools:
        """Which actions are allowed now, shape (n_actions,), as MaskablePPO of sb3-contrib asks for it."""
        if not hasattr(self, "_mask"):
            raise gymnasium.error.ResetNeeded("call reset() before the first action")
        return self._mask.copy()

    def _shown(self, info: dict[str, Any], observation: Any, shielded: bool) -> dict[str, Any]:
        self._mask = self.shield.mask(observation)
        return {**info, "action_mask": self._mask.astype(np.int8), "shielded": shielded}
