"""What a model of trips says about a whole network: flows of many trips, and what changes when links close."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmen.constraints.occurrence import never
from xmen.engines.reject_trips import RejectTrips
from xmen.engines.trips import TripEngine, have_a_way, trip_budget
from xmen.errors import EngineError, ProductTooLargeError, XmenError
from xmen.events import at
from xmen.rewards import Floats
from xmen.worlds.network import Network

if TYPE_CHECKING:
    from xmen.learners.base import Learner, Rules

FLOW_DRAWS = 300  # of every pair, where rules have to reject

Demand = Iterable[Sequence[Any]]
"""Rows (start, goal, number of trips), or a data frame whose first three columns are these."""


class Flows(NamedTuple):
    """Expected numbers of trips: through each transition (E,) and each state (n_states,), ends included."""

    transitions: Floats
    states: Floats
    log_z: Floats  # (rows,) of each pair of the demand


class Closure(NamedTuple):
    """What closing links does: flows before and after, and of each row of the demand what has to change.

    `rerouted` (rows,) is the share of a row's trips that used what is closed; `lost` the rows that have no way left
    that keeps the rules, whose trips are in `before` only.
    """

    before: Flows
    after: Flows
    rerouted: Floats
    lost: NDArray[np.bool_]


def flows(model: Learner, demand: Demand, also: Rules = None) -> Flows:
    """Expected flows of a table of trips under a fitted model of a network."""
    starts, goals, amounts = _read(model, demand)
    return _flows(model, starts, goals, amounts, also)


def closure(model: Learner, demand: Demand, closed: Sequence[Any], also: Rules = None) -> Closure:
    """Flows before and after some states (links) are closed, and who has to go another way.

    A trip keeps clear of them with probability exp(log Z without - log Z with), exactly.
    """
    network = model.world
    assert isinstance(network, Network)
    starts, goals, amounts = _read(model, demand)
    closed = [network.number(state) for state in closed]
    before = _flows(model, starts, goals, amounts, also)
    rule = never(at(*closed)).named("closed")
    rules = [rule] if also is None else [rule, *([also] if not isinstance(also, Iterable) else also)]
    budget = trip_budget(model._engine_settings().max_nodes, network)
    lost = ~have_a_way(network, model._rule(rules), starts, goals, budget)
    rerouted = np.ones(len(starts))
    nothing = np.zeros(len(network.source))
    after = Flows(nothing, np.zeros(network.n_states), np.full(len(starts), -np.inf))
    if not lost.all():
        found = _flows(model, starts[~lost], goals[~lost], amounts[~lost], rules)
        log_z = after.log_z.copy()
        log_z[~lost] = found.log_z
        after = found._replace(log_z=log_z)
        rerouted = 1.0 - np.exp(np.minimum(log_z - before.log_z, 0.0))
    return Closure(before, after, rerouted, lost)


def _read(model: Learner, demand: Demand) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    network = model.world
    if not isinstance(network, Network):
        raise EngineError(f"flows are of models of a Network; this one is of a {type(network).__name__}.")
    model._require_fitted()
    if hasattr(demand, "columns") and hasattr(demand, "__getitem__"):  # a frame of pandas, polars and their kin
        demand = list(zip(*(list(demand[name]) for name in list(demand.columns)[:3]), strict=True))
    try:
        rows = [(network.number(start), network.number(goal), number) for start, goal, number in demand]
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    except XmenError:  # a place that is not there, under its name
        raise
    except (TypeError, ValueError):
        raise EngineError("demand is rows (start, goal, number of trips).") from None
    starts, goals, amounts = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]
    ends = table[:, :2]
    wrong = np.flatnonzero(
        ~np.all((ends >= 0) & (ends < network.n_states) & (ends == np.floor(ends)), axis=1) | ~(amounts >= 0)
    )
    if len(wrong) or not len(table):
        row = f"row {wrong[0]} is {table[wrong[0]].tolist()}" if len(wrong) else "there are no rows"
        raise EngineError(
            f"demand is rows (start, goal, number of trips) with states 0 to {network.n_states - 1}; {row}."
        )
    return starts, goals, amounts


def _flows(model: Learner, starts: NDArray[np.int64], goals: NDArray[np.int64], amounts: Floats, also: Any) -> Flows:
    network = model.world
    assert isinstance(network, Network)
    reward = model.reward_.table()[network.source, network.action]
    problem = (network, model._rule(also), starts, goals, amounts)
    budget = trip_budget(model._engine_settings().max_nodes, network)
    try:
        engine = TripEngine(*problem, budget, model.discount, model._engine_settings().device)
        log_z, visits = engine.value(reward)
    except ProductTooLargeError:
        trips = RejectTrips(*problem, budget)
        engine = trips.engine
        log_z, visits = trips.value(reward, FLOW_DRAWS, np.random.default_rng(0))
    states = np.bincount(network.target, weights=visits, minlength=network.n_states).astype(np.float64)
    np.add.at(states, starts, amounts)
    return Flows(visits, states, log_z[engine.pair_of])
