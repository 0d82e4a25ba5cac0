"""Templates: from events to candidate rules, with thresholds read off the demonstrations.

`TEMPLATES` is the one table, simplest first: a new kind of rule is one function and one row. A template names the
events that it takes and yields makers, functions from these events to a constraint. A maker is called twice, with the
user's own events for the rule itself and with words for its text and its quick check.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations, permutations
from operator import eq, ge, le, or_
from typing import Any, TypeAlias

import numpy as np

from xmen.constraints.arithmetic import count, length, share
from xmen.constraints.constraint import Constraint, exactly, require_constraint
from xmen.constraints.occurrence import always, before, first, never, response, sequence, visit
from xmen.constraints.repetition import longest_repeat, longest_run, no_revisit
from xmen.errors import ConstraintError
from xmen.events import NO_ACTION, Bools, Event, Ints, require_event
from xmen.options import listed
from xmen.rewards import Floats
from xmen.worlds import MDP, Walks


@dataclass(frozen=True, repr=False)
class Word(Event):
    """An event under the name that the user gave it; `table` is (n_states, n_actions + 1), the last column the end."""

    name: str
    event: Event = field(compare=False)
    table: Bools = field(compare=False)

    def holds(self, states: Ints, actions: Ints) -> Bools:
        return np.asarray(self.table[states, actions])  # NO_ACTION is -1: the last column

    def holds_without_action(self) -> bool | None:
        return self.event.holds_without_action()

    def _text(self) -> str:
        return self.name


def words(events: Mapping[str, Event] | None, world: MDP) -> list[Word]:
    """The events of a mapping in the order of their names, each evaluated once on the whole world."""
    if events is None:
        return []
    if not isinstance(events, Mapping):
        raise ConstraintError(f"events maps names to events; got {type(events).__name__}.")
    for name in events:
        if not isinstance(name, str) or not name:
            raise ConstraintError(f"events: each name is a non-empty string; got {name!r}.")
    columns = np.append(np.arange(world.n_actions), NO_ACTION)
    states, actions = np.meshgrid(np.arange(world.n_states), columns, indexing="ij")
    # A user's own test is only asked about what the world can show.
    possible = np.column_stack([world.available, np.ones(world.n_states, dtype=np.bool_)])
    out = []
    for name in sorted(events):
        event = require_event(events[name], f"events[{name!r}]")
        event.check_world(world)
        table = np.zeros(states.shape, dtype=np.bool_)
        table[possible] = event.holds(states[possible], actions[possible])
        out.append(Word(name, event, table))
    return out


UNANSWERED = np.iinfo(np.int64).max  # longer than any wait


@dataclass(frozen=True)
class View:
    """Demonstrations as templates see them: walks, weights (n,) that sum to 1, and the share that may break a rule."""

    walks: Walks
    weights: Floats
    tolerance: float

    def at_most(self, values: Ints | Floats) -> list[Any]:
        """The bounds from above that all but `tolerance` keep, tightest first; one of them where that is 0."""
        levels = np.unique(values[self.weights > 0])
        return [k for k in levels.tolist() if self.weights[values > k].sum() <= self.tolerance + 1e-12]

    def at_least(self, values: Ints | Floats) -> list[Any]:
        """The bounds from below that all but `tolerance` keep, tightest first."""
        return [-k for k in self.at_most(-values)]

    def most_common(self, values: Ints) -> list[int]:
        """The one value with the largest weight; the smallest of those that tie."""
        levels, which = np.unique(values, return_inverse=True)
        return [int(levels[np.argmax(np.bincount(which, weights=self.weights).round(12))])]

    @cached_property
    def _moves(self) -> Ints:
        """The action at each position (n, T + 1), NO_ACTION from the last one on."""
        moves = self.walks.as_rows(self.walks.actions(), NO_ACTION)
        return np.pad(moves, ((0, 0), (0, 1)), constant_values=NO_ACTION)

    def happens(self, word: Word) -> Bools:
        """At which positions (n, T + 1) the event happens."""
        happens = np.arange(self._moves.shape[1]) <= self.walks.lengths[:, None]
        happens[happens] = word.table[self.walks.states(), self._moves[happens]]
        return happens

    def counts(self, word: Word) -> Ints:
        """How often the event happens in each (n,)."""
        return np.asarray(np.count_nonzero(self.happens(word), axis=1))

    def sizes(self) -> Ints:
        """The number of visited states of each (n,)."""
        return self.walks.lengths + 1

    def longest_runs(self, word: Word) -> Ints:
        """The longest stretch of the event in each (n,)."""
        return _longest(self.happens(word))

    def longest_repeats(self) -> Ints:
        """The longest stretch of the same action in each (n,)."""
        after = self._moves[:, 1:]
        return _longest((after == self._moves[:, :-1]) & (after != NO_ACTION)) + (self.walks.lengths > 0)

    def waits(self, trigger: Word, answer: Word) -> Ints:
        """The longest wait (n,) from a trigger to the next answer, `UNANSWERED` where one never comes."""
        asked, answered = self.happens(trigger), self.happens(answer)
        wait, longest = np.full(len(asked), UNANSWERED), np.zeros(len(asked), dtype=np.int64)
        for t in range(asked.shape[1] - 1, -1, -1):
            wait = np.where(answered[:, t], 0, np.where(wait == UNANSWERED, UNANSWERED, wait + 1))
            longest = np.where(asked[:, t], np.maximum(longest, wait), longest)
        return longest


def _longest(flags: Bools) -> Ints:
    """The longest stretch of True in each row (n,)."""
    run, longest = np.zeros((2, len(flags)), dtype=np.int64)
    for column in flags.T:
        run = (run + 1) * column
        longest = np.maximum(longest, run)
    return longest


Maker: TypeAlias = Callable[..., Constraint]
Choices: TypeAlias = Callable[[Sequence[Word]], Iterator[tuple[Word, ...]]]

ROUND = 20  # a share is also tried at the next looser multiple of 1 / ROUND
MOST_CHAINED = 12  # events up to which chains of three are tried: their number grows with the third power


@dataclass(frozen=True)
class Template:
    """A kind of rule: to which choices of events it applies, and the makers for one choice."""

    name: str
    choices: Choices
    makers: Callable[..., Iterator[Maker]]


@dataclass(frozen=True)
class Candidate:
    """A rule that may be one of the demonstrator's, and what it is called."""

    rule: Constraint  # over the user's events
    tabled: Constraint  # over words, for quick work
    text: str  # in the user's names
    order: int  # how simple its template is; 0 is the simplest

    @property
    def simplicity(self) -> tuple[int, int, str]:
        """Sorts candidates, the simplest first, the same way whatever the order of the events."""
        return self.order, len(self.text), self.text


