"""Why nothing is valid: the smallest set of the user's constraints that cannot hold together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.arithmetic import LinearComparison
from xmen.constraints.constraint import Constraint, conjunction, units
from xmen.engines.budgets import reachable_bound
from xmen.engines.never import events_in, why_never
from xmen.errors import InfeasibleError, OracleTimeoutError, ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import Product, build_product
from xmen.product.shortest import UNKNOWN, shortest_valid
from xmen.progress.telling import tell
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP
from xmen.worlds.words import in_world_words

MOST_RULES = 100  # multiplied without a horizon, for a better message
MOST_BOUNDS = 3  # moved one by one, for a better message

# For each world, constraints with the largest budget that their product is known to pass, and the words for it.
_TOO_LARGE: WeakKeyDictionary[MDP, dict[Constraint | None, tuple[int, str]]] = WeakKeyDictionary()


def feasible_product(world: MDP, constraint: Constraint | None, max_nodes: int) -> Product:
    """The product of world and constraint, or an InfeasibleError that says who is to blame."""
    product = multiply(world, constraint, max_nodes)
    if product.feasible():
        return product
    raise explain_conflict(world, units(constraint), max_nodes)


def explain_conflict(
    world: MDP, parts: list[tuple[str, Constraint]], max_nodes: int, suspects: list[int] | None = None
) -> InfeasibleError:
    """`explain_infeasible` by products of smaller and smaller sets of constraints."""

    def can_hold(kept: list[int]) -> bool:
        return multiply(world, conjunction([parts[i][1] for i in kept]), max_nodes).feasible()

    return explain_infeasible(world, parts, can_hold, suspects)


def require_every_start(product: Product, max_nodes: int) -> None:
    """Given the start, every start needs a valid trajectory: InfeasibleError names the first that has none."""
    world, constraint = product.world, product.compiled.constraint
    without = np.setdiff1d(np.flatnonzero(world.start > 0), _feasible_starts(product))
    if len(without):
        start = int(without[0])
        raise from_start(world, start, explain_conflict(world.with_start(start), units(constraint), max_nodes))


def from_start(world: MDP, start: int, error: InfeasibleError) -> InfeasibleError:
    """The error of one start's own distribution, with that start named."""
    return InfeasibleError(
        f"with given='start' every start needs a valid trajectory, and {world.describe_state(start)} (d0 = "
        f"{world.start[start]:.3g}) has none: {error} Or take it out of the world's start.",
        conflict=error.conflict,
    )


def _feasible_starts(product: Product) -> NDArray[np.int32]:
    """The start states from which some trajectory is valid."""
    starts: NDArray[np.int32] = product.state[product.starts]
    if not product.fixed_length:
        return starts  # what cannot be completed has been pruned
    return starts[[replace(product, starts=product.starts[i : i + 1]).feasible() for i in range(len(starts))]]


def multiply(world: MDP, constraint: Constraint | None, max_nodes: int) -> Product:
    """The product of a world and a constraint; ProductTooLargeError past `max_nodes`.

    That a product is too large is remembered as long as the world lives, and not found out twice.
    """
    known = _TOO_LARGE.setdefault(world, {})
    budget, message = known.get(constraint, (0, ""))
    if max_nodes <= budget:
        raise ProductTooLargeError(message.replace(f"max_nodes = {budget:,}", f"max_nodes = {max_nodes:,}"))
    try:
        return build_product(CompiledConstraint(constraint, world), max_nodes)
    except ProductTooLargeError as error:
        known[constraint] = max_nodes, str(error)
        raise


def explain_infeasible(
    world: MDP,
    parts: list[tuple[str, Constraint]],
    can_hold: Callable[[list[int]], bool],
    suspects: list[int] | None = None,
) -> InfeasibleError:
    """Name a minimal conflicting set, found by halving.

    can_hold says whether the constraints with these numbers can hold together; `suspects` are numbers that are
    known to conflict (a solver's core, say): the search starts from them.
    """
    if not can_hold([]):
        return InfeasibleError(_world_alone(world), conflict=())
    kept, minimal = smallest_conflict(list(range(len(parts))) if suspects is None else list(suspects), can_hold)
    names = tuple(parts[i][0] for i in kept)
    notes = [f" {parts[i][0]!r}: {note}." for i in kept if (note := parts[i][1].impossible())]
    if world.terminal[world.start > 0].all():
        notes.append(" Every start is a terminal state, so that all trajectories end before the first action.")
    never = dict.fromkeys(event for i in kept for event in events_in(parts[i][1]))
    notes += [f" `{event}` can never happen: {why}." for event in never if (why := why_never(event, world))]
    raising = _rebounding(world, parts, kept) + _raising(world, [part for _, part in parts])
    if len(names) == 1:
        text = f"no trajectory of this world satisfies {names[0]!r}, even by itself."
        advice = f" Loosen it{raising.replace(', or', ' or', 1)}."
    else:
        text = f"no trajectory satisfies these {len(names)} constraints together: {', '.join(map(repr, names))}."
        advice = f" Without any one of them the rest of these can be met: drop or loosen one{raising}."
    if not minimal:
        advice = f" The set may not be minimal: smaller ones could not be tried within max_nodes or time_limit.{advice}"
    return InfeasibleError(in_world_words(text + "".join(notes) + advice, world), conflict=names)


