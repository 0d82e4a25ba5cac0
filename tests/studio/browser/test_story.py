"""What the page is for, from the first stroke to generated trajectories, with the pointer."""

from __future__ import annotations

import re

from playwright.sync_api import expect

# Over the key at (1, 4) and through the door at (5, 5); with the third cell of mud it lacks the water.
GOOD = [(0, 0), (0, 3), (1, 3), (1, 4), (3, 4), (3, 5), (5, 5), (5, 6), (6, 6), (6, 7), (7, 7)]
INTO_LAVA = [(0, 0), (0, 3), (3, 3), (3, 4), (3, 5), (5, 5), (5, 6), (7, 6), (7, 7)]


def test_draw_break_see_why_and_fix(window):
    panel = window.tab("demonstrations")
    window.drag(INTO_LAVA)
    window.settle()
    drawn = window.demonstration(11)
    expect(drawn).to_contain_text("breaks “never into the lava” at position 6")
    drawn.hover()
    mark = window.page.locator("#map .broken")
    expect(mark).to_have_attribute("data-position", "6")
    expect(panel).to_contain_text("11 demonstrations, 1 of them invalid")

    drawn.get_by_role("button", name="Delete").click()
    window.drag(GOOD)
    window.settle()
    expect(window.demonstration(11)).to_contain_text("valid")
    expect(panel).to_contain_text("11 demonstrations, all valid")


def test_rules_say_what_they_leave_and_which_clash(window):
    window.tab("rules")
    before = window.verdict
    assert re.match(r"Possible\. [\d,]+ of [\d,]+ trajectories", before)
    window.page.get_by_label("Rule “never into the lava” holds").uncheck()
    window.settle()
    assert window.verdict != before
    window.undo()
    assert window.verdict == before

    window.page.get_by_role("button", name="Add a rule").click()
    window.page.keyboard.type("nev")
    window.keys("Enter")  # completes to never(), the caret inside
    window.page.keyboard.type("do")
    window.keys("Enter")
    text = window.page.locator(".rule input.code").last
    expect(text).to_have_value("never(door)")
    window.settle()
    expect(window.page.locator("#status .verdict")).to_contain_text("Impossible. These rules cannot hold together:")
    assert "through the door" in window.verdict
    assert "new rule" in window.verdict

    text.fill("never(dooor)")
    window.settle()
    caret = window.rule("new rule").locator(".caret")
    expect(caret).to_have_text("^")
    assert caret.evaluate("node => node.style.paddingLeft").startswith("calc(6ch")
    expect(window.rule("new rule").locator(".message")).to_contain_text("dooor")
    assert window.verdict == before  # a rule that cannot be read is left out


def test_learn_sample_and_find_it_all_again_after_a_reload(window):
    page = window.page
    window.tab("learn").get_by_label("Held out").fill("0.2")
    panel = window.learn()
    expect(panel.get_by_role("article", name="X-MEN")).to_contain_text("Keeps the rules100 %")
    expect(panel.get_by_role("article", name="MaxEnt")).to_contain_text("Held out")
    expect(panel.locator(".curve")).to_have_count(2)
    assert "±" in panel.get_by_role("article", name="X-MEN").locator(".weights").inner_text()
    for tone, model in enumerate(["X-MEN", "MaxEnt"]):  # however quick the fit was, every iteration is on the curve
        iterations = re.search(r"Iterations(\d+)", panel.get_by_role("article", name=model).text_content())
        curve = panel.locator(f".curve.tone-{tone}").get_attribute("d")
        assert len(re.findall("[ML]", curve)) == int(iterations.group(1)) > 2

    panel = window.tab("generate")
    window.add_rule("never(mud)", "generate", "Add a further rule")
    panel.get_by_role("button", name="Generate").click()
    expect(panel).to_contain_text("20 generated, 20 of them valid")
    expect(page.locator("#map .line")).to_have_count(20)

    shown = window.verdict
    assert window.reload().verdict == shown
    expect(page.locator("#panel-generate .demo")).to_have_count(20)  # the chosen tab, too
    expect(window.tab("learn").get_by_role("article")).to_have_count(2)


def test_in_a_conflict_no_result_of_before_is_shown(window):
    page = window.page
    learn, generate = window.learn(), page.locator("#panel-generate")
    expect(learn.get_by_role("article")).to_have_count(2)
    window.tab("generate")
    generate.get_by_role("button", name="Generate").click()
    expect(page.locator("#map .line")).to_have_count(20)

    window.add_rule("never(door)")
    window.settle()
    assert window.verdict.startswith("Impossible.")
    expect(window.tab("learn")).to_contain_text("contradict")
    expect(learn.get_by_role("article").locator("visible=true")).to_have_count(0)
    expect(learn.locator(".curve")).to_have_count(0)
    expect(window.tab("generate")).to_contain_text("contradict")
    expect(generate.locator(".demo")).to_have_count(0)
    expect(page.locator("#map .line")).to_have_count(0)

    window.undo(2)  # the text, and the rule
    expect(page.locator("#map .line")).to_have_count(20)
    expect(generate).to_contain_text("From before the last changes. 20 generated")
    window.add_rule("never(door)", "generate", "Add a further rule")
    generate.get_by_role("button", name="Generate").click()
    expect(generate).to_contain_text("through the door")
    expect(generate.locator(".demo")).to_have_count(0)
    expect(page.locator("#map .line")).to_have_count(0)


def test_cancel_stops_learning(window, server):
    server.change(studio={"learner": "xmen", "method": "paper", "max_iter": 5000})
    expect(window.tab("learn").get_by_label("How")).to_have_value("paper")
    panel = window.learn()
    expect(panel).to_contain_text("Learning")
    panel.get_by_role("button", name="Cancel").click()
    expect(panel).to_contain_text("Cancelled.")
    expect(panel.get_by_role("button", name="Learn")).to_be_enabled()
    assert all(job["state"] != "running" for job in server.ask("GET", "jobs")["jobs"])


def test_found_rules_are_taken_over_by_one_click(window, server):
    rules = server.document["problem"]["constraints"]
    server.change(constraints=[rule for rule in rules if rule["rule"] not in ("visit(door)", "never(lava)")])
    panel = window.tab("find")
    panel.get_by_role("button", name="Find rules").click()
    expect(panel).to_contain_text("candidates")
    take = panel.get_by_role("button", name="Take over").first
    rule = take.get_attribute("aria-label").removeprefix("Take over ")
    take.click()
    window.tab("rules")
    expect(window.page.locator(".rule input.code").last).to_have_value(rule)
