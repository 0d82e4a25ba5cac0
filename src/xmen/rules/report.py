"""What became of every candidate: found, equivalent, implied, not significant, certain, or broken and where."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from xmen.constraints.constraint import Constraint, conjunction, usual_rules, with_rule_weights
from xmen.engines.choose import distribution
from xmen.errors import InfeasibleError, ProductTooLargeError
from xmen.learners.xmen import XMEN
from xmen.options import Options
from xmen.rules.search import EQUAL, Found, Level, Scored, Search
from xmen.worlds import MDP, Network, NetworkTask, Trajectory
from xmen.worlds.tables import demo_names

MOST_PAIRS = 20  # of a network, among which an example is looked for

TITLES = {
    "equivalent": "the same as a rule found, in this world",
    "implied": "implied by the rules found",
    "not significant": "kept, but not significant",
    "certain": "kept by every trajectory that keeps the known rules",
    "broken": "broken",
}
STATUSES = ("found", *TITLES)


@dataclass(frozen=True)
class Verdict(Options):
    """What became of one candidate."""

    rule: str
    status: str
    gain: float | None  # when it was taken, or under the final model, in nats; None where demonstrations break it
    chance: float | None  # that any of the candidates would gain as much by chance
    kept: float  # the share of the demonstrations that keeps it
    estimated: bool  # whether the gain is an estimate
    note: str
    demonstration: int | None = None  # the shortest that breaks it
    position: int | None = None  # where that breaks it


@dataclass(frozen=True)
class Contender(Options):
    """A candidate that was not significant, and that further demonstrations could decide for."""

    text: str
    gain: float
    rule: Constraint


@dataclass(frozen=True)
class Report(Options):
    """What there is to say once a search is over: all of it without the demonstrations and the search's own models."""

    verdicts: list[Verdict]
    level: Level
    contenders: list[Contender]
    pairs: list[tuple[int, int]]  # of a network: start and goal of some demonstrations, where an example is looked for

    @property
    def found(self) -> list[Verdict]:
        """The rules of the demonstrator, in the order found."""
        return [one for one in self.verdicts if one.status == "found"]


def report_of(search: Search, found: Found) -> Report:
    """What became of every candidate: rules found in their order, then the others by status and falling gain."""

    def verdict(one: Scored, status: str, note: str) -> Verdict:
        chance = found.level.chance(one.sure)
        text = one.text if status == "found" else one.candidate.text
        return Verdict(text, status, one.gain, chance, one.share, not one.kept.exact, note)

    at_first, out = {one.candidate.text: one for one in found.first}, []
    for one in found.taken:
        weaker = "" if one.instead_of is None else f"weaker than {one.instead_of.candidate.text}, which adds too little"
        out.append(verdict(one, "found", weaker))
    taken = {one.candidate.text for one in found.taken}
    for last in [one for one in found.last if one.candidate.text not in taken]:
        first, status, note = at_first.get(last.candidate.text), "not significant", ""
        if first is not None and first.kept.certain:
            status = "certain"
        elif same := _same_rule(found, at_first, first) if last.gain <= EQUAL else None:
            status, note = "equivalent", f"to {same}"
        elif last.kept.certain:
            status = "implied"
        out.append(verdict(last, status, note))
    ranked = {one.candidate.text for one in found.last} | taken
    out += [_broken(search, i) for i, one in enumerate(search.candidates) if one.text not in ranked]
    verdicts = sorted(out, key=lambda one: STATUSES.index(one.status))
    undecided = [one for one in found.last if one.gain > max(EQUAL, search.setting.min_gain) and one.share == 1.0]
    contenders = [Contender(one.text, one.gain, one.rule) for one in undecided]
    some = search.demos[:MOST_PAIRS] if isinstance(search.setting.world, Network) else []
    return Report(verdicts, found.level, contenders, [(tau.states[0], tau.states[-1]) for tau in some])


def _same_rule(found: Found, at_first: dict[str, Scored], first: Scored | None) -> str | None:
    """The rule found that this candidate is equivalent to: equal gains at first, and neither without the other."""
    for text, shown in [(one.candidate.text, one.text) for one in found.taken]:
        rule = at_first.get(text)
        if first is not None and rule is not None and abs(rule.gain - first.gain) <= EQUAL:
            a, b = rule.candidate.tabled, first.candidate.tabled
            if found.start.implies(a, b) and found.start.implies(b, a):
                return shown
    return None


