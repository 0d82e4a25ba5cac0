"""xm.Formula against brute force: every solution listed from the definition, without a solver."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import xmen as xm
from sampling.exact_hash import BatchedRows, output, worst_factor
from sampling.supports import cell_draws, plan_of, project
from strategies import cases
from xmen.engines import formula as formula_module

SOLVER: Any = {"oracle": "cryptominisat"}  # "auto" would list these


def solutions(
    n: int, clauses: Any, xors: Any = (), weights: dict[int, float] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """All solutions (k, n) and their log-weights (k,), by looking at all assignments."""
    rows, logs = [], []
    for bits in product((False, True), repeat=n):
        true = {v if bit else -v for v, bit in enumerate(bits, 1)}
        odd = all(sum(v in true for v in some) % 2 == parity for some, parity in xors)
        if odd and all(true & set(clause) for clause in clauses):
            rows.append(bits)
            logs.append(sum(nats for literal, nats in (weights or {}).items() if literal in true))
    return np.array(rows, dtype=bool).reshape(-1, n), np.array(logs)


def drawn(seed: int, n: int, spread: float = 1.0) -> tuple[list[list[int]], Any, dict[int, float]]:
    rng = np.random.default_rng(seed)
    signed = lambda k: (rng.choice(n, k, replace=False) + 1) * rng.choice([-1, 1], k)  # noqa: E731
    clauses = [signed(3).tolist() for _ in range(n)]
    xors = [((rng.choice(n, 3, replace=False) + 1).tolist(), int(rng.integers(2))) for _ in range(seed % 3)]
    some = np.unique(signed(n // 2))
    weights = dict(zip(some.tolist(), (spread * rng.normal(size=len(some))).tolist(), strict=True))
    return clauses, xors, weights if seed % 2 else {}


def test_listed_answers_are_exact() -> None:
    for seed in range(cases(20)):
        n = 4 + seed % 6
        clauses, xors, weights = drawn(seed, n)
        rows, logs = solutions(n, clauses, xors, weights)
        formula = xm.Formula(n, clauses, xors, weights)
        if len(rows) == 0:
            with pytest.raises(xm.InfeasibleError):
                formula.log_partition()
            continue
        log_z, std = formula.log_partition(return_std=True)
        assert (log_z, std) == (pytest.approx(np.logaddexp.reduce(logs)), 0.0)
        p = np.exp(logs - log_z)
        for literal in (1, -2, n):
            held = rows[:, abs(literal) - 1] == (literal > 0)
            assert formula.probability(literal) == pytest.approx(p @ held)
        draws = formula.sample(20, seed=seed)
        assert draws.dtype == bool
        assert draws.shape == (20, n)
        assert {tuple(row) for row in draws.tolist()} <= {tuple(row) for row in rows.tolist()}


@pytest.mark.parametrize(
    "weights", [{}, {1: 0.4, -5: 0.3}, {1: 3.0, -2: 2.0, 3: -2.5, 9: 1.0}], ids=["none", "even", "uneven"]
)
def test_cells_agree_with_brute_force(weights: dict[int, float]) -> None:
    """Estimates within 4 standard errors, below 0.1. Of 200 draws in 8 classes: 14 points off in one class are seen.

    delta = 1.05 leaves draws so close to P that the chi-square statistic has no more than its usual size.
    """
    clauses, xors = [[1, 2, 3], [-4, 5], [-6, -7, 8], [9, 10]], [([1, 4, 10], 1)]
    rows, logs = solutions(10, clauses, xors, weights)
    formula = xm.Formula(10, clauses, xors, weights)
    log_z, std = formula.log_partition(return_std=True, seed=1, **SOLVER)
    assert 0.0 < std < 0.1
    assert abs(log_z - np.logaddexp.reduce(logs)) < 4 * std
    p = np.exp(logs - np.logaddexp.reduce(logs))
    mean, error = formula.probability(-3, return_std=True, seed=2, **SOLVER)
    assert abs(mean - p @ ~rows[:, 2]) < 4 * error < 0.1
    assert formula.log_partition(seed=1, **SOLVER) == log_z  # same seed, same result
    powers = np.array([4, 2, 1])
    draws = formula.sample(200, seed=3, delta=1.05, **SOLVER)
    assert np.array_equal(draws[:3], formula.sample(3, seed=3, delta=1.05, **SOLVER))
    classes = np.bincount(draws[:, :3] @ powers, minlength=8)
    expected = np.bincount(rows[:, :3] @ powers, weights=p, minlength=8) * len(draws)
    some = expected > 0
    assert ((classes - expected)[some] ** 2 / expected[some]).sum() < chi2.ppf(0.999, some.sum() - 1)
    assert classes[~some].sum() == 0


def test_the_guarantee_holds_over_all_hashes() -> None:
    """The copies that the solver finds, under every parity matrix: no probability is off by more than delta."""
    clauses, weights = [[1, 2], [-2, 3, 4]], {1: 1.5, -3: 0.9}
    formula = xm.Formula(4, clauses, log_weights=weights)
    rows, logs = solutions(4, clauses, (), weights)
    true = dict(zip(map(tuple, rows.tolist()), np.exp(logs - np.logaddexp.reduce(logs)).tolist(), strict=True))
    space = formula._behind("cryptominisat", 60.0).space
    assert 4 < space.n_hash <= 7  # embedded
    copies = np.array(list(space.oracle.solutions()))
    space = replace(space, oracle=BatchedRows(copies))
    assert np.logaddexp.reduce(space.log_weights(copies)) == pytest.approx(np.logaddexp.reduce(logs))
    for m in (1, 2):
        plan = plan_of(space, m)
        found = output(cell_draws(space, plan.cap), plan.m, space.n_hash)
        assert worst_factor(project(found), true) <= 1.25


def test_a_sampling_set_gives_whole_solutions() -> None:
    clauses, xors, weights = [[1, 2, 3]], [([1, 2, 4], 0), ([2, 3, 5], 1)], {4: 0.7}
    rows, logs = solutions(5, clauses, xors, weights)
    formula = xm.Formula(5, clauses, xors, weights, sampling=[1, 2, 3])
    assert formula.log_partition() == pytest.approx(np.logaddexp.reduce(logs))
    p = np.exp(logs - np.logaddexp.reduce(logs))
    assert formula.probability(-5) == pytest.approx(p @ ~rows[:, 4])  # neither hashed nor weighted
    for oracle in ("auto", "listed", "cadical"):
        drawn = formula.sample(30, seed=0, oracle=oracle)
        assert {tuple(row) for row in drawn.tolist()} <= {tuple(row) for row in rows.tolist()}
    assert formula.sample(0).shape == (0, 5)


def test_a_sampling_set_that_determines_too_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    formula = xm.Formula(3, [[1, 2]], sampling=[1, 2])
    for ask in (formula.log_partition, lambda: formula.sample(3), lambda: formula.probability(1)):
        with pytest.raises(xm.ConstraintError, match=r"2 variables, .*variable 3"):
            ask()

    # Where the one question takes too long, each solution that is drawn is asked about.
    refuse = formula_module.Hashed._refuse_twins

    def late(self: Any, oracle: Any, assumptions: Any = ()) -> None:
        if not assumptions:
            raise xm.OracleTimeoutError("late")
        refuse(self, oracle, assumptions)

    monkeypatch.setattr(formula_module.Hashed, "_refuse_twins", late)
    with pytest.raises(xm.ConstraintError, match="variable 3"):
        xm.Formula(3, [[1, 2]], sampling=[1, 2]).sample(3)
    assert xm.Formula(3, [[1, 2]], [([1, 2, 3], 0)], sampling=[1, 2]).sample(3).shape == (3, 3)


def test_what_a_solver_gets_wrong_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formula_module.Hashed, "complete", lambda self, rows: ~rows)
    for formula in (xm.Formula(2, [[1], [2]]), xm.Formula(2, [[1, -1]], [([1, 2], 1), ([1], 1)])):
        with pytest.raises(xm.OracleError, match="no solution"):
            formula.sample(1)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n_variables": 0}, "n_variables"),
        ({"clauses": [[1, 0]]}, "clause 0: .* got 0"),
        ({"clauses": [[1], [4]]}, "clause 1: .* got 4"),
        ({"clauses": [[1], [True]]}, "clause 1: .* got True"),
        ({"clauses": [[1], []]}, "clause 1 "),
        ({"clauses": 3}, "clauses"),
        ({"clauses": ["12"]}, "clause 0"),
        ({"xors": [([1, -2], 1)]}, "xor 0: .* got -2"),
        ({"xors": [([1, 2], 2)]}, "xor 0: .* got 2"),
        ({"xors": [[1, 2, 3]]}, "xor 0 .*pair"),
        ({"xors": [([], 0)]}, "xor 0 .*empty"),
        ({"log_weights": {4: 1.0}}, "log_weights: .* got 4"),
        ({"log_weights": {1: math.inf}}, "literal 1 .* got inf"),
        ({"log_weights": {1: 1e20}}, "got 1e.20"),
        ({"log_weights": {1: math.nan}}, "got nan"),
        ({"log_weights": [1.0]}, "log_weights"),
        ({"sampling": [1, 1]}, "sampling .*twice"),
        ({"sampling": [0]}, "sampling: .* got 0"),
        ({"sampling": []}, "sampling .*empty"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(xm.ConstraintError, match=told):
        xm.Formula(**{"n_variables": 3, "clauses": [[1, 2]], **settings})


def test_questions_that_make_no_sense_are_refused() -> None:
    formula = xm.Formula(3, [[1, 2]])
    assert formula.guarantee() == xm.Guarantee(1.18, 0.001)
    assert formula.guarantee(delta=1.05).delta == 1.05
    for ask in (
        lambda: formula.guarantee(delta=1.0),
        lambda: formula.sample(-1),
        lambda: formula.sample(1, oracle="guess"),
        lambda: formula.sample(1, failure=2.0),
        lambda: formula.sample(1, seed=-1),
        lambda: formula.probability(4),
        lambda: formula.log_partition(n_cells=1),
        lambda: formula.log_partition(time_limit=0.0),
    ):
        with pytest.raises(xm.XmenError):
            ask()
    for impossible in (xm.Formula(2, [[1], [-1]]), xm.Formula(1, [[1]], log_weights={1: -math.inf})):
        for question in (impossible.log_partition, lambda f=impossible: f.sample(1, **SOLVER)):
            with pytest.raises(xm.InfeasibleError, match="Formula"):
                question()


def test_minus_infinity_forbids_a_literal() -> None:
    formula = xm.Formula(3, [[1, 2, 3]], log_weights={1: -math.inf, -1: 0.5, 2: 1.0})
    assert formula.log_partition() == pytest.approx(0.5 + math.log(2 * math.e + 1))
    assert not formula.sample(20, seed=0, **SOLVER)[:, 0].any()


# ---- DIMACS

FILE = """c a comment
c ind 1 2 0
p cnf 4 3
c p show 4 0
1 -2
3 0 2
4 0
-1 -4 0
x1 -2 3 0
c p weight 1 0.25 0
c p weight 4 3 0
c p weight -4 1/2 0
w 2 0
c p of another kind is a comment
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "formula.cnf"
    file.write_text(text)
    return file


