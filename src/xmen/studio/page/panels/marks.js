import { button, freshId, h, rows, show } from "../dom.js";
import { colourMark, defineMark, painted, removeMark, renameMark } from "../edits.js";
import { looks } from "../map/ground.js";
import { count } from "../words.js";
import { tickBoxes } from "./fields.js";
import { placeCaret } from "./rule_line.js";

/**
 * Marks: names for places, for moves, or for a text over other marks.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Mark} Mark
 * @typedef {[string, Mark]} Named
 */

/** @param {HTMLElement} root @param {App} app */
export function mountMarks(root, app) {
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
    root.append(
        list,
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
