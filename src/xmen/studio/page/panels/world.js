import { field, h, show } from "../dom.js";
import { resize } from "../edits/grid.js";
import { withSettings, withWorld } from "../edits/problem.js";
import { mountMarks } from "./marks.js";
import { numberInput } from "./number.js";

/**
 * Size, moves, chance and horizon of the world, and its marks.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Document} Document
 */

/** @param {HTMLElement} root @param {App} app */
export function mountWorld(root, app) {
    const { history, vocabulary } = app;
    const isGrid = history.document.get().problem.world.kind === "grid";
    root.append(isGrid ? gridFields(app, vocabulary.moves) : otherFields(app));
    const marks = h("section", { "aria-labelledby": "marks-title" }, h("h3", { id: "marks-title" }, "Marks"));
    root.append(marks);
    mountMarks(marks, app);
}

/** @param {App} app @param {string[]} moves */
function gridFields(app, moves) {
    const { history } = app;
    const most = Math.floor(Math.sqrt(app.vocabulary.limits.cells ?? 40000));
    const size = { min: 1, max: most, step: 1 };
    const width = numberInput(
        app,
        "width",
        size,
        ({ problem }) => problem.world.width,
        (document, value) => resize(document, value ?? 1, document.problem.world.height ?? 1),
    );
    const height = numberInput(
        app,
        "height",
        size,
        ({ problem }) => problem.world.height,
        (document, value) => resize(document, document.problem.world.width ?? 1, value ?? 1),
    );
    const slip = numberInput(
        app,
        "slip",
        { min: 0, max: 1, step: "any" },
        ({ problem }) => problem.world.slip ?? 0,
        (document, value) => withWorld(document, { slip: value ?? 0 }),
    );
    const bump = h("input", {
        type: "checkbox",
        onchange: () => history.edit("bump", (document) => withWorld(document, { bump: bump.checked })),
    });
    history.document.on(({ problem }) => (bump.checked = Boolean(problem.world.bump)));
    return h(
        "div",
        { class: "stack" },
        h(
            "div",
            { class: "fields" },
            field("Width", width),
            field("Height", height),
            horizonField(app),
            field("Slip", slip, "With this probability another available move happens instead"),
        ),
        moveBoxes(app, moves),
        h("label", { class: "check" }, bump, "Moves into walls and off the grid stay in place"),
        settingFields(app),
    );
}

/** @param {App} app @param {string[]} moves */
function moveBoxes(app, moves) {
    const { history } = app;
    const boxes = moves.map((move) =>
        h("input", {
            type: "checkbox",
            value: move,
            onchange: () => {
                const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
                history.edit("moves", (document) => {
                    const old = document.problem.world.moves ?? [];
                    return withWorld(document, {
                        moves: [
                            ...old.filter((each) => chosen.includes(each)),
                            ...chosen.filter((each) => !old.includes(each)),
                        ],
                    });
                });
            },
        }),
    );
    history.document.on(({ problem }) => {
        const chosen = problem.world.moves ?? [];
        for (const box of boxes) {
            box.checked = chosen.includes(box.value);
            box.disabled = box.checked && chosen.length === 1; // a world needs a move
        }
    });
    return h(
        "fieldset",
        { class: "moves" },
        h("legend", {}, "Moves"),
        ...boxes.map((box) => h("label", { class: "check" }, box, box.value)),
    );
}

/** @param {App} app */
function horizonField(app) {
    const horizon = numberInput(
        app,
        "horizon",
        { min: 1, max: 100000, step: 1, empty: "", placeholder: "none" },
        ({ problem }) => problem.world.horizon,
        (document, value) => {
            const { horizon: _, ...world } = document.problem.world;
            return {
                ...document,
                problem: { ...document.problem, world: value === null ? world : { ...world, horizon: value } },
            };
        },
    );
    return field("Horizon", horizon, "The largest number of moves; needed where one can go round in circles");
}

/** @param {App} app */
function settingFields(app) {
    const discount = numberInput(
        app,
        "discount",
        { min: 0, max: 1, step: "any" },
        ({ problem }) => Number(problem.settings?.discount ?? 1),
        (document, value) => withSettings(document, { discount: value ?? 1 }),
    );
    const seed = numberInput(
        app,
        "seed",
        { min: 0, step: 1 },
        ({ problem }) => Number(problem.settings?.seed ?? 0),
        (document, value) => withSettings(document, { seed: value ?? 0 }),
    );
    return h(
        "div",
        { class: "fields" },
        field("Discount", discount),
        field("Seed", seed, "The same seed, the same draws"),
    );
}

/** Where the topology is read from a file: its ends and its horizon. @param {App} app */
function otherFields(app) {
    const { history, sync } = app;
    const stack = h(
        "div",
        { class: "stack" },
        h("p", { class: "hint" }, "States and moves come from a file and stay as they are; marks can be set."),
    );
    const fields = h("div", { class: "fields" });
    if (history.document.get().problem.world.kind === "graphml")
        for (const [key, text] of /** @type {["source" | "target", string][]} */ ([
            ["source", "Start"],
            ["target", "Goal"],
        ])) {
            const select = h(
                "select",
                {
                    onchange: () =>
                        history.edit(text.toLowerCase(), (document) => withWorld(document, { [key]: select.value })),
                },
                ...(sync.layout.get()?.states ?? []).map(({ name }) => h("option", { value: name }, name)),
            );
            history.document.on(({ problem }) => show(select, problem.world[key] ?? ""));
            fields.append(field(text, select));
        }
    fields.append(horizonField(app));
    stack.append(fields, settingFields(app));
    return stack;
}
