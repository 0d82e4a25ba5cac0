"""Compiled loops over machines and the constraint tree, each a few lines over plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from xmen.compiled import compiled
from xmen.constraints.verdict import OPEN, Sure, combine

SURE_TO_HOLD = Sure.HOLDS.value
SURE_TO_FAIL = Sure.FAILS.value

_combine = compiled(combine)


@compiled
def look_up(table: Any, rows: Any, letters: Any) -> Any:
    """table[rows, letters], element by element."""
    out = np.empty(len(rows), dtype=np.int32)
    for i in range(len(rows)):
        out[i] = table[rows[i], letters[i]]
    return out


@compiled
def settle(rows: Any, n_children: Any, least: Any, most: Any, first: Any, last: Any, holding: Any, failing: Any) -> Any:
    """Evaluate the tree on product rows (state, machine rows ...); write sure parts in their one canonical form.

    Machine rows 0 and 1 are the sure states. Returns which rows are not sure to fail.
    """
    n_operations = len(n_children)
    stack = np.empty(n_operations, dtype=np.int64)
    alive = np.empty(len(rows), dtype=np.bool_)
    for i in range(len(rows)):
        top = 0
        for op in range(n_operations):
            if n_children[op] == 0:
                row = rows[i, 1 + first[op]]
                stack[top] = SURE_TO_FAIL if row == 0 else SURE_TO_HOLD if row == 1 else OPEN
                top += 1
                continue
            n_holding, n_open = 0, 0
            for _ in range(n_children[op]):
                top -= 1
                n_holding += stack[top] == SURE_TO_HOLD
                n_open += stack[top] == OPEN
            verdict = _combine(n_holding, n_open, least[op], most[op])
            if verdict != OPEN:
                pattern = holding if verdict == SURE_TO_HOLD else failing
                for leaf in range(first[op], last[op]):
                    rows[i, 1 + leaf] = pattern[op, leaf]
            stack[top] = verdict
            top += 1
        alive[i] = stack[0] != SURE_TO_FAIL
    return alive


@compiled
def judge(answers: Any, n_children: Any, least: Any, most: Any) -> Any:
    """The tree's answer for each row of final answers (n, leaves)."""
    n_operations = len(n_children)
    stack = np.empty(n_operations, dtype=np.int64)
    out = np.empty(len(answers), dtype=np.bool_)
    for i in range(len(answers)):
        top, leaf = 0, 0
        for op in range(n_operations):
            if n_children[op] == 0:
                stack[top] = SURE_TO_HOLD if answers[i, leaf] else SURE_TO_FAIL
                leaf += 1
            else:
                n_holding = 0
                for _ in range(n_children[op]):
                    top -= 1
                    n_holding += stack[top] == SURE_TO_HOLD
                stack[top] = _combine(n_holding, 0, least[op], most[op])
            top += 1
        out[i] = stack[0] == SURE_TO_HOLD
    return out


@compiled
def run_machine(table: Any, edge_letters: Any, edges: Any, ends: Any, column: Any, position: Any) -> Any:
    """Advance one machine over all but the last position of each trajectory, in place; sure states stay.

    Trajectory i goes on with edges[position[i]] and up to edges[ends[i] - 1]. Returns the trajectories that stopped at
    a table entry nobody has filled in yet.
    """
    stopped = np.empty(len(ends), dtype=np.int64)
    n_stopped = 0
    for i in range(len(ends)):
        row, t = column[i], position[i]
        while t < ends[i] and row > 1:
            successor = table[row, edge_letters[edges[t]]]
            if successor < 0:
                stopped[n_stopped] = i
                n_stopped += 1
                break
            row = successor
            t += 1
        column[i], position[i] = row, t
    return stopped[:n_stopped]
