import { h } from "./dom.js";

/**
 * Tabs with their panels, as the ARIA practices have them: one stop for the Tab key, arrows between them.
 *
 * @param {HTMLElement} root
 * @param {import("./signal.js").Signal<string>} chosen
 * @param {Record<string, string>} titles
 * @returns {Record<string, HTMLElement>} the panels
 */
export function mountTabs(root, chosen, titles) {
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "What to work on" });
    root.append(bar);
    /** @type {Record<string, HTMLElement>} */
    const panels = {};
    const names = Object.keys(titles);
    const buttons = names.map((name) => {
        const panel = h("section", {
            role: "tabpanel",
            id: `panel-${name}`,
            class: "panel",
            "aria-labelledby": `tab-${name}`,
            tabindex: 0,
        });
        root.append(panel);
        panels[name] = panel;
        return bar.appendChild(
            h(
                "button",
                {
                    type: "button",
                    role: "tab",
                    id: `tab-${name}`,
                    "aria-controls": panel.id,
                    onclick: () => chosen.set(name),
                },
                String(titles[name]),
            ),
        );
    });
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
        names.forEach((each, index) => {
            const on = each === name;
            buttons[index]?.setAttribute("aria-selected", String(on));
            buttons[index]?.setAttribute("tabindex", on ? "0" : "-1");
            const panel = panels[each];
            if (panel) panel.hidden = !on;
        });
    });
    return panels;
}
