"""Demonstrations as arrays: checked against a world and a constraint all at once, weighted, and summed up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from xmen.constraints.constraint import Constraint
from xmen.engines.diagnosis import feasible_product
from xmen.errors import ProductTooLargeError, TrajectoryError, XmenError
from xmen.machines.tables import CompiledConstraint
from xmen.machines.walks import Walks
from xmen.rewards import Floats
from xmen.rewards.features import Features
from xmen.worlds.demos import check_demos
from xmen.worlds.mdp import MDP
from xmen.worlds.network import AnyTask
from xmen.worlds.trajectory import Trajectory

MOST_NODES = 1_000_000  # of a product that is made only to find out whether rules contradict each other
BATCH_ENTRIES = 4_000_000  # states held in one padded table while machines run over it


@dataclass(frozen=True)
class Demonstrations:
    """n demonstrations with weights that sum to 1; the steps of all of them stand one after the other.

    lengths, starts, weights, valid: (n,). edges: the world's transitions taken, -1 where impossible; owner: whose
    step it is; time: its t; all (steps,). Only valid ones may be summed up.
    """

    world: MDP
    lengths: NDArray[np.int64]
    starts: NDArray[np.int64]
    edges: NDArray[np.int64]
    owner: NDArray[np.int64]
    time: NDArray[np.int64]
    weights: Floats
    valid: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def goals(self) -> NDArray[np.int64]:
        """The last state of each (n,); of one that is not possible, any state."""
        last: NDArray[np.int64] = np.minimum(self.starts, self.world.n_states - 1)
        moved = np.flatnonzero(self.lengths > 0)
        last[moved] = self.world.target[self.edges[np.cumsum(self.lengths)[moved] - 1]]
        return last

    def seen_world(self, given: str | None) -> MDP:
        """The world to learn in: given the start, it starts where the demonstrations do, in their shares.

        The mean over demonstrations of log Z(s_0) is then the log-partition of that world's distribution.
        """
        if given is None:
            return self.world
        return self.world.with_start(np.bincount(self.starts, weights=self.weights, minlength=self.world.n_states))

    def visits(self, discount: float = 1.0) -> Floats:
        """Mean discounted visits of each state and action, shape (n_states, n_actions)."""
        world = self.world
        pairs = world.source[self.edges].astype(np.int64) * world.n_actions + world.action[self.edges]
        amounts = self.weights[self.owner] * discount ** self.time.astype(np.float64)
        flat = np.bincount(pairs, weights=amounts, minlength=world.n_states * world.n_actions).astype(np.float64)
        return flat.reshape(world.n_states, world.n_actions)

    def features(self, features: Floats, discount: float = 1.0) -> Floats:
        """Mean of f(tau) = sum_t gamma^t f(s_t, a_t), shape (d,), for features (n_states, n_actions, d)."""
        mean: Floats = np.einsum("sa,sad->d", self.visits(discount), features)
        return mean

    def feature_range(self, features: Features, discount: float = 1.0) -> tuple[Floats, Floats]:
        """The least and the largest f(tau) among demonstrations of positive weight, each (d,)."""
        low, high = np.full(features.d, np.inf), np.full(features.d, -np.inf)
        counted = np.flatnonzero(self.weights > 0)
        all_rows = self._visit_rows(discount)
        batch = max(1, BATCH_ENTRIES // features.d)
        for begin in range(0, len(counted), batch):
            rows = features.contract(all_rows[counted[begin : begin + batch]])
            low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        return low, high

    def _visit_rows(self, discount: float) -> csr_matrix:
        world = self.world
        pairs = world.source[self.edges].astype(np.int64) * world.n_actions + world.action[self.edges]
        amounts = discount ** self.time.astype(np.float64)
        return csr_matrix((amounts, (self.owner, pairs)), shape=(len(self), world.n_states * world.n_actions))

    def returns(self, table: Floats, discount: float = 1.0) -> Floats:
        """R(tau) of each demonstration under a reward table (n_states, n_actions); shape (n,)."""
        step = table[self.world.source[self.edges], self.world.action[self.edges]]
        step = step * discount ** self.time.astype(np.float64)
        return np.bincount(self.owner, weights=step, minlength=len(self)).astype(np.float64)

    def log_dynamics(self) -> Floats:
        """log D(tau) of each demonstration, shape (n,); -inf where it is not possible."""
        with np.errstate(divide="ignore"):
            step = np.where(self.edges >= 0, np.log(self.world.probability[self.edges]), -np.inf)
            total = np.log(np.where(self.starts < self.world.n_states, self._start_probability(), 0.0))
        np.add.at(total, self.owner, step)
        return total

    def _start_probability(self) -> Floats:
        return self.world.start[np.minimum(self.starts, self.world.n_states - 1)]

    def trajectories(self) -> list[Trajectory]:
        """The demonstrations as they were given."""
        world, ends = self.world, np.cumsum(self.lengths).tolist()
        out = []
        for start, begin, end in zip(self.starts.tolist(), [0, *ends], ends, strict=False):
            taken = self.edges[begin:end]
            out.append(Trajectory([start, *world.target[taken].tolist()], world.action[taken].tolist()))
        return out

    def mean(self, values: Floats) -> float:
        """The weighted mean of one value per demonstration; those of weight 0 do not count, not even as -inf."""
        counted = self.weights > 0
        return float(values[counted] @ self.weights[counted])


def gather(
    world: MDP,
    constraint: Constraint | None,
    demos: Iterable[Trajectory],
    sample_weight: ArrayLike | None = None,
    refuse_invalid: bool = True,
) -> Demonstrations:
    """The demonstrations, checked: `valid` says which are possible in the world and keep the constraint.

    With `refuse_invalid`, one that is not raises an InvalidDemonstrationError with its number, the constraint and
    the position, or an InfeasibleError where the constraint forbids everything. Linear in the number of steps, without
    a Python loop over them.
    """
    trajectories = listed(demos)
    weights = normalised_weights(sample_weight, len(trajectories))
    try:
        found = _read(world, trajectories, weights)
    except OverflowError:  # a state too large for any world
        check_demos(world, trajectories)
        raise
    possible = _possible(found)
    valid = possible.copy()
    if constraint is not None and possible.any():
        constraint.check_world(world)
        valid[possible] = _keeps(found, constraint, np.flatnonzero(possible))
    if refuse_invalid and not valid.all():
        if constraint is not None and possible.any() and not valid.any():
            _require_feasible(world, constraint)
        first = int(np.argmin(valid))
        check_demos(world, trajectories[: first + 1], constraint)  # finds the words
        raise XmenError(f"demonstration {first} is not valid, and its own check does not agree: please report it.")
    return Demonstrations(**{**vars(found), "valid": valid})


def _require_feasible(world: MDP, constraint: Constraint) -> None:
    """Raise InfeasibleError where the rules contradict each other, as far as that is quickly found out."""

    with contextlib.suppress(ProductTooLargeError):
        feasible_product(world, constraint, MOST_NODES)


def normalised_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Weights (n,) that sum to 1; equal ones for None."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise TrajectoryError(
            f"sample_weight must be numbers, one per demonstration; got {sample_weight!r:.60}."
        ) from None
    if weights.shape != (n,):
        raise TrajectoryError(
            f"sample_weight has shape {weights.shape}, but there are {n} demonstrations: give one weight each."
        )
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(wrong):
        raise TrajectoryError(
            f"sample_weight must be finite and not negative, but is {weights[wrong[0]]} for demonstration {wrong[0]}."
        )
    if not weights.any():
        raise TrajectoryError("sample_weight is 0 for every demonstration: give at least one a positive weight.")
    weights /= weights.max()
    normalised: Floats = weights / weights.sum()
    return normalised


def listed(demos: Any) -> list[Trajectory]:
    """A list of trajectories, one or more, or an error that says what was given instead."""
    if isinstance(demos, Iterable) and not isinstance(demos, Trajectory | str | bytes):
        listed: list[Trajectory] = list(demos)
        if not listed:
            raise TrajectoryError("no demonstrations: give at least one trajectory")
        for index, entry in enumerate(listed):
            if not isinstance(entry, Trajectory):
                raise TrajectoryError(
                    f"demonstration {index} must be a Trajectory, got {type(entry).__name__} {entry!r:.60}"
                )
        return listed
    raise TrajectoryError(
        "expected a list of trajectories, got one Trajectory: write [trajectory]"
        if isinstance(demos, Trajectory)
        else f"expected a list of trajectories, got {type(demos).__name__} {demos!r:.60}"
    )


def _read(world: MDP, trajectories: list[Trajectory], weights: Floats) -> Demonstrations:
    n = len(trajectories)
    lengths = np.fromiter(map(len, trajectories), dtype=np.int64, count=n)
    n_steps = int(lengths.sum())
    states = np.fromiter(chain.from_iterable(t.states for t in trajectories), dtype=np.int64, count=n_steps + n)
    actions = np.fromiter(chain.from_iterable(t.actions for t in trajectories), dtype=np.int64, count=n_steps)
    begins = np.concatenate([[0], np.cumsum(lengths + 1)])  # of each trajectory's states
    owner = np.repeat(np.arange(n), lengths)
    time = np.arange(n_steps) - (begins[:-1] - np.arange(n))[owner]
    here = begins[:-1][owner] + time
    edges = world.find_transitions(states[here], actions, states[here + 1])
    return Demonstrations(world, lengths, states[begins[:-1]], edges, owner, time, weights, np.ones(n, dtype=np.bool_))


def _possible(demos: Demonstrations) -> NDArray[np.bool_]:
    """Which are complete trajectories of the world."""
    world, lengths = demos.world, demos.lengths
    starts = np.minimum(demos.starts, world.n_states - 1)
    possible: NDArray[np.bool_] = (demos.starts < world.n_states) & (world.start[starts] > 0)
    possible &= np.bincount(demos.owner, weights=demos.edges < 0, minlength=len(demos)) == 0
    if isinstance(world, AnyTask):
        early = world.source[demos.edges] == demos.goals[demos.owner]
        possible &= np.bincount(demos.owner, weights=early, minlength=len(demos)) == 0
        return possible & (lengths <= world.max_length)
    if not world.has_terminal:
        possible &= lengths == world.horizon
        return possible
    if world.horizon is not None:
        possible &= lengths <= world.horizon
    possible &= world.terminal[demos.goals]
    return possible


def _keeps(demos: Demonstrations, constraint: Constraint, which: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these possible demonstrations keep the constraint, by its machines over padded batches."""

    compiled = CompiledConstraint(constraint, demos.world)
    ends = np.cumsum(demos.lengths)
    keeps = np.empty(len(which), dtype=np.bool_)
    batch = max(1, BATCH_ENTRIES // (int(demos.lengths.max()) + 1))
    for begin in range(0, len(which), batch):
        rows = which[begin : begin + batch]
        lengths = demos.lengths[rows]
        column = np.arange(max(1, int(lengths.max())))
        inside = column < lengths[:, None]
        edges = np.zeros(inside.shape, dtype=np.int32)
        edges[inside] = demos.edges[((ends[rows] - lengths)[:, None] + column)[inside]]
        walks = Walks(demos.starts[rows].astype(np.int32), edges, lengths.astype(np.int32))
        keeps[begin : begin + batch] = walks.valid(compiled)
    return keeps
