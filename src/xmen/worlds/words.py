"""Rules in the world's own words, as messages show them: cells, moves and nodes in place of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["in_world_words"]

_EVENT = re.compile(r"\b(at|doing)\((\d+(?:, \d+)*)\)")
_SHOWN = 6


def in_world_words(text: str, world: Any) -> str:
    """The text with at(27, 39) as at((3, 2), (3, 3)) on a grid, as at('bank') on a graph, and doing(0) by its move.

    >>> from xmen import GridWorld
    >>> grid = GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> in_world_words("no trajectory satisfies 'visit(at(9) & doing(1))'", grid)
    "no trajectory satisfies 'visit(at((1, 2)) & doing(right))'"
    """

    def spelled(found: re.Match[str]) -> str:
        numbers = [int(number) for number in found[2].split(", ")]
        word, known = (_state_word(world), world.n_states) if found[1] == "at" else _action_word(world)
        if word is None or max(numbers) >= known:
            return found[0]
        shown = ", ".join(map(word, numbers[:_SHOWN]))
        more = f", ... {len(numbers)} in all" if len(numbers) > _SHOWN else ""
        return f"{found[1]}({shown}{more})"

    return _EVENT.sub(spelled, text)


def _state_word(world: Any) -> Callable[[int], str] | None:
    if hasattr(world, "cell"):
        return lambda state: str(tuple(world.cell(state)))
    return (lambda state: str(world.node(state))) if hasattr(world, "node") else None


def _action_word(world: Any) -> tuple[Callable[[int], str] | None, int]:
    moves = getattr(world, "moves", None)
    return (None, 0) if moves is None else (moves.__getitem__, len(moves))
