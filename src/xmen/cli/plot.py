"""`xmen plot`: one figure of a problem or a model."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from xmen.answers import event_states, grid_marks, mean_reward, named_features, node_places
from xmen.cli._output import NO, YES, check_target, print_facts, print_json, print_notes, working
from xmen.cli._subject import Subject, extra_rules, open_subject
from xmen.constraints.constraint import Constraint
from xmen.engines.distribution import Distribution
from xmen.errors import EngineError, InfeasibleError
from xmen.files import write_whole
from xmen.learners.causal import CausalXMEN
from xmen.options import require_choice
from xmen.plots import plot_bars, plot_graph, plot_history, plot_reward, plot_trajectories, plot_visits, plot_world
from xmen.policies.policy import Policy
from xmen.rewards import Floats, LinearReward, reward_table
from xmen.worlds import GridWorld, Trajectory, Walks, check_demos

WIDE = 2.0  # grids this much wider than high fill a row of the figure
MOST_DRAWN = 200  # trajectories as lines
N_EPISODES = 2000  # of a policy, in which visits are counted
WHAT = ("overview", "world", "demos", "samples", "visits", "reward", "history")


class Panel(NamedTuple):
    """One picture: its title, and the function that draws it on an Axes."""

    title: str
    draw: Callable[[Any], Any]


class Pictures:
    """What can be drawn of any world, as bars; subclasses draw it on their maps."""

    mapped = False
    size = (7.2, 5.2)  # inches of one panel
    columns = 2  # in a figure of four panels; three, five and six stand in rows of three

    def __init__(self, subject: Subject, also: Constraint | None, n: int, seed: int) -> None:
        self.subject, self.problem, self.world = subject, subject.problem, subject.problem.world
        self.also, self.n, self.seed = also, n, seed
        self.missing: InfeasibleError | None = None  # why an overview is not complete

    @cached_property
    def distribution(self) -> Distribution:
        return self.subject.distribution(self.also)

    @cached_property
    def policy(self) -> Policy | None:
        """What a causal model does; other models and problems are distributions."""
        model = self.subject.model
        return model.policy(self.also) if isinstance(model, CausalXMEN) else None

    @cached_property
    def demonstrations(self) -> list[Trajectory]:
        return self.problem.demos()

    @cached_property
    def samples(self) -> list[Trajectory]:
        draw = self.distribution.sample if self.policy is None else self.policy.rollout
        return draw(self.n, seed=self.seed)

    def _visits(self, with_actions: bool = False) -> Floats:
        """Expected visits of states, or of states with actions; those of a causal model are counted in episodes."""
        if self.policy is None:
            return self.distribution.visits() if with_actions else self.distribution.state_visits()
        episodes = Walks.of(self.world, self.policy.rollout(N_EPISODES, seed=self.seed))
        return episodes.mean_visits() if with_actions else episodes.mean_state_visits()

    @property
    def _under(self) -> str:
        """What the trajectories in a picture depend on: the model, or rules and reward; for its title."""
        if self.subject.model is not None:
            known = "the model" if self.policy is None else "the model's policy"
        else:
            known = "rules and reward" if self._has_reward else "the rules"
        return known if self.also is None else f"{known}, also {self.also.label}"

    def overview(self) -> list[Panel]:
        """The panels that say something, of those that this world has; `missing` says why one could not be drawn."""
        panels = []  # those that need no distribution can be drawn where the rules contradict each other
        if self.mapped:
            panels = [self.world_panel(), *([self.demos()] if self.problem.demonstrations is not None else [])]
        try:
            panels.append(self.visits())
        except InfeasibleError as error:  # the rest can be looked at, perhaps to see why
            if not panels:
                raise
            self.missing = error
        if self._has_reward:
            panels += self.rewards()
        if self.subject.model is not None and self.subject.model.history_:
            panels.append(self.history())
        return panels

    def rewards(self) -> list[Panel]:
        """The reward, on as many panels as it needs."""
        return [self.reward()]

    @property
    def _has_reward(self) -> bool:
        return bool(reward_table(self._reward, self.world).any())

    @property
    def _reward(self) -> Any:
        return self.problem.reward if self.subject.model is None else self.subject.model.reward_

    def world_panel(self) -> Panel:
        raise EngineError(
            "--what world: a world without a map cannot be drawn; grids can, and GraphML graphs whose nodes have x "
            "and y. Try --what visits."
        )

    def demos(self) -> Panel:
        return self._walks(f"{len(self.demonstrations)} demonstrations", self.demonstrations)

    def sample_panel(self) -> Panel:
        return self._walks(f"{self.n} samples under {self._under}", self.samples)

    def _walks(self, title: str, trajectories: Sequence[Trajectory]) -> Panel:
        return self._bars(title, {title: Walks.of(self.world, trajectories).mean_state_visits()})

    def visits(self) -> Panel:
        series = {self._under: self._visits()}
        if self.problem.demonstrations is not None:
            series = {"demonstrations": Walks.of(self.world, self.demonstrations).mean_state_visits(), **series}
        return self._bars("expected visits", series)

    def reward(self) -> Panel:
        """Weights by name where features have names, else the mean reward of each state's actions."""
        reward, names = self._reward, self._feature_names
        if names:
            series, label = {"weight": reward.weights.tolist()}, "weight of the feature"
            return Panel(f"the {self._learned}weights", lambda ax: plot_bars(names, series, ax, label=label))
        means, label = {"reward": mean_reward(reward, self.world).tolist()}, "reward of one action (mean)"
        return Panel(f"the {self._learned}reward", lambda ax: plot_bars(self._state_names, means, ax, label=label))

    @property
    def _feature_names(self) -> list[str]:
        """The names that the user gave to features; none without a linear reward or without names."""
        named = isinstance(self._reward, LinearReward) and self.problem.spelling.features
        return named_features(self.problem)[1] if named else []

    @property
    def _learned(self) -> str:
        return "learned " if self.subject.model is not None else ""

    def history(self) -> Panel:
        if self.subject.model is None:
            raise EngineError("--what history: this is a problem; give the folder of a model, written by `xmen fit`.")
        records = self.subject.model.history_
        return Panel("how learning went", lambda ax: plot_history(records, ax))

    @property
    def _state_names(self) -> list[str]:
        names = map(self.world.describe_state, range(self.world.n_states))
        return [name.replace("node ", "").strip("'") for name in names]

    def _bars(self, title: str, series: dict[str, Floats]) -> Panel:
        numbers = {name: values.tolist() for name, values in series.items()}
        label = "visits per trajectory"
        return Panel(title, lambda ax: plot_bars(self._state_names, numbers, ax, label=label))


