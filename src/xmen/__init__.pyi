# The public names and the module each one lives in; `__init__.py` loads them from here when they are asked for.
# `as` says that a name is public: stubs have it so.

from .baselines.constraint_inference import ConstraintInference as ConstraintInference
from .baselines.maxent import MaxEntIRL as MaxEntIRL
from .baselines.relative_entropy import RelativeEntropyIRL as RelativeEntropyIRL
from .constraints.arithmetic import count as count, length as length, total as total
from .constraints.constraint import at_least as at_least, at_most as at_most, exactly as exactly
from .constraints.constraint import Constraint as Constraint, Violation as Violation
from .constraints.constraint import usually as usually
from .constraints.ltlf import ltlf as ltlf
from .constraints.monitor import monitor as monitor
from .constraints.occurrence import (
    always as always,
    before as before,
    first as first,
    never as never,
    response as response,
    sequence as sequence,
    visit as visit,
)
from .constraints.repetition import (
    longest_repeat as longest_repeat,
    longest_run as longest_run,
    no_revisit as no_revisit,
)
from .constraints.arithmetic import share as share
from .constraints.text import parse_constraint as parse_constraint
from .engines.choose import distribution as distribution
from .engines.distribution import Distribution as Distribution, Guarantee as Guarantee
from .engines.formula import Formula as Formula
from .engines.repair import Repair as Repair, repair as repair
from .errors import (
    ConstraintError as ConstraintError,
    ConstraintSyntaxError as ConstraintSyntaxError,
    DivergenceError as DivergenceError,
    EngineError as EngineError,
    FileFormatError as FileFormatError,
    InfeasibleError as InfeasibleError,
    InvalidDemonstrationError as InvalidDemonstrationError,
    MissingExtraError as MissingExtraError,
    MissingFileError as MissingFileError,
    MisuseError as MisuseError,
    NotFittedError as NotFittedError,
    OracleDiedError as OracleDiedError,
    OracleError as OracleError,
    OracleTimeoutError as OracleTimeoutError,
    PathError as PathError,
    ProductTooLargeError as ProductTooLargeError,
    RewardError as RewardError,
    StorageError as StorageError,
    TrajectoryError as TrajectoryError,
    WorldError as WorldError,
    XmenError as XmenError,
)
from .events import Event as Event, anytime as anytime, at as at, doing as doing, when as when
from .engines.settings import EngineSettings as EngineSettings, Xor as Xor
from .learners.base import Progress as Progress
from .learners.causal import CausalXMEN as CausalXMEN
from .learners.xmen import XMEN as XMEN, fit_neural as fit_neural
from .methods.cells import Cells as Cells
from .methods.exact import Exact as Exact
from .methods.neural import Training as Training
from .methods.paper import Paper as Paper
from .methods.reject import Reject as Reject
from .errors import (
    ConvergenceWarning as ConvergenceWarning,
    CostsWarning as CostsWarning,
    GuaranteeWarning as GuaranteeWarning,
    IdentifiabilityWarning as IdentifiabilityWarning,
    InterruptedWarning as InterruptedWarning,
    LearningWarning as LearningWarning,
    LuckWarning as LuckWarning,
    PromiseWarning as PromiseWarning,
    RuleWarning as RuleWarning,
    StartsWarning as StartsWarning,
    UnboundedWarning as UnboundedWarning,
)
from .plots.graph import plot_bars as plot_bars
from .plots.graph import plot_graph as plot_graph
from .plots.graph import plot_history as plot_history
from .plots.graph import plot_network as plot_network
from .plots.world import plot_reward as plot_reward
from .plots.graph import plot_rules as plot_rules
from .plots.world import plot_trajectories as plot_trajectories
from .plots.world import plot_visits as plot_visits
from .plots.world import plot_world as plot_world
from .policies.policy import Policy as Policy, Shield as Shield, plan as plan, shield as shield
from .progress import Callbacks as Callbacks
from .progress import TensorBoard as TensorBoard
from .registry import load as load
from .rewards.linear import LinearReward as LinearReward
from .rewards.neural import ConvReward as ConvReward
from .rewards.neural import FeatureReward as FeatureReward, NeuralReward as NeuralReward
from .rules.inference import RuleInference as RuleInference
from .worlds.demos import check_demos as check_demos, convert_demos as convert_demos
from .worlds.demos import read_demos as read_demos, read_trips as read_trips, write_demos as write_demos
from .worlds.grid import GridWorld as GridWorld
from .worlds.mdp import MDP as MDP
from .worlds.network import Network as Network
from .worlds.sightings import Sighting as Sighting, confusion as confusion, gaussian as gaussian
from .worlds.trajectory import Trajectory as Trajectory

__version__: str
__distribution__: str
