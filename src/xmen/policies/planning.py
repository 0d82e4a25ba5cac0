"""From a world, rules and a reward to the policy of maximum causal entropy that keeps its promise."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution, as_constraint
from xmen.engines.exact import ExactDistribution
from xmen.engines.settings import EngineSettings, find_device
from xmen.errors import EngineError, ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.policies.behaviour import BEST, SURE, Aim, Behaviour, aim_of
from xmen.policies.game import Floats, Game, game_of
from xmen.product.graph import build_complete_product
from xmen.rewards import reward_table
from xmen.worlds.mdp import MDP

NEEDS_HORIZON = (
    "a policy that can be executed needs a limit on the number of actions, and this world has cycles and no horizon: "
    "give it a horizon, as in network.task(start, goal, horizon=...)."
)
AS_BEST = 1e-9  # a probability this near to the best one is the best one
MET = 1e-10  # how far above p the probability of keeping the rules may end
MOST_BONUS = 1e13  # beyond this a double cannot tell a step's reward from nothing


def read_rule(world: object, constraint: Constraint | Iterable[Constraint] | None, asked: str) -> Constraint | None:
    """The constraint that a function, `asked`, was given with its world; errors say what it takes."""
    if not isinstance(world, MDP):
        raise EngineError(f"{asked}(world, ...) takes an MDP or GridWorld; got {type(world).__name__}.")
    rule = as_constraint(constraint)
    if rule is not None:
        rule.check_world(world)
    return rule


def make_game(
    world: MDP, constraint: Constraint | None, max_nodes: int | None = None, device: str | None = None
) -> Game:
    """Everything that can happen in a world while the rules are watched; policies are worked out on `device`."""
    length = world.episode_length
    if length is None:
        raise EngineError(NEEDS_HORIZON)
    settings = EngineSettings(max_nodes=max_nodes, device=device)
    place, compiled = find_device(settings.device), CompiledConstraint(constraint, world, ends_anywhere=True)
    try:
        return game_of(build_complete_product(compiled, settings.node_budget, length), place)
    except ProductTooLargeError as error:
        # Other engines answer for trajectories; a policy has to know every one of its nodes.
        raise ProductTooLargeError(str(error).split(", or let it reject")[0].rstrip(".") + ".") from None


def read_validity(validity: object) -> str | float:
    """ "sure", "best" or a probability, or an EngineError that says so."""
    if isinstance(validity, str) and validity in ("sure", "best"):
        return validity
    number = isinstance(validity, int | float | np.integer | np.floating) and not isinstance(validity, bool)
    if number and 0.0 <= float(validity) <= 1.0:  # type: ignore[arg-type]
        return float(validity)  # type: ignore[arg-type]
    raise EngineError(f"validity is 'sure', 'best', or a probability from 0 to 1; got {validity!r}.")


def find_behaviour(
    game: Game, table: Floats, discount: float, validity: str | float, starts: Floats, guess: float = 1.0
) -> Behaviour | None:
    """The behaviour of maximum causal entropy that keeps the promise, from start nodes with these probabilities.

    None where no behaviour does. `guess` is where the search for a bonus begins.
    """
    if isinstance(validity, float):
        return with_probability(game, table, discount, validity, starts, guess)
    behaviour = Behaviour(game, table, discount, aim_of(validity))
    return behaviour if validity == "best" or is_sure(behaviour, starts) else None


def is_sure(behaviour: Behaviour, starts: Floats) -> bool:
    """Whether a behaviour that aims at "sure" gets there from every start of positive probability."""
    return bool(np.isfinite(behaviour.start_values[starts > 0]).all())


def best_chance(behaviour: Behaviour, starts: Floats) -> float:
    """The largest probability of keeping the rules, given the behaviour that aims at it."""
    return min(1.0, float(behaviour.start_chances @ starts))


def with_probability(
    game: Game, table: Floats, discount: float, p: float, starts: Floats, guess: float = 1.0
) -> Behaviour | None:
    """The behaviour that keeps the rules with probability p or more; None where p is above the best there is.

    A bonus on ends that kept the rules is the price of the promise: 0 where nothing has to be paid, else the one at
    which the probability is p. It rises with the bonus, so the bonus is found between two by bisection and secants
    (Illinois), from above; `guess` is where the search begins.
    """

    def at(bonus: float) -> tuple[float, Behaviour]:
        behaviour = Behaviour(game, table, discount, Aim("bonus", bonus))
        return float(behaviour.start_chances @ starts) - p, behaviour

    left, behaviour = at(0.0)
    if left >= 0.0:
        return behaviour
    best = Behaviour(game, table, discount, BEST)
    if p >= best_chance(best, starts) - AS_BEST:
        return best if p <= best_chance(best, starts) + AS_BEST else None
    low, high = 0.0, max(guess, 1e-3)
    surplus, behaviour = at(high)
    while surplus < 0.0:
        low, left, high = high, surplus, 4.0 * high
        if high > MOST_BONUS:
            return best
        surplus, behaviour = at(high)
    right, last_was_high = surplus, None  # the surplus at both ends, as the secant sees them
    for trial in range(200):
        if surplus <= MET or high - low <= 1e-15 * high:
            break
        share = left / (left - right) if trial % 3 < 2 else 0.5
        middle = low + (high - low) * min(max(share, 1e-6), 1.0 - 1e-6)
        found, tried = at(middle)
        if found >= 0.0:
            left = left / 2.0 if last_was_high is True else left
            high, surplus, right, behaviour, last_was_high = middle, found, found, tried, True
        else:
            right = right / 2.0 if last_was_high is False else right
            low, left, last_was_high = middle, found, False
    return behaviour


# ---- Worlds without chance: the policy of an exact distribution, with the product that it has compiled already.
#
# Without chance a choice has one outcome, so that V_t(n) is the log of the weight of all ways to complete a
# trajectory from n, and the shares of choices are the conditional probabilities of P. What the product has pruned is
# what "sure" would never choose.


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
        raise EngineError(
            f"a policy needs engine='exact'; this distribution comes from engine={distribution.engine!r}."
        )
    if world.unbounded:
        raise EngineError(NEEDS_HORIZON)
    place = distribution.place
    game = game_of(distribution.product, None if place is None else place.device)
    return Behaviour(game, reward_table(distribution.reward, world), distribution.discount, SURE)