class GridPictures(Pictures):
    """Pictures on the cells of a grid."""

    mapped = True

    def __init__(self, subject: Subject, also: Constraint | None, n: int, seed: int) -> None:
        super().__init__(subject, also, n, seed)
        assert isinstance(self.world, GridWorld)
        self.grid: GridWorld = self.world
        aspect = self.grid.width / self.grid.height
        if aspect > WIDE:
            self.size, self.columns = (11.0, max(2.2, 8.0 / aspect + 1.2)), 1
        elif aspect < 1 / WIDE:
            self.size, self.columns = (max(3.6, 7.0 * aspect + 2.4), 9.0), 4

    def world_panel(self) -> Panel:
        return Panel("the world and its events", lambda ax: plot_world(self.grid, self._marks, ax))

    @cached_property
    def _marks(self) -> dict[str, Any]:
        return grid_marks(self.problem, self.grid)

    def visits(self) -> Panel:
        visits, title = self._visits(), f"expected visits under {self._under}"
        return Panel(title, lambda ax: plot_visits(self.grid, visits, ax, label="visits per trajectory"))

    def rewards(self) -> list[Panel]:
        return [self.reward(), *([super().reward()] if self._feature_names else [])]

    def reward(self) -> Panel:
        """What a move earns in each cell, without features of moves: where one is missing, a mean would mislead."""
        reward, names = self._reward, self._feature_names
        title, label = f"the {self._learned}reward", "reward of one move"
        table = reward_table(reward, self.grid)
        if names:
            of_cells = ~np.ptp(reward.features, axis=1).any(axis=0)
            moving = [name for name, whole in zip(names, of_cells, strict=True) if not whole]
            if moving and np.ptp(reward.features[:, :, of_cells], axis=0).any():
                table = reward.features[:, :, of_cells] @ reward.weights[of_cells]
                title += f" of cells, without {', '.join(map(repr, moving))}"
        least, most = (np.where(self.grid.available, table, end) for end in (np.inf, -np.inf))
        if (least.min(axis=1) < most.max(axis=1)).any():
            title, label = f"{title} (mean over available moves)", "reward of one move (mean)"
        return Panel(title, lambda ax: plot_reward(self.grid, table, ax, label=label))

    def _walks(self, title: str, trajectories: Sequence[Trajectory]) -> Panel:
        shown = trajectories[:MOST_DRAWN]
        more = f" (the first {MOST_DRAWN})" if len(trajectories) > MOST_DRAWN else ""

        def draw(ax: Any) -> Any:
            plot_world(self.grid, self._marks, ax)
            return plot_trajectories(self.grid, shown, ax)

        return Panel(title + more, draw)


