import { button, h, show } from "../dom.js";
import { removeDemonstrations, weighDemonstrations } from "../edits.js";
import { trajectoryLine } from "./trajectory_line.js";

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
    const remove = button(
        "✕",
        () => history.edit("delete a demonstration", (document) => removeDemonstrations(document, new Set([index]))),
        { class: "quiet", "aria-label": `Delete demonstration ${number}` },
    );
    const line = trajectoryLine(map, index);
    line.node.prepend(select);
    line.node.append(weight, remove);

    return {
        node: line.node,
        update(/** @type {Demonstration} */ demonstration) {
            const judged = sync.check.get()?.demonstrations[index];
            line.show(demonstration, judged, "valid");
            select.checked = chosen.get().has(index);
            show(weight, demonstration.weight ?? 1);
        },
    };
}
