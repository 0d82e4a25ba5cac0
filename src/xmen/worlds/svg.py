"""A grid world as a small SVG picture, for notebooks. Plain text: no drawing library is needed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmen.worlds.grid import GridWorld


_LONGEST_SIDE = 480.0  # pixels
_LARGEST_CELL = 40.0
_MARGIN = 18.0  # room for the coordinates
_LABELLED_CELL = 9.0  # coordinates are left out when cells are smaller than this

# Okabe and Ito's colours stay apart for colour-blind readers.
START_COLOUR = "#0072B2"
GOAL_COLOUR = "#D55E00"
WALL_COLOUR = "#4d4d4d"


def grid_svg(grid: GridWorld) -> str:
    """The grid with its walls, the start as a disc and the goal as a star; y points up."""
    size = min(_LARGEST_CELL, _LONGEST_SIDE / max(grid.width, grid.height))
    wide, high = grid.width * size, grid.height * size

    def corner(x: float, y: float) -> tuple[float, float]:
        return _MARGIN + x * size, high - y * size + 2

    left, top = corner(0, grid.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + _MARGIN + 4:g}" '
        f'height="{high + _MARGIN + 4:g}" font-family="sans-serif" font-size="{min(11.0, size * 0.7):.3g}">',
        f"<title>{grid.width} x {grid.height} grid world</title>",
        f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{high:g}" fill="white"/>',
    ]
    for x, y in sorted(grid.walls):
        wall_x, wall_y = corner(x, y + 1)
        parts.append(
            f'<rect class="wall" x="{wall_x:g}" y="{wall_y:g}" width="{size:g}" height="{size:g}" '
            f'fill="{WALL_COLOUR}"/>'
        )
    lines = [f"M{left + x * size:g} {top:g}v{high:g}" for x in range(grid.width + 1)]
    lines += [f"M{left:g} {top + y * size:g}h{wide:g}" for y in range(grid.height + 1)]
    parts.append(f'<path d="{"".join(lines)}" stroke="#b0b0b0" stroke-width="1" fill="none"/>')

    for cell in grid.start_cells:
        start_x, start_y = corner(cell[0] + 0.5, cell[1] + 0.5)
        parts.append(
            f'<circle class="start" cx="{start_x:g}" cy="{start_y:g}" r="{size * 0.3:g}" fill="{START_COLOUR}">'
            f"<title>start {cell}</title></circle>"
        )
    for cell in grid.goal_cells:
        goal_x, goal_y = corner(cell[0] + 0.5, cell[1] + 0.5)
        parts.append(
            f'<path class="goal" d="{_star(goal_x, goal_y, size * 0.4)}" fill="{GOAL_COLOUR}">'
            f"<title>goal {cell}</title></path>"
        )
    if size >= _LABELLED_CELL:
        parts += _labels(grid, size, left, top + high)
    return "".join([*parts, "</svg>"])


def _labels(grid: GridWorld, size: float, left: float, bottom: float) -> list[str]:
    step = 1 if size >= 16 else 5
    style = 'fill="#606060" text-anchor'
    columns = [
        f'<text x="{left + (x + 0.5) * size:g}" y="{bottom + 13:g}" {style}="middle">{x}</text>'
        for x in range(0, grid.width, step)
    ]
    rows = [
        f'<text x="{left - 4:g}" y="{bottom - (y + 0.5) * size + 4:g}" {style}="end">{y}</text>'
        for y in range(0, grid.height, step)
    ]
    return columns + rows


def _star(x: float, y: float, radius: float) -> str:
    points = []
    for corner in range(10):
        reach = radius if corner % 2 == 0 else radius * 0.42
        angle = math.pi * corner / 5
        points.append(f"{x + reach * math.sin(angle):.2f} {y - reach * math.cos(angle):.2f}")
    return f"M{'L'.join(points)}Z"
