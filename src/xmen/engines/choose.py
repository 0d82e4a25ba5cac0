"""Which engine answers: exact under a node budget, else rejection where it accepts often enough, else XOR."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, units, usual_rules
from xmen.engines.diagnosis import explain_conflict, feasible_product, from_start, require_every_start, warn_of_idle
from xmen.engines.distribution import Distribution, Guarantee, Law, Seed, as_constraint, generator
from xmen.engines.exact import AtHand, ExactDistribution
from xmen.engines.reject import RejectDistribution, Relaxation, relax
from xmen.engines.settings import DEFAULT_TIME_LIMIT, EngineSettings, find_device, place_product
from xmen.engines.xor import HashedWorld, XorDistribution
from xmen.errors import EngineError, InfeasibleError, Message, ProductTooLargeError
from xmen.options import require_choice
from xmen.rewards import Floats, Reward
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.walks import require_count


class GivenStart(Distribution):
    """The d0-mixture of one distribution per start, in the order of the starts' numbers; P = d0(s_0) P(tau | s_0).

    For engines that cannot share the work. What every part guarantees for its own start holds for the whole.
    """

    def __init__(self, law: Law, parts: Sequence[Distribution], seed: Seed) -> None:
        super().__init__(law, seed)
        self.parts, first = tuple(parts), parts[0]
        self.engine, self.reason, self.oracle = first.engine, first.reason, first.oracle
        deltas, failures = zip(*(part.guarantee for part in parts), strict=True)
        self.guarantee = Guarantee(max(deltas), sum(failures))
        self._starts = np.flatnonzero(law.world.start > 0)
        self._shares = law.world.start[self._starts]

    def acceptance_or_less(self, least: float) -> float:
        return float(self._shares @ [part.acceptance_or_less(least) for part in self.parts])

    @property
    def _log_partition(self) -> tuple[float, float]:
        log_z, std = np.array([part.log_partition(return_std=True) for part in self.parts]).T
        return float(self._shares @ log_z), float(np.linalg.norm(self._shares * std))

    @property
    def _visits(self) -> tuple[Floats, Floats]:
        means, stds = zip(*(part.visits(return_std=True) for part in self.parts), strict=True)
        variance = np.tensordot(self._shares**2, np.square(stds), axes=1)
        return np.tensordot(self._shares, means, axes=1), np.sqrt(variance)

    def state_visits(self) -> Floats:
        return np.tensordot(self._shares, [part.state_visits() for part in self.parts], axes=1)

    def entropy(self) -> float:
        """The entropy of the start, and the mean entropy of what follows."""
        return float(self._shares @ (np.array([part.entropy() for part in self.parts]) - np.log(self._shares)))

    def mode(self) -> Trajectory:
        return max((part.mode() for part in self.parts), key=self.log_prob)

    def best(self, k: int) -> list[Trajectory]:
        """The best of every start, in the order of P; where log Z is estimated, so is the order between starts."""
        best = [tau for part in self.parts for tau in part.best(k)]
        return sorted(best, key=self.log_prob, reverse=True)[:k]

    def _log_normaliser(self, start: int) -> float:
        part = self.parts[int(np.searchsorted(self._starts, start))]
        return float(part.log_partition())  # a part starts with probability 1, so that log d0 stays in the score

    def with_reward(self, reward: Reward | ArrayLike | None) -> "GivenStart":
        return GivenStart(self.law.with_reward(reward), [part.with_reward(reward) for part in self.parts], self._rng)

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        """n independent trajectories: starts from d0, then each start's own distribution."""
        rng = self._generator(seed)
        chosen = rng.choice(len(self.parts), size=require_count(n, self.world), p=self._shares)
        counts = np.bincount(chosen, minlength=len(self.parts))
        drawn = [iter(part.sample(int(k), seed=rng.spawn(1)[0])) for part, k in zip(self.parts, counts, strict=True)]
        return [next(drawn[i]) for i in chosen.tolist()]


