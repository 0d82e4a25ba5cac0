"""The reject engine: multiply the constraints that fit, sample from that relaxation exactly, reject with the rest.

A valid trajectory has the same weight in the relaxation and in the truth, so accepted samples are exact. What the
relaxation cannot carry is only the acceptance rate, which is measured and reported.
"""

import time
from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack

from xmen.constraints.constraint import Constraint, conjunction, units, usual_among
from xmen.engines.diagnosis import Parts, multiply
from xmen.engines.distribution import Distribution, Guarantee, Law, Seed
from xmen.engines.exact import SAMPLE_CELLS, ExactDistribution
from xmen.errors import EngineError, Message, ProductTooLargeError, joined
from xmen.machines.tables import CompiledConstraint, Watch, release
from xmen.options import require_whole
from xmen.product.best import best_walks
from xmen.product.graph import DEFAULT_MAX_NODES, Product
from xmen.progress import tell
from xmen.rewards import Floats, Reward
from xmen.sharing import once
from xmen.worlds import MDP, EdgeWeights, Sighting, Trajectory, Walks
from xmen.worlds.names import some
from xmen.worlds.walks import require_count

MOST_TRIED = 64  # constraints up to which each is multiplied by itself first; more are taken in as many groups
MOST_FAILURES = 4  # products in a row that did not fit, after which all larger constraints are left to reject
MOST_STATES = 1_000  # machine states that are listed to order many constraints by size
MOST_NAMED = 8  # constraints that a message lists by name


class Relaxation(NamedTuple):
    """The product that was affordable, what it carries, and what is left to reject."""

    product: Product
    multiplied: tuple[str, ...]
    rejecting: tuple[str, ...]
    shadows: tuple[str, ...] = ()  # what is multiplied in of those that are left

    @property
    def memory(self) -> str:
        """What the product remembers of rules that reject, as a sentence; '' where it remembers nothing."""
        return Message("The product remembers {}. ", joined(self.shadows, ", ", "{!r}")) if self.shadows else ""


def relax(world: MDP, constraint: Constraint | None, max_nodes: int) -> Relaxation:
    """Multiply constraints in, smallest product first, as long as the node budget allows.

    A constraint that does not fit leaves behind one of its own relaxations that does. Deciding costs at most about 3
    `MOST_TRIED` products within the budget, however many constraints there are.
    """
    product, n_failures = multiply(world, None, DEFAULT_MAX_NODES), 0
    budget = max(max_nodes, product.n_nodes)
    chosen, multiplied, rejecting, shadows = list[Constraint](), list[str](), list[str](), list[str]()
    for fits, group in _groups(world, units(constraint), budget):
        whole = conjunction([part for _, part in group])
        assert whole is not None
        first = [[whole]] if fits and n_failures < MOST_FAILURES else []
        ladders = chain(first, group[0][1].relaxations(world) if len(group) == 1 else ())
        taken: Constraint | None = None
        for ladder in ladders:
            for candidate in ladder:
                try:
                    product = multiply(world, conjunction([*chosen, candidate]), budget)
                except ProductTooLargeError:
                    n_failures += candidate is whole
                    break  # what comes after it is larger
                taken = candidate
            if taken is not None:
                chosen.append(taken)
                break
        n_failures = 0 if taken is whole else n_failures
        (multiplied if taken is whole else rejecting).extend(label for label, _ in group)
        shadows += [str(taken)] if taken is not None and taken is not whole else []
    return Relaxation(product, tuple(multiplied), tuple(rejecting), tuple(shadows))


