"""One's own formula: log Z, probabilities and guaranteed samples of its solutions, by the hash cells of `sampling`.

    P(x) = exp(sum of the log-weights of the literals that hold in x) / Z    over the solutions x.

Parities range over the sampling variables and those with weights. Weights that differ much are embedded, as those of
trajectories are: one adder over whole multiples of a small unit, and its comparisons with the thresholds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import islice
from os import PathLike
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from xmen import errors, sampling
from xmen.encoding.builder import ClauseBuilder
from xmen.engines.distribution import Guarantee, Seed, generator
from xmen.engines.settings import DEFAULT_CELL_SIZE, DEFAULT_TIME_LIMIT, EngineSettings
from xmen.errors import MEMORY, ConstraintError, EngineError, OracleError
from xmen.files import as_path, read_text
from xmen.options import as_int, is_number, require_whole
from xmen.oracles import formula as oracles
from xmen.oracles.formula import Bits, Oracle
from xmen.oracles.listed import MAX_LISTED
from xmen.oracles.registry import make_oracle
from xmen.sampling import CellPlan, Embedding, Levels, Space
from xmen.sampling.space import Floats, canonical
from xmen.sharing import once

LISTED_AT_ONCE = 20_000  # solutions up to which "auto" lists them: a second or two of a solver's time
ADDER_ERROR = 0.2  # nats by which the adder may misjudge a weight; copies keep their exact weights
NEAR = 0.1  # nats within which the largest weight is looked for
EVEN = 2.0  # nats; weights within such a span are not embedded
MOST_NATS = 1e9  # of a literal: with 100,000 of them, sums in units of the adder are whole numbers of 64 bits


class Formula:
    """Clauses and parities over Boolean variables, with a weight for each literal: samples, log Z and probabilities.

    P(x) is in proportion to exp(the sum of the log-weights of the literals that hold in x), over all solutions x. Up to
    20,000 solutions are listed, and all answers are exact; more are cut into hash cells by a solver.

    Parameters
    ----------
    n_variables : int
        The variables are 1 .. n_variables.
    clauses : iterable of iterables of int
        Literals as in DIMACS: v, or -v for its negation. Each clause has one that holds.
    xors : iterable of (variables, parity), optional
        The number of true ones among the variables is odd (parity 1 or True) or even (0 or False).
    log_weights : dict of int to float, optional
        Nats of a literal; one that is not given has 0. -inf forbids it.
    sampling : iterable of int, optional
        Variables that determine a solution: parities over few of them are easier. All, if not given. If two solutions
        agree on them, a ConstraintError says where they differ.

    Examples
    --------
    >>> formula = Formula(3, [[1, 2], [-1, 3]], xors=[([1, 2, 3], 0)], log_weights={2: 1.0})
    >>> round(formula.log_partition(), 4), round(formula.probability(2), 4)
    (1.3133, 0.7311)
    >>> formula.sample(2, seed=0).shape
    (2, 3)
    """

    def __init__(
        self,
        n_variables: int,
        clauses: Iterable[Iterable[int]],
        xors: Iterable[tuple[Iterable[int], int]] = (),
        log_weights: Mapping[int, float] | None = None,
        sampling: Iterable[int] | None = None,
    ) -> None:
        n: int = require_whole("n_variables", n_variables, least=1, refusal=ConstraintError)
        MEMORY.require(200.0 * n, f"a formula of {n:,} variables", ConstraintError)
        self.n_variables = n
        self.clauses = [_literals(clause, n, f"clause {i}") for i, clause in enumerate(_each(clauses, "clauses"))]
        self.xors = [_parity(given, n, f"xor {i}") for i, given in enumerate(_each(xors, "xors"))]
        if not isinstance(log_weights, Mapping | None):
            raise ConstraintError(f"log_weights is a dictionary of literal to nats; got {log_weights!r:.60}.")
        self.log_weights = dict[int, float]()
        for literal, nats in (log_weights or {}).items():
            (key,) = _literals([literal], n, "log_weights")
            if not (nats == -math.inf or (is_number(nats) and abs(nats) <= MOST_NATS)):
                told = f"a number, at most {MOST_NATS:g} in size, or -inf"
                raise ConstraintError(f"the log-weight of literal {key} is {told}; got {nats!r:.60}.")
            self.log_weights[key] = float(nats)
        given = range(1, n + 1) if sampling is None else sampling
        self.sampling = tuple(sorted(_literals(given, n, "sampling", signs=False)))
        if len(set(self.sampling)) < len(self.sampling):
            raise ConstraintError("sampling names a variable twice: name each once.")
        self._hashed = dict[Any, Hashed]()

    @classmethod
    def from_dimacs(cls, path: str | PathLike[str]) -> "Formula":
        """The formula of a DIMACS file, with what counters add to it.

        `x` lines are parities of literals; `c ind` and `c p show` name sampling variables; `c p weight LITERAL W 0`, or
        `w LITERAL W`, is a weight W, not its logarithm. Where one sign of a variable has a weight alone, the other has
        1 - W, as counters have it (both have 1 after W = -1).

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Formula
            A FileFormatError names the line of whatever cannot be read.
        """
        return _read_dimacs(cls, str(as_path(path, "Formula.from_dimacs(path)")))

    @overload
    def log_partition(self, return_std: Literal[False] = ..., *asked: Any, **by_name: Any) -> float: ...
    @overload
    def log_partition(self, return_std: Literal[True], *asked: Any, **by_name: Any) -> tuple[float, float]: ...
    def log_partition(
        self,
        return_std: bool = False,
        seed: Seed = None,
        n_cells: int = 64,
        oracle: str = "auto",
        time_limit: float | None = DEFAULT_TIME_LIMIT,
    ) -> Any:
        """log Z, the log of the sum of all weights (of the number of solutions, where none has a weight).

        Parameters
        ----------
        return_std
            Also return the standard error, which is 0 where all solutions are listed.
        seed, n_cells
            Of the hash cells that it is estimated from.
        oracle, time_limit
            The solver, and its seconds for one cell.

        Returns
        -------
        float or tuple of float
            Nats.
        """
        found = self._behind(oracle, time_limit).estimate(generator(seed), n_cells)
        return (found[0], found[1]) if return_std else found[0]

    @overload
    def probability(self, literal: int, return_std: Literal[False] = ..., *asked: Any, **by_name: Any) -> float: ...
    @overload
    def probability(
        self, literal: int, return_std: Literal[True], *asked: Any, **by_name: Any
    ) -> tuple[float, float]: ...
    def probability(
        self,
        literal: int,
        return_std: bool = False,
        seed: Seed = None,
        n_cells: int = 64,
        oracle: str = "auto",
        time_limit: float | None = DEFAULT_TIME_LIMIT,
    ) -> Any:
        """The probability that a literal holds.

        Parameters
        ----------
        literal
            v, or -v for its negation.
        return_std, seed, n_cells, oracle, time_limit
            As for `log_partition`.

        Returns
        -------
        float or tuple of float
            The probability, within [0, 1].
        """
        (read,) = _literals([literal], self.n_variables, "probability(literal)")
        *_, mean, std = self._behind(oracle, time_limit, abs(read)).estimate(generator(seed), n_cells, abs(read))
        mean = min(1.0, max(0.0, mean if read > 0 else 1.0 - mean))
        return (mean, std) if return_std else mean

    def sample(
        self,
        n: int,
        seed: Seed = None,
        delta: float | None = None,
        failure: float | None = None,
        oracle: str = "auto",
        time_limit: float | None = DEFAULT_TIME_LIMIT,
    ) -> Bits:
        """Independent solutions, each with a probability within a factor delta of P, under the stated `guarantee`.

        Parameters
        ----------
        n
            How many.
        seed
            Same seed, same solutions.
        delta, failure
            As for `guarantee`.
        oracle, time_limit
            The solver, and its seconds for one cell.

        Returns
        -------
        array of bool (n, n_variables)
            Column v - 1 is variable v. Every row was checked against all clauses and parities.
        """
        number: int = require_whole("n of sample(n)", n, least=0)
        MEMORY.require(float(number) * self.n_variables, f"{number:,} solutions", EngineError)
        hashed, stated = self._behind(oracle, time_limit), self.guarantee(delta, failure)
        rows = hashed.complete(hashed.sample(number, generator(seed), *stated) if number else hashed.nothing)
        self._check(rows)
        return rows

    def guarantee(self, delta: float | None = None, failure: float | None = None) -> Guarantee:
        """What `sample` states with these settings; where all solutions are listed, its draws are exact.

        Parameters
        ----------
        delta
            Every solution is drawn with a probability within this factor of P; 1.18 if not given.
        failure
            The probability that this does not hold; 0.001 if not given.

        Returns
        -------
        Guarantee
            Both.
        """
        return Guarantee(*EngineSettings(delta=delta, failure=failure).guarantee)

    def __repr__(self) -> str:
        return (
            f"Formula({self.n_variables:,} variables, {len(self.clauses):,} clauses, {len(self.xors):,} xors, "
            f"{len(self.log_weights):,} weights; {len(self.sampling):,} sampling variables)"
        )

    def _behind(self, oracle: str, time_limit: float | None, also: int = 0) -> "Hashed":
        """The solutions behind an oracle, with parities over one more variable where that is asked for."""
        EngineSettings(oracle=oracle, time_limit=time_limit)
        weighted = {abs(literal) for literal, nats in self.log_weights.items() if abs(nats) > 0.0}
        variables = tuple(sorted({*self.sampling, *weighted, also} - {0}))
        key = oracle, time_limit, variables
        return self._hashed.setdefault(key, Hashed(self, *key))

    def _check(self, rows: Bits) -> None:
        """No solution leaves unchecked: solvers, and what reads them, have had bugs."""
        true = np.hstack([rows, ~rows])  # literal v in column v - 1, -v in column n + v - 1
        columns = [[v - 1 if v > 0 else self.n_variables - v - 1 for v in clause] for clause in self.clauses]
        kept = all(true[:, some].any(axis=1).all() for some in columns)
        odd = ((np.count_nonzero(rows[:, np.array(some) - 1], axis=1) & 1, parity) for some, parity in self.xors)
        if not kept or not all(np.all(found == parity) for found, parity in odd):
            raise OracleError("a solver returned a row that is no solution: please report this formula")


class Weights(NamedTuple):
    """log w(x) = base + the sum of `sizes` (>= 0) over the columns of a row whose bit differs from `flipped`."""

    base: float
    sizes: Floats
    flipped: Bits

    def log(self, rows: Bits) -> Floats:
        """log w of rows (k, n_hash or more)."""
        return np.asarray(self.base + (rows[:, : len(self.sizes)] ^ self.flipped) @ self.sizes)

    def rounded(self, unit: float, rows: Bits) -> NDArray[np.int64]:
        """The whole numbers that the adder has."""
        return np.asarray((rows[:, : len(self.sizes)] ^ self.flipped) @ np.rint(self.sizes / unit).astype(np.int64))


def _depth(weights: Weights, unit: float, thresholds: NDArray[np.int64], rows: Bits) -> NDArray[np.int64]:
    return np.asarray(np.count_nonzero(weights.rounded(unit, rows)[:, None] <= thresholds, axis=1))


def _holds(column: int, rows: Bits) -> Floats:
    return rows[:, column : column + 1].astype(np.float64)


class Hashed:
    """The solutions of a formula behind an oracle, known by their bits at `variables`."""

    def __init__(self, given: Formula, oracle: str, time_limit: float | None, variables: tuple[int, ...]) -> None:
        self.given, self.name, self.time_limit, self.variables = given, oracle, time_limit, variables
        self.nothing = np.zeros((0, len(variables)), dtype=np.bool_)

    def _solver(self, builder: ClauseBuilder, variables: Sequence[int]) -> Oracle:
        hashed = tuple(v + 1 for v in variables)  # the builder's first variable is its own
        formula = oracles.Formula(builder.n_variables, builder.clauses, hashed)
        return make_oracle("auto" if self.name == "listed" else self.name, formula, self.time_limit)

    @once
    def builder(self) -> ClauseBuilder:
        builder = ClauseBuilder()
        builder.variables(self.given.n_variables)
        _write(builder, self.given, 1)
        return builder

    @once
    def oracle(self) -> Oracle:
        oracle = self._solver(self.builder, self.variables)
        if oracle.solve().bits is None:
            raise errors.InfeasibleError(f"no solution satisfies {self.given!r}: clauses and parities of it conflict.")
        return oracle

    @once
    def twins(self) -> Oracle | None:
        """Two solutions that agree on the sampling variables and differ elsewhere; None where it is sure that none do.

        One question decides it (Padoa). Where that takes too long, it is asked again for each solution that is drawn.
        """
        n, chosen = self.given.n_variables, set(self.given.sampling)
        others = [v for v in range(1, n + 1) if v not in chosen]
        if not others:
            return None
        builder = ClauseBuilder()
        builder.variables(2 * n)
        _write(builder, self.given, 1)
        _write(builder, self.given, 1 + n)
        for v in chosen:
            builder.add([v + 1, -(v + 1 + n)])
            builder.add([-(v + 1), v + 1 + n])
        builder.add([builder.exclusive(v + 1, v + 1 + n) for v in others])
        oracle = self._solver(builder, range(1, 2 * n + 1))
        try:
            self._refuse_twins(oracle)
            return None
        except errors.OracleTimeoutError:
            return oracle

    def _refuse_twins(self, oracle: Oracle, assumptions: Sequence[int] = ()) -> None:
        bits = oracle.solve(assumptions).bits
        if bits is not None:
            one, other = bits.reshape(2, -1)
            raise ConstraintError(
                f"sampling does not determine a solution: two solutions agree on its {len(self.given.sampling)} "
                f"variables, and variable {int(np.argmax(one != other)) + 1} is true in one of them only. Add it to "
                "sampling, or leave sampling out."
            )

    @once
    def weights(self) -> Weights:
        known = self.given.log_weights
        # -inf is a clause, and what is left weighs the same in every solution.
        pairs = np.array([[known.get(v, 0.0), known.get(-v, 0.0)] for v in self.variables]).reshape(-1, 2)
        pairs = np.where(np.isinf(pairs), pairs[:, ::-1], pairs)
        return Weights(float(pairs.min(axis=1).sum()), np.abs(pairs[:, 0] - pairs[:, 1]), pairs[:, 0] < pairs[:, 1])

    @once
    def rows(self) -> Bits | None:
        """All solutions, where they are few enough to be listed and the oracle may be a list."""
        _ = self.oracle, self.twins  # what has no solution, or none of its own, is refused
        if self.name not in ("auto", "listed"):
            return None
        most = LISTED_AT_ONCE if self.name == "auto" else MAX_LISTED
        try:
            found = list(islice(self.oracle.solutions(), most + 1))
        except errors.OracleTimeoutError:
            if self.name == "listed":
                raise
            return None
        if len(found) <= most:
            return canonical(np.array(found, dtype=np.bool_).reshape(len(found), -1))
        if self.name == "listed":
            raise EngineError(f"oracle='listed' needs all solutions in a list, and there are more than {most:,}.")
        return None

    @once
    def space(self) -> Space:
        """The solutions with their weights, embedded where these differ much."""
        weights, n = self.weights, np.count_nonzero(self.weights.sizes)
        if n == 0:
            return Space(self.oracle, weights.log, weights.base)
        unit = 2.0 * ADDER_ERROR / n
        whole = np.rint(weights.sizes / unit).astype(np.int64)
        builder = self.builder.copy()
        signs = np.where(weights.flipped, -1, 1).tolist()
        signed = (sign * (v + 1) for sign, v in zip(signs, self.variables, strict=True))
        total = builder.sum_of([builder.number_of([one]) for one in zip(whole.tolist(), signed, strict=True)])
        most = self._largest(builder, total, unit)
        high = weights.base + unit * most
        if unit * most <= EVEN:
            return Space(self.oracle, weights.log, high + ADDER_ERROR)
        levels = Levels.covering(high, weights.base)
        levels = replace(levels, n_levels=min(levels.n_levels, 64, len(self.variables)))
        thresholds = np.floor((levels.thresholds - weights.base) / unit).astype(np.int64)
        below = [builder.at_least_number(builder.constant(max(t, 0)), total) for t in thresholds.tolist()]
        formula = oracles.Formula(builder.n_variables, builder.clauses, self.oracle.formula.hash_variables)
        oracle = make_oracle(self.name, sampling.embed(formula, below, levels.bits_per_level), self.time_limit)
        depth = partial(_depth, weights, unit, thresholds)
        return Embedding(Space(self.oracle, weights.log, high), oracle, levels, depth, ADDER_ERROR).residual()

    def _largest(self, builder: ClauseBuilder, total: list[int], unit: float) -> int:
        """A number that no solution's rounded weight exceeds, within NEAR of the largest: by bisection."""
        bits = self.oracle.solve().bits
        assert bits is not None
        low, high = self.weights.rounded(unit, bits[None])[0], int(np.rint(self.weights.sizes / unit).sum())
        while unit * (high - low) > NEAR:
            middle, more = int(low + high) // 2, builder.copy()
            more.add([-more.at_least_number(more.constant(middle), total)])
            try:
                bits = self._solver(more, self.variables).solve().bits
            except errors.OracleTimeoutError:
                break  # what is known is true, only wider
            if bits is None:
                high = middle
            else:
                low = self.weights.rounded(unit, bits[None])[0]
        return high

    @once
    def n_parities(self) -> int:
        """Of an estimate's cells; it carries no guarantee, and so has a seed of its own."""
        return sampling.choose_parities(self.space, DEFAULT_CELL_SIZE, np.random.default_rng(0))[0]

    def estimate(self, rng: np.random.Generator, n_cells: int, variable: int = 0) -> tuple[float, float, float, float]:
        """log Z and its standard error, the probability that the variable is true, and its standard error."""
        number: int = require_whole("n_cells", n_cells, least=2)
        column = self.variables.index(variable) if variable else 0
        if self.rows is not None:
            logs = self.weights.log(self.rows)
            log_sum = float(logsumexp(logs))
            return log_sum, 0.0, float(np.exp(logs - log_sum) @ self.rows[:, column]), 0.0
        found = sampling.estimate(self.space, self.n_parities, number, rng, partial(_holds, column))
        mean, std = float(found.expectation[0]), float(found.expectation_std[0])
        return found.log_partition, found.log_partition_std, mean, std

    def sample(self, n: int, rng: np.random.Generator, delta: float, failure: float) -> Bits:
        """n independent rows (n, n_hash), within delta of P except with probability `failure`."""
        if self.rows is not None:
            logs = self.weights.log(self.rows)
            return np.asarray(self.rows[rng.choice(len(logs), size=n, p=np.exp(logs - logsumexp(logs)))])
        bound = sampling.bound_partition(self.space, self.n_parities, failure, rng, cell_size=DEFAULT_CELL_SIZE)
        return sampling.sample_cells(self.space, CellPlan.solve(delta, bound), n, rng)[0][:, : len(self.variables)]

    def complete(self, rows: Bits) -> Bits:
        """The solutions (k, n_variables) that rows of bits at `variables` belong to."""
        n = self.given.n_variables
        if len(self.variables) == n:
            return rows
        solver, place = self._solver(self.builder, range(1, n + 1)), np.array(self.variables) + 1
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        found = np.zeros((len(distinct), n), dtype=np.bool_)
        for i, row in enumerate(distinct):
            known = np.where(row, place, -place).tolist()
            bits = solver.solve(known).bits
            if bits is None:
                raise OracleError("a solver returned a row that is no solution: please report this formula")
            found[i] = bits
            if self.twins is not None:
                self._refuse_twins(self.twins, known)
        return found[which.ravel()]


