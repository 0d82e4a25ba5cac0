"""A bound that cannot be kept, and the nearest one that could: the least, or the most, that valid trajectories have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xmen.constraints.arithmetic import LinearComparison
from xmen.constraints.constraint import Constraint
from xmen.errors import ProductTooLargeError
from xmen.events import NO_ACTION
from xmen.machines.tables import CompiledConstraint
from xmen.product.best import best_walk
from xmen.product.graph import build_product
from xmen.product.shortest import MOST_NODES
from xmen.worlds import EdgeWeights
from xmen.worlds.mdp import MDP

EXACT = 2.0**53  # below this, sums of whole numbers are whole
SIGNS = {"<=": -1, "<": -1, ">=": 1, ">": 1}  # which way the sum has to go


def reachable_bound(world: MDP, rule: Constraint, others: Constraint | None) -> int | None:
    """The bound nearest to that of a comparison with which it can hold together with the others.

    None where it is no comparison by an inequality, where the others cannot hold, or where that is not cheaply known:
    the product with the others is too large, or what the last position adds is not known from the last move.
    """
    if not isinstance(rule, LinearComparison) or rule.op not in SIGNS or rule.spelling or not world.has_terminal:
        return None  # a share has a spelling of its own, and another bound
    if world.terminal[world.start > 0].any():  # the last position of a trajectory without moves is on no edge
        return None
    try:
        product = build_product(CompiledConstraint(others, world), MOST_NODES)
    except ProductTooLargeError:
        return None
    if not product.feasible():
        return None
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
