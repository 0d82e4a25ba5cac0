"""A first use: an empty problem, what panels say to do, files of another name, plans that go out, narrow windows."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import expect

from studio.browser.server import Server
from studio.browser.test_story import GOOD, INTO_LAVA
from studio.browser.window import Window

NEEDS = {
    "world": "No marks yet",
    "rules": "there are none yet",
    "demonstrations": "None yet: drag on the map",
    "learn": "no demonstrations yet",
    "generate": "Nothing is learned yet",
    "find": "there are none yet",
}


@pytest.fixture
def own(tmp_path, context):
    """A window on a studio of its own: these tests leave another file behind."""
    with Server(tmp_path) as server:
        opened = Window(context.new_page()).open(server.address)
        yield opened
        assert not opened.problems


def test_from_an_empty_grid_to_a_saved_problem_every_panel_says_what_to_do(own, tmp_path):
    page = own.page
    page.get_by_role("button", name="New").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the file").fill("grid")
    dialog.get_by_role("button", name="Begin").click()
    expect(dialog).to_contain_text("there already")
    own.problems.clear()  # of which the console told
    dialog.get_by_label("Name of the file").fill("round")
    dialog.get_by_label("left to right").fill("5")
    dialog.get_by_label("bottom to top").fill("4")
    with page.expect_navigation():
        dialog.get_by_role("button", name="Begin").click()
    own.loaded()
    expect(page.locator("#bar")).to_contain_text("round.toml")
    expect(page.locator("#map .ground rect")).to_have_count(20)
    expect(page.locator("#status")).to_contain_text("there are no rules yet")
    for tab, words in NEEDS.items():
        expect(own.tab(tab)).to_contain_text(words)
    own.tab("find").get_by_role("button", name="Make a mark").click()
    panel = page.locator("#panel-world")
    panel.get_by_role("button", name="New mark for places").click()
    own.drag([(1, 1), (2, 1)])
    own.tab("demonstrations")
    own.drag([(0, 0), (4, 0), (4, 3)])
    own.settle()
    for tab in ("world", "rules", "learn", "find"):
        expect(own.tab(tab).locator(".empty").locator("visible=true")).to_have_count(0)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("round_demos.csv, round.toml")
    assert (tmp_path / "round.toml").exists()


def test_save_as_goes_on_under_the_other_name_in_every_window(own, context, tmp_path):
    page, other = own.page, Window(context.new_page()).open(own.page.url)
    for name in ("grid.toml", "other"):  # its own name, and another
        page.get_by_role("button", name="Save as").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name of the file").fill(name)
        dialog.get_by_role("button", name="Save").click()
        expect(page.locator("#toast")).to_contain_text(f"{name.removesuffix('.toml')}.toml.")
    for each in (page, other.page):
        expect(each.locator("#bar")).to_contain_text("other.toml")
        expect(each.locator("#bar .state")).to_have_text("Saved")
    for name in ("grid.toml", "other.toml", "grid_demos.csv", "other_demos.csv"):
        assert (tmp_path / name).exists()


def test_generated_plans_go_out_in_cells_and_moves(window, tmp_path):
    panel = window.tab("generate")
    panel.get_by_role("button", name="Generate").click()
    expect(panel.locator(".demo")).to_have_count(20)
    with window.page.expect_download() as coming:
        panel.get_by_role("button", name="Export CSV").click()
    coming.value.save_as(tmp_path / "plans.csv")
    with (tmp_path / "plans.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["demo"] for row in rows} == {str(number) for number in range(20)}
    assert {row["move"] for row in rows} <= {"up", "down", "left", "right", ""}
    assert all(0.0 < float(row["probability"]) < 1.0 for row in rows)
    assert panel.locator(".demo").first.inner_text().startswith("0: ")


def test_demonstrations_have_one_name_in_lists_messages_and_files(window, server, tmp_path):
    panel = window.tab("demonstrations")
    file = tmp_path / "trips.csv"
    file.write_text("trip,x,y\n" + "".join(f"monday,{x},{y}\n" for x, y in [(0, 0), (1, 0), (1, 1)]))
    window.page.set_input_files("input[type=file]", file)
    window.drag(INTO_LAVA)
    window.settle()
    expect(window.demonstration(11)).to_contain_text("monday: 2 moves")
    expect(window.demonstration(12)).to_contain_text("11: 14 moves")
    panel.get_by_role("button", name="Delete demonstration 3", exact=True).click()
    window.settle()
    expect(window.demonstration(11)).to_contain_text("11: ")
    window.tab("rules")
    expect(window.rule("never into the lava")).to_contain_text("1 demonstration: 11.")
    demonstrations = server.document["demonstrations"]
    assert [one["name"] for one in demonstrations] == [*"012456789", "monday", "11"]
    expect(window.learn()).to_contain_text("2 invalid demonstrations (monday, 11)")


def test_words_are_a_planners(window):
    page = window.page
    window.drag(GOOD)
    window.settle()
    learn = window.learn()
    expect(learn.get_by_role("article")).to_have_count(2)
    expect(learn).to_contain_text("drawn1 in ")
    generate = window.tab("generate")
    generate.get_by_role("button", name="Generate").click()
    expect(generate.locator(".demo")).to_have_count(20)
    find = window.tab("find")
    find.get_by_role("button", name="Find rules").click()
    expect(find).to_contain_text("candidates")
    for tab in NEEDS:
        window.tab(tab)
        shown = page.locator("body").inner_text()
        for word in ("nats", "l2", "validity", "node", "max_nodes", "Engine", "discount="):
            assert word not in shown, (tab, word)


def test_bars_of_weights_fill_their_card(window):
    card = window.learn().get_by_role("article", name="X-MEN")
    bar = card.locator(".bar svg").first
    bar.wait_for()
    assert bar.bounding_box()["width"] > 0.75 * card.bounding_box()["width"]


@pytest.mark.parametrize(("width", "beside"), [(1000, True), (700, True), (420, False)])
def test_the_panel_is_beside_the_map_or_right_under_it(window, width, beside):
    window.page.set_viewport_size({"width": width, "height": 900})
    at, panel = (window.page.locator(part).bounding_box() for part in ("#map", "#side"))
    if beside:
        assert panel["x"] >= at["x"] + at["width"]
        assert panel["y"] < at["y"] + at["height"]
    else:
        assert 0 <= panel["y"] - at["y"] - at["height"] < 30
        assert panel["y"] < 900
    tabs = window.page.locator(".tabs button")
    for tab in tabs.all():
        box = tab.bounding_box()
        assert box["x"] + box["width"] <= width
    assert window.page.evaluate("() => document.documentElement.scrollWidth") <= width
