"""X-MEN: maximum-entropy inverse reinforcement learning under hard constraints, with three ways to the gradient."""

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from xmen import errors
from xmen.constraints.constraint import require_hard, usual_rules
from xmen.constraints.occurrence import never
from xmen.engines.choose import answering, read_engine
from xmen.engines.distribution import Seed, as_constraint, generator
from xmen.engines.exact import ExactDistribution
from xmen.engines.seen import require_sighting
from xmen.engines.settings import EngineSettings
from xmen.engines.trips import RejectTrips, TripEngine, edge_rewards, have_a_way, seen_likelihoods
from xmen.errors import EngineError, Message, NotFittedError, ProductTooLargeError, RewardError, extra_module, notify
from xmen.events import Bools, Ints, at
from xmen.learners.base import Demos, GradientLearner, Progress, Rules, takes_parts
from xmen.learners.summary import known_names
from xmen.methods.cells import Cells
from xmen.methods.demonstrations import Demonstrations
from xmen.methods.exact import Exact
from xmen.methods.identify import warn_of_usual
from xmen.methods.information import refit
from xmen.methods.likelihood import DistributionLikelihood
from xmen.methods.neural import NeuralRun, Optimiser, Training
from xmen.methods.paper import Paper
from xmen.methods.reject import Reject
from xmen.methods.runs import DEFAULT_PATIENCE, Likelihood, Method, Run, Task
from xmen.options import Options, as_int, listed, require_choice, require_whole
from xmen.progress import Callback, Record
from xmen.rewards.linear import Floats, LinearReward
from xmen.rewards.neural import NeuralReward
from xmen.storage.models import storable
from xmen.worlds import MDP, Network, Sighting
from xmen.worlds.names import some
from xmen.worlds.sightings import read_state

METHODS: dict[str, type[Method]] = {"exact": Exact, "cells": Cells, "paper": Paper, "reject": Reject}
"""Every way to the gradient of XMEN, by its name."""

AUTO: tuple[type[Method], ...] = (Exact, Reject, Cells)
"""What method="auto" tries, in this order: the next where the product does not fit, or too few draws are valid."""

AUTO_TRIPS: tuple[type[Method], ...] = (Exact, Reject)
"""What method="auto" tries for trips through a network, in this order."""


def read_method(method: object) -> Method | None:
    """The record of a method that is given by name or as a record; None for "auto"."""
    if isinstance(method, Method):
        return method
    if isinstance(method, str) and method in ("auto", *METHODS):
        return None if method == "auto" else METHODS[method]()
    if isinstance(method, type) and issubclass(method, Method):
        raise EngineError(f"method={method.__name__} is the class: write method=xm.{method.__name__}().")
    known = listed(("auto", *METHODS))
    raise EngineError(f"unknown method {method!r}: choose one of {known}, or a record such as xm.Paper(n_samples=32).")


