import { button, h } from "./dom.js";
import { capital, count } from "./words.js";

/**
 * What can still happen under the rules: shown under the map, and read out when it changes.
 *
 * @typedef {import("./types.js").Check} Check
 * @typedef {import("./types.js").App} App
 */

/** The tab on which a part of the problem is edited, and what it is called there. @type {Record<string, [string, string]>} */
const PARTS = {
    world: ["world", "World"],
    settings: ["world", "World"],
    event: ["world", "Mark"],
    rule: ["rules", "Rule"],
    reward: ["learn", "The reward"],
    studio: ["learn", "Learn"],
};

/** @param {HTMLElement} root @param {App} app */
export function mountStatus(root, app) {
    const verdict = h("p", { class: "verdict", role: "status" });
    const detail = h("p", { class: "detail" });
    const list = h("ul", { class: "mistakes" });
    root.append(verdict, detail, list);

    const wait = (/** @type {boolean} */ on) => root.classList.toggle("waiting", on);
    app.history.document.on((next, old) => next !== old && wait(true));
    app.sync.check.on((check) => {
        wait(!check || app.sync.versions.get().edited);
        root.dataset.feasible = String(check?.feasible ?? "");
        root.dataset.version = String(check?.version ?? "");
        if (!check) return verdict.replaceChildren("Counting trajectories …");
        verdict.replaceChildren(...headline(check, app));
        detail.textContent = small(check);
        list.replaceChildren(
            ...check.errors.map((mistake) => h("li", { class: "error" }, ...wrong(mistake, app), mistake.message)),
            ...check.notes.map((note) => h("li", {}, note)),
        );
    });
}

/** Where a mistake is, as a way to go there. @param {import("./types.js").Mistake} mistake @param {App} app */
function wrong({ part, index, name }, app) {
    const { constraints = [], events } = app.history.document.get().problem;
    const place = PARTS[part];
    if (!place) return [`${name ?? part}: `];
    const [tab, title] = place;
    const called = part === "rule" ? constraints[index ?? 0]?.name : name;
    const row = part === "rule" ? index : [...events.keys()].indexOf(name ?? "");
    return [button(called ? `${title} “${called}”` : title, () => goTo(app, tab, row ?? -1), { class: "link" }), ": "];
}

/** Go to a tab and there to a rule or a mark, by its row. */
function goTo(/** @type {App} */ app, /** @type {string} */ tab, /** @type {number} */ row) {
    app.tab.set(tab);
    const line = document.querySelectorAll(`#panel-${tab} :is(.rule, .mark)`)[row];
    const [first, second] = line?.querySelectorAll("input.code") ?? [];
    const input = second?.matches(":not([hidden])") ? second : first;
    if (input instanceof HTMLInputElement) input.focus();
}

/** @param {Check} check @param {App} app @returns {(Node | string)[]} */
function headline(check, app) {
    const { feasible, conflict, trajectories } = check;
    const rules = (app.history.document.get().problem.constraints ?? []).map((rule) => rule.name);
    if (feasible === null) return [h("strong", { class: "open" }, "Not decided."), ` ${check.message}`];
    if (!feasible) {
        const names = conflict.flatMap((name, index) => [
            index ? " and " : "",
            button(name, () => goTo(app, "rules", rules.indexOf(name)), { class: "link" }),
        ]);
        const why = names.length ? [" These rules cannot hold together: ", ...names, "."] : [` ${check.message}`];
        return [h("strong", { class: "no" }, "Impossible."), ...why];
    }
    if (!trajectories?.text) return [h("strong", { class: "yes" }, "Possible."), " Some trajectory keeps every rule."];
    const share = trajectories.share_text && ` (${trajectories.share_text.replace(" ", "\u00a0")})`;
    const counts = ` ${capital(trajectories.text)} trajectories keep every rule${share}.`;
    return [h("strong", { class: "yes" }, "Possible."), counts];
}

function small(/** @type {Check} */ check) {
    const parts = [];
    if (check.product && !check.message.includes("nodes"))
        parts.push(
            `Product of world and rules: ${count(check.product.nodes, "node")}, ${count(check.product.edges, "edge")}`,
        );
    if (check.engine)
        parts.push(`Engine ${check.engine}${check.message && check.feasible ? `: ${check.message}` : ""}`);
    if (check.policy) parts.push(promise(check.policy));
    return parts.map((part) => part.replace(/[^.]$/, "$&.")).join(" ");
}

/** @param {{sure: boolean, best: number | null}} policy */
function promise({ sure, best }) {
    if (sure) return "A policy keeps every rule surely, whatever chance does";
    return best === null
        ? "No policy keeps every rule surely"
        : `A policy keeps every rule with probability ${best.toPrecision(4)} at best`;
}
