"""A world of 50 x 50 cells: an edit touches the cells that it changes, and no others."""

from __future__ import annotations

from playwright.sync_api import expect

WATCH = """() => {
    window.touched = 0;
    new MutationObserver((changes) => (window.touched += changes.length))
        .observe(document.querySelector('#map .ground'), { subtree: true, attributes: true, childList: true });
}"""


def test_a_stroke_on_a_large_world_touches_only_its_cells(window, server):
    document = server.ask("GET", "document")
    problem = document["problem"]
    problem["world"].update(width=50, height=50, goal=[49, 49], horizon=110, walls=[])
    server.put(problem, [])
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
