"""Labels, roles, order of headings and contrast, as axe-core sees them, in both colour schemes."""

from __future__ import annotations

import pytest

from studio.browser.tools import AXE, NO_AXE
from studio.browser.window import Window


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, server, scheme):
    if not AXE.exists():
        pytest.skip(NO_AXE)
    problem, demonstrations = (server.document[part] for part in ("problem", "demonstrations"))
    problem["constraints"][0]["rule"] = "usually(never(lava), share=0.9)"
    states = [state if place in (0, 5) else None for place, state in enumerate(demonstrations[0]["states"])]
    server.put(problem, [{**demonstrations[0], "states": states, "actions": []}, *demonstrations[1:]])
    # axe is put into the page by the test, which the page's own content policy rightly forbids.
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    window = Window(context.new_page()).open(server.address)
    window.page.evaluate(AXE.read_text("utf-8"))
    window.tab("rules")
    window.page.locator("summary").first.click()
    window.tab("demonstrations")
    window.demonstration(1).get_by_role("button", name="Fill in").click()
    window.demonstration(1).get_by_role("radio").first.wait_for()
    rules = "['color-contrast']" if scheme == "dark" else "undefined"  # all else is the same in both
    found = []
    for name in ("world", "rules", "demonstrations", "learn", "generate", "find"):
        window.tab(name)
        for violation in window.page.evaluate(f"axe.run(document, {{ runOnly: {rules} }})")["violations"]:
            found.append((name, violation["id"], [node["target"] for node in violation["nodes"]]))
    assert not found
    context.close()
