"""Jobs do what the library does, in a process that can be ended."""

from __future__ import annotations

import os
import queue
import runpy
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import xmen as xm
from waiting import DEADLINE, wait_for
from xmen.problem import read_problem
from xmen.studio import app
from xmen.studio import document as limits
from xmen.studio.app import Jobs, Worker
from xmen.studio.document import Document
from xmen.studio.worker import Question

pytestmark = pytest.mark.system

UNFINISHED = {"states": [[0, 0], [0, 1]], "actions": ["up"]}


@pytest.fixture
def learned(window, document):
    """All demonstrations, one of them twice as heavy, and MaxEnt beside it."""
    document["demonstrations"][0]["weight"] = 2.0
    window.change(document["demonstrations"], studio={"held_out": 0.0})
    return window.job("learn", compare=True)


def test_learning_is_that_of_the_library(window, learned, tmp_path):
    problem = read_problem(tmp_path / "p.toml")
    demos, weights = problem.demos(), [2.0, *[1.0] * 19]
    model = xm.XMEN(problem.world, problem.constraint, problem.reward.features, l2=0.1).fit(demos, weights)
    one, other = learned["model"], learned["compare"]
    assert [row["feature"] for row in one["weights"]] == ["steps", "mud"]
    assert [row["weight"] for row in one["weights"]] == pytest.approx(model.weights_.tolist(), abs=1e-6)
    assert [row["error"] for row in one["weights"]] == pytest.approx(model.standard_errors_.tolist(), rel=1e-4)
    assert one["log_likelihood"] == pytest.approx(model.score(demos, weights))
    assert one["visits"] == pytest.approx(model.distribution().state_visits().tolist(), abs=1e-6)
    assert len(one["records"]) == one["iterations"] > 1
    assert (one["valid"], one["held_out"], learned["left_out"]) == (1.0, None, [])
    maxent = xm.MaxEntIRL(problem.world, problem.reward.features, l2=0.1).fit(demos, weights)
    assert [row["weight"] for row in other["weights"]] == pytest.approx(maxent.weights_.tolist(), abs=1e-6)
    free = maxent.distribution()
    kept = [tau for tau in free.sample(4000, seed=0) if problem.constraint.accepts(tau)]
    assert other["valid"] == pytest.approx(len(kept) / 4000, abs=0.04)  # five standard errors


def test_invalid_demonstrations_are_left_out_and_some_are_held_out(window, document):
    window.change([UNFINISHED, *document["demonstrations"]])
    found = window.job("learn")
    assert found["left_out"] == ["20"]
    assert found["compare"] is None
    assert (found["model"]["demonstrations"], found["model"]["held_out"]["demonstrations"]) == (15, 5)
    window.change([UNFINISHED])
    failed = window.finished("learn")
    assert failed["state"] == "failed"
    assert "no demonstration" in failed["error"]["error"]


def test_what_was_learned_generates_under_further_rules_without_learning_again(window, learned, tmp_path):
    problem = read_problem(tmp_path / "p.toml")
    weights = [row["weight"] for row in learned["model"]["weights"]]
    also = xm.parse_constraint("never(mud)", problem.events)
    d = problem.distribution(also).with_reward(problem.reward.features @ weights)
    asked = {"n": 30, "seed": 1, "also": ["never(mud)"], "from": "model"}
    drawn = window.job("generate", **asked)["trajectories"]
    assert len(drawn) == 30
    for one in drawn:
        states = [problem.world.state(tuple(cell)) for cell in one["states"]]
        tau = xm.Trajectory(states, [problem.world.moves.index(move) for move in one["actions"]])
        assert one["valid"]
        assert also.accepts(tau)
        assert one["log_prob"] == pytest.approx(d.log_prob(tau), abs=1e-5)
    assert drawn == window.job("generate", **asked)["trajectories"]
    best = window.job("generate", best=3, **{"from": "model"})
    logs = [one["log_prob"] for one in best["trajectories"]]
    assert best["best"]
    assert logs == sorted(logs, reverse=True)
    others = window.job("generate", n=60, seed=0, **{"from": "compare"})["trajectories"]
    assert {one["valid"] for one in others} == {True, False}
    assert all(one["broken"] for one in others if not one["valid"])


def test_before_anything_was_learned_only_the_problem_itself_generates(window):
    refused = window.ask("POST", "jobs", {"kind": "generate", "from": "model"}, 422)
    assert "learn first" in refused["error"]
    assert len(window.job("generate", n=5)["trajectories"]) == 5


def test_a_model_goes_on_in_the_world_for_which_it_was_learned(window, learned):
    window.change(world={"width": 5, "goal": [4, 3]})
    drawn = window.job("generate", n=5, **{"from": "model"})["trajectories"]
    assert {tuple(one["states"][-1]) for one in drawn} == {(3, 3)}


