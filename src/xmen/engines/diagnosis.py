"""Why nothing is valid: the smallest set of the user's constraints that cannot hold together."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from xmen.constraints.arithmetic import LinearComparison
from xmen.constraints.constraint import Constraint, Usually, conjunction, units, usual_rules
from xmen.constraints.monitor import MonitorLeaf
from xmen.engines.exact import AtHand
from xmen.errors import InfeasibleError, Message, OracleTimeoutError, ProductTooLargeError, RuleWarning, joined, notify
from xmen.events import NO_ACTION, Event
from xmen.machines.tables import CompiledConstraint, MachineTable
from xmen.product.best import best_walk
from xmen.product.graph import MOST_NODES_EXPLAINED, Product, build_by_rules, build_product, ends_of, shortest_valid
from xmen.product.watch import STEP_HOLDS, join
from xmen.progress import tell
from xmen.worlds import EdgeWeights, GridWorld
from xmen.worlds.kernels import UNREACHABLE, distance_to
from xmen.worlds.mdp import MDP
from xmen.worlds.names import some

_SHOWN = 4
_ENTRIES = 1_000  # of a machine, beyond which a rule is left alone: ordinary ones have a dozen


def never_events(rules: Iterable[Constraint], world: MDP) -> Iterator[tuple[Event, str]]:
    """The events that rules mention and that no trajectory of the world can have, each once, and why."""
    events = dict.fromkeys(event for rule in rules for leaf in rule.leaves() for event in _within(leaf))
    return ((event, why) for event in events if (why := why_never(event, world)))


def _within(value: object) -> Iterator[Event]:
    """The events in a field of a leaf, however deep."""
    if isinstance(value, Event):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _within(part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _within(getattr(value, field.name))


def why_never(event: Event, world: MDP) -> str:
    """Why the event holds at no position of any complete trajectory of the world; '' where it may."""
    longest = UNREACHABLE - 1 if world.unbounded else world.max_length
    ends = ends_of(world)
    depth = distance_to(world.start > 0, world.target, world.source).astype(np.int64)
    to_end = distance_to(ends, world.source, world.target).astype(np.int64)
    passed = depth[world.source] + 1 + to_end[world.target] <= longest
    ended = ends & (depth <= longest)
    at_end = event.holds(np.arange(world.n_states), np.full(world.n_states, NO_ACTION))
    on_edge = event.holds(world.source.astype(np.int64), world.action.astype(np.int64))
    if on_edge[passed].any() or at_end[ended].any():
        return ""

    places = np.union1d(world.source[on_edge], np.flatnonzero(at_end & ends))
    if len(places):
        passes = some(map(world.describe_state, places.tolist()), _SHOWN)
        far = int((depth[places] + to_end[places]).min())
        if far >= UNREACHABLE:
            return f"no trajectory from the start to the end passes {passes}"
        return f"a trajectory that passes {passes} has {far} actions or more, and the horizon is {longest}"
    pairs = np.argwhere(event.holds(*np.indices((world.n_states, world.n_actions))))
    places = np.unique(pairs[:, 0])
    if isinstance(world, GridWorld) and len(places) and all(world.cell(int(state)) in world.walls for state in places):
        return f"{some(map(world.describe_state, places.tolist()), _SHOWN)} is a wall"
    names = sorted({world.describe_action(int(action)) for _, action in pairs})
    if names and len(names) < world.n_actions:
        return f"{' or '.join(names[:_SHOWN])} is possible in none of its states"
    return "no state and action of this world has it"


def remark(label: str, rule: Constraint, world: MDP) -> str:
    """What there is to say of a rule that nothing in this world can break, or that everything breaks; '' of others."""
    if usual_rules(rule):
        return remark(label, rule.rule, world) if isinstance(rule, Usually) else ""
    always = same_answer(rule, world)
    if always is None:
        return ""
    reasons: list[str] = [Message("`{}` can never happen: {}", *found) for found in never_events([rule], world)]
    sums = [leaf for leaf in rule.leaves() if isinstance(leaf, LinearComparison)]
    if any(leaf.spelling for leaf in sums):
        reasons.append("a share lies between 0 and 1, so that 15 % is 0.15")
    elif not reasons and sums and not world.unbounded:
        reasons.append(f"a trajectory visits at most {world.max_length + 1:,} states")
    told = "no trajectory of this world can break it" if always else "every trajectory of this world breaks it"
    return Message("the rule {!r}: {}", label, joined([told, *reasons], ". "), world=world)


def warn_of_idle(rule: Constraint | None, world: MDP, known: Iterable[MachineTable] = ()) -> None:
    """Warn of parts of a rule that nothing can break; what everything breaks is an error elsewhere."""
    tables = iter(CompiledConstraint(rule, world, known=known).tables)
    for label, part in units(rule):
        own = [next(tables) for _ in part.leaves()]
        always = same_answer(part.rule if isinstance(part, Usually) else part, world, own)
        if always or (isinstance(part, Usually) and always is not None):
            notify(Message("{}.", remark(label, part, world)), RuleWarning)


def same_answer(rule: Constraint, world: MDP, known: Iterable[MachineTable] = ()) -> bool | None:
    """Whether the rule accepts (True) or refuses (False) all that the world could show it; None: it depends.

    Its machine runs over every sequence of the symbols that states and actions of the world have, as long as a
    trajectory may be. These are more than there are trajectories, so that an answer is right, and None may also mean
    that it was not found out.
    """
    if any(isinstance(leaf, MonitorLeaf) for leaf in rule.leaves()):
        return None  # a user's own function may fail on what cannot happen
    compiled = CompiledConstraint(rule, world, known=known)
    machine = join(compiled, min(world.max_length, _ENTRIES), _ENTRIES)
    if machine is None or machine.start < 0:
        return None if machine is None else machine.start == STEP_HOLDS
    seen, letters = compiled.tables[0].letters >= 0, machine.letters
    moving, ending = letters[:, :-1][seen[:, :-1]], letters[:, -1][seen[:, -1]]
    left = machine.step[: machine.last[:-1].max(initial=-1) + 1]  # rows that can be left before the last action
    after = np.unique(left[:, np.unique(moving)])
    answers = {*machine.accepts[:, np.unique(ending)].ravel().tolist(), *(after[after < 0] == STEP_HOLDS).tolist()}
    return answers.pop() if len(answers) == 1 else None


EXACT = 2.0**53  # below this, sums of whole numbers are whole
SIGNS = {"<=": -1, "<": -1, ">=": 1, ">": 1}  # which way the sum has to go


def reachable_bound(world: MDP, rule: Constraint, others: Constraint | None) -> int | None:
    """The bound nearest to that of a comparison with which it can hold together with the others.

    None where it is no comparison by an inequality, where the others cannot hold, or where that is not cheaply known:
    the product with the others is too large, or what the last position adds is not known from the last move.
    """
    if not isinstance(rule, LinearComparison) or rule.op not in SIGNS or rule.spelling or not world.has_terminal:
        return None  # a share has a spelling of its own, and another bound
    try:
        product = build_product(CompiledConstraint(others, world), MOST_NODES_EXPLAINED)
    except ProductTooLargeError:
        return None
    if world.terminal[world.start > 0].any() or not product.feasible():
        return None  # the last position of a trajectory without moves is on no edge
    sign = SIGNS[rule.op]
    source, action, target = (column.astype(np.int64) for column in (world.source, world.action, world.target))
    last = rule.symbols(target, np.full_like(target, NO_ACTION))
    added = rule.symbols(source, action) + np.where(world.terminal[target], last, 0)
    if world.unbounded and sign * added.max(initial=0) > 0:
        return None  # round a circle the sum might grow for ever
    best, _ = best_walk(product, replace(EdgeWeights.counting(world), reward=sign * added.astype(np.float64)))
    if abs(best) > EXACT:
        return None
    return sign * round(best) + (0 if rule.op in ("<=", ">=") else -sign)


MOST_RULES = 100  # multiplied without a horizon, for a better message
MOST_BOUNDS = 3  # moved one by one, for a better message

Parts = list[tuple[str, Constraint]]  # rules with their labels, as `units` has them

# For each world, constraints with the largest budget that their product is known to pass, and the error.
_TOO_LARGE: WeakKeyDictionary[MDP, dict[Constraint | None, tuple[int, Message, str]]] = WeakKeyDictionary()


def feasible_product(compiled: CompiledConstraint, max_nodes: int, at_hand: AtHand | None = None) -> Product:
    """The product of world and constraint, or an InfeasibleError that says who is to blame."""
    product = multiply(compiled.world, compiled.constraint, max_nodes, compiled.tables, at_hand, by_rules=True)
    if not product.feasible():
        raise explain_conflict(compiled.world, units(compiled.constraint), max_nodes)
    return product


def explain_conflict(world: MDP, parts: Parts, max_nodes: int, suspects: list[int] | None = None) -> InfeasibleError:
    """The error that names a minimal conflict, found by products of smaller and smaller sets of constraints."""

    def can_hold(kept: list[int]) -> bool:
        return multiply(world, conjunction([parts[i][1] for i in kept]), max_nodes, by_rules=True).feasible()

    return explain_infeasible(world, parts, can_hold, suspects)


def require_every_start(product: Product, max_nodes: int) -> None:
    """Given the start, every start needs a valid trajectory: InfeasibleError names the first that has none."""
    world, constraint, starts = product.world, product.compiled.constraint, product.starts
    if product.fixed_length:  # elsewhere what cannot be completed has been pruned
        starts = starts[[replace(product, starts=starts[i : i + 1]).feasible() for i in range(len(starts))]]
    without = np.setdiff1d(np.flatnonzero(world.start > 0), product.state[starts])
    if len(without):
        start = int(without[0])
        raise from_start(world, start, explain_conflict(world.with_start(start), units(constraint), max_nodes))


def from_start(world: MDP, start: int, error: InfeasibleError) -> InfeasibleError:
    """The error of one start's own distribution, with that start named."""
    sentence = "with given='start' every start needs a valid trajectory, and {} has none: {} Or leave out that start."
    where = f"{world.describe_state(start)} (d0 = {world.start[start]:.3g})"
    return InfeasibleError(Message(sentence, where, error), conflict=error.conflict)


