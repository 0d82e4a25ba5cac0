from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

import xmen as xm
from xmen.progress import Record

GRID = xm.GridWorld(4, 3, (0, 0), (3, 2), moves=("up", "right", "stay"), walls=[(1, 1), (2, 1)], horizon=8)
PATH = xm.Trajectory([0, 1, 1, 2, 3, 7, 11], [1, 2, 1, 1, 0, 0])


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def legend_labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def overlap_of_legend_and_cells(ax: Axes) -> float:
    """Shared area in pixels, as drawn."""
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    assert legend is not None
    boxes = [legend.get_window_extent(), ax.get_window_extent()]
    sides = [min(b.extents[i + 2] for b in boxes) - max(b.extents[i] for b in boxes) for i in (0, 1)]
    return max(sides[0], 0.0) * max(sides[1], 0.0)


def drawn(ax: Axes) -> tuple[int, list[tuple[float, float]], int]:
    """The number of trajectories drawn as lines, the dots where one stays, and the number of arrow heads."""
    above = [c for c in ax.collections if c.get_zorder() >= 5]
    lines = sum(len(c.get_segments()) for c in above if isinstance(c, LineCollection))
    heads = sum(
        len(c.get_paths()) for c in above if isinstance(c, PolyCollection) and not isinstance(c, LineCollection)
    )
    dots = [tuple(point) for line in ax.lines if line.get_marker() == "." for point in line.get_xydata()]  # type: ignore[union-attr]
    return lines, dots, heads


def test_plot_world_marks_cells_and_keeps_the_legend_off_them() -> None:
    marks = {"triangle": [(0, 2)], "squares": ([(2, 0), (2, 2)], "s"), "area": ([(3, 0), (3, 1)], "#ddcc77")}
    ax = xm.plot_world(GRID, {**marks, "one": (0, 1)})
    assert legend_labels(ax) == ["start", "goal", "triangle", "squares", "area", "one"]
    assert overlap_of_legend_and_cells(ax) == 0.0
    assert ax.get_aspect() == 1.0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")
    assert ax.get_xticks().tolist() == [0, 1, 2, 3]
    assert ax.get_xlim() == (-0.5, 3.5)
    centres = {
        tuple(np.round(patch.get_extents().transformed(ax.transData.inverted()).get_points().mean(0), 1))
        for patch in ax.patches
    }
    assert {(0.0, 2.0), (2.0, 0.0), (2.0, 2.0), (3.0, 0.0), (3.0, 1.0), (0.0, 1.0)} <= centres


def test_labels_that_name_a_shape_get_it_and_others_do_not() -> None:
    labels = ["key", "Triangle", "squares", "crosses", "circle", "door"]
    legend = xm.plot_world(GRID, {label: [(0, 1)] for label in labels}).get_legend()
    assert legend is not None
    shapes = {handle.get_label(): handle.get_marker() for handle in legend.legend_handles}  # type: ignore[union-attr]
    assert [shapes[label] for label in labels[1:5]] == ["^", "s", "X", "o"]
    assert len({shapes[label] for label in labels}) == len(labels)


def test_without_a_goal_there_is_none_in_the_legend() -> None:
    assert legend_labels(xm.plot_world(xm.GridWorld(2, 2, (0, 0), None, horizon=3))) == ["start"]


@pytest.mark.parametrize("by_action", [False, True])
def test_plot_visits_shows_each_number_in_its_cell(by_action: bool) -> None:
    visits = np.arange(12.0)
    values = np.stack([visits, visits, 2 * visits], axis=1) / 4 if by_action else visits
    ax = xm.plot_visits(GRID, values, label="visits")
    shown = ax.images[0].get_array()
    assert shown is not None
    assert shown[0, 3] == 3.0
    assert shown[2, 0] == 8.0
    assert shown.mask[1, 1]  # type: ignore[union-attr]
    assert ax.child_axes[0].get_ylabel() == "visits"


def test_the_colour_bar_is_as_high_as_the_cells() -> None:
    for width, height in ((12, 2), (2, 12), (5, 5)):
        ax = xm.plot_visits(xm.GridWorld(width, height, (0, 0), None, horizon=3), np.ones(width * height))
        ax.figure.canvas.draw()
        bar, cells = ax.child_axes[0].get_window_extent(), ax.get_window_extent()
        assert bar.height == pytest.approx(cells.height)
        assert bar.x0 > cells.x1


