"""Pictures of worlds, trajectories and of learning. Every function takes `ax=None`, returns the Axes, never calls show.

Those of grids can be laid over each other: give the Axes of one to the next, and the grid is drawn once.
matplotlib is loaded with the first of them that is asked for, so that `import xmen` stays quick.
"""

from xmen.plots.graph import plot_bars as plot_bars, plot_graph as plot_graph, plot_history as plot_history
from xmen.plots.graph import plot_network as plot_network, plot_rules as plot_rules
from xmen.plots.world import plot_reward as plot_reward, plot_trajectories as plot_trajectories
from xmen.plots.world import plot_visits as plot_visits, plot_world as plot_world
