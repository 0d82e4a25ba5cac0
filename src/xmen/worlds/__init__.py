"""Worlds and the trajectories that live in them: where everything starts."""

from xmen.worlds.demos import check_demos, read_demos, write_demos
from xmen.worlds.grid import MOVES, GridWorld
from xmen.worlds.mdp import MDP
from xmen.worlds.network import Network
from xmen.worlds.trajectory import Trajectory

__all__ = ["MDP", "MOVES", "GridWorld", "Network", "Trajectory", "check_demos", "read_demos", "write_demos"]
