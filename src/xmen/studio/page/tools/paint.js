import { clearMarks, painted, setEnd, setMark, setWall } from "../edits.js";

/**
 * Brushes. The first cell of a stroke decides whether it paints or takes away; a stroke is one step of undo.
 *
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Cell} Cell
 * @typedef {import("../map/hand.js").Tool} Tool
 * @typedef {{history: import("../history.js").History, map: import("../map/view.js").MapView}} Canvas
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
export function wallBrush(/** @type {Canvas} */ canvas) {
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
export function markBrush(/** @type {Canvas} */ canvas, /** @type {string} */ mark) {
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
export function eraser(/** @type {Canvas} */ canvas) {
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
export function endTool(/** @type {Canvas} */ { history, map }, /** @type {"start" | "goal"} */ end) {
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
