"""A policy with memory: what to do next, given all that has happened, and exactly what comes of it."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, Seed, generator
from xmen.errors import EngineError
from xmen.policies.behaviour import Aim, Behaviour
from xmen.policies.breaking import breaking
from xmen.policies.certain import behaviour_of
from xmen.policies.following import log_probs
from xmen.policies.likeliest import likeliest_episode
from xmen.policies.operations import Occupancy
from xmen.policies.planning import make_game
from xmen.policies.rollouts import rollout
from xmen.policies.tracking import Tracker
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.rewards import Floats, reward_table
from xmen.storage.models import restores, write_model
from xmen.worlds import MDP, Trajectory


class Policy(Tracker):
    """Acts step by step, remembers what the rules still need, and knows what it can promise.

    Made by `xm.plan`, by a learner's `policy()`, or from an exact distribution over a deterministic world: there its
    episodes are distributed as P(tau | s_0), and every one of them keeps the rules. In a world with chance P conditions
    on lucky transitions, which an agent cannot choose: `xm.plan` is for those.

    `act` is called once per step of the environment; the policy checks that the environment does what the world says.

    Parameters
    ----------
    source
        An exact Distribution over a deterministic world (or what `xm.plan` has worked out).
    greedy
        Take the most likely next action instead of a random one (step by step, which is not always the most likely
        trajectory). `validity`, `visits`, `rollout` and the like are those of the random choices. What is promised
        surely or as well as possible is kept by every choice; a probability p is not, and refuses greedy choices.
    seed
        For `act` and `rollout`.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> policy = xm.plan(grid, xm.visit(grid.at((0, 2))))
    >>> policy.reset(grid.state((0, 0)))
    >>> grid.moves[policy.act(grid.state((0, 0)))]
    'up'
    >>> policy.validity
    1.0
    """

    def __init__(self, source: Distribution | Behaviour, greedy: bool = False, seed: Seed = None) -> None:
        if isinstance(source, Distribution):
            source = behaviour_of(source)
        if greedy and source.aim.kind == "bonus":
            raise EngineError(
                "greedy=True takes the likeliest action every time, but a promise of some probability is kept by "
                'random choices only: leave greedy out, or ask for validity "sure" or "best", which it keeps too.'
            )
        super().__init__(source)
        self.greedy = greedy
        self._rng = generator(seed)

    def __repr__(self) -> str:
        return f"<Policy for {self._task}; {len(self._product.state):,} nodes of memory>"

    # --- what it promises --------------------------------------------------------------------------------------

    @property
    def discount(self) -> float:
        """Rewards of action t count discount**t times."""
        return self.behaviour.discount

    @cached_property
    def validity(self) -> float:
        """The exact probability that an episode keeps every rule and arrives in time."""
        chances, possible = self.behaviour.start_chances, self._starts > 0
        return 1.0 if np.all(chances[possible] == 1.0) else min(1.0, float(chances @ self._starts))

    @property
    def _starts(self) -> Floats:
        return self._game.start_probability

    @cached_property
    def _occupancy(self) -> Occupancy:
        return self.behaviour.occupancy(self._starts, with_entropy=True)

    def visits(self) -> Floats:
        """Expected discounted visits of each state and action, shape (n_states, n_actions)."""
        return self.behaviour.visits(self._occupancy)

    def state_visits(self) -> Floats:
        """Expected number of positions at each state, without discount, shape (n_states,)."""
        return self.behaviour.state_visits(self._starts)

    def mode(self) -> Trajectory:
        """The likeliest episode, by the policy's choices and the world's chances; it may be one that fails."""
        return likeliest_episode(self.behaviour)[0]

    def expected_reward(self) -> float:
        """The expected discounted sum of rewards of an episode."""
        return float(np.sum(self.visits() * self.behaviour.table))

    def entropy(self) -> float:
        """The causal entropy in nats: that of the policy's own choices, summed over an episode, not of chance."""
        return max(0.0, self._occupancy.entropy)

    def log_prob(self, trajectory: Trajectory) -> float:
        """sum_t log pi(a_t | history), whatever the outcomes; -inf where the world or the policy would not do that."""
        if not isinstance(trajectory, Trajectory):
            raise EngineError(f"log_prob takes a Trajectory(states, actions); got {type(trajectory).__name__}.")
        return float(log_probs(self.behaviour, [trajectory])[0])

    def breaks(self) -> dict[str, float]:
        """The exact probability of breaking each rule, by its name.

        A rule is broken where `accepts` says so of the episode as far as it went: an episode that does not arrive in
        time breaks what it still had to do. Rules that no name covers go by their text.
        """
        return breaking(self.behaviour)

    def rollout(self, n: int, seed: Seed = None) -> list[Trajectory]:
        """n independent episodes in the world's own chances, failed and unfinished ones included.

        Each was checked by running the rules' machines over it. Without a seed, calls go on from the last.
        """
        return rollout(self.behaviour, n, self._rng if seed is None else generator(seed))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy as one folder, exactly at `path`; read it with `xm.load`.

        World, rules and reward are stored, and the bonus that was found; what follows from them is worked out again.
        """
        aim = self.behaviour.aim
        settings = {
            "world": self.world,
            "constraint": self.constraint,
            "table": self.behaviour.table,
            "discount": self.discount,
            "kind": aim.kind,
            "bonus": aim.bonus,
            "greedy": self.greedy,
            "n_nodes": self._product.n_nodes,
        }
        write_model(path, "Policy", settings, {})

    # --- acting ------------------------------------------------------------------------------------------------

    def probabilities(self, observation: Any) -> Floats:
        """pi(a | history) of each action, now that the environment shows `observation`; shape (n_actions,)."""
        choices, shares = self._choices(self._arrive(observation), self.time)
        out = np.zeros(self.world.n_actions)
        out[self._game.action[choices]] = shares
        return out

    def act(self, observation: Any) -> int:
        """The next action, now that the environment shows `observation`; an error once the episode is `done`."""
        node, time = self._arrive(observation), self.time
        choices, shares = self._choices(node, time)
        if self.greedy:
            chosen = int(np.argmax(shares))
        else:
            # Only actions of positive probability can be drawn, whatever is rounded.
            able = np.flatnonzero(shares)
            place = np.searchsorted(np.cumsum(shares[able]), self._rng.random() * shares.sum(), side="right")
            chosen = int(able[min(int(place), len(able) - 1)])
        self._node, self._time, self._taken = node, time, int(choices[chosen])
        return int(self._game.action[self._taken])

    def step(self, action: Any, observation: Any) -> None:
        """Note an action that somebody took instead of `act`, and what the environment showed then."""
        node = self._due()
        taken = [choice for choice in self._game.choices_of(node) if self._game.action[choice] == action]
        if not taken:
            where = self.world.describe_state(int(self._product.state[node]))
            raise EngineError(f"action {action!r} is not available in {where}.")
        self._follow(taken[0], observation)

    def chance(self, observation: Any) -> float:
        """The exact probability of keeping every rule if the policy acts from here on; `observation` is shown now.

        Of a policy that promises surely it is 1 while that can still be, and else 0.
        """
        node, layer = self._find(observation), self.behaviour.layer(self.time)
        return float(np.isfinite(layer.value[node]) if layer.chance is None else layer.chance[node])

    def _arrive(self, observation: Any) -> int:
        """The node in which the policy is, if there is something left to do."""
        node = self._find(observation)
        if self._ended(node):
            self.observe(observation)
            raise self._over()
        return node

    def _choices(self, node: int, time: int) -> tuple[NDArray[np.int64], Floats]:
        """The choices of a node, and their probabilities."""
        choices = self._game.choices_of(node)
        return np.arange(choices.start, choices.stop), self.behaviour.layer(time).shares[choices.start : choices.stop]


@restores("Policy")
def _restored(
    world: MDP,
    constraint: Constraint | None,
    table: Floats,
    discount: float,
    kind: Any,
    bonus: float,
    greedy: bool,
    n_nodes: int,
) -> Policy:
    """What `Policy.save` wrote, worked out again."""
    if kind not in ("sure", "best", "bonus"):
        raise ValueError(f"unknown kind of policy {kind!r}")
    game = make_game(world, constraint, max(DEFAULT_MAX_NODES, n_nodes))
    return Policy(Behaviour(game, reward_table(table, world), discount, Aim(kind, bonus)), greedy=greedy)
