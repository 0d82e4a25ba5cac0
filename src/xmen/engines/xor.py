"""The XOR engine: random parities cut the valid trajectories into cells small enough to list, by an NP oracle.

Samples are within a stated factor of their probability; log Z and expectations come with standard errors. The space
is never multiplied out: machines stand side by side in one formula.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from xmen import sampling
from xmen.constraints.constraint import conjunction, units, usual_among, usual_rules
from xmen.encoding.trajectories import Encoding, WalkDecoder
from xmen.engines.diagnosis import explain_infeasible, feasible_product
from xmen.engines.distribution import Guarantee, Law, Seed
from xmen.engines.reject import Estimating, Relaxation, walk_values
from xmen.engines.settings import DEFAULT_CELL_SIZE, EngineSettings
from xmen.errors import EngineError, GuaranteeWarning, InfeasibleError, ProductTooLargeError, notify
from xmen.events import Ints
from xmen.machines.tables import CompiledConstraint, release
from xmen.options import require_choice
from xmen.oracles import ListedOracle, make_oracle
from xmen.oracles.formula import Bits, Formula, Oracle
from xmen.product.best import list_walks, score_range
from xmen.product.graph import Product
from xmen.product.layered import pass_messages
from xmen.rewards import Floats, Reward
from xmen.sampling import CellEstimate, CellPlan, Embedding, Info, Levels, PawsPlan, Space
from xmen.sharing import lock_of, once
from xmen.worlds import EdgeWeights, Walks
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.walks import require_count

# ---- A world and a constraint as something to hash: the oracle that answers for it, and how rows of bits are weighed.
#
# Weights that differ by more than a few nats are embedded first: each trajectory gets a number of copies roughly in
# proportion to its weight, and the exact remainder as the weight of a copy.

MAX_LISTED = 200_000  # trajectories up to which the support is listed
ADDER_ERROR = 0.02  # nats by which the integers of the adder may misjudge a weight


class Spelled(NamedTuple):
    """What rows of hash bits stand for, and the rules that are usually kept, whose weights come with the others."""

    decoder: WalkDecoder
    usual: CompiledConstraint  # nothing but these rules: it travels to other processes

    def scores(self, weights: EdgeWeights, walks: Walks) -> Floats:
        """The log-weights of trajectories (n,)."""
        return walks.scores(weights) + self.usual.worth(walks, weights.rules)


def walk_scores(spelled: Spelled, weights: EdgeWeights, bits: Bits) -> Floats:
    """The log-weights (k,) of the trajectories that rows of hash bits (k, width) stand for."""
    return spelled.scores(weights, spelled.decoder.decode(bits))


def walk_function(spelled: Spelled, weights: EdgeWeights, bits: Bits) -> Floats:
    """Values of trajectories (k, n_states * n_actions + n_states + 1), spelled by the first bits of each row."""
    walks = spelled.decoder.decode(bits[:, : spelled.decoder.width])
    return np.asarray(walk_values(walks, weights, spelled.scores(weights, walks)).toarray())


def rounded_depth(
    spelled: Spelled, edge_values: Ints, start_values: Ints, rule_values: Ints, thresholds: tuple[int, ...], bits: Bits
) -> Ints:
    """How many thresholds the integer weights of rows of hash bits are at or below (k,), exactly as the adder has them.

    edge_values (times, world edges), start_values (n_states,) and rule_values (rules,) are what it adds up.
    """
    walks = spelled.decoder.decode(bits)
    total = start_values[walks.starts] + spelled.usual.kept(walks)[:, : len(rule_values)] @ rule_values
    np.add.at(total, walks.owner, edge_values[np.minimum(walks.time, len(edge_values) - 1), walks.edges])
    return np.asarray(np.count_nonzero(total[:, None] <= np.array(thresholds, dtype=np.int64), axis=1))


class HashedWorld:
    """The valid trajectories of a world behind an oracle, listed or in clauses; shared by all rewards."""

    def __init__(self, law: Law, settings: EngineSettings, relaxed: Product) -> None:
        self.world, self.settings = law.world, settings
        self.walks = _try_to_list(law.compiled, settings.oracle)
        counting = EdgeWeights.counting(self.world)
        log_count = pass_messages(relaxed, counting).log_partition if relaxed.feasible() else 0.0
        log2_relaxed = max(float(log_count) / math.log(2.0), 0.0)
        # log2 of a number that the valid trajectories do not exceed: their own, or that of a relaxation.
        self.log2_count = log2_relaxed if self.walks is None else math.log2(max(len(self.walks), 1))
        # A listed support needs only the hash variables of trajectories, no machines. Weights per state need a place
        # per time once they are discounted.
        constraint = law.constraint if self.walks is None else None
        timed = None if law.discount == 1.0 else True
        self.encoding = Encoding(self.world, constraint, timed, log2_relaxed)  # the same bits with every oracle
        self.decoder, formula = self.encoding.decoder, self.encoding.formula
        usual = conjunction(usual_rules(law.constraint))
        self.spelled = Spelled(self.decoder, CompiledConstraint(usual, law.world, known=law.compiled.tables))
        if self.walks is not None:
            self.oracle: Oracle = ListedOracle(self.decoder.encode(self.walks), formula=formula)
            return
        if self._solver(formula).solve().bits is None:
            raise self._infeasible()
        self.oracle = self._solver(formula)

    def _solver(self, formula: Formula) -> Oracle:
        return make_oracle(self.settings.oracle, formula, time_limit=self.settings.time_limit)

    def _infeasible(self) -> InfeasibleError:
        """The constraints that conflict, from the solver's core, shrunk by deletion, in the user's names."""
        formula, literals = self.encoding.with_assumptions()
        solver = self._solver(formula)
        core = solver.solve(literals).core
        suspects = [i for i, literal in enumerate(literals) if literal in core or -literal in core]

        def can_hold(kept: list[int]) -> bool:
            return solver.solve([literals[i] for i in kept]).bits is not None

        return explain_infeasible(self.world, units(self.encoding.constraint), can_hold, suspects or None)

    def log_range(self, weights: EdgeWeights, product: Product) -> tuple[float, float]:
        """Bounds on the log weight: attained where trajectories are listed, else those of a relaxation's product."""
        if self.walks is None:
            return self.relaxed_range(weights, product)
        values = self.spelled.scores(weights, self.walks)
        return float(values.min()), float(values.max())

    def relaxed_range(self, weights: EdgeWeights, product: Product) -> tuple[float, float]:
        """Bounds on the log weight of a relaxation: rules not in its product may be kept or not by any trajectory."""
        usual = self.spelled.usual
        inside = usual_among(product.compiled.constraint, usual.constraint)
        rules = weights.rules if len(weights.rules) else np.zeros(len(usual.usual))
        low, high = score_range(product, replace(weights, rules=rules[inside]))
        apart = np.delete(rules, inside)
        return low + float(np.minimum(apart, 0.0).sum()), high + float(np.maximum(apart, 0.0).sum())

    def space(self, weights: EdgeWeights, product: Product) -> Space:
        """The trajectories with their weights, embedded where these differ much; `product` as in `log_range`."""
        low, high = self.log_range(weights, product)
        if high - low <= 2.0:  # nats
            return Space(self.oracle, partial(walk_scores, self.spelled, weights), high)
        # Below w_max / N all weights together are less than w_max: no need to tell them apart. What is lighter than 64
        # halvings keeps its exact weight, as copies do: coarse rounding costs a little of w_max, and saves adders.
        most = min(64, math.ceil(self.log2_count))
        levels = Levels(high, 1, min(Levels.covering(high, low).n_levels, most))
        return self.embedding(weights, levels, rounding=0.2).residual()

    def embedding(
        self, weights: EdgeWeights, levels: Levels, listed_scores: Floats | None = None, rounding: float = ADDER_ERROR
    ) -> Embedding:
        """Copies in proportion to the weights, none above levels.log_max: thresholds in the list, or by one adder.

        `listed_scores` are the log weights of the listed trajectories, where the caller has them. `rounding` is by how
        many nats the adder may misjudge a weight: it adds log-weights in whole multiples of a small unit.
        """
        space = Space(self.oracle, partial(walk_scores, self.spelled, weights), levels.log_max)
        if self.walks is not None:
            values = self.spelled.scores(weights, self.walks) if listed_scores is None else listed_scores
            assert isinstance(self.oracle, ListedOracle)
            listed = self.oracle.with_levels((levels.buckets(values), levels.n_levels, levels.bits_per_level))
            return Embedding(space, listed, levels)
        places, longest = self.encoding.places, self.world.max_length
        unit = 2 * rounding / (longest + 1 + len(weights.rules))
        per_edge = np.stack([weights.at(t) for t in range(max(longest, 1) if places.timed else 1)])
        per_start = np.where(weights.log_start > -np.inf, weights.log_start, 0.0)
        each = per_edge, per_start, weights.rules
        edges, starts, rules = (np.rint(values / unit).astype(np.int64) for values in each)
        thresholds = tuple(math.floor(threshold / unit) for threshold in levels.thresholds)
        times = places.station[places.source] if places.timed else np.zeros(len(places.edge), dtype=np.int64)
        at_starts = starts[places.state[places.starts]]
        added = edges[times, places.edge], at_starts, list(thresholds), rules.tolist()
        formula, below = self.encoding.with_thresholds(*added)
        oracle = self._solver(sampling.embed(formula, below, levels.bits_per_level))
        depth = partial(rounded_depth, self.spelled, edges, starts, rules, thresholds)
        return Embedding(space, oracle, levels, depth, rounding)


