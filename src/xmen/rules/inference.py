"""RuleInference: which rules over whole trajectories a demonstrator keeps, and how sure that is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.distribution import as_constraint, check_discount
from xmen.errors import EngineError, NotFittedError
from xmen.events import Event
from xmen.learners.base import Estimator, Rules
from xmen.learners.xmen import XMEN
from xmen.machines.tables import CompiledConstraint
from xmen.methods.demonstrations import gather
from xmen.options import require_number, require_whole
from xmen.rewards.linear import Floats, read_features
from xmen.rules.report import STATUSES, Decision, Report, Verdict, decisions, report_of, table_text
from xmen.rules.search import Level, Search
from xmen.rules.templates import Candidate, View, candidates, chosen_templates, words
from xmen.storage.models import content, make, storable, write_model
from xmen.worlds import MDP, Network, Trajectory, Walks
from xmen.worlds.demos import as_trajectories

OF_BOTH = ("world", "features")  # settings of the search that its model has as well: saved once


@dataclass(eq=False, repr=False)
class RuleInference(Estimator):
    """Which rules the demonstrator keeps, in the constraint language, by exact likelihoods.

    Candidates come from templates over the events, with thresholds read off the demonstrations. A candidate that all
    demonstrations keep (or all but the share `tolerance`) gains -log P(it) nats per demonstration, where P is the
    maximum-entropy model under the rules so far. The best is taken, the reward refitted, and so on, until no gain
    reaches `min_gain` or is significant: n demonstrations would keep a rule by chance with probability P^n, and that,
    times the number of candidates tried, has to be `level` or less. A stronger rule is taken over a simpler, weaker one
    that it implies only if n demonstrations of the weaker one would keep it by chance with probability `level` or less.
    Of equivalent rules the simplest is kept. A rule that every trajectory keeps gains nothing.

    Parameters
    ----------
    world
        An MDP or GridWorld; or a Network, on which every demonstration is a trip, and P that of trips with its start
        and its goal.
    events
        The vocabulary: events by name. The result does not depend on their order.
    features
        Of the reward, as for `XMEN`: what a reward of these features can explain is not called a rule. None is one
        weight per state; zeros (n_states, n_actions, 1) are no reward at all.
    known
        Rules that are taken as given: a constraint, or several.
    max_rules
        Stop after that many.
    min_gain
        The least gain of a rule, in nats per demonstration.
    tolerance
        The share of the demonstrations that may break a rule. One that some break is found as `xm.usually(rule)`: its
        weight is learned with the reward, `model_.rule_weights_`.
    level
        The probability of finding any rule where there is none.
    templates
        Names from `xmen.rules.templates.TEMPLATES`, and functions of your own from one or more events to a constraint;
        None is all of the table.
    discount, l2, max_nodes
        As for `XMEN`.
    n_jobs
        Candidates tried side by side, by joblib; the result is the same for any number.
    seed
        Of the draws behind estimates, a whole number. Only rules that do not fit the product are estimated.

    Attributes
    ----------
    rules_
        The rules, in the order found, best first.
    gains_
        The gain of each when it was taken, in nats per demonstration.
    texts_
        The rules in text form, with the names of the events.
    constraint_
        All of them and `known`, named by their texts; None if there is none.
    model_
        The `XMEN` fitted under them.
    least_gain_
        The gain that a further rule would have had to reach.
    n_candidates_
        How many candidates were tried.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(5, 5, start=(0, 0), goal=(4, 4), moves=("up", "right"))
    >>> events = {"lamp": grid.at((0, 2), (1, 1), (2, 3), (1, 4)), "puddle": grid.at((3, 3), (2, 0))}
    >>> hidden = xm.count(events["lamp"]) == 1
    >>> demos = xm.distribution(grid, hidden, reward=None).sample(100, seed=0)
    >>> found = xm.RuleInference(grid, events).fit(demos)
    >>> found.texts_, found.gains_.round(2).tolist()
    (['count(lamp) == 1'], [0.39])
    """

    world: MDP | Network
    events: Mapping[str, Event] | None = None
    features: ArrayLike | None = None
    known: Rules = None
    max_rules: int = 8
    min_gain: float = 0.02
    tolerance: float = 0.0
    level: float = 0.01
    templates: Sequence[str | Callable[..., Constraint]] | None = None
    discount: float = 1.0
    l2: float = 0.0
    max_nodes: int | None = None
    n_jobs: int | None = None
    seed: int | None = None

    first_learned: ClassVar[str] = "rules_"

    def fit(self, demos: Iterable[Trajectory], sample_weight: ArrayLike | None = None) -> Self:
        """Find the rules that the demonstrations keep.

        Parameters
        ----------
        demos
            Complete trajectories of the world that keep `known`.
        sample_weight
            One weight per demonstration. Their number then counts as (sum w)^2 / sum w^2.

        Raises
        ------
        InvalidDemonstrationError
            For a demonstration that the world makes impossible or `known` forbids.
        """
        self._check_settings()
        chosen_templates(self.templates)
        known = as_constraint(self.known)
        listed = list(demos) if isinstance(demos, Iterator) else demos
        weights = gather(self.world.any_task, known, listed, sample_weight).weights
        self._forget("stability_", "_report")
        self._search = self._prepare(as_trajectories(listed), weights, known)
        self._found = found = self._search.run()
        self._learned({one.text: (one.rule, one.gain) for one in found.taken}, found.level, found.model.fitted)
        return self

    def _check_settings(self) -> None:
        if not isinstance(self.world, MDP | Network):
            raise EngineError(f"RuleInference takes an MDP, a GridWorld or a Network; got {type(self.world).__name__}.")
        check_discount(self.discount)
        read_features(self.features, self.world.any_task)
        require_whole("max_rules", self.max_rules, least=0)
        require_number("min_gain", self.min_gain, least=0.0)
        require_number("l2", self.l2, least=0.0)
        require_whole("seed", self.seed, least=0, optional=True)
        require_number("tolerance", self.tolerance, least=0.0, below=1.0)
        require_number("level", self.level, above=0.0, below=1.0)

    def _prepare(self, demos: Sequence[Trajectory], weights: Floats, known: Constraint | None) -> Search:
        """The candidates that these demonstrations suggest, and which of the demonstrations keep each."""
        world = self.world.any_task
        walks = Walks.of(world, demos)
        tried = candidates(words(self.events, world), View(walks, weights, self.tolerance), self.templates)
        rows = [CompiledConstraint(one.tabled, world).check(walks) for one in tried]
        keeps = np.array(rows, dtype=np.bool_).reshape(len(tried), len(demos))
        setting = RuleInference(**self.get_params(deep=False))  # as they are now, whatever is set later
        return Search(setting, [] if known is None else [known], demos, weights, tried, keeps)

    def _learned(self, found: Mapping[str, tuple[Constraint, float]], level: Level, model: XMEN) -> None:
        """Keep the rules found, each with its gain and by its text, and the model fitted under them."""
        self.texts_, self.rules_ = list(found), [rule for rule, _ in found.values()]
        self.gains_ = np.array([gain for _, gain in found.values()], dtype=np.float64)
        named = [rule.named(text) for text, (rule, _) in found.items()]
        self.constraint_ = conjunction([as_constraint(self.known), *named])
        self.model_, self.least_gain_, self.n_candidates_ = model, level.least, level.m

    def _reported(self) -> Report:
        """What became of every candidate, worked out when it is first asked for."""
        self._require_fitted()
        if "_report" not in vars(self):
            self._report = report_of(self._search, self._found)
        return self._report

    def score(self, demos: Iterable[Trajectory], sample_weight: ArrayLike | None = None) -> float:
        """The mean log-likelihood under `model_`, in nats; -inf with a demonstration that breaks a rule."""
        self._require_fitted()
        return self.model_.score(demos, sample_weight)

    def verdicts(self) -> list[Verdict]:
        """What became of every candidate: the rules found in their order, then the others by status and gain.

        A broken candidate comes with the shortest demonstration that breaks it, and where; one that is equivalent to a
        rule found says to which.
        """
        return list(self._reported().verdicts)

    def undecided(self, most: int = 3) -> list[Decision]:
        """The candidates next in line, how many more demonstrations could decide for them, and one against."""
        return list(decisions(self._reported(), self.model_, self.constraint_, most))

    def table(self, most: int = 10) -> str:
        """All candidates as text, at most so many rows of each kind but the rules found.

        Columns: the gain in nats per demonstration (~ where estimated), the chance that any candidate would gain as
        much by chance, the share of demonstrations that keep the rule, and of bootstrap samples that find it again
        (after `stability`).
        """
        again = vars(self).get("stability_")
        return table_text(self._reported(), self.undecided(), None if again is None else again.tolist(), most)

    def stability(self, n_samples: int = 20) -> Floats:
        """The share of bootstrap samples of the demonstrations whose rules imply each rule, kept as `stability_`.

        Every sample is a whole search of its own: n_samples times the cost of `fit`. It needs the demonstrations, which
        are not saved with a model.
        """
        require_whole("n_samples", n_samples, least=1)
        self._require_fitted()
        if "_search" not in vars(self):
            what = "stability() searches again on the demonstrations, and this RuleInference was loaded without them"
            raise NotFittedError(f"{what}: call fit(demos) first.")
        search, rules = self._search, [one.candidate for one in self._found.taken]
        make = partial(self._prepare, search.demos, known=conjunction(search.known))
        # A seed for each sample: the answer does not depend on the number of processes.
        seeds = np.random.SeedSequence(search.setting.seed or 0).spawn(n_samples)
        again = joblib.delayed(_found_again)
        found = joblib.Parallel(n_jobs=self.n_jobs)(again(make, rules, search.weights, seed) for seed in seeds)
        shares: Floats = np.mean(np.array(found, dtype=np.float64).reshape(n_samples, len(rules)), axis=0)
        self.stability_ = shares
        return shares

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was found as one folder, as `XMEN.save` does; read it with `xm.load`.

        The demonstrations are not in it: a loaded RuleInference answers everything but `stability`. Templates that are
        functions leave their names behind.
        """
        report, settings = self._reported(), self.get_params(deep=False)
        name, of_model, learned = content(self.model_)
        own = {key: value for key, value in of_model.items() if key not in OF_BOTH or value is not settings[key]}
        model = {"class": name, "settings": own, "learned": learned}
        found = {"rules": self.rules_, "report": report, "model": model}
        stability = {name: value for name, value in vars(self).items() if name == "stability_"}
        write_model(path, "RuleInference", {**settings, "found": found}, stability)


