"""A window on the studio, in words of its users: tabs, tools, cells, rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Cell = tuple[int, int]


class Window:
    """One browser window on the page; what it logs as an error is kept and must be empty at the end of a test."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)

    def open(self, address: str) -> Window:
        self.page.goto(address)
        return self.loaded()

    def reload(self) -> Window:
        self.page.reload()
        return self.loaded()

    def loaded(self) -> Window:
        self.page.wait_for_selector("html[data-ready]")
        return self.settle()

    def settle(self) -> Window:
        """Wait until what is shown has been checked."""
        self.page.wait_for_selector("#status:not(.waiting)")
        return self

    # --- What can be seen -----------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        return self.page.inner_text("#status .verdict")

    @property
    def state(self) -> str:
        return self.page.inner_text("#bar .state")

    def tab(self, name: str) -> Locator:
        """Choose a tab; its panel."""
        self.page.click(f"#tab-{name}")
        return self.page.locator(f"#panel-{name}")

    def rule(self, name: str) -> Locator:
        return self.page.locator(f'.rule[data-rule="{name}"]')

    def demonstration(self, number: int) -> Locator:
        return self.page.locator("#panel-demonstrations .demo").nth(number - 1)

    def cell(self, cell: Cell) -> Locator:
        return self.page.locator("#map .ground rect").nth(cell[0] + self.width * cell[1])

    @property
    def width(self) -> int:
        return int(self.page.locator("#panel-world input").first.input_value())

    # --- What can be done -----------------------------------------------------------------------------------------

    def choose(self, tool: str) -> None:
        self.page.locator("#tools label", has_text=tool).click()

    def drag(self, cells: Sequence[Cell]) -> None:
        """Press on the first cell, move over the others, and let go on the last."""
        boxes = [self.cell(cell).bounding_box() for cell in cells]
        middles = [(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2) for box in boxes if box]
        self.page.mouse.move(*middles[0])
        self.page.mouse.down()
        for x, y in middles[1:]:
            self.page.mouse.move(x, y, steps=3)
        self.page.mouse.up()

    def undo(self, times: int = 1) -> None:
        for _ in range(times):
            self.page.get_by_role("button", name="Undo").click()
        self.settle()

    def enter(self, field: Locator, text: str, key: str = "Tab") -> None:
        field.fill(text)
        field.press(key)

    def add_rule(self, text: str, panel: str = "rules", button: str = "Add a rule") -> None:
        """Type it where a rule is added, and leave the completions alone."""
        self.tab(panel).get_by_role("button", name=button).click()
        self.page.keyboard.type(text)
        self.keys("Escape")

    def learn(self) -> Locator:
        """Begin to learn; the panel that will show it."""
        panel = self.tab("learn")
        panel.get_by_role("button", name="Learn").click()
        return panel

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
