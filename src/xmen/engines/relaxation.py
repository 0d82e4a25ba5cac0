"""What rejection samples from: the world times the constraints that a node budget affords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, units
from xmen.engines.diagnosis import multiply
from xmen.errors import ProductTooLargeError
from xmen.machines.tables import CompiledConstraint
from xmen.product.graph import DEFAULT_MAX_NODES, Product
from xmen.worlds.mdp import MDP

MOST_TRIED = 64  # constraints up to which each is multiplied by itself first; more are taken in as many groups
MOST_FAILURES = 4  # products in a row that did not fit, after which all larger constraints are left to reject
MOST_STATES = 1_000  # machine states that are listed to order many constraints by size
MOST_NAMED = 8  # constraints that a message lists by name


@dataclass(frozen=True)
class Relaxation:
    """The product that was affordable, what it carries, and what is left to reject."""

    product: Product
    multiplied: tuple[str, ...]
    rejecting: tuple[str, ...]


@dataclass(frozen=True)
class _Group:
    """Constraints that are multiplied in together or not at all; `size` orders groups, None: it does not fit alone."""

    size: int | None
    labels: tuple[str, ...]
    parts: tuple[Constraint, ...]

    def relaxations(self) -> tuple[Constraint, ...]:
        return self.parts[0].relaxations() if len(self.parts) == 1 else ()


def relax(world: MDP, constraint: Constraint | None, max_nodes: int) -> Relaxation:
    """Multiply constraints in, smallest product first, as long as the node budget allows.

    A constraint that does not fit leaves behind the strongest of its own relaxations that does. Deciding costs at most
    about 3 `MOST_TRIED` products within the budget, however many constraints there are.
    """
    product = multiply(world, None, DEFAULT_MAX_NODES)
    budget = max(max_nodes, product.n_nodes)
    chosen: list[Constraint] = []
    multiplied: list[str] = []
    rejecting: list[str] = []
    n_failures = 0
    for group in _groups(world, units(constraint), budget):
        whole = conjunction(group.parts)
        candidates = [whole] if group.size is not None and n_failures < MOST_FAILURES else []
        taken = None
        for candidate in [*candidates, *group.relaxations()]:
            assert candidate is not None
            try:
                product = multiply(world, conjunction([*chosen, candidate]), budget)
            except ProductTooLargeError:
                n_failures += candidate is whole
                continue
            taken = candidate
            chosen.append(candidate)
            break
        if taken is whole:
            n_failures = 0
        (multiplied if taken is whole else rejecting).extend(group.labels)
    return Relaxation(product, tuple(multiplied), tuple(rejecting))


def _groups(world: MDP, parts: Sequence[tuple[str, Constraint]], budget: int) -> list[_Group]:
    """The constraints in the order in which they are tried: by their own product, or many of them by their machines."""
    if len(parts) > MOST_TRIED:
        ordered = sorted(parts, key=lambda item: _machine_states(world, item[1]))
        size = -(-len(parts) // MOST_TRIED)
        together = [ordered[i : i + size] for i in range(0, len(ordered), size)]
        return [_Group(1, tuple(label for label, _ in some), tuple(part for _, part in some)) for some in together]
    groups = []
    for label, part in parts:
        try:
            n_nodes: int | None = multiply(world, part, budget).n_nodes
        except ProductTooLargeError:
            n_nodes = None
        groups.append(_Group(n_nodes, (label,), (part,)))
    return sorted(groups, key=lambda group: (group.size is None, group.size or 0))


def _machine_states(world: MDP, part: Constraint) -> int:
    """The number of states of all machines of a constraint, over any order of this world's letters."""
    total = 0
    for table in CompiledConstraint(part, world).tables:
        known, letters = 0, np.arange(len(table.symbols), dtype=np.int32)
        while known < len(table) <= MOST_STATES:
            rows = np.arange(known, len(table), dtype=np.int32)
            known = len(table)
            table.step(np.repeat(rows, len(letters)), np.tile(letters, len(rows)))
        total += len(table)
    return total


def listed(labels: Sequence[str]) -> str:
    """The names in quotes, shortened where there are many."""
    names = ", ".join(map(repr, labels[:MOST_NAMED]))
    return names if len(labels) <= MOST_NAMED else f"{names} and {len(labels) - MOST_NAMED:,} more"
