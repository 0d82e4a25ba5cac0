"""Solvers in processes of their own: some do not stop when they should, keep Ctrl-C for themselves, or clash."""

import contextlib
import itertools
import queue
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xmen.errors import OracleDiedError, OracleError
from xmen.oracles.formula import Answer, Bits, Parities, Stopwatch
from xmen.oracles.solver import SolverOracle, read_assumptions, read_parities
from xmen.processes import Child, listening

LARGEST_BATCH = 64  # models in one message
LONGEST_BATCH = 0.02  # seconds after which a message is sent with the models found so far


class KillableOracle:
    """Another oracle, asked in a child process that is killed at the time limit.

    A child takes half a second to start, which does not count, and then serves any number of questions of any oracle
    with the same solver, one at a time.
    """

    def __init__(self, oracle: SolverOracle) -> None:
        self.oracle, self.name, self.formula = oracle, oracle.name, oracle.formula
        self.time_limit, self.n_queries = oracle.time_limit, 0

    def __repr__(self) -> str:
        return f"KillableOracle({self.oracle!r})"

    def solve(self, assumptions: Sequence[int] = ()) -> Answer:
        literals = read_assumptions(assumptions, self.formula)
        self.n_queries += 1
        with self._child() as child:
            answer: Answer = self._ask(child, ("solve", self.oracle, literals), Stopwatch(self.name, self.time_limit))
        return answer

    def solutions(self, parities: Parities | None = None) -> Iterator[Bits]:
        return self._solutions(read_parities(parities, self.formula.n_hash))

    def _solutions(self, parities: Parities) -> Iterator[Bits]:
        watch, most = Stopwatch(self.name, self.time_limit), 1
        question: tuple[Any, ...] = ("solutions", self.oracle, parities)
        with self._child() as child:
            while True:
                models, ended, error = self._ask(child, question, watch)
                for bits in models:
                    self.n_queries += 1
                    yield bits
                if error is not None:
                    raise error
                if ended:
                    self.n_queries += 1
                    return
                most = min(2 * most, LARGEST_BATCH)
                question = ("more", None, most)

    @contextlib.contextmanager
    def _child(self) -> Iterator[Child]:
        """A child that waits for a question; it is kept for the next one if it still does so afterwards."""
        child = None
        with contextlib.suppress(IndexError):  # nobody waits; asking first would leave room for another thread
            while child is None or not child.alive:
                child = _idle[self.oracle.module].pop()
        if child is None or not child.alive:
            try:
                child = Child("xmen.oracles.killable")
                # It loads the oracle first, so that loading and compiling do not count as thinking.
                if (failure := child.ask(self.oracle)) is not None:
                    child.kill()
                    raise failure
            except (EOFError, OSError) as error:
                raise OracleError(f"a process for {self.name} could not be started: {error!r}") from None
        try:
            yield child
        finally:
            if child.alive:
                _idle[self.oracle.module].append(child)

    def _ask(self, child: Child, question: tuple[Any, ...], watch: Stopwatch) -> Any:
        with watch:
            try:
                # The child keeps the limit too, so that none is left behind at work when this process is killed.
                answer = child.ask((*question, self.time_limit), watch.left)
            except BaseException as error:
                # Its answer would come to a later question.
                child.kill()
                if isinstance(error, queue.Empty):
                    raise watch.expired() from None
                if isinstance(error, EOFError | OSError):
                    raise OracleDiedError(f"the process of {self.name} died: out of memory, or killed?") from None
                raise
        if isinstance(answer, Exception):
            raise answer
        return answer


_idle: defaultdict[str, list[Child]] = defaultdict(list)  # by what they have loaded: HiGHS clashes with OR-Tools


def serve() -> None:
    """The child: answer questions until the parent is gone."""
    models: Iterator[Bits] = iter(())
    with listening() as (questions, say):
        for oracle in itertools.islice(questions, 1):
            answer: Any = None
            try:
                oracle.warm_up()
            except Exception as error:
                answer = error
            say(answer)
        for kind, oracle, content, time_limit in questions:
            try:
                if oracle is not None:
                    oracle.time_limit = time_limit
                if kind == "solve":
                    answer = oracle.solve(content)
                elif kind == "solutions":
                    models = oracle.solutions(content)
                    answer = _batch(models, 1)
                else:
                    answer = _batch(models, content)
            except Exception as error:
                answer = error
            say(answer)


def _batch(models: Iterator[Bits], most: int) -> tuple[Bits, bool, Exception | None]:
    """At most so many further models, fewer where they take their time; whether they are the last; what failed then.

    Several at a time and in one array, since a message takes as long as many an easy model.
    """
    found, ended, failure, began = list[Bits](), False, None, time.perf_counter()
    try:
        for bits in itertools.islice(models, most):
            found.append(bits)
            if time.perf_counter() - began > LONGEST_BATCH:
                break
        else:
            ended = len(found) < most
    except Exception as error:
        failure = error
    return np.array(found, dtype=np.bool_), ended, failure
