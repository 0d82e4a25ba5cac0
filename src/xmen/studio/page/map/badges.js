import { s } from "../dom.js";

/** @typedef {import("../colours.js").Look} Look */

const RADIUS = 13;

/** The letters of marks in a row, beginning at a point. @returns {SVGGElement} */
export function badges(/** @type {Look[]} */ marks, /** @type {number} */ x, /** @type {number} */ y) {
    const group = s("g", { class: "badges" });
    marks.forEach((look, index) => {
        const at = x + index * (2 * RADIUS + 3);
        group.append(
            s("circle", { cx: at, cy: y, r: RADIUS, fill: look.colour }),
            s("text", { x: at, y: y + 5.5, fill: look.ink }, look.letters),
        );
    });
    return group;
}

const SIGNS = {
    start: "M -0.18 -0.28 L 0.3 0 L -0.18 0.28 Z",
    goal: "M -0.16 0.34 L -0.16 -0.34 L 0.32 -0.14 L -0.16 0.06",
};

/** Where trajectories begin, and where they end: a flag. @returns {SVGGElement[]} */
export function endSigns(/** @type {import("../world.js").Place} */ place, /** @type {number} */ size) {
    const sign = (/** @type {"start" | "goal"} */ end) => (/** @type {number} */ state) => {
        const { x, y } = place.point(place.name(state));
        const transform = `translate(${x} ${y}) scale(${size})`;
        return s("g", { class: end, transform }, s("circle", { r: 0.52 }), s("path", { d: SIGNS[end] }));
    };
    return [...place.starts.map(sign("start")), ...[...place.goals].filter((state) => state >= 0).map(sign("goal"))];
}
