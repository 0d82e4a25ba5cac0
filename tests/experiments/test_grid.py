"""The 9x9 grid world: its maps against a count by hand, and what the experiment promises."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from xmen import MaxEntIRL, XmenError, distribution
from xmen.engines.xor import XorDistribution
from xmen.experiments import reproduce
from xmen.experiments.grid import MAPS, MEMORY, GridMap, divergence, read_map
from xmen.experiments.methods import Effort, fit_one, generate, noticed


def n_valid_by_hand(grid_map):
    """Valid paths by recursion over cells and what was met, written without the constraint language."""
    symbol = {cell: name for name, cells in grid_map.symbols.items() for cell in cells}

    @cache
    def completions(x, y, triangle, squares, circles):
        met = symbol.get((x, y))
        if met == "cross" or (met is not None and met != "triangle" and not triangle):
            return 0
        triangle = triangle or met == "triangle"
        squares, circles = squares + (met == "square"), circles + (met == "circle")
        if (x, y) == (8, 8):
            return int(triangle and squares == 1 and circles == 1)
        steps = ((0, 1), (1, 0), (1, 1))
        inside = [(x + dx, y + dy) for dx, dy in steps if x + dx <= 8 and y + dy <= 8]
        return sum(completions(*cell, triangle, squares, circles) for cell in inside)

    return completions(0, 0, False, 0, 0)


@pytest.mark.parametrize("grid_map", MAPS, ids=lambda one: one.name)
def test_valid_paths_are_counted_as_by_hand(grid_map):
    log_z = distribution(grid_map.world, grid_map.rules, None).log_partition()
    assert np.exp(log_z) == pytest.approx(n_valid_by_hand(grid_map))


@pytest.mark.parametrize("grid_map", MAPS, ids=lambda one: one.name)
def test_demonstrations_are_valid_and_seven_in_ten_take_the_upper_arm(grid_map):
    demos = grid_map.demonstrations(100, seed=3)
    assert all(rule.accepts(tau) for tau in demos for rule in grid_map.rules)
    assert sum(grid_map.upper.accepts(tau) for tau in demos) == 70
    assert (grid_map.of_type(grid_map.demonstrations(200, seed=1)).sum(axis=0) == 1).all()  # each is of one type


def test_the_first_map_needs_memory_and_the_second_hardly_does():
    valid = {}
    for one in MAPS:
        model = MaxEntIRL(one.world, l2=1e-4).fit(one.demonstrations(1000, seed=5))
        valid[one.name] = model.distribution().probability(one.rules)
    assert valid["memory"] < 0.5
    assert valid["near-Markov"] > 0.95


MAP = """format = 1
world = { kind = "grid", width = 9, height = 9, start = [0, 0], goal = [8, 8], moves = ["up", "right", "up-right"] }
[events]
triangle = { cells = [[1, 3], [3, 1]] }
cross = { cells = [[2, 2], [3, 3], [4, 4], [5, 5], [6, 6], [7, 0], [0, 7]] }
square = { cells = [[1, 5], [5, 1], [3, 6], [6, 3]] }
circle = { cells = [[7, 4], [4, 7]] }
"""


def test_a_map_of_ones_own_is_a_problem_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(MAP)
    one = read_map(file)
    assert one == GridMap("mine", (1, 3), ((1, 5), (3, 6)), ((4, 7),), crosses=((0, 7),))
    assert all(one.valid(one.demonstrations(20, seed=0)))
    for text, other in (("[3, 1]", "[3, 2]"), ("[2, 2], ", ""), ("width = 9", "width = 10"), ("square =", "box =")):
        file.write_text(MAP.replace(text, other))
        with pytest.raises(XmenError, match=r"mine\.toml: .*9x9 .*triangle, cross"):
            read_map(file)


def test_divergence_is_infinite_where_the_model_has_no_mass():
    assert divergence(np.array([0.7, 0.3]), np.array([0.7, 0.3])) == 0
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(np.log(2))
    assert divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == np.inf


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return reproduce("grid", tmp_path_factory.mktemp("grid"), quick=True)


def rows_of(record, map_name):
    """Every row of a map's table by its method; the means where there are errors too."""
    (table,) = [one for one in record.tables if one.title.startswith(f"the {map_name} map")]
    plain = [[one[0] if isinstance(one, list) else one for one in row] for row in table.rows]
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in plain}


