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

/** Where a trajectory begins. */
export function startSign(/** @type {{x: number, y: number}} */ { x, y }, /** @type {number} */ size) {
    return s(
        "g",
        { class: "start", transform: `translate(${x} ${y}) scale(${size})` },
        s("circle", { r: 0.52 }),
        s("path", { d: "M -0.18 -0.28 L 0.3 0 L -0.18 0.28 Z" }),
    );
}

/** Where it ends: a flag. */
export function goalSign(/** @type {{x: number, y: number}} */ { x, y }, /** @type {number} */ size) {
    return s(
        "g",
        { class: "goal", transform: `translate(${x} ${y}) scale(${size})` },
        s("circle", { r: 0.52 }),
        s("path", { d: "M -0.16 0.34 L -0.16 -0.34 L 0.32 -0.14 L -0.16 0.06" }),
    );
}
