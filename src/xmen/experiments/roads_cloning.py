"""Behaviour cloning of trips: a network that predicts the next turn from the link and the goal, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmen.errors import MissingExtraError
from xmen.rewards import Floats
from xmen.worlds.network import Network
from xmen.worlds.trajectory import Trajectory

WIDTH, HIDDEN, BATCH, RATE = 64, 256, 1024, 3e-3


class Cloning:
    """log pi(action | link, goal) by embeddings of both and two layers, trained on every step of every trip."""

    def __init__(self, network: Network, epochs: int, seed: int) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtraError("torch", extra="neural", needed_for="the behaviour-cloning baseline") from None
        self.network, self.epochs = network, epochs
        torch.manual_seed(seed)
        self._torch = torch
        n = network.n_states
        self._links, self._goals = torch.nn.Embedding(n, WIDTH), torch.nn.Embedding(n, WIDTH)
        self._layers = torch.nn.Sequential(
            torch.nn.Linear(2 * WIDTH, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, network.n_actions),
        )
        self._closed = torch.from_numpy(~network.available)
        self._rng = np.random.default_rng(seed)

    def fit(self, demos: Sequence[Trajectory], validation: Sequence[Trajectory]) -> Cloning:
        """Adam with a falling rate; keeps the epoch that predicts the validation trips best."""
        torch = self._torch
        modules = [self._links, self._goals, self._layers]
        parameters = [p for module in modules for p in module.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=RATE, weight_decay=1e-6)
        states, goals, actions = (torch.from_numpy(x) for x in _steps(demos))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        best, kept = -np.inf, None
        for _ in range(self.epochs):
            self._layers.train()
            for rows in np.array_split(self._rng.permutation(len(states)), max(1, len(states) // BATCH)):
                chosen = torch.from_numpy(rows)
                optimiser.zero_grad()
                logits = self._logits(states[chosen], goals[chosen])
                torch.nn.functional.cross_entropy(logits, actions[chosen]).backward()
                optimiser.step()
            schedule.step()
            score = float(self.score_samples(validation).mean())
            if score > best:
                best = score
                kept = [p.detach().clone() for p in parameters]
        if kept is not None:
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.data = value
        self._layers.eval()
        return self

    def _logits(self, states: Any, goals: Any) -> Any:
        inputs = self._torch.cat([self._links(states), self._goals(goals)], dim=1)
        return self._layers(inputs).masked_fill(self._closed[states], -1e9)

    def score_samples(self, demos: Sequence[Trajectory]) -> Floats:
        """log P(tau | start, goal) = sum of log pi of each trip."""
        torch = self._torch
        self._layers.eval()
        states, goals, actions = (torch.from_numpy(x) for x in _steps(demos))
        with torch.no_grad():
            steps = torch.log_softmax(self._logits(states, goals), dim=1)
            taken = steps[torch.arange(len(actions)), actions].numpy().astype(np.float64)
        owner = np.repeat(np.arange(len(demos)), [len(tau) for tau in demos])
        return np.bincount(owner, weights=taken, minlength=len(demos)).astype(np.float64)

    def routes(self, demos: Sequence[Trajectory], most: int) -> list[list[int]]:
        """The greedy route of each trip's pair: the likeliest move at every link, never to a link again."""
        torch, network = self._torch, self.network
        n = network.n_states
        states, goals = (np.repeat(np.arange(n), n), np.tile(np.arange(n), n))
        with torch.no_grad():
            table = self._logits(torch.from_numpy(states), torch.from_numpy(goals)).numpy().reshape(n, n, -1)
        after = np.full((n, network.n_actions), -1)
        after[network.source, network.action] = network.target
        out = []
        for tau in demos:
            link, goal = tau.states[0], tau.states[-1]
            route = [link]
            while link != goal and len(route) <= most:
                order = np.argsort(-table[link, goal])
                fresh = [a for a in order.tolist() if after[link, a] >= 0 and after[link, a] not in route]
                if not fresh:
                    break
                link = int(after[link, fresh[0]])
                route.append(link)
            out.append(route)
        return out


def _steps(demos: Sequence[Trajectory]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The link, the goal and the action of every step of every trip."""
    states = np.array([s for tau in demos for s in tau.states[:-1]], dtype=np.int64)
    goals = np.array([tau.states[-1] for tau in demos for _ in tau.actions], dtype=np.int64)
    return states, goals, np.array([a for tau in demos for a in tau.actions], dtype=np.int64)
