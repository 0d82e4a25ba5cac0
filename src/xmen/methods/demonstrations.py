"""Demonstrations as arrays: checked against a world and a constraint all at once, weighted, and summed up."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack

from xmen.constraints.constraint import Constraint
from xmen.engines.diagnosis import feasible_product
from xmen.engines.exact import ExactDistribution
from xmen.engines.seen import SeenTogether, first_state, trip_ends
from xmen.errors import ProductTooLargeError, TrajectoryError, XmenError
from xmen.machines.tables import CompiledConstraint, MachineTable
from xmen.rewards.linear import Features, Floats
from xmen.worlds import MDP, AnyTask, Trajectory, Walks, check_demos
from xmen.worlds.demos import as_trajectories, refuse
from xmen.worlds.sightings import Sighting, read_state
from xmen.worlds.tables import RecordedDemos

MOST_NODES_ASKED = 1_000_000  # of a product that is made only to find out whether rules contradict each other
BATCH_ENTRIES = 4_000_000  # states held in one padded table while machines run over it


@dataclass(frozen=True)
class Demonstrations:
    """Walks with weights, and which of them are valid; only valid ones may be summed up.

    Those that were seen in part come after the walks, wherever several are asked for together.
    """

    walks: Walks
    weights: Floats  # (n,), summing to 1 with those of sightings
    valid: NDArray[np.bool_]
    machines: Sequence[MachineTable] = ()  # that checked them, for engines over the same world
    kept: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))  # (n, k) usual rules
    sightings: tuple[Sighting, ...] = ()
    seen_weights: Floats = field(default_factory=lambda: np.zeros(0))
    order: NDArray[np.int64] | None = None  # of each demonstration as it was given, its place here

    def __len__(self) -> int:
        return len(self.walks) + len(self.sightings)

    @property
    def all_weights(self) -> Floats:
        """Of walks and of sightings after them."""
        return np.concatenate([self.weights, self.seen_weights])

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each begins, sightings after walks, of which the first entries have to be certain."""
        seen = [first_state(sighting, self.walks.world) for sighting in self.sightings]
        return np.append(self.walks.starts, seen).astype(np.int64)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Start and goal of each trip through a network (2, n), sightings after walks."""
        assert isinstance(self.walks.world, AnyTask)
        seen = [trip_ends(sighting, self.walks.world.network) for sighting in self.sightings]
        whole = np.stack([self.walks.starts, self.walks.last_states]).astype(np.int64)
        return np.hstack([whole, np.array(seen, dtype=np.int64).reshape(-1, 2).T])

    def seen_world(self, given: str | None) -> MDP:
        """The world to learn in: given the start, it starts where the demonstrations do, in their shares.

        The mean over demonstrations of log Z(s_0) is then the log-partition of that world's distribution.
        """
        world = self.walks.world
        if given is None:
            return world
        shares = np.bincount(self.starts, self.all_weights, minlength=world.n_states) * (world.start > 0.0)
        own = shares / shares.sum() if shares.any() else world.start  # `together` refuses whoever begins elsewhere
        return world.with_start(own)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each demonstration as it was given, sightings after walks."""
        return np.arange(len(self)) if self.order is None else np.argsort(self.order)

    def together(self, base: ExactDistribution) -> SeenTogether:
        """Those seen in part, read along the product of `base`; InfeasibleError where nothing explains one."""
        together = SeenTogether(base, self.sightings)
        together.require_explained(base, self.numbers[len(self.walks) :])
        return together

    def starting_in(self, start: int) -> "Demonstrations":
        """The demonstrations from one state, in the world that starts there."""
        own = (self.walks.starts == start) & (self.weights > 0)
        walks, weights = replace(self.walks[own], world=self.walks.world.with_start(start)), self.weights[own]
        return Demonstrations(walks, weights / weights.sum(), self.valid[own], self.machines, self.kept[own])

    def visits(self, discount: float = 1.0) -> Floats:
        """Mean discounted visits of each state and action, shape (n_states, n_actions)."""
        return self.walks.visits(discount, self.weights)

    def rows(self, discount: float = 1.0) -> csr_matrix:
        """Visits of each demonstration, and where rules are usually kept which of these it keeps after them."""
        visits = self.walks.visit_rows(discount)
        return hstack([visits, csr_matrix(self.kept)], format="csr") if self.kept.shape[1] else visits

    def trips(self) -> tuple[NDArray[np.integer], NDArray[np.integer], Floats]:
        """Start, goal and weight of each demonstration that counts, as the engines of a network take them."""
        counted = np.flatnonzero(self.all_weights > 0)
        return self.ends[0, counted], self.ends[1, counted], self.all_weights[counted]

    def feature_range(self, features: Features, discount: float = 1.0) -> tuple[Floats, Floats]:
        """The least and the largest f(tau) among demonstrations of positive weight, each (d,)."""
        low, high = np.full(features.d, np.inf), np.full(features.d, -np.inf)
        counted = np.flatnonzero(self.weights > 0)
        all_rows = self.walks.visit_rows(discount)
        batch = max(1, BATCH_ENTRIES // features.d)
        for begin in range(0, len(counted), batch):
            rows = features.contract(all_rows[counted[begin : begin + batch]])
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        return low, high

    def mean(self, values: Floats) -> float:
        """The weighted mean of one value per demonstration; those of weight 0 do not count, not even as -inf."""
        counted = self.all_weights > 0
        return float(values[counted] @ self.all_weights[counted])


def gather(
    world: MDP,
    constraint: Constraint | None,
    demos: Iterable[Trajectory | Sighting],
    sample_weight: ArrayLike | None = None,
    refuse_invalid: bool = True,
    known: Iterable[MachineTable] = (),
    sightings: bool = False,
) -> Demonstrations:
    """The demonstrations, checked: `valid` says which are possible in the world and keep the constraint.

    With `refuse_invalid`, those that are not raise an InvalidDemonstrationError, or an InfeasibleError where the
    constraint forbids everything. `known` machines are not compiled again. With `sightings` they may be seen in part;
    a sighting that one valid trajectory alone explains is that trajectory.
    """
    if constraint is not None:
        constraint.check_world(world)
    seen, given = dict[int, Sighting](), list[Any]()
    if sightings and isinstance(demos, Iterable) and not isinstance(demos, Trajectory | Sighting | str):
        names = getattr(demos, "names", ())
        given = RecordedDemos([_completed(world, constraint, demo) for demo in demos], (), names)
        seen = {place: demo for place, demo in enumerate(given) if isinstance(demo, Sighting)}
        demos = [demo for demo in given if not isinstance(demo, Sighting)] if seen else given
    trajectories = as_trajectories(demos, least=0 if seen else 1)
    partly = np.isin(np.arange(len(trajectories) + len(seen)), list(seen))
    all_weights = normalised_weights(sample_weight, len(partly))
    weights, order = all_weights[~partly], None
    if seen:
        share, order = weights.sum(), np.argsort(np.argsort(partly, kind="stable"))
        weights = share * normalised_weights(weights, len(weights)) if share > 0.0 else weights
    try:
        walks = Walks.of(world, trajectories)
    except OverflowError:  # a state too large for any world
        check_demos(world, trajectories)
        raise
    if isinstance(world, AnyTask):
        early = world.source[walks.edges] == walks.last_states[walks.owner]  # goes on after it has been where it ends
        passes_its_goal = np.bincount(walks.owner, weights=early, minlength=len(walks)) > 0
        possible = walks.possible() & (walks.lengths <= world.max_length) & ~passes_its_goal
    else:
        possible = walks.complete()
    valid = possible.copy()
    compiled = CompiledConstraint(constraint, world, known=known)
    kept = np.zeros((len(walks), len(compiled.usual)), dtype=np.bool_)
    if constraint is not None and possible.any():
        asked, batch = walks[possible], max(1, BATCH_ENTRIES // (int(walks[possible].lengths.max()) + 1))
        pieces = [asked[i : i + batch] for i in range(0, len(asked), batch)]
        valid[possible] = np.concatenate([compiled.check(piece) for piece in pieces])
        kept[possible] = np.concatenate([compiled.kept(piece) for piece in pieces])
    if refuse_invalid and not valid.all():
        if constraint is not None and possible.any() and not valid.any():
            with contextlib.suppress(ProductTooLargeError):  # do the rules contradict each other?
                feasible_product(compiled, MOST_NODES_ASKED)
        wrong = np.flatnonzero(~partly)[~valid].tolist()
        refuse(world, given if seen else trajectories, constraint, wrong)  # finds the words
        raise XmenError(f"demonstration {wrong[0]} is not valid, and its own check does not agree: please report it.")
    found = walks, weights, valid, compiled.tables, kept & valid[:, None]
    return Demonstrations(*found, tuple(seen.values()), all_weights[partly], order)


def _completed(world: MDP, constraint: Constraint | None, sighting: Any) -> Any:
    """The one valid trajectory that was seen from end to end for certain; what is given where there is no such one."""
    if not isinstance(sighting, Sighting):
        return sighting
    complete = sighting.certain and sighting.each is None and not sighting.more and None not in sighting.seen
    with contextlib.suppress(TrajectoryError):
        found = world.along([read_state(world, entry) for entry in sighting.seen]) if complete else None
        if found and world.problem(found) is None and (constraint is None or constraint.accepts(found)):
            return found
    return sighting


def normalised_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Weights (n,) that sum to 1; equal ones for None."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise TrajectoryError(f"sample_weight: weights must be numbers; got {sample_weight!r:.60}.") from None
    if weights.shape != (n,):
        raise TrajectoryError(f"sample_weight has shape {weights.shape} for {n} demonstrations: give one weight each.")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise TrajectoryError(f"sample_weight is finite, >= 0; got {weights[wrong[0]]} for demonstration {wrong[0]}.")
    if not weights.any():
        raise TrajectoryError("sample_weight is 0 for every demonstration: give at least one a positive weight.")
    weights /= weights.max()
    return np.asarray(weights / weights.sum())
