"""One face for all engines: a probability distribution over the valid trajectories of a world.

P(tau) = exp(R(tau)) D(tau) I_C(tau) / Z,    R = sum_t gamma^t r(s_t, a_t),    D = d0(s_0) prod_t T(s_{t+1} | s_t, a_t)

Given the start, every start has its own Z(s_0) instead: P(tau) = exp(R(tau)) D(tau) I_C(tau) / Z(s_0), so that starts
are drawn from d0, however many valid trajectories begin there. log Z then stands for the d0-mean of log Z(s_0).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple, NoReturn, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, conjunction, require_constraint, usual_among, usual_rules
from xmen.displays import facts_html
from xmen.errors import ConstraintError, EngineError, InfeasibleError, Message, RewardError
from xmen.machines.tables import CompiledConstraint, MachineTable
from xmen.options import is_number, require_whole
from xmen.rewards import Floats, LinearReward, Reward, reward_table
from xmen.sharing import once
from xmen.worlds import MDP, EdgeWeights, Sighting, Trajectory, Walks


@dataclass(frozen=True, eq=False)
class Law:
    """P(tau) in proportion to exp(R(tau)) D(tau) over the trajectories of a world that keep a constraint.

    With `given="start"`, of each start by itself. With a `policy` pi(a | s), shape (n_states, n_actions), D also has
    the probabilities of the actions in it: P is then exp(R) times what following the policy gives. `machines` are
    those of the constraint that somebody has compiled before.
    """

    world: MDP
    constraint: Constraint | None = None
    reward: Reward | ArrayLike | None = None
    discount: float = 1.0
    given: str | None = None
    policy: Floats | None = None
    machines: Sequence[MachineTable] = field(default=(), compare=False)

    def __eq__(self, other: object) -> bool:
        """Whether both have equal rules and numbers, and the same world, reward and policy."""
        if not isinstance(other, Law):
            return NotImplemented
        pairs = [(getattr(self, one.name), getattr(other, one.name)) for one in fields(self) if one.compare]
        return all(a is b or (isinstance(a, Constraint | float | str) and a == b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    @once
    def compiled(self) -> CompiledConstraint:
        """The machines of the constraint over the world."""
        return CompiledConstraint(self.constraint, self.world, known=self.machines)

    @once
    def weights(self) -> EdgeWeights:
        """The log-weights of edges and starts; RewardError where the reward does not fit the world."""
        world = self.world
        weights = EdgeWeights.of(world, reward_table(self.reward, world), self.discount, self.given == "start")
        if usual := usual_rules(self.constraint):
            weights = replace(weights, rules=np.array([rule.weight or 0.0 for rule in usual]))
        return weights if self.policy is None else weights.under(world, self.policy)

    def checked(self) -> "Law":
        """This law with its discount as a float; an error where discount, `given` or reward make no sense."""
        check_given(self.given)
        for rule in usual_rules(self.constraint):
            if rule.weight is None and rule.share is None:
                what = "usually({!r}) has neither a weight nor a share: give weight=nats or share=how often it is kept"
                raise ConstraintError(Message(what, rule.label))
        law = replace(self, discount=check_discount(self.discount))
        _ = law.weights
        return law

    def under(self, constraint: Constraint | None) -> "Law":
        """This law under another constraint; weights are not worked out again."""
        other, rules = replace(self, constraint=constraint), self.weights.rules
        vars(other)["weights"] = replace(self.weights, rules=rules[usual_among(constraint, self.constraint)])
        return other

    def with_reward(self, reward: Reward | ArrayLike | None) -> "Law":
        """This law under another reward; what does not depend on it is not worked out again.

        A flat array has the weights of the rules that are usually kept after the rewards.
        """
        n_pairs, n_rules = self.world.n_states * self.world.n_actions, len(self.weights.rules)
        if n_rules and isinstance(reward, np.ndarray) and reward.shape == (n_pairs + n_rules,):
            worth = self.with_rules(reward[n_pairs:])
            return worth.with_reward(reward[:n_pairs].reshape(self.world.n_states, -1))
        other = replace(self, reward=reward)
        weights = self.weights.with_table(self.world, reward_table(reward, self.world))
        vars(other).update(weights=weights, compiled=self.compiled)
        return other

    def with_rules(self, weights: Floats) -> "Law":
        """This law with other weights (k,) of the rules that are usually kept."""
        other = replace(self)
        vars(other).update(weights=replace(self.weights, rules=weights), compiled=self.compiled)
        return other

    def scores(self, walks: Walks) -> Floats:
        """The log-weight of each walk (n,): R + log D, and the weights of the rules it keeps that are usually kept."""
        return walks.scores(self.weights) + self.compiled.worth(walks, self.weights.rules)


Rules = Constraint | Mapping[str, Constraint] | Iterable[Constraint]
Seed = int | np.random.SeedSequence | np.random.Generator | None


class Guarantee(NamedTuple):
    """How far sampling probabilities can be from the true ones."""

    delta: float  # every sampling probability is within this factor of the true one; 1 is exact
    failure: float  # the probability that this does not hold; 0 is never


class Distribution(ABC):
    """A probability distribution over the valid trajectories of a world, whichever engine answers.

    P(tau) = exp(R(tau)) D(tau) / Z on trajectories that keep the constraint, and 0 elsewhere. Made by
    `xm.distribution`. What an engine cannot answer raises an EngineError that names the engine that can.

    Attributes
    ----------
    engine
        The name of the engine that answers.
    guarantee
        The factor within which sampling probabilities lie, and the probability that this fails.
    reason
        Why this engine was chosen, with the sizes that decided it.
    """

    engine: str
    guarantee: Guarantee
    reason: str = ""
    oracle: str = ""  # what solves formulas, for the XOR engine

    def __init__(self, law: Law, seed: Seed) -> None:
        self.law = law
        self.world, self.constraint, self.reward = law.world, law.constraint, law.reward
        self.discount, self.given, self.weights = law.discount, law.given, law.weights
        self._rng = generator(seed)

    @overload
    def log_partition(self) -> float: ...
    @overload
    def log_partition(self, return_std: Literal[True]) -> tuple[float, float]: ...
    def log_partition(self, return_std: bool = False) -> float | tuple[float, float]:
        """log Z, the log of the total weight of all valid trajectories.

        With `return_std` the pair of log Z and its standard error, which is 0 where the engine is exact.
        """
        return self._log_partition if return_std else self._log_partition[0]

    @overload
    def visits(self) -> Floats: ...
    @overload
    def visits(self, return_std: Literal[True]) -> tuple[Floats, Floats]: ...
    def visits(self, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Expected discounted visits of every state and action, d log Z / d r(s, a); shape (n_states, n_actions).

        With `return_std` the pair of these and their standard errors, which are 0 where the engine is exact.
        """
        return self._visits if return_std else self._visits[0]

    @property
    @abstractmethod
    def _log_partition(self) -> tuple[float, float]:
        """log Z and its standard error."""

    @property
    @abstractmethod
    def _visits(self) -> tuple[Floats, Floats]:
        """Expected visits and their standard errors."""

    def moments(self, return_std: bool = False) -> Any:
        """`visits`; where rules are usually kept flat, with the probability of keeping each of these after them."""
        if len(self.weights.rules):
            raise EngineError(f"engine={self.engine!r} does not know how often rules are kept: use engine='exact'.")
        return self.visits(return_std=True) if return_std else self.visits()

    @abstractmethod
    def state_visits(self) -> Floats:
        """Expected number of positions t = 0 .. L at each state, without discount; shape (n_states,)."""

    @abstractmethod
    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        """n independent trajectories, each checked against the constraint before it is returned.

        `seed` is a whole number or a numpy Generator. None: the stream that began with the distribution's own seed
        goes on. EngineError when n is not a whole number from 0, or the engine finds no valid trajectory.
        """

    def mode(self) -> Trajectory:
        """A trajectory of the largest probability: one that maximises R + log D among the valid ones.

        The first one, where several are equally likely. EngineError when this engine does not search for it; the
        message names the engine that does.
        """
        best = self.best(1)
        if not best:
            raise InfeasibleError("no trajectory of this world keeps all rules: a search has been through all of them.")
        return best[0]

    def best(self, k: int) -> list[Trajectory]:
        """The k (0 or more) most likely valid trajectories, exactly, most likely first; all where there are fewer.

        EngineError where the engine does not search, as engine="xor" does not, or searches too long, as "reject" may.
        """
        what = f"the {self.engine} engine does not search for the most likely trajectories"
        raise EngineError(f"{what}: engine='exact' does; draw samples and keep the best for good ones.")

    @overload
    def probability(self, rules: Rules, return_std: Literal[False] = ..., n: int = ..., seed: Seed = ...) -> float: ...
    @overload
    def probability(
        self, rules: Rules, return_std: Literal[True], n: int = ..., seed: Seed = ...
    ) -> tuple[float, float]: ...
    def probability(self, rules: Rules, return_std: bool = False, n: int = 1000, seed: Seed = None) -> Any:
        """The probability that a trajectory keeps further rules, too.

        By the exact engine it is exact: the mass of what keeps both, over Z. Where its product has no room for the
        rules, and by other engines, it is the share of n draws: ask for its error.

        Parameters
        ----------
        rules
            A constraint, or several, all of which have to hold.
        return_std
            Also return a standard error, which is 0 only where the answer is exact, and leaves out the factor `delta`
            by which the xor engine's draws may be off.
        n, seed
            How many draws, where it takes them, and their seed.

        Examples
        --------
        >>> import xmen as xm
        >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
        >>> round(xm.distribution(grid, None).probability(xm.visit(grid.at((1, 1)))), 6)  # 4 of 6 ways
        0.666667
        """
        rule = self._further(rules)
        require_whole("n of probability(rules, n=...)", n, least=1)
        share = sum(map(rule.accepts, self.sample(n, seed=seed))) / n
        drawn = (n * share + 1.0) / (n + 2.0)  # one more of each kind, so that none of n is not none at all
        return (share, float(np.sqrt(drawn * (1.0 - drawn) / n))) if return_std else share

    def _further(self, rules: object) -> Constraint:
        """The rules of a question, together, checked against the world."""
        rule = as_constraint(rules)
        if rule is None:
            raise EngineError("probability(rules) takes a constraint, or a list of them; got none.")
        rule.check_world(self.world)
        return rule

    @abstractmethod
    def entropy(self) -> float:
        """The entropy -sum P log P in nats. Uniform over n trajectories gives log n."""

    def seen(self, sighting: Sighting) -> "Distribution":
        """The distribution given what was seen of a trajectory: P(tau | y) = P(tau) p(y | tau) / p(y).

        Parameters
        ----------
        sighting
            What was seen; see `xm.Sighting`.

        Returns
        -------
        Distribution
            By the same engine, with all that a distribution answers; its `log_partition` is log Z + log p(y).

        Raises
        ------
        InfeasibleError
            Where no valid trajectory explains it; it names the position from which nothing fits.
        EngineError
            Where the engine cannot weigh trajectories so.

        Examples
        --------
        >>> import xmen as xm
        >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
        >>> d = xm.distribution(grid, None).seen(xm.Sighting([None, (1, 0), None, None, (2, 2)]))
        >>> round(d.probability(xm.visit(grid.at((1, 1)))), 6)
        0.666667
        """
        return self._weigh_seen()

    def log_seen(self, sighting: Sighting) -> float:
        """log p(y) = log sum of P(tau) p(y | tau); -inf where no valid trajectory explains what was seen."""
        return self._weigh_seen()

    def _weigh_seen(self) -> NoReturn:
        what = f"engine={self.engine!r} does not weigh what was seen"
        raise EngineError(f"{what}: engine='exact' does, and 'reject' where it is not given several starts.")

    @abstractmethod
    def with_reward(self, reward: Reward | ArrayLike | None) -> Self:
        """A new distribution under another reward (as for `xm.distribution`), by the same engine; this one stays.

        What was compiled is shared. RewardError when the shape does not fit the world.
        """

    @property
    def acceptance(self) -> float:
        """The share of draws that keep the rules: 1, except where the engine rejects."""
        return self.acceptance_or_less(0.0)

    def acceptance_or_less(self, least: float) -> float:
        """The acceptance, measured with less care where it is below `least`."""
        return 1.0

    def sizes(self) -> dict[str, Any]:
        """The numbers that decide what this engine costs, by name."""
        return {}

    def _generator(self, seed: Seed) -> np.random.Generator:
        return self._rng if seed is None else generator(seed)

    def log_prob(self, trajectory: Trajectory) -> float:
        """log P(tau) of one trajectory; -inf when the world or the constraint does not allow it.

        EngineError when something else than a Trajectory is given.
        """
        if not isinstance(trajectory, Trajectory):
            raise EngineError(f"log_prob takes a Trajectory(states, actions); got {type(trajectory).__name__}.")
        rule = self.constraint
        if self.world.problem(trajectory) is not None or not (rule is None or rule.accepts(trajectory)):
            return -np.inf
        return self.score(trajectory) - self._log_normaliser(trajectory.states[0])

    def _log_normaliser(self, start: int) -> float:
        """What `score` has to be lowered by to be log P of a trajectory from this start: log Z, or log Z(s_0)."""
        return self.log_partition()

    def score(self, trajectory: Trajectory) -> float:
        """R(tau) + log D(tau) of a trajectory that the world allows: the log of its weight, before division by Z.

        With the weights of those rules that it keeps and that are usually kept.
        """
        return float(self.law.scores(Walks.of(self.world, [trajectory]))[0])

    def expected_features(self) -> Floats:
        """E[f(tau)], shape (d,): expected discounted visits times the features of a LinearReward.

        RewardError when the reward of this distribution is another one.
        """
        if not isinstance(self.reward, LinearReward):
            kind = type(self.reward).__name__
            what = f"expected_features needs a LinearReward(features, weights); this distribution has {kind}"
            raise RewardError(f"{what}. Contract visits() with your features instead.")
        return np.asarray(np.einsum("sa,sad->d", self.visits(), self.reward.features))

    def _repr_html_(self) -> str:
        """What is known without computing anything."""
        facts: dict[str, object] = {
            "world": self.world,
            "rules": "none" if self.constraint is None else self.constraint,
            "reward": "none: all valid trajectories alike" if self.reward is None else self.reward,
            "engine": f"{self.engine}: {self.reason}" if self.reason else self.engine,
            "guarantee": "within a factor {:g}, failing with probability {:g}".format(*self.guarantee),
        }
        if self.discount != 1.0:
            facts["discount"] = self.discount
        if self.given is not None:
            facts["given"] = self.given
        return facts_html("Distribution over valid trajectories", facts | self.sizes())

    def __repr__(self) -> str:
        rule = "no constraint" if self.constraint is None else str(self.constraint)
        rule = rule if len(rule) <= 60 else rule[:57] + "..."
        return f"<{self.engine} distribution over trajectories of {type(self.world).__name__}: {rule}>"


