import { h } from "./dom.js";
import { addDemonstrations, clearMarks, painted, replaceDemonstration, setEnd, setMark, setWall } from "./edits.js";
import { looks } from "./map/ground.js";
import { signal } from "./state.js";
import { capital, count } from "./words.js";
import { shortest } from "./world.js";

/**
 * The tools above the map: radio buttons, one of them chosen.
 *
 * @typedef {import("./map/hand.js").Tool} Tool
 * @typedef {import("./types.js").App} App
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Demonstration} Demonstration
 * @typedef {import("./types.js").Document} Document
 * @typedef {import("./world.js").Place} Place
 * @typedef {import("./world.js").Step} Step
 */

const GRID_TOOLS = { wall: "Walls", start: "Start", goal: "Goal", erase: "Erase", draw: "Draw" };
const OTHER_TOOLS = { erase: "Erase", draw: "Draw" };

/** @param {HTMLElement} root @param {App} app @returns {() => Tool} the chosen tool */
export function mountTools(root, app) {
    const { history, map, tool } = app;
    const drawing = drawTool(app);
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
        if (chosen !== "draw") app.onto.set(null);
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

/**
 * Brushes. The first cell of a stroke decides whether it paints or takes away; a stroke is one step of undo.
 *
 * @typedef {{history: import("./state.js").History, map: import("./map/view.js").MapView}} Canvas
 */

const KEYS = "Keyboard: arrows move, Space paints, Shift with arrows paints along.";

/**
 * @param {Canvas} canvas
 * @param {string} what
 * @param {(document: Document, state: number) => boolean} there  what a stroke from here takes away
 * @param {(document: Document, state: number, on: boolean) => Document} set
 * @param {string} hint
 * @returns {Tool}
 */
function brush({ history }, what, there, set, hint) {
    let on = true;
    const apply = (/** @type {number} */ state) => history.edit(what, (document) => set(document, state, on), what);
    return {
        begin(state) {
            history.close();
            on = !there(history.document.get(), state);
            apply(state);
        },
        over: apply,
        end: () => history.close(),
        hint: `${hint} ${KEYS}`,
    };
}

/** @returns {Tool} */
function wallBrush(/** @type {Canvas} */ canvas) {
    const { place } = canvas.map;
    const cell = (/** @type {number} */ state) => /** @type {Cell} */ (place.get().name(state));
    return brush(
        canvas,
        "walls",
        (_, state) => !place.get().open(state),
        (document, state, on) => setWall(document, cell(state), on),
        "Drag to build walls; begin on a wall to take it away.",
    );
}

/** @returns {Tool} */
function markBrush(/** @type {Canvas} */ canvas, /** @type {string} */ mark) {
    const name = (/** @type {number} */ state) => canvas.map.place.get().name(state);
    const there = (/** @type {Document} */ document, /** @type {number} */ state) =>
        (painted(document.problem.events.get(mark)) ?? []).some((each) => String(each) === String(name(state)));
    return brush(
        canvas,
        `mark ${mark}`,
        there,
        (document, state, on) => setMark(document, mark, name(state), on),
        `Drag to mark places as ${mark}; begin on a marked one to take it away.`,
    );
}

/** @returns {Tool} */
function eraser(/** @type {Canvas} */ canvas) {
    const name = (/** @type {number} */ state) => canvas.map.place.get().name(state);
    return brush(
        canvas,
        "erase",
        () => false,
        (document, state) => {
            const clear = clearMarks(document, name(state));
            return document.problem.world.kind === "grid"
                ? setWall(clear, /** @type {Cell} */ (name(state)), false)
                : clear;
        },
        "Drag to take away walls and marks.",
    );
}

/** Puts the start or the goal somewhere else. @returns {Tool} */
function endTool(/** @type {Canvas} */ { history, map }, /** @type {"start" | "goal"} */ end) {
    const put = (/** @type {number} */ state, /** @type {boolean} */ further) =>
        history.edit(
            end,
            (document) => setEnd(document, end, /** @type {Cell} */ (map.place.get().name(state)), further),
            end,
        );
    return {
        begin(state, further) {
            history.close();
            put(state, further);
        },
        over: (state) => put(state, false),
        end: () => history.close(),
        hint: `Click a cell to make it the ${end}; with Shift, a further one. Keyboard: arrows move, Space sets it.`,
    };
}

/**
 * What is seen of a demonstration and a stroke together: between its last position and the first of the stroke are as
 * many positions that nobody saw as the fewest moves need; null where no moves lead there.
 *
 * @param {Place} place @param {Demonstration} one @param {{states: number[], actions: (string | number)[]}} stroke
 */
function continued(place, one, { states, actions }) {
    const end = one.states.findLastIndex((state) => state !== null);
    const [last, first = -1] = [one.states[end], states[0]];
    const steps = last === null || last === undefined ? [] : shortest(place, place.index(last), first, place.count);
    if (!steps) return null;
    const hidden = Math.max(steps.length - 1, one.states.length - 1 - end);
    const names = (steps.length || hidden ? states : states.slice(1)).map(place.name);
    const all = [...one.states.slice(0, end + 1), ...Array(hidden).fill(null), ...names];
    const taken = [...one.actions, ...steps.map((step) => step.action), ...actions];
    return { ...one, states: all, actions: all.includes(null) ? [] : taken };
}

/**
 * Draws a demonstration, snapped to legal moves: the pointer's way is followed by the fewest moves that exist. A stroke
 * may go on with a demonstration after a gap.
 *
 * @param {App} app
 */
function drawTool({ history, map, say, onto }) {
    const drawing = signal(/** @type {{states: number[], actions: (string | number)[]} | null} */ (null));
    const { place } = map;
    const whole = () => {
        const [now, before] = [drawing.get(), onto.get()];
        return now && before && continued(place.get(), before, now);
    };

    drawing.on((now) => {
        if (now) map.front.set({ states: whole()?.states ?? now.states.map((state) => place.get().name(state)) });
        else map.front.set(null);
    });
    history.document.on(({ demonstrations }) => {
        const before = onto.get();
        if (before && !demonstrations.includes(before)) onto.set(null);
    });

    function begin(/** @type {number} */ state, further = false) {
        const last = history.document.get().demonstrations.at(-1);
        if (further && !onto.get() && last) onto.set(last);
        if (!place.get().open(state)) return say("A wall: begin on a free cell.");
        drawing.set({ states: [state], actions: [] });
    }

    /** The stroke as a demonstration of its own. */
    function add(/** @type {Demonstration} */ demonstration) {
        history.edit("draw a demonstration", (document) => addDemonstrations(document, [demonstration]));
        say(`A demonstration of ${count(demonstration.actions.length, "move")}.`);
    }

    /** The stroke as what comes after a gap. */
    function goOn(/** @type {Demonstration} */ before) {
        const next = whole();
        drawing.set(null);
        if (!next) return say("No moves lead from its end to there.");
        const index = history.document.get().demonstrations.indexOf(before);
        history.edit("draw on", (document) => replaceDemonstration(document, index, next.states, next.actions));
        const now = history.document.get().demonstrations[index];
        const end = next.states.at(-1) ?? null;
        const arrived = end !== null && place.get().goals.has(place.get().index(end));
        onto.set(arrived || !now ? null : now);
        const hidden = next.states.filter((state) => state === null).length;
        const how = hidden ? `with ${count(hidden, "position")} that nobody saw` : "without a gap";
        say(`${capital(how)}.${arrived ? "" : " The next stroke goes on from here; Escape ends it."}`);
    }

    function follow(/** @type {number} */ target) {
        const now = drawing.get();
        const at = now?.states.at(-1);
        if (!now || at === undefined || at === target) return;
        if (now.states.at(-2) === target) return void back();
        extend(shortest(place.get(), at, target) ?? []);
    }

    function extend(/** @type {Step[]} */ steps) {
        const now = drawing.get();
        if (!now || !steps.length) return;
        drawing.set({
            states: [...now.states, ...steps.map((step) => step.target)],
            actions: [...now.actions, ...steps.map((step) => step.action)],
        });
    }

    function back() {
        const now = drawing.get();
        if (!now || now.states.length < 2) return drawing.set(null);
        drawing.set({ states: now.states.slice(0, -1), actions: now.actions.slice(0, -1) });
    }

    function finish() {
        const [now, before] = [drawing.get(), onto.get()];
        if (now && before) return goOn(before);
        drawing.set(null);
        if (now?.actions.length)
            add({ states: now.states.map((state) => place.get().name(state)), actions: now.actions, weight: 1 });
    }

    /** @type {Tool} */
    const tool = {
        begin,
        over: follow,
        end: finish,
        hint:
            "Drag from start to goal; dragging back takes moves back. With Shift, the last one goes on after a gap. " +
            "Keyboard: Space begins, arrows move, . stays, Backspace takes back, Enter ends.",
        key(key, state, further) {
            const now = drawing.get();
            if (!now) {
                if (key === "Escape" && onto.get()) onto.set(null);
                if (key !== " " && key !== "Enter") return false;
                if (further || onto.get()) {
                    begin(state, further);
                    say(`It goes on at ${place.get().label(state)}.`);
                    return true;
                }
                const stuck = !place.get().steps(state).length; // as on a goal, where the one before has ended
                const from = (stuck ? place.get().starts[0] : undefined) ?? state;
                map.cursor.set(from);
                begin(from);
                say(`A demonstration begins at ${place.get().label(from)}.`);
                return true;
            }
            if (key === "Enter" || key === " ") finish();
            else if (key === "Escape") drawing.set(null);
            else if (key === "Backspace") {
                back();
                map.cursor.set(drawing.get()?.states.at(-1) ?? state);
            } else if (key === ".") {
                const stay = place
                    .get()
                    .steps(state)
                    .find((step) => step.target === state);
                extend(stay ? [stay] : []);
            } else return false;
            return true;
        },
        walk(state, dx, dy) {
            if (!drawing.get()) return place.get().beside(state, dx, dy);
            const step = towards(place.get(), state, dx, dy);
            if (step) extend([step]);
            else say("There is no such move here.");
            return step?.target ?? -1;
        },
    };
    return { tool, drawing };
}

/** The legal move that leads most nearly in a direction, if one does: within 45 degrees. */
function towards(
    /** @type {Place} */ place,
    /** @type {number} */ state,
    /** @type {number} */ dx,
    /** @type {number} */ dy,
) {
    const from = place.point(place.name(state));
    const along = (/** @type {Step} */ step) => {
        const to = place.point(place.name(step.target));
        const [x, y] = [to.x - from.x, from.y - to.y];
        return step.target === state ? -1 : (x * dx + y * dy) / (Math.hypot(x, y) * Math.hypot(dx, dy));
    };
    const best = place
        .steps(state)
        .reduce((/** @type {Step | null} */ kept, step) => (kept && along(kept) >= along(step) ? kept : step), null);
    return best && along(best) > Math.SQRT1_2 + 1e-9 ? best : null;
}