def test_found_rules_can_be_taken_over(window):
    window.change(constraints=[], reward={"features": ["steps"]})
    found = window.job("find")
    assert found["candidates"] > 5
    texts = [one["rule"] for one in found["rules"]]
    assert any("key" in text for text in texts)
    assert all(one["gain"] > 0 and one["kept"] == 1.0 for one in found["rules"])
    window.change(constraints=[{"name": text, "rule": text} for text in texts])
    checked = window.check()
    assert checked["errors"] == []
    assert all(one["valid"] for one in checked["demonstrations"])


def test_policies_promise_what_the_library_promises_and_episodes_can_be_stepped_through(window, tmp_path):
    world = {"slip": 0.2, "walls": None, "horizon": 12}
    rules = [{"name": "no mud", "rule": "never(mud)"}]
    window.change(world=world, constraints=rules, settings={"validity": "best"})
    window.save()
    problem = read_problem(tmp_path / "p.toml")
    found = {one["promise"]: one for one in window.job("policy", p=0.3)["policies"]}
    assert found["sure"]["validity"] is None
    assert "no mud" in found["sure"]["message"]
    for promise in ("best", 0.3):
        policy = problem.plan(validity=promise)
        assert found[promise]["validity"] == pytest.approx(policy.validity)
        assert found[promise]["reward"] == pytest.approx(policy.expected_reward())

    begin = window.job("step", promise="best", states=[], actions=[])
    assert begin["starts"] == [{"state": [0, 0], "probability": 1.0}]
    assert begin["chance"] == pytest.approx(found["best"]["validity"])
    states, actions, rng = [[0, 0]], [], np.random.default_rng(0)
    while True:
        now = window.job("step", promise="best", states=states, actions=actions)
        if now["ended"]:
            break
        assert sum(one["probability"] for one in now["choices"]) == pytest.approx(1.0)
        taken = now["choices"][int(np.argmax([one["probability"] for one in now["choices"]]))]
        chances = [one["probability"] for one in taken["outcomes"]]
        assert sum(chances) == pytest.approx(1.0)
        actions.append(taken["action"])
        states.append(taken["outcomes"][int(rng.integers(len(chances)))]["state"])  # as the user chooses
    moves = [problem.world.moves.index(move) for move in actions]
    tau = xm.Trajectory([problem.world.state(tuple(cell)) for cell in states], moves)
    kept = problem.world.problem(tau) is None and problem.constraint.accepts(tau)
    assert now["kept"] is kept
    assert now["chance"] == float(kept)


def test_what_mends_and_what_completes_a_demonstration_are_jobs(window, tmp_path):
    problem = read_problem(tmp_path / "p.toml")
    right, up = ["right"] * 3, ["up"] * 3
    (offer,) = window.job("mend", states=[[0, 0], [1, 0], [1, 1]], actions=["right", "up"])["offers"]
    states = [problem.world.state(tuple(cell)) for cell in offer["states"]]
    assert problem.constraint.accepts(xm.Trajectory(states, [problem.world.moves.index(m) for m in offer["actions"]]))
    seen = [[0, 0], None, None, [3, 0], None, None, [3, 3]]
    (only,) = window.job("complete", states=seen)["offers"]
    assert (only["actions"], only["probability"]) == ([*right, *up], pytest.approx(1.0))
    failed = window.finished("complete", states=[[0, 0], None, [3, 3]])
    assert "no valid trajectory" in failed["error"]["error"]


@pytest.fixture
def endless(window, document):
    """A job that learns without an end, and its process; the next job is done, however this one ended."""
    window.change(studio={"method": "paper(n_samples=64)", "max_iter": 1_000_000})
    job = window.ask("POST", "jobs", {"kind": "learn"}, 202)["job"]
    wait_for(lambda: window.get(f"jobs/{job}")["records"])
    yield job, window.session.jobs_worker.warm().pid
    window.put(document["problem"])
    assert len(window.job("generate", n=2)["trajectories"]) == 2
    assert window.get("jobs")["jobs"][-1]["kind"] == "generate"


def test_cancelling_ends_the_process(window, endless):
    job, pid = endless
    busy = window.ask("POST", "jobs", {"kind": "find"}, 409)
    assert (busy["job"], busy["kind"]) == (job, "learn")
    assert psutil.pid_exists(pid)
    assert window.ask("DELETE", f"jobs/{job}")["state"] == "cancelled"
    wait_for(lambda: not psutil.pid_exists(pid))
    assert window.get(f"jobs/{job}")["state"] == "cancelled"
    assert window.ask("DELETE", "jobs/j99", status=404)["kind"] == "NoJob"