def generator(seed: Seed) -> np.random.Generator:
    """A random generator from a seed, or an EngineError that says what seeds are."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise EngineError(f"a seed is a whole number, 0 or more, or a numpy Generator; got {seed!r}.") from None


def as_constraint(constraint: object) -> Constraint | None:
    """None, one constraint, or the conjunction of several, in a list or by name."""
    if constraint is None or isinstance(constraint, Constraint):
        return constraint
    if isinstance(constraint, Mapping):
        named = constraint.items()
        return conjunction([require_constraint(part, f"the rule {name!r}").named(name) for name, part in named])
    if isinstance(constraint, Iterable) and not isinstance(constraint, str):
        return conjunction([require_constraint(part, "distribution") for part in constraint])
    return require_constraint(constraint, "distribution(world, constraint, reward)")


def check_given(given: object) -> None:
    """Refuse anything but None and "start"."""
    if given is not None and not (isinstance(given, str) and given == "start"):
        raise EngineError(f'given is None (the joint distribution) or "start" (given where it starts); got {given!r}.')


def check_discount(discount: float) -> float:
    """The discount as a float with 0 < gamma <= 1, or an EngineError."""
    if not (is_number(discount) and 0 < discount <= 1):
        raise EngineError(f"discount is a number with 0 < discount <= 1; got {discount!r:.60}.")
    return float(discount)
