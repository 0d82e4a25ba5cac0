"""The minimum over draws, as far as they can be trusted: neither where few of them carry the weight, nor at infinity.

With a weight per state and some thousand draws there are directions along which every draw loses weight against the
demonstrations, although other valid trajectories gain it. The loss over the draws falls along them for ever, and
weights of 100 and more look best, which is ruin for what was not drawn. So small weights are preferred, by
restraint / 2 * |theta|^2 in units of the features. How much is found on halves of the draws: the weakest restraint
under which a fit to one half still gains on the other half. More draws bear less restraint, and all valid
trajectories none.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xmen.methods.doubt import doubts
from xmen.methods.drawn_loss import DrawnLoss
from xmen.methods.lbfgs import Lbfgs
from xmen.rewards import Floats
from xmen.rewards.features import Features

RESTRAINTS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)  # tried in turn
MOST_STEPS = 500  # of L-BFGS
FLAT_GRADIENT = 1e-6  # where L-BFGS ends, in units of the features' scale
EXACT_GRADIENT = 1e-7  # ... over all valid trajectories
# Of the draws that carry the weight at the start of a descent. At 0.25 and 1, on the tasks of `rounds`: no change with
# one weight per state; with four features 56 and 58 of 60 bounds cover, and 10,544 and 5,557 solutions are read.
WAY_BACK = 0.5
# Of the log of the acceptance in a descent, times the root of the number of draws of a part: those that are not valid
# cannot speak for longer ones that they never saw, and fewer of them have seen less.
MOST_CHANGE = 0.02
HELD = 0.5  # of the loss is enough to hold all of it
SHOWN = 8  # moves of L-BFGS that show enough of the curvature to say what is left to gain
HALVINGS = 10  # of a step of L-BFGS that goes too far


class Descent:
    """L-BFGS on losses over draws; wherever it goes, at least `least_seen` draws carry the weight.

    With a relaxation it ends where less than `left` nats are to be gained. `metric` is as that of `Lbfgs`.
    """

    def __init__(self, features: Features, least_seen: float, left: float = 0.0, metric: Floats | None = None) -> None:
        self.features, self.least_seen, self.left, self.metric = features, least_seen, left, metric

    def __call__(self, loss: DrawnLoss, weights: Floats) -> tuple[Floats, bool]:
        """The minimum, or how far draws carry the weight on the way to it; whether that was all the way."""
        exact = not loss.draws.noise.any()
        # Where nothing holds the loss, what is left to gain is not seen from how it curves here.
        left = self.left if loss.draws.relaxed.any() else -math.inf
        tol = EXACT_GRADIENT if exact else FLAT_GRADIENT
        optimiser = Lbfgs(loss, self.features.scale, self.features.reach, tol, self.metric)
        state = optimiser.start(weights)
        trusted = self._trust(loss, weights)
        while not state.finished and state.iteration < MOST_STEPS:
            before, state = state.weights, optimiser.step(state)
            if exact or trusted(state.weights):
                if len(state.steps) >= SHOWN and optimiser.decrement(state) <= left:
                    break
                continue
            step = state.weights - before
            for _ in range(HALVINGS):
                step = 0.5 * step
                if trusted(before + step):
                    return before + step, False
            return before, False
        return state.weights, True

    def _trust(self, loss: DrawnLoss, weights: Floats) -> Callable[[Floats], bool]:
        """Whether the draws can be trusted at other weights, for a descent that begins at these."""
        # Where older draws had led too far, fresh ones find few that carry the weight: the way back has to be open.
        least = min(self.least_seen, WAY_BACK * loss.seen(weights))
        here, most = loss.accepted(weights), MOST_CHANGE * math.sqrt(len(loss.draws) / len(loss.parts))
        return lambda there: loss.seen(there) >= least and abs(loss.accepted(there) - here) <= most

    def restraint(self, loss: DrawnLoss, weights: Floats) -> tuple[float, Floats]:
        """The restraint under which fits to halves of the draws, begun at some weights, are best on the other halves.

        With it comes the mean of these two fits, to begin the fit to all draws at.
        """
        # A relaxation that is known exactly has all trajectories, and holds the loss as far as the draws are trusted.
        held = float(loss.shares @ (loss.draws.relaxed > 0.0))
        if held >= HELD or not loss.draws.noise.any():
            return 0.0, weights
        halves = [loss.over(half) for half in loss.draws.halves()]
        if not all(half.draws.whole for half in halves):
            return RESTRAINTS[-1], weights
        for half in halves:
            half.doubt(doubts(half, weights))
        chosen, least, found, fits = 0.0, math.inf, weights, [weights, weights]
        for restraint in RESTRAINTS:
            fits = [self(half.restrained(restraint), fit)[0] for half, fit in zip(halves, fits, strict=True)]
            held_out = sum(half(fit).loss for half, fit in zip(halves, reversed(fits), strict=True))
            if not held_out < least:
                break
            chosen, least, found = restraint, held_out, 0.5 * (fits[0] + fits[1])
        return chosen, found