def parse_method(text: str) -> str | Method:
    """A method as it is written on a command line: "auto", "cells", "paper(n_samples=32, delta=1.05)".

    >>> parse_method("paper(n_samples=32)")
    Paper(n_samples=32)
    """
    name, bracket, _ = text.partition("(")
    name = name.strip().lower()
    require_choice("method", name, ("auto", *METHODS))
    if name == "auto" or not bracket:
        return read_method(name) or name
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise SyntaxError(text)
        choices = {str(part.arg): ast.literal_eval(part.value) for part in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise EngineError(f"a method is written as in paper(n_samples=32, delta=1.05); got {text!r:.60}.") from None
    try:
        return METHODS[name]().changed(**choices)
    except ValueError as error:
        raise EngineError(f"method {name}: {error}") from None


FLOW_DRAWS = 300  # of every pair, where rules have to reject
FLOW_STEP = 1e-4  # nats by which the reward of a move changes at most, for elasticities

Demand = Iterable[Sequence[Any]]
"""Rows (start, goal, number of trips), or a data frame: by the columns `start` and `goal`, else its first three."""


class Flows(NamedTuple):
    """Expected numbers of trips: through each transition (E,) and each state (n_states,), ends included."""

    transitions: Floats
    states: Floats
    log_z: Floats  # (rows,) of each pair of the demand
    network: Network

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each state: its name and its flow."""
        return _frame(self.network, flow=self.states)

    def to_geojson(self) -> dict[str, Any]:
        """A GeoJSON FeatureCollection of the network's links or nodes with their flows, for `json.dump`.

        Coordinates are as the graph has them; GeoJSON means longitude and latitude.
        """
        return _geojson(self.network, flow=self.states)


class Closure(NamedTuple):
    """What closing links does: flows before and after, and of each row of the demand what has to change."""

    before: Flows
    after: Flows
    rerouted: Floats  # (rows,) the share of a row's trips that used what is closed
    lost: Bools  # (rows,) which have no way left that keeps the rules: these are in `before` only

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each state: its name, its flow before and after, and the change."""
        return _frame(self.before.network, **self._columns())

    def to_geojson(self) -> dict[str, Any]:
        """A GeoJSON FeatureCollection of the network's links or nodes with these columns, as that of flows."""
        return _geojson(self.before.network, **self._columns())

    def _columns(self) -> dict[str, Floats]:
        before, after = self.before.states, self.after.states
        return {"before": before, "after": after, "change": after - before}


def _named(network: Network, columns: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """A record for each state: its name, under "link", "node" or "state", and its value in each column."""
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [network.state_fields(s) | dict(zip(columns, row, strict=True)) for s, row in enumerate(rows)]


def _frame(network: Network, **columns: Floats) -> Any:
    return extra_module("pandas", "to_frame()").DataFrame(_named(network, columns))


def _geojson(network: Any, **columns: Floats) -> dict[str, Any]:
    """Columns of all states; names are texts there, as in files."""
    if (shapes := getattr(network, "shapes", None)) is None:
        raise EngineError('GeoJSON takes the places of nodes: make networks of graphs whose nodes have "x" and "y".')
    features = []
    for record, shape in zip(_named(network, columns), shapes, strict=True):
        kind, place = ("LineString", shape) if network.joins_nodes else ("Point", shape[0])
        known = {name: value if isinstance(value, int | float) else str(value) for name, value in record.items()}
        geometry = {"type": kind, "coordinates": place.tolist()}
        features.append({"type": "Feature", "geometry": geometry, "properties": known})
    return {"type": "FeatureCollection", "features": features}


class MaximumEntropy(GradientLearner):
    """Learners of P(tau) = exp(R) D I_C / Z by maximum likelihood; subclasses are dataclasses of their settings."""

    takes_networks: ClassVar[bool] = True
    takes_usual: ClassVar[bool] = True
    takes_sightings: ClassVar[bool] = True
    records: ClassVar[Mapping[str, type[Options]]] = {"engine": EngineSettings, "progress": Progress}

    method: str | Method = "exact"

    def _check_settings(self) -> None:
        super()._check_settings()
        method = read_method(self.method)
        if isinstance(self.world, Network):
            if self.reward is not None:
                raise EngineError("on a network the reward is linear: give features, and leave reward out.")
            if self.given is not None:
                raise EngineError("on a network every trip is given its start and its goal already: leave given out.")
            if (gamma := self.discount) < 1.0 and self.world.horizon is None:
                raise EngineError(f"discount = {gamma:g} needs a horizon: Network(..., horizon=...), or discount = 1.")
        if method is not None:
            method.check(self._engine_settings(), self.given, self.reward is not None)
        usual = usual_rules(as_constraint(self.constraint))
        if usual and isinstance(method, Reject):
            what = "method='reject' takes hard rules only, and {!r} is usually kept: learn by another method."
            raise EngineError(Message(what, usual[0].label))
        if isinstance(method, Paper) and (given := [rule for rule in usual if rule.weight is not None]):
            what = "method='paper' learns every weight: leave weight={:g} of {!r} out, or use another method."
            raise EngineError(Message(what, given[0].weight, given[0].label))
        if self.fixed and method is not None and not method.keeps_fixed:
            raise EngineError(f"method={method.name!r} learns every weight: fixed needs method='exact' or 'auto'.")

    def _record(self, name: str) -> Options:
        if name == "method" and (method := read_method(self.method)) is not None:
            return method
        return super()._record(name)

    def _fit(self, demos: Demonstrations) -> None:
        if self._evaluates():
            return
        world = self.world.any_task
        if not world.deterministic and not self.in_place:
            astray = int(np.flatnonzero(world.probability < 1.0)[0])
            state, action = int(world.source[astray]), int(world.action[astray])
            notify(
                f"{world.describe_action(action)} in {world.describe_state(state)} has more than one outcome, and "
                "P(tau) takes outcomes for something that was chosen, too: of a demonstrator who could only choose "
                "actions it learns other weights than theirs. CausalXMEN learns those (xmen fit --learner causal).",
                errors.LuckWarning,
            )
        task, usual = self._task(demos), usual_rules(as_constraint(self.constraint))
        if demos.sightings and (given := [rule for rule in usual if rule.share is not None]):
            what = "share={:g} of {!r} is for complete trajectories, and some were seen in part: leave it out."
            raise EngineError(Message(what, given[0].share, given[0].label))
        method, run = self._prepare(task)
        asked = self._engine_settings()
        more = {name: getattr(asked, name) for name in ("max_nodes", "oracle", "time_limit")} | method.chosen()
        apart = ("engine",) if method.plans_with_max_iter else ("engine", "max_iter")  # the engine answers later
        outcome = self._drive(run, demos, apart, **more, method=method.name)
        self.method_ = method.name
        base, shares, found = outcome.base, task.shares, vars(self).get("rule_weights_", {})
        if usual and demos.sightings and isinstance(base, ExactDistribution):  # without weights, before the fit
            shares = shares + demos.together(base)(base)[1](demos.seen_weights)[-len(usual) :]
        if base is not None or not demos.sightings:
            warn_of_usual(usual, shares, found, outcome.converged)
        # Given the start, learning was in a world of the demonstrations' own starts: that one does not answer.
        if base is not None and base.world is self.world and asked.engine in ("auto", base.engine):
            fitted = base.with_reward(self._table()).with_reward(self.reward_)  # the weights of rules stay
            fitted.reason = base.reason
            self._answering = self._asked(), fitted

    def bootstrap(
        self, n: int = 200, demos: Demos | None = None, sample_weight: ArrayLike | None = None, seed: Seed = None
    ) -> Floats:
        """Linear weights fitted to resamples of the demonstrations, in a world all in the same passes over one product.

        Their spread is how far the weights would move with other demonstrations, whatever the likelihood looks like. On
        a device sixteen resamples share a pass.

        Parameters
        ----------
        n
            The number of resamples, each of as many demonstrations as there are, drawn with replacement.
        demos, sample_weight
            What the model was fitted to. None: what it was fitted to in this process.
        seed
            Of the resamples.

        Returns
        -------
        NDArray
            Shape (n, d): `.std(axis=0)` are standard errors, and quantiles are confidence intervals.

        Raises
        ------
        EngineError
            Where the reward is not linear, or not exactly learned.

        Examples
        --------
        >>> import xmen as xm
        >>> fork = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0)], start=0, terminal=[1, 2])
        >>> demos = 30 * [xm.Trajectory([0, 1], [0])] + 20 * [xm.Trajectory([0, 2], [1])]
        >>> goes_left = np.zeros((3, 2, 1)); goes_left[0, 0] = 1.0
        >>> spread = xm.XMEN(fork, None, goes_left).fit(demos).bootstrap(500, seed=0)
        >>> spread.shape, round(float(spread.std()), 1)  # sqrt(1/30 + 1/20) = 0.29
        ((500, 1), 0.3)
        """
        require_whole("n of bootstrap(n)", n, least=1)
        task = self._refit_task("bootstrap(n, demos)", demos, sample_weight)
        rng = generator(self.seed if seed is None else seed)
        counts = rng.multinomial(len(task.demos), task.demos.weights, size=n)
        settings, shares = self._fit_settings(), counts / len(task.demos)
        if self._has_tasks():
            return np.stack([model.weights_ for model in self._fits(task.demos, shares, [settings.l2] * n)])
        return refit(task, settings, self.weights_, shares, [settings.l2] * n)[0]

    def cross_validate(
        self,
        l2: Sequence[ArrayLike],
        folds: int | ArrayLike = 5,
        demos: Demos | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Floats:
        """How well each penalty tells held-out demonstrations, all its fits in the same passes over one product.

        The same numbers as `GridSearchCV(model, {"l2": l2}, cv=folds)`, which makes a product and a fit for each.

        Parameters
        ----------
        l2
            Penalties to compare, each a number or one per feature.
        folds
            Into how many parts the demonstrations are cut, in their order; or the part of each, such as its traveller.
        demos, sample_weight
            As in `bootstrap`.

        Returns
        -------
        NDArray
            Shape (len(l2), folds): the mean log-likelihood of each part under a fit to the others, as `score` has it.

        Raises
        ------
        EngineError
            Where `bootstrap` raises it, and for folds that leave nothing to learn from or nothing to judge by.
        """
        task = self._refit_task("cross_validate(l2, folds, demos)", demos, sample_weight)
        n, labels = len(task.demos), np.asarray(folds)
        if not isinstance(l2, Iterable) or not len(l2):
            raise EngineError(f"cross_validate compares the penalties of a list; got {l2!r:.60}.")
        if labels.ndim == 0:
            require_whole("folds", folds, least=2)
            parts = int(labels)
            fold = np.sort(np.arange(n) % parts)
        elif labels.shape != (n,):
            raise EngineError(f"folds has shape {labels.shape}, but there are {n} demonstrations: give one part each.")
        else:
            fold = np.unique(labels, return_inverse=True)[1].ravel()
            parts = int(fold.max()) + 1
        weight = np.bincount(fold, weights=task.demos.weights, minlength=parts)
        if parts < 2 or not np.all(weight > 0):
            some = f"folds makes {parts} of {n} demonstrations, {int(np.sum(weight > 0))} of them with any weight"
            raise EngineError(f"{some}: cross-validation takes two or more, each with a demonstration in it.")
        held = fold == np.arange(parts)[:, None]
        weighed = (rows * task.demos.weights for rows in (held, ~held))
        held_out, others = (np.tile(rows / rows.sum(axis=1, keepdims=True), (len(l2), 1)) for rows in weighed)
        penalties = [one for one in l2 for _ in held]
        if self._has_tasks():
            fits = self._fits(task.demos, others, penalties)
            scores = np.stack([model._log_likelihoods(task.demos)[0] for model in fits])
        else:
            theta, log_z, rows = refit(task, self._fit_settings(), self.weights_, others, penalties)
            scores = (rows @ theta.T + task.demos.walks.scores(task.law().weights)[:, None] - log_z).T
        found: Floats = np.sum(held_out * scores, axis=1).reshape(len(l2), parts)
        return found

    def _has_tasks(self) -> bool:
        """Whether demonstrations have tasks of their own, starts or goals, which change with their weights."""
        return isinstance(self.world, Network) or self.given is not None

    def _fits(self, demos: Demonstrations, shares: Floats, l2: Sequence[ArrayLike]) -> Iterator[Self]:
        """A fit of its own for each row of weights of the demonstrations, and its penalty."""
        settings = self.get_params(deep=False) | {"callback": None, "checkpoint": None, "validation": None}
        for weights, penalty in zip(shares, l2, strict=True):
            model = type(self)(**{**settings, "l2": penalty, "warm_start": False})
            model._validation = None
            with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
                warnings.simplefilter("ignore", errors.LearningWarning)  # they were said of the fit itself
                model._fit(replace(demos, weights=weights))
            yield model

    def _refit_task(self, call: str, demos: Demos | None, sample_weight: ArrayLike | None) -> Task:
        """What a fitted model is fitted to again; `call` is how its user gives demonstrations not at hand."""
        self._require_fitted()
        name = call.split("(")[0]
        require_hard(self._rule(), name)
        if not isinstance(self.reward_, LinearReward):
            raise EngineError(f"{name} is of linear weights; this reward is a {type(self.reward_).__name__}.")
        found = vars(self).get("_fitted_on") if demos is None else self._gather(demos, sample_weight)
        if found is None:
            raise NotFittedError(f"the demonstrations of this model are not at hand: give {call}.")
        if found.sightings:
            raise EngineError(f"{name} is of complete trajectories, and some were seen in part: use summary().")
        return self._task(found)

    def flows(self, demand: Demand, also: Rules = None) -> Flows:
        """Expected flows of many trips through a network, under `also`.

        Parameters
        ----------
        demand
            Rows (start, goal, number of trips).
        also
            Further rules.

        Returns
        -------
        Flows
            `transitions` (E,) and `states` (n_states,): expected numbers of trips through each; `log_z` of each row.
        """
        return self._flows(*self._read_demand(demand), also)

    def goals(self, sighting: Sighting, prior: Mapping[Any, float] | ArrayLike | None = None) -> Floats:
        """Where a trip through a network is going, from its beginning: the probability of each goal.

        P(goal | y) is in proportion to prior(goal) p(y | start, goal). One system serves all goals; a longer beginning
        is another question of the same cost.

        Parameters
        ----------
        sighting
            A beginning, `Sighting(..., more=True)`, that says where the trip starts.
        prior
            How likely goals are before: a number of each state, or of some by name. None: all states alike.

        Returns
        -------
        NDArray
            Shape (n_states,), summing to 1.

        Raises
        ------
        InfeasibleError
            Where no goal explains what was seen.
        """
        self._require_fitted()
        if not isinstance(network := self.world, Network):
            raise EngineError(f"goals are of models of a Network; this one is of a {type(network).__name__}.")
        if not require_sighting(sighting).more:
            raise EngineError("a trip that was seen to its end has its goal: ask goals of a beginning, with more=True.")
        shares = np.ones(network.n_states)
        if isinstance(prior, Mapping):
            shares[:] = 0.0
            shares[[read_state(network, name) for name in prior]] = list(prior.values())
        elif prior is not None:
            shares = np.array(prior, dtype=np.float64)
        if shares.shape != (network.n_states,) or not (np.all(shares >= 0.0) and 0.0 < shares.sum() < np.inf):
            raise EngineError(f"prior has a number of each of {network.n_states} states, 0 or more, not all of them 0.")
        goals, out = np.flatnonzero(shares), np.zeros(network.n_states)
        towards = [replace(sighting, goal=network.name_of(int(goal))) for goal in goals]
        log_shares = seen_likelihoods(*self._trip_problem(), towards)(self._table()) + np.log(shares[goals])
        if not np.any(log_shares > -np.inf):
            raise errors.InfeasibleError("no goal explains this beginning under the rules, among those of the prior.")
        out[goals] = softmax(log_shares)
        return out

    def closure(self, demand: Demand, closed: Sequence[Any], also: Rules = None) -> Closure:
        """What changes when some states of a network, such as links, are closed.

        Parameters
        ----------
        demand, also
            As for `flows`; further rules hold before and after.
        closed
            States that no trip may enter any more.

        Returns
        -------
        Closure
            Flows before and after, the share of each row's trips that is rerouted, and the rows that are lost.
        """
        network, starts, goals, amounts = self._read_demand(demand)
        rule = never(at(*(network.read_state(state) for state in closed))).named("closed")
        rules = [part for part in (rule, as_constraint(also)) if part is not None]
        before = self._flows(network, starts, goals, amounts, also)
        lost = ~have_a_way(network, self._rule(rules), starts, goals, self._engine_settings().max_nodes)
        log_z = np.full(len(starts), -np.inf)
        after = Flows(np.zeros(len(network.source)), np.zeros(network.n_states), log_z, network)
        if not lost.all():
            after = self._flows(network, starts[~lost], goals[~lost], amounts[~lost], rules)
            log_z[~lost] = after.log_z
        # A trip keeps clear of what is closed with probability exp(log Z without - log Z with), exactly.
        rerouted = 1.0 - np.exp(np.minimum(log_z - before.log_z, 0.0))
        return Closure(before, after._replace(log_z=log_z), rerouted, lost)

    def elasticities(self, demand: Demand, feature: int | str, links: Sequence[Any] | None = None) -> Floats:
        """Elasticities of flows, d log flow / d log feature, by central differences of exact flows.

        Parameters
        ----------
        demand
            As for `flows`.
        feature
            Its number, or the name that `summary` has.
        links
            Where the feature changes: in moves that enter these states. None: everywhere.

        Returns
        -------
        NDArray
            Shape (n_states,): by how many per cent the flow through each state changes where the feature grows by one
            per cent; nan without a flow.

        Raises
        ------
        ProductTooLargeError
            Where rules have to reject: differences of draws would be mostly their noise.
        """
        network, starts, goals, amounts = self._read_demand(demand)
        names, settings = known_names(self), self._engine_settings()
        column = names.index(feature) if isinstance(feature, str) and names.count(feature) == 1 else as_int(feature)
        if column is None or not 0 <= column < len(names):
            raise EngineError(f"{feature!r:.60} is no feature: they are {some(map(repr, names))}, numbered from 0.")
        rows = self._read_features().rows(network.source, network.action)
        change = rows[:, [column]].toarray()[:, 0] * self.weights_[column]
        if links is not None:
            change *= np.isin(network.target, [network.read_state(link) for link in links])
        rewards = edge_rewards(network, self._table())
        change = np.append(change, np.zeros(len(rewards) - len(change)))  # rules stay as they are
        engine = TripEngine(network, self._rule(), starts, goals, amounts, settings.max_nodes, self.discount)
        begun = np.bincount(starts, weights=amounts, minlength=network.n_states)
        step = FLOW_STEP / max(1.0, float(np.abs(change).max(initial=0.0)))
        less, now, more = (
            begun + np.bincount(network.target, visits[: len(network.target)], network.n_states)
            for visits in (engine.value(rewards + k * step * change).visits for k in (-1, 0, 1))
        )
        found: Floats = np.full(network.n_states, np.nan)
        np.divide(more - less, 2.0 * step * now, out=found, where=now > 0)
        return found

    def _read_demand(self, demand: Demand) -> tuple[Network, Ints, Ints, Floats]:
        """The network, and starts, goals and numbers of trips (rows,)."""
        if not isinstance(network := self.world, Network):
            raise EngineError(f"flows are of models of a Network; this one is of a {type(network).__name__}.")
        self._require_fitted()
        if hasattr(demand, "columns") and hasattr(demand, "__getitem__"):  # a frame of pandas, polars and their kin
            order, named = list(demand.columns), ("start", "goal")
            order = [*named, *(name for name in order if name not in named)] if {*named} <= {*order} else order
            demand = list(zip(*(list(demand[name]) for name in order[:3]), strict=True))
        try:
            rows = [(network.read_state(start), network.read_state(goal), number) for start, goal, number in demand]
            table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        except errors.XmenError:  # a place that is not there, under its name
            raise
        except (TypeError, ValueError):
            raise EngineError("demand is rows (start, goal, number of trips).") from None
        ends, amounts = table[:, :2], table[:, 2]
        possible = np.all((ends >= 0) & (ends < network.n_states) & (ends == np.floor(ends)), axis=1)
        wrong = np.flatnonzero(~possible | ~(amounts >= 0))
        if len(wrong) or not len(table):
            row = f"row {wrong[0]} is {table[wrong[0]].tolist()}" if len(wrong) else "there are no rows"
            last = network.n_states - 1
            raise EngineError(f"demand is rows (start, goal, number of trips) with states 0 to {last}; {row}.")
        return network, ends[:, 0].astype(np.int64), ends[:, 1].astype(np.int64), amounts

    def _flows(self, network: Network, starts: Ints, goals: Ints, amounts: Floats, also: Rules) -> Flows:
        reward, settings = edge_rewards(network, self._table(also)), self._engine_settings()
        problem = network, self._rule(also), starts, goals, amounts, settings.max_nodes
        try:
            engine = TripEngine(*problem, self.discount, settings.device)
            log_z, visits = engine.value(reward)
        except ProductTooLargeError:
            trips = RejectTrips(*problem)
            engine = trips.engine
            log_z, visits = trips.value(reward, FLOW_DRAWS, np.random.default_rng(0))
        visits = visits[: len(network.source)]
        states = np.bincount(network.target, weights=visits, minlength=network.n_states).astype(np.float64)
        np.add.at(states, starts, amounts)
        return Flows(visits, states, log_z[engine.pair_of], network)

    def _summary_notes(self) -> dict[str, str]:
        notes, rows = super()._summary_notes(), vars(self).get("acceptance_")
        if rows is None:
            return notes
        start, goal, least = rows[np.argmin(rows[:, 2])]
        names = [self.world.describe_state(int(state)) for state in (start, goal)]
        return notes | {
            "acceptance": f"{rows[:, 2].mean():.3f} on average over {len(rows)} pairs, {np.median(rows[:, 2]):.3f} in "
            f"the median, least {least:.3f} from {names[0]} to {names[1]}"
        }

    def _prepare(self, task: Task) -> tuple[Method, Run[Any]]:
        """The method that will be used, and its run."""
        chosen = read_method(self.method)
        network = self.world if isinstance(self.world, Network) else None
        settings, reward = self._begin()
        plain = reward is None and not usual_rules(task.constraint)  # what rejection learns from
        kinds = [kind for kind in (AUTO if network is None else AUTO_TRIPS) if plain or kind is not Reject]
        kinds = [kind for kind in kinds if kind.takes_sightings or not task.demos.sightings]

        def begun(method: Method) -> Run[Any]:
            if task.demos.sightings and (self.in_place or not method.takes_sightings):
                how = "fit_neural" if self.in_place else f"method={method.name!r}"
                what = f"{how} learns from complete trajectories, and some were seen in part"
                raise EngineError(f"{what}: XMEN with method='exact' learns from sightings.")
            if network is not None:
                return method.trip_run(task, settings, network)
            if reward is None:
                return method.run(task, settings)
            if self.in_place:  # the engine that was asked for finds the visits
                d = answering(task.law(), settings.engine, settings.seed)
                likelihood: Likelihood = DistributionLikelihood(d, task.demos.visits(task.discount))
            else:
                likelihood = method.likelihood(task, settings)
            return NeuralRun(likelihood, reward, self.training or Training(), settings, warn=not self.in_place)

        for kind in kinds[:-1] if chosen is None else ():
            with suppress(ProductTooLargeError):
                if (method := kind()).suits(task, settings):
                    return method, begun(method)
        last = chosen or kinds[-1]()
        return last, begun(last)


@storable
@takes_parts
@dataclass(eq=False, repr=False)
class XMEN(MaximumEntropy):
    """Learns the reward under which the demonstrations are most likely among all trajectories that keep the rules.

    Fits r(s, a) = theta . f(s, a) in P(tau) = exp(R) D I_C / Z. The loss is L(theta) = -mean R + log Z + l2/2
    |theta|^2, its gradient E_P[f] - mean f + l2 theta. `method` says how that gradient is found, `engine` what
    `distribution`, `sample` and `score` use afterwards.

    On a `Network` every demonstration is a trip with its own start and goal: the fit maximises the mean of log P(tau |
    its start, its goal), and `distribution`, `sample` and `policy` take `start=` and `goal=`.

    Ctrl-C stops a fit, and the model stays usable.

    Parameters
    ----------
    world
        An MDP, a GridWorld or a Network.
    constraint
        A constraint, several in a list or by name (all have to hold), or None for no rule.
    features
        Shape (n_states, n_actions, d), or a scipy.sparse matrix (n_states * n_actions, d) with row s * n_actions + a.
        None is one weight per state, whatever the action.
    discount
        gamma, with 0 < gamma <= 1.
    method
        "auto", or how the gradient is found. "exact", `xm.Exact()`: dynamic programming and L-BFGS, to the optimum; the
        default wherever the product fits `max_nodes`. "reject", `xm.Reject(...)`: exact draws under the rules that fit;
        the default where some do not and one draw in a thousand is valid, and on a Network. "cells", `xm.Cells(...)`:
        rounds of whole hash cells; the default elsewhere. "paper", `xm.Paper(...)`: Algorithm 1 of the paper. A name is
        the record with its defaults.
    engine
        What answers after the fit: a name, or a record such as `xm.Xor(delta=1.1)`. Settings of `xm.EngineSettings` are
        accepted here by their names as well. Of them a fit has `max_nodes`, `oracle`, `time_limit`, `device` and
        `precision`, too.
    seed
        Decides everything that is drawn.
    reward
        A NeuralReward, ConvReward or FeatureReward: a network is trained instead of weights. It stays as it is;
        `reward_` has a trained copy.
    training
        How a network is trained, such as `xm.Training("lbfgs")`. None is Adam.
    l2
        The penalty, a number or one per feature.
    max_iter
        The largest number of iterations; None is the method's own. 0 learns nothing, as where all weights are fixed:
        the model then answers for the weights it was given.
    tol
        When to stop; None is the method's own. "exact": no component of the gradient above it, in units of the largest
        value of its feature. "cells" and "reject": nats to the optimum. A network: the norm of the gradient.
    given
        "start": the likelihood is that of each demonstration given where it starts, and `score` is the mean of log
        P(tau | s_0). None: that of the whole trajectory. See `xm.distribution`.
    fixed
        Features, by number, with weights that are not learned.
    warm_start
        A further `fit` begins with the weights (or the network) of the last one, and not with zeros; L-BFGS, Adam and
        other optimisers go on with what they had seen. The model may have been saved and loaded in between.
    validation
        Demonstrations that are watched and not learned from: each record's details have their "validation_loss", minus
        `score`. The model is that of the iteration where it was least, `best_iteration_`.
    progress
        `xm.Progress(checkpoint=..., checkpoint_every=..., resume=..., callback=..., patience=...)`, each of which is
        accepted here by its name as well.

    Attributes
    ----------
    reward_
        The learned reward.
    weights_
        Its weights, shape (d,), if it is linear.
    rule_weights_
        With rules that are usually kept, the weight of each by its name, in nats: learned, or as it was given.
    history_
        One Record per iteration.
    n_iter_
        The number of iterations.
    converged_
        What the method can know of it: the gradient met `tol` ("exact"), the answer is within `tol` of the optimum or
        its noise ("cells", "reject"), the gradient was within its noise on average ("paper"). Otherwise a
        ConvergenceWarning says why not.
    method_
        The method that was used.
    weights_std_, distance_, distance_bound_
        After "cells" and "reject": the standard errors that its draws leave in the weights, how far the answer is from
        the optimum in nats, and a number above the true distance 95 times in 100: asymptotically, for one look, though
        a fit looks after every round. Infinite for fits that were stopped before fresh draws had judged them.
    acceptance_
        After "reject" on a Network: start, goal and share of valid draws of every pair.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
    >>> rule = xm.visit(grid.at((1, 2), (2, 1)))
    >>> shy = np.zeros((16, 2, 1)); shy[grid.state((2, 1))] = 1.0
    >>> demos = xm.distribution(grid, rule, -2.0 * shy[:, :, 0], seed=0).sample(300)
    >>> model = XMEN(grid, rule, features=shy).fit(demos)
    >>> bool(-2.5 < model.weights_[0] < -1.5), model.converged_
    (True, True)
    """

    world: MDP | Network
    constraint: Rules = None
    features: ArrayLike | None = None
    discount: float = 1.0
    method: str | Method = "auto"
    engine: str | EngineSettings = "auto"
    seed: Seed = None
    reward: NeuralReward | None = None
    training: Training | None = None
    l2: float | ArrayLike = 0.0
    max_iter: int | None = None
    tol: float | None = None
    given: str | None = None
    fixed: Mapping[int, float] | None = None
    warm_start: bool = False
    validation: Demos | None = None
    progress: Progress | None = None


def fit_neural(
    world: MDP,
    constraint: Rules,
    reward: NeuralReward,
    demos: Demos,
    *,
    discount: float = 1.0,
    sample_weight: ArrayLike | None = None,
    optimiser: Optimiser = "adam",
    learning_rate: float | None = None,
    n_steps: int = 100,
    l2: float = 0.0,
    callback: Callback | None = None,
    seed: int | None = None,
    engine: str | EngineSettings = "auto",
    max_nodes: int | None = None,
    n_threads: int | None = 1,
    validation: Demos | None = None,
    patience: int | None = DEFAULT_PATIENCE,
    device: str | None = None,
    precision: str = "float64",
) -> list[Record]:
    """Train the network of a reward in place on demonstrations.

    `XMEN(world, constraint, reward=reward)` trains a copy in the same way, with checkpoints, and keeps it as a model
    that can be saved. Ctrl-C ends training early; the network is then as it was after the last whole step.

    Parameters
    ----------
    reward
        The NeuralReward, ConvReward or FeatureReward whose network is trained.
    demos, sample_weight
        The demonstrations, all valid, and a weight for each.
    optimiser, learning_rate, n_threads
        As for `xm.Training`; None leaves torch its own number of threads.
    n_steps
        The largest number of steps.
    seed
        With a seed, two runs from the same parameters give the same result.
    engine, max_nodes, device, precision
        What finds the visits, as for `xm.distribution`.
    world, constraint, discount, l2, validation, callback, patience
        As for `XMEN`; the network ends as it was where the validation loss was least.

    Returns
    -------
    list[Record]
        One per step: the loss and the norm of its gradient before the step. There are fewer than `n_steps` when nothing
        moves any more.

    Raises
    ------
    InvalidDemonstrationError
        When a demonstration is not possible or breaks the constraint.
    EngineError, RewardError
        When a setting makes no sense. RewardError, too, when the network gives a number that is not finite; the
        parameters are then those before that step.
    """
    if not (isinstance(l2, int | float | np.number) and np.isfinite(l2) and l2 >= 0):
        raise RewardError(f"l2 is a number, 0 or more; got {l2!r}.")
    if not require_whole("n_steps", n_steps, least=0):
        return []
    training, watching = Training(optimiser, learning_rate, n_threads), Progress(callback=callback, patience=patience)
    settings = read_engine(engine, EngineSettings("auto", max_nodes, device=device, precision=precision))
    problem = world, constraint, None, discount, "auto", settings, seed
    learner = XMEN(*problem, reward, training, l2, n_steps, 0.0, validation=validation, progress=watching)
    learner.in_place = True
    learner._check_neural(reward)
    return learner.fit(demos, sample_weight).history_
