import { button, field, h, headed } from "../dom.js";
import { addRule } from "../edits.js";
import { count } from "../words.js";
import { jobButtons, missingLine, noDemonstrations, progressLine } from "./parts.js";

/**
 * Rules that the demonstrations keep, with what each explains; one click takes one over.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {{rule: string, gain: number, chance: number, kept: number, note: string}} Found
 */

/** @param {HTMLElement} root @param {App} app */
export function mountFind(root, app) {
    const { jobs, history } = app;
    const job = jobs.of("find");
    const most = h("input", { type: "number", min: 1, max: 50, value: 8 });
    const level = h("input", { type: "number", min: 0, max: 1, step: "any", value: 0.01 });
    const asked = () => ({ max_rules: Number(most.value), level: Number(level.value) });
    const { start, stop } = jobButtons(jobs, "find", "Find rules", [most, level], asked);
    const progress = progressLine(job, () => "Looking for rules …");
    const result = h("div", { class: "result" });
    root.append(
        h(
            "p",
            { class: "hint" },
            "Which rules over the marks do the demonstrations keep, beyond the rules there are? A rule that they would " +
                "have broken now and then, had they not known it, makes them more likely.",
        ),
        missingLine(app, () =>
            history.document.get().problem.events.size
                ? noDemonstrations(app)
                : ["Rules speak of marks, and there are none yet.", "Make a mark", "world"],
        ),
        h("div", { class: "fields" }, field("At most", most), field("Accepted chance of a coincidence", level)),
        h("div", { class: "actions" }, start, stop),
        progress,
        result,
    );

    job.on(({ result: found }) => draw(found));
    history.document.on((next, old) => next.problem.constraints !== old.problem.constraints && draw(job.get().result));

    function draw(/** @type {any} */ found) {
        if (!found) return result.replaceChildren();
        const taken = new Set((history.document.get().problem.constraints ?? []).map((rule) => rule.rule));
        /** @type {Found[]} */
        const rules = found.rules;
        const take = (/** @type {string} */ rule) =>
            button(
                taken.has(rule) ? "Taken" : "Take over",
                () => history.edit("take a rule over", (document) => addRule(document, rule)),
                { disabled: taken.has(rule), "aria-label": `Take over ${rule}` },
            );
        const number = (/** @type {string} */ text) => h("td", { class: "number" }, text);
        const lines = rules.map(({ rule, note, gain, chance, kept }) =>
            h(
                "tr",
                {},
                h("th", { scope: "row" }, h("code", {}, rule), note && h("span", { class: "note" }, note)),
                number(`× ${Number(Math.exp(gain).toPrecision(3))}`),
                number(chance < 0.001 ? chance.toExponential(0) : chance.toFixed(3)),
                number(`${(100 * kept).toFixed(0)} %`),
                h("td", {}, take(rule)),
            ),
        );
        const table = h(
            "table",
            { class: "found" },
            ...headed(["Rule", "More likely", "Coincidence", "Kept", ""], lines),
        );
        const others = (found.others ?? []).map((/** @type {any} */ each) =>
            h("li", {}, h("code", {}, each.rule), ` ${[each.status, each.note].filter(Boolean).join(": ")}`),
        );
        result.replaceChildren(
            h(
                "p",
                {},
                rules.length
                    ? `${rules.length} found among ${found.candidates} candidates.`
                    : `None of ${found.candidates} candidates stands out.`,
            ),
            rules.length ? h("div", { class: "scroll" }, table) : "",
            found.undecided?.length ? h("ul", {}, ...found.undecided.map(undecided)) : "",
            others.length ? h("details", {}, h("summary", {}, `${others.length} others`), h("ul", {}, ...others)) : "",
        );
    }
}

/** A rule for which there are too few demonstrations. */
function undecided(/** @type {{rule: string, gain: number, more: number}} */ { rule, more }) {
    const says = ` may be one: ${count(more, "more demonstration")} that keep it would decide for it, one that breaks it against it.`;
    return h("li", {}, h("code", {}, rule), says);
}
