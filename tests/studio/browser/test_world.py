"""The world's own panel: size, moves, chance, marks; CSV and Python; and a large world."""

from __future__ import annotations

from playwright.sync_api import expect

WATCH = """() => {
    window.touched = 0;
    new MutationObserver((changes) => (window.touched += changes.length))
        .observe(document.querySelector('#map .ground'), { subtree: true, attributes: true, childList: true });
}"""


def test_size_moves_and_marks(window, server):
    panel = window.tab("world")
    window.enter(panel.get_by_label("Width"), "5")
    panel.get_by_label("up-right").check()
    panel.get_by_role("button", name="New mark for places").click()
    window.page.keyboard.type("bridge")
    window.keys("Tab")
    window.drag([(0, 1), (1, 1)])
    window.settle()
    problem = server.document["problem"]
    assert problem["world"]["width"] == 5
    assert problem["world"]["goal"] == [4, 7]
    assert "up-right" in problem["world"]["moves"]
    assert problem["events"]["bridge"] == {"cells": [[0, 1], [1, 1]]}

    window.enter(panel.get_by_label("Name of mark door"), "gate", "Enter")
    window.settle()
    texts = [rule["rule"] for rule in server.document["problem"]["constraints"]]
    assert "first(key, among=gate)" in texts


def test_a_mark_may_be_called_as_what_every_object_of_the_language_has(window, server):
    names = ["constructor", "toString", "__proto__", "hasOwnProperty"]
    problem = server.document["problem"]
    problem["world"]["walls"] = []
    problem["events"] = {name: {"cells": [[column, 1]]} for column, name in enumerate(names)}
    problem["events"]["either"] = "constructor | __proto__"
    problem["constraints"] = [{"name": name, "rule": f"visit({name})"} for name in names]
    problem["reward"] = {"features": ["steps", "__proto__", "toString"]}
    problem["studio"] = {"colours": {"__proto__": "#123456", "toString": "#abcdef"}}
    server.put(problem, [])
    assert window.reload().verdict.startswith("Possible.")
    for tab in ("rules", "demonstrations", "learn", "generate", "find"):
        window.tab(tab)
    panel = window.tab("world")
    for column, name in enumerate(names):
        expect(panel.get_by_label(f"Colour of {name}")).not_to_have_value("#000000")
        window.cell((column, 1)).hover()
        expect(window.page.locator("#readout")).to_contain_text(name)
        window.choose(name)
        window.drag([(column, 3), (column, 4)])
    expect(panel.get_by_label("Colour of __proto__")).to_have_value("#123456")
    window.enter(panel.get_by_label("Width"), "6")  # every mark is written again
    for old, name in (("hasOwnProperty", "valueOf"), ("__proto__", "hasOwnProperty"), ("constructor", "__proto__")):
        window.enter(panel.get_by_label(f"Name of mark {old}"), name, "Enter")
    panel.get_by_label("Colour of __proto__").fill("#654321")
    panel.get_by_role("button", name="Delete mark toString").click()
    window.settle()
    problem = server.document["problem"]
    marked = {"__proto__": 0, "hasOwnProperty": 2, "valueOf": 3}
    painted = {name: {"cells": [[column, row] for row in (1, 3, 4)]} for name, column in marked.items()}
    assert problem["events"] == {**painted, "either": "__proto__ | hasOwnProperty"}
    assert problem["studio"]["colours"] == {"hasOwnProperty": "#123456", "__proto__": "#654321"}
    assert "visit(hasOwnProperty)" in [rule["rule"] for rule in problem["constraints"]]


def test_a_deleted_mark_is_no_feature_and_what_still_uses_it_is_named_with_a_way_there(window, server):
    server.change(costs={"toll": {"mud": 2, "lava": 1}})
    panel = window.reload().tab("world")
    panel.get_by_role("button", name="… by a text").click()
    window.page.keyboard.type("wet")
    window.keys("Tab")
    panel.get_by_label("Text of mark wet").fill("mud | water")
    panel.get_by_role("button", name="Delete mark mud").click()
    window.settle()
    problem = server.document["problem"]
    assert problem["reward"]["features"] == ["steps", "shade", "west"]
    assert problem["costs"] == {"toll": {"lava": 1}}
    mistakes = window.page.locator("#status .mistakes")
    using = next(rule["name"] for rule in problem["constraints"] if "mud" in rule["rule"])
    mistakes.get_by_role("button", name=f"Rule “{using}”").click()
    expect(window.rule(using).locator("input.code")).to_be_focused()
    mistakes.get_by_role("button", name="Mark “wet”").click()
    expect(panel.get_by_label("Text of mark wet")).to_be_focused()
    expect(window.learn().locator(".error:not(span)")).to_contain_text("World, wet")


def test_chance_is_shown_and_stepped_through(window):
    panel = window.tab("world")
    window.enter(panel.get_by_label("Slip"), "0.1")
    window.settle()
    panel = window.tab("generate")
    panel.get_by_role("button", name="What can be promised?").click()
    expect(panel.locator(".chance tbody tr")).to_have_count(3)
    panel.get_by_role("button", name="Begin an episode").click()
    expect(panel).to_contain_text("After 0 moves")
    panel.locator(".choices button").first.click()
    expect(panel).to_contain_text("After 1 move;")
    panel.get_by_role("button", name="Step back").click()
    expect(panel).to_contain_text("After 0 moves")


def test_csv_goes_out_and_comes_back(window, tmp_path):
    panel = window.tab("demonstrations")
    with window.page.expect_download() as coming:
        panel.get_by_role("button", name="Export CSV").click()
    file = tmp_path / "out.csv"
    coming.value.save_as(file)
    window.page.set_input_files("input[type=file]", file)
    window.settle()
    expect(panel).to_contain_text("20 demonstrations, all valid")


def test_the_python_that_does_the_same(window):
    window.page.get_by_role("button", name="Python").click()
    dialog = window.page.get_by_role("dialog")
    expect(dialog).to_contain_text("import xmen as xm")
    window.keys("Escape")
    expect(dialog).to_have_count(0)


def test_a_stroke_on_a_large_world_touches_only_its_cells(window, server):
    """50 x 50 cells: an edit touches the cells that it changes, and no others."""
    size = {"width": 50, "height": 50, "goal": [49, 49], "horizon": 110, "walls": []}
    server.change([], world={**server.document["problem"]["world"], **size})
    expect(window.page.locator("#map .ground rect")).to_have_count(2500)
    window.settle()
    window.page.evaluate(WATCH)
    window.choose("Walls")
    window.drag([(3, 20), (40, 20)])
    expect(window.page.locator("#map .wall")).to_have_count(38)
    assert window.page.evaluate("() => window.touched") == 38
    window.settle()
    before = window.page.locator("#map").bounding_box()
    assert window.verdict.startswith(("Possible.", "Not decided."))

    window.tab("demonstrations")
    window.drag([(0, 0), (0, 25), (49, 25), (49, 49)])  # further than a pointer jumps, and to the goal
    expect(window.demonstration(1)).to_contain_text("98 moves")
    window.settle()
    assert window.page.locator("#map").bounding_box() == before  # nothing that is written beside it moves the map
