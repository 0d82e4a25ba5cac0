import { button, freshId, h, rows, show } from "../dom.js";
import { colourMark, defineMark, painted, removeMark, renameMark, resize, withPart } from "../edits.js";
import { looks } from "../map/ground.js";
import { count } from "../words.js";
import { numberField, numberInput, placeCaret, tickBoxes, wordField } from "./parts.js";

/**
 * Size, moves, chance and horizon of the world, and its marks.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Mark} Mark
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

/**
 * Marks: names for places, for moves, or for a text over other marks.
 *
 * @typedef {[string, Mark]} Named
 */

/** @param {HTMLElement} root @param {App} app */
function mountMarks(root, app) {
    const { history } = app;
    const list = h("ul", { class: "plain marks-list" });
    const update = rows(list, () => markLine(app));
    const table = history.document.get().problem.world.kind === "table";
    const grid = history.document.get().problem.world.kind === "grid";
    const add = (/** @type {string} */ stem, /** @type {() => Mark} */ fresh) => () => {
        const taken = history.document.get().problem.events;
        let name = stem;
        for (let number = 2; taken.has(name); number += 1) name = `${stem}_${number}`;
        history.edit("add a mark", (document) => defineMark(document, name, fresh()));
        if (painted(fresh())) app.tool.set(`mark ${name}`);
        const input = list.lastElementChild?.querySelector("input.mark-name");
        if (input instanceof HTMLInputElement) input.select();
    };
    const empty = h(
        "p",
        { class: "hint empty" },
        "No marks yet. A mark is a name for places, such as depot or closed, of which rules can speak: make one, and " +
            "paint it on the map.",
    );
    history.document.on(({ problem }) => (empty.hidden = problem.events.size > 0));
    root.append(
        list,
        empty,
        h(
            "div",
            { class: "actions" },
            !table &&
                button(
                    "New mark for places",
                    add("mark", () => (grid ? { cells: [] } : { nodes: [] })),
                ),
            grid &&
                button(
                    "… for moves",
                    add("going", () => ({ moves: (history.document.get().problem.world.moves ?? []).slice(0, 1) })),
                ),
            button(
                "… by a text",
                add("text", () => "anytime"),
            ),
        ),
    );
    history.document.on(({ problem }, old) => {
        if (problem !== old.problem || !list.children.length) update([...problem.events]);
    });
    app.sync.check.on(() => update([...history.document.get().problem.events]));
}

/** @param {App} app @returns {{node: HTMLElement, update: (named: Named) => void}} */
function markLine(app) {
    const { history, sync } = app;
    let current = "";
    const about = freshId("mark");
    const colour = h("input", {
        type: "color",
        oninput: () =>
            history.edit(
                "colour of a mark",
                (document) => colourMark(document, current, colour.value),
                `colour ${current}`,
            ),
    });
    const name = h("input", {
        class: "mark-name code",
        spellcheck: "false",
        pattern: "[A-Za-z_][A-Za-z0-9_]*",
        "aria-describedby": about,
        onchange: () => {
            const before = history.document.get();
            const painting = app.tool.get() === `mark ${current}`;
            history.edit("rename a mark", (document) => renameMark(document, current, name.value));
            if (history.document.get() === before) {
                if (name.value !== current)
                    app.say(`“${name.value}” is taken, or no name: letters, digits and _, with a letter first.`);
                show(name, current);
            } else if (painting) app.tool.set(`mark ${name.value}`);
        },
    });
    const what = h("span", { class: "what" });
    const text = h("input", {
        class: "code",
        spellcheck: "false",
        oninput: () =>
            history.edit(
                "text of a mark",
                (document) => defineMark(document, current, text.value),
                `mark text ${current}`,
            ),
    });
    const moves = h("span", { class: "mark-moves" });
    const showMoves = tickBoxes(moves, (next) =>
        history.edit("moves of a mark", (document) => defineMark(document, current, { moves: next })),
    );
    const remove = button("✕", () => history.edit("delete a mark", (document) => removeMark(document, current)), {
        class: "quiet",
    });
    const caret = h("div", { class: "caret code", "aria-hidden": "true", hidden: true });
    const message = h("p", { class: "message", id: about });
    const node = h(
        "li",
        { class: "mark" },
        h("div", { class: "mark-head" }, colour, name, what, moves, text, remove),
        caret,
        message,
    );
    for (const input of [text, colour]) input.addEventListener("blur", () => history.close());

    return {
        node,
        update([mark, meaning]) {
            current = mark;
            const { problem } = history.document.get();
            const look = looks(problem).get(mark);
            const states = painted(meaning);
            colour.hidden = !look;
            if (look) show(colour, look.colour.toLowerCase());
            if (document.activeElement !== name) show(name, mark);
            what.textContent = states ? count(states.length, "place") : "";
            text.hidden = typeof meaning !== "string";
            if (typeof meaning === "string") show(text, meaning);
            const chosen = typeof meaning === "object" && "moves" in meaning ? meaning.moves : null;
            const offered = chosen ? (problem.world.moves ?? []) : [];
            showMoves(
                offered.map((move) => ({ name: move, label: `${mark}: ${move}` })),
                chosen ?? [],
            );
            colour.setAttribute("aria-label", `Colour of ${mark}`);
            name.setAttribute("aria-label", `Name of mark ${mark}`);
            text.setAttribute("aria-label", `Text of mark ${mark}`);
            remove.setAttribute("aria-label", `Delete mark ${mark}`);
            const mistake = sync.check.get()?.errors.find((each) => each.part === "event" && each.name === mark);
            placeCaret(caret, text, text.hidden ? null : mistake?.offset);
            message.textContent = mistake?.message ?? "";
            message.hidden = !mistake;
        },
    };
}
