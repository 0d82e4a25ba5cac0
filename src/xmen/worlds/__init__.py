"""Worlds and the trajectories that live in them: where everything starts."""

from xmen.worlds.demos import check_demos as check_demos
from xmen.worlds.demos import read_demos as read_demos, write_demos as write_demos
from xmen.worlds.walks import EdgeWeights as EdgeWeights
from xmen.worlds.grid import MOVES as MOVES, Cell as Cell, GridWorld as GridWorld
from xmen.worlds.mdp import MDP as MDP
from xmen.worlds.network import AnyTask as AnyTask, Network as Network, NetworkTask as NetworkTask
from xmen.worlds.sightings import Sighting as Sighting
from xmen.worlds.trajectory import Trajectory as Trajectory
from xmen.worlds.walks import Walks as Walks
