"""What another agent may do: the actions after which the rules can still be kept surely, or as likely as can be."""

from collections.abc import Iterable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Seed, generator
from xmen.errors import EngineError, extra_module
from xmen.policies.behaviour import Behaviour, aim_of, is_sure, make_game
from xmen.policies.explanation import refuse
from xmen.policies.game import Bools
from xmen.policies.policy import Tracker, read_rule
from xmen.worlds.mdp import MDP


class Shield(Tracker):
    """Follows an agent through an episode and says which actions it may take; made by `xm.shield`.

    With validity "sure", an agent that keeps to `mask` keeps every rule, whatever chance does. With "best" each allowed
    action has the largest chance of keeping the rules that there is (all of them, once nothing can be saved).
    """

    _kind, _asked = "shield", "mask"

    def __repr__(self) -> str:
        return f"<Shield ({self.behaviour.aim.kind}) for {self._task}>"

    def mask(self, observation: Any) -> Bools:
        """Which actions the agent may take, now that the environment shows `observation`; shape (n_actions,).

        None of them once the episode is over.
        """
        node = self._find(observation)
        out = np.zeros(self.world.n_actions, dtype=np.bool_)
        if not self._ended(node):
            out[self._game.action[self._open(node)]] = True
        return out

    def _open(self, node: int) -> NDArray[np.int64]:
        return super()._open(node)[self.behaviour.allowed(self.time, node)]

    def wrap(self, env: Any, seed: Seed = None) -> "ShieldedEnv":
        """The Gymnasium environment in which only allowed actions happen.

        `info["action_mask"]` says what is allowed. An action that is not is replaced by one of those, at random, and
        `info["shielded"]` is then true.
        """
        extra_module("gymnasium", "shield.wrap")

        return ShieldedEnv(env, self, seed)


def shield(
    world: MDP,
    constraint: Constraint | Iterable[Constraint] | None = None,
    validity: str = "sure",
    max_nodes: int | None = None,
) -> Shield:
    """What another agent may do so that the rules are kept surely, or as likely as can be.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    constraint
        A constraint, a list of them (all), or None.
    validity
        "sure" or "best".
    max_nodes
        The budget of the product of world and rules.

    Returns
    -------
    Shield
        With `reset(observation)`, `mask(observation)` and `step(action, observation)`.

    Raises
    ------
    InfeasibleError
        Where nothing is sure; it says what chance can do, and the best probability there is.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> guard = xm.shield(grid, xm.visit(grid.at((1, 1))).named("through the middle"))
    >>> guard.reset(grid.state((0, 0)))
    >>> guard.step(0, grid.state((0, 1)))  # up
    >>> guard.mask(grid.state((0, 1)))  # no further up: the middle would be missed
    array([False,  True])
    """
    rule = read_rule(world, constraint, "shield")
    if validity not in ("sure", "best"):
        raise EngineError(f"a shield's validity is 'sure' or 'best'; got {validity!r}.")
    game = make_game(world, rule, max_nodes)
    behaviour = Behaviour.unrewarded(game, aim_of(validity))
    if validity == "sure" and not is_sure(behaviour, game.start_probability):
        raise refuse(game, "sure", max_nodes)
    return Shield(behaviour)


# ---- A Gymnasium environment behind a shield


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
