"""Validation: the loss of held-out demonstrations after each step, an early end, and the answer that was best on them.

A run that is watched in this way is again a run: its state is that of the run inside, now and where it was best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from xmen.errors import DivergenceError
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.runs import Outcome, Run
from xmen.options import require_whole
from xmen.progress.monitor import Monitor
from xmen.rewards import Floats, Reward
from xmen.rewards.features import Features
from xmen.storage.checkpoint import RunState

DEFAULT_PATIENCE = 10
VALIDATION_LOSS = "validation_loss"  # among the details of a record


@dataclass(frozen=True)
class Validation:
    """Demonstrations that are not learned from, and how many steps without a better loss of theirs end a fit.

    `log_likelihoods` gives those of each under a reward table. With no patience nothing ends early.
    """

    demos: Demonstrations
    log_likelihoods: Callable[[Floats], Floats]
    patience: int | None = DEFAULT_PATIENCE

    def loss(self, table: Floats) -> float:
        """Minus the mean log-likelihood; infinite where the weights of ever longer trips do not add up."""
        try:
            return -self.demos.mean(self.log_likelihoods(table))
        except DivergenceError:
            return math.inf


@dataclass(frozen=True)
class ValidatedState(RunState):
    """Where the run inside stands, and where it stood after the step that was best."""

    inner: Any
    best: Any
    best_loss: float
    best_iteration: int
    iteration: int


class ValidatedRun(Run[ValidatedState]):
    """A run that ends when validation has not become better for `patience` steps, with the best answer it had."""

    state_type = ValidatedState

    def __init__(self, run: Run[Any], features: Features | None, validation: Validation) -> None:
        self.run, self.features, self.validation = run, features, validation
        self.stores_every_step = run.stores_every_step

    def start(self) -> ValidatedState:
        inner = self.run.start()
        return ValidatedState(inner, inner, math.inf, 0, 0)

    def restored(self, state: ValidatedState) -> ValidatedState:
        inner, best = (self.run.state_type(*part) for part in (state.inner, state.best))
        return replace(state, inner=inner, best=inner if state.best_iteration == state.iteration else best)

    def _out_of_patience(self, state: ValidatedState) -> bool:
        patience = self.validation.patience
        waited = 0 if state.best_loss == math.inf else state.iteration - state.best_iteration
        return patience is not None and waited >= patience

    def finished(self, state: ValidatedState) -> bool:
        return self.run.finished(state.inner) or self._out_of_patience(state)

    def step(self, state: ValidatedState) -> tuple[ValidatedState, dict[str, float]]:
        inner, entry = self.run.step(state.inner)
        loss = self.validation.loss(self._table(self.run.answer(inner))) if self.run.may_end(inner) else math.inf
        after = replace(state, inner=inner, iteration=state.iteration + 1)
        if loss < state.best_loss:
            after = replace(after, best=inner, best_loss=loss, best_iteration=after.iteration)
        return after, {**entry, VALIDATION_LOSS: loss}

    def _table(self, answer: Floats | Reward | None) -> Floats:
        if isinstance(answer, Reward):
            return answer.table()
        assert self.features is not None
        assert answer is not None
        return self.features.table(answer)

    def answer(self, state: ValidatedState) -> Floats | Reward | None:
        return self.run.answer(state.inner)

    def conclude(self, state: ValidatedState, monitor: Monitor) -> Outcome:
        if state.best_loss == math.inf or state.best is state.inner:
            outcome = self.run.conclude(state.inner, monitor)
        else:
            monitor.stopped = True  # on purpose, short of the optimum: nothing to warn of
            outcome = self.run.conclude(state.best, monitor)
        chosen = {"best_iteration_": state.best_iteration or state.iteration} if state.iteration else {}
        return outcome._replace(learned={**outcome.learned, **chosen})


def validated(run: Run[Any], features: Features | None, validation: Validation | None) -> Run[Any]:
    """The run, under validation where there is one."""
    return run if validation is None else ValidatedRun(run, features, validation)


def check_patience(patience: object) -> None:
    """Refuse what is no number of steps."""
    require_whole("patience", patience, least=1, optional=True)
