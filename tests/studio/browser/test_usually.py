"""Rules that people mostly keep, and demonstrations that break one that must hold."""

from __future__ import annotations

from playwright.sync_api import expect

from studio.browser.test_story import INTO_LAVA

LAVA = "never into the lava"
ONLY_LAVA = [(0, 0), (0, 3), (1, 3), (1, 4), (3, 4), (3, 5), (6, 5), (6, 4), (7, 4), (7, 7)]  # keeps all other rules


def text_of(server, rule=LAVA):
    return next(one["rule"] for one in server.document["problem"]["constraints"] if one["name"] == rule)


def test_a_rule_is_a_must_or_usually_kept(window, server):
    page, rule = window.page, window.rule(LAVA)
    before = window.verdict
    window.tab("demonstrations")
    window.drag(ONLY_LAVA)
    window.tab("rules")
    window.settle()
    expect(rule).to_contain_text("Broken by 1 demonstration")

    rule.get_by_label("Whether rule").select_option("usually")
    window.settle()
    assert text_of(server) == "usually(never(lava))"
    expect(rule.locator("input.code")).to_have_value("never(lava)")
    expect(rule).to_contain_text("Kept by 10 of 11 demonstrations.")
    expect(page.locator("#status .verdict")).to_contain_text("every rule that must hold")
    window.tab("demonstrations")
    expect(window.demonstration(11)).to_contain_text(f"valid; does not keep “{LAVA}”")

    expect(window.learn().get_by_role("article", name="X-MEN")).to_contain_text("Kept by 91 %")
    window.tab("rules")
    expect(rule).to_contain_text("as learned")

    often = rule.get_by_label("How often")
    often.select_option("share")
    window.enter(rule.get_by_label("per cent"), "7")
    window.settle()
    assert text_of(server) == "usually(never(lava), share=0.07)"
    often.select_option("weight")
    expect(rule).to_contain_text("2.7 times as likely")
    window.settle()
    assert text_of(server) == "usually(never(lava), weight=1)"
    rule.get_by_label("Whether rule").select_option("must")
    window.settle()
    assert text_of(server) == "never(lava)"
    window.undo(5)  # the rule as it was
    assert window.verdict == before


def test_usually_can_be_typed_and_its_mistakes_are_under_their_place(window, server):
    window.add_rule("usually(visit(mudd), share=0.5)")
    window.settle()
    rule = window.rule("new rule")
    expect(rule.get_by_label("Whether rule")).to_have_value("usually")
    expect(rule.locator("input.code")).to_have_value("visit(mudd)")
    expect(rule.get_by_label("per cent")).to_have_value("50")
    assert rule.locator(".caret").evaluate("node => node.style.paddingLeft").startswith("calc(6ch")
    expect(rule.locator(".message")).to_contain_text("mudd")
    rule.locator("input.code").fill("visit(mud)")
    window.settle()
    assert text_of(server, "new rule") == "usually(visit(mud), share=0.5)"


def test_make_it_valid_is_a_dashed_line_that_is_taken_or_dismissed(window, server):
    page = window.page
    window.tab("demonstrations")
    window.drag(INTO_LAVA)
    window.settle()
    row, dashed = window.demonstration(11), page.locator("#map .offered")
    drawn = server.document["demonstrations"][-1]
    row.get_by_role("button", name="Make demonstration 10 valid").click()
    expect(row).to_contain_text("cell (2, 3) becomes cell (1, 4)")
    expect(dashed).to_have_count(1)
    window.tab("rules")
    expect(dashed).to_have_count(0)
    window.tab("demonstrations")
    expect(dashed).to_have_count(1)
    row.get_by_role("button", name="Dismiss").click()
    expect(dashed).to_have_count(0)
    assert server.document["demonstrations"][-1] == drawn

    row.get_by_role("button", name="Make demonstration 10 valid").click()
    row.get_by_role("button", name="Take it").click()
    window.settle()
    expect(row).to_contain_text("10: 14 moves")
    expect(row).to_contain_text("valid")
    expect(row.get_by_role("button", name="Make demonstration 10 valid")).to_be_hidden()
    expect(dashed).to_have_count(0)
    window.undo()
    assert server.document["demonstrations"][-1] == drawn
