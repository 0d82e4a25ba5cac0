import { h, show } from "../dom.js";
import { removeDemonstrations, weighDemonstrations } from "../edits/demonstrations.js";
import { count, why } from "../words.js";
import { spotlight } from "./spotlight.js";

/**
 * One demonstration: its length, valid or why not, its weight.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Demonstration} Demonstration
 */

/** @param {App} app @param {number} index @param {import("../signal.js").Signal<Set<number>>} chosen */
export function demoLine(app, index, chosen) {
    const { history, sync, map } = app;
    const number = index + 1;
    const select = h("input", {
        type: "checkbox",
        "aria-label": `Select demonstration ${number}`,
        onchange: () => {
            const next = new Set(chosen.get());
            if (select.checked) next.add(index);
            else next.delete(index);
            chosen.set(next);
        },
    });
    const weight = h("input", {
        type: "number",
        min: 0,
        step: "any",
        class: "weight",
        "aria-label": `Weight of demonstration ${number}`,
        onchange: () =>
            weight.reportValidity() &&
            history.edit("weigh a demonstration", (document) =>
                weighDemonstrations(document, new Set([index]), Number(weight.value)),
            ),
    });
    const title = h("button", { type: "button", class: "link" });
    const reason = h("span", { class: "reason" });
    const remove = h(
        "button",
        {
            type: "button",
            class: "quiet",
            "aria-label": `Delete demonstration ${number}`,
            onclick: () =>
                history.edit("delete a demonstration", (document) => removeDemonstrations(document, new Set([index]))),
        },
        "✕",
    );
    const node = h("li", { class: "demo" }, select, title, reason, weight, remove);

    spotlight(node, map, () => {
        const demonstration = history.document.get().demonstrations[index];
        const broken = sync.check.get()?.demonstrations[index]?.broken ?? [];
        return demonstration ? { states: demonstration.states, broken } : null;
    });

    return {
        node,
        update(/** @type {Demonstration} */ demonstration) {
            const judged = sync.check.get()?.demonstrations[index];
            title.textContent = `${number}: ${count(demonstration.actions.length, "move")}`;
            reason.textContent = !judged ? "" : judged.valid ? "valid" : why(judged.broken);
            node.classList.toggle("invalid", judged?.valid === false);
            select.checked = chosen.get().has(index);
            show(weight, demonstration.weight ?? 1);
        },
    };
}
