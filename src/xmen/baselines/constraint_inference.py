"""Maximum likelihood constraint inference (Scobee and Sastry, ICLR 2020).

The reward is known, the rules are not. Forbidding something that no demonstration does keeps their weights and shrinks
Z, so the likelihood of the demonstrations rises by -log(1 - p) each, where p is the probability that a trajectory does
it. Greedily forbid what has the largest p; choosing k rules so is a maximum coverage problem, for which greedy covers
at least 1 - 1/e of what the best k rules cover.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from xmen.constraints.constraint import Constraint, conjunction
from xmen.constraints.occurrence import never
from xmen.engines.choose import distribution
from xmen.engines.distribution import Seed
from xmen.engines.exact import ExactDistribution
from xmen.errors import ConstraintError, EngineError
from xmen.events import Event, at, doing, require_event
from xmen.learners.base import Learner, Rules
from xmen.machines.tables import CompiledConstraint
from xmen.methods.demonstrations import Demonstrations
from xmen.options import require_whole
from xmen.product.graph import DEFAULT_MAX_NODES
from xmen.progress import Callback, Monitor
from xmen.rewards import LinearReward, Reward, reward_table
from xmen.storage.models import storable
from xmen.worlds import MDP, EdgeWeights

KINDS = ("states", "actions")
SMALLEST = 1e-12  # probabilities below this are rounding errors
Avoided = tuple[Constraint, int | None]  # a rule that all demonstrations keep, and the state if it forbids one


@storable
@dataclass(eq=False, repr=False)
class ConstraintInference(Learner):
    """The constraint-inference baseline: which states, actions and named events must have been forbidden.

    The reward is given. Rules are added greedily, each the one that forbids most of what the model so far would do and
    no demonstration does. Of two that forbid the same, events come before actions and actions before states. Cost per
    rule: one exact pass for the expected visits, which bound the probabilities of visiting from above, and O(horizon
    times transitions) for every candidate that its bound does not rule out.

    Parameters
    ----------
    world
        An MDP or GridWorld.
    reward
        The nominal reward, an array (n_states, n_actions), a LinearReward, or None for zero.
    discount
        gamma, with 0 < gamma <= 1.
    candidates
        Which kinds are considered, of "states" and "actions".
    events
        Further candidates by name, such as {"grass": grid.at((2, 3), (2, 4))}: the paper's features.
    kl_threshold
        Stop when the next rule would lower KL(demonstrations || model) by less than this, in nats: when it forbids less
        than the share 1 - exp(-kl_threshold) of the model's behaviour.
    max_constraints
        Stop after that many in any case.
    engine, seed, callback, given
        As for XMEN.

    Attributes
    ----------
    constraints_
        Named `never(...)` in the order found. `distribution`, `sample` and `score` are under the reward and these.
    eliminated_
        The probability that each forbade when it was added.
    kl_
        The divergence before the first and after each, shape (1 + number of constraints,).
    """

    world: MDP
    reward: Reward | ArrayLike | None = None
    discount: float = 1.0
    candidates: Sequence[str] = KINDS
    events: Mapping[str, Event] | None = None
    kl_threshold: float = 0.1
    max_constraints: int | None = None
    engine: str = "auto"
    seed: Seed = None
    callback: Callback | None = None
    given: str | None = None

    forgotten = (*Learner.forgotten, "reward_", "constraints_")  # inferred earlier, no rules for other demonstrations

    def _fit(self, demos: Demonstrations) -> None:
        reward = self.reward
        if not isinstance(reward, LinearReward):
            reward = LinearReward(reward_table(reward, self.world)[:, :, None], [1.0])
        table, world = reward_table(reward, self.world), demos.seen_world(self.given)

        def under(rules: list[Constraint]) -> ExactDistribution:
            d = distribution(world, rules or None, table, self.discount, engine="exact", given=self.given)
            assert isinstance(d, ExactDistribution)
            return d

        avoided, found, d = self._avoided(demos), list[Constraint](), under([])
        log_p = demos.walks.scores(EdgeWeights.of(world, table, self.discount))
        kl = [_entropy_lost(demos) - demos.mean(log_p) + d.log_partition()]
        explained = False
        with Monitor(self.callback) as monitor:
            while not explained and len(found) != self.max_constraints and not monitor.stopped:
                best = _best(d, avoided)
                smaller = d if best is None else under([*found, best])
                gain = d.log_partition() - smaller.log_partition()
                explained = best is None or gain < self.kl_threshold
                if best is not None and not explained:
                    found, d = [*found, best], smaller
                    kl.append(kl[-1] - gain)
                    monitor.record(kl[-1], 0.0, eliminated=-float(np.expm1(-gain)))
        self._learned(reward, monitor, explained)
        self.constraints_, self.kl_ = found, np.array(kl[: len(found) + 1])
        self.eliminated_ = -np.expm1(np.diff(self.kl_))

    def _check_settings(self) -> None:
        super()._check_settings()
        kinds = self.candidates
        if isinstance(kinds, str) or not set(kinds) <= set(KINDS):
            raise EngineError(f"candidates must be a tuple of {' and '.join(map(repr, KINDS))}; got {kinds!r:.60}.")
        if not kinds and not self.events:
            raise EngineError("nothing to infer: give candidates or events.")
        if not isinstance(self.kl_threshold, int | float | np.number) or not self.kl_threshold >= 0:
            raise EngineError(f"kl_threshold must be a number of nats, 0 or more; got {self.kl_threshold!r:.60}.")
        require_whole("max_constraints", self.max_constraints, least=0, optional=True)
        if self.events is not None and not isinstance(self.events, Mapping):
            raise ConstraintError(f"events must be a mapping from names to events; got {type(self.events).__name__}.")
        for name, event in (self.events or {}).items():
            require_event(event, f"events[{name!r}]").check_world(self.world)

    def _avoided(self, demos: Demonstrations) -> list[Avoided]:
        """Rules against what no demonstration does: events, then actions, then states, with their numbers."""
        world, steps, last = self.world, demos.walks.edges, demos.walks.last_states
        named = [never(event).named(f"never {name}") for name, event in (self.events or {}).items()]
        out: list[Avoided] = [(one, None) for one in named if CompiledConstraint(one, world).check(demos.walks).all()]
        if "actions" in self.candidates:
            for a in np.setdiff1d(world.action, world.action[steps]).tolist():
                out.append((never(doing(a)).named(f"never {world.describe_action(a)}"), None))
        if "states" in self.candidates:
            for s in np.setdiff1d(np.arange(world.n_states), np.append(world.source[steps], last)).tolist():
                out.append((never(at(s)).named(f"never {world.describe_state(s)}"), s))
        return out

    def _information(self, demos: Demonstrations) -> NoReturn:
        raise EngineError("constraint inference learns rules under a reward that was given: no weight has an error.")

    def _rule(self, also: Rules = None) -> Constraint | None:
        return conjunction([*vars(self).get("constraints_", []), super()._rule(also)])


def _best(d: ExactDistribution, avoided: list[Avoided]) -> Constraint | None:
    """The first of the rules that are most probably broken under `d`, or None when none can be.

    The first-visit accrual of Scobee and Sastry (2020, Algorithm 1), exact: probability that meets what is forbidden
    leaves the distribution's Markov chain there. Rules come by falling bounds, of states the expected visits, which are
    at least the probability of visiting: the search ends where those fall below the best found.
    """
    visits, p, most = d.state_visits(), np.zeros(len(avoided)), 0.0
    bounds = np.array([1.0 if state is None else visits[state] for _, state in avoided])
    for i in np.argsort(-bounds, kind="stable").tolist():
        if bounds[i] <= max(SMALLEST, most - SMALLEST):
            break
        p[i] = d.chain.mass_broken(CompiledConstraint(avoided[i][0], d.world), DEFAULT_MAX_NODES)
        most = max(most, p[i])
    return avoided[int(np.argmax(p >= most - SMALLEST))][0] if most > SMALLEST else None


def _entropy_lost(demos: Demonstrations) -> float:
    """sum p log p over the distinct demonstrations, with the share p of each."""
    share: defaultdict[tuple[int, ...], float] = defaultdict(float)
    steps = np.split(demos.walks.edges, demos.walks.offsets[1:-1])
    for start, edges, weight in zip(demos.walks.starts.tolist(), steps, demos.weights.tolist(), strict=True):
        share[start, *edges.tolist()] += weight
    return sum(p * math.log(p) for p in share.values() if p > 0)
