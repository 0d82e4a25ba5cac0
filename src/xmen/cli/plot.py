"""`xmen plot`: one figure of a problem or a model."""

import io
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from xmen.answers import event_states, grid_marks, mean_reward, node_places
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
SUFFIXES = (".png", ".pdf", ".svg")
DPI = 120


class Panel(NamedTuple):
    """One picture: its title, and the function that draws it on an Axes."""

    title: str
    draw: Callable[[Any], Any]


class Pictures:
    """What can be drawn of a world: on the cells of a grid, on a map of nodes that have places, else as bars."""

    def __init__(self, subject: Subject, also: Constraint | None, n: int, seed: int) -> None:
        self.problem, self.model, self.also, self.n, self.seed = subject.problem, subject.model, also, n, seed
        self.world, self._subject = subject.problem.world, subject
        self.grid = self.world if isinstance(self.world, GridWorld) else None
        self.places = node_places(self.problem) if self.grid is None else None
        self.reward: Any = self.problem.reward if self.model is None else self.model.reward_
        self.has_reward = bool(reward_table(self.reward, self.world).any())
        self.learned = "learned " if self.model is not None else ""
        self.missing: InfeasibleError | None = None  # why an overview is not complete

    @cached_property
    def distribution(self) -> Distribution:
        return self._subject.distribution(self.also)

    @cached_property
    def policy(self) -> Policy | None:
        """What a causal model does; other models and problems are distributions."""
        return self.model.policy(self.also) if isinstance(self.model, CausalXMEN) else None

    @cached_property
    def demonstrations(self) -> list[Trajectory]:
        return self.problem.demos()

    @cached_property
    def samples(self) -> list[Trajectory]:
        draw = self.distribution.sample if self.policy is None else self.policy.rollout
        return draw(self.n, seed=self.seed)

    @cached_property
    def feature_names(self) -> list[str]:
        """The names that the user gave to features; none without a linear reward or without names."""
        named = isinstance(self.reward, LinearReward) and self.problem.spelling.features
        return self.problem.feature_names if named else []

    @cached_property
    def _state_names(self) -> list[str]:
        names = map(self.world.describe_state, range(self.world.n_states))
        return [name.replace("node ", "").strip("'") for name in names]

    @property
    def _under(self) -> str:
        """What the trajectories in a picture depend on: the model, or rules and reward; for its title."""
        if self.model is not None:
            known = "the model" if self.policy is None else "the model's policy"
        else:
            known = "rules and reward" if self.has_reward else "the rules"
        return known if self.also is None else f"{known}, also {self.also.label}"

    def overview_panels(self) -> list[Panel]:
        """The panels that say something, of those that this world has; `missing` says why one could not be drawn."""
        panels = []  # those that need no distribution can be drawn where the rules contradict each other
        if self.grid is not None or self.places is not None:
            panels = self.world_panels() + (self.demos_panels() if self.problem.demonstrations is not None else [])
        try:
            panels += self.visits_panels()
        except InfeasibleError as error:  # the rest can be looked at, perhaps to see why
            if not panels:
                raise
            self.missing = error
        if self.has_reward:
            panels += self.reward_panels()
        return panels + (self.history_panels() if self.model is not None and self.model.history_ else [])

    def world_panels(self) -> list[Panel]:
        """The world and its events, of a world that has a map."""
        title = "the world and its events"
        if self.grid is not None:
            return [self._on_grid(title, plot_world, grid_marks(self.problem, self.grid))]
        if self.places is None:
            drawn = "grids can, and GraphML graphs whose nodes have x and y. Try --what visits"
            raise EngineError(f"--what world: a world without a map cannot be drawn; {drawn}.")
        return [self._on_map(title, None)]

    def demos_panels(self) -> list[Panel]:
        """The demonstrations."""
        return [self._walks(f"{len(self.demonstrations)} demonstrations", self.demonstrations)]

    def samples_panels(self) -> list[Panel]:
        """The samples."""
        return [self._walks(f"{self.n} samples under {self._under}", self.samples)]

    def _walks(self, title: str, trajectories: Sequence[Trajectory]) -> Panel:
        grid = self.grid
        if grid is None:
            walks = Walks.of(self.world, trajectories)
            if self.places is not None:
                return self._on_map(title, walks.mean_visits())
            return self._bars(title, {title: walks.mean_state_visits()})
        shown, marks = trajectories[:MOST_DRAWN], grid_marks(self.problem, grid)

        def draw(ax: Any) -> Any:
            plot_world(grid, marks, ax)
            return plot_trajectories(grid, shown, ax)

        return Panel(title + (f" (the first {MOST_DRAWN})" if len(trajectories) > MOST_DRAWN else ""), draw)

    def visits_panels(self) -> list[Panel]:
        """Expected visits of states, or uses of the roads of a map; those of a causal model are counted in episodes."""
        walks = None if self.policy is None else Walks.of(self.world, self.policy.rollout(N_EPISODES, seed=self.seed))
        if self.places is not None:
            uses = self.distribution.visits() if walks is None else walks.mean_visits()
            return [self._on_map(f"expected uses under {self._under}", uses)]
        visits = self.distribution.state_visits() if walks is None else walks.mean_state_visits()
        if self.grid is not None:
            title = f"expected visits under {self._under}"
            return [self._on_grid(title, plot_visits, visits, label="visits per trajectory")]
        series = {self._under: visits}
        if self.problem.demonstrations is not None:
            series = {"demonstrations": Walks.of(self.world, self.demonstrations).mean_state_visits(), **series}
        return [self._bars("expected visits", series)]

    def reward_panels(self) -> list[Panel]:
        """The reward of cells, and weights by name where features have names; without either, means of states."""
        panels = [self._cells(self.grid)] if self.grid is not None else []
        if self.feature_names:
            panels.append(self._bars(f"the {self.learned}weights", {"weight": self.reward.weights}, True))
        elif not panels:
            means = {"reward": mean_reward(self.reward, self.world)}
            panels.append(self._bars(f"the {self.learned}reward", means, label="reward of one action (mean)"))
        return panels

    def _cells(self, grid: GridWorld) -> Panel:
        """What a move earns in each cell, without features of moves: where one is missing, a mean would mislead."""
        reward, title, label = self.reward, f"the {self.learned}reward", "reward of one move"
        table = reward_table(reward, grid)
        if self.feature_names:
            of_cells = ~np.ptp(reward.features, axis=1).any(axis=0)
            moving = [name for name, whole in zip(self.feature_names, of_cells, strict=True) if not whole]
            if moving and np.ptp(reward.features[:, :, of_cells], axis=0).any():
                table = reward.features[:, :, of_cells] @ reward.weights[of_cells]
                title += f" of cells, without {', '.join(map(repr, moving))}"
        least, most = (np.where(grid.available, table, end) for end in (np.inf, -np.inf))
        if (least.min(axis=1) < most.max(axis=1)).any():
            title, label = f"{title} (mean over available moves)", "reward of one move (mean)"
        return self._on_grid(title, plot_reward, table, label=label)

    def history_panels(self) -> list[Panel]:
        """How learning went."""
        if self.model is None:
            raise EngineError("--what history: this is a problem; give the folder of a model, written by `xmen fit`.")
        records = self.model.history_
        return [Panel("how learning went", lambda ax: plot_history(records, ax))]

    def _bars(self, title: str, series: dict[str, Floats], features: bool = False, label: str = "") -> Panel:
        names = self.feature_names if features else self._state_names
        label = label or ("weight of the feature" if features else "visits per trajectory")
        numbers = {name: values.tolist() for name, values in series.items()}
        return Panel(title, lambda ax: plot_bars(names, numbers, ax, label=label))

    def _on_grid(self, title: str, plot: Callable[..., Any], values: Any, **more: Any) -> Panel:
        return Panel(title, lambda ax: plot(self.grid, values, ax, **more))

    def _on_map(self, title: str, uses: Floats | None) -> Panel:
        label: Any = {"names": self._state_names, "label": "uses of the road per trajectory"}
        marks, places = event_states(self.problem), np.asarray(self.places)
        return Panel(title, lambda ax: plot_graph(self.world, places, ax, marks=marks, uses=uses, **label))

    def write(self, panels: Sequence[Panel], target: Path) -> None:
        """All panels in one figure, without a window, whatever the user's display is."""
        size, columns = (7.2, 5.2), 2  # inches of a panel; three, five and six panels stand in rows of three
        aspect = 1.0 if self.grid is None else self.grid.width / self.grid.height
        if aspect > WIDE:
            size, columns = (11.0, max(2.2, 8.0 / aspect + 1.2)), 1
        elif aspect < 1 / WIDE:
            size, columns = (max(3.6, 7.0 * aspect + 2.4), 9.0), 4
        columns = min(len(panels), columns + (columns == 2 and len(panels) not in (1, 2, 4)))
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        axes: Any = figure.subplots(rows, columns, squeeze=False)
        for ax, panel in zip(axes.flat, panels, strict=False):
            panel.draw(ax)
            ax.set_title(panel.title)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        picture = io.BytesIO()
        figure.savefig(picture, dpi=DPI, format=target.suffix.lower().removeprefix("."))
        write_whole(target, picture.getvalue())


