import { signal } from "../signal.js";
import { shortest } from "../world.js";

/**
 * Draws a demonstration, snapped to legal moves: the pointer's way is followed by the fewest moves that exist.
 *
 * @typedef {import("../types.js").Demonstration} Demonstration
 * @typedef {import("../map/hand.js").Tool} Tool
 * @typedef {import("../world.js").Step} Step
 * @typedef {import("../world.js").Place} Place
 */

/**
 * @param {import("../map/view.js").MapView} map
 * @param {(demonstration: Demonstration) => void} add
 * @param {(message: string) => void} say
 */
export function drawTool(map, add, say) {
    const drawing = signal(/** @type {{states: number[], actions: (string | number)[]} | null} */ (null));
    const { place } = map;

    drawing.on((now) => {
        if (now) map.front.set({ states: now.states.map((state) => place.get().name(state)) });
        else map.front.set(null);
    });

    function begin(/** @type {number} */ state) {
        if (!place.get().open(state)) return say("A wall: begin on a free cell.");
        drawing.set({ states: [state], actions: [] });
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
        const now = drawing.get();
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
            "Drag from start to goal; dragging back takes moves back. Keyboard: Space begins, arrows move " +
            "(Home, End, Page Up and Down slantwise), . stays, Backspace takes back, Enter ends.",
        key(key, state) {
            const now = drawing.get();
            if (!now) {
                if (key !== " " && key !== "Enter") return false;
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
