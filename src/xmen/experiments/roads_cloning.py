"""Behaviour cloning of trips: a network that scores the moves from a link towards a goal, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from xmen.experiments.roads_data import City
from xmen.rewards import Floats
from xmen.rewards.torch_backend import require_torch
from xmen.worlds import Network, Trajectory

WIDTH, HIDDEN, BATCH, RATE = 64, 128, 512, 3e-3
WARMING = 0.1  # of all steps, while the rate rises
DROPPED, FORGOTTEN, SHRINKING = 0.3, 0.2, 1e-2  # of hidden units, of embeddings; weight decay
FARTHEST = 10.0  # median links: a longer detour is as bad as any


class Cloning:
    """log pi(move | link, goal), trained on every step of every trip.

    Every move from a link gets a score, and pi is their soft-max. A score is seen in what the move enters and where
    the goal is: the 14 features of link and turn, how much nearer the goal is by the shortest way and how much of it is
    left (which Zhao and Liang's policies see too), the places of both and the direction from one to the other, an
    embedding of each; and every transition has a weight of its own.
    """

    def __init__(self, city: City, epochs: int, seed: int) -> None:
        torch = require_torch("the behaviour-cloning baseline")
        network = self.network = city.network
        self.epochs, self._torch, self._rng = epochs, torch, np.random.default_rng(seed)
        torch.manual_seed(seed)
        moves = _moves(network)
        self._slot = np.zeros((network.n_states, network.n_actions), dtype=np.int64)
        states, slots = np.nonzero(moves >= 0)
        self._slot[states, network.action[moves[states, slots]]] = slots
        self._moves, self._none = torch.from_numpy(np.maximum(moves, 0)), torch.from_numpy(moves < 0)
        self._target = torch.from_numpy(network.target.astype(np.int64))
        rows = network.source.astype(np.int64) * network.n_actions + network.action
        self._known = torch.from_numpy(city.features()[rows].toarray().astype(np.float32))
        self._left = torch.from_numpy(_distances(network, city.lengths).astype(np.float32))
        middle = city.lines.mean(axis=1)
        centre, spread = middle.mean(axis=0), float(middle.std())
        self._middle = torch.from_numpy(((middle - centre) / spread).astype(np.float32))
        self._end = torch.from_numpy(((city.lines[:, 1] - centre) / spread).astype(np.float32))
        self._heading = torch.nn.functional.normalize(self._end - self._middle, dim=1)
        self._links, self._goals = (torch.nn.Embedding(network.n_states, WIDTH) for _ in range(2))
        self._own = torch.nn.Embedding(len(network.source), 1)
        torch.nn.init.zeros_(self._own.weight)
        self._forget = torch.nn.Dropout(FORGOTTEN)
        self._layers = torch.nn.Sequential(
            torch.nn.Linear(2 * WIDTH + self._known.shape[1] + 10, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Dropout(DROPPED),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Dropout(DROPPED),
            torch.nn.Linear(HIDDEN, 1),
        )
        self._modules = torch.nn.ModuleList([self._links, self._goals, self._own, self._forget, self._layers])

    def fit(
        self,
        demos: Sequence[Trajectory],
        validation: Sequence[Trajectory],
        done: Callable[[float], None] = lambda share: None,
    ) -> Cloning:
        """Adam with a rate that rises and falls; keeps the epoch that predicts the validation trips best."""
        torch = self._torch
        optimiser = torch.optim.AdamW(self._modules.parameters(), lr=RATE, weight_decay=SHRINKING)
        states, goals, taken = self._steps(demos)
        n_batches = max(1, len(states) // BATCH)
        n_steps = self.epochs * n_batches + 1
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=n_steps, pct_start=WARMING)
        best, kept = -np.inf, None
        for epoch in range(self.epochs):
            self._modules.train()
            for rows in np.array_split(self._rng.permutation(len(states)), n_batches):
                chosen = torch.from_numpy(rows)
                optimiser.zero_grad()
                scores = self._scores(states[chosen], goals[chosen])
                torch.nn.functional.cross_entropy(scores, taken[chosen]).backward()
                optimiser.step()
                schedule.step()
            score = float(self.score_samples(validation).mean())
            if score > best:
                best = score
                kept = {name: value.clone() for name, value in self._modules.state_dict().items()}
            done((epoch + 1) / self.epochs)
        if kept is not None:
            self._modules.load_state_dict(kept)
        return self

    def _scores(self, states: Any, goals: Any) -> Any:
        """The score of each move from some links towards as many goals, (n, moves)."""
        torch, moves = self._torch, self._moves[states]
        entered, goal = self._target[moves], goals[:, None].expand(moves.shape)
        left = self._left[entered, goal]
        nearer = (self._left[states, goals][:, None] - left).clamp(-FARTHEST, FARTHEST)
        ahead = self._middle[goal] - self._end[entered]
        far = ahead.norm(dim=2, keepdim=True)
        towards = ahead / far.clamp(min=1e-6)
        seen = [nearer[..., None], left[..., None] / FARTHEST, self._known[moves], self._end[entered]]
        seen += [self._middle[goal], towards, far, (self._heading[entered] * towards).sum(dim=2, keepdim=True)]
        seen += [self._forget(self._links(entered)), self._forget(self._goals(goal))]
        scores = (self._layers(torch.cat(seen, dim=2)) + self._own(moves))[..., 0]
        return scores.masked_fill(self._none[states], -1e9)

    def _steps(self, demos: Sequence[Trajectory]) -> tuple[Any, Any, Any]:
        """The link, the goal and the move taken, as a number among those of its link, of every step of every trip."""
        states = np.array([s for tau in demos for s in tau.states[:-1]], dtype=np.int64)
        goals = np.array([tau.states[-1] for tau in demos for _ in tau.actions], dtype=np.int64)
        actions = np.array([a for tau in demos for a in tau.actions], dtype=np.int64)
        taken = self._slot[states, actions]
        return tuple(map(self._torch.from_numpy, (states, goals, taken)))

    def score_samples(self, demos: Sequence[Trajectory]) -> Floats:
        """log P(tau | start, goal) = sum of log pi of each trip."""
        torch = self._torch
        self._modules.eval()
        states, goals, taken = self._steps(demos)
        with torch.no_grad():
            steps = torch.log_softmax(self._scores(states, goals), dim=1)
            logs = steps[torch.arange(len(taken)), taken].numpy().astype(np.float64)
        owner = np.repeat(np.arange(len(demos)), [len(tau) for tau in demos])
        return np.bincount(owner, weights=logs, minlength=len(demos)).astype(np.float64)

    def routes(self, demos: Sequence[Trajectory], most: int) -> list[list[int]]:
        """The greedy route of each trip's pair: the likeliest move at every link, at most so many of them."""
        torch, links = self._torch, self._torch.arange(self.network.n_states)
        self._modules.eval()
        after: dict[int, list[int]] = {}
        out = []
        for tau in demos:
            link, goal = tau.states[0], tau.states[-1]
            if goal not in after:
                with torch.no_grad():
                    best = self._scores(links, torch.full_like(links, goal)).argmax(dim=1)
                after[goal] = self._target[self._moves[links, best]].tolist()
            route = [link]
            while link != goal and len(route) <= most:
                link = after[goal][link]
                route.append(link)
            out.append(route)
        return out


def _moves(network: Network) -> NDArray[np.int64]:
    """The transitions that leave each link, (n_states, most of a link); -1 where there are no more."""
    degrees = np.diff(network.row_start)
    moves = np.full((network.n_states, int(degrees.max())), -1, dtype=np.int64)
    edges = np.arange(len(network.source))
    moves[network.source, edges - network.row_start[network.source]] = edges
    return moves


def _distances(network: Network, lengths: Floats) -> Floats:
    """The length of the shortest way from each link to each, in median links; 100 at most."""
    unit = float(np.median(lengths)) or 1.0
    entering = np.maximum(lengths[network.target] / unit, 1e-6)  # an entry of 0 would be no edge
    graph = csr_matrix((entering, (network.source, network.target)), shape=(network.n_states,) * 2)
    found: Floats = np.minimum(dijkstra(graph), FARTHEST**2)
    return found