def _groups(world: MDP, parts: Parts, budget: int) -> list[tuple[bool, Parts]]:
    """Constraints that go in together or not at all, smallest first, each with whether its own product may fit."""
    if len(parts) > MOST_TRIED:
        ordered = sorted(parts, key=lambda item: _machine_states(world, item[1]))
        size = -(-len(parts) // MOST_TRIED)
        return [(True, ordered[i : i + size]) for i in range(0, len(ordered), size)]
    sizes: list[float] = []
    for _, part in parts:
        try:
            sizes.append(multiply(world, part, budget).n_nodes)
        except ProductTooLargeError:
            sizes.append(np.inf)
    return [(sizes[i] < np.inf, [parts[i]]) for i in np.argsort(sizes, kind="stable").tolist()]


def _machine_states(world: MDP, part: Constraint) -> int:
    """The number of states of all machines of a constraint, over any order of this world's letters."""
    total = 0
    for table in CompiledConstraint(part, world).tables:
        known, letters = 0, np.arange(len(table.symbols), dtype=np.int32)
        while known < len(table) <= MOST_STATES:
            rows = np.arange(known, len(table), dtype=np.int32)
            known = len(table)
            table.step(np.repeat(rows, len(letters)), np.tile(letters, len(rows)))
        total += len(table)
    return total


def walk_values(walks: Walks, weights: EdgeWeights, scores: Floats) -> csr_matrix:
    """Discounted visits, state visits and log-weight (n,) of each walk, side by side."""
    return hstack([walks.visit_rows(weights.discount), walks.state_rows(), csr_matrix(scores[:, None])], format="csr")


class Estimating(Distribution):
    """Expectations from averages of `walk_values`."""

    @property
    @abstractmethod
    def _averages(self) -> tuple[Floats, Floats]:
        """The mean of `walk_values` and its standard error, (n_states * n_actions + n_states + 1,)."""

    @property
    def _visits(self) -> tuple[Floats, Floats]:
        mean, std = (values[: -self.world.n_states - 1].reshape(self.world.n_states, -1) for values in self._averages)
        return mean, std

    def state_visits(self) -> Floats:
        return self._averages[0][-self.world.n_states - 1 : -1]

    def entropy(self) -> float:
        """log Z - E[R + log D], estimated like both."""
        return float(self.log_partition() - self._averages[0][-1])


ESTIMATE_DRAWS = 100_000  # relaxed draws behind estimates of log Z and visits
FIRST_DRAWS = 2_000
FEW_EXPECTED = 10  # valid draws that a rate would have shown by now; with none, it is lower with probability 1 - e^-10
PATIENCE = 400_000  # relaxed draws in a row without an accepted one, after which a case is hopeless


class RejectDistribution(Estimating):
    """Exact samples by rejection; log Z and expectations are estimates with standard errors."""

    engine, reason = "reject", "asked for"
    guarantee = Guarantee(delta=1.0, failure=0.0)

    def __init__(self, relaxation: Relaxation, law: Law, seed: Seed, time_limit: float | None = None) -> None:
        super().__init__(law, seed)
        self.relaxation, self.time_limit = relaxation, time_limit
        product = relaxation.product
        self.relaxed = ExactDistribution(product, law.under(product.compiled.constraint), self._rng)
        # Rules that are usually kept and were not multiplied in thin the draws out: the others count 0.
        self._thinning = self.weights.rules.copy()
        self._thinning[usual_among(product.compiled.constraint, law.constraint)] = 0.0
        self._estimate_seed = np.random.SeedSequence(int(self._rng.integers(2**63)))

    @property
    def _most_worth(self) -> float:
        """What keeping and breaking those rules is worth at the most."""
        return float(np.maximum(self._thinning, 0.0).sum())

    @property
    def acceptance(self) -> float:
        """The share of relaxed draws that were valid, measured on the first draws."""
        return self._sums[1] / self._sums[0]

    def acceptance_or_less(self, least: float) -> float:
        """The acceptance; or what a few draws show, where they show that it is below `least`."""
        n_drawn = n_accepted = 0
        for _, valid in self.checked(np.random.default_rng(self._estimate_seed)):
            n_drawn, n_accepted = n_drawn + len(valid), n_accepted + int(valid.sum())
            if n_accepted >= 10 * least * n_drawn:
                break
            if n_drawn * least >= FEW_EXPECTED:
                if 2 * n_accepted < least * n_drawn:
                    return n_accepted / n_drawn
                break
        return self.acceptance

    def sizes(self) -> dict[str, Any]:
        rules = {"multiplied": list(self.relaxation.multiplied), "rejecting": list(self.relaxation.rejecting)}
        return {"acceptance": self.acceptance, "product nodes": self.relaxation.product.n_nodes, **rules}

    def checked(self, rng: np.random.Generator) -> Iterator[tuple[Walks, NDArray[np.bool_]]]:
        """Batches of relaxed draws without end, and which of them are valid."""
        size, largest = FIRST_DRAWS, max(1, SAMPLE_CELLS // (self.relaxation.product.usual_length + 1))
        n_drawn, n_valid, since, began = 0, 0, 0, time.perf_counter()
        while True:
            n = min(size, largest)
            walks = self.relaxed.draw(n, rng)
            kept = np.zeros(n, dtype=np.bool_)
            # A long check has to end in time, so it goes in pieces; draws do not, or the seed would not decide them.
            for begin in range(0, n, FIRST_DRAWS):
                piece = np.arange(begin, min(begin + FIRST_DRAWS, n))
                kept[piece] = self.law.compiled.check(walks[piece])
                if self._thinning.any():
                    worth = self.law.compiled.kept(walks[piece]) @ self._thinning - self._most_worth
                    kept[piece] &= rng.random(len(piece)) < np.exp(worth)
                n_drawn, n_valid = n_drawn + len(piece), n_valid + int(kept[piece].sum())
                since, began = (0, time.perf_counter()) if kept[piece].any() else (since + len(piece), began)
                tell(f"rejection: {n_valid:,} of {n_drawn:,} draws are valid")
                self._refuse_hopeless(since, time.perf_counter() - began)
            yield walks, kept
            size *= 2

    def _refuse_hopeless(self, n_in_vain: int, seconds: float) -> None:
        """Give up after many draws in a row of which none was valid, or a long time."""
        late = self.time_limit is not None and seconds > self.time_limit
        if n_in_vain >= PATIENCE or (n_in_vain and late):
            limit = f" within time_limit = {self.time_limit:g} s" if late else ""
            carried = some(map(repr, self.relaxation.multiplied), MOST_NAMED, none="the world alone")
            left = some(map(repr, self.relaxation.rejecting), MOST_NAMED)
            raise EngineError(
                f"rejection is hopeless here{limit}: none of {n_in_vain:,} draws that keep {carried} also kept "
                f"{left}, so fewer than about 1 in {max(2, n_in_vain // 3):,} does. "
                "Use engine='xor', raise max_nodes so that more is multiplied in, or loosen a constraint."
            )

    def _scores(self, walks: Walks) -> Floats:
        """The log-weight of each walk (n,)."""
        return self.law.scores(walks)

    def seen(self, sighting: Sighting) -> Distribution:
        from xmen.engines.seen import RejectPosterior  # which is made of this

        return RejectPosterior(self, (sighting,))

    def log_seen(self, sighting: Sighting) -> float:
        if self.relaxed.log_seen(sighting) == -np.inf:
            return -np.inf
        return float(self.seen(sighting).log_partition() - self.log_partition())

    @once
    def _sums(self) -> tuple[int, int, Floats]:
        """A fixed number of relaxed draws, how many were valid, and the sums of their values and of their squares."""
        n_drawn, n_valid, sums = 0, 0, np.zeros((2, 1))
        for walks, valid in self.checked(np.random.default_rng(self._estimate_seed)):
            values = walk_values(walks[valid], self.weights, self._scores(walks[valid]))
            n_drawn, n_valid = n_drawn + len(walks), n_valid + int(valid.sum())
            sums = sums + np.concatenate([values.sum(axis=0), values.power(2).sum(axis=0)])
            if n_drawn >= ESTIMATE_DRAWS and n_valid:
                break
        return n_drawn, n_valid, np.asarray(sums)

    @property
    def _averages(self) -> tuple[Floats, Floats]:
        _, n, (sums, squares) = self._sums
        mean = sums / n
        return mean, np.sqrt(np.maximum(squares / n - mean**2, 0.0) / max(n - 1, 1))

    @property
    def _log_partition(self) -> tuple[float, float]:
        rate, n = self.acceptance, self._sums[0]
        # That all draws were valid does not make the rate 1: one in as many could still break a rule.
        missed = max(1 - rate, 1 / (n + 1)) if self.relaxation.rejecting else 0.0
        log_z = self.relaxed.log_partition() + float(np.log(rate)) + self._most_worth
        return log_z, float(np.sqrt(missed / (rate * n)))

    def best(self, k: int) -> list[Trajectory]:
        """Exactly, as everywhere: a valid trajectory weighs the same in the relaxation, which guides the search."""
        require_whole("k of best(k)", k, least=0)
        if self._thinning.any():
            raise EngineError("best(k) needs the rules that are usually kept in the product: raise max_nodes.")
        walks = best_walks(self.relaxation.product, self.weights, int(k), Watch(self.law.compiled))
        return release(walks, self.law.compiled)

    def with_reward(self, reward: Reward | ArrayLike | None) -> "RejectDistribution":
        return RejectDistribution(self.relaxation, self.law.with_reward(reward), self._rng, self.time_limit)

    def sample(self, n: int, seed: Seed = None) -> list[Trajectory]:
        wanted, out = require_count(n, self.world), list[Trajectory]()
        for walks, valid in self.checked(self._generator(seed)) if wanted else ():
            out += release(walks[np.flatnonzero(valid)[: wanted - len(out)]], self.law.compiled)
            if len(out) == wanted:
                break
        return out

    def __repr__(self) -> str:
        product, *rules, _ = self.relaxation
        carried, left = (some(map(repr, names), MOST_NAMED, none="nothing") for names in rules)
        return f"{super().__repr__()[:-1]}; multiplied {carried} ({product.n_nodes:,} nodes), rejecting with {left}>"
