import { drawCurves } from "../charts/curve.js";
import { field, fillSelect, h, s } from "../dom.js";
import { withFeatures, withStudio } from "../edits/problem.js";
import { numberInput } from "./number.js";
import { progressLine } from "./progress.js";
import { mountResult } from "./result.js";

/**
 * What to learn from the demonstrations, how, and how far it is.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").LearnRecord} LearnRecord
 */

/** @param {HTMLElement} root @param {App} app */
export function mountLearn(root, app) {
    const { history, jobs, vocabulary } = app;
    const job = jobs.of("learn");
    const compare = h("input", { type: "checkbox", checked: true });
    const start = h(
        "button",
        { type: "button", class: "main", onclick: () => jobs.start("learn", { compare: compare.checked }) },
        "Learn",
    );
    const stop = h("button", { type: "button", onclick: () => jobs.cancel("learn") }, "Cancel");
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
            wordSelect(app, "Learner", vocabulary.learners, "learner", "xmen"),
            wordSelect(app, "Method", vocabulary.methods, "method", "auto"),
            field(
                "Penalty",
                numberInput(
                    app,
                    "penalty",
                    { min: 0, step: "any" },
                    ({ problem }) => problem.studio?.l2 ?? 0,
                    (document, value) => withStudio(document, { l2: value ?? 0 }),
                ),
                "l2: on large weights",
            ),
            field(
                "Iterations",
                numberInput(
                    app,
                    "iterations",
                    { min: 1, max: 100000, step: 1, empty: "", placeholder: "usual" },
                    ({ problem }) => problem.studio?.max_iter,
                    (document, value) => withStudio(document, { max_iter: value ?? undefined }),
                ),
                "At most",
            ),
            field(
                "Held out",
                numberInput(
                    app,
                    "held out",
                    { min: 0, max: 0.9, step: "any" },
                    ({ problem }) => problem.studio?.held_out ?? 0,
                    (document, value) => withStudio(document, { held_out: value ?? 0 }),
                ),
                "The share of demonstrations that is not learned from",
            ),
        ),
        h("div", { class: "actions" }, start, stop, h("label", { class: "check" }, compare, "Compare with MaxEnt")),
        progress,
        curve,
        result,
    );

    history.document.on(({ demonstrations }) => (start.disabled = !demonstrations.length || jobs.busy.get() !== null));
    jobs.busy.on((kind) => {
        start.disabled = kind !== null || !history.document.get().demonstrations.length;
        stop.disabled = kind !== "learn";
    });
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
        const key = JSON.stringify([names, chosen]);
        if (boxes.dataset.shown === key) return;
        boxes.dataset.shown = key;
        const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : null;
        boxes.replaceChildren(
            ...names.map(({ name, sentence }) => {
                const box = h("input", {
                    type: "checkbox",
                    value: name,
                    onchange: () =>
                        history.edit("features", (document) => {
                            const old = document.problem.reward?.features ?? [];
                            return withFeatures(
                                document,
                                box.checked ? [...old, name] : old.filter((each) => each !== name),
                            );
                        }),
                });
                box.checked = chosen.includes(name);
                return h("label", { class: "check", title: sentence }, box, name);
            }),
        );
        const again = [...boxes.querySelectorAll("input")].find((box) => box.value === focused);
        again?.focus();
    };
    history.document.on(refresh);
    sync.check.on(refresh);
    return h("fieldset", {}, h("legend", {}, "The reward may depend on"), boxes, hint);
}

/**
 * @param {App} app
 * @param {string} label
 * @param {import("../types.js").Word[]} words
 * @param {"learner" | "method"} key
 * @param {string} usual
 */
function wordSelect(app, label, words, key, usual) {
    const select = h("select", {
        onchange: () =>
            app.history.edit(label.toLowerCase(), (document) => withStudio(document, { [key]: select.value })),
    });
    app.history.document.on(({ problem }) => {
        const chosen = problem.studio?.[key] ?? usual;
        fillSelect(
            select,
            words.map((word) => ({ value: word.name, label: word.label ?? word.name })),
            chosen,
        );
        select.title = words.find((word) => word.name === chosen)?.sentence ?? "";
    });
    return field(label, select);
}