LEAST_ACCEPTANCE = 1e-3  # below this, rejection is left for hashing
FEWEST_NODES, COPIES = 100_000, 64  # the default budget without a horizon, where nodes are factorised
RELAXED_SHARE = 8  # the relaxations of rejection may cost this fraction of the node budget


class Chooser:
    """One problem, and the engines that can be tried on it."""

    def __init__(self, law: Law, settings: EngineSettings, seed: Seed = None, at_hand: AtHand | None = None) -> None:
        self.law, self.seed, self.at_hand = law, seed, at_hand
        self.settings, self.max_nodes = settings, settings.node_budget
        if law.world.unbounded and settings.max_nodes is None:
            self.max_nodes = max(FEWEST_NODES, COPIES * law.world.n_states)
        if law.discount < 1.0:
            self._require_horizon(f"discount = {law.discount:g}")

    def _require_horizon(self, what: str) -> None:
        if self.law.world.unbounded:
            hint = "Without a horizon the exact and the reject engine answer, with discount = 1."
            raise EngineError(f"{what} needs a horizon, which this task lacks: network.task(..., horizon=...). {hint}")

    @cached_property
    def relaxation(self) -> Relaxation:
        """Weaker rules whose product with the world fits in a fraction of the node budget."""
        return relax(self.law.world, self.law.constraint, max(1, self.max_nodes // RELAXED_SHARE))

    def exact(self) -> ExactDistribution:
        """The exact engine; ProductTooLargeError past the node budget."""
        device = find_device(self.settings.device)
        product = feasible_product(self.law.compiled, self.max_nodes, self.at_hand)
        if self.law.given == "start":
            require_every_start(product, self.max_nodes)
        # Without a horizon one factorisation on the host answers, whatever the device.
        unbounded, precision = self.law.world.unbounded, self.settings.precision
        place = None if device is None or unbounded else place_product(product, device, precision)
        if place is not None and usual_rules(self.law.constraint):
            raise EngineError("rules that are usually kept are counted on the host: leave device out.")
        d = ExactDistribution(product, self.law, self.seed, place).solved()
        if unbounded:
            d.log_partition()  # weights that do not add up are reported here, where the reward was given
        sizes = f"{product.n_nodes:,} nodes and {product.n_edges:,} edges"
        d.reason = f"the product has {sizes}, within max_nodes = {self.max_nodes:,}"
        return d

    def by_start(self, make: "Callable[[Chooser], Distribution]") -> Distribution:
        """An engine that cannot share the work of all starts: given the start, one distribution for each of them."""
        starts = np.flatnonzero(self.law.world.start > 0)
        if self.law.given is None or len(starts) == 1:
            return make(self)
        rng = generator(self.seed)
        parts = []
        for start in starts.tolist():
            law = replace(self.law, world=self.law.world.with_start(start), given=None)
            try:
                parts.append(make(Chooser(law, self.settings, rng.spawn(1)[0])))
            except InfeasibleError as error:
                raise from_start(self.law.world, start, error) from None
        return GivenStart(self.law, parts, rng)

    def _require_weights(self, engine: str) -> None:
        for rule in usual_rules(self.law.constraint):
            if rule.share is not None:
                what = "engine='{}' finds no weight for {!r} with share={:g}: give weight=, or use engine='exact'."
                raise EngineError(Message(what, engine, rule.label, rule.share))

    def joint_reject(self) -> RejectDistribution:
        """The reject engine for all starts together, whatever its acceptance rate."""
        self._require_weights("reject")
        relaxation = self.relaxation
        if not relaxation.product.feasible():
            parts = units(self.law.constraint)
            suspects = [i for i, (label, _) in enumerate(parts) if label in relaxation.multiplied]
            raise explain_conflict(self.law.world, parts, self.max_nodes, suspects)
        d = RejectDistribution(relaxation, self.law, self.seed, self.settings.time_limit)
        if relaxation.memory:
            with suppress(EngineError):  # of weights that do not add up: a learner asks under others
                share = float(next(d.checked(np.random.default_rng(0)))[1].mean())
                d.reason = f"asked for. {relaxation.memory}Rejection accepts {share:.2%} of its first draws."
        return d

    def joint_xor(self) -> XorDistribution:
        """The XOR engine for all starts together."""
        self._require_horizon("engine='xor'")
        self._require_weights("xor")
        hashed = HashedWorld(self.law, self.settings, self.relaxation.product)
        d = XorDistribution(hashed, self.relaxation, self.law, self.seed, self.settings)
        d.reason = f"asked for; the oracle is {d.oracle}"
        return d

    def auto(self) -> Distribution:
        """The first engine that fits, with the reason."""
        try:
            return self.exact()
        except ProductTooLargeError as error:
            exact, too_large = error.args[0], error.reason
        reject = self.by_start(Chooser.joint_reject)
        try:
            rate = reject.acceptance_or_less(LEAST_ACCEPTANCE)
        except EngineError:
            rate = 0.0
        memory = reject.relaxation.memory if isinstance(reject, RejectDistribution) else ""
        if rate >= LEAST_ACCEPTANCE:
            reject.reason = f"{too_large} {memory}Rejection accepts {rate:.2%} of relaxed draws."
            return reject
        if self.law.world.unbounded:
            return reject  # hashing would need a horizon; what hopeless rejection says is the answer
        share = f"only {rate:.1e}" if rate else "none"
        try:
            xor = self.by_start(Chooser.joint_xor)
        except ProductTooLargeError as error:
            if rate > 0.0:  # slow, and still the one that answers
                reject.reason = f"{too_large} {memory}Rejection accepts {share} of relaxed draws. Xor: {error}"
                return reject
            sentence = "no engine answers here. Exact: {} Reject: it accepts {} of relaxed draws. Xor: {}"
            raise ProductTooLargeError(Message(sentence, exact, share, error, world=self.law.world)) from None
        xor.reason = f"{too_large} Rejection accepts {share} of relaxed draws. The oracle is {xor.oracle}."
        return xor


ENGINES: dict[str, tuple[Callable[[Chooser], Distribution], str]] = {
    "exact": (Chooser.exact, "dynamic programming on the product of world and rules; answers exact, within max_nodes"),
    "reject": (
        lambda chooser: chooser.by_start(Chooser.joint_reject),
        "multiplies the rules that fit, rejects with the rest; samples exact, expectations with errors",
    ),
    "xor": (
        lambda chooser: chooser.by_start(Chooser.joint_xor),
        "random parities and an oracle; samples within a stated bound, expectations with errors",
    ),
    "auto": (Chooser.auto, "the first of these that fits"),
}
"""How each engine is made, and what it does: all that the command line, problem files and learners know of engines."""


def require_engine(name: object) -> None:
    """Refuse an engine that there is not."""
    require_choice("engine", name, sorted(ENGINES))


def distribution(
    world: MDP,
    constraint: Constraint | Iterable[Constraint] | None = None,
    reward: Reward | ArrayLike | None = None,
    discount: float = 1.0,
    engine: str | EngineSettings = "auto",
    seed: Seed = None,
    max_nodes: int | None = None,
    oracle: str = "auto",
    cell_size: float | None = None,
    delta: float | None = None,
    failure: float | None = None,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    given: str | None = None,
    device: str | None = None,
    precision: str = "float64",
) -> Distribution:
    """The maximum-entropy distribution over all trajectories of a world that keep a constraint.

    P(tau) = exp(R(tau)) D(tau) / Z with R the discounted sum of rewards and D the probability that chance plays along.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    constraint
        A constraint, a list of them (all have to hold), or None for no rule.
    reward
        An array (n_states, n_actions), a LinearReward, a NeuralReward, or None for 0 everywhere.
    discount
        gamma, with 0 < gamma <= 1.
    engine
        "exact" (dynamic programming on the product of world and constraint), "reject" (exact samples by rejection from
        what can be multiplied), "xor" (hashing and a solver), or "auto": the first of these that fits. Or a record
        with settings of its own in place of those below, such as `xm.Xor(delta=1.1)`.
    seed
        Decides samples and estimates; a whole number, a numpy Generator, or None.
    max_nodes
        The budget of the product of world and constraint.
    oracle
        What solves the formulas of "xor": "auto", "listed", "cryptominisat" or another that `xmen engines` shows.
    cell_size
        For "xor": the expected number of solutions in a hash cell.
    delta
        For "xor": the factor within which every sampling probability has to lie.
    failure
        For "xor": the probability with which `delta` may fail.
    time_limit
        For "xor": seconds per call of the oracle, not per question, which opens many cells. One that is too slow is
        opened again with 2, 4 and 8 times the limit, and then the question ends in an error. For "reject": seconds
        without a valid draw, after which it says that it is hopeless. None is no limit.
    given
        "start": starts are drawn as the world says, and P(tau) = d0(s_0) P(tau | s_0). None: P is joint, in which a
        start with many valid completions becomes more likely. They differ where there are several starts.
    device
        Where the exact engine computes: None is compiled loops on the host, "cuda" a GPU, "auto" a GPU if there is one
        and else the host, "cpu" what runs on GPUs, on the CPU. Answers and samples are the same; needs torch.
    precision
        "float64", or on a device "float32": half the memory, and `repr` of the distribution says by how much its first
        answers differ from those in double precision.

    Returns
    -------
    Distribution
        Its `engine`, `reason` and `guarantee` say who answers, why, and how exactly.

    Raises
    ------
    InfeasibleError
        When no trajectory is valid, with a minimal set of conflicting constraints.
    EngineError
        When the engine is unknown or a setting makes no sense.
    ConstraintError
        When the constraint mentions states or actions that the world does not have.
    RewardError
        When the shape of the reward does not fit.
    ProductTooLargeError
        When engine="exact" was asked for and the product is larger than `max_nodes`.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(9, 9, start=(0, 0), goal=(8, 8), moves=("up", "right", "up-right"))
    >>> round(np.exp(xm.distribution(grid, None, None).log_partition()))
    265729
    """
    asked = EngineSettings("auto", max_nodes, oracle, cell_size, delta, failure, time_limit, device, precision)
    rule, settings = as_constraint(constraint), read_engine(engine, asked)
    d = answering(Law(world, rule, reward, discount, given), settings, seed)
    warn_of_idle(rule, world, d.law.compiled.tables)
    return d


def read_engine(engine: str | EngineSettings, asked: EngineSettings) -> EngineSettings:
    """The settings of an engine that is given by name, with what was asked for beside it, or as a record alone."""
    if not isinstance(engine, EngineSettings):
        return asked.changed(engine=engine)
    if asked != EngineSettings():
        raise EngineError(f"settings of an engine are given beside engine={engine!r}: give all of them in the record.")
    return engine


def answering(law: Law, settings: EngineSettings, seed: Seed = None, at_hand: AtHand | None = None) -> Distribution:
    """The engine that answers for a law under these settings: `distribution`, with its arguments as records."""
    world: object = law.world
    if isinstance(world, Network):
        raise EngineError("distribution(world, ...) needs a start and a goal: give network.task(start, goal).")
    if not isinstance(world, MDP):
        raise EngineError(f"distribution(world, ...) takes an MDP or GridWorld; got {type(world).__name__}.")
    if law.constraint is not None:
        law.constraint.check_world(world)
    require_engine(settings.engine)
    return ENGINES[settings.engine][0](Chooser(law.checked(), settings, seed, at_hand))
