"""How likely a policy is to break each rule.

Once the rules together are lost, a policy no longer remembers which of them: nodes merge. So each rule is watched by
itself, by its own machines beside the policy's memory.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.constraint import And, Constraint, conjunction, units
from xmen.machines.tables import CompiledConstraint
from xmen.policies import sweeps
from xmen.policies.behaviour import Behaviour, push_forward
from xmen.policies.game import Game, counts, game_of
from xmen.policies.operations import Bools, Floats, Index
from xmen.product.graph import DEFAULT_MAX_NODES, build_complete_product


def rules_of(constraint: Constraint | None) -> dict[str, Constraint]:
    """The parts of a conjunction that a user would name, by name; those of one name are taken together."""
    parts: dict[str, list[Constraint]] = {}
    for label, unit in units(constraint):
        parts.setdefault(label, []).append(unit)
    return _together(parts)


def named_rules(constraint: Constraint | None) -> dict[str, Constraint]:
    """Every rule of a conjunction that has a name, the conjunctions too, and by its text what no name covers."""
    found: dict[str, list[Constraint]] = {}

    def collect(node: Constraint, covered: bool) -> None:
        if node.name is not None:
            found.setdefault(node.name, []).append(node)
        if isinstance(node, And):
            for child in node.children:
                collect(child, covered or node.name is not None)
        elif node.name is None and not covered:
            found.setdefault(node.label, []).append(node)

    if constraint is not None:
        collect(constraint, False)
    return _together(found)


def _together(parts: dict[str, list[Constraint]]) -> dict[str, Constraint]:
    return {label: cast(Constraint, conjunction(same)) for label, same in parts.items()}


def breaking(behaviour: Behaviour) -> dict[str, float]:
    """The probability that an episode breaks each rule, by its name."""
    rules = named_rules(behaviour.game.product.compiled.constraint)
    if behaviour.aim.kind == "sure":
        return dict.fromkeys(rules, 0.0)
    return {label: _broken(behaviour, rule) for label, rule in rules.items()}


def _broken(behaviour: Behaviour, rule: Constraint) -> float:
    product = behaviour.game.product
    both = _Beside(product.compiled, CompiledConstraint(rule, product.world, ends_anywhere=True))
    watched = game_of(
        build_complete_product(
            both,  # type: ignore[arg-type]
            max(DEFAULT_MAX_NODES, product.n_nodes),
            product.horizon,
            ends_anywhere=True,
        )
    )
    offset = _offsets(behaviour.game, watched)

    def shares_at(t: int) -> Floats:
        n = int(watched.first_choice[watched.product.layer_ends[t]])
        shares: Floats = behaviour.layer(t).shares[offset[:n]]
        return shares

    occupancy = push_forward(watched, shares_at, behaviour.discount, watched.start_probability)
    mass = occupancy.ended + occupancy.last
    return min(1.0, float(mass[~watched.product.accepting].sum()))


class _Beside:
    """Two constraints over one world, as `build_complete_product` reads one: it is the second that accepts."""

    def __init__(self, first: CompiledConstraint, second: CompiledConstraint) -> None:
        self.constraint, self.world = first.constraint, first.world
        self.tables = [*first.tables, *second.tables]
        self._parts = ((first, 1, 1 + len(first.tables)), (second, 1 + len(first.tables), 1 + len(self.tables)))
        self._second = second

    def settle(self, rows: NDArray[np.int32]) -> Bools:
        for part, begin, end in self._parts:
            own = np.ascontiguousarray(np.concatenate([rows[:, :1], rows[:, begin:end]], axis=1))
            part.settle(own)
            rows[:, begin:end] = own[:, 1:]
        return np.ones(len(rows), dtype=np.bool_)

    def accepts(self, machine_rows: NDArray[np.int32], last_states: NDArray[np.int32]) -> Bools:
        own = machine_rows[:, len(machine_rows[0]) - len(self._second.tables) :] if len(machine_rows) else machine_rows
        return self._second.accepts(np.ascontiguousarray(own), last_states)


def _offsets(game: Game, watched: Game) -> NDArray[np.int64]:
    """The choice of `game` that each choice of `watched` stands for: same memory of the policy, same action."""
    node = _projected(game, watched).astype(np.int64)
    own = watched.node
    place = np.arange(watched.n_choices) - watched.first_choice[own].astype(np.int64)
    return game.first_choice[node[own]].astype(np.int64) + place


def _projected(game: Game, watched: Game) -> Index:
    """The node of `game` below each node of `watched`, found along the edges, layer by layer."""
    product, finer = game.product, watched.product
    below = np.zeros(finer.n_nodes, dtype=np.uint32)
    order = np.argsort(product.state[product.starts], kind="stable")
    place = np.searchsorted(product.state[product.starts][order], finer.state[finer.starts])
    below[finer.starts] = product.starts[order[place]]
    begin = 0
    for end in finer.layer_ends[:-1].tolist():
        edges = np.arange(finer.indptr[begin], finer.indptr[end])
        source = np.repeat(np.arange(begin, end), counts(finer.indptr[begin : end + 1]))
        taken = sweeps.follow(product.indptr, product.edge, below[source], finer.edge[edges])
        below[finer.target[edges]] = product.target[taken]
        begin = end
    return below
