"""What all learners share: settings, checks, and the use of what was learned."""

import inspect
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import wraps
from importlib import import_module
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from xmen import errors
from xmen.constraints.constraint import Constraint, conjunction, require_hard, usual_rules, with_rule_weights
from xmen.displays import facts_html
from xmen.engines.choose import answering, require_engine
from xmen.engines.diagnosis import warn_of_idle
from xmen.engines.distribution import Distribution, Law, Seed, as_constraint, check_discount, check_given
from xmen.engines.exact import AtHand, ExactDistribution
from xmen.engines.seen import log_seen, trip_ends
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import trip_likelihoods
from xmen.errors import EngineError, Message, NotFittedError, RewardError
from xmen.learners.summary import Summary, known_names, log_likelihood, mean_uses, spelled
from xmen.machines.tables import MachineTable
from xmen.methods import runs
from xmen.methods.demonstrations import Demonstrations, gather
from xmen.methods.information import Information, information
from xmen.methods.neural import Training
from xmen.options import Options, Unsaved, listed, require_whole
from xmen.policies.policy import Policy, plan
from xmen.progress import VALIDATION_LOSS, Callback, Monitor, Record
from xmen.rewards.linear import Features, Floats, LinearReward, Reward, RuleFeatures, read_features
from xmen.rewards.neural import NeuralReward
from xmen.sharing import lock_of
from xmen.storage.models import Checkpoint, content, write_model
from xmen.worlds import MDP, Network, Sighting, Trajectory, Walks

Class = TypeVar("Class", bound="type[Estimator]")


def takes_parts(kind: Class) -> Class:
    """Let the fields of a learner's records be settings and attributes by their own names: XMEN(world, delta=1.1)."""
    store: Any = kind.__init__

    @wraps(store)
    def __init__(self: Any, *values: Any, **settings: Any) -> None:
        parts = {name: settings.pop(name) for name in kind._parts() if name in settings}
        store(self, *values, **settings)
        self.set_params(**parts)

    def part_of(record: str, part: str) -> property:
        return property(
            lambda self: getattr(self._record(record), part), lambda self, value: self.set_params(**{part: value})
        )

    kind.__init__ = __init__  # type: ignore[method-assign]
    for part, record in kind._parts().items():
        setattr(kind, part, part_of(record, part))
    return kind