WHAT = ("overview", "world", "demos", "samples", "visits", "reward", "history")


def run_plot(
    path: Path, demos: Path | None, out: Path | None, what: str, also: Sequence[str], n: int, seed: int, as_json: bool
) -> int:
    """Draw the figure and say where it is; the exit code says whether the rules allow anything to be drawn."""
    require_choice("--what", what, WHAT)
    if out is not None:
        check_target(out, SUFFIXES, "pictures")  # before the work
    subject = open_subject(path, demos)
    target = out or Path(f"{path.stem if subject.model is None else path.resolve().name}.png")
    check_target(target, SUFFIXES, "pictures")
    with working("drawing"):
        pictures = Pictures(subject, extra_rules(also, subject.problem), n, seed)
        # A causal model may have learned from episodes that chance cut short: they are drawn as far as they went.
        drawn = what in ("overview", "demos", "visits") and pictures.policy is None
        if drawn and subject.problem.demonstrations is not None:
            check_demos(subject.problem.world, pictures.demonstrations)
        panels: list[Panel] = getattr(pictures, f"{what}_panels")()
        pictures.write(panels, target)
    missing = [] if pictures.missing is None else [f"expected visits are not drawn: {pictures.missing}"]
    titles = [panel.title for panel in panels]
    if as_json:
        print_json({"picture": str(target), "what": what, "panels": titles, "notes": missing})
    else:
        print_facts({"picture": str(target), "shows": "; ".join(titles)})
        print_notes(missing)
    return NO if missing else YES
