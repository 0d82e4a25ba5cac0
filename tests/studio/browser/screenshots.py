"""The pictures of the studio in the README and in docs/studio.md.

    python tests/studio/browser/screenshots.py [docs/images]

The paper's memory map, as `xmen studio --demo` opens it: a demonstration that enters a cross, in a light scheme; what
was learned from the others, in a dark one; and what fills the gaps of one that was seen in part.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from studio.browser.conftest import ARGUMENTS  # noqa: E402
from studio.browser.server import Server  # noqa: E402
from studio.browser.tools import NO_CHROMIUM, find_chromium  # noqa: E402
from studio.browser.window import Window  # noqa: E402

INTO_A_CROSS = [(0, 0), (1, 0), (1, 3), (3, 3), (3, 4), (4, 5), (4, 7), (7, 7), (8, 8)]


def main(folder: Path) -> None:
    """Make all pictures."""
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    with TemporaryDirectory() as scratch, Server(Path(scratch), "demo") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        shoot_demonstration(browser, server, folder / "studio.png")
        shoot_learned(browser, server, folder / "studio_learned.png")
        shoot_gaps(browser, server, folder / "studio_gaps.png")
        browser.close()


def opened(browser: Browser, server: Server, scheme: str) -> Window:
    size = {"width": 1280, "height": 800}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    context.set_default_timeout(120_000)
    return Window(context.new_page()).open(server.address)


def shoot_demonstration(browser: Browser, server: Server, path: Path) -> None:
    window = opened(browser, server, "light")
    panel = window.tab("demonstrations")
    window.drag(INTO_A_CROSS)
    window.settle()
    last = panel.locator(".demo").last
    last.scroll_into_view_if_needed()
    last.hover()
    window.page.wait_for_selector("#map .broken")
    last.evaluate("node => node.scrollIntoView(false)")  # it has grown
    window.page.wait_for_selector("#toast.shown", state="detached")
    keep(window, path)
    window.page.get_by_role("button", name="Undo").click()
    window.settle()


def shoot_learned(browser: Browser, server: Server, path: Path) -> None:
    window = opened(browser, server, "dark")
    panel = window.tab("learn")
    panel.get_by_label("Held out").fill("0.2")
    panel.get_by_role("button", name="Learn").click()
    panel.get_by_role("article").nth(1).wait_for()
    panel.get_by_label("Expected visits").check()
    panel.get_by_label("on the large map").check()
    panel.locator(".segments").evaluate("node => node.scrollIntoView()")
    keep(window, path)


def shoot_gaps(browser: Browser, server: Server, path: Path) -> None:
    document = server.document
    problem, demonstrations = document["problem"], document["demonstrations"][:8]
    whole = demonstrations[0]["states"]
    seen = [state if i < 3 or 6 <= i < 8 or i > len(whole) - 4 else None for i, state in enumerate(whole)]
    server.put(problem, [{**demonstrations[0], "states": seen, "actions": []}, *demonstrations[1:]])
    window = opened(browser, server, "light")
    window.tab("demonstrations")
    first = window.demonstration(1)
    first.get_by_role("button", name="Fill in").click()
    first.get_by_role("radio").first.wait_for()
    keep(window, path)
    server.put(problem, document["demonstrations"])


def keep(window: Window, path: Path) -> None:
    """A picture of few colours: a quarter of the size, and no difference to be seen."""
    window.page.wait_for_timeout(400)
    window.page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(path, optimize=True)
    sys.stdout.write(f"{path}: {path.stat().st_size // 1024} kB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
