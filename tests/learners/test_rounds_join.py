"""A batch that the weights were fitted to must not shut out a fresh one that disagrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import xmen as xm
from learners.tasks import grid_task
from xmen.methods.cells import CellReader
from xmen.methods.demonstrations import gather
from xmen.methods.loss import DrawnLoss
from xmen.rewards.linear import DenseFeatures


def test_the_newest_batch_has_its_share_by_number():
    grid, rule, array, demos = grid_task(6)
    features = DenseFeatures(array)
    reader = CellReader(xm.distribution(grid, rule, None, engine="xor", oracle="listed"), gather(grid, rule, demos[:3]))
    old = reader.read(reader.plain, None, 8, 4, np.random.default_rng(0)).draws
    new = reader.read(reader.plain, None, 4, 4, np.random.default_rng(1)).draws
    loss = DrawnLoss(old.joined(new), features, np.zeros(4), 0.0, given_shares=np.array([0.999, 0.001])).newest_lifted()
    drawn = [np.count_nonzero(~each.known) for each in (old, new)]
    np.testing.assert_allclose(loss.shares, np.array(drawn) / sum(drawn))
    loss = replace(loss, given_shares=np.array([0.1, 0.9])).newest_lifted()
    np.testing.assert_allclose(loss.shares, [0.1, 0.9])