def _write(builder: ClauseBuilder, given: Formula, offset: int) -> None:
    """The clauses and parities, with variable v as the builder's v + offset."""
    forbidden = [[-literal] for literal, nats in given.log_weights.items() if nats == -math.inf]
    for clause in (*given.clauses, *forbidden):
        builder.add(literal + offset if literal > 0 else literal - offset for literal in clause)
    for variables, odd in given.xors:
        sum_ = reduce(builder.exclusive, (v + offset for v in variables), builder.FALSE)
        builder.add([sum_ if odd else -sum_])


def _each(values: Any, what: str) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConstraintError(f"{what} is a list of them; got {values!r:.60} ({type(values).__name__}).")
    return list(values)


def _literals(values: Any, n: int, what: str, signs: bool = True) -> list[int]:
    """Literals, or variables, of n variables; at least one."""
    kind, found = "literals" if signs else "variables", list[int]()
    for value in _each(values, f"{what}: {kind}"):
        literal = as_int(value)
        if literal is None or not 1 <= abs(literal) <= n or (literal < 0 and not signs):
            least = f"1 to {n}" + f" and -1 to -{n}" * signs
            raise ConstraintError(f"{what}: {kind} of this formula are {least}; got {value!r:.60}.")
        found.append(literal)
    if not found:
        raise ConstraintError(f"{what} is empty: it needs {kind}.")
    return found


