import { s } from "../dom.js";
import { path } from "../map/layers.js";

/**
 * A curve per series over iterations, with the last value beside it.
 *
 * @typedef {{label: string, values: {x: number, y: number}[]}} Series
 */

const FEW = 40; // values up to which each has a dot
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 180, 52, 96, 12, 30];

/** @param {SVGSVGElement} svg @param {Series[]} series */
export function drawCurves(svg, series) {
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    const all = series.flatMap((each) => each.values).filter(({ y }) => Number.isFinite(y));
    if (!all.length) return svg.replaceChildren();
    const [x0, x1] = [Math.min(...all.map(({ x }) => x)), Math.max(...all.map(({ x }) => x))];
    const low = Math.min(...all.map(({ y }) => y));
    const high = Math.max(...all.map(({ y }) => y), low + 1e-6);
    const digits = Math.max(2, Math.ceil(1 - Math.log10(high - low))); // the two ticks differ
    const x = (/** @type {number} */ value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (WIDTH - LEFT - RIGHT);
    const y = (/** @type {number} */ value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    /** @type {SVGElement[]} */
    const parts = [
        s("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
        s("text", { class: "tick end", x: LEFT - 8, y: y(high) + 5 }, high.toFixed(digits)),
        s("text", { class: "tick end", x: LEFT - 8, y: y(low) + 5 }, low.toFixed(digits)),
        s("text", { class: "tick", x: LEFT, y: HEIGHT - 8 }, String(x0)),
        s("text", { class: "tick end", x: WIDTH - RIGHT, y: HEIGHT - 8 }, `${x1} iterations`),
    ];
    let lowest = -Infinity; // of the labels: each below the one before
    const ordered = series
        .map((each, index) => ({ ...each, index, last: each.values.at(-1) }))
        .filter((each) => each.last)
        .sort((a, b) => y(a.last?.y ?? 0) - y(b.last?.y ?? 0));
    for (const { label, values, index, last } of ordered) {
        if (!last) continue;
        const at = Math.max(y(last.y) + 5, lowest + 16);
        lowest = at;
        parts.push(
            s("path", {
                class: `curve tone-${index}`,
                d: path(values.map((each) => ({ x: x(each.x), y: y(each.y) }))),
            }),
            ...(values.length > FEW ? [last] : values).map((each) =>
                s("circle", { class: `dot tone-${index}`, cx: x(each.x), cy: y(each.y), r: each === last ? 4 : 2.5 }),
            ),
            s("text", { class: `tick label tone-${index}`, x: WIDTH - RIGHT + 10, y: at }, label),
        );
    }
    svg.replaceChildren(...parts);
}
