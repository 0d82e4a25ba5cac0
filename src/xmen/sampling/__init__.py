"""Samplers and estimators that cut a space into random hash cells; they know a formula and a weight, no world.

PAWS is the paper's sampler (`paws_plan`, `paws`); cells are ours (`cells` estimates, `partition` bounds, `cell_sampler`
samples). All take a `Space`; weights that differ much go through an `Embedding` first.
"""

from xmen.sampling.cell_sampler import CellPlan, sample_cells
from xmen.sampling.cells import CellEstimate, estimate
from xmen.sampling.embedding import Embedding, Levels, WeightDepth, embed
from xmen.sampling.jobs import Job, UnfinishedError, run_jobs, spawn
from xmen.sampling.numbered import NumberedLevels, embed_numbers
from xmen.sampling.partition import PartitionBound, bound_partition, choose_parities
from xmen.sampling.paws import FoundLevel, find_level, sample_paws
from xmen.sampling.paws_plan import PawsPlan
from xmen.sampling.space import Info, Space, UniformWeight

__all__ = [
    "CellEstimate",
    "CellPlan",
    "Embedding",
    "FoundLevel",
    "Info",
    "Job",
    "Levels",
    "NumberedLevels",
    "PartitionBound",
    "PawsPlan",
    "Space",
    "UnfinishedError",
    "UniformWeight",
    "WeightDepth",
    "bound_partition",
    "choose_parities",
    "embed",
    "embed_numbers",
    "estimate",
    "find_level",
    "run_jobs",
    "sample_cells",
    "sample_paws",
    "spawn",
]