@pytest.mark.parametrize("n", [1, 5, 100])
def test_lines_stay_in_the_cells_they_visit(n: int) -> None:
    ax = xm.plot_trajectories(GRID, [PATH] * n)
    (lines,) = (c for c in ax.collections if isinstance(c, LineCollection) and len(c.get_segments()[0]) == 7)
    cells = np.array([GRID.cell(s) for s in PATH.states])
    segments = np.array(lines.get_segments())
    assert segments.shape == (n, 7, 2)
    assert np.all(np.abs(segments - cells) < 0.45)
    if n > 1:
        assert len({tuple(segment[0]) for segment in np.round(segments, 6)}) == n  # none hides another
    assert drawn(ax)[2] == (5 * n if n <= 6 else 0)


def test_plot_reward_averages_over_available_moves() -> None:
    reward = np.zeros((12, 3))
    reward[0] = [-1.0, 5.0, 1.0]
    reward[3] = [-6.0, 100.0, 0.0]  # no move to the right from the last column
    shown = xm.plot_reward(GRID, reward).images[0]
    assert shown.get_array()[0, 0] == pytest.approx(5 / 3)  # type: ignore[index]
    assert shown.get_array()[0, 3] == pytest.approx(-3.0)  # type: ignore[index]
    assert shown.get_clim() == (-3.0, 3.0)  # both signs: zero in the middle
    assert shown.get_array().mask[2, 3]  # type: ignore[union-attr]
    assert xm.plot_reward(GRID, reward - 200.0).images[0].get_clim()[1] < 0  # one sign: the whole scale for it
    assert xm.plot_reward(GRID, xm.LinearReward(np.ones((12, 3, 1)), [0.0])).images[0].get_clim() == (-1.0, 1.0)


def test_plot_history_shows_loss_gradient_and_errors() -> None:
    history = [Record(k, 5.0 / k, 0.1**k, 0.0, loss_std=0.1, gradient_std=0.001) for k in range(1, 5)]
    ax = xm.plot_history(history)
    assert legend_labels(ax) == ["loss", "gradient norm", "its standard error"]
    assert ax.lines[0].get_ydata().tolist() == [5.0, 2.5, 5 / 3, 1.25]  # type: ignore[union-attr]
    right = next(other for other in ax.figure.axes if other is not ax)
    assert right.get_yscale() == "log"
    assert (len(ax.collections), len(right.lines)) == (1, 2)
    unknown = xm.plot_history([Record(1, np.nan, 0.5, 0.0), Record(2, np.nan, 0.0, 0.0)])
    assert legend_labels(unknown) == ["gradient norm"]


def test_iterations_are_whole_numbers_also_when_there_is_one() -> None:
    for n in (1, 2, 3, 40):
        records = [Record(k + 1, loss=1.0 / (k + 1), gradient_norm=0.1, seconds=0.0) for k in range(n)]
        ax = xm.plot_history(records)
        low, high = ax.get_xlim()
        ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
        assert ticks
        assert all(tick == round(tick) for tick in ticks)


def test_plot_bars_keeps_the_largest_in_their_order() -> None:
    ax = xm.plot_bars([f"n{k}" for k in range(40)], {"a": range(40), "b": [0.0] * 40}, label="visits")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert (names[0], names[-1], len(names)) == ("n15", "n39", 25)
    assert "the largest 25 of 40" in ax.get_xlabel()
    assert legend_labels(ax) == ["a", "b"]


def test_plot_graph_adds_up_both_directions() -> None:
    rows = [(0, 0, 1, 1.0), (1, 0, 0, 1.0), (1, 1, 2, 1.0)]
    world = xm.MDP(3, 2, rows, start=0, terminal=[2], horizon=5)
    uses = np.array([[2.0, 0.0], [1.0, 0.5], [0.0, 0.0]])
    ax = xm.plot_graph(world, [(0, 0), (1, 0), (2, 1)], names=["a", "b", "c"], marks={"shop": [1]}, uses=uses)
    amounts = [c.get_array() for c in ax.collections if c.get_array() is not None]
    assert [a.tolist() for a in amounts if a is not None] == [[0.5, 3.0]]  # the most used on top
    assert legend_labels(ax) == ["start", "goal", "shop"]
    assert [text.get_text() for text in ax.texts] == ["a", "b", "c"]