def test_dimacs_is_read_as_counters_write_it(tmp_path: Path) -> None:
    formula = xm.Formula.from_dimacs(written(tmp_path, FILE))
    assert formula.clauses == [[1, -2, 3], [2, 4], [-1, -4]]
    assert formula.xors == [([1, 2, 3], False)]  # x1 + not x2 + x3 is odd
    assert formula.sampling == (1, 2, 4)
    weights = {1: 0.25, -1: 0.75, 2: 0.0, -2: 1.0, 4: 3.0, -4: 0.5}  # where one sign is alone, the other has 1 - W
    assert formula.log_weights == {v: pytest.approx(math.log(w)) if w else -math.inf for v, w in weights.items()}
    rows, logs = solutions(4, [*formula.clauses, [-2]], formula.xors, {**formula.log_weights, 2: 0.0})
    assert formula.log_partition() == pytest.approx(np.logaddexp.reduce(logs))
    assert {tuple(r) for r in formula.sample(9, seed=1).tolist()} <= {tuple(r) for r in rows.tolist()}
    plain = xm.Formula.from_dimacs(written(tmp_path, "p cnf 2 1\n1 2 0\nw 1 -1\n%\n0\n"))  # SATLIB ends so; cachet's -1
    assert plain.sampling == (1, 2)
    assert plain.log_partition() == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: .*'p cnf"),
        ("c only\n1 2 0\n", "line 2: .*first"),
        ("p cnf 2\n", "line 1: .*'p cnf 2'"),
        ("p cnf 2 1\np cnf 2 1\n", "line 2: .*'p cnf 2 1'"),
        ("p cnf -2 1\n", "line 1: .*1 variable"),
        ("p cnf 2 x\n", "line 1: .* x'"),
        ("p cnf 2 1\n1 3 0\n", "line 2: literal 3.* 2"),
        ("p cnf 2 1\n1 b 0\n", "line 2: .*1 b"),
        ("p cnf 2 1\n1 2\n", "line 2: .*not closed"),
        ("p cnf 2 2\n1 0\n0\n", "line 3: .*empty clause"),
        ("p cnf 2 2\n1 2 0\n", "line 2: 1 clauses .* 2"),
        ("p cnf 2 1\n1 0\nx1 2\n", "line 3: .*closed"),
        ("p cnf 2 1\n1 0\nx 0\n", "line 3: .*empty parity"),
        ("p cnf 2 1\n1 0\nc ind 1 5 0\n", "line 3: literal 5"),
        ("p cnf 2 1\n1 0\nc ind -1 2 0\n", "line 3: .*1 to 2.*'c ind -1 2 0'"),
        ("p cnf 2 1\n1 0\nc p show 0\n", "line 3: .*'c p show 0'"),
        ("p cnf 2 1\n1 0\nc p weight 1 0.5 0\nw 1 0.4\n", "line 4: literal 1 .*line 3"),
        ("p cnf 2 1\n1 0\nc p weight 1 -0.5 0\n", "line 3: .*weight.*'-0.5'"),
        ("p cnf 2 1\n1 0\nc p weight 1 inf 0\n", "line 3: .*weight.*'inf'"),
        ("p cnf 2 1\n1 0\nc p weight 1 1/0 0\n", "line 3: .*weight.*'1/0'"),
        ("p cnf 2 1\n1 0\nc p weight 1 0\n", "line 3: .*'c p weight 1 0'"),
        ("p cnf 2 1\n1 0\nc p weight 1 3 0\n", "line 3: literal 1 .*3, .*-1 "),
    ],
)
def test_damaged_dimacs_is_refused_by_line(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(xm.FileFormatError, match=told):
        xm.Formula.from_dimacs(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(xm.MissingFileError):
        xm.Formula.from_dimacs(tmp_path / "none.cnf")
    with pytest.raises(xm.PathError):
        xm.Formula.from_dimacs(3)  # type: ignore[arg-type]