class MapPictures(Pictures):
    """Pictures on a map of a graph, whose nodes have places."""

    mapped = True

    def __init__(self, subject: Subject, also: Constraint | None, n: int, seed: int, places: Floats) -> None:
        super().__init__(subject, also, n, seed)
        self.places = places

    def world_panel(self) -> Panel:
        return self._map("the world and its events", None)

    def _walks(self, title: str, trajectories: Sequence[Trajectory]) -> Panel:
        return self._map(title, Walks.of(self.world, trajectories).mean_visits())

    def visits(self) -> Panel:
        return self._map(f"expected uses under {self._under}", self._visits(with_actions=True))

    def _map(self, title: str, uses: Floats | None) -> Panel:
        names, label = self._state_names, "uses of the road per trajectory"
        marks = event_states(self.problem)
        return Panel(
            title, lambda ax: plot_graph(self.world, self.places, ax, names=names, marks=marks, uses=uses, label=label)
        )


def pictures_of(subject: Subject, also: Constraint | None, n: int, seed: int) -> Pictures:
    """The pictures that fit the world."""
    if isinstance(subject.problem.world, GridWorld):
        return GridPictures(subject, also, n, seed)
    places = node_places(subject.problem)
    return Pictures(subject, also, n, seed) if places is None else MapPictures(subject, also, n, seed, places)


SUFFIXES = (".png", ".pdf", ".svg")
DPI = 120


def run_plot(
    path: Path,
    demos: Path | None,
    out: Path | None,
    what: str,
    also: Sequence[str],
    n: int,
    seed: int,
    as_json: bool,
) -> int:
    """Draw the figure and say where it is; the exit code says whether the rules allow anything to be drawn."""
    require_choice("--what", what, WHAT)
    if out is not None:
        check_target(out, SUFFIXES, "pictures")  # before the work
    subject = open_subject(path, demos)
    target = out or Path(f"{subject.name}.png")
    check_target(target, SUFFIXES, "pictures")
    with working("drawing"):
        pictures = pictures_of(subject, extra_rules(also, subject.problem), n, seed)
        # A causal model may have learned from episodes that chance cut short: they are drawn as far as they went.
        drawn = what in ("overview", "demos", "visits") and pictures.policy is None
        if drawn and subject.problem.demonstrations is not None:
            check_demos(subject.problem.world, pictures.demonstrations)
        single = {
            "world": pictures.world_panel,
            "demos": pictures.demos,
            "samples": pictures.sample_panel,
            "visits": pictures.visits,
            "history": pictures.history,
        }
        several = {"overview": pictures.overview, "reward": pictures.rewards}
        panels = several[what]() if what in several else [single[what]()]
        _draw(panels, target, pictures)
    missing = [] if pictures.missing is None else [f"expected visits are not drawn: {pictures.missing}"]
    titles = [panel.title for panel in panels]
    if as_json:
        print_json({"picture": str(target), "what": what, "panels": titles, "notes": missing})
    else:
        print_facts({"picture": str(target), "shows": "; ".join(titles)})
        print_notes(missing)
    return NO if missing else YES


def _draw(panels: Sequence[Panel], target: Path, pictures: Pictures) -> None:
    """All panels in one figure, without a window, whatever the user's display is."""
    columns = min(len(panels), pictures.columns + (pictures.columns == 2 and len(panels) not in (1, 2, 4)))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(pictures.size[0] * columns, pictures.size[1] * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for ax, panel in zip(axes.flat, panels, strict=False):
        panel.draw(ax)
        ax.set_title(panel.title)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    picture = io.BytesIO()
    figure.savefig(picture, dpi=DPI, format=target.suffix.lower().removeprefix("."))
    write_whole(target, picture.getvalue())
