"""A world that is a graph, on a studio that is killed and started again."""

from __future__ import annotations

from playwright.sync_api import expect

from studio.browser.server import Server
from studio.browser.window import Window


def test_a_graph_is_marked_and_what_was_saved_survives_a_kill(context, tmp_path):
    with Server(tmp_path, "graph") as server:
        window = Window(context.new_page()).open(server.address)
        page = window.page
        names = [state["name"] for state in server.document["layout"]["states"]]
        expect(page.locator("#map .node")).to_have_count(len(names))
        marked = page.locator("#map .node.marked").count()
        window.choose("shop")
        page.locator("#map .node").nth(names.index("park")).click()
        expect(page.locator("#map .node.marked")).to_have_count(marked + 1)

        summary = window.tab("demonstrations").locator(".hint").first
        expect(summary).to_contain_text("300 demonstrations")
        page.locator("#map").focus()
        while "home" not in page.inner_text("#readout"):
            window.keys("ArrowLeft", "ArrowDown")
        window.keys("Space", "ArrowRight", "Enter")  # along the road from home to the park
        expect(summary).to_contain_text("301 demonstrations")
        window.settle()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator("#bar .state")).to_have_text("Saved")
        last = server.document["demonstrations"][-1]
        assert last["states"] == ["home", "park"]
        assert not window.problems

        server.kill()
        expect(page.locator("#bar .state")).to_contain_text("does not answer")
        window.choose("bank")
        page.locator("#map .node").nth(names.index("river")).click()
        expect(page.locator("#map .node.marked")).to_have_count(marked + 2)  # what is drawn now stays in this window

        server.start()
        again = Window(context.new_page()).open(server.address)
        expect(again.page.locator("#map .node.marked")).to_have_count(marked + 1)
        assert again.state == "Saved"
        assert server.document["demonstrations"][-1] == last