def _found_again(
    make: Callable[[Floats], Search], rules: list[Candidate], weights: Floats, seed: np.random.SeedSequence
) -> list[bool]:
    """Which rules are implied by those of one bootstrap sample, whose thresholds are read off anew."""
    n_demos = np.count_nonzero(weights)
    drawn = np.random.default_rng(seed).multinomial(n_demos, weights) / n_demos
    found = make(drawn).run()
    texts = {one.candidate.text for one in found.taken}
    return [rule.text in texts or found.model.keeps(rule.tabled).certain for rule in rules]


@partial(storable, name="RuleInference")
def _restored(found: Mapping[str, Any], **settings: Any) -> RuleInference:
    """The RuleInference that `save` wrote, if its report is one that a search can have."""
    search, report, packed = RuleInference(**settings), found["report"], found["model"]
    verdicts, level = report.verdicts, report.level
    for one in (*verdicts, level, *report.contenders):
        for field in fields(one):
            value, wanted = getattr(one, field.name), field.type
            if not isinstance(value, int | float if wanted is float else wanted):  # type: ignore[arg-type]
                raise TypeError(f"{field.name} of a {type(one).__name__} is {value!r:.60}")
    search._report = report
    whole = all(one.gain is not None and one.chance is not None for one in report.found)
    if not whole or not all(one.status in STATUSES for one in verdicts) or len(verdicts) != level.m or not level.n > 0:
        raise ValueError("these are not the verdicts of one search")
    of_model = {**{key: settings[key] for key in OF_BOTH}, **packed["settings"]}
    model = make(packed["class"], of_model, packed["learned"])
    if not isinstance(model, XMEN):
        raise TypeError(f"the model under the rules is a {type(model).__name__}")
    gained = {one.rule: (rule, one.gain or 0.0) for one, rule in zip(report.found, found["rules"], strict=True)}
    search._learned(gained, level, model)
    return search
