import { h } from "./dom.js";
import { addDemonstrations } from "./edits.js";
import { looks } from "./map/ground.js";
import { drawTool } from "./tools/draw.js";
import { endTool, eraser, markBrush, wallBrush } from "./tools/paint.js";
import { count } from "./words.js";

/**
 * The tools above the map: radio buttons, one of them chosen.
 *
 * @typedef {import("./types.js").App} App
 * @typedef {import("./map/hand.js").Tool} Tool
 */

const GRID_TOOLS = { wall: "Walls", start: "Start", goal: "Goal", erase: "Erase", draw: "Draw" };
const OTHER_TOOLS = { erase: "Erase", draw: "Draw" };

/** @param {HTMLElement} root @param {App} app @returns {() => Tool} the chosen tool */
export function mountTools(root, app) {
    const { history, map, tool } = app;
    const drawing = drawTool(
        map,
        (demonstration) => {
            history.edit("draw a demonstration", (document) => addDemonstrations(document, [demonstration]));
            app.say(`A demonstration of ${count(demonstration.actions.length, "move")}.`);
        },
        app.say,
    );
    const fixed = history.document.get().problem.world.kind === "grid" ? GRID_TOOLS : OTHER_TOOLS;
    /** @type {Record<string, Tool>} */
    const tools = {
        draw: drawing.tool,
        erase: eraser(app),
        wall: wallBrush(app),
        start: endTool(app, "start"),
        goal: endTool(app, "goal"),
    };
    /** @type {Map<string, Tool>} */
    const brushes = new Map();

    const choice = (/** @type {string} */ value, /** @type {(Node | string)[]} */ ...label) => {
        const radio = h("input", { type: "radio", name: "tool", value, onchange: () => tool.set(value) });
        radio.checked = tool.get() === value;
        return h("label", { class: "tool" }, radio, h("span", {}, ...label));
    };
    const plain = h(
        "span",
        { class: "tool-group" },
        ...Object.entries(fixed).map(([value, label]) => choice(value, label)),
    );
    const marks = h("span", { class: "tool-group marks" });
    root.append(h("fieldset", { class: "tools" }, h("legend", { class: "hidden" }, "Tool"), plain, marks));

    let shown = "";
    history.document.on(({ problem }) => {
        const all = [...looks(problem).values()];
        const key = JSON.stringify(all);
        if (key === shown) return;
        shown = key;
        marks.replaceChildren(
            ...all.map((look) => {
                const swatch = h("span", { class: "swatch", "aria-hidden": "true" }, look.letters);
                swatch.style.background = look.colour;
                swatch.style.color = look.ink;
                return choice(`mark ${look.name}`, swatch, look.name);
            }),
        );
        if (tool.get().startsWith("mark ") && !all.some((look) => tool.get() === `mark ${look.name}`))
            tool.set("erase");
    });
    tool.on((chosen) => {
        drawing.drawing.set(null);
        for (const radio of root.querySelectorAll("input")) radio.checked = radio.value === chosen;
    });

    return () => {
        const chosen = tool.get();
        if (!chosen.startsWith("mark ")) return tools[chosen] ?? drawing.tool;
        const name = chosen.slice("mark ".length);
        const brush = brushes.get(name) ?? markBrush(app, name);
        brushes.set(name, brush);
        return brush;
    };
}