def _parity(given: Any, n: int, what: str) -> tuple[list[int], bool]:
    try:
        values, parity = given
    except (TypeError, ValueError):
        raise ConstraintError(f"{what} is a pair (variables, parity); got {given!r:.60}.") from None
    odd = int(parity) if isinstance(parity, bool | np.bool_) else as_int(parity)
    if odd not in (0, 1):
        raise ConstraintError(f"{what}: the parity is 0 (even) or 1 (odd); got {parity!r:.60}.")
    return _literals(values, n, what, signs=False), bool(odd)


def _read_dimacs(make: type[Formula], path: str) -> Formula:
    """See `Formula.from_dimacs`."""
    size: list[int] | None = None
    clauses, xors, shown, begun = list[list[int]](), list[tuple[list[int], int]](), list[int](), list[int]()
    weights = dict[int, tuple[float, int]]()

    def refuse(number: int, told: str) -> errors.FileFormatError:
        return errors.FileFormatError(f"{path}, line {number}: {told}")

    def whole(number: int, words: Sequence[str]) -> list[int]:
        try:
            return [int(word) for word in words]
        except ValueError:
            raise refuse(number, f"expected whole numbers, got {' '.join(words)!r:.60}") from None

    def literals(number: int, words: Sequence[str]) -> list[int]:
        *found, end = whole(number, words) or [1]
        if end != 0 or 0 in found:
            raise refuse(number, "the list is closed by one 0")
        return in_range(number, found)

    def in_range(number: int, found: list[int]) -> list[int]:
        if size is None:
            raise refuse(number, "the line 'p cnf VARIABLES CLAUSES' has to come first")
        for literal in found:
            if not 1 <= abs(literal) <= size[0]:
                raise refuse(number, f"literal {literal}, and the variables are 1 to {size[0]}")
        return found

    later = list[tuple[int, list[str]]]()  # comments may stand before the header, which they are checked against
    last = 1
    for last, line in enumerate(read_text(path).splitlines(), 1):
        match line.split():
            case [] | ["c"]:
                pass
            case ["c", "ind", *_] | ["c", "p", "show" | "weight", *_] | ["w", *_]:
                later.append((last, line.split()))
            case [word, *_] if word.startswith("c"):
                pass
            case ["%", *_]:
                break
            case ["p", "cnf", variables, written] if size is None:
                size = whole(last, [variables, written])
                if size[0] < 1 or size[1] < 0:
                    raise refuse(
                        last, f"a formula has 1 variable or more and no fewer than 0 clauses, got {line!r:.60}"
                    )
            case ["p", *_]:
                raise refuse(last, f"expected one line 'p cnf VARIABLES CLAUSES', got {line!r:.60}")
            case [word, *words] if word.startswith("x"):
                found = literals(last, [word[1:], *words] if word[1:] else words)
                odd = (1 + sum(literal < 0 for literal in found)) % 2
                xors.append(([abs(literal) for literal in found], odd))
                if not found:
                    raise refuse(last, "an empty parity")
            case words:
                for literal in whole(last, words):
                    if literal:
                        begun += in_range(last, [literal])
                    elif begun:
                        clauses.append(begun)
                        begun = []
                    else:
                        raise refuse(last, "an empty clause, which no solution satisfies")
    if size is None or begun:
        raise refuse(last, "the last clause is not closed by a 0" if begun else "no line 'p cnf VARIABLES CLAUSES'")
    if size[1] not in (len(clauses), len(clauses) + len(xors)):
        raise refuse(last, f"{len(clauses):,} clauses and {len(xors):,} parities, and the header says {size[1]:,}")
    for number, words in later:
        match words:
            case ["w", variable, weight] | ["w", variable, weight, "0"] | ["c", "p", "weight", variable, weight, "0"]:
                (key,) = in_range(number, whole(number, [variable]))
                if key in weights:
                    raise refuse(number, f"literal {key} has a weight in line {weights[key][1]} already")
                weights[key] = _weight(weight), number
                if not (weights[key][0] >= 0.0 or weights[key][0] == -1.0) or math.isinf(weights[key][0]):
                    raise refuse(number, f"a weight is a finite number, 0 or more; got {weight!r:.60}")
            case ["c", "ind", *rest] | ["c", "p", "show", *rest]:
                shown += literals(number, rest)
                if min(shown, default=0) < 1:
                    raise refuse(number, f"expected variables, 1 to {size[0]}, got {' '.join(words)!r:.60}")
            case _:
                raise refuse(number, f"expected 'c p weight LITERAL W 0' or 'w LITERAL W', got {' '.join(words)!r:.60}")
    log_weights = dict[int, float]()
    for key, (value, number) in weights.items():
        other = weights.get(-key, (1.0 - value, 0))[0]
        if value == -1.0:
            continue
        if other < 0.0:
            raise refuse(number, f"literal {key} weighs {value:g}, so that {-key} needs a weight of its own")
        for literal, one in ((key, value), (-key, other)):
            log_weights[literal] = math.log(one) if one > 0.0 else -math.inf
    return make(size[0], clauses, xors, log_weights, sorted(set(shown)) or None)


def _weight(text: str) -> float:
    """A number or a fraction; nan for anything else."""
    try:
        above, _, below = text.partition("/")
        return float(above) / float(below or "1")
    except (ValueError, ZeroDivisionError):
        return math.nan
