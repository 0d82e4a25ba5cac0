"""Labels, roles, order of headings and contrast, as axe-core sees them, in both colour schemes."""

from __future__ import annotations

import pytest

from studio.browser.tools import AXE, NO_AXE
from studio.browser.window import Window


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser, server, scheme):
    if not AXE.exists():
        pytest.skip(NO_AXE)
    # axe is put into the page by the test, which the page's own content policy rightly forbids.
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    window = Window(context.new_page()).open(server.address)
    window.page.evaluate(AXE.read_text("utf-8"))
    window.tab("rules")
    window.page.locator("summary").first.click()
    rules = "['color-contrast']" if scheme == "dark" else "undefined"  # all else is the same in both
    found = []
    for name in ("world", "rules", "demonstrations", "learn", "generate", "find"):
        window.tab(name)
        for violation in window.page.evaluate(f"axe.run(document, {{ runOnly: {rules} }})")["violations"]:
            found.append((name, violation["id"], [node["target"] for node in violation["nodes"]]))
    assert not found
    context.close()
