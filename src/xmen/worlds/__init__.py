"""Worlds and the trajectories that live in them: where everything starts."""

from xmen.worlds.demo_checks import check_demos
from xmen.worlds.demos import read_demos, write_demos
from xmen.worlds.edge_weights import EdgeWeights
from xmen.worlds.grid import MOVES, Cell, GridWorld
from xmen.worlds.mdp import MDP
from xmen.worlds.network import AnyTask, Network, NetworkTask
from xmen.worlds.trajectory import Trajectory
from xmen.worlds.walks import Walks

__all__ = [
    "MDP",
    "MOVES",
    "AnyTask",
    "Cell",
    "EdgeWeights",
    "GridWorld",
    "Network",
    "NetworkTask",
    "Trajectory",
    "Walks",
    "check_demos",
    "read_demos",
    "write_demos",
]
