"""Two windows at once, and text from files that looks like a script."""

from __future__ import annotations

from playwright.sync_api import expect

from studio.browser.window import Window
from xmen.studio.app import leading_to


def test_two_windows_show_the_same(window, server, context):
    other = Window(context.new_page()).open(server.address)
    walls = other.page.locator("#map .wall").count()
    window.choose("Walls")
    window.drag([(0, 7), (0, 6)])
    window.settle()
    expect(other.page.locator("#map .wall")).to_have_count(walls + 2)
    other.page.get_by_role("button", name="Undo").click()  # what the first window did
    expect(window.page.locator("#map .wall")).to_have_count(walls)
    assert not other.problems


def test_the_file_that_a_browser_is_started_with_leads_to_the_page(server, page):
    with leading_to(server.address) as file:
        page.goto(file)
        page.wait_for_url(f"{server.address}**")
        page.wait_for_selector("html[data-ready]")


def test_text_from_files_is_never_run(window, server):
    script = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    problem = server.document["problem"]
    events = {script: {"cells": [[0, 1]]}, **problem["events"]}
    server.change(events=events, constraints=[{"name": script, "rule": script}, *problem["constraints"]])
    window.reload()
    for name in ("world", "rules", "demonstrations", "learn", "generate", "find"):
        window.tab(name)
    window.cell((0, 1)).hover()
    expect(window.page.locator("#readout")).to_contain_text(script)
    expect(window.page.locator("#tools")).to_contain_text(script)
    assert window.page.locator("body script, body img").count() == 0
    assert window.page.title() == "xmen studio"
