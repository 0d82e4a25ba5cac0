import { oncePerFrame } from "../state.js";

/**
 * Pointer and keyboard on the map, told to the chosen tool as strokes over states.
 *
 * @typedef {object} Tool
 * @property {(state: number, further: boolean) => void} begin  `further`: with Shift
 * @property {(state: number) => void} over  the stroke reaches this state
 * @property {() => void} end
 * @property {(key: string, state: number, further: boolean) => boolean} [key]  a key that the tool takes for itself
 * @property {(state: number, dx: number, dy: number) => number} [walk]  where an arrow key leads, if not to the cell beside
 * @property {string} hint
 */

/** Directions of keys, x to the right and y up; the corners as on a number pad. @type {Record<string, [number, number]>} */
const KEYS = {
    ArrowUp: [0, 1],
    ArrowDown: [0, -1],
    ArrowLeft: [-1, 0],
    ArrowRight: [1, 0],
    Home: [-1, 1],
    PageUp: [1, 1],
    End: [-1, -1],
    PageDown: [1, -1],
};

/**
 * @param {import("./view.js").MapView} map
 * @param {() => Tool} tool
 * @param {(state: number) => void} describe  says what is at the state that the keyboard or the pointer reached
 */
export function useHand(map, tool, describe) {
    const { svg, cursor, place } = map;
    let down = false;
    let last = -1;
    /** @type {number[]} */
    let waiting = [];

    const work = oncePerFrame(() => {
        const reached = waiting;
        waiting = [];
        for (const state of reached) tool().over(state);
    });

    svg.addEventListener("pointerdown", (event) => {
        const state = map.under(event);
        if (event.button !== 0 || state < 0) return;
        event.preventDefault();
        svg.focus({ preventScroll: true });
        svg.setPointerCapture(event.pointerId);
        down = true;
        last = state;
        cursor.set(state);
        tool().begin(state, event.shiftKey);
    });
    svg.addEventListener("pointermove", (event) => {
        const state = map.under(event);
        if (state < 0 || state === last) return;
        if (down) waiting.push(...between(place.get(), last, state));
        last = state;
        describe(state);
        if (down) {
            cursor.set(state);
            work();
        }
    });
    for (const name of ["pointerup", "pointercancel"])
        svg.addEventListener(name, () => {
            if (!down) return;
            down = false;
            for (const state of waiting.splice(0)) tool().over(state);
            tool().end();
        });

    svg.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const at = cursor.get();
        if (tool().key?.(event.key, at, event.shiftKey)) {
            event.preventDefault();
            return;
        }
        const direction = KEYS[event.key];
        if (direction) {
            const next = tool().walk?.(at, ...direction) ?? place.get().beside(at, ...direction);
            if (next >= 0) {
                if (event.shiftKey && !tool().walk) stroke(at, next);
                cursor.set(next);
                describe(next);
            }
        } else if (event.key === " " || event.key === "Enter") {
            tool().begin(at, event.shiftKey);
            tool().end();
            describe(at);
        } else return;
        event.preventDefault();
    });
    svg.addEventListener("focus", () => describe(cursor.get()));

    /** Shift with an arrow key paints on the way. */
    function stroke(/** @type {number} */ from, /** @type {number} */ to) {
        tool().begin(from, false);
        tool().over(to);
        tool().end();
    }
}

/** The states on the straight line that a fast pointer jumped over. @returns {number[]} */
function between(
    /** @type {import("../world.js").Place} */ place,
    /** @type {number} */ from,
    /** @type {number} */ to,
) {
    const [a, b] = [place.point(place.name(from)), place.point(place.name(to))];
    const pieces = Math.max(1, Math.ceil(Math.hypot(b.x - a.x, b.y - a.y) / place.reach));
    /** @type {number[]} */
    const states = [];
    for (let piece = 1; piece <= pieces; piece += 1) {
        const share = piece / pieces;
        const state = place.under(a.x + share * (b.x - a.x), a.y + share * (b.y - a.y));
        if (state >= 0 && state !== (states.at(-1) ?? from)) states.push(state);
    }
    return states;
}
