"""Small formulas and their models by brute force, for the tests of oracles."""

from __future__ import annotations

from itertools import product

import numpy as np

from xmen.oracles.formula import Bits, Formula, Parities


def formula_of(clauses: list[list[int]], n_variables: int, hashed: tuple[int, ...] | None = None) -> Formula:
    flat = [literal for clause in clauses for literal in (*clause, 0)]
    hash_variables = tuple(range(1, n_variables + 1)) if hashed is None else hashed
    return Formula(n_variables, np.array(flat, dtype=np.int32), hash_variables)


def random_formula(rng: np.random.Generator) -> Formula:
    """Random clauses of 1 to 4 literals over 3 to 7 variables, and up to 3 variables defined by the others.

    The hash variables are those that are not defined, in a random order; some may be in no clause.
    """
    n = int(rng.integers(3, 8))
    clauses = []
    for _ in range(int(rng.integers(0, 2 * n))):
        size = int(rng.choice([1, 2, 3, 4], p=[0.1, 0.3, 0.4, 0.2]))
        # With replacement: clauses with a literal twice, or with a variable both ways, are clauses too.
        clauses.append((rng.integers(1, n + 1, size) * rng.choice([-1, 1], size)).tolist())
    n_defined = int(rng.integers(0, 4))
    for new in range(n + 1, n + n_defined + 1):
        a, b = (rng.choice(np.arange(1, new), 2, replace=False) * rng.choice([-1, 1], 2)).tolist()
        clauses += [[-new, a], [-new, b], [new, -a, -b]]
    hashed = tuple(rng.permutation(np.arange(1, n + 1)).tolist())
    return formula_of(clauses, n + n_defined, hashed)


def all_models(formula: Formula) -> Bits:
    """All models by brute force, (k, n_variables)."""
    every = np.array(list(product((False, True), repeat=formula.n_variables)), dtype=np.bool_)
    good = np.ones(len(every), dtype=np.bool_)
    for clause in formula.clause_list():
        holds = np.zeros(len(every), dtype=np.bool_)
        for literal in clause:
            holds |= every[:, abs(literal) - 1] == (literal > 0)
        good &= holds
    return every[good]


def hash_rows(formula: Formula, models: Bits) -> Bits:
    return models[:, np.array(formula.hash_variables, dtype=np.int64) - 1]


def as_set(rows: object) -> set[tuple[bool, ...]]:
    return {tuple(row) for row in np.asarray(list(rows), dtype=bool).tolist()}  # type: ignore[call-overload]


def random_parities(rng: np.random.Generator, n_hash: int) -> Parities:
    """0 to n_hash + 1 parities: some of them repeat or contradict each other."""
    return Parities.dense(int(rng.integers(0, n_hash + 2)), n_hash, rng)


def hard_formula() -> Formula:
    """Random clauses of three literals, too many for a model: no solver has a chance within minutes."""
    rng, n = np.random.default_rng(0), 500
    variables = [rng.choice(np.arange(1, n + 1), 3, replace=False) for _ in range(int(4.6 * n))]
    return formula_of([(v * rng.choice([-1, 1], 3)).tolist() for v in variables], n)


def permutations(n: int) -> Formula:
    """Permutation matrices (n, n)."""
    cells = np.arange(1, n * n + 1).reshape(n, n)
    lines = [*cells.tolist(), *cells.T.tolist()]
    return formula_of([*lines, *([-a, -b] for line in lines for i, a in enumerate(line) for b in line[:i])], n * n)
