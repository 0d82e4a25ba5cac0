"""Learn what a demonstrator values under rules that must never be broken, and generate behaviour that keeps them.

>>> import xmen as xm
>>> grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
>>> key = xm.visit(grid.at((1, 2))).named("fetch the key")
>>> d = xm.distribution(grid, key & xm.never(grid.at((2, 2))), reward=None)
>>> [grid.cell(s) for s in d.mode().states]
[(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 3)]
"""

from xmen.constraints.arithmetic import count, length, share, total
from xmen.constraints.constraint import Constraint, Violation, at_least, at_most, exactly
from xmen.constraints.events import Event, anytime, at, doing, when
from xmen.constraints.ltlf import ltlf
from xmen.constraints.monitor import monitor
from xmen.constraints.occurrence import always, before, first, never, response, sequence, visit
from xmen.constraints.repetition import longest_repeat, longest_run, no_revisit
from xmen.constraints.text import parse_constraint
from xmen.engines.distribution import Distribution, Guarantee, distribution
from xmen.errors import (
    ConstraintError,
    ConstraintSyntaxError,
    DivergenceError,
    EngineError,
    FileFormatError,
    InfeasibleError,
    InvalidDemonstrationError,
    MissingExtraError,
    MisuseError,
    NotFittedError,
    OracleError,
    OracleTimeoutError,
    ProductTooLargeError,
    RewardError,
    StorageError,
    TrajectoryError,
    WorldError,
    XmenError,
)
from xmen.learners.constraint_inference import ConstraintInference
from xmen.learners.maxent import MaxEntIRL
from xmen.learners.notices import (
    ConvergenceWarning,
    GuaranteeWarning,
    IdentifiabilityWarning,
    InterruptedWarning,
    LearningWarning,
    UnboundedWarning,
)
from xmen.learners.policy import Policy
from xmen.learners.progress import Callbacks
from xmen.learners.relative_entropy import RelativeEntropyIRL
from xmen.learners.storage import load
from xmen.learners.tensorboard import TensorBoard
from xmen.learners.xmen import XMEN
from xmen.neural import ConvReward, FeatureReward, NeuralReward, fit_neural
from xmen.plots import plot_trajectories, plot_visits, plot_world
from xmen.rewards import LinearReward
from xmen.worlds import MDP, GridWorld, Network, Trajectory, check_demos, read_demos, write_demos

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "XMEN",
    "Callbacks",
    "Constraint",
    "ConstraintError",
    "ConstraintInference",
    "ConstraintSyntaxError",
    "ConvReward",
    "ConvergenceWarning",
    "Distribution",
    "DivergenceError",
    "EngineError",
    "Event",
    "FeatureReward",
    "FileFormatError",
    "GridWorld",
    "Guarantee",
    "GuaranteeWarning",
    "IdentifiabilityWarning",
    "InfeasibleError",
    "InterruptedWarning",
    "InvalidDemonstrationError",
    "LearningWarning",
    "LinearReward",
    "MaxEntIRL",
    "MissingExtraError",
    "MisuseError",
    "Network",
    "NeuralReward",
    "NotFittedError",
    "OracleError",
    "OracleTimeoutError",
    "Policy",
    "ProductTooLargeError",
    "RelativeEntropyIRL",
    "RewardError",
    "StorageError",
    "TensorBoard",
    "Trajectory",
    "TrajectoryError",
    "UnboundedWarning",
    "Violation",
    "WorldError",
    "XmenError",
    "always",
    "anytime",
    "at",
    "at_least",
    "at_most",
    "before",
    "check_demos",
    "count",
    "distribution",
    "doing",
    "exactly",
    "first",
    "fit_neural",
    "length",
    "load",
    "longest_repeat",
    "longest_run",
    "ltlf",
    "monitor",
    "never",
    "no_revisit",
    "parse_constraint",
    "plot_trajectories",
    "plot_visits",
    "plot_world",
    "read_demos",
    "response",
    "sequence",
    "share",
    "total",
    "visit",
    "when",
    "write_demos",
]