@pytest.mark.system
@pytest.mark.parametrize("name", [one.name for one in MAPS])
def test_x_men_rows_are_all_valid_and_match_the_demonstrated_path_types(record, name):
    rows = rows_of(record, name)
    ours = [row for method, row in rows.items() if method.startswith("X-MEN")]
    assert {row["valid"] for row in ours} == {1.0}
    assert [row["P(valid)"] for row in ours] == pytest.approx([1.0] * len(ours))
    for method in ("X-MEN exact, no oracle", "X-MEN cells, listed"):
        assert rows[method]["KL, arms"] <= 0.005
        assert rows[method]["KL, types"] <= 0.005
    if name != "near-Markov":
        assert all(rows[rival]["valid"] <= 0.5 for rival in ("MaxEnt", "RE-IRL", "MLCI"))


@pytest.mark.system
def test_oracles_seeds_and_triangles_and_both_divergences_are_told(record):
    rows = rows_of(record, "one-triangle")
    assert all(row["P(triangle)"] == pytest.approx(1.0) for name, row in rows.items() if name.startswith("X-MEN"))
    assert rows["MaxEnt"]["KL, arms"] < rows["MaxEnt"]["KL+, arms"]
    assert {"MLCI", "MLCI on MaxEnt"} <= set(rows)
    seeds = {name: row["seeds"] for name, row in rows_of(record, "memory").items() if name.startswith("X-MEN")}
    several = ("X-MEN exact, no oracle", "X-MEN cells, listed", "X-MEN cells, CryptoMiniSat", "X-MEN paper, listed")
    assert seeds == {**dict.fromkeys(several, 2), "X-MEN paper, CryptoMiniSat": 1}


@pytest.mark.system
def test_the_features_table_has_both_divergences_under_their_names(record):
    """MaxEnt with a weight per state splits the arms as demonstrated, and breaks the rules three times in four."""
    (table,) = [table for table in record.tables if table.title == "what features can say"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "memory"]
    maxent = next(row for row in rows if (row["features"], row["method"]) == ("one per state", "MaxEnt"))
    assert maxent["KL, arms"] < 1e-3
    assert maxent["KL+, arms"] == pytest.approx(maxent["KL, arms"] - np.log(maxent["P(valid)"]))


SOLVED = pytest.param("paper-solver", "cryptominisat", 600, marks=pytest.mark.system)  # of which a tenth is drawn


@pytest.mark.parametrize(("name", "oracle", "wanted"), [("paper", "listed", 60), SOLVED])
def test_the_papers_rows_come_from_a_pool_that_the_fits_oracle_drew(name, oracle, wanted, monkeypatch):
    """Of a pool of n different trajectories, n picks meet about (1 - 1/e) n; draws from the model itself would meet
    nearly n, there are 2,940 of them and weights hardly differ after a step. The band is six standard deviations wide.
    """
    asked, draw = [], XorDistribution.sample_paws

    def watched(self, *given, **named):
        asked.append(self.oracle)
        return draw(self, *given, **named)

    effort = Effort(paper_iter=1, solver_iter=1, paper_samples=2)
    with noticed():
        demos = MEMORY.demonstrations(20, seed=0)
        task = SimpleNamespace(world=MEMORY.world, rules=MEMORY.rules, features=None, demos=demos)
        model = fit_one(name, task, effort, 0)
    monkeypatch.setattr(XorDistribution, "sample_paws", watched)
    n = 60
    drawn = generate(name, model, wanted, seed=0)
    assert asked == [oracle]
    assert len(drawn) == n
    assert all(rule.accepts(tau) for tau in drawn for rule in MEMORY.rules)
    assert abs(len({tau.states for tau in drawn}) / n - (1 - np.exp(-1))) < 0.24
    assert len({tau.states for tau in generate("exact", model, n, seed=0)}) > 0.9 * n


@pytest.mark.system
def test_every_figure_has_a_caption(record):
    assert len(record.pictures) == 16
    assert all(picture.caption for picture in record.pictures)
    assert [picture.file for picture in record.pictures if picture.timed] == ["grid_by_time.png"]