def multiply(
    world: MDP,
    constraint: Constraint | None,
    max_nodes: int,
    known: Iterable[MachineTable] = (),
    at_hand: AtHand | None = None,
    by_rules: bool = False,
) -> Product:
    """The product of a world and a constraint; ProductTooLargeError past `max_nodes`, `by_rules` too where that helps.

    That a product is too large is remembered as long as the world lives, and not found out twice.
    """
    refused = _TOO_LARGE.setdefault(world, {})
    budget, told, details = refused.get(constraint, (0, Message(""), ""))
    if max_nodes <= budget:
        message = Message(told.sentence, *told.parts, **{**told.facts, "max_nodes": max_nodes})
        raise ProductTooLargeError(message, details, world)
    try:
        if at_hand is not None:
            further = CompiledConstraint(at_hand.further, world, known=known)
            with suppress(ProductTooLargeError):  # which says more of all rules together
                return build_product(further, max_nodes, at_hand.product)
        compiled = CompiledConstraint(constraint, world, known=known)
        if by_rules and world.acyclic:
            with suppress(ProductTooLargeError):
                return build_by_rules(compiled, max_nodes)
        return build_product(compiled, max_nodes)
    except ProductTooLargeError as error:
        refused[constraint] = max_nodes, error.args[0], error.details
        raise


