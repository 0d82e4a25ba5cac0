"""Algorithm 1 against its bounds on problems small enough to list, and the counts of what its oracle did."""

from __future__ import annotations

import json
from itertools import groupby

import numpy as np
import pytest

import xmen as xm
from xmen.experiments import Notebook, convergence
from xmen.experiments.convergence import Setting, bound, compare, constants, noise_and_bias, slippery, straight

SETTING = Setting(delta=1.18, m1=16, n_draws=8)
WEIGHTED = Setting(delta=1.1, m1=16, n_draws=8)
N_ITER, N_SEEDS = 6, 3


@pytest.fixture(scope="module")
def plain():
    settings = [SETTING, SETTING._replace(delta=1.35), SETTING._replace(n_draws=2)]
    return compare(straight(), settings, N_ITER, N_SEEDS, seed=0)


@pytest.fixture(scope="module")
def weighted():
    others = [WEIGHTED._replace(self_normalised=True), WEIGHTED._replace(letter=True)]
    return compare(slippery(), [WEIGHTED, *others], N_ITER, 2, seed=0)


def walks_on_the_grid(cell=(0, 0), moves=()):
    """All move sequences from (0, 0) to (4, 4), written down without the library."""
    if cell == (4, 4):
        yield moves
    for name, (dx, dy) in {"up": (0, 1), "right": (1, 0), "up-right": (1, 1)}.items():
        x, y = cell[0] + dx, cell[1] + dy
        if x <= 4 and y <= 4:
            yield from walks_on_the_grid((x, y), (*moves, (name, (x, y))))


def test_the_listed_truth_is_what_a_walk_over_the_grid_finds():
    found = []
    for walk in walks_on_the_grid():
        names, cells = [name for name, _ in walk], [cell for _, cell in walk]
        longest = max(len(list(run)) for _, run in groupby(names))
        if ((1, 3) in cells) != ((3, 1) in cells) and longest <= 3:
            found.append([(1, 3) in cells, names.count("up-right")])
    truth = straight()
    assert sorted((truth.rows * truth.span).tolist()) == sorted(np.array(found, dtype=float).tolist())


@pytest.mark.parametrize("problem", [straight(), slippery()], ids=lambda problem: problem.name)
def test_the_optimum_matches_the_demonstrations_and_losses_are_likelihoods(problem):
    assert problem.probabilities(problem.best) @ problem.rows == pytest.approx(problem.demo_mean, abs=1e-6)
    theta = np.array([0.7, -0.4])
    d = xm.distribution(problem.world, problem.rule, problem.features @ (theta / problem.span))
    exact = np.mean([d.log_prob(tau) for tau in problem.demos])  # L leaves out the demonstrations' mean of log D
    dynamics = np.mean([problem.world.log_dynamics(tau) for tau in problem.demos])
    assert -problem.loss(theta) == pytest.approx(exact - dynamics)


def test_the_mean_gap_is_under_the_bound(plain, weighted):
    for curve in [*plain.values(), *weighted.values()]:
        assert curve.gaps.shape[1] == N_ITER
        assert np.all(curve.gaps >= 0.0)
        assert curve.under(curve.ours) is (None if curve.setting.self_normalised else True)


def test_theorem_3_is_the_sum_of_its_two_terms(plain):
    """At K = infinity the variance floor is left, and it falls with the number of draws."""
    first, last = (plain[SETTING].theorem3[k] for k in (0, N_ITER - 1))
    floor = (N_ITER * last - first) / (N_ITER - 1)  # from a / K + b at K = 1 and at K = N_ITER
    sigma1_squared, sigma2_squared, step = constants(straight(), 1.18)
    assert floor == pytest.approx(step * (sigma1_squared / 16 + sigma2_squared / 4) / 1.18**2)


