# The public names and the module each one lives in; `__init__.py` loads them from here when they are asked for.

from .baselines.constraint_inference import ConstraintInference
from .baselines.maxent import MaxEntIRL
from .baselines.relative_entropy import RelativeEntropyIRL
from .constraints.arithmetic import count, length, total
from .constraints.cardinality import at_least, at_most, exactly
from .constraints.constraint import Constraint
from .constraints.ltlf import ltlf
from .constraints.monitor import monitor
from .constraints.occurrence import always, before, first, never, response, sequence, visit
from .constraints.repetition import longest_repeat, longest_run, no_revisit
from .constraints.shares import share
from .constraints.text import parse_constraint
from .constraints.violation import Violation
from .engines.choose import distribution
from .engines.distribution import Distribution, Guarantee
from .errors import (
    ConstraintError,
    ConstraintSyntaxError,
    DivergenceError,
    EngineError,
    FileFormatError,
    InfeasibleError,
    InvalidDemonstrationError,
    MissingExtraError,
    MissingFileError,
    MisuseError,
    NotFittedError,
    OracleDiedError,
    OracleError,
    OracleTimeoutError,
    PathError,
    ProductTooLargeError,
    RewardError,
    StorageError,
    TrajectoryError,
    WorldError,
    XmenError,
)
from .events import Event, anytime, at, doing, when
from .learners.causal import CausalXMEN
from .learners.fit_neural import fit_neural
from .learners.xmen import XMEN
from .methods.cells import Cells
from .methods.exact import Exact
from .methods.network_training import Training
from .methods.paper import Paper
from .methods.reject import Reject
from .notices import (
    ConvergenceWarning,
    GuaranteeWarning,
    IdentifiabilityWarning,
    InterruptedWarning,
    LearningWarning,
    StartsWarning,
    UnboundedWarning,
)
from .plots.bars import plot_bars
from .plots.graph import plot_graph
from .plots.history import plot_history
from .plots.network import plot_network
from .plots.reward import plot_reward
from .plots.rules import plot_rules
from .plots.trajectories import plot_trajectories
from .plots.visits import plot_visits
from .plots.world import plot_world
from .policies.plan import plan
from .policies.policy import Policy
from .policies.shield import Shield, shield
from .progress.monitor import Callbacks
from .progress.tensorboard import TensorBoard
from .registry import load
from .rewards.conv import ConvReward
from .rewards.linear import LinearReward
from .rewards.neural import FeatureReward, NeuralReward
from .rules.inference import RuleInference
from .worlds.convert import convert_demos
from .worlds.demo_checks import check_demos
from .worlds.demos import read_demos, write_demos
from .worlds.grid import GridWorld
from .worlds.mdp import MDP
from .worlds.network import Network
from .worlds.trajectory import Trajectory
from .worlds.trips import read_trips

__version__: str
__distribution__: str

__all__ = [
    "MDP",
    "XMEN",
    "Callbacks",
    "CausalXMEN",
    "Cells",
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
    "Exact",
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
    "MissingFileError",
    "MisuseError",
    "Network",
    "NeuralReward",
    "NotFittedError",
    "OracleDiedError",
    "OracleError",
    "OracleTimeoutError",
    "Paper",
    "PathError",
    "Policy",
    "ProductTooLargeError",
    "Reject",
    "RelativeEntropyIRL",
    "RewardError",
    "RuleInference",
    "Shield",
    "StartsWarning",
    "StorageError",
    "TensorBoard",
    "Training",
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
    "convert_demos",
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
    "plan",
    "plot_bars",
    "plot_graph",
    "plot_history",
    "plot_network",
    "plot_reward",
    "plot_rules",
    "plot_trajectories",
    "plot_visits",
    "plot_world",
    "read_demos",
    "read_trips",
    "response",
    "sequence",
    "share",
    "shield",
    "total",
    "visit",
    "when",
    "write_demos",
]