def test_pictures_can_be_laid_over_each_other() -> None:
    ax = xm.plot_visits(GRID, np.ones(12))
    n_patches = len(ax.patches)
    assert xm.plot_trajectories(GRID, [PATH], ax=ax) is ax
    assert len(ax.patches) == n_patches  # the grid is not drawn twice
    assert legend_labels(ax) == []
    xm.plot_world(GRID, {"key": [(0, 1)]}, ax=ax)
    assert legend_labels(ax) == ["start", "goal", "key"]
    assert overlap_of_legend_and_cells(ax) == 0.0
    xm.plot_world(GRID, {"door": [(0, 2)]}, ax=ax)
    assert legend_labels(ax) == ["start", "goal", "key", "door"]


def test_given_axes_are_used_and_pictures_can_be_saved(tmp_path: Path) -> None:
    figure, axes = plt.subplots(1, 3)
    assert xm.plot_world(GRID, ax=axes[0]) is axes[0]
    assert xm.plot_visits(GRID, np.zeros(12), ax=axes[1]) is axes[1]
    assert xm.plot_trajectories(GRID, PATH, ax=axes[2]) is axes[2]
    figure.savefig(tmp_path / "all.png")
    assert (tmp_path / "all.png").stat().st_size > 1000
    assert plt.get_fignums() == [figure.number]


def test_empty_and_still_trajectories() -> None:
    assert drawn(xm.plot_trajectories(GRID, [])) == (0, [], 0)
    n_lines, dots, n_heads = drawn(xm.plot_trajectories(GRID, [xm.Trajectory([0], []), xm.Trajectory([0, 0], [2])]))
    assert (n_lines, n_heads) == (2, 0)
    assert len(dots) == 1
    assert np.hypot(*dots[0]) < 0.45  # in the cell (0, 0), where the second one stays
    assert drawn(xm.plot_trajectories(GRID, PATH))[1:] == ([(1.0, 0.0)], 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: xm.plot_world(xm.MDP(1, 1, [(0, 0, 0, 1)], 0, horizon=1)), xm.WorldError, "GridWorld, got MDP"),  # type: ignore[arg-type]
        (lambda: xm.plot_visits(None, np.ones(3)), xm.WorldError, "GridWorld, got NoneType"),  # type: ignore[arg-type]
        (lambda: xm.plot_world(GRID, {"x": [(9, 9)]}), xm.WorldError, r"\(9, 9\)"),
        (lambda: xm.plot_world(GRID, {"x": ([(0, 0)], "purplish")}), xm.WorldError, "'purplish'"),
        (lambda: xm.plot_world(GRID, {"x": 5}), xm.WorldError, "mark 'x'"),
        (lambda: xm.plot_visits(GRID, np.ones(5)), xm.WorldError, r"\(12,\) or \(12, 3\), got \(5,\)"),
        (lambda: xm.plot_visits(GRID, "many"), xm.WorldError, "values must"),
        (lambda: xm.plot_reward(GRID, np.ones(12)), xm.WorldError, r"\(12, 3\)"),
        (lambda: xm.plot_reward(GRID, np.ones((12, 2))), xm.RewardError, r"shape \(12, 2\)"),
        (lambda: xm.plot_history([]), xm.WorldError, "no history"),
        (lambda: xm.plot_bars(["a"], {"x": [1.0, 2.0]}), xm.WorldError, "1 names"),
        (lambda: xm.plot_graph(GRID, [(0, 0)]), xm.WorldError, r"shape \(12, 2\), got \(1, 2\)"),
        (lambda: xm.plot_trajectories(GRID, [3]), xm.TrajectoryError, "trajectory 0 .*got 3"),  # type: ignore[list-item]
        (lambda: xm.plot_trajectories(GRID, 3), xm.TrajectoryError, "got 3"),  # type: ignore[arg-type]
        (lambda: xm.plot_trajectories(GRID, [xm.Trajectory([0, 12], [0])]), xm.TrajectoryError, "state 12, .* 0 to 11"),
    ],
)
def test_refuses_without_opening_a_figure(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
    assert plt.get_fignums() == []
