import { h } from "../dom.js";
import { resize, withPart } from "../edits.js";
import { numberField, numberInput, tickBoxes, wordField } from "./fields.js";
import { mountMarks } from "./marks.js";

/**
 * Size, moves, chance and horizon of the world, and its marks.
 *
 * @typedef {import("../types.js").App} App
 */

const SHARE = { min: 0, max: 1, step: "any" };

/** @param {HTMLElement} root @param {App} app */
export function mountWorld(root, app) {
    const isGrid = app.history.document.get().problem.world.kind === "grid";
    const marks = h("section", { "aria-labelledby": "marks-title" }, h("h3", { id: "marks-title" }, "Marks"));
    root.append(
        h("div", { class: "stack" }, ...(isGrid ? gridFields(app) : otherFields(app)), settingFields(app)),
        marks,
    );
    mountMarks(marks, app);
}

/** @param {App} app */
function gridFields(app) {
    const { history } = app;
    const size = { min: 1, max: Math.floor(Math.sqrt(app.vocabulary.limits.cells ?? 40000)), step: 1 };
    const side = (/** @type {"width" | "height"} */ key, /** @type {string} */ label) =>
        numberInput(
            app,
            label,
            size,
            ({ problem }) => problem.world[key],
            (document, value) => {
                const { width = 1, height = 1 } = withPart(document, "world", { [key]: value ?? 1 }).problem.world;
                return resize(document, width, height);
            },
        );
    const bump = h("input", {
        type: "checkbox",
        onchange: () => history.edit("bump", (document) => withPart(document, "world", { bump: bump.checked })),
    });
    history.document.on(({ problem }) => (bump.checked = Boolean(problem.world.bump)));
    const another = "With this probability another available move happens instead";
    return [
        h(
            "div",
            { class: "fields" },
            side("width", "Width"),
            side("height", "Height"),
            horizonField(app),
            numberField(app, "Slip", ["world", "slip"], 0, SHARE, another),
        ),
        moveBoxes(app),
        h("label", { class: "check" }, bump, "Moves into walls and off the grid stay in place"),
    ];
}

/** @param {App} app */
function moveBoxes(app) {
    const { history, vocabulary } = app;
    const boxes = h("div", { class: "boxes" });
    const offered = vocabulary.moves.map((name) => ({ name }));
    const change = (/** @type {string[]} */ moves) =>
        history.edit("moves", (document) => withPart(document, "world", { moves }));
    const show = tickBoxes(boxes, change, true);
    history.document.on(({ problem }) => show(offered, problem.world.moves ?? []));
    return h("fieldset", {}, h("legend", {}, "Moves"), boxes);
}

/** @param {App} app */
function horizonField(app) {
    const range = { min: 1, max: 100000, step: 1, empty: "", placeholder: "none" };
    const hint = "The largest number of moves; needed where one can go round in circles";
    return numberField(app, "Horizon", ["world", "horizon"], undefined, range, hint);
}

/** @param {App} app */
function settingFields(app) {
    return h(
        "div",
        { class: "fields" },
        numberField(app, "Discount", ["settings", "discount"], 1, SHARE),
        numberField(app, "Seed", ["settings", "seed"], 0, { min: 0, step: 1 }, "The same seed, the same draws"),
    );
}

/** Where the topology is read from a file: its ends and its horizon. @param {App} app */
function otherFields(app) {
    const nodes = (app.sync.layout.get()?.states ?? []).map(({ name }) => ({ name, sentence: "" }));
    const ends = [
        wordField(app, "Start", ["world", "source"], "", nodes),
        wordField(app, "Goal", ["world", "target"], "", nodes),
    ];
    const named = app.history.document.get().problem.world.kind === "graphml";
    return [
        h("p", { class: "hint" }, "States and moves come from a file and stay as they are; marks can be set."),
        h("div", { class: "fields" }, ...(named ? ends : []), horizonField(app)),
    ];
}