def _raising(world: MDP, parts: list[Constraint]) -> str:
    """The advice to raise the horizon, with the shortest that would do under all rules; '' where none would."""
    if world.horizon is None:
        return ""
    try:
        found = shortest_valid(CompiledConstraint(conjunction(parts), world)) if len(parts) <= MOST_RULES else UNKNOWN
    except ProductTooLargeError:
        found = UNKNOWN
    if found.length is not None and found.length > world.horizon:
        return f", or raise the horizon from {world.horizon} to {found.length}, the least with which all rules can hold"
    # Found within the horizon: without terminal states all trajectories have exactly that many actions.
    return "" if found.complete and found.length is None else ", or raise the horizon"


def _rebounding(world: MDP, parts: list[tuple[str, Constraint]], conflict: list[int]) -> str:
    """The advice to move one bound of the conflict to where all rules can hold; '' where that alone does not do."""
    if len(parts) > MOST_RULES:
        return ""
    compared = [i for i in conflict if isinstance(parts[i][1], LinearComparison)]
    for i in compared[:MOST_BOUNDS]:
        label, rule = parts[i]
        bound = reachable_bound(world, rule, conjunction([part for j, (_, part) in enumerate(parts) if j != i]))
        if bound is not None:
            assert isinstance(rule, LinearComparison)
            way, end = ("raise", "least") if rule.op in ("<=", "<") else ("lower", "largest")
            which = "its bound" if len(conflict) == 1 else f"the bound of {label!r}"
            return f", or {way} {which} from {rule.bound} to {bound}, the {end} with which all rules can hold"
    return ""


def smallest_conflict(suspects: list[int], can_hold: Callable[[list[int]], bool]) -> tuple[list[int], bool]:
    """A conflict among suspects, which conflict, in their order; and whether without any one of it the rest can hold.

    QuickXplain (Junker 2004): with k of n in the conflict, about 2 k log2(n / k) questions, about sets of which the
    first have half of the suspects. Where a product is too large or a solver too slow to tell, the set counts as one
    that can hold: what is found conflicts nevertheless, and may not be the smallest.
    """
    minimal, n_asked = True, 0

    def holds(kept: list[int]) -> bool:
        nonlocal minimal, n_asked
        n_asked += 1
        tell(f"rules contradict each other: which of {len(suspects):,}? Question {n_asked:,}, about {len(kept):,}")
        try:
            return can_hold(kept)
        except (ProductTooLargeError, OracleTimeoutError):
            minimal = False
            return True

    def search(background: list[int], among: list[int], asks: bool) -> list[int]:
        """The smallest part of `among` that conflicts with the background, which conflicts with all of it."""
        if asks and not holds(background):
            return []
        if len(among) == 1:
            return among
        first, second = among[: len(among) // 2], among[len(among) // 2 :]
        from_second = search(background + first, second, True)
        from_first = search(background + from_second, first, bool(from_second))
        return from_first + from_second

    kept = search([], suspects, False)
    return sorted(kept, key=suspects.index), minimal


def _world_alone(world: MDP) -> str:
    if not world.has_terminal:
        return (
            f"this world has no trajectory of exactly {world.horizon} actions, with or without constraints: every "
            "way runs into a state without available actions. Add transitions, or lower the horizon."
        )
    distance = int(distance_to(world.terminal, world.source, world.target)[world.start > 0].min())
    if distance >= UNREACHABLE:
        return (
            "no terminal state can be reached from the start, with or without constraints. "
            "Check the walls, the transitions and the terminal states."
        )
    return (
        f"the nearest terminal state is {distance} actions away, but the horizon is {world.horizon}, with or without "
        f"constraints. Raise the horizon to {distance} or more."
    )