def explain_infeasible(
    world: MDP, parts: Parts, can_hold: Callable[[list[int]], bool], suspects: list[int] | None = None
) -> InfeasibleError:
    """Name a minimal conflicting set, found by halving.

    can_hold says whether the constraints with these numbers can hold together; `suspects` are numbers that are
    known to conflict (a solver's core, say): the search starts from them.
    """
    if not can_hold([]):
        return InfeasibleError(_world_alone(world), conflict=())
    kept, minimal = smallest_conflict(list(range(len(parts))) if suspects is None else list(suspects), can_hold)
    names = tuple(parts[i][0] for i in kept)
    notes: list[str] = [Message(" {!r}: {}.", parts[i][0], note) for i in kept if (note := parts[i][1].impossible())]
    if world.terminal[world.start > 0].all():
        notes.append(" Every start is a terminal state, so that all trajectories end before the first action.")
    never = never_events((parts[i][1] for i in kept), world)
    notes += [Message(" `{}` can never happen: {}.", *found) for found in never]
    if not minimal:
        notes.append(" The set may not be minimal: smaller ones could not be tried within max_nodes or time_limit.")
    ways: list[str] = [*_rebounding(world, parts, kept), *_raising(world, [part for _, part in parts])]
    if len(names) == 1:
        sentence = "no trajectory of this world satisfies {names}, even by itself.{notes} {ways}."
        ways.insert(0, "Loosen it")
    else:
        sentence = "no trajectory satisfies these {n} constraints together: {names}.{notes} {ways}."
        ways.insert(0, "Without any one of them the rest of these can be met: drop or loosen one")
    facts = {"names": joined(names, ", ", "{!r}"), "notes": joined(notes), "ways": joined(ways, ", or ")}
    return InfeasibleError(Message(sentence, world=world, n=len(names), **facts), conflict=names)


