import { button, dress, h } from "./dom.js";

/**
 * Tabs with their panels, as the ARIA practices have them: one stop for the Tab key, arrows between them.
 *
 * @param {HTMLElement} root
 * @param {import("./signal.js").Signal<string>} chosen
 * @param {{name: string, title: string}[]} titles
 * @returns {HTMLElement[]} the panels
 */
export function mountTabs(root, chosen, titles) {
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "What to work on" });
    const panels = titles.map(({ name }) =>
        h("section", {
            role: "tabpanel",
            id: `panel-${name}`,
            class: "panel",
            "aria-labelledby": `tab-${name}`,
            tabindex: 0,
        }),
    );
    const names = titles.map(({ name }) => name);
    const buttons = titles.map(({ name, title }) =>
        button(title, () => chosen.set(name), { role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` }),
    );
    bar.append(...buttons);
    root.append(bar, ...panels);
    bar.addEventListener("keydown", (event) => {
        const at = names.indexOf(chosen.get());
        const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[
            event.key
        ];
        if (next === undefined) return;
        event.preventDefault();
        chosen.set(String(names[next % names.length]));
        buttons[next % names.length]?.focus();
    });
    chosen.on((name) => {
        buttons.forEach((each, index) => {
            const on = names[index] === name;
            dress(each, { "aria-selected": String(on), tabindex: on ? 0 : -1 });
            panels[index]?.toggleAttribute("hidden", !on);
        });
    });
    return panels;
}