def test_the_theorem_holds_on_quadratics_where_everything_is_known_exactly():
    """L = curvature x^2 / 2 with a constant bias and noise of any size: E L(mean iterate) follows a recursion of means
    and covariances. Of 2,000 random settings none is above the bound; without any one of its terms many are."""
    rng, missed = np.random.default_rng(0), np.zeros(3)
    for _ in range(2000):
        curvature, step = rng.choice([1.0, rng.random()]), rng.choice([1.0, rng.random(), 0.05])  # Lambda = 1
        bias, noise, start, n = *(10.0 ** rng.uniform(-3, 1, size=3) * rng.choice([0, 1], size=3)), rng.integers(1, 60)
        # The state is (x, sum of iterates); its mean and covariance.
        mean, covariance, reach = np.array([start, 0.0]), np.zeros((2, 2)), 0.0
        shrink = 1.0 - step * curvature
        move, push = np.array([[shrink, 0.0], [shrink, 1.0]]), np.array([step, step])
        for _ in range(n):
            mean = move @ mean + push * bias
            covariance = move @ covariance @ move.T + noise * np.outer(push, push)
            reach = max(reach, np.sqrt(mean[0] ** 2 + covariance[0, 0]))  # E|x| is at most that
        loss = curvature * (mean[1] ** 2 + covariance[1, 1]) / n**2 / 2
        terms = np.array([bound(*case, 1.0) for case in ((start**2, step, n, 0, 0, 0), (0, step, n, noise, 0, 0))])
        terms = np.append(terms, bias * reach)
        whole = bound(start**2, step, n, noise, bias, reach, 1.0)
        assert whole == pytest.approx(terms.sum())
        assert loss <= whole + 1e-12
        missed += loss > whole - terms + 1e-12
    assert np.all(missed > 10)


def test_noise_and_bias_of_a_split_sample_are_those_of_draws():
    """Against 40,000 exact draws of the ratio: means within 5 standard errors, squares within a tenth."""
    problem, rng = slippery(), np.random.default_rng(0)
    theta = 0.5 * problem.best
    q = np.exp(problem.rows @ theta)
    d = np.exp(problem.log_dynamics)
    for letter in (False, True):
        setting = Setting(1.1, 16, 16, letter=letter)
        noise, bias = noise_and_bias(problem, setting, theta)
        away = problem.rows - (0.0 if letter else problem.demo_mean)
        drawn = rng.choice(len(d), size=(40_000, 16), p=q / q.sum())
        first, second = drawn[:, :8], drawn[:, 8:]
        ratios = (d[first][:, :, None] * away[first]).sum(axis=1) / d[second].sum(axis=1)[:, None]
        off = np.linalg.norm(ratios.mean(axis=0) - problem.probabilities(theta) @ away)
        spread = ratios.var(axis=0).sum()
        assert abs(off - bias) < 5 * np.sqrt(spread / 40_000)
        assert noise - constants(problem, 1.1)[0] / 16 == pytest.approx(spread, rel=0.1)


def test_a_setting_that_no_iterate_left_has_a_gap_below_where_it_began(plain):
    """Power: a step with the wrong sign would end above L(0) - L*."""
    began = straight().gap(np.zeros(2))
    assert plain[SETTING].mean[-1] < 0.7 * began


def test_counts_are_consistent(plain, weighted):
    for setting, curve in [*plain.items(), *weighted.items()]:
        n = curve.counts
        assert n["drawn"] == setting.n_draws
        assert n["search_cells"] > 0
        assert n["points"] > 0
        assert n["cells"] == pytest.approx(n["search_cells"] + n["drawn"] + n["failed"])
        # A cell with fewer than P solutions takes one call more than it has solutions.
        assert n["points"] <= n["queries"] <= n["points"] + n["cells"]
        assert n["theorem5"] > n["search_cells"] + n["drawn"]


def test_few_draws_are_fewer_cells(plain):
    assert plain[SETTING._replace(n_draws=2)].counts["cells"] < plain[SETTING].counts["cells"]


def test_the_same_seed_gives_the_same_curve(plain):
    again = compare(straight(), [SETTING], N_ITER, N_SEEDS, seed=0)[SETTING]
    assert np.array_equal(again.gaps, plain[SETTING].gaps)
    assert again.counts == plain[SETTING].counts
    other = compare(straight(), [SETTING], N_ITER, 1, seed=1)[SETTING]
    assert not np.array_equal(other.gaps[0], plain[SETTING].gaps[0])


@pytest.mark.system
def test_the_experiment_writes_figures_and_ends_with_the_summary(tmp_path, monkeypatch):
    common = [SETTING, SETTING._replace(m1=4)]
    monkeypatch.setattr(convergence, "SETTINGS", [common, common])
    monkeypatch.setattr(convergence, "WEIGHTED", [[WEIGHTED]])
    monkeypatch.setattr(Notebook, "pick", lambda self, quick, full: 2)
    records = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        book = Notebook("convergence", folder, quick=True, seed=3)
        convergence.run(book)
        records.append(book.finish())
    names = [picture.file for picture in records[0].pictures]
    assert names == ["convergence_curves.png", "convergence_weighted.png", "convergence_queries.png"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    one, two = (json.dumps([vars(table) for table in record.tables]) for record in records)
    assert one == two
    last = records[0].tables[-1]
    assert [row[0] for row in last.rows] == ["common", "M1 4", "slip 8"]
    assert all(row[list(last.columns).index("under ours")] is True for row in last.rows)
