import { h, s } from "./dom.js";
import { drawHeat, path, spot } from "./map/layers.js";

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

/**
 * Learned weights as a table with bars and whiskers of one standard error to each side.
 *
 * @typedef {{feature: string, weight: number, error: number | null}} Weight
 */

const [LONG, HIGH] = [240, 14]; // of a bar, which is as wide as its card
const MOST = 12; // rows; per-state learning has a map instead

/** @param {Weight[]} weights @param {number} scale  the largest reach of any bar beside it */
export function weightTable(weights, scale) {
    const shown = [...weights].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, MOST);
    const kept = weights.length > MOST ? shown : weights;
    const rows = kept.flatMap(({ feature, weight, error }) => [
        h(
            "tr",
            {},
            h("th", { scope: "row", title: feature }, feature),
            h(
                "td",
                { class: "number" },
                weight.toFixed(2),
                error === null ? "" : h("span", { class: "error" }, ` ± ${error.toFixed(2)}`),
            ),
        ),
        h("tr", { "aria-hidden": "true" }, h("td", { class: "bar", colspan: 2 }, bar(weight, error, scale))),
    ]);
    return h(
        "table",
        { class: "weights" },
        h(
            "caption",
            {},
            weights.length > MOST ? `The ${MOST} largest of ${weights.length} weights` : "Weights",
            `: what attracts to the right, what repels to the left, up to ${scale.toFixed(2)}`,
            weights.some(({ error }) => error) ? "; whiskers are one standard error." : ".",
        ),
        h("tbody", {}, ...rows),
    );
}

/** How far a bar with its whisker reaches. */
export function reach(/** @type {Weight[]} */ weights) {
    return Math.max(1e-9, ...weights.map(({ weight, error }) => Math.abs(weight) + (error ?? 0)));
}

function bar(/** @type {number} */ weight, /** @type {number | null} */ error, /** @type {number} */ scale) {
    const middle = LONG / 2;
    const long = (/** @type {number} */ value) => (value / scale) * (middle - 3);
    const svg = s(
        "svg",
        { viewBox: `0 0 ${LONG} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", {
            class: weight < 0 ? "minus" : "plus",
            x: middle + Math.min(0, long(weight)),
            y: 2,
            width: Math.abs(long(weight)),
            height: HIGH - 4,
        }),
        s("line", { class: "axis", x1: middle, x2: middle, y1: 0, y2: HIGH }),
    );
    if (error) {
        const [from, to] = [middle + long(weight - error), middle + long(weight + error)];
        svg.append(
            s("path", { class: "whisker", d: `M ${from} 7 L ${to} 7 M ${from} 3 L ${from} 11 M ${to} 3 L ${to} 11` }),
        );
    }
    return svg;
}

/**
 * A small map that only shows a number per state.
 *
 * @param {import("./world.js").Place} place
 * @param {import("./map/layers.js").Heat} heat
 */
export function minimap(place, heat) {
    const svg = s("svg", {
        class: "minimap",
        viewBox: `-2 -2 ${place.width + 4} ${place.height + 4}`,
        role: "img",
        "aria-label": heat.title,
    });
    const ground = s("g");
    for (let state = 0; state < place.count; state += 1) {
        if (place.kind === "grid" && place.open(state)) continue;
        ground.append(spot(place, state, { class: place.kind === "grid" ? "wall" : "node" }));
    }
    const spots = s("g", { class: "heat" });
    drawHeat(spots, place, heat);
    svg.append(s("rect", { class: "paper", width: place.width, height: place.height }), ground, spots);
    return svg;
}
