"""Agents with memory: a policy says what to do next, given all that has happened, and a shield what another may do."""

import operator
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, Rules, Seed, as_constraint, check_discount, generator
from xmen.engines.exact import ExactDistribution
from xmen.errors import EngineError, InfeasibleError, TrajectoryError, extra_module
from xmen.machines.tables import as_trajectories
from xmen.policies import behaviour as behaviours
from xmen.policies.behaviour import Behaviour, make_game
from xmen.policies.explanation import breaking, promised
from xmen.policies.game import Bools, Occupancy, game_of
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.rewards import Floats, Reward, reward_table
from xmen.storage.models import storable, write_model
from xmen.worlds import MDP, Trajectory, Walks
from xmen.worlds.mdp import GymnasiumWorld


class Tracker:
    """Follows one episode through a game, and checks that the environment does what the world says."""

    _kind, _asked = "policy", "probabilities"

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self._game, self._product = behaviour.game, behaviour.game.product
        self.world, self.constraint = self._product.world, self._product.compiled.constraint
        # Gymnasium shows the same observation for a state and its terminal twin.
        world = self.world
        self._shown = world.observations if isinstance(world, GymnasiumWorld) else np.arange(world.n_states)
        # The nodes in which the episode may be, one of them once it was observed, and the number of actions before.
        self._memory: tuple[list[int], int] | None = None

    @property
    def _task(self) -> str:
        """The world and the rules, as they are shown."""
        rule = "no rule" if self.constraint is None else str(self.constraint)
        return f"{type(self.world).__name__}: {rule if len(rule) <= 60 else rule[:57] + '...'}"

    @property
    def time(self) -> int:
        """The number of actions taken since `reset`."""
        return 0 if self._memory is None else self._memory[1]

    @property
    def done(self) -> bool:
        """Whether the episode is over as far as is known: in an end, on its way to nothing else, or out of time.

        Nothing is promised of what an environment does after the horizon of the world: end the episode there.
        """
        return all(self._ended(node) for node in self._possible())

    def observe(self, observation: Any) -> None:
        """Note where the last action led: for asking `done` when there may be nothing left to do."""
        self._memory = [self._find(observation)], self.time

    def reset(self, observation: Any) -> None:
        """Begin an episode in this state; an error when it is no start, or nothing can be promised from there."""
        state, product, world = read_observation(observation), self._product, self.world
        found = np.flatnonzero(product.state[product.starts] == state)
        if not len(found) or self.behaviour.start_values[found[0]] == -np.inf:
            known = 0 <= state < world.n_states
            where = world.describe_state(state) if known else f"state {state}"
            possible = known and world.start[state] > 0
            why = "no trajectory from there keeps the constraint" if possible else "the world never starts there"
            raise InfeasibleError(f"an episode cannot begin in {where}: {why}.")
        self._memory = [int(product.starts[found[0]])], 0

    def step(self, action: Any, observation: Any) -> None:
        """Note an action that somebody took (instead of `act`), and what the environment showed then; or neither."""
        before, node = self._memory, self._due()
        choices = self._open(node)
        taken = choices[self._game.action[choices] == action]
        if not len(taken):
            where = self.world.describe_state(int(self._product.state[node]))
            names = ", ".join(self.world.describe_action(int(a)) for a in self._game.action[choices])
            refused = f"action {action!r} is not allowed in {where} by this {self._kind}; allowed: {names}"
            raise EngineError(f"{refused}. Ask {self._asked}(observation) before every action.")
        self._memory = self._game.outcomes(taken[0]), self.time + 1
        try:
            self.observe(observation)
        except BaseException:
            self._memory = before
            raise

    def _open(self, node: int) -> NDArray[np.int64]:
        """The choices of a node that may be made."""
        return np.array(self._game.choices_of(node), dtype=np.int64)

    def _due(self) -> int:
        """The node in which somebody has to act now."""
        here = self._possible()
        if len(here) > 1 or self._ended(here[0]):
            raise self._over()
        return here[0]

    def _over(self) -> EngineError:
        late = " and that is the horizon of this world" if self.time == self._game.horizon else ""
        advice = "ask `done` before every action, and call reset(observation) to begin another one"
        return EngineError(f"the episode is over after {self.time} actions{late}: {advice}.")

    def _ended(self, node: int) -> bool:
        return self.time == self._game.horizon or not self._game.choices_of(node)

    def _possible(self) -> list[int]:
        """The nodes in which the episode may be, if the environment did what the world says."""
        if self._memory is None:
            raise EngineError(f"the {self._kind} does not know where it is: call reset(observation) first.")
        return self._memory[0]

    def _find(self, observation: Any) -> int:
        """The node in which the episode is, now that the environment shows `observation`."""
        possible, state = self._possible(), read_observation(observation)
        found = [node for node in possible if self._shown[self._product.state[node]] == state]
        if not found:
            after = "reset" if self.time == 0 else f"action number {self.time}"
            expected = " or ".join(self.world.describe_state(int(self._product.state[node])) for node in possible)
            raise TrajectoryError(
                f"after {after} the environment shows {state}, but in this world it is in {expected}: call "
                "reset(observation) at the start of every episode and act(observation) once per step, and make the "
                "world from the same environment."
            )
        # Of a state and its terminal twin it is the state: who asks for an action has seen no end.
        return next((node for node in found if not self._ended(node)), found[0])