def _broken(search: Search, i: int) -> Verdict:
    """A candidate that too many demonstrations break, with the shortest of these."""
    candidate, keeps = search.candidates[i], search.keeps[i]
    breaking = np.flatnonzero(~keeps & (search.weights > 0))
    demo: int = min(breaking.tolist(), key=lambda d: (len(search.demos[d]), d))
    violation = candidate.rule.explain(search.demos[demo])
    assert violation is not None
    share = float(search.weights[keeps].sum())
    name = demo_names(search.demos)[demo]
    note = f"by {len(breaking)}, such as demonstration {name} at position {violation.position}"
    return Verdict(candidate.text, "broken", None, None, share, False, note, demo, violation.position)


@dataclass(frozen=True)
class Decision:
    """What more demonstrations could decide: whether a further rule holds."""

    rule: str
    gain: float
    more: float  # how many further demonstrations would do, if all of them keep it
    # The likeliest trajectory that keeps the rules found and breaks this one: a single such demonstration decides at
    # once. None where the product is too large.
    example: Trajectory | None

    def __str__(self) -> str:
        number = max(1, math.ceil(self.more))
        more = f"about {number:,} more demonstration{'s' if number > 1 else ''} that keep it would decide for it"
        return f"{self.rule} would gain {self.gain:.3f} nats: {more}, and one that breaks it against it."


def decisions(report: Report, model: XMEN, rules: Constraint | None, most: int) -> Iterator[Decision]:
    """What would decide for the first contenders, next to the rules found and the model fitted under them."""
    for one in report.contenders[:most]:
        more = report.level.demonstrations_for(one.gain) - report.level.n
        yield Decision(one.text, one.gain, more, _example(report, model, conjunction([rules, ~one.rule])))


def _example(report: Report, model: XMEN, constraint: Constraint | None) -> Trajectory | None:
    """The likeliest trajectory under a constraint; on a network, that of the first pair that has one."""
    world, weights = model.world, [model.rule_weights_[one.label] for one in usual_rules(constraint)]
    constraint = with_rule_weights(constraint, weights)
    worlds: list[MDP] = [world] if isinstance(world, MDP) else [NetworkTask(world, *pair) for pair in report.pairs]
    budget = model.get_params()["max_nodes"]
    for one in worlds:
        with suppress(ProductTooLargeError, InfeasibleError):
            return distribution(one, constraint, model.reward_, model.discount, "exact", max_nodes=budget).mode()
    return None


def table_text(report: Report, undecided: list[Decision], stability: list[float] | None, most: int) -> str:
    """All of it as aligned text, at most so many rows of each kind but the rules found."""
    level = report.level
    lines = [
        f"{len(report.found)} of {level.m} candidates are rules of the demonstrator: {level.n:.0f} demonstrations, "
        f"level {level.level:g}, a gain of {level.least:.4g} nats or more",
        f"{'gain':>8}  {'chance':>8}  {'kept':>6}  {'again':>6}  rule",
    ]
    for status in STATUSES:
        some = [row for row in report.verdicts if row.status == status]
        shown = some if status == "found" else some[:most]
        if some and status != "found":
            more = f" ({len(some)}, of which {most} are shown)" if len(some) > most else ""
            lines += ["", f"{TITLES[status]}{more}:"]
        for i, one in enumerate(shown):
            gain, chance, note = "", "", f"  ({one.note})" if one.note else ""
            if status in ("found", "not significant"):
                gain, chance = f"{'~' if one.estimated else ''}{one.gain:.3f}", f"{one.chance:.1e}"
            again = f"{stability[i]:.0%}" if status == "found" and stability is not None else ""
            lines.append(f"{gain:>8}  {chance:>8}  {one.kept:>6.0%}  {again:>6}  {one.rule}{note}")
    if undecided:
        lines += ["", "what more demonstrations could decide:", *(f"  {one}" for one in undecided)]
    return "\n".join(line.rstrip() for line in lines)