class Estimator:
    """Settings that can be read and changed by name; `__init__` only stores them: subclasses are dataclasses.

    scikit-learn's `clone`, `GridSearchCV` and `cross_val_score` work by duck typing; xmen does not import it. The
    fields of `records` are settings by their own names as well.
    """

    records: ClassVar[Mapping[str, type[Options]]] = {}
    first_learned: ClassVar[str] = "reward_"  # what there is once it is fitted

    @classmethod
    def _parts(cls) -> dict[str, str]:
        """The fields of all records, each with the setting that holds it."""
        return {part.name: name for name, kind in cls.records.items() for part in fields(kind) if part.name != name}

    @classmethod
    def setting_names(cls, parts: bool = True) -> list[str]:
        """The names of all settings, in the order of the signature, and then the fields of records if `parts`."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        return [*names, *cls._parts()] if parts else names

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name, as they were given; if `deep`, with parts of records (`delta`, `method__n_samples`)."""
        found = {name: getattr(self, name) for name in self.setting_names(parts=deep)}
        records = {k: v.chosen() for k, v in found.items() if deep and isinstance(v, Options) and k not in self.records}
        return found | {f"{name}__{part}": value for name, record in records.items() for part, value in record.items()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name; the next `fit` uses them."""
        parts, whole, nested = self._parts(), dict[str, Any](), dict[str, dict[str, Any]]()
        for name, value in settings.items():
            outer, inside, part = (parts[name], "__", name) if name in parts else name.partition("__")
            if outer not in self.setting_names(parts=False):
                known = listed(self.setting_names())
                raise ValueError(f"{type(self).__name__} has no setting {name!r}; it has {known}.")
            if name in self.records and isinstance(value, str) and isinstance(getattr(self, name), Options):
                inside, part = "__", name  # engine="xor" where an engine has settings: these stay
            if inside:
                nested.setdefault(outer, {})[part] = value
            else:
                whole[name] = value
        for name, value in whole.items():
            setattr(self, name, value)
        for name, changes in nested.items():
            record = self._record(name).changed(**changes)
            short = getattr(record, name, None)  # "xor", say: as good as a record where nothing else is chosen
            setattr(self, name, short if name in self.records and record == self._bare(name, short) else record)
        return self

    def _record(self, name: str) -> Options:
        """The record that a setting stands for, where it has parts of its own."""
        value = getattr(self, name)
        if isinstance(value, Options):
            return value
        if name in self.records and (value is None or isinstance(value, str)):
            return self._bare(name, value)
        raise ValueError(f"{name}={value!r:.60} has no settings of its own: {name}__... can change none.")

    def _bare(self, name: str, value: str | None) -> Options:
        """The record in which nothing is chosen but, where it has such a field, its name."""
        return self.records[name](**({} if value is None else {name: value}))

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = []
        for name, value in self.get_params(deep=False).items():
            default = defaults[name].default
            if value is not default and not (isinstance(value, int | float | str) and value == default):
                text = f"array of shape {value.shape}" if hasattr(value, "shape") else repr(value)
                shown.append(f"{name}={text if len(text) <= 60 else text[:57] + '...'}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: fits without targets, takes lists of trajectories."""
        utils = import_module("sklearn.utils")  # only scikit-learn calls this
        target, inputs = utils.TargetTags(required=False), utils.InputTags(two_d_array=False)
        return utils.Tags(estimator_type="density_estimator", target_tags=target, input_tags=inputs)

    def __sklearn_is_fitted__(self) -> bool:
        return self.first_learned in vars(self)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(demos) first, or xm.load(path).")

    def _forget(self, *names: str) -> None:
        for name in names:
            vars(self).pop(name, None)


VALIDATION = "validation"  # the place of an error about demonstrations to validate with
TOTAL_ERROR, MEAN_ERROR = 0.1, 0.002  # standard errors in nats of a log-likelihood that takes draws: both at the most
HELD_OUT_ERROR = 0.005  # of the mean over held-out trips, which are asked at every step


@dataclass(frozen=True, repr=False)
class Progress(Options):
    """How a fit is watched, stored and ended early; each of these is a setting of a learner by its own name as well.

    Parameters
    ----------
    checkpoint
        A file that holds the whole state of the fit.
    checkpoint_every
        The number of iterations between two writes of it.
    resume
        Go on from the checkpoint, or start where there is none. The fit ends, bit for bit, where an uninterrupted one
        would have.
    callback
        Gets a Record per iteration, and stops the fit by returning True. It is not saved with a model.
    patience
        How many iterations without a smaller validation loss end the fit; None: none do.

    Examples
    --------
    >>> Progress(checkpoint="run.safetensors", resume=True)
    Progress(checkpoint='run.safetensors', resume=True)
    """

    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int = 10
    resume: bool = False
    callback: Callback | None = None
    patience: int | None = runs.DEFAULT_PATIENCE

    def __post_init__(self) -> None:
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise EngineError(f"checkpoint is the name of a file, or None; got {self.checkpoint!r:.60}.")
        require_whole("checkpoint_every", self.checkpoint_every, least=1)
        require_whole("patience", self.patience, least=1, optional=True)
        callback: object = self.callback
        if isinstance(callback, Unsaved):  # of a model that was saved
            object.__setattr__(self, "callback", None)
        elif not (callback is None or callable(callback)):
            raise EngineError(f"callback is a function of a Record, or None; got {callback!r:.60}.")


def world_likelihoods(d: Distribution, walks: Walks, given: str | None = None) -> Floats:
    """log P of walks that are in the support (n,); given the start, without the probability of the start."""
    values = d.law.scores(walks)
    if given is None:
        return values - d.log_partition()
    for start in np.unique(walks.starts).tolist():
        values[walks.starts == start] -= d.weights.log_start[start] + d._log_normaliser(start)
    return values


Demos = Iterable[Trajectory | Sighting]
Rules = Constraint | Mapping[str, Constraint] | Iterable[Constraint] | None


class Learner(Estimator, ABC):
    """Fits a reward to demonstrations, and then answers for trajectories under that reward.

    A subclass is a dataclass of its settings (at least `world`; `constraint`, `discount`, `engine`, `seed`
    have the defaults below) and implements `_fit`, which ends in `_learned(reward, monitor, converged)`.
    Scikit-learn's contract holds: settings stored as given, `fit` returns self, learned values end in `_`.

    After `fit`: `reward_`; `weights_` (d,) of a linear reward; `history_`, one Record per iteration; `n_iter_`;
    `converged_`, whether the fit ended at the optimum, as near as its method and tolerance can tell.
    """

    world: MDP | Network
    constraint: Rules = None
    discount: float = 1.0
    engine: str | EngineSettings = "auto"
    seed: Seed = None
    given: str | None = None
    validity: str | float | None = None
    takes_networks: ClassVar[bool] = False
    takes_usual: ClassVar[bool] = False  # learns the weights of rules that are usually kept
    takes_sightings: ClassVar[bool] = False  # learns from demonstrations seen in part
    forgotten: ClassVar[tuple[str, ...]] = ("_answering", "_answering_also", "_features_read", "_validation")  # by fit

    reward_: Reward
    weights_: Floats
    rule_weights_: dict[str, float]
    history_: list[Record]
    n_iter_: int
    converged_: bool
    best_iteration_: int
    covariance_: Floats
    robust_covariance_: Floats
    log_likelihood_: dict[str, float]

    def fit(self, demos: Demos, sample_weight: ArrayLike | None = None, validation: Demos | None = None) -> Self:
        """Learn from demonstrations.

        Parameters
        ----------
        demos
            The demonstrations; all have to be possible in the world and keep the constraint.
        sample_weight
            One weight per demonstration, 0 or more. A weight of 2 is the demonstration twice.
        validation
            Demonstrations to watch and not to learn from, in place of the learner's own setting.

        Returns
        -------
        Learner
            The learner itself, fitted.

        Raises
        ------
        InvalidDemonstrationError
            When the world makes a demonstration impossible or the constraint forbids it.
        InfeasibleError
            When the constraint forbids them all because its rules contradict each other; it names the contradiction.
        """
        self._forget(*self.forgotten)
        self._check_settings()
        found = self._gather(demos, sample_weight)
        watched = getattr(self, "validation", None) if validation is None else validation
        self._validation = None if watched is None else self._read_validation(watched)
        # On matrices of this size threads wait more than they work, and their number would show in the last digits.
        with threadpool_limits(1, user_api="blas"):
            self._fit(found)
        warn_of_idle(self._rule(), self.world.any_task, found.machines)
        self._forget("_validation")
        self._fitted_on = found
        return self

    def with_features(self, features: ArrayLike) -> Self:
        """A model with these weights on other features, a scenario; this one stays as it is.

        Parameters
        ----------
        features
            As the learner takes them, with as many columns as there are weights, in the same order.

        Returns
        -------
        Learner
            Fitted, with these features: `distribution`, `score`, `flows`, `closure` and so on answer under them.

        Raises
        ------
        EngineError
            Where the reward is not one of linear weights on features.
        RewardError
            Where the features do not fit the world or the weights.
        """
        self._require_fitted()
        if "features" not in self.setting_names() or not isinstance(self.reward_, LinearReward):
            raise EngineError(f"with_features is of linear weights; this reward is a {type(self.reward_).__name__}.")
        found = read_features(features, self.world)
        if found.d != len(self.weights_):
            raise RewardError(f"these are {found.d} features, and the model has {len(self.weights_)} weights.")
        scenario = self._under(found.reward(self.weights_))
        scenario.features = features  # type: ignore[attr-defined]
        return scenario

    def _under(self, reward: Reward) -> Self:
        """A model with all settings of this one and another reward."""
        other = copy(self)  # without what was compiled
        other._forget("covariance_", "robust_covariance_", "log_likelihood_", "lost_")
        other.reward_ = reward
        return other

    def _read_features(self) -> Features:
        """The features of this fit, read once."""
        if "_features_read" not in vars(self):
            self._features_read = read_features(vars(self).get("features"), self.world)
        return self._features_read

    def _task(self, demos: Demonstrations) -> runs.Task:
        usual = usual_rules(as_constraint(self.constraint))
        seen = (demos.weights @ demos.kept).tolist() if usual else []
        shares = [own if rule.share is None else rule.share for rule, own in zip(usual, seen, strict=True)]
        law = self._rule(), self.discount, self.given, None
        return runs.Task(demos, self._all_features(), *law, np.array(shares, dtype=np.float64))

    def _all_features(self) -> Features:
        """The features of this fit, and one for each rule that is usually kept."""
        n_rules = len(usual_rules(as_constraint(self.constraint)))
        return RuleFeatures(self._read_features(), n_rules) if n_rules else self._read_features()

    def _table(self, also: Rules = None) -> Floats:
        """The learned reward; flat, with the weights of rules after it, where some are usually kept."""
        usual = usual_rules(self._rule(also))
        return np.append(self.reward_.table(), [rule.weight for rule in usual]) if usual else self.reward_.table()

    def _gather(self, demos: Demos, sample_weight: ArrayLike | None, refuse_invalid: bool = True) -> Demonstrations:
        """The demonstrations, checked against world and rules."""
        rule, world = self._rule(), self.world.any_task
        return gather(world, rule, demos, sample_weight, refuse_invalid, self._machines, self.takes_sightings)

    @property
    def _machines(self) -> Sequence[MachineTable]:
        """The machines of the last fit or question, which serve later ones as well."""
        if "_fitted_on" in vars(self):
            return self._fitted_on.machines
        own = vars(self).get("_answering")
        tables: Sequence[MachineTable] = () if own is None else own[1].law.compiled.tables
        return tables

    def _read_validation(self, demos: Demos) -> runs.Validation:
        """The demonstrations to validate with, checked."""
        if "validation" not in self.setting_names():
            raise EngineError(f"{type(self).__name__} does not validate while it learns: score(demos) does afterwards.")
        try:
            found = self._gather(demos, None)
        except (errors.InvalidDemonstrationError, errors.TrajectoryError) as error:
            error.place = VALIDATION
            raise
        return runs.Validation(found, self._likelihoods_under(found), self.get_params()["patience"])

    @abstractmethod
    def _fit(self, demos: Demonstrations) -> None:
        """Learn from checked demonstrations; ends in `_learned`."""

    def _check_settings(self) -> None:
        """Refuse settings that make no sense; called at the start of `fit`."""
        if not isinstance(self.world, (MDP, Network) if self.takes_networks else MDP):
            known = "an MDP, a GridWorld or a Network" if self.takes_networks else "an MDP or GridWorld"
            raise EngineError(f"{type(self).__name__}(world, ...) takes {known}; got {type(self.world).__name__}.")
        check_discount(self.discount)
        check_given(self.given)
        if not self.takes_usual:
            require_hard(self._rule(), type(self).__name__)
        names = [rule.label for rule in usual_rules(self._rule())]
        if twice := [name for name in names if names.count(name) > 1]:
            what = "two rules that are usually kept are called {!r}: name them apart."
            raise errors.ConstraintError(Message(what, twice[0]))
        require_engine(self._engine_settings().engine)

    def _rule(self, also: Rules = None) -> Constraint | None:
        """The constraint of the learner and `also`, together; rules that are usually kept have their weights."""
        own, known = as_constraint(self.constraint), vars(self).get("rule_weights_", {})
        weights = [known.get(rule.label, rule.weight or 0.0) for rule in usual_rules(own)]
        return conjunction([with_rule_weights(own, weights), as_constraint(also)])

    def _learned(self, reward: Reward, monitor: Monitor, converged: bool) -> None:
        """Keep what was learned, and nothing of an earlier fit."""
        self._forget("_fitted_on", *(name for name in vars(self) if name.endswith("_")))
        self.reward_ = reward
        if isinstance(reward, LinearReward):
            self.weights_ = reward.weights
        self.history_ = monitor.history
        self.n_iter_ = len(monitor.history)
        self.converged_ = converged

    def _engine_settings(self) -> EngineSettings:
        """The settings of the engine that answers: one record, or those that this learner has, checked."""
        if isinstance(self.engine, EngineSettings):
            return self.engine
        own = [field.name for field in fields(EngineSettings) if field.name in vars(self)]
        return EngineSettings(**{"engine": self.engine, **{name: vars(self)[name] for name in own}})

    def distribution(self, also: Rules = None, start: int | None = None, goal: int | None = None) -> Distribution:
        """The distribution over trajectories under the learned reward.

        Parameters
        ----------
        also
            Further rules. Nothing is retrained, and where the exact engine has answered, its product is multiplied
            with these alone. The last one asked for is kept, so that asking again is free.
        start, goal
            On a network, where trajectories start and end.

        Returns
        -------
        Distribution
            See `xm.distribution`.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InfeasibleError
            When no trajectory keeps the rules and `also`.
        """
        self._require_fitted()
        world = self._asked_world(start, goal)
        with lock_of(self):  # two threads that ask first would each make one, and get the same samples
            further = as_constraint(also)
            asked, own = self._asked(also, (start, goal)), vars(self).get("_answering")
            kept = own if further is None else vars(self).get("_answering_also")
            if kept is None or kept[0] != asked:
                at_hand = None
                if further is not None and own is not None and own[0] == self._asked(None, (start, goal)):
                    exact = isinstance(own[1], ExactDistribution) and own[1].world is world
                    at_hand = AtHand(own[1].product, further) if exact else None
                d = answering(self._law(world, also), self._engine_settings(), self.seed, at_hand)
                vars(self)["_answering" if further is None else "_answering_also"] = kept = asked, d
            answer: Distribution = kept[1]
            return answer

    def seen(self, sighting: Sighting, also: Rules = None) -> Distribution:
        """The distribution under the learned reward given what was seen of a trajectory; see `Distribution.seen`.

        Parameters
        ----------
        sighting
            What was seen. On a network it says where the trip starts and ends: by entries that are certain, or else by
            its `start` and `goal`.
        also
            Further rules, as for `distribution`.

        Returns
        -------
        Distribution
            P(tau | y).
        """
        if isinstance(self.world, Network):
            return self.distribution(also, *trip_ends(sighting, self.world)).seen(sighting)
        return self.distribution(also).seen(sighting)

    def _law(self, world: MDP, also: Rules) -> Law:
        """What the learned distribution is made of."""
        return Law(world, self._rule(also), self.reward_, self.discount, self.given, None, self._machines)

    def _asked_world(self, start: int | None, goal: int | None) -> MDP:
        """The world of a question: the learner's own, or the task of a network."""
        if isinstance(self.world, Network):
            if start is None or goal is None:
                raise EngineError("on a network every question is about one pair: give start=... and goal=...")
            return self.world.task(start, goal)
        if start is not None or goal is not None:
            kind = type(self.world).__name__
            raise EngineError(f"start= and goal= are for models of a Network; this one is of a {kind}, with its own.")
        return self.world

    def _asked(self, also: Rules = None, pair: tuple[int | None, int | None] = (None, None)) -> tuple[Any, ...]:
        """What an answer depends on: the law, the engine settings, the seed and the pair of a network."""
        return self._law(self.world.any_task, also), self._engine_settings(), self.seed, pair

    def sample(
        self, n: int, also: Rules = None, seed: Seed = None, start: int | None = None, goal: int | None = None
    ) -> list[Trajectory]:
        """New trajectories under the learned reward, all valid.

        Parameters
        ----------
        n
            How many.
        seed
            A whole number or a numpy Generator. Without one, calls go on from the last.
        also, start, goal
            As for `distribution`.

        Returns
        -------
        list[Trajectory]
            n trajectories.
        """
        return self.distribution(also, start, goal).sample(n, seed=seed)

    def policy(
        self,
        also: Rules = None,
        greedy: bool = False,
        seed: Seed = None,
        start: int | None = None,
        goal: int | None = None,
        validity: str | float | None = None,
    ) -> Policy:
        """A policy with memory that keeps the rules, and `also`, as `validity` asks; see `xm.plan` and `Policy`.

        None: as the model was made to promise, or else P(tau) acted out, which needs a deterministic world.
        """
        validity = self.validity if validity is None else validity
        if validity is None:
            return Policy(self.distribution(also, start, goal), greedy=greedy, seed=seed)
        self._require_fitted()
        world, seed = self._asked_world(start, goal), self.seed if seed is None else seed
        rule, engine = self._rule(also), self._engine_settings()
        return plan(world, rule, self.reward_, validity, self.discount, greedy, seed, engine.max_nodes, engine.device)

    def score(self, demos: Demos, sample_weight: ArrayLike | None = None) -> float:
        """The mean log-likelihood of demonstrations.

        It has the world's dynamics in it: the mean of R(tau) + log D(tau) - log Z. Given the start it is that of log
        P(tau | s_0), without the probability of the start, and on a network that of log P(tau | start, goal).

        Parameters
        ----------
        demos, sample_weight
            Trajectories, of the fit or others, and one weight for each.

        Returns
        -------
        float
            In nats; -inf with a demonstration that is impossible or forbidden.
        """
        self._require_fitted()
        found = self._gather(demos, sample_weight, refuse_invalid=False)
        return found.mean(self._log_likelihoods(found)[0])

    def score_samples(self, demos: Demos) -> Floats:
        """The log-likelihood of each trajectory (n,), in nats; -inf where one is impossible or forbidden.

        Where rules reject on a network, it is from as many draws as it takes.
        """
        self._require_fitted()
        found = self._gather(demos, None, refuse_invalid=False)
        values = self._log_likelihoods(found)[0]
        return values if found.order is None else values[found.order]

    def _log_likelihoods(self, found: Demonstrations) -> tuple[Floats, Floats]:
        """log P of each (n,), of its start and goal where these are given, -inf where it is not valid; and its error.

        Standard errors are 0 where the engine is exact, and trips of one pair share theirs.
        """
        walks, out, errors = found.walks[found.valid], np.full(len(found), -np.inf), np.zeros(len(found))
        some = np.append(found.valid, np.ones(len(found.sightings), dtype=np.bool_))
        if isinstance(self.world, Network):
            problem, error = self._trip_problem(), min(TOTAL_ERROR, MEAN_ERROR * len(walks))
            out[some], errors[some] = trip_likelihoods(*problem, walks, found.sightings, error)(self._table())
        elif some.any():
            d = self.distribution()
            out[some] = np.append(world_likelihoods(d, walks, self.given), log_seen(d, found.sightings))
        return out, errors

    def _trip_problem(self) -> tuple[Any, Any, Any, Any]:
        """What the likelihoods of trips are of."""
        return self.world, self._rule(), self._engine_settings().max_nodes, self.discount

    def _likelihoods_under(self, found: Demonstrations) -> Callable[[Floats], Floats]:
        """log P of each of these valid demonstrations as a function of the reward table: products are made once."""
        if isinstance(self.world, Network):
            asked = found.walks, found.sightings, HELD_OUT_ERROR * len(found)
            of_trips = trip_likelihoods(*self._trip_problem(), *asked)
            return lambda table: of_trips(table)[0]
        law = Law(self.world, self._rule(), None, self.discount, self.given, None, found.machines)
        base = answering(law, self._engine_settings(), self.seed)

        def likelihoods(table: Floats) -> Floats:
            d = base.with_reward(table)
            return np.append(world_likelihoods(d, found.walks, self.given), log_seen(d, found.sightings))

        return likelihoods

    @property
    def standard_errors_(self) -> Floats:
        """The standard errors (d,) of `weights_`, from the Hessian; see `summary`."""
        return self.summary().standard_errors[: len(self.weights_)]

    def summary(
        self,
        demos: Demos | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> Summary:
        """Estimates, standard errors and t values of a linear reward; costs 2 d gradients the first time.

        Parameters
        ----------
        demos, sample_weight
            What the model was fitted to. None: what it was fitted to in this process.
        groups
            One label per demonstration, a traveller's say: robust errors then allow for any dependence within a group.
        names
            One per feature, for the table.

        Returns
        -------
        Summary
            With `standard_errors` from the Hessian, `robust_errors` from the scores, `t`, `ratio` and
            `likelihood_ratio`; prints as a table.

        Raises
        ------
        EngineError
            Where the reward is not linear, or exact inference is out of reach.
        """
        self._require_fitted()
        if not isinstance(self.reward_, LinearReward):
            raise EngineError(f"standard errors are of linear weights; this reward is a {type(self.reward_).__name__}.")
        fitted_on, known, lost = vars(self).get("_fitted_on"), "covariance_" in vars(self), vars(self).get("lost_")
        asked = fitted_on if demos is None else self._gather(demos, sample_weight)
        if known and groups is None and demos is None:
            covariance, robust, total = self.covariance_, self.robust_covariance_, self.log_likelihood_
        elif asked is None:
            raise NotFittedError("demonstrations are not at hand: give summary(demos), or ask for it before saving.")
        else:
            told = self._information(asked)
            (covariance, robust), lost = told.covariances(groups, vars(self).get("gradient_noise_")), told.lost
            total = log_likelihood(self, asked)
            # Drawn again, it costs as much.
            total["null"] = math.nan if total["error"] else self._null_likelihood(asked)
            # What was asked of groups or of other demonstrations is not kept: the next plain question is of the fit.
            if groups is None and not known and (demos is None or fitted_on is None):
                self.covariance_, self.robust_covariance_, self.log_likelihood_ = covariance, robust, total
                vars(self).update({} if lost is None else {"lost_": lost})
        d, names = len(self.weights_), known_names(self) if names is None else names
        if len(names) != d:
            raise EngineError(f"there are {d} features, and {len(names)} names were given: give one each.")
        weights, names = self._all_weights, [*names, *vars(self).get("rule_weights_", ())]
        fixed = np.isin(np.arange(len(weights)), list(self._fit_settings().fixed or ()))
        # What demonstrations determine exactly has variance 0, which rounding may leave just below it.
        plain, other = (np.where(fixed, np.nan, np.sqrt(np.maximum(np.diag(one), 0.0))) for one in (covariance, robust))
        found = tuple(map(str, names)), weights, plain, other, total["sum"], int(total["n"]), covariance, robust
        said = self._summary_notes(), groups is not None, total["error"], spelled(self._rule())
        uses = None if asked is None else mean_uses(asked)
        return Summary(*found, *said, uses, total.get("null", math.nan), lost)

    def _null_likelihood(self, demos: Demonstrations) -> float:
        """The log-likelihood with 0 for every weight that is not fixed; nan where it diverges, as endless trips may."""
        fixed = np.isin(np.arange(len(self.weights_)), list(getattr(self, "fixed", None) or ()))
        null = self._under(self._read_features().reward(np.where(fixed, self.weights_, 0.0)))
        usual = usual_rules(as_constraint(self.constraint))
        null.rule_weights_ = {rule.label: 0.0 if rule.weight is None else rule.weight for rule in usual}
        try:
            return demos.mean(null._log_likelihoods(demos)[0]) * len(demos)
        except errors.DivergenceError:
            return math.nan

    def _information(self, demos: Demonstrations) -> Information:
        """Curvature and scores at the learned weights, from demonstrations."""
        task = replace(self._task(demos), policy=self._law(self.world.any_task, None).policy)
        return information(task, self._fit_settings(), self._all_weights, self._settled)

    @property
    def _settled(self) -> list[int]:
        """The numbers of weights that follow from a share that was given."""
        usual = enumerate(usual_rules(as_constraint(self.constraint)), len(self.weights_))
        return [k for k, rule in usual if rule.share is not None]

    @property
    def _all_weights(self) -> Floats:
        """Those of features, and after them those of rules that are usually kept."""
        return np.append(self.weights_, list(vars(self).get("rule_weights_", {}).values()))

    def _fit_settings(self) -> runs.FitSettings:
        return runs.FitSettings(engine=self._engine_settings())

    def _summary_notes(self) -> dict[str, str]:
        """What is to be said below the table: here, which iteration validation has chosen."""
        best = vars(self).get("best_iteration_")
        if best is None:
            return {}
        loss = self.history_[best - 1].details[VALIDATION_LOSS]
        last = "the last one" if best == self.n_iter_ else f"of {self.n_iter_}"
        return {"validation": f"the weights of iteration {best}, {last}: the best on validation, {loss:.4f} nats"}

    def _repr_html_(self) -> str:
        """Settings, and what was learned."""
        rule = self._rule()
        facts: dict[str, object] = {"world": self.world, "rules": "none" if rule is None else rule}
        if "reward_" not in vars(self):
            return facts_html(f"{type(self).__name__}, not fitted", facts)
        facts["iterations"] = f"{self.n_iter_}, {'converged' if self.converged_ else 'not converged'}"
        facts |= Learner._summary_notes(self)
        if self.history_:
            facts["loss"] = f"{self.history_[-1].loss:.6g} nats per demonstration"
        facts["reward"] = self.reward_
        if "weights_" in vars(self):
            facts["weights"] = np.array2string(self.weights_, precision=4, threshold=20)
        return facts_html(f"{type(self).__name__}, fitted", facts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one folder; read it with `xm.load`.

        Parameters
        ----------
        path
            Where the folder will be, exactly. A model of the same class that is there is replaced as a whole.

        Raises
        ------
        StorageError
            When something in the model has no stored form (`when`, `monitor`), or something else is there.
        NotFittedError
            Before `fit`.
        """
        write_model(path, *content(self))

    def __getstate__(self) -> dict[str, Any]:
        # The compiled distribution is made again when it is asked for.
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class GradientLearner(Learner):
    """A learner that is driven step by step; subclasses are dataclasses with some of these settings among theirs."""

    records: ClassVar[Mapping[str, type[Options]]] = {"progress": Progress}
    in_place: bool = False  # whether the reward's own network is trained, not a copy, and without advice

    features: ArrayLike | None = None
    reward: NeuralReward | None = None
    training: Training | None = None
    l2: float | ArrayLike = 0.0
    max_iter: int | None = None
    tol: float | None = None
    fixed: Mapping[int, float] | None = None
    warm_start: bool = False
    progress: Progress | None = None

    def _record(self, name: str) -> Options:
        return self.training or Training() if name == "training" else super()._record(name)

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.progress, Progress | None):
            raise EngineError(f"progress takes a record such as xm.Progress(patience=5); got {self.progress!r:.60}.")
        if not isinstance(self.training, Training | None):
            raise EngineError(f"training takes a record such as xm.Training('lbfgs'); got {self.training!r:.60}.")
        if not isinstance(self.fixed, Mapping | None):
            raise EngineError(f"fixed maps numbers of features to weights, as {{0: 1.5}}; got {self.fixed!r:.60}.")
        if self.progress is not None and self.progress.resume is True and self.progress.checkpoint is None:
            raise EngineError("resume=True needs checkpoint=..., the file to go on from.")
        self._fit_settings()
        if self.reward is not None:
            if np.ndim(self.l2):
                raise EngineError("l2 of a network is one number, 0 or more; one per feature is for features.")
            return self._check_neural(self.reward)
        if isinstance(self.features, Reward):
            raise RewardError(f"features are arrays, and here a {type(self.features).__name__}: networks go to reward=")
        self._read_features()
        if self.training is not None:
            what = f"training={self.training!r} is for training a network, and there is none"
            raise EngineError(f"{what}: give reward=..., or leave training out. A linear reward has its own.")

    def _check_neural(self, reward: object) -> None:
        """Refuse a reward that cannot be trained in this world, or not beside features."""
        if not isinstance(reward, NeuralReward):
            is_module = hasattr(reward, "parameters") and hasattr(reward, "forward")
            hint = "Write NeuralReward(module, inputs)." if is_module else "For a linear reward give features."
            known = "a network to be trained, a NeuralReward, ConvReward or FeatureReward"
            raise RewardError(f"reward takes {known}; got {type(reward).__name__}. {hint}")
        if self.features is not None:
            why = "features are for a linear reward, and a reward by a network has its own inputs"
            raise EngineError(f"features and reward are both given: {why}. Leave out features or reward={reward!r}.")
        states, actions = self.world.any_task.n_states, self.world.any_task.n_actions
        require_hard(self._rule(), "a neural reward")
        if (own := (reward.n_states, reward.n_actions)) != (states, actions):
            both = f"for {own[0]} states and {own[1]} actions, but the world has {states} states and {actions} actions"
            raise RewardError(f"reward is {both}: give inputs of shape ({states}, {actions}, d).")

    def _fit_settings(self) -> runs.FitSettings:
        l2, fixed, usual = self.l2, self.fixed, usual_rules(as_constraint(self.constraint))
        if usual and self.reward is None:
            d = self._read_features().d
            runs.FitSettings(l2).coordinates(d)
            if any(not 0 <= k < d for k in fixed or ()):
                raise EngineError(f"fixed names feature {max(fixed or ())}, but features are numbered 0 to {d - 1}.")
            l2 = np.append(np.broadcast_to(runs.read_l2(l2, d), d), np.zeros(len(usual)))
            given = {d + k: rule.weight for k, rule in enumerate(usual) if rule.weight is not None}
            fixed = {**(fixed or {}), **given} or None
        return runs.FitSettings(l2, self.max_iter, self.tol, self.seed, self._engine_settings(), fixed)

    def _begin(self) -> tuple[runs.FitSettings, NeuralReward | None]:
        """The settings that a fit begins with, and its network; a warm start has weights and memory of the last fit."""
        last = vars(self) if self.warm_start else {}
        weights, reward, d = last.get("weights_"), last.get("reward_"), self._read_features().d
        if self.reward is None and weights is not None and len(weights) != d:
            had = f"warm_start=True begins with the last fit's {len(weights)} weights, and now there are {d} features"
            raise EngineError(f"{had}: give the same features, or a new learner.")
        weights = None if weights is None or self.reward is not None else self._all_weights
        network = reward if self.reward is not None and isinstance(reward, NeuralReward) else self.reward
        settings = self._fit_settings().changed(start=weights, memory=last.get("optimiser_state_"))
        return settings, network if network is None or self.in_place else network.copy()

    def _evaluates(self) -> bool:
        """Whether there is nothing to learn: no iteration, or no weight that is not fixed; then it is all done here."""
        if self.reward is not None:
            return False
        settings, _ = self._begin()
        d = self._all_features().d
        coordinates = settings.coordinates(d)
        if settings.max_iter != 0 and len(coordinates.free):
            return False
        given = np.zeros(d) if settings.start is None else settings.start
        self._answer(coordinates.full(given[coordinates.free]), Monitor(None), not len(coordinates.free))
        return True

    def _answer(self, answer: Floats | Reward, monitor: Monitor, converged: bool) -> None:
        """Keep a reward, or weights of features and after them those of rules that are usually kept."""
        if isinstance(answer, Reward):
            return self._learned(answer, monitor, converged)
        bare, usual = self._read_features(), usual_rules(as_constraint(self.constraint))
        self._learned(bare.reward(answer[: bare.d]), monitor, converged)
        if usual:
            self.rule_weights_ = {rule.label: float(answer[bare.d + k]) for k, rule in enumerate(usual)}
        return None

    def _drive(self, run: runs.Run[Any], demos: Demonstrations, apart: tuple[str, ...], **more: Any) -> runs.Outcome:
        """Take the run to its end, and keep what was learned; checkpoints agree in `more` and all but `apart`."""
        asked = self.progress or Progress()
        features, monitor, checkpoint = self._all_features(), Monitor(asked.callback), None
        if asked.checkpoint is not None:
            same = self._identity(demos, apart) | more
            checkpoint = Checkpoint(asked.checkpoint, asked.checkpoint_every, asked.resume, same)
        if self._validation is not None:
            run = runs.ValidatedRun(run, features, self._validation)
        outcome = runs.drive(run, monitor, checkpoint)
        self._answer(outcome.answer, monitor, outcome.converged)
        # The optimiser's state can be as large as the model: it is kept for a warm start only.
        kept = outcome.learned.items()
        vars(self).update({name: value for name, value in kept if name != "optimiser_state_" or self.warm_start})
        return outcome

    def _identity(self, demos: Demonstrations, apart: tuple[str, ...]) -> dict[str, Any]:
        """Settings and demonstrations, as a checkpoint compares them before a fit goes on from it."""
        # How a run is watched is not what it does, and the numbers in a network are in the checkpoint itself.
        apart = "progress", "validation", "training", "reward", *apart
        identity = {name: value for name, value in self.get_params(deep=False).items() if name not in apart}
        if self.features is not None:
            identity["features"] = self._read_features().matrix
        if self.fixed:
            identity["fixed"] = np.array(sorted(self.fixed.items()), dtype=np.float64)
        if self.reward is not None:
            identity |= {"reward": self.reward.structure(), "optimiser": (self.training or Training()).identity()}
        watched = {} if self._validation is None else {"validation": self._validation.demos}
        for name, found in {"demonstrations": demos, **watched}.items():
            identity[name] = [found.walks.starts, found.walks.edges, found.walks.lengths, found.all_weights]
            identity |= {f"{name} seen in part": repr(found.sightings)} if found.sightings else {}
        return identity