def test_a_worker_that_dies_is_replaced(window, endless):
    job, pid = endless
    os.kill(pid, 9)
    wait_for(lambda: window.get(f"jobs/{job}")["state"] == "failed")
    assert "died" in window.get(f"jobs/{job}")["error"]["error"]


@pytest.mark.parametrize(
    ("features", "held_out", "broken"), [(["steps", "mud", "move up"], 0.0, 0), ([], 0.25, 0), (["mud"], 0.3, 2)]
)
def test_the_python_that_is_shown_does_the_same(
    window, document, tmp_path, features, held_out, broken, monkeypatch, capsys
):
    document["demonstrations"][1]["weight"] = 3.0
    demos = [UNFINISHED] * broken + document["demonstrations"]
    window.change(demos, reward={"features": features}, studio={"held_out": held_out, "l2": 0.05})
    assert window.get("python")["saved"] is False
    window.save()
    shown = window.get("python")
    assert shown["saved"] is True
    assert len(shown["text"].strip().splitlines()) <= (15 if held_out else 10)
    # What it prints is rounded; its names say it exactly.
    (tmp_path / "shown.py").write_text(shown["text"])
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path("shown.py")
    learned = window.job("learn")["model"]
    assert names["model"].weights_.tolist() == pytest.approx([row["weight"] for row in learned["weights"]], abs=1e-5)
    assert len(names["demos"]) == learned["demonstrations"]
    assert capsys.readouterr().out.count("Trajectory(") == 5


class Process:
    """A process that is only said to be one: what it was asked, and the answers that a test gives for it."""

    made: list[Process]
    arrivals: queue.SimpleQueue[str]  # kinds of questions, as any of them was asked

    def __init__(self, module: str) -> None:
        self.asked: list[str] = []
        self.alive, self._answers = True, queue.SimpleQueue()
        Process.made.append(self)

    def send(self, question: Question) -> None:
        if not self.alive:
            raise BrokenPipeError
        self.asked.append(question.kind)
        self.arrivals.put(question.kind)
        self.say("begun")

    def say(self, *message: object) -> None:
        self._answers.put(message)

    def receive(self, seconds: float | None = None) -> tuple[object, ...]:
        message = self._answers.get(timeout=DEADLINE)
        if message == ("gone",):
            raise EOFError
        return message

    def kill(self) -> None:
        self.alive = False
        self.say("gone")


@pytest.fixture
def processes(monkeypatch):
    monkeypatch.setattr(Process, "made", [], raising=False)
    monkeypatch.setattr(Process, "arrivals", queue.SimpleQueue(), raising=False)
    monkeypatch.setattr(app, "Child", Process)
    return Process.made


def question(kind: str) -> Question:
    return Question(kind, Document({}, []), Path("p.toml"))


def test_a_job_that_begins_in_the_middle_of_a_cancel_gets_a_process_of_its_own(processes):
    second_is_there = threading.Event()  # at the lock, or beyond it

    class Turn:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                second_is_there.set()
                self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            self._lock.release()

    class Stopping(Worker):
        def stop(self) -> None:
            rival.start()
            assert second_is_there.wait(DEADLINE)
            super().stop()

    jobs = Jobs(Stopping(), lambda event, record: None)
    jobs._lock = Turn()
    first, second = jobs.start(1, question("learn")), []

    def begin() -> None:
        second.append(jobs.start(1, question("generate")))
        assert Process.arrivals.get(timeout=DEADLINE) == "generate"
        second_is_there.set()

    rival = threading.Thread(target=begin)
    assert Process.arrivals.get(timeout=DEADLINE) == "learn"
    assert jobs.cancel(first.name).state == "cancelled"
    rival.join(DEADLINE)
    assert [process.asked for process in processes] == [["learn"], ["generate"]]
    processes[1].say("done", {"n": 1}, {})
    assert second[0].ended.wait(DEADLINE)
    assert (second[0].state, second[0].result) == ("done", {"n": 1})


def test_a_job_whose_thread_begins_after_its_cancel_asks_nobody_else(processes, monkeypatch):
    held = []

    def thread(target, args, daemon):
        held.append(lambda: target(*args))
        return SimpleNamespace(start=lambda: None)

    monkeypatch.setattr(app, "threading", SimpleNamespace(Thread=thread, Lock=threading.Lock))
    monkeypatch.setattr(limits, "WAIT", 0.0)
    jobs = Jobs(Worker(), lambda event, record: None)
    first = jobs.start(1, question("learn"))
    jobs.cancel(first.name)
    second = jobs.start(1, question("generate"))
    processes[-1].say("done", {"n": 1}, {})
    held[0]()
    assert not any("learn" in process.asked for process in processes)
    assert (first.state, second.state) == ("cancelled", "running")
