"""Samplers and estimators that cut a space into random hash cells; they know a formula and a weight, no world.

PAWS is the paper's sampler (`paws`); cells are ours, which estimate, bound and sample (`cells`). All take a `Space`;
weights that differ much go through an `Embedding` first.
"""

from xmen.sampling.cells import CellPlan as CellPlan, sample_cells as sample_cells
from xmen.sampling.cells import CellEstimate as CellEstimate, estimate as estimate
from xmen.sampling.embedding import Embedding as Embedding, Levels as Levels, embed as embed
from xmen.sampling.jobs import Job as Job, UnfinishedError as UnfinishedError, run_jobs as run_jobs, spawn as spawn
from xmen.sampling.cells import PartitionBound as PartitionBound, bound_partition as bound_partition
from xmen.sampling.cells import choose_parities as choose_parities
from xmen.sampling.paws import PawsPlan as PawsPlan, find_level as find_level, sample_paws as sample_paws
from xmen.sampling.space import Info as Info, Space as Space