def tuples(n: int, most: int | None = None) -> Choices:
    """All ordered choices of n different events, as long as there are no more than `most`; one of no events."""
    return lambda words: permutations(words, n) if most is None or len(words) <= most else iter(())


def one_and_others(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """One event, then all others; from three events on, since with two that is an ordered pair."""
    for word in words if len(words) > 2 else ():
        yield (word, *(other for other in words if other is not word))


def pairs_and_all(words: Sequence[Word]) -> Iterator[tuple[Word, ...]]:
    """All unordered pairs, and all events together."""
    yield from combinations(words, 2)
    if len(words) > 2:
        yield tuple(words)


def plain(maker: Maker) -> Callable[..., Iterator[Maker]]:
    """A template without thresholds."""
    return lambda view, *chosen: iter([maker])


def bounded(
    measure: Callable[..., Ints],
    form: Callable[..., Any],
    compare: Callable[[Any, Any], Any],
    bounds: Callable[[View, Ints], list[int]],
) -> Callable[..., Iterator[Maker]]:
    """A template with one threshold: `form(*events)` compared with each bound that the demonstrations suggest."""

    def makers(view: View, *chosen: Word) -> Iterator[Maker]:
        for k in bounds(view, measure(view, *chosen)):
            if k > 0 or compare is not ge:  # everything is 0 or more
                yield lambda *events, k=k: compare(form(*events), k)

    return makers


def _no_revisit(view: View, *chosen: Word) -> Iterator[Maker]:
    if not view.walks.world.acyclic:  # otherwise no state is ever met twice
        yield no_revisit


def _response_within(view: View, a: Word, b: Word) -> Iterator[Maker]:
    for k in view.at_most(view.waits(a, b)):
        if k != UNANSWERED:
            yield lambda a, b, k=k: response(a, b, within=k)


def _share(lower: bool) -> Callable[..., Iterator[Maker]]:
    """A template for the share of an event: each bound that demonstrations suggest, and the next looser round one."""
    bounds, rounded, trivial = (View.at_least, math.floor, 0) if lower else (View.at_most, math.ceil, 1)

    def makers(view: View, e: Word) -> Iterator[Maker]:
        counts, sizes = view.counts(e), view.sizes()
        fractions = {c / n: Fraction(c, n) for c, n in zip(counts.tolist(), sizes.tolist(), strict=True)}
        tight = [fractions[k] for k in bounds(view, counts / sizes)]
        for k in sorted({*tight, *(Fraction(rounded(ROUND * k), ROUND) for k in tight)} - {Fraction(trivial)}):
            yield lambda e, k=k: share(e) >= k if lower else share(e) <= k

    return makers


TEMPLATES: tuple[Template, ...] = (
    Template("never", tuples(1), plain(never)),
    Template("visit", tuples(1), plain(visit)),
    Template("always", tuples(1), plain(always)),
    Template("count at most", tuples(1), bounded(View.counts, count, le, View.at_most)),
    Template("count at least", tuples(1), bounded(View.counts, count, ge, View.at_least)),
    Template("count equal", tuples(1), bounded(View.counts, count, eq, View.most_common)),
    Template("before", tuples(2), plain(before)),
    Template("first among", tuples(2), plain(lambda a, b: first(a, among=b))),
    Template("sequence", tuples(2), plain(sequence)),
    Template("response", tuples(2), plain(response)),
    Template("response within", tuples(2), _response_within),
    Template("longest repeat", tuples(0), bounded(View.longest_repeats, longest_repeat, le, View.at_most)),
    Template("longest run", tuples(1), bounded(View.longest_runs, longest_run, le, View.at_most)),
    Template("no revisit", tuples(0), _no_revisit),
    Template("no revisit of", tuples(1), _no_revisit),
    Template("length at most", tuples(0), bounded(View.sizes, length, le, View.at_most)),
    Template("length at least", tuples(0), bounded(View.sizes, length, ge, View.at_least)),
    Template("length equal", tuples(0), bounded(View.sizes, length, eq, View.most_common)),
    Template("share at least", tuples(1), _share(lower=True)),
    Template("share at most", tuples(1), _share(lower=False)),
    Template("exactly one of", pairs_and_all, plain(lambda *events: exactly(1, *map(visit, events)))),
    Template("first of all", one_and_others, plain(lambda a, *others: first(a, among=reduce(or_, others)))),
    Template("sequence of three", tuples(3, MOST_CHAINED), plain(sequence)),
    Template("precedence chain", tuples(3, MOST_CHAINED), plain(lambda a, b, c: before(a, b) & before(b, c))),
)
"""Every kind of rule that is tried, the simplest first."""


def chosen_templates(templates: Sequence[str | Maker] | None) -> list[Template]:
    """The templates by name, and the user's own functions of events; None is all of `TEMPLATES`."""
    if templates is None:
        return list(TEMPLATES)
    if isinstance(templates, str) or not isinstance(templates, Sequence):
        raise ConstraintError(f"templates is a list of names and functions of events; got {templates!r:.80}.")
    if not templates:
        raise ConstraintError("templates is empty: there would be nothing to try.")
    known = {one.name: one for one in TEMPLATES}
    for entry in templates:
        if not callable(entry) and entry not in known:
            names = listed(known)
            raise ConstraintError(f"there is no template {entry!r}: choose from {names}, or give a function of events.")
    return [_own(entry) if callable(entry) else known[entry] for entry in templates]


def _own(maker: Maker) -> Template:
    """A user's function of one or more events, tried on all ordered choices of different events."""
    name = getattr(maker, "__name__", repr(maker))
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        raise ConstraintError(f"the template {name} does not say how many events it takes: wrap it in a def.") from None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    n_events = sum(p.kind in kinds and p.default is p.empty for p in parameters)
    return Template(name, tuples(n_events), plain(maker))


def candidates(words: Sequence[Word], view: View, templates: Sequence[str | Maker] | None = None) -> list[Candidate]:
    """All candidates over these words, simplest first, each text once."""
    out: dict[str, Candidate] = {}
    for order, template in enumerate(chosen_templates(templates)):
        for choice in template.choices(words):
            for maker in template.makers(view, *choice):
                where = f"the template {template.name!r}"
                tabled = require_constraint(maker(*choice), where)
                rule = require_constraint(maker(*(word.event for word in choice)), where)
                out.setdefault(str(tabled), Candidate(rule, tabled, str(tabled), order))
    return sorted(out.values(), key=lambda candidate: candidate.simplicity)
