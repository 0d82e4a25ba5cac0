"""Demonstrations seen in part: what is known of each, as the likelihood of a record given the trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, Self, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmen.errors import TrajectoryError, XmenError
from xmen.options import as_int, is_number, require_number
from xmen.worlds.names import Names, hashable, is_missing, unknown
from xmen.worlds.network import Network
from xmen.worlds.transitions import Transitions

Floats = NDArray[np.float64]


# ---- Noise: how likely an entry is, given the state that it was made in


@runtime_checkable
class Noise(Protocol):
    """How entries of a record come about."""

    def log_likelihood(self, world: Transitions, entry: Any) -> Floats:
        """log p(entry | state) of every state of the world, shape (n_states,)."""


@dataclass(frozen=True)
class Confusion:
    """The true state, or by mistake another one, each as likely."""

    error: float

    def log_likelihood(self, world: Transitions, entry: Any) -> Floats:
        with np.errstate(divide="ignore"):
            out = np.full(world.n_states, np.log(self.error / max(1, world.n_states - 1)))
        out[read_state(world, entry)] = np.log1p(-self.error)
        return out


@dataclass(frozen=True)
class Gaussian:
    """Points that scatter around the place of the state, as far in every direction."""

    sigma: float

    def log_likelihood(self, world: Transitions, entry: Any) -> Floats:
        try:
            point = np.asarray(entry, dtype=np.float64)
        except (TypeError, ValueError):
            point = np.empty(0)
        if point.shape != (2,) or not np.isfinite(point).all():
            raise TrajectoryError(f"{entry!r:.60} is no point: under xm.gaussian an entry is a pair of numbers (x, y)")
        measure = getattr(world, "squared_distances", None)
        if measure is None:
            kind = type(world).__name__
            raise TrajectoryError(
                f"xm.gaussian needs the places of states, and this {kind} has none: use a GridWorld, or "
                "a network of a graph whose nodes have places"
            )
        out: Floats = -0.5 * measure(point) / self.sigma**2 - np.log(2.0 * np.pi * self.sigma**2)
        return out


@dataclass(frozen=True)
class Symbols:
    """Entries are symbols: column numbers of a table of p(symbol | state)."""

    table: Floats = field(repr=False, compare=False)  # (n_states, n_symbols)
    content: str  # a digest of it

    def log_likelihood(self, world: Transitions, entry: Any) -> Floats:
        n_states, n_symbols = self.table.shape
        if n_states != world.n_states:
            raise TrajectoryError(f"noise has {n_states} rows, but the world has {world.n_states} states")
        symbol = as_int(entry)
        if symbol is None or not 0 <= symbol < n_symbols:
            raise TrajectoryError(f"{entry!r:.60} is no symbol: noise has the columns 0 to {n_symbols - 1}")
        with np.errstate(divide="ignore"):
            return np.log(self.table[:, symbol])


def confusion(error: float) -> Confusion:
    """Noise by which an entry is the true state with probability 1 - error, else one of the others, each as likely.

    Parameters
    ----------
    error
        The probability that an entry is wrong: 0 or more, and below 1.

    Returns
    -------
    Noise
        For `Sighting(seen, noise=...)`.

    Examples
    --------
    >>> import xmen as xm
    >>> line = xm.MDP(3, 1, [(0, 0, 1, 1.0), (1, 0, 2, 1.0)], start=0, terminal=2)
    >>> np.exp(xm.Sighting([0, None], noise=xm.confusion(0.2)).log_rows(line)).round(3).tolist()
    [[0.8, 0.1, 0.1], [1.0, 1.0, 1.0]]
    """
    require_number("error of confusion(error)", error, least=0.0, below=1.0)
    return Confusion(float(error))


def gaussian(sigma: float) -> Gaussian:
    """Noise by which entries are points (x, y) that scatter around the place of the state.

    Parameters
    ----------
    sigma
        The standard deviation in each direction, in the units of the world's places: cell (x, y) of a grid lies at the
        point (x, y).

    Returns
    -------
    Noise
        For `Sighting(seen, noise=...)`.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(2, 1, start=(0, 0), goal=(1, 0))
    >>> rows = xm.Sighting([(0.2, 0.1), (0.9, 0.0)], noise=xm.gaussian(0.5)).log_rows(grid)
    >>> rows.argmax(axis=1).tolist()
    [0, 1]
    """
    require_number("sigma of gaussian(sigma)", sigma, above=0.0)
    return Gaussian(float(sigma))


def read_state(world: Transitions, entry: Any) -> int:
    """The number of a state in any form that the world reads; TrajectoryError for what is none."""
    named = isinstance(getattr(world, "network", world), Network)  # where integers may be names, as for `task`
    state = Names(world).state(entry, named)
    if state >= world.n_states:
        raise TrajectoryError(unknown("state", state, world.n_states))
    return state


_tables: WeakValueDictionary[str, Symbols] = WeakValueDictionary()  # one for all sightings, however many


def _read_noise(noise: object) -> Noise | None:
    if noise is None or isinstance(noise, Noise):
        return noise
    try:
        table = np.array(noise, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or not table.size:
        known = (
            "None, xm.confusion(e), xm.gaussian(sigma) or an array of p(symbol | state), shape (n_states, n_symbols)"
        )
        raise TrajectoryError(f"noise is {known}; got {noise!r:.60}")
    wrong = np.argwhere(~(np.isfinite(table) & (table >= 0.0)))
    if len(wrong):
        row, column = wrong[0]
        where = f"of symbol {column} in state {row}"
        raise TrajectoryError(f"noise is finite numbers, 0 or more; the probability {where} is {table[row, column]}")
    table.flags.writeable = False
    content = sha256(f"{table.shape} ".encode() + table.tobytes()).hexdigest()
    return _tables.setdefault(content, Symbols(table, content))


# ---- One record


@dataclass(frozen=True)
class Sighting:
    """What was seen of one trajectory: a record y with a likelihood p(y | tau), to learn from and to condition on.

    Parameters
    ----------
    seen
        An entry for each position 0 .. L: a state in any form that the world reads, or None where nothing was seen.
    noise
        None: what was seen is true. `xm.confusion(e)`, `xm.gaussian(sigma)` (entries are points), or an array of
        p(symbol | state), shape (n_states, n_symbols) (entries are symbols, by number).
    more
        False: these are all positions, and trajectories of another length have likelihood 0. True: they are the first
        ones, trailing None among them; shorter trajectories have likelihood 0, and what follows is free.
    each
        A number q: positions are not known. The first and the last position of the trajectory are the first and the
        last entry, and every position between them was recorded with probability q, independently; p(y | tau) sums over
        the ways to read the entries so. With `more`, only the first entry is certain to be an end.
    start, goal
        Of a trip through a network, where they are known although entries are noisy or missing.

    Raises
    ------
    TrajectoryError
        When entries, noise or numbers make no sense; what fits no world shows where the sighting is used.

    Examples
    --------
    >>> import xmen as xm
    >>> grid = xm.GridWorld(3, 3, start=(0, 0), goal=(2, 2), moves=("up", "right"))
    >>> y = Sighting([(0, 0), None, (1, 1), None, (2, 2)])
    >>> y.n_seen, np.exp(y.log_rows(grid)).sum(axis=1).tolist()  # how many states are possible at each position
    (3, [1.0, 9.0, 1.0, 9.0, 1.0])
    """

    seen: Sequence[Any]
    noise: Any = None
    more: bool = False
    each: float | None = None
    start: Any = None
    goal: Any = None

    def __post_init__(self) -> None:
        entries: Any = self.seen
        if isinstance(entries, str | bytes | dict) or not isinstance(entries, Iterable):
            raise TrajectoryError(
                f"seen has an entry for each position, None where nothing was seen; got {entries!r:.60}"
            )
        entries = tuple(None if is_missing(entry) else hashable(_plain(entry)) for entry in entries)
        if not entries:
            raise TrajectoryError("seen is empty: a trajectory has one position or more, None where nothing was seen")
        if not isinstance(self.more, bool | np.bool_):
            raise TrajectoryError(f"more is True (a beginning) or False (all positions); got {self.more!r:.60}")
        if self.each is not None:
            if not (is_number(self.each) and 0.0 <= self.each <= 1.0):
                raise TrajectoryError(f"each is a probability, from 0 to 1, or None; got {self.each!r:.60}")
            if None in entries:
                raise TrajectoryError(
                    f"entry {entries.index(None)} is None, but with each={self.each:g} positions are not known: leave "
                    "out what was not seen"
                )
        object.__setattr__(self, "seen", entries)
        object.__setattr__(self, "noise", _read_noise(self.noise))

    @classmethod
    def likelihood(cls, rows: ArrayLike, more: bool = False) -> Self:
        """A sighting by its likelihood, for noise of any kind.

        Parameters
        ----------
        rows
            Shape (L + 1, n_states): p(y_t | s_t), any numbers of 0 or more. A row of ones says nothing.
        more
            As for `Sighting`.

        Returns
        -------
        Sighting
            Its entries are the numbers of the rows.

        Raises
        ------
        TrajectoryError
            When rows are no such numbers.
        """
        try:
            table = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError):
            table = np.empty(0)
        if table.ndim != 2 or not table.size:
            raise TrajectoryError(f"rows is an array (L + 1, n_states) of p(y_t | s_t); got shape {np.shape(rows)}")
        return cls(range(len(table)), noise=table.T, more=more)

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def n_seen(self) -> int:
        """The number of entries that are not None."""
        return sum(entry is not None for entry in self.seen)

    @property
    def certain(self) -> bool:
        """Whether what was seen is true."""
        return self.noise is None

    def log_rows(self, world: Transitions) -> Floats:
        """log p(entry | state) of each entry, 0 where nothing was seen.

        Parameters
        ----------
        world
            The world or the network in which entries are states.

        Returns
        -------
        NDArray
            Shape (number of entries, n_states), -inf where an entry is impossible.

        Raises
        ------
        TrajectoryError
            When an entry is none of this world's; it names the position.
        """
        noise: Noise = self.noise or Confusion(0.0)  # what was seen is true
        rows = np.zeros((len(self.seen), world.n_states))
        for position, entry in enumerate(self.seen):
            if entry is not None:
                try:
                    rows[position] = noise.log_likelihood(world, entry)
                except XmenError as error:
                    raise TrajectoryError(
                        f"{'position' if self.each is None else 'entry'} {position}: {error}"
                    ) from None
        return rows


def _plain(entry: Any) -> Any:
    return entry.tolist() if isinstance(entry, np.ndarray | np.generic) else entry
