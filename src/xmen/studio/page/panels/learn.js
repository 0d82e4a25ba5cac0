import { drawCurves } from "../charts.js";
import { h, s } from "../dom.js";
import { withFeatures } from "../edits.js";
import { numberField, tickBoxes, wordField } from "./fields.js";
import { jobButtons, progressLine } from "./progress.js";
import { mountResult } from "./result.js";

/**
 * What to learn from the demonstrations, how, and how far it is.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").LearnRecord} LearnRecord
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
        return last ? `Learning: iteration ${last.iteration}, loss ${last.loss.toFixed(4)}.` : "Learning …";
    });
    const curve = s("svg", { class: "chart", role: "img", "aria-label": "Loss over iterations" });
    const result = h("div", { class: "result" });

    root.append(
        featureBoxes(app),
        h(
            "div",
            { class: "fields" },
            wordField(app, "Learner", ["studio", "learner"], "xmen", vocabulary.learners),
            wordField(app, "Method", ["studio", "method"], "auto", vocabulary.methods),
            numberField(app, "Penalty", ["studio", "l2"], 0, { min: 0, step: "any" }, "l2: on large weights"),
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
