"""What all learners share: settings, checks, and the use of what was learned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.choose import answering, require_engine
from xmen.engines.distribution import Distribution, Seed, as_constraint, check_discount, check_given
from xmen.engines.law import Law
from xmen.engines.never import warn_of_idle
from xmen.engines.settings import EngineSettings
from xmen.errors import EngineError, NotFittedError
from xmen.learners.display import learner_html
from xmen.learners.estimation import summarise
from xmen.learners.estimator import Estimator
from xmen.learners.held_out import read_validation, validation_note
from xmen.learners.likelihoods import Likelihoods, likelihoods_under, log_likelihoods
from xmen.learners.summary import Summary
from xmen.methods.demonstrations import Demonstrations, gather
from xmen.methods.information import Information, information
from xmen.methods.runs import FitSettings, Task
from xmen.policies.plan import plan
from xmen.policies.policy import Policy
from xmen.progress.monitor import Monitor, Record
from xmen.rewards import Floats, LinearReward, Reward
from xmen.rewards.features import Features, read_features
from xmen.sharing import lock_of
from xmen.storage.models import save
from xmen.worlds import MDP, Network, Trajectory

OF_ONE_FIT = ("weights_", "covariance_", "robust_covariance_", "log_likelihood_", "best_iteration_", "optimiser_state_")

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
    engine: str = "auto"
    seed: Seed = None
    given: str | None = None
    takes_networks: ClassVar[bool] = False

    reward_: Reward
    weights_: Floats
    history_: list[Record]
    n_iter_: int
    converged_: bool
    best_iteration_: int
    covariance_: Floats
    robust_covariance_: Floats
    log_likelihood_: dict[str, float]

    def fit(
        self,
        demos: Iterable[Trajectory],
        sample_weight: ArrayLike | None = None,
        validation: Iterable[Trajectory] | None = None,
    ) -> Self:
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
        for earlier in ("_answering", "_features_read", "_validation"):
            self.__dict__.pop(earlier, None)
        self._check_settings()
        found = self._gather(demos, sample_weight)
        self._validation = read_validation(self, validation)
        # On matrices of this size threads wait more than they work, and their number would show in the last digits.
        with threadpool_limits(1, user_api="blas"):
            self._fit(found)
        warn_of_idle(self._rule(), self.world.any_task)
        for meanwhile in ("_features_read", "_validation"):
            self.__dict__.pop(meanwhile, None)
        self._fitted_on = found
        return self

    def _read_features(self) -> Features:
        """The features of this fit, read once."""
        if "_features_read" not in vars(self):
            self._features_read = read_features(vars(self).get("features"), self.world)
        return self._features_read

    def _gather(self, demos: Iterable[Trajectory], sample_weight: ArrayLike | None) -> Demonstrations:
        """The demonstrations, checked against world and rules."""
        return gather(self.world.any_task, self._rule(), demos, sample_weight)

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
        require_engine(self._engine_settings().engine)

    def _rule(self, also: Rules = None) -> Constraint | None:
        """The constraint of the learner and `also`, together."""
        parts = [part for part in (as_constraint(self.constraint), as_constraint(also)) if part is not None]
        return conjunction(parts)

    def _learned(self, reward: Reward, monitor: Monitor, converged: bool) -> None:
        """Keep what was learned."""
        self.reward_ = reward
        for earlier in OF_ONE_FIT:
            self.__dict__.pop(earlier, None)
        self.__dict__.pop("_fitted_on", None)
        if isinstance(reward, LinearReward):
            self.weights_ = reward.weights
        self.history_ = monitor.history
        self.n_iter_ = len(monitor.history)
        self.converged_ = converged

    def _require_fitted(self) -> None:
        if "reward_" not in vars(self):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned anything yet: call fit(demos) first, or xm.load(path)."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return "reward_" in vars(self)

    def _engine_settings(self) -> EngineSettings:
        """The settings of the engine that answers: those that this learner has, checked."""
        names = (field.name for field in fields(EngineSettings))
        return EngineSettings(**{name: getattr(self, name) for name in names if hasattr(self, name)})

    def distribution(self, also: Rules = None, start: int | None = None, goal: int | None = None) -> Distribution:
        """The distribution over trajectories under the learned reward.

        Parameters
        ----------
        also
            Further rules. Nothing is retrained. The last one asked for is kept, so that asking again is free.
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
            asked, kept = self._asked(also, (start, goal)), vars(self).get("_answering")
            if kept is None or kept[0] != asked:
                d = answering(self._law(world, also), self._engine_settings(), self.seed)
                self._answering = kept = asked, d
            answer: Distribution = kept[1]
            return answer

    def _law(self, world: MDP, also: Rules) -> Law:
        """What the learned distribution is made of."""
        return Law(world, self._rule(also), self.reward_, self.discount, self.given)

    def _asked_world(self, start: int | None, goal: int | None) -> MDP:
        """The world of a question: the learner's own, or the task of a network."""
        if isinstance(self.world, Network):
            if start is None or goal is None:
                raise EngineError("on a network every question is about one pair: give start=... and goal=...")
            return self.world.task(start, goal)
        if start is not None or goal is not None:
            raise EngineError(
                f"start= and goal= are for models of a Network; this one is of a {type(self.world).__name__}, which "
                "has its own."
            )
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
        also
            Further rules, without learning again.
        seed
            A whole number or a numpy Generator. Without one, calls go on from the last.
        start, goal
            On a network, where trajectories start and end.

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
        if validity is None:
            return Policy(self.distribution(also, start, goal), greedy=greedy, seed=seed)
        self._require_fitted()
        world, seed = self._asked_world(start, goal), self.seed if seed is None else seed
        rule, settings = self._rule(also), self._engine_settings()
        where = settings.max_nodes, settings.device
        return plan(world, rule, self.reward_, validity, self.discount, greedy, seed, *where)

    def score(self, demos: Iterable[Trajectory], sample_weight: ArrayLike | None = None) -> float:
        """The mean log-likelihood of demonstrations.

        It has the world's dynamics in it: the mean of R(tau) + log D(tau) - log Z. Given the start it is that of log
        P(tau | s_0), without the probability of the start, and on a network that of log P(tau | start, goal).

        Parameters
        ----------
        demos
            Trajectories, of the fit or others.
        sample_weight
            One weight per trajectory.

        Returns
        -------
        float
            In nats; -inf with a demonstration that is impossible or forbidden.
        """
        self._require_fitted()
        found = gather(self.world.any_task, self._rule(), demos, sample_weight, refuse_invalid=False)
        if not found.valid[found.weights > 0].all():
            return -np.inf
        return found.mean(self._log_likelihoods(found).values)

    def score_samples(self, demos: Iterable[Trajectory]) -> Floats:
        """The log-likelihood of each trajectory; where rules reject on a network, from as many draws as it takes.

        Parameters
        ----------
        demos
            Trajectories, of the fit or others.

        Returns
        -------
        NDArray
            Shape (n,), in nats; -inf where one is impossible or forbidden.
        """
        self._require_fitted()
        return self._log_likelihoods(gather(self.world.any_task, self._rule(), demos, refuse_invalid=False)).values

    def _log_likelihoods(self, found: Demonstrations) -> Likelihoods:
        return log_likelihoods(self, found)

    def _likelihoods_under(self, found: Demonstrations) -> Callable[[Floats], Floats]:
        """The same of valid demonstrations, as a function of the reward table."""
        return likelihoods_under(self, found)

    @property
    def standard_errors_(self) -> Floats:
        """The standard errors (d,) of `weights_`, from the Hessian; see `summary`."""
        return self.summary().standard_errors

    def summary(
        self,
        demos: Iterable[Trajectory] | None = None,
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
            raise EngineError(
                f"standard errors are of linear weights, and this reward is a {type(self.reward_).__name__}."
            )
        return summarise(self, demos, sample_weight, groups, names)

    def _information(self, demos: Demonstrations, features: Features, weights: Floats) -> Information:
        """Curvature and scores at these weights, from demonstrations."""
        law = self._law(self.world.any_task, None)
        task = Task(demos, features, law.constraint, law.discount, law.given, law.policy)
        settings = FitSettings(
            l2=getattr(self, "l2", 0.0), engine=self._engine_settings(), fixed=getattr(self, "fixed", None)
        )
        return information(task, settings, weights)

    def _summary_notes(self) -> dict[str, str]:
        """What is to be said below the table."""
        return validation_note(self)

    def _repr_html_(self) -> str:
        """Settings, and what was learned."""
        return learner_html(self)

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
        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        # The compiled distribution is made again when it is asked for.
        remade = ("_answering", "_fitted_on", "_features_read", "_validation")
        return {name: value for name, value in vars(self).items() if name not in remade}
