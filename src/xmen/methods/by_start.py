"""Rounds given the start: one source of draws for each start of the demonstrations, side by side.

log Z is then the mean over demonstrations of log Z(s_0): a part for each start, with the share of the demonstrations
that start there (see `draws`). Draws are divided in the same shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xmen.engines.choose import Chooser
from xmen.engines.reject import RejectDistribution
from xmen.engines.xor import XorDistribution
from xmen.methods.drawn_loss import DrawnLoss, Relaxed
from xmen.methods.identify import warn_undetermined
from xmen.methods.rounds import RoundsRun
from xmen.methods.runs import FitSettings, Task
from xmen.methods.sources import Batch, Plan, Source
from xmen.rewards import Floats
from xmen.sampling import Info

MakeSource = Callable[[Task], tuple[XorDistribution | RejectDistribution, Source]]
"""A source of draws for a task of one start or a joint one, and the engine behind it."""


def rounds(task: Task, settings: FitSettings, make: MakeSource) -> RoundsRun:
    """Rounds over one source, or over one per start."""
    parts = settings.learned(task).by_start()
    made = [make(part) for _, part in parts]
    base, source = made[0]
    if len(made) > 1:
        base = Chooser(task.law(), settings.engine).joint_reject()  # for questions about all valid trajectories
        source = PartSources([one for _, one in made], np.array([share for share, _ in parts]))
    return RoundsRun(task, settings, source, lambda: warn_undetermined(base, task, settings, "where its steps did"))


class PartSources:
    """Sources side by side as one: batches of all parts in every round."""

    def __init__(self, sources: Sequence[Source], shares: Floats) -> None:
        self.sources, self.parts = sources, shares
        self._whole: dict[int, Batch] = {}  # parts that were read as a whole, which are the same every time

    def first(self, wanted: float, rng: np.random.Generator) -> tuple[Plan, Info]:
        plan, info = Plan(), Info()
        for part, source in enumerate(self.sources):
            own, spent = source.first(self.parts[part] * wanted, rng)
            plan |= _named(own, part)
            info += spent
        return plan, info

    def read(self, plan: Plan, weights: Floats, rng: np.random.Generator) -> Batch:
        batches = []
        for part, source in enumerate(self.sources):
            if part not in self._whole:
                batch = source.read(_own(plan, part), weights, rng)
                if not batch.draws.noise.any():
                    self._whole[part] = batch._replace(info=Info())
            else:
                batch = self._whole[part]
            batches.append(batch)
        draws = batches[0].draws
        for part, batch in enumerate(batches[1:], start=1):
            draws = draws.joined(batch.draws.of_part(part))
        info = sum((batch.info for batch in batches), Info())
        n_lost, sees_all = sum(one.n_lost for one in batches), all(one.sees_all for one in batches)
        details = {name: max(one.details[name] for one in batches) for name in batches[0].details}
        return Batch(draws, info, n_lost, sees_all, details)

    @property
    def relaxed(self) -> Relaxed | None:
        return None if self.sources[0].relaxed is None else self._relaxed

    def _relaxed(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        log_z, mean = np.zeros(len(shares)), np.zeros(len(weights))
        for part in np.flatnonzero(shares if shares.any() else self.parts).tolist():
            known = self.sources[part].relaxed
            assert known is not None
            log_z[part : part + 1], own = known(weights, shares[part : part + 1])
            mean += own
        return log_z, mean

    def next(self, plan: Plan, weights: Floats, loss: DrawnLoss, effective: float, last: bool) -> Plan:
        after = Plan()
        for part, source in enumerate(self.sources):
            own = _own(plan, part)
            if part not in self._whole:
                own = source.next(own, weights, loss.of_part(part), self.parts[part] * effective, last)
            after |= _named(own, part)
        return after

    def learned(self, loss: DrawnLoss, weights: Floats) -> dict[str, Any]:
        return {}


def _named(plan: Plan, part: int) -> Plan:
    return {f"{part}.{name}": value for name, value in plan.items()}


def _own(plan: Plan, part: int) -> Plan:
    return {name.removeprefix(f"{part}."): value for name, value in plan.items() if name.startswith(f"{part}.")}
