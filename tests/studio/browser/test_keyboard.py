"""Everything without a pointer: tabs, tools, painting, drawing, rules, undo, saving."""

from __future__ import annotations

from playwright.sync_api import expect


def test_paint_draw_and_undo_by_keys(window):
    page = window.page
    page.locator("#tools input[value=draw]").focus()
    window.keys("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowLeft")  # to the walls: radio buttons follow the arrows
    expect(page.locator("#tools input[value=wall]")).to_be_checked()
    walls = page.locator("#map .wall").count()
    page.locator("#map").focus()
    window.keys("ArrowUp", "Shift+ArrowUp", "Shift+ArrowUp")
    expect(page.locator("#map .wall")).to_have_count(walls + 1)  # begun on a wall, the second stroke takes it away
    expect(page.locator("#spoken")).to_contain_text("(0, 3)")
    window.keys("Control+z", "Control+z")
    expect(page.locator("#map .wall")).to_have_count(walls)

    page.locator("#tab-rules").focus()
    window.keys("ArrowRight")
    expect(page.locator("#tab-demonstrations")).to_be_focused()
    page.locator("#map").focus()
    window.keys("ArrowDown", "ArrowDown", "ArrowDown", "Space")
    expect(page.locator("#toast")).to_contain_text("begins at (0, 0)")
    way = ["ArrowUp"] * 3 + ["ArrowRight", "ArrowUp", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowRight", "ArrowRight"]
    window.keys(*way, "ArrowRight", "Backspace", "ArrowUp", "ArrowRight", "ArrowUp", "ArrowRight", "Enter")
    window.settle()
    expect(window.demonstration(11)).to_contain_text("14 moves")
    expect(window.demonstration(11)).to_contain_text("valid")


def test_the_focus_alone_shows_why_a_demonstration_is_not_valid(window):
    window.tab("demonstrations")
    window.drag([(0, 0), (0, 1), (1, 1), (1, 2), (1, 3)])
    window.settle()
    window.page.locator("#map").focus()
    window.demonstration(11).get_by_role("button", name="10:").focus()
    expect(window.page.locator("#map .broken")).to_be_visible()
    expect(window.demonstration(11).locator(".reason")).not_to_be_empty()


def test_a_rule_is_written_switched_and_deleted_by_keys(window):
    page = window.page
    page.locator("#tab-rules").focus()
    rules = page.locator(".rule").count()
    page.get_by_role("button", name="Add a rule").focus()
    window.keys("Enter")
    page.keyboard.type("visit(wa")
    window.keys("Tab", ")")  # takes the completion, and stays
    text = page.locator(".rule input.code").last
    expect(text).to_be_focused()
    expect(text).to_have_value("visit(water)")
    window.keys("Shift+Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab")
    expect(page.get_by_label("Rule “new rule” holds")).to_be_focused()
    window.keys("Space")
    expect(page.get_by_label("Rule “new rule” holds")).not_to_be_checked()
    window.keys("Tab", "Tab", "Tab", "Enter")
    expect(page.locator(".rule")).to_have_count(rules)


def test_saving_by_keys_writes_the_files_that_the_command_line_reads(window, server):
    window.tab("demonstrations")
    window.drag([(0, 0), (0, 1)])
    window.settle()
    assert window.state == "Not saved yet"
    window.keys("Control+s")
    expect(window.page.locator("#bar .state")).to_have_text("Saved")
    assert server.document["saved_version"] is not None
