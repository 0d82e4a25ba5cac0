import { button, h } from "../dom.js";
import { count, why } from "../words.js";

/**
 * A row for a trajectory, which stands in front on the map while the pointer or the focus is on its row.
 *
 * @typedef {import("../types.js").Broken} Broken
 * @param {import("../map/view.js").MapView} map
 * @param {number} index
 */
export function trajectoryLine(map, index) {
    /** @type {import("../types.js").Front | null} */
    let shown = null;
    const title = button("", () => {}, { class: "link" });
    const reason = h("span", { class: "reason" });
    const node = h("li", { class: "demo" }, title, reason);
    const front = () => {
        map.front.set(shown);
        node.classList.add("open");
    };
    const behind = () => {
        if (node.matches(":hover") || node.contains(document.activeElement)) return;
        map.front.set(null);
        node.classList.remove("open");
    };
    for (const name of ["pointerenter", "focusin", "click"]) node.addEventListener(name, front);
    for (const name of ["pointerleave", "focusout"]) node.addEventListener(name, () => setTimeout(behind));
    return {
        node,
        /**
         * @param {{states: import("../types.js").StateName[], actions: unknown[]}} trajectory
         * @param {{valid: boolean | null, broken: Broken[]} | undefined} judged  undefined: not yet
         * @param {string} good  what is said of a valid one
         */
        show({ states, actions }, judged, good) {
            shown = { states, broken: judged?.broken ?? [] };
            title.textContent = `${index + 1}: ${count(actions.length, "move")}`;
            reason.textContent = !judged ? "" : judged.valid ? good : why(judged.broken);
            node.classList.toggle("invalid", judged?.valid === false);
        },
    };
}
