"""xmen engines: what it lists, what it says of a problem and of its cost."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cli.commands import report, run
from cli.problems import PROBLEM, RULES
from xmen.problem import read_problem

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("folder")]  # engines are timed in processes of their own


def test_engines_lists_engines_and_oracles():
    result = run("engines")
    assert all(word in result.output for word in ("exact", "reject", "xor", "cryptominisat"))
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


def test_engines_says_what_is_known_when_a_timing_takes_too_long(monkeypatch):
    """No clock decides: here every stage after the build takes too long, and below even building does."""
    from xmen.cli import engines as _timing

    class Ended(Exception):
        """In place of the end of the process."""

    def child(path, engine, limit, stages):
        entered, said = [], []

        @contextmanager
        def ending(limit):
            entered.append(limit)
            if len(entered) > 2:  # the build, and what it says about itself
                raise Ended
            yield

        monkeypatch.setattr(_timing, "_ending_after", ending)
        with suppress(Ended):
            _timing._run(path, engine, limit, stages, lambda stage, answer: said.append((stage, answer)))
        yield from said

    run("new grid.toml")
    with monkeypatch.context() as changed:
        changed.setattr(_timing, "_child", child)
        found = report("engines grid.toml --engine xor --limit 5")
    assert found["seconds"]["build"] > 0
    assert found["seconds"]["gradient"] is found["seconds"]["100 samples"] is None
    assert found["sizes"]["variables"] > 1000
    assert found["guarantee"]["delta"] > 1
    hasty = run("engines grid.toml --engine xor --limit 0.001")
    assert hasty.exit_code == 0
    assert "build more than 0.001 s" in hasty.output
    assert "64 states" in hasty.output


def test_a_stage_that_takes_too_long_does_not_hide_the_next(monkeypatch):
    from xmen.cli import engines as _timing

    def child(path, engine, limit, stages):
        yield "build", 1.0
        yield "facts", {"engine": "xor"}
        yield from [(stage, 3.0) for stage in stages if stages[0] != "gradient"]

    monkeypatch.setattr(_timing, "_child", child)
    facts, seconds = _timing.measure(Path("p.toml"), "xor", 5.0)
    assert facts == {"engine": "xor"}
    assert seconds == {"build": 1.0, "gradient": None, "100 samples": 3.0}


def test_engines_of_a_product_over_the_budget(folder):
    (folder / "tight.toml").write_text(PROBLEM + "\n[settings]\nmax_nodes = 30\n")
    found = report("engines tight.toml")
    assert found["engine"] == "reject"
    assert 0 < found["sizes"]["acceptance"] <= 1
    assert set(found["sizes"]["multiplied"] + found["sizes"]["rejecting"]) == set(RULES)
    assert "acceptance" in run("engines tight.toml").output


def test_engines_xor_names_the_oracle():
    found = report("engines problem.toml --engine xor")
    assert found["engine"] == "xor"
    assert found["sizes"]["oracle"]
    assert found["sizes"]["hash variables"] > 0
    assert found["guarantee"]["delta"] > 1


def test_engines_mentions_what_the_file_asks_for(folder):
    (folder / "asks.toml").write_text(PROBLEM + '\n[settings]\nengine = "reject"\n')
    assert 'the problem file asks for "reject"' in run("engines asks.toml").output
