"""`xmen plot`: what is on each picture, for every kind of world, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

import xmen as xm
from cli.commands import refused, report, run, told
from xmen.answers import event_states, grid_marks, node_places
from xmen.cli._subject import open_subject
from xmen.cli.plot import Pictures
from xmen.problem import read_problem
from xmen.worlds.walks import Walks

DATA = ["the world and its events", "200 demonstrations"]


@pytest.mark.parametrize(
    ("kind", "panels"),
    [
        ("grid", [*DATA, "expected visits under the model", "the learned reward of cells, without 'west'"]),
        ("graph", [DATA[0], "300 demonstrations", "expected uses under the model"]),
        ("table", ["expected visits"]),
    ],
)
def test_an_overview_and_every_single_picture(kind, panels, here):
    run(f"new p.toml --world {kind}")
    run("fit p.toml")
    assert report("plot p_model")["panels"] == [*panels, "the learned weights", "how learning went"]
    for what in ("world", "demos", "samples", "visits", "reward", "history"):
        command = f"plot p_model --what {what} --out {what}.png"
        if kind == "table" and what == "world":
            refused(command, "--what visits")
        else:
            told(command)
            assert (here / f"{what}.png").stat().st_size > 5_000


def test_a_problem_without_demonstrations_or_reward(here):
    (here / "p.toml").write_text(
        'format = 1\n[world]\nkind = "grid"\nwidth = 3\nheight = 3\nstart = [0, 0]\ngoal = [2, 2]\nhorizon = 6\n'
    )
    assert report("plot p.toml")["panels"] == ["the world and its events", "expected visits under the rules"]
    assert (here / "p.png").exists()
    told("plot p.toml --what reward --out zero.svg")


def test_extra_rules_and_seeds_decide_what_is_drawn(here):
    run("new p.toml")
    assert report('plot p.toml --what samples --also "never(mud)"')["panels"] == [
        "30 samples under the rules, also never(mud)"
    ]
    source = open_subject(Path("p.toml"))
    world = source.problem.world
    mud = {world.state(cell) for cell in [(1, 2), (2, 1), (2, 0)]}
    never = xm.never(xm.at(*mud)).named("never(mud)")
    assert not any(mud & set(tau.states) for tau in Pictures(source, never, 50, 0).samples)


def test_events_that_are_places_are_marked(here):
    run("new p.toml")
    problem = read_problem("p.toml")
    assert set(event_states(problem)) == {"key", "mud", "lava", "water", "door", "shade"}  # west is a move
    marks = grid_marks(problem, problem.world)
    assert marks["key"] == [(4, 1), (1, 4)]
    assert marks["shade"][1].startswith("#")  # an area


def test_places_of_nodes(here):
    run("new p.toml --world graph")
    places = node_places(read_problem("p.toml"))
    assert places[0].tolist() == [0.0, 0.0]
    file = here / "p_roads.graphml"
    file.write_text(file.read_text().replace('attr.name="x"', 'attr.name="other"'))
    assert node_places(read_problem("p.toml")) is None
    assert report("plot p.toml")["panels"] == ["expected visits"]  # bars


def test_means_by_hand():
    world = xm.MDP(3, 2, [(0, 0, 1, 1.0), (0, 1, 2, 1.0), (1, 0, 2, 1.0)], start=0, terminal=[2])
    walks = [xm.Trajectory([0, 1, 2], [0, 0]), xm.Trajectory([0, 2], [1])]
    assert Walks.of(world, walks).mean_state_visits().tolist() == [1.0, 0.5, 1.0]
    assert Walks.of(world, walks).mean_visits().tolist() == [[0.5, 0.5], [0.5, 0.0], [0.0, 0.0]]


def test_demonstrations_of_another_world_are_a_no(here):
    run("new grid.toml")
    run("new table.toml --world table")
    refused("plot grid.toml table_demos.csv", "demonstration 0", code=1)


@pytest.mark.parametrize(("kind", "panels"), [("grid", DATA), ("table", [])])
def test_rules_that_contradict_each_other_leave_the_rest_of_the_picture(kind, panels, here):
    run(f"new p.toml --world {kind}")
    state = {"grid": "door", "table": "at(0)"}[kind]
    clash = f'\n[[constraints]]\nname = "closed"\nrule = "never({state}) & visit({state})"\n'
    text = (here / "p.toml").read_text()
    (here / "p.toml").write_text(text.replace("\n[reward]", f"{clash}\n[reward]"))
    assert "'closed'" in told("plot p.toml", code=1)
    assert (here / "p.png").exists() == bool(panels)
    if panels:
        found = report("plot p.toml", code=1)
        assert found["panels"] == panels
        assert found["notes"][0].startswith("expected visits")
        assert "'closed'" in found["notes"][0]
        assert "note: expected visits" in run("plot p.toml").stderr
    refused("plot p.toml --what visits", code=1)


def test_a_reward_of_moves_does_not_make_borders_look_better(here):
    """Where a move is missing, a mean over moves differs for no other reason: such features are left to the bars."""
    run("new p.toml")
    text = (here / "p.toml").read_text()

    def drawn(reward: str) -> tuple[str, set[float]]:
        head, tail = text.split("[reward]")
        (here / "q.toml").write_text(f"{head}[reward]\n{reward}\n[settings]" + tail.split("[settings]")[1])
        panel = Pictures(open_subject(Path("q.toml")), None, 1, 0).reward_panels()[0]
        picture = panel.draw(Figure().subplots()).images[0].get_array()
        return panel.title, set(picture.compressed().round(9).tolist())

    title, values = drawn('features = ["steps", "mud", "west"]\nweights = [-1.0, -2.0, 5.0]')
    assert title == "the reward of cells, without 'west'"
    assert values == {-1.0, -3.0}
    assert drawn('features = ["steps", "mud"]\nweights = [-1.0, -2.0]') == ("the reward", {-1.0, -3.0})
    title, values = drawn('features = ["west"]\nweights = [5.0]')
    assert title == "the reward (mean over available moves)"
    assert len(values) > 2


def test_events_are_drawn_under_demonstrations_and_samples(here):
    run("new p.toml")
    pictures = Pictures(open_subject(Path("p.toml")), None, 3, 0)
    for panel in pictures.demos_panels() + pictures.samples_panels():
        legend = panel.draw(Figure().subplots()).get_legend()
        assert {"start", "goal", "key", "mud", "lava", "shade"} <= {text.get_text() for text in legend.get_texts()}
