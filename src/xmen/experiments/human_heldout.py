"""Leave one out: how likely is each demonstration to a model that has learned from all the others?

How strongly a method holds its weights back is chosen by this, from a few settings, the same way for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xmen.experiments.human_tasks import HumanTask
from xmen.experiments.methods import Effort, fit_all, valid_probability
from xmen.experiments.notebook import Notebook
from xmen.learners.base import Learner
from xmen.registry import LOOKS
from xmen.rewards import Floats

HELD_OUT = ("exact", "maxent", "relative-entropy", "constraint-inference-maxent")
"""Fitted once per setting and demonstration; the other ways to X-MEN's gradient take the setting of the exact one."""

FIT_TOL = 1e-4  # of hundreds of fits; against 1e-7, mean likelihoods change by less than 1e-4 nats


@dataclass(frozen=True)
class HeldOut:
    """Scores of E settings on n held-out demonstrations, in nats; both (E, n)."""

    efforts: tuple[Effort, ...]
    scores: Floats
    log_valid: Floats

    @property
    def best(self) -> Effort:
        """The setting that does best on all of them."""
        return self.efforts[_best(self.scores)]

    @property
    def log_likelihood(self) -> Floats:
        """Of each demonstration under the best setting (n,)."""
        best: Floats = self.scores[_best(self.scores)]
        return best

    @property
    def given_rules(self) -> Floats:
        """The same, given that the model keeps the rules: no mass is lost on what cannot be (n,)."""
        given: Floats = self.log_likelihood - self.log_valid[_best(self.scores)]
        return given

    @property
    def nested(self) -> Floats:
        """Of each demonstration under the setting that does best on the others: its own score has no say (n,)."""
        n = self.scores.shape[1]
        return np.array([self.scores[_best(np.delete(self.scores, i, axis=1)), i] for i in range(n)])


def held_out_scores(book: Notebook, task: HumanTask, label: str) -> dict[str, HeldOut]:
    """Leave one out for every method over its settings."""
    found: dict[str, HeldOut] = {}
    for name in HELD_OUT:
        maxent_l2 = found["maxent"].best.l2 if "maxent" in found else 0.0
        with book.stage(f"{label}: leave one out, {LOOKS[name].label}") as stage:
            found[name] = leave_one_out(name, task, settings_of(name, book, maxent_l2), book.seed, stage.done)
    return found


def settings_of(name: str, book: Notebook, maxent_l2: float) -> list[Effort]:
    """What a method chooses from. Constraint inference starts from MaxEnt's reward, at the l2 chosen for that."""
    base = Effort(
        oracle="listed",
        tol=FIT_TOL,
        rollouts=book.pick(2_000, 16_000),
        paper_iter=book.pick(40, 300),
        paper_samples=16,  # as in the paper
    )
    if name == "relative-entropy":
        return [base.with_(epsilon=value) for value in book.pick((0.03, 0.1), (0.01, 0.03, 0.1, 0.3))]
    if name == "constraint-inference-maxent":
        thresholds = book.pick((0.1,), (0.01, 0.03, 0.1, 0.3, 1.0))
        return [base.with_(l2=maxent_l2, kl_threshold=value) for value in thresholds]
    return [base.with_(l2=value) for value in book.pick((0.03, 0.1, 0.3), (0.01, 0.03, 0.1, 0.3, 1.0, 3.0))]


def leave_one_out(
    name: str, task: HumanTask, efforts: Sequence[Effort], seed: int, done: Callable[[float], None]
) -> HeldOut:
    """Fit with every setting to all demonstrations but one, for each of them."""
    n = len(task.demos)
    scores, log_valid = np.zeros((len(efforts), n)), np.zeros((len(efforts), n))
    for e, effort in enumerate(efforts):
        for i, demo in enumerate(task.demos):
            others = [tau for j, tau in enumerate(task.demos) if j != i]
            model = fit_all(task.grid, task.rules, task.features, others, seed=seed, effort=effort, names=[name])[name]
            scores[e, i] = model.score([demo])
            log_valid[e, i] = np.log(max(valid_probability(model, task.rules), 1e-300))
            done((e * n + i + 1) / (len(efforts) * n))
    return HeldOut(tuple(efforts), scores, log_valid)


def fit_best(
    book: Notebook, task: HumanTask, held_out: Mapping[str, HeldOut], names: Sequence[str]
) -> dict[str, Learner]:
    """Every method with its best setting, on all demonstrations."""
    fitted: dict[str, Learner] = {}
    for name in names:
        effort = setting_of(name, held_out)
        fitted |= fit_all(
            task.grid, task.rules, task.features, task.demos, seed=book.seed, book=book, effort=effort, names=[name]
        )
    return fitted


def setting_of(name: str, held_out: Mapping[str, HeldOut]) -> Effort:
    """The chosen setting of a method; that of the exact one where it has none of its own."""
    return held_out.get(name, held_out["exact"]).best


def words(name: str, effort: Effort) -> str:
    """A setting, for a table."""
    if name == "relative-entropy":
        return f"eps {effort.epsilon:g}"
    if name == "constraint-inference":
        return "KL > 0.1"
    threshold = f", KL > {effort.kl_threshold:g}" if name == "constraint-inference-maxent" else ""
    return f"l2 {effort.l2:g}{threshold}"


def settings_table(book: Notebook, held_out: Mapping[str, HeldOut], title: str) -> None:
    """How every setting did."""
    rows = []
    for name, found in held_out.items():
        for effort, scores in zip(found.efforts, found.scores, strict=True):
            impossible = int(np.sum(~np.isfinite(scores)))
            mean = None if impossible else float(scores.mean())
            mark = "chosen" if effort is found.best else ""
            rows.append((LOOKS[name].label, words(name, effort), mean, impossible, mark))
    columns = {"method": "", "setting": "", "held out": ".2f", "impossible": "d", "": ""}
    note = """Mean log-likelihood of held-out demonstrations in nats; impossible: how many have probability 0, because
    a rule was inferred that they break."""
    book.table(title, columns, rows, note)


def mean_and_error(values: Floats) -> tuple[float | None, float | None]:
    """The mean and its standard error; None where some value is infinite."""
    if not np.isfinite(values).all():
        return None, None
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def _best(scores: Floats) -> int:
    """The row with the fewest impossible demonstrations, and among those the largest mean."""
    possible = np.isfinite(scores)
    means = np.where(possible, scores, 0.0).sum(axis=1) / np.maximum(1, possible.sum(axis=1))
    return int(max(range(len(scores)), key=lambda row: (int(possible[row].sum()), float(means[row]))))
