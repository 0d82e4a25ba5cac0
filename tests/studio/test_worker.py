"""What the worker answers about rules that are usually kept, broken demonstrations and gaps, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

import xmen as xm
from studio.problems import changed, write_problem
from studio.test_live import walks
from xmen.answers import before_learning
from xmen.problem import read_problem
from xmen.studio.document import open_document, read_one
from xmen.studio.worker import Actor, check, find_rules, learn, mend, python_text

MUDDY = {"states": [[0, 0], [1, 0], [2, 0], [3, 0], [3, 1], [3, 2], [3, 3]], "actions": ["right"] * 3 + ["up"] * 3}
WET = {"states": [[0, 0], [0, 1], [0, 2], [1, 2], [1, 1], [2, 1], [3, 1], [3, 2], [3, 3]]}
WET["actions"] = ["up", "up", "right", "down", "right", "right", "up", "up"]  # twice in the mud
GAPS = {"states": [[0, 0], None, None, [0, 3], None, None, [3, 3]], "actions": [], "weight": 2.0}


@pytest.fixture
def path(tmp_path):
    return write_problem(tmp_path)


def document(path, *records, **tables):
    """The document of the file with some tables replaced, and these demonstrations after its own."""
    opened = open_document(path)
    return type(opened)(
        changed(opened.problem, **tables), [*opened.demonstrations, *({"weight": 1.0} | r for r in records)]
    )


def usually(text="usually(count(mud) <= 1)", **more):
    key = {"name": "fetch the key", "rule": "visit(key)"}
    return {
        "constraints": [key, {"name": "hardly any mud", "rule": text}],
        "studio": {"held_out": 0.0, "l2": 0.0},
        **more,
    }


def checked(document, path):
    found = {}
    for part in check(document, path):
        found |= part
    return found


@pytest.mark.parametrize("text", ["usually(R)", "usually(R, share=0.9)", "usually(R, weight=-1.5)"])
def test_a_rule_that_is_usually_kept_forbids_nothing_and_the_check_says_who_keeps_it(path, text):
    found = checked(document(path, WET, **usually(text.replace("R", "count(mud) <= 1"))), path)
    problem = read_problem(path)
    valid = [tau for tau in walks(problem.world) if problem.rules["fetch the key"].accepts(tau)]
    assert (found["errors"], found["conflict"], found["trajectories"]["valid"]) == ([], [], len(valid))
    assert not any("hardly any mud" in note for note in found["notes"])
    verdicts = found["demonstrations"]
    assert verdicts[-1] == {"valid": True, "broken": [], "not_kept": ["hardly any mud"]}
    assert all(one == {"valid": True, "broken": []} for one in verdicts[:-1])


def test_with_chance_usual_rules_do_not_matter_for_what_can_be_promised(path):
    chance = {"world": {"slip": 0.2, "walls": [], "horizon": 20}}
    hard = [{"name": "fetch the key", "rule": "visit(key)"}]
    alone = checked(document(path, **chance, constraints=hard), path)["policy"]
    for text in ("usually(never(mud))", "usually(never(mud), share=0.9)"):
        assert checked(document(path, **usually(text), **chance), path)["policy"] == alone


def test_what_was_learned_of_a_usual_rule_is_that_of_the_library(path):
    asked = document(path, WET, **usually())
    problem = asked.problem_at(path)
    found, models = learn(problem, asked, True, lambda record: None)
    demos = [read_one(problem.world, record) for record in asked.demonstrations]
    usual = xm.usually(read_problem(path).rules["hardly any mud"])
    model = xm.XMEN(problem.world, [problem.rules["fetch the key"], usual], problem.reward.features).fit(demos)
    (row,) = found["model"]["rules"]
    assert row["rule"] == "hardly any mud"
    assert row["weight"] == pytest.approx(model.rule_weights_["hardly any mud"], abs=1e-6)
    assert row["error"] == pytest.approx(model.summary().standard_errors[-1], rel=1e-4)
    assert row["kept"] == pytest.approx(20 / 21, abs=1e-6)  # as often as the demonstrations do
    assert found["compare"]["rules"] == []
    actor = Actor(before_learning(problem), models["model"], None)
    drawn = actor.generate(n=400, best=0, seed=0)["trajectories"]
    assert 0 < sum("not_kept" in one for one in drawn) < 60  # 19 are expected
    assert all(one["valid"] for one in drawn)
    assert "problem.constraint" in python_text(problem, asked, path)


def test_before_anything_is_learned_a_usual_rule_has_no_preference(path):
    problem = document(path, **usually()).problem_at(path)
    hard = xm.distribution(problem.world, problem.rules["fetch the key"])
    assert before_learning(problem).distribution().log_partition() == pytest.approx(hard.log_partition())
    given = document(path, **usually("usually(count(mud) <= 1, share=0.9)")).problem_at(path)
    mud = given.rules["hardly any mud"].rule
    assert before_learning(given).distribution().probability(mud) == pytest.approx(0.9)


def test_rules_are_found_beside_usual_ones_and_in_demonstrations_without_gaps(path):
    asked = document(path, GAPS, **usually())
    with_gaps = find_rules(asked.problem_at(path), asked, 3, 0.05)
    alone = document(path, **usually())
    assert with_gaps["candidates"] == find_rules(alone.problem_at(path), alone, 3, 0.05)["candidates"] > 5
    only = type(asked)(asked.problem, [GAPS])
    with pytest.raises(xm.TrajectoryError, match="without gaps"):
        find_rules(only.problem_at(path), only, 3, 0.05)


def test_what_mends_a_demonstration_is_the_nearest_valid_trajectory(path):
    problem = read_problem(path)
    tau = read_one(problem.world, WET)
    (offer,) = mend(problem, WET)["offers"]
    mended, nearest = read_one(problem.world, offer), xm.repair(problem.world, problem.constraint, tau)
    assert mended == nearest.trajectory
    assert problem.constraint.accepts(mended)
    assert offer["edits"] == list(nearest.edits)
    with pytest.raises(xm.TrajectoryError, match="off the grid"):
        mend(problem, {"states": [[0, 0], [9, 9]], "actions": ["up"]})


@pytest.mark.parametrize("weights", [None, [-0.5, -1.0]])
def test_gaps_are_filled_by_the_likeliest_trajectories_with_their_probabilities(path, weights):
    problem = read_problem(path)
    model = None
    if weights is not None:
        known = {"fixed": dict(enumerate(weights)), "max_iter": 0}
        model = xm.XMEN(problem.world, problem.constraint, problem.reward.features, **known).fit(problem.demos())
    fits = [tau for tau in walks(problem.world) if (len(tau), tau.states[0], tau.states[3]) == (6, 0, 12)]
    fits = [tau for tau in fits if problem.constraint.accepts(tau)]
    table = problem.reward.features @ (weights or [0.0, 0.0])
    mass = np.array([np.exp(sum(table[s, a] for s, a in zip(tau.states, tau.actions, strict=False))) for tau in fits])
    mass /= mass.sum()
    found = Actor(problem, model, None).complete(GAPS["states"], len(fits))
    chances = [one["probability"] for one in found["offers"]]
    assert chances == pytest.approx(sorted(mass, reverse=True))
    known = dict(zip(fits, mass, strict=True))
    assert chances == pytest.approx([known[read_one(problem.world, one)] for one in found["offers"]])
    visits = sum(p * np.bincount(tau.states, minlength=16) for tau, p in known.items())
    assert found["visits"] == pytest.approx(visits.tolist())


def test_demonstrations_with_gaps_are_judged_and_learned_from(path):
    lost = {"states": [[0, 0], None, [3, 3]], "actions": []}
    asked = document(path, GAPS, lost, **usually("count(mud) <= 1"))
    verdicts = checked(asked, path)["demonstrations"]
    assert verdicts[-2] == {"valid": True, "broken": []}
    assert verdicts[-1]["valid"] is False
    assert verdicts[-1]["broken"][0]["position"] == 2
    problem = asked.problem_at(path)
    found, _ = learn(problem, asked, False, lambda record: None)
    seen = xm.Sighting([0, None, None, 12, None, None, 15])
    demos, shares = [*problem.demos(), seen], [*[1.0] * 20, 2.0]
    model = xm.XMEN(problem.world, problem.constraint, problem.reward.features).fit(demos, shares)
    assert [row["weight"] for row in found["model"]["weights"]] == pytest.approx(model.weights_.tolist(), abs=1e-5)
    assert found["left_out"] == ["21"]
    assert found["model"]["demo_visits"][12] >= 2.0 / 22


def test_noise_of_the_problem_is_that_of_its_demonstrations(path):
    path.write_text(path.read_text("utf-8").replace("seed = 3", "seed = 3\nnoise = 0.1"))
    asked = document(path, WET)
    assert all(len(one["actions"]) == len(one["states"]) - 1 for one in asked.demonstrations)
    assert all(one["valid"] for one in checked(asked, path)["demonstrations"])  # some entries may be wrong
    problem = asked.problem_at(path)
    assert [one.noise for one in asked.demos(problem)] == [xm.confusion(0.1)] * 21
