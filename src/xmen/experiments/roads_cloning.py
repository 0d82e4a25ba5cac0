"""Behaviour cloning of trips: a network that predicts the next turn from the link and the goal, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from xmen.errors import MissingExtraError
from xmen.rewards import Floats
from xmen.worlds import Network, Trajectory

WIDTH, HIDDEN, BATCH, RATE = 64, 256, 512, 3e-3
DROPPED, SHRINKING = 0.2, 1e-2
FARTHEST = 10.0  # median links: a longer detour is as bad as any


class Cloning:
    """log pi(action | link, goal), trained on every step of every trip.

    The network sees an embedding of the link, one of the goal, and how much nearer every action comes to the goal by
    the shortest way, which Zhao and Liang's policies see too; and it has a weight of its own for every turn. `lengths`
    (n_states,) are those of the links.
    """

    def __init__(self, network: Network, lengths: Floats, epochs: int, seed: int) -> None:
        try:
            import torch
        except ImportError:
            raise MissingExtraError("torch", extra="neural", needed_for="the behaviour-cloning baseline") from None
        self.network, self.epochs = network, epochs
        torch.manual_seed(seed)
        self._torch = torch
        n, actions = network.n_states, network.n_actions
        self._links, self._goals = torch.nn.Embedding(n, WIDTH), torch.nn.Embedding(n, WIDTH)
        self._turns = torch.nn.Embedding(n, actions)
        torch.nn.init.zeros_(self._turns.weight)
        self._layers = torch.nn.Sequential(
            torch.nn.Linear(2 * WIDTH + actions, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Dropout(DROPPED),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Dropout(DROPPED),
            torch.nn.Linear(HIDDEN, actions),
        )
        self._modules = [self._links, self._goals, self._turns, self._layers]
        self._closed = torch.from_numpy(~network.available)
        self._after = torch.from_numpy(_after(network))
        self._left = torch.from_numpy(_distances(network, lengths).astype(np.float32))
        self._rng = np.random.default_rng(seed)

    def fit(
        self,
        demos: Sequence[Trajectory],
        validation: Sequence[Trajectory],
        done: Callable[[float], None] = lambda share: None,
    ) -> Cloning:
        """Adam with a falling rate; keeps the epoch that predicts the validation trips best."""
        torch = self._torch
        parameters = [p for module in self._modules for p in module.parameters()]
        optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=SHRINKING)
        states, goals, actions = (torch.from_numpy(x) for x in _steps(demos))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.epochs)
        best, kept = -np.inf, None
        for epoch in range(self.epochs):
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
            done((epoch + 1) / self.epochs)
        if kept is not None:
            for parameter, value in zip(parameters, kept, strict=True):
                parameter.data = value
        self._layers.eval()
        return self

    def _logits(self, states: Any, goals: Any) -> Any:
        nearer = self._left[states, goals][:, None] - self._left[self._after[states], goals[:, None]]
        nearer = nearer.clamp(-FARTHEST, FARTHEST).masked_fill(self._closed[states], 0.0)
        inputs = self._torch.cat([self._links(states), self._goals(goals), nearer], dim=1)
        return (self._layers(inputs) + self._turns(states)).masked_fill(self._closed[states], -1e9)

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
        """The greedy route of each trip's pair: the likeliest move at every link, at most so many of them."""
        torch, after = self._torch, _after(self.network)
        links = torch.arange(self.network.n_states)
        moves: dict[int, NDArray[np.int64]] = {}
        out = []
        for tau in demos:
            link, goal = tau.states[0], tau.states[-1]
            if goal not in moves:
                with torch.no_grad():
                    best = self._logits(links, torch.full_like(links, goal)).argmax(dim=1).numpy()
                moves[goal] = after[np.arange(len(after)), best]
            route = [link]
            while link != goal and len(route) <= most:
                link = int(moves[goal][link])
                route.append(link)
            out.append(route)
        return out


def _after(network: Network) -> NDArray[np.int64]:
    """The link that each action leads to (n_states, n_actions); the link itself where there is no such action."""
    after = np.repeat(np.arange(network.n_states)[:, None], network.n_actions, axis=1)
    after[network.source, network.action] = network.target
    return after


def _distances(network: Network, lengths: Floats) -> Floats:
    """The length of the shortest way from each link to each, in median links."""
    unit = float(np.median(lengths)) or 1.0
    entering = np.maximum(lengths[network.target] / unit, 1e-6)  # an entry of 0 would be no edge
    graph = csr_matrix((entering, (network.source, network.target)), shape=(network.n_states,) * 2)
    found: Floats = dijkstra(graph)
    return np.where(np.isfinite(found), found, 1e3)


def _steps(demos: Sequence[Trajectory]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The link, the goal and the action of every step of every trip."""
    states = np.array([s for tau in demos for s in tau.states[:-1]], dtype=np.int64)
    goals = np.array([tau.states[-1] for tau in demos for _ in tau.actions], dtype=np.int64)
    return states, goals, np.array([a for tau in demos for a in tau.actions], dtype=np.int64)