def _raising(world: MDP, parts: list[Constraint]) -> list[str]:
    """The advice to raise the horizon, with the shortest that would do under all rules; none where none would."""
    if world.horizon is None:
        return []
    found = math.nan
    with suppress(ProductTooLargeError):
        found = shortest_valid(CompiledConstraint(conjunction(parts), world)) if len(parts) <= MOST_RULES else math.nan
    if world.horizon < found < math.inf:
        return [f"raise the horizon from {world.horizon} to {found}, the least with which all rules can hold"]
    # Found within the horizon: without terminal states all trajectories have exactly that many actions.
    return [] if found == math.inf else ["raise the horizon"]


def _rebounding(world: MDP, parts: Parts, conflict: list[int]) -> list[str]:
    """The advice to move one bound of the conflict to where all rules can hold; none where that alone does not do."""
    if len(parts) > MOST_RULES:
        return []
    compared = [i for i in conflict if isinstance(parts[i][1], LinearComparison)]
    for i in compared[:MOST_BOUNDS]:
        label, rule = parts[i]
        bound = reachable_bound(world, rule, conjunction([part for j, (_, part) in enumerate(parts) if j != i]))
        if bound is not None:
            assert isinstance(rule, LinearComparison)
            way, end = ("raise", "least") if rule.op in ("<=", "<") else ("lower", "largest")
            which = "its bound" if len(conflict) == 1 else Message("the bound of {!r}", label)
            far = f"from {rule.bound} to {bound}, the {end} with which all rules can hold"
            return [Message("{} {} {}", way, which, far)]
    return []


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
        none = f"this world has no trajectory of exactly {world.horizon} actions, with or without constraints"
        return f"{none}: every way runs into a state without available actions. Add transitions, or lower the horizon."
    distance = int(distance_to(world.terminal, world.source, world.target)[world.start > 0].min())
    if distance >= UNREACHABLE:
        none = "no terminal state can be reached from the start, with or without constraints"
        return f"{none}. Check the walls, the transitions and the terminal states."
    far = f"the nearest terminal state is {distance} actions away, but the horizon is {world.horizon}"
    return f"{far}, with or without constraints. Raise the horizon to {distance} or more."
