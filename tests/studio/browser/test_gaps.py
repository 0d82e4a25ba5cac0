"""Demonstrations with gaps: draw, lift, draw on; what fills them, and what was learned from them."""

from __future__ import annotations

from playwright.sync_api import expect

from waiting import wait_for


def last(server):
    return server.document["demonstrations"][-1]


def test_draw_lift_and_draw_on_and_fill_in(window, server):
    page = window.page
    window.tab("demonstrations")
    row = window.demonstration(11)
    window.drag([(0, 0), (0, 3), (1, 3)])
    row.get_by_role("button", name="Draw on").click()
    window.drag([(3, 4), (3, 5)])
    expect(page.locator("#toast")).to_contain_text("2 positions that nobody saw")
    window.drag([(6, 6), (6, 7), (7, 7)])
    window.settle()
    expect(row).to_contain_text("10: 10 of 15 seen")
    expect(row).to_contain_text("valid")
    expect(row.get_by_role("button", name="Draw on")).to_be_hidden()  # it has arrived
    gaps = [5, 6, 9, 10, 11]
    assert [place for place, state in enumerate(last(server)["states"]) if state is None] == gaps
    row.hover()
    expect(page.locator("#map .seen")).to_have_count(10)

    fill = row.get_by_role("button", name="Fill in the gaps")
    fill.click()
    expect(row).to_contain_text("The 2 likeliest ways")
    expect(row.get_by_role("radio")).to_have_count(2)
    expect(row).to_contain_text("1: 50 %")
    expect(page.locator("#map .heat rect")).to_have_count(16)  # 14 cells for certain, and two ways for one position
    learn = window.learn()
    version = server.document["version"]
    wanted = {"kind": "learn", "state": "done", "version": version}
    wait_for(lambda: any(wanted.items() <= job.items() for job in server.ask("GET", "jobs")["jobs"]))
    expect(learn.get_by_role("button", name="Learn")).to_be_enabled()
    expect(learn.get_by_role("article")).to_have_count(2)
    expect(page.locator("#map .heat rect")).to_have_count(0)
    window.tab("demonstrations")
    fill.click()
    expect(row).to_contain_text("by what was learned")
    first = page.locator("#map .offered").get_attribute("d")
    row.get_by_role("radio").nth(1).check()
    expect(page.locator("#map .offered")).not_to_have_attribute("d", first)
    row.get_by_role("button", name="Take it").click()
    window.settle()
    expect(row).to_contain_text("10: 14 moves")
    expect(page.locator("#map .heat rect")).to_have_count(0)
    window.undo()

    first_gap = row.get_by_label("Positions in gap 1")
    window.enter(first_gap, "1")
    window.settle()
    expect(row).to_contain_text("from position 6 on")
    window.enter(first_gap, "4")
    window.settle()
    expect(row).to_contain_text("10 of 17 seen")
    expect(row.locator(".reason")).to_have_text("valid")


def test_gaps_by_keys_and_their_file(window, server):
    page = window.page
    window.tab("demonstrations")
    page.locator("#map").focus()
    window.keys("Space", *["ArrowUp"] * 3, "ArrowRight", "Enter")
    window.settle()
    window.keys("ArrowUp", "ArrowRight", "ArrowRight", "Shift+Space")
    expect(page.locator("#toast")).to_contain_text("goes on at (3, 4)")
    window.keys("ArrowUp", "Enter")
    expect(page.locator("#toast")).to_contain_text("next stroke")
    window.settle()
    assert last(server)["states"] == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 3], None, None, [3, 4], [3, 5]]
    expect(window.demonstration(11).get_by_role("button", name="Draw on")).to_have_text("Done")
    window.keys("Escape")
    expect(window.demonstration(11).get_by_role("button", name="Draw on")).to_have_text("Draw on")
    window.keys("ArrowRight", "Shift+Space", "Enter")  # one move on, so that there is no gap
    window.settle()
    assert last(server)["states"][-2:] == [[3, 5], [4, 5]]

    with page.expect_download() as coming:
        page.get_by_role("button", name="Export CSV").click()
    lines = coming.value.path().read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("10,5,")] == ["10,5,,"]
    page.set_input_files("input[type=file]", coming.value.path())
    window.settle()
    assert last(server)["states"][4:7] == [[1, 3], None, None]