def _try_to_list(compiled: CompiledConstraint, oracle: str) -> Walks | None:
    """All valid trajectories where the oracle may be a list and there are few enough."""
    if oracle not in ("auto", "listed"):
        return None
    try:
        walks = list_walks(feasible_product(compiled, max_nodes=1_000_000), MAX_LISTED)
    except ProductTooLargeError:
        walks = None
    if walks is None and oracle == "listed":
        raise EngineError(
            f"oracle='listed' needs all valid trajectories in a list, and there are more than {MAX_LISTED:,} of them "
            "(or the product that finds them is too large). Use oracle='auto' or 'cryptominisat'."
        )
    return walks


class PawsSamples(NamedTuple):
    """What `sample_paws` drew: trajectories, the parameters of the sampler, and what the draws cost."""

    trajectories: list[Trajectory]
    plan: PawsPlan
    info: Info


class XorDistribution(Estimating):
    """Samples from hash cells within `guarantee.delta`; estimates from whole cells with standard errors."""

    engine = "xor"

    def __init__(
        self, hashed: HashedWorld, relaxation: Relaxation, law: Law, seed: Seed, settings: EngineSettings
    ) -> None:
        super().__init__(law, seed)
        self.hashed, self.relaxation, self.settings = hashed, relaxation, settings
        self._cell_size = settings.cell_size or DEFAULT_CELL_SIZE
        self.oracle = hashed.oracle.name
        self.guarantee = Guarantee(*settings.guarantee)
        # Estimates and plans have streams of their own: answers do not depend on the order of questions.
        planning, self._estimate_seed = np.random.SeedSequence(int(self._rng.integers(2**63))).spawn(2)
        self._plan_seed, self._parities_seed = planning.spawn(2)
        self.info = Info()

    def _spend(self, spent: Info) -> None:
        with lock_of(self):
            self.info += spent

    def sizes(self) -> dict[str, Any]:
        formula, width = self.hashed.encoding.formula, self.hashed.decoder.width
        sizes = {"hash variables": width, "variables": formula.n_variables, "clauses": formula.n_clauses}
        return {"oracle": self.oracle, **sizes}

    @once
    def _space(self) -> Space:
        return self.hashed.space(self.weights, self.relaxation.product)

    @once
    def n_parities(self) -> int:
        """The number of parities of an estimate's cells."""
        m, spent = sampling.choose_parities(self._space, self._cell_size, np.random.default_rng(self._parities_seed))
        self._spend(spent)
        return m

    @once
    def _plan(self) -> CellPlan:
        rng, (delta, failure) = np.random.default_rng(self._plan_seed), self.guarantee
        bound = sampling.bound_partition(self._space, self.n_parities, failure, rng, cell_size=self._cell_size)
        self._spend(bound.info)
        return CellPlan.solve(delta, bound, cell_size=self.settings.cell_size)

    @once
    def _estimate(self) -> CellEstimate:
        rng = np.random.default_rng(self._estimate_seed)
        function = partial(walk_function, self.hashed.spelled, self.weights)
        found = sampling.estimate(self._space, self.n_parities, 64, rng, function)  # by 64 fresh matrices
        self._spend(found.info)
        return found

    @property
    def _log_partition(self) -> tuple[float, float]:
        return self._estimate.log_partition, self._estimate.log_partition_std

    @property
    def _averages(self) -> tuple[Floats, Floats]:
        return self._estimate.expectation, self._estimate.expectation_std

    def with_reward(self, reward: Reward | ArrayLike | None) -> "XorDistribution":
        return XorDistribution(self.hashed, self.relaxation, self.law.with_reward(reward), self._rng, self.settings)

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        wanted, rng = require_count(n, self.world), self._generator(seed)
        if not wanted:
            return []
        rows, spent = sampling.sample_cells(self._space, self._plan, wanted, rng)
        self._spend(spent)
        return release(self.hashed.decoder.decode(rows[:, : self.hashed.decoder.width]), self.law.compiled)

    def sample_paws(self, n: int, seed: Seed = None, **choices: Any) -> PawsSamples:
        """n samples by the paper's own sampler under the same guarantee, its parameters, and what it cost.

        parameters="XOR-CD" has its authors' own, which guarantee nothing.
        """
        wanted, rng, hashed = require_count(n, self.world), self._generator(seed), self.hashed
        low, high = hashed.log_range(self.weights, self.relaxation.product)
        if "parameters" in choices:
            require_choice("parameters", choices["parameters"], ("XOR-CD",))
            plan = PawsPlan.xor_cd(self.guarantee.failure, hashed.decoder.width)
            told = "XOR-CD's parameters, P = 8, alpha = 1, b = 1 and l = 10, guarantee nothing: delta is infinite."
            notify(f"{told} Leave them out to have a stated factor.", GuaranteeWarning)
        else:
            choices = {"thinned": not choices.get("faithful", False), **choices}
            choices["rounding"] = 0.0 if hashed.walks is not None else ADDER_ERROR
            plan = PawsPlan.solve(*self.guarantee, log_span=high - low, n_hash=hashed.decoder.width, **choices)
        embedding = hashed.embedding(self.weights, plan.levels(high))
        k, searched = sampling.find_level(embedding, plan, rng)
        rows, spent = sampling.sample_paws(embedding, plan, k, wanted, rng)
        return PawsSamples(release(hashed.decoder.decode(rows), self.law.compiled), plan, searched + spent)

    def __repr__(self) -> str:
        decoder = self.hashed.decoder
        return (
            f"{super().__repr__()[:-1]}; oracle {self.oracle}, parities over {decoder.width} bits, "
            f"delta {self.guarantee.delta:g} except with probability {self.guarantee.failure:g}>"
        )
