"""Trips that were seen in part, all at once: the weight of all trips that explain each record, and their uses of edges.

The first and the last entry of a record y_0 .. y_K are the trip's ends, and every position between them was recorded
with probability q. With M on the nodes of a product, A the M without the rows of the goal, P_i = diag p(y_i | node),
and B_i(n) what is still to come where n is entered while y_i is the entry that will be read next,

    B_i = (1 - q) A B_i + q P_i A B_{i+1},        p(y) Z = p(y_0 | start) (A B_1)(start)

at nodes that are not of the goal. There B_K is p(y_K | goal) times what ending is worth, and all others are 0. So a leg
from one entry to the next is A (I - (1 - q) A)^-1. With D_i(n) for how much leaves n then,

    D_i = (1 - q) A^T D_i + q P_{i-1} A^T D_{i-1},        D_1 = 1 / (A B_1) at the start,

edge (n, m) is used sum_i D_i(n) M_nm B_i(m) times, given y. All legs of all records with one q share one factorisation
of I - (1 - q) M, which `many_goals` corrects at goals: two columns for each leg. Where positions are known q is 1. A
record that is only the beginning has one leg more, in which nothing is read: B_{K+1} is the z of `many_goals`, and the
last entry may be read at the goal, too.

What is certified is that of `many_goals`; records that are not served are left to the caller.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmen.events import Ints
from xmen.product.factor import EPSILON
from xmen.product.many_goals import BATCH, FLOOR, Batch, OpenProduct, Reached, System, flows
from xmen.worlds.sightings import Sighting
from xmen.worlds.walks import Floats

CELLS = 1 << 24  # numbers that a batch keeps of its legs


class Explained(NamedTuple):
    """What one evaluation found of n records."""

    log_z: Floats  # (n,) log p(y) Z; nan for those that were left
    visits: Floats  # (E + k,) expected uses of world edges given the records, and of rules that are usually kept
    each: Floats  # (n, d) the features of the trips behind each, where they were asked for


class Legs:
    """Records of trips from `origin` (nodes) to `goal` (states), both (n,), through one product."""

    def __init__(self, product: OpenProduct, origin: Ints, goal: Ints, sightings: Sequence[Sighting]) -> None:
        self.product, self.origin, self.goal = product, origin, goal
        self.n_legs, self.height = np.array([len(y) - 1 for y in sightings]), np.zeros(len(sightings))
        self._last, rows = np.cumsum(self.n_legs + 1) - 1, list[csr_matrix]()
        for k, y in enumerate(sightings):
            logs = y.log_rows(product.world)
            most = np.maximum(logs.max(axis=1), -1e300)  # finite, of an impossible entry, too
            rows.append(csr_matrix(np.exp(logs - most[:, None])))
            self.height[k] = most.sum()
        self._rows = csr_matrix(vstack(rows))
        kinds = [(1.0 if y.each is None else float(y.each), bool(y.more)) for y in sightings]
        of_kind = {kind: np.array([k for k, own in enumerate(kinds) if own == kind]) for kind in dict.fromkeys(kinds)}
        self._groups = {kind: own[np.argsort(goal[own], kind="stable")] for kind, own in of_kind.items()}

    def seen(self, records: Ints, back: Ints | int) -> Floats:
        """p(entry | state), the largest 1, of the entry so many before the last (n_states, records)."""
        return np.asarray(self._rows[self._last[records] - back].toarray().T)

    def solve(self, log_weight: Floats, weights: Floats | None = None, features: csr_matrix | None = None) -> Explained:
        """log p(y) Z under log-weights of world edges, and after them of rules; uses summed with weights (n,), if any.

        With features (E + k, d) also those of each record.
        """
        product, n, n_edges = self.product, len(self.goal), len(self.product.world.source)
        weight, rules = np.exp(log_weight[product.edge]), log_weight[n_edges:]
        weights, log_z, matrix = np.zeros(n) if weights is None else weights, np.full(n, np.nan), product.matrix(weight)
        features = csr_matrix((len(log_weight), 0)) if features is None else features
        weighed = csr_matrix(features[product.edge].multiply(weight[:, None])).T.tocsr()
        through, visits, each = np.zeros(len(weight)), np.zeros(len(log_weight)), np.zeros((n, features.shape[1]))
        for (q, more), records in self._groups.items():
            shares = [1.0, 1.0 - q] if more else [1.0 - q]
            try:
                systems = [System(product, self.origin, share * weight, rules) for share in shares]
            except np.linalg.LinAlgError:
                continue
            step = max(1, min(BATCH, CELLS // (product.n_nodes * (1 + int(self.n_legs[records].max())))))
            for begin in range(0, len(records), step):
                some = records[begin : begin + step]
                batch = _Batch(self, systems, q, some, matrix)
                through += batch.pass_on(weights[some], weighed)
                kept = batch.ended.T @ product.keeps
                visits[n_edges:] += weights[some] @ kept
                log_z[some], each[some] = batch.log_z, batch.each + kept @ features[n_edges:]
        visits[:n_edges] = np.bincount(product.edge, weights=through * weight, minlength=n_edges)
        return Explained(log_z, visits, each)


class _Leg(NamedTuple):
    """This leg for some records of a batch, counted from the last."""

    on: Ints  # which of them have it (k,)
    reached: Reached
    value: Floats  # B (n, k), the largest of each record 1
    missed: Floats  # by how much B misses its equations (n, k)
    read: Floats  # q p(entry | node) of the entry at its end over the largest B before that, 0 at the goal (n, k)


class _Batch:
    """Some records of one kind, in the order of their goals: `log_z` of each (m,), and once passed on their trips."""

    ended: Floats  # how often they end at each node (n, m)
    each: Floats  # their features (m, d)

    def __init__(self, every: Legs, systems: Sequence[System], q: float, records: Ints, matrix: csr_matrix) -> None:
        self._product, self._matrix, unseen = every.product, matrix, systems[-1].matrix
        goals, of = np.unique(every.goal[records], return_inverse=True)
        both = [Reached(system, Batch(goals.tolist(), []), whole=False) for system in systems]
        n_legs, state, column, reached = every.n_legs[records], self._product.state, np.arange(len(records)), both[-1]
        self._of, self._origin, self._ends = of, every.origin[records], reached.column[:, None] == of
        self._certain = np.logical_and.reduce([one.certain for one in both])[of]
        after, height, self._legs = np.zeros(self._ends.shape), every.height[records], list[_Leg]()
        if len(both) > 1:  # what follows a beginning, after which nothing is read
            after, nothing = both[0].z[:, of], np.zeros(self._ends.shape)
            self._legs.append(_Leg(column, both[0], after.copy(), nothing, nothing))
        self._first = n_legs + len(self._legs) - 1  # the number of each record's first leg, -1 where there is none
        for back in range(int(n_legs.max())):
            on = np.flatnonzero(n_legs > back)
            seen, ends = every.seen(records[on], back), self._ends[:, on]
            read = np.where(ends, 0.0, q * seen[state])
            right = read * (matrix @ after[:, on])
            value = reached.solve(right, of[on])
            missed = np.where(ends, 0.0, np.abs(right + unseen @ value - value))
            if not back:
                value += reached.z[:, of[on]] * seen[goals[of[on]], np.arange(len(on))]
            size = value.max(axis=0)
            size[size == 0.0] = 1.0
            after[:, on], height[on] = value / size, height[on] + np.log(size)
            self._legs.append(_Leg(on, reached, after[:, on], missed / size, read / size))
        self._stays = self._ends[self._origin, column]
        self._begun = np.asarray(matrix[self._origin].multiply(after.T).sum(axis=1)).ravel()
        self._begun[self._stays] = np.where(n_legs == 0, reached.system.ends[self._origin], 0.0)[self._stays]
        first = every.seen(records, n_legs)[state[self._origin], column]
        total = self._begun * first
        self._certain &= total > 0.0  # what is next to nothing may have been lost
        self._log_z = np.log(total, out=np.full(len(of), np.nan), where=self._certain) + height

    @property
    def log_z(self) -> Floats:
        """log p(y) Z of each (m,), nan where it is not certain."""
        return np.where(self._certain, self._log_z, np.nan)

    def pass_on(self, weights: Floats, features: csr_matrix) -> Floats:
        """What edges of weight 1 are used by all with weights (m,), (E,); features are (d, E) of weighed edges."""
        product, m = self._product, len(weights)
        used, self.each, self.ended = np.zeros(len(product.edge)), np.zeros((m, features.shape[0])), 0.0 * self._ends
        onward, known = np.zeros(self._ends.shape), self._certain.copy()
        starting = np.divide(1.0, self._begun, out=np.zeros(m), where=known & ~self._stays)
        for number, leg in reversed(list(enumerate(self._legs))):
            new = np.flatnonzero(self._first == number)
            onward[self._origin[new], new] = starting[new]
            of, right, own = self._of[leg.on], onward[:, leg.on], weights[leg.on]
            x = leg.reached.flow(right.copy(), of)
            graph, goals = (*product.incoming, leg.reached.system.weight), (leg.reached.column, of, FLOOR)
            through, missed = flows(*graph, own * x, own * right, leg.value, *goals)
            used += through
            lost = np.sum(x * (leg.missed + EPSILON * leg.value), axis=0)
            self._certain[leg.on] &= leg.reached.close(missed, leg.value, own) & leg.reached.close(lost, leg.value, 1.0)
            arriving = self._matrix.T @ x
            self.ended[:, leg.on] += np.where(self._ends[:, leg.on], arriving * leg.value, 0.0)
            if features.shape[0]:
                self.each[leg.on] += (features @ (x[product.source] * leg.value[product.target])).T
            onward[:, leg.on] = leg.read * arriving
        if np.any(known & ~self._certain):
            return self.pass_on(weights, features)
        stays = np.flatnonzero(known & self._stays)
        self.ended[self._origin[stays], stays] = 1.0
        return used