def read_observation(observation: Any) -> int:
    """The number of a state, or an error that says so."""
    try:
        return operator.index(observation.item() if isinstance(observation, np.ndarray) else observation)
    except (TypeError, ValueError):
        raise TrajectoryError(f"an observation is the number of a state; got {observation!r:.60}.") from None


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
        if greedy and isinstance(source.aim, float):
            why = "greedy=True takes the likeliest action every time, but a promise of some probability"
            advice = 'leave greedy out, or ask for validity "sure" or "best", which it keeps too'
            raise EngineError(f"{why} is kept by random choices only: {advice}.")
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
        chances, starts = self.behaviour.start_chances, self._game.start_probability
        return 1.0 if np.all(chances[starts > 0] == 1.0) else min(1.0, float(chances @ starts))

    @cached_property
    def _occupancy(self) -> Occupancy:
        return self.behaviour.occupancy(self._game.start_probability, with_entropy=True)

    def visits(self) -> Floats:
        """Expected discounted visits of each state and action, shape (n_states, n_actions)."""
        return self._game.visits(self._occupancy.used)

    def state_visits(self) -> Floats:
        """Expected number of positions at each state, without discount, shape (n_states,)."""
        game, found = self._game, self.behaviour.occupancy(self._game.start_probability, discount=1.0)
        ended = np.bincount(self._product.state, game.on_host(found.ended + found.here), minlength=self.world.n_states)
        return np.asarray(game.visits(found.used).sum(axis=1) + ended)

    def mode(self) -> Trajectory:
        """The likeliest episode, by the policy's choices and the world's chances; it may be one that fails."""
        return behaviours.likeliest_episode(self.behaviour)[0]

    def expected_reward(self) -> float:
        """The expected discounted sum of rewards of an episode."""
        return float(np.sum(self.visits() * self.behaviour.table))

    def entropy(self) -> float:
        """The causal entropy in nats: that of the policy's own choices, summed over an episode, not of chance."""
        return max(0.0, float(self._occupancy.entropy))

    def log_prob(self, trajectory: Trajectory) -> float:
        """sum_t log pi(a_t | history), whatever the outcomes; -inf where the world or the policy would not do that."""
        if not isinstance(trajectory, Trajectory):
            raise EngineError(f"log_prob takes a Trajectory(states, actions); got {type(trajectory).__name__}.")
        return float(behaviours.log_probs(self.behaviour, Walks.of(self.world, [trajectory]))[0])

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
        rng = self._rng if seed is None else generator(seed)
        return [tau for walks, _ in behaviours.play_many(self.behaviour, n, rng) for tau in as_trajectories(walks)]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy as one folder, exactly at `path`; read it with `xm.load`.

        World, rules and reward are stored, and the bonus that was found; what follows from them is worked out again.
        """
        task = {"world": self.world, "constraint": self.constraint, "table": self.behaviour.table}
        aim = self.behaviour.aim
        kind, bonus = ("bonus", aim) if isinstance(aim, float) else (aim, 0.0)
        settings = {"discount": self.discount, "kind": kind, "bonus": bonus, "greedy": self.greedy}
        write_model(path, "Policy", {**task, **settings, "n_nodes": self._product.n_nodes}, {})

    # --- acting ------------------------------------------------------------------------------------------------

    def probabilities(self, observation: Any) -> Floats:
        """pi(a | history) of each action, now that the environment shows `observation`; shape (n_actions,)."""
        choices, shares = self._choices(observation)
        out = np.zeros(self.world.n_actions)
        out[self._game.action[choices]] = shares
        return out

    def act(self, observation: Any) -> int:
        """The next action, now that the environment shows `observation`; an error once the episode is `done`."""
        choices, shares = self._choices(observation)
        if self.greedy:
            chosen = int(np.argmax(shares))
        else:
            # Only actions of positive probability can be drawn, whatever is rounded.
            able = np.flatnonzero(shares)
            place = np.searchsorted(np.cumsum(shares[able]), self._rng.random() * shares.sum(), side="right")
            chosen = int(able[min(int(place), len(able) - 1)])
        self._memory = self._game.outcomes(choices[chosen]), self.time + 1
        return int(self._game.action[choices[chosen]])

    def chance(self, observation: Any) -> float:
        """The exact probability of keeping every rule if the policy acts from here on; `observation` is shown now.

        Of a policy that promises surely it is 1 while that can still be, and else 0.
        """
        return float(self.behaviour.chance(self.time, self._find(observation)))

    def _choices(self, observation: Any) -> tuple[NDArray[np.int64], Floats]:
        """The choices of the node in which the policy is, and their probabilities; an error where none is left."""
        node = self._find(observation)
        if self._ended(node):
            self.observe(observation)
            raise self._over()
        choices = self._open(node)
        return choices, self.behaviour.layer(self.time).shares[choices]


@partial(storable, name="Policy")
def _restored(
    world: MDP, constraint: Any, table: Floats, discount: float, kind: Any, bonus: float, greedy: bool, n_nodes: int
) -> Policy:
    """What `Policy.save` wrote, worked out again."""
    if kind not in ("sure", "best", "bonus"):
        raise ValueError(f"unknown kind of policy {kind!r}")
    game = make_game(world, constraint, max(DEFAULT_MAX_NODES, n_nodes))
    aim = bonus if kind == "bonus" else kind
    return Policy(Behaviour(game, reward_table(table, world), discount, aim), greedy=greedy)


# Without chance a choice has one outcome, so that V_t(n) is the log of the weight of all ways to complete a trajectory
# from n, and the shares of choices are the conditional probabilities of P. What the product has pruned is what "sure"
# would never choose.


def behaviour_of(distribution: Distribution) -> Behaviour:
    """P(a | history) at every node and time; for an exact distribution over a deterministic world."""
    world = distribution.world
    if not world.deterministic:
        chance = int(np.flatnonzero(world.probability < 1.0)[0])
        raise EngineError(
            "a distribution over trajectories can be acted out only in deterministic worlds, and here "
            f"{world.describe_action(int(world.action[chance]))} in "
            f"{world.describe_state(int(world.source[chance]))} has more than one outcome. The distribution "
            "conditions on lucky transitions, so it describes trajectories and cannot be acted out with the same "
            "validity: use sample(n) for trajectories, xm.plan(world, constraint, reward) for a policy with a promise, "
            "or CausalXMEN to learn one."
        )
    if not isinstance(distribution, ExactDistribution):
        raise EngineError(f"a policy needs engine='exact'; this distribution is of engine={distribution.engine!r}.")
    if world.unbounded:
        raise EngineError(behaviours.NEEDS_HORIZON)
    game = game_of(distribution.product, getattr(distribution.place, "device", None))
    table = np.append(reward_table(distribution.reward, world), distribution.weights.rules)
    return Behaviour(game, table, distribution.discount, "sure")


def read_rule(world: object, constraint: Rules | None, asked: str) -> Constraint | None:
    """The constraint that a function, `asked`, was given with its world; errors say what it takes."""
    if not isinstance(world, MDP):
        raise EngineError(f"{asked}(world, ...) takes an MDP or GridWorld; got {type(world).__name__}.")
    rule = as_constraint(constraint)
    if rule is not None:
        rule.check_world(world)
    return rule


def plan(
    world: MDP,
    constraint: Rules | None = None,
    reward: Reward | ArrayLike | None = None,
    validity: str | float = "sure",
    discount: float = 1.0,
    greedy: bool = False,
    seed: Seed = None,
    max_nodes: int | None = None,
    device: str | None = None,
) -> Policy:
    """The policy of maximum causal entropy that keeps the rules as `validity` asks, whatever chance does.

    It maximises expected reward plus causal entropy (the entropy of its choices, given all that was seen so far), and
    has memory: it knows what the rules still need. In a deterministic world with validity "sure" its episodes are
    distributed as P(tau | s_0) of `xm.distribution`.

    Parameters
    ----------
    world
        An MDP or GridWorld. An episode ends in a terminal state, in a state without actions, or after `horizon`
        actions; it keeps the rules if it also arrived (without terminal states: if it had all its actions).
    constraint
        A constraint, a list of them (all), or None.
    reward
        An array (n_states, n_actions), a LinearReward, or None for zero everywhere.
    validity
        "sure": every episode keeps the rules, from every start, whatever the outcomes. "best": with the largest
        possible probability. A number p: with probability p or more.
    discount
        Rewards of action t count discount**t times.
    greedy
        `act` takes the most likely action instead of a random one; not with a number as `validity`.
    seed
        For `act` and `rollout`.
    max_nodes
        The budget of the product of world and rules.
    device
        Where the policy is worked out, as for `xm.distribution`; always in double precision.

    Returns
    -------
    Policy
        With its exact `validity`, `visits()`, `expected_reward()`, `entropy()`.

    Raises
    ------
    InfeasibleError
        Where no policy keeps the promise; it says what chance can do, and the best probability there is.
    EngineError
        For greedy choices under a promise of some probability, which random choices alone keep.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), horizon=20, slip=0.1)
    >>> rule = xm.never(grid.at((1, 1))).named("not the middle")
    >>> round(xm.plan(grid, rule, validity="best").validity, 6)
    0.892016
    """
    rule = read_rule(world, constraint, "plan")
    asked = reward_table(reward, world), check_discount(discount), behaviours.read_validity(validity)
    return Policy(promised(make_game(world, rule, max_nodes, device), *asked, max_nodes), greedy=greedy, seed=seed)


class Shield(Tracker):
    """Follows an agent through an episode and says which actions it may take; made by `xm.shield`.

    With validity "sure", an agent that keeps to `mask` keeps every rule, whatever chance does. With "best" each allowed
    action has the largest chance of keeping the rules that there is (all of them, once nothing can be saved).
    """

    _kind, _asked = "shield", "mask"

    def __repr__(self) -> str:
        return f"<Shield ({self.behaviour.aim}) for {self._task}>"

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

    def wrap(self, env: Any, seed: Seed = None) -> Any:
        """The Gymnasium environment in which only allowed actions happen.

        `info["action_mask"]` says what is allowed (int8, as in Gymnasium's own environments). An action that is not is
        replaced by one of those, at random, and `info["shielded"]` is then true. Episodes are cut off (`truncated`)
        where the shield's world ends them.
        """
        extra_module("gymnasium", "shield.wrap")
        from xmen.policies.shielded import ShieldedEnv  # an extra, which a shield by itself does not need

        return ShieldedEnv(env, self, seed)


def shield(world: MDP, constraint: Rules | None = None, validity: str = "sure", max_nodes: int | None = None) -> Shield:
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
    return Shield(promised(make_game(world, rule, max_nodes), reward_table(None, world), 1.0, validity, max_nodes))
