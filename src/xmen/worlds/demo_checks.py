"""The check that a world and a constraint allow demonstrations, with all that is wrong in one error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xmen.errors import ConstraintError, InvalidDemonstrationError, TrajectoryError
from xmen.worlds.demos import as_trajectories
from xmen.worlds.mdp import MDP
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.words import in_world_words

MOST_EXPLAINED = 200  # demonstrations for which words are looked for, one by one
MOST_GROUPS, MOST_NUMBERS = 8, 12  # shown


class _Violation(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def position(self) -> int: ...


class Explains(Protocol):
    """Says why a trajectory is not valid, or None."""

    def explain(self, trajectory: Trajectory, /) -> _Violation | None: ...


class _Mistake(NamedTuple):
    """What is wrong with one demonstration: the sentence about it alone, and what it has in common with others."""

    number: int
    position: int
    constraint: str | None
    sentence: str
    reason: str
    unfinished: bool = False


def check_demos(
    world: MDP, demos: Iterable[Trajectory], constraint: Explains | Iterable[Explains] | None = None
) -> None:
    """Check that every demonstration is possible in the world and keeps the rules.

    Parameters
    ----------
    world
        The world in which the demonstrations happened.
    demos
        The demonstrations.
    constraint
        A constraint, a list of them (all of which have to hold), or None.

    Raises
    ------
    InvalidDemonstrationError
        When any cannot happen or is forbidden. It names the first of them, the position and, of several constraints,
        the one that is lost first; and lists the others, by reasons.

    Examples
    --------
    >>> from xmen.worlds import GridWorld, Trajectory
    >>> grid = GridWorld(2, 1, start=(0, 0), goal=(1, 0), moves=("right",))
    >>> check_demos(grid, [Trajectory([0, 1], [0]), Trajectory([0], [])])
    Traceback (most recent call last):
    ...
    xmen.errors.InvalidDemonstrationError: demonstration 1 is not possible in this world: \
ends in cell (0, 0), which is not terminal (terminal: cell (1, 0)) (position 0)
    """
    checked = as_trajectories(demos)
    if not checked:
        raise TrajectoryError("no demonstrations: give at least one trajectory")
    refuse(world, checked, constraint, range(len(checked)))


def refuse(world: MDP, demos: Sequence[Trajectory], constraint: Any, suspects: Iterable[int]) -> None:
    """Raise an error about those of these demonstrations, by number, that are not valid."""
    rules = _rules(constraint)
    found: list[_Mistake] = []
    for index in suspects:
        mistake = _mistake(world, index, demos[index], rules)
        if mistake is not None:
            found.append(mistake)
        if len(found) == MOST_EXPLAINED:
            break
    if found:
        first = found[0]
        raise InvalidDemonstrationError(
            first.sentence + _others(found, len(demos)) + _advice(world, found),
            index=first.number,
            constraint=first.constraint,
            position=first.position,
        )


def _mistake(world: MDP, index: int, demo: Trajectory, rules: Sequence[Explains]) -> _Mistake | None:
    problem = world.problem(demo)
    if problem is not None:
        position, sentence = problem
        if world.unfinished(demo):
            whole = f"demonstration {index} does not arrive: it {sentence} (position {position})"
            return _Mistake(index, position, None, whole, "do not arrive", unfinished=True)
        whole = f"demonstration {index} is not possible in this world: {sentence} (position {position})"
        return _Mistake(index, position, None, whole, f"not possible in this world: {sentence}")
    violations = [found for rule in rules if (found := rule.explain(demo)) is not None]
    if not violations:
        return None
    violation = min(violations, key=lambda found: found.position)
    sentence = in_world_words(f"demonstration {index} breaks a constraint: {violation}", world)
    reason = in_world_words(f"break {violation.name!r}", world)
    return _Mistake(index, violation.position, violation.name, sentence, reason)


def _others(found: Sequence[_Mistake], n_demos: int) -> str:
    """A line for each reason, where more than one demonstration is not valid."""
    if len(found) == 1:
        return ""
    groups: dict[str, list[_Mistake]] = {}
    for mistake in found:
        groups.setdefault(mistake.reason, []).append(mistake)
    most = "or more " if len(found) == MOST_EXPLAINED else ""
    lines = [f"\n{len(found)} {most}of {n_demos} demonstrations are not valid:"]
    for reason, group in list(groups.items())[:MOST_GROUPS]:
        numbers = _listed([mistake.number for mistake in group])
        positions = sorted({mistake.position for mistake in group})
        where = f"at position{'s' if len(positions) > 1 else ''} {_listed(positions)}"
        lines.append(f"\n  {numbers}: {reason}, {where}")
    if len(groups) > MOST_GROUPS:
        lines.append(f"\n  and {len(groups) - MOST_GROUPS} reasons more")
    return "".join(lines)


def _advice(world: MDP, found: Sequence[_Mistake]) -> str:
    """What to do with episodes that failed: with chance, leaving them out would teach luck."""
    if not world.deterministic and any(mistake.unfinished or mistake.constraint for mistake in found):
        return (
            "\nWith chance, episodes that failed belong to the demonstrations: without them outcomes look luckier than "
            "they are. CausalXMEN (xmen fit --learner causal) learns from all of them, with validity='best' or a "
            "probability."
        )
    cut_off = any(mistake.unfinished for mistake in found)
    return "\nRaise the horizon if it was cut off, or leave it out." if cut_off else ""


def also_wrong(numbers: list[int], what: str) -> str:
    """A line that lists several demonstrations with the same fault; '' for one."""
    return f"\n{len(numbers)} demonstrations {what}: {_listed(numbers)}" if len(numbers) > 1 else ""


def _listed(numbers: list[int]) -> str:
    more = f" and {len(numbers) - MOST_NUMBERS} more" if len(numbers) > MOST_NUMBERS else ""
    return ", ".join(map(str, numbers[:MOST_NUMBERS])) + more


def _rules(constraint: Any) -> list[Explains]:
    if constraint is None:
        return []
    if isinstance(constraint, Mapping):
        constraint = [rule.named(name) if hasattr(rule, "named") else rule for name, rule in constraint.items()]
    several = isinstance(constraint, Iterable) and not isinstance(constraint, str)
    rules = list(constraint) if several else [constraint]
    for rule in rules:
        if not hasattr(rule, "explain"):
            raise ConstraintError(
                f"check_demos takes a constraint or a list of them; got {rule} ({type(rule).__name__})."
            )
    return rules
