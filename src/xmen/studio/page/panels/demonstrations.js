import { button, h, rows } from "../dom.js";
import { removeDemonstrations, weighDemonstrations } from "../edits.js";
import { signal } from "../signal.js";
import { count } from "../words.js";
import { csvButtons } from "./csv.js";
import { demoLine } from "./demo_line.js";

/**
 * The demonstrations: each valid, or why not. The one under the pointer or with the focus is shown on the map.
 *
 * @typedef {import("../types.js").App} App
 */

const PAGE = 100; // rows that are shown at first

/** @param {HTMLElement} root @param {App} app */
export function mountDemonstrations(root, app) {
    const { history, sync, map } = app;
    const chosen = signal(/** @type {Set<number>} */ (new Set()));
    let shown = PAGE;
    const summary = h("p", { class: "hint", role: "status" });
    const list = h("ol", { class: "plain demos" });
    const update = rows(list, (index) => demoLine(app, index, chosen));
    const more = button("Show more", () => ((shown += 5 * PAGE), refresh()));

    const weight = h("input", {
        type: "number",
        min: 0,
        step: "any",
        value: 1,
        "aria-label": "Weight of the selected demonstrations",
    });
    const all = h("input", {
        type: "checkbox",
        "aria-label": "Select all demonstrations",
        onchange: () => chosen.set(new Set(all.checked ? history.document.get().demonstrations.keys() : [])),
    });
    const invalid = button("Select invalid ones", () => {
        const judged = sync.check.get()?.demonstrations ?? [];
        chosen.set(new Set(judged.flatMap((each, index) => (each.valid === false ? [index] : []))));
    });
    const weigh = button("Set weight", () => {
        if (!weight.reportValidity()) return;
        history.edit("weigh demonstrations", (document) =>
            weighDemonstrations(document, chosen.get(), Number(weight.value)),
        );
    });
    const remove = button("Delete", () => {
        history.edit("delete demonstrations", (document) => removeDemonstrations(document, chosen.get()));
        chosen.set(new Set());
    });
    const selection = [h("label", { class: "check" }, all, "All"), invalid, weight, weigh, remove];
    root.append(
        h(
            "div",
            { class: "actions" },
            button("Draw", () => app.tool.set("draw")),
            csvButtons(app),
        ),
        summary,
        h("div", { class: "actions selection" }, ...selection),
        list,
        more,
    );

    function refresh() {
        const { demonstrations } = history.document.get();
        const judged = sync.check.get()?.demonstrations ?? [];
        const bad = judged.filter((each) => each.valid === false).length;
        update(demonstrations.slice(0, shown));
        more.hidden = demonstrations.length <= shown;
        invalid.disabled = !bad;
        for (const each of [weigh, remove]) each.disabled = !chosen.get().size;
        all.checked = chosen.get().size > 0 && chosen.get().size === demonstrations.length;
        const picked = chosen.get().size ? `, ${chosen.get().size} selected` : "";
        const verdict = bad ? `${bad} of them invalid` : "all valid";
        summary.textContent = demonstrations.length
            ? `${count(demonstrations.length, "demonstration")}, ${verdict}${picked}.`
            : "None yet: choose Draw above the map and drag from the start to the goal.";
        if (app.tab.get() === "demonstrations")
            map.many.set(
                demonstrations.map((each, index) => ({
                    states: each.states,
                    tone: judged[index]?.valid === false ? "bad" : "plain",
                })),
            );
    }
    history.document.on((next, old) => {
        if (next.demonstrations.length < old.demonstrations.length) chosen.set(new Set());
        if (next.demonstrations !== old.demonstrations || !list.children.length) refresh();
    });
    sync.check.on(refresh);
    chosen.on(refresh);
    app.tab.on(refresh);
}
