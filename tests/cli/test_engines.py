"""xmen engines: what it lists, what it says of a problem and of its cost."""

from __future__ import annotations

import re
from itertools import count

import pytest

import xmen as xm
from cli.commands import report, told
from cli.problems import PROBLEM, RULES
from xmen.cli import check
from xmen.engines.exact import ExactDistribution
from xmen.problem import read_problem
from xmen.progress import tell

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("problems")]  # engines are timed in processes of their own


def test_engines_lists_engines_and_oracles():
    said = told("engines")
    assert all(word in said for word in ("exact", "reject", "xor", "cryptominisat"))
    found = report("engines")
    assert set(found["engines"]) == {"exact", "reject", "xor", "auto"}
    assert found["oracles"]["cryptominisat"]["installed"] is True
    assert re.match(r"\d+\.\d+", found["oracles"]["cryptominisat"]["version"])


def test_engines_says_what_auto_chooses_and_what_it_costs():
    found = report("engines problem.toml")
    d = read_problem("problem.toml").distribution()
    assert (found["engine"], found["reason"]) == ("exact", d.reason)
    assert found["sizes"] == {"product nodes": d.product.n_nodes, "product edges": d.product.n_edges}
    assert found["rules"] == RULES
    assert all(0 < seconds < 60 for seconds in found["seconds"].values())
    assert set(found["seconds"]) == {"build", "gradient", "100 samples"}
    assert found["limit"] == 20


def test_a_stage_that_takes_too_long_does_not_hide_the_next(monkeypatch):
    """No clock decides: here a solver meets its limit in the gradient, and below even building takes too long."""

    def too_long(self):
        raise xm.OracleTimeoutError("met the limit")

    told("new grid.toml")
    with monkeypatch.context() as changed:
        changed.setattr(ExactDistribution, "visits", too_long)
        found = report("engines grid.toml --limit 50")
    assert found["seconds"]["gradient"] is None
    assert found["seconds"]["build"] > 0 < found["seconds"]["100 samples"]
    monkeypatch.setattr(check.time, "perf_counter", count(step=10).__next__)
    hasty = told("engines grid.toml --limit 9")
    for fact in ("build more than 9 s", "--limit", "64 states"):
        assert fact in hasty


def test_a_stage_ends_when_its_work_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(check.time, "perf_counter", count(step=3).__next__)
    heard = []

    def work():
        for line in range(10):
            heard.append(line)
            tell(str(line))

    assert check._timed(work, 5.0) == (None, None)
    assert heard == [0, 1]


def test_engines_of_a_product_over_the_budget(problems):
    (problems / "tight.toml").write_text(PROBLEM + "\n[settings]\nmax_nodes = 30\n")
    found = report("engines tight.toml")
    assert found["engine"] == "reject"
    assert 0 < found["sizes"]["acceptance"] <= 1
    assert set(found["sizes"]["multiplied"] + found["sizes"]["rejecting"]) == set(RULES)
    assert "acceptance" in told("engines tight.toml")


def test_engines_xor_names_the_oracle():
    found = report("engines problem.toml --engine xor")
    assert found["engine"] == "xor"
    assert found["sizes"]["oracle"]
    assert found["sizes"]["hash variables"] > 0
    assert found["guarantee"]["delta"] > 1


def test_engines_mentions_what_the_file_asks_for(problems):
    (problems / "asks.toml").write_text(PROBLEM + '\n[settings]\nengine = "reject"\n')
    assert 'asks for "reject"' in told("engines asks.toml")
