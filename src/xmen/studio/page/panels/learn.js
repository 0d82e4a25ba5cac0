import { drawCurves, minimap, reach, weightTable } from "../charts.js";
import { h, s } from "../dom.js";
import { withFeatures } from "../edits.js";
import { signal } from "../state.js";
import { count, oneIn, worth } from "../words.js";
import { jobButtons, missingLine, noDemonstrations, numberField, progressLine, tickBoxes, wordField } from "./parts.js";

/**
 * What to learn from the demonstrations, how, and how far it is.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").LearnRecord} LearnRecord
 * @typedef {import("../types.js").Learned} Learned
 */

const ITERATIONS = { min: 1, max: 100000, step: 1, empty: "", placeholder: "usual" };

/** @param {HTMLElement} root @param {App} app */
export function mountLearn(root, app) {
    const { history, jobs, vocabulary } = app;
    const job = jobs.of("learn");
    const compare = h("input", { type: "checkbox", checked: true });
    const { start, stop } = jobButtons(jobs, "learn", "Learn", [], () => ({ compare: compare.checked }));
    const progress = progressLine(job, ({ records }) => {
        const last = records.at(-1);
        return last ? `Learning: iteration ${last.iteration}, misfit ${last.loss.toFixed(4)}.` : "Learning …";
    });
    const curve = s("svg", { class: "chart", role: "img", "aria-label": "Misfit over iterations" });
    const result = h("div", { class: "result" });

    root.append(
        missingLine(app, () => noDemonstrations(app) ?? unfitForGaps(app)),
        featureBoxes(app),
        h(
            "div",
            { class: "fields" },
            wordField(app, "Learner", ["studio", "learner"], "xmen", vocabulary.learners),
            wordField(app, "How", ["studio", "method"], "auto", vocabulary.methods),
            numberField(app, "Penalty", ["studio", "l2"], 0, { min: 0, step: "any" }, "Keeps weights small"),
            numberField(app, "Iterations", ["studio", "max_iter"], undefined, ITERATIONS, "At most"),
            numberField(
                app,
                "Held out",
                ["studio", "held_out"],
                0,
                { min: 0, max: 0.9, step: "any" },
                "The share of demonstrations that is not learned from",
            ),
        ),
        h("div", { class: "actions" }, start, stop, h("label", { class: "check" }, compare, "Compare with MaxEnt")),
        progress,
        curve,
        result,
    );

    const ready = () => (start.disabled = !history.document.get().demonstrations.length || jobs.busy.get() !== null);
    history.document.on(ready);
    jobs.busy.on(ready);
    job.on(({ records }) => {
        curve.toggleAttribute("hidden", records.length < 1);
        drawCurves(
            curve,
            series(records, (name) => vocabulary.learners.find((each) => each.name === name)?.label ?? name),
        );
    });
    mountResult(result, app);
}

/** Who learns from demonstrations with gaps. @param {App} app @returns {[string, string, string] | null} */
function unfitForGaps({ history }) {
    const { problem, demonstrations } = history.document.get();
    const { learner = "xmen", method = "auto" } = problem.studio ?? {};
    const fit = ["xmen", "maxent"].includes(learner) && ["auto", "exact"].includes(method);
    if (fit || demonstrations.every(({ states }) => !states.includes(null))) return null;
    return [
        "Some demonstrations have gaps: only X-MEN and MaxEnt learn from these, and not from samples.",
        "See them",
        "demonstrations",
    ];
}

/** @param {LearnRecord[]} records @param {(learner: string) => string} label */
function series(records, label) {
    const models = [...new Set(records.map((record) => record.model))];
    return models.map((model) => ({
        label: label(model),
        values: records
            .filter((record) => record.model === model)
            .map(({ iteration, loss }) => ({ x: iteration, y: loss })),
    }));
}

/** @param {App} app */
function featureBoxes(app) {
    const { history, sync } = app;
    const boxes = h("div", { class: "boxes" });
    const hint = h("p", { class: "hint" });
    const show = tickBoxes(boxes, (next) => history.edit("features", (document) => withFeatures(document, next)));
    const refresh = () => {
        const chosen = history.document.get().problem.reward?.features ?? [];
        const offered = sync.check.get()?.features ?? [];
        const names = [
            ...offered,
            ...chosen
                .filter((name) => !offered.some((each) => each.name === name))
                .map((name) => ({ name, sentence: "" })),
        ];
        hint.textContent = chosen.length ? "" : "None chosen: one weight per state is learned.";
        show(names, chosen);
    };
    history.document.on(refresh);
    sync.check.on(refresh);
    return h("fieldset", {}, h("legend", {}, "The reward may depend on"), boxes, hint);
}

/**
 * What was learned: numbers, a map and weights, the two models side by side.
 *
 * @typedef {"reward" | "visits" | "demo_visits"} Quantity
 */

/** @type {Record<Quantity, string>} */
const QUANTITIES = { reward: "Reward", visits: "Expected visits", demo_visits: "Demonstrated visits" };

