import { field, h, headed } from "../dom.js";
import { mountEpisode } from "./episode.js";
import { jobButtons, progressLine } from "./progress.js";

/**
 * Worlds with chance: what policies can promise, and an episode to be stepped through.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {{promise: "sure" | "best" | number, validity: number | null, reward?: number, message?: string}} Policy
 */

const HEADS = ["Promise", "Keeps the rules", "Expected reward"];

/** @param {HTMLElement} root @param {App} app @param {HTMLSelectElement} source @param {() => string[]} further */
export function mountChance(root, app, source, further) {
    const { jobs, sync } = app;
    const job = jobs.of("policy");
    const p = h("input", { type: "number", min: 0, max: 1, step: "any", value: 0.9 });
    const from = () => (source.value === "model" ? "model" : "uniform");
    const asked = () => ({ from: from(), p: Number(p.value), also: further() });
    const { start } = jobButtons(jobs, "policy", "What can be promised?", [p], asked, "");
    const progress = progressLine(job, () => "Planning …");
    const table = h("table", { class: "found" });
    const episode = h("div", { class: "episode" });
    root.append(
        h("h3", {}, "Chance"),
        h(
            "p",
            { class: "hint" },
            "Moves may go astray. A policy acts on what it sees: it keeps the rules surely, as likely as can be, or with " +
                "probability p.",
        ),
        h("div", { class: "fields" }, field("p", p), start),
        progress,
        table,
        episode,
    );
    mountEpisode(episode, app, from, further, () => Number(p.value));

    app.map.place.on((place) => {
        const { slip = 0 } = app.history.document.get().problem.world;
        const uncertain = slip > 0 || (sync.layout.get()?.edges ?? []).some(([, , , probability]) => probability < 1);
        root.hidden = !uncertain && place.starts.length < 2;
    });
    job.on(({ result }) => {
        table.hidden = !result;
        if (result) table.replaceChildren(...headed(HEADS, result.policies.map(policyRow)));
    });
}

function policyRow(/** @type {Policy} */ { promise, validity, reward, message }) {
    const name = h("th", { scope: "row" }, typeof promise === "number" ? `p = ${promise}` : promise);
    if (validity === null) return h("tr", {}, name, h("td", { colspan: 2 }, message ?? "cannot be promised"));
    return h(
        "tr",
        {},
        name,
        h("td", { class: "number" }, `${(100 * validity).toFixed(2)} %`),
        h("td", { class: "number" }, reward === undefined || reward === null ? "" : reward.toFixed(3)),
    );
}
