"""Pictures of grid worlds. Every function takes `ax=None`, returns the Axes, and never calls show.

They can be laid over each other: give the Axes of one to the next, and the grid is drawn once.
matplotlib is imported when a picture is drawn, so that `import xmen` stays quick.
"""

from xmen.plots.trajectories import plot_trajectories
from xmen.plots.visits import plot_visits
from xmen.plots.world import plot_world

__all__ = ["plot_trajectories", "plot_visits", "plot_world"]
