"""What all oracles with a solver behind them share: checks of what comes in and goes out, limits and accounts.

An adapter holds the formula and settings only, so that it can be pickled and copied; it makes a fresh solver for every
question. So an answer depends on the question alone, and loading is cheap next to solving.
"""

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xmen.errors import EngineError, MissingExtraError, OracleError
from xmen.oracles.formula import Answer, Bits, Formula, Parities, Stopwatch
from xmen.oracles.gf2 import Reduced, reduced


def check_formula(formula: Formula) -> None:
    """Raise OracleError for clauses or hash variables that solvers would read wrongly, or not at all."""
    n, clauses, hashed = formula.n_variables, formula.clauses, formula.hashed
    if clauses.dtype != np.int32 or clauses.ndim != 1 or not clauses.flags.c_contiguous:
        raise OracleError(f"clauses are one flat int32 array, not {clauses.ndim}-dimensional {clauses.dtype}")
    if len(clauses) and clauses[-1] != 0:
        raise OracleError("the last clause is not closed by a 0")
    largest = int(np.abs(clauses).max(initial=0))
    if largest > n:
        raise OracleError(f"a clause has the variable {largest}, but the formula has {n} variables")
    if len(hashed) and (hashed.min() < 1 or hashed.max() > n):
        raise OracleError(f"hash variables from {hashed.min()} to {hashed.max()} in a formula with variables 1 to {n}")
    if len(np.unique(hashed)) < len(hashed):
        raise OracleError("a hash variable is given twice")


def read_parities(parities: Parities | None, n_hash: int) -> Parities:
    """None as no parities; raise OracleError unless they are over n_hash variables, with one right-hand side each."""
    if parities is None:
        return Parities(np.zeros((0, n_hash), dtype=np.bool_), np.zeros(0, dtype=np.bool_))
    shape = parities.matrix.shape
    if len(shape) != 2 or shape[1] != n_hash:
        raise OracleError(f"parities over {shape[-1]} variables, but the formula has {n_hash} hash variables")
    if parities.rhs.shape != shape[:1]:
        raise OracleError(f"{shape[0]} parities with {len(parities.rhs)} right-hand sides")
    return parities


def read_assumptions(assumptions: Sequence[int], formula: Formula) -> list[int]:
    """The assumptions as whole numbers; raise OracleError unless all are literals of the formula."""
    literals = [int(literal) for literal in assumptions]
    for literal in literals:
        if not 1 <= abs(literal) <= formula.n_variables:
            raise OracleError(f"the assumption {literal} is no literal of the variables 1 to {formula.n_variables}")
    return literals


def check_time_limit(time_limit: float | None) -> None:
    """Raise EngineError unless there is time at all."""
    if time_limit is not None and not time_limit > 0:
        raise EngineError(f"time_limit is {time_limit!r}: give seconds above 0, or None for no limit")


class SolverOracle:
    """An oracle whose subclass loads a solver and asks it; see `Oracle` for the contract.

    A subclass gives `name`, `module`, `_open` and `_ask` (cadical.py is the shortest); the rest has defaults.

    The time limit holds for one `solve`, and for one enumeration as a whole. `n_queries` counts answers, as if each
    model had been asked for: a cell of k models that is read to its end costs k + 1.
    """

    name: str  # also the extra that brings the solver
    module: str  # the solver's, loaded when it is first asked

    def __init__(self, formula: Formula, time_limit: float | None = None) -> None:
        check_formula(formula)
        check_time_limit(time_limit)
        self.formula, self.time_limit, self.n_queries = formula, time_limit, 0
        package = self.module.partition(".")[0]
        try:  # it is not loaded: some solvers do not go together
            found = importlib.util.find_spec(package) is not None
        except ValueError:  # sys.modules has it, but as None
            found = False
        if not found:
            raise MissingExtraError(package, extra=self.name, needed_for=f'oracle="{self.name}"')

    def __repr__(self) -> str:
        f = self.formula
        return f"{type(self).__name__}({f.n_variables:,} variables, {f.n_clauses:,} clauses, {f.n_hash} hash variables)"

    def solve(self, assumptions: Sequence[int] = ()) -> Answer:
        literals = read_assumptions(assumptions, self.formula)
        self.n_queries += 1
        if self._has_empty_clause():
            return Answer(None)
        with Stopwatch(self.name, self.time_limit) as watch:
            return self._solve(literals, watch)

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        return self._checked(read_parities(parities, self.formula.n_hash))

    def warm_up(self) -> None:
        """Load and compile what the first question would have to wait for."""
        self._backend()
        reduced(Parities.dense(1, 1, np.random.default_rng(0)))

    def _checked(self, parities: Parities) -> Iterator[Bits]:
        rows = reduced(parities)
        if rows is None or self._has_empty_clause():
            self.n_queries += 1
            return
        watch = Stopwatch(self.name, self.time_limit)
        models = self._models(rows, watch)
        while True:
            with watch:
                bits = next(models, None)
            self.n_queries += 1
            if bits is None:
                return
            # Solvers have had such bugs, and a sampler could not notice.
            if not np.array_equal(np.count_nonzero(rows.matrix & bits, axis=1) & 1, rows.rhs):
                raise OracleError(f"{self.name} returned a model that breaks the parities: please report this formula")
            yield bits

    def _has_empty_clause(self) -> bool:
        """Solvers disagree about empty clauses in what they load (CryptoMiniSat's fast path drops them)."""
        closed = self.formula.clauses == 0
        return bool(len(closed)) and bool(closed[0] or np.any(closed[1:] & closed[:-1]))

    def _backend(self) -> Any:
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            raise OracleError(f"{self.module} is installed but cannot be loaded: {error}") from error

    def _solve(self, assumptions: list[int], watch: Stopwatch) -> Answer:
        """The answer of a fresh solver."""
        solver = self._open(None)
        bits = self._ask(solver, assumptions, watch)
        return Answer(None, self._core(solver, assumptions)) if bits is None else Answer(bits)

    def _models(self, parities: Reduced, watch: Stopwatch) -> Iterator[Bits]:
        """The models of a fresh solver as hash bits. The watch runs while this generator does."""
        solver, free = self._open(parities), parities.free
        variables = self.formula.hashed[free]
        while (bits := self._ask(solver, [], watch)) is not None:
            yield bits
            if not len(free):
                return
            self._forbid(solver, np.where(bits[free], -variables, variables).tolist())

    def _open(self, parities: Reduced | None) -> Any:
        """A fresh solver with the formula, and the parities, in it."""
        raise NotImplementedError

    def _ask(self, solver: Any, assumptions: list[int], watch: Stopwatch) -> Bits | None:
        """The hash bits of a model, None when there is none; raises OracleTimeoutError."""
        raise NotImplementedError

    def _core(self, solver: Any, assumptions: list[int]) -> tuple[int, ...]:
        """Assumptions that cannot hold together, after a question that had no answer: all, where nothing is known."""
        return tuple(assumptions)

    def _forbid(self, solver: Any, clause: list[int]) -> None:
        solver.add_clause(clause)
