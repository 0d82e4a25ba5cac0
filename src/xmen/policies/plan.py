"""`xm.plan`: the public door to policies that can be executed."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Seed, check_discount
from xmen.policies.explanation import refuse
from xmen.policies.planning import find_behaviour, make_game, read_rule, read_validity
from xmen.policies.policy import Policy
from xmen.rewards import Reward, reward_table
from xmen.worlds.mdp import MDP


def plan(
    world: MDP,
    constraint: Constraint | Iterable[Constraint] | None = None,
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
    gamma, table, asked = check_discount(discount), reward_table(reward, world), read_validity(validity)
    game = make_game(world, rule, max_nodes, device)
    behaviour = find_behaviour(game, table, gamma, asked, game.start_probability)
    if behaviour is None:
        raise refuse(game, asked, max_nodes)
    return Policy(behaviour, greedy=greedy, seed=seed)
