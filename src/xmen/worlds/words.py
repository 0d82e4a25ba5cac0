"""Rules in the world's own words, in messages and in files: cells, moves and nodes in place of numbers."""

from __future__ import annotations

import re

from xmen.worlds.transitions import Transitions

__all__ = ["in_world_words", "rule_text"]

_EVENT = r"\b(at|doing)\((\d+(?:, \d+)*)\)"
_QUOTED = r"'(?:\\.|[^\\'])*'|\"(?:\\.|[^\\\"])*\""
_SHOWN = 6


def in_world_words(text: str, world: Transitions) -> str:
    """The text with at(27, 39) as at((3, 2), (3, 3)) on a grid, as at(bank) on a graph, and doing(0) by its move.

    >>> from xmen import GridWorld
    >>> grid = GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> in_world_words("no trajectory satisfies 'visit(at(9) & doing(1))'", grid)
    "no trajectory satisfies 'visit(at((1, 2)) & doing(right))'"
    """
    return re.sub(_EVENT, lambda found: _spelled(found, world, _SHOWN), text)


def rule_text(text: str, world: Transitions) -> str:
    """The text of a rule or an event as `parse_constraint(text, world=world)` reads it; names in quotes stay."""
    # Names in quotes are matched first, and have no groups.
    return re.sub(f"{_QUOTED}|{_EVENT}", lambda found: _spelled(found, world) if found[1] else found[0], text)


def _spelled(found: re.Match[str], world: Transitions, most: int | None = None) -> str:
    numbers = [int(number) for number in found[2].split(", ")]
    name, known = (world.state_name, world.n_states) if found[1] == "at" else (world.action_name, world.n_actions)
    if max(numbers) >= known:
        return found[0]
    more = f", ... {len(numbers)} in all" if most is not None and len(numbers) > most else ""
    names = [name(number) for number in numbers[:most]]
    if most is not None:  # messages have rules in quotes
        names = [shown.strip("'") for shown in names]
    return f"{found[1]}({', '.join(names)}{more})"