/** @param {HTMLElement} root @param {App} app */
function mountResult(root, app) {
    const { jobs, map } = app;
    const job = jobs.of("learn");
    const quantity = signal(/** @type {Quantity} */ ("reward"));
    const onMap = h("input", { type: "checkbox", onchange: () => draw() });
    const buttons = h(
        "fieldset",
        { class: "segments" },
        h("legend", { class: "hidden" }, "What the maps show"),
        ...Object.entries(QUANTITIES).map(([value, label]) => {
            const radio = h("input", {
                type: "radio",
                name: "quantity",
                value,
                onchange: () => quantity.set(/** @type {Quantity} */ (value)),
            });
            radio.checked = value === "reward";
            return h("label", {}, radio, label);
        }),
        h("label", { class: "check" }, onMap, "on the large map"),
    );
    const missing = h("p", { class: "hint" });
    const cards = h("div", { class: "cards" });
    root.append(missing, buttons, cards);

    /** @type {import("../map/layers.js").Heat | null} */
    let warm = null; // the heat on the large map that is of this panel

    function draw() {
        const { result } = job.get();
        root.hidden = !result;
        if (!result) return map.heat.get() === warm && map.heat.set(null);
        /** @type {Learned[]} */
        const models = [result.model, result.compare].filter(Boolean);
        const scale = Math.max(...models.map((model) => reach(model.weights)));
        /** @type {string[]} */
        const left = result.left_out ?? [];
        missing.textContent = `Left out: ${count(left.length, "invalid demonstration")} (${left.join(", ")}).`;
        missing.hidden = !left.length;
        cards.replaceChildren(...models.map((model) => card(app, model, quantity.get(), scale)));
        const first = models[0];
        const shown = onMap.checked && app.tab.get() === "learn" && first;
        const next = shown ? { values: first[quantity.get()], title: QUANTITIES[quantity.get()] } : null;
        if (next || map.heat.get() === warm) map.heat.set(next);
        warm = next;
    }
    job.on((now, before) => (now.result !== before.result || now === before) && draw());
    quantity.on(draw);
    app.tab.on(draw);
}

/** @param {App} app @param {Learned} model @param {Quantity} quantity @param {number} scale */
function card(app, model, quantity, scale) {
    const place = app.map.place.get();
    const title = `${QUANTITIES[quantity]} of ${model.label}`;
    const values = model[quantity];
    const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
    return h(
        "article",
        { class: "card", "aria-label": model.label },
        h("h3", {}, model.label),
        h("dl", {}, ...facts(model).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
        values.length === place.count && minimap(place, { values, title }),
        h(
            "p",
            { class: "legend" },
            low < 0 && h("span", { class: "minus" }, low.toFixed(2)),
            high > 0 && h("span", { class: "plus" }, high.toFixed(2)),
        ),
        weightTable(model.weights, scale),
        model.rules.length > 0 && ruleList(model.rules),
        ...model.notes.map((note) => h("p", { class: "hint" }, note)),
    );
}

const SURE = Math.log(1e6); // beyond this a weight only says that every demonstration keeps a rule, or none

/** Rules that are usually kept: how often, and what that makes of whoever keeps them. */
function ruleList(/** @type {Learned["rules"]} */ rules) {
    const line = (/** @type {Learned["rules"][number]} */ { rule, weight, error, kept }) => {
        const often = kept === null ? "" : `Kept by ${(100 * kept).toFixed(0)} %. `;
        const told =
            Math.abs(weight) < SURE ? `${worth(weight)}${spread(weight, error)}.` : "Nothing tells how strong it is.";
        return h("li", {}, h("strong", {}, rule), h("span", { class: "note" }, often + told));
    };
    return h("div", {}, h("h4", {}, "Usually kept"), h("ul", { class: "plain" }, ...rules.map(line)));
}

/** Which factors are within one standard error. */
function spread(/** @type {number} */ weight, /** @type {number | null} */ error) {
    if (error === null || error < 1e-6) return "";
    const [low, high] = [Math.abs(weight) - error, Math.abs(weight) + error];
    const text = (/** @type {number} */ value) => String(Number(Math.exp(value).toPrecision(2)));
    return high > SURE ? "" : ` (${text(low)} to ${text(high)} within one standard error)`;
}

/** @param {Learned} model @returns {[string, string][]} */
function facts(model) {
    /** @type {[string, string][]} */
    const all = [["A demonstration is drawn", oneIn(model.log_likelihood)]];
    if (model.held_out) all.push([`Held out (${model.held_out.demonstrations})`, oneIn(model.held_out.log_likelihood)]);
    if (model.valid !== null)
        all.push(["Keeps the rules", `${(100 * model.valid).toFixed(model.valid === 1 ? 0 : 1)} %`]);
    all.push(["How", model.method], ["Iterations", `${model.iterations}${model.converged ? "" : ", not converged"}`]);
    return all;
}
