import { h, s } from "../dom.js";

/**
 * Learned weights as a table with bars and whiskers of one standard error to each side.
 *
 * @typedef {{feature: string, weight: number, error: number | null}} Weight
 */

const [WIDTH, HEIGHT] = [160, 18];
const MOST = 12; // rows; per-state learning has a map instead

/** @param {Weight[]} weights @param {number} scale  the largest reach of any bar beside it */
export function weightTable(weights, scale) {
    const shown = [...weights].sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, MOST);
    const kept = weights.length > MOST ? shown : weights;
    const rows = kept.map(({ feature, weight, error }) =>
        h(
            "tr",
            {},
            h("th", { scope: "row", title: feature }, feature),
            h("td", { class: "bar" }, bar(weight, error, scale)),
            h(
                "td",
                { class: "number" },
                weight.toFixed(2),
                error === null ? "" : h("span", { class: "error" }, ` ± ${error.toFixed(2)}`),
            ),
        ),
    );
    return h(
        "table",
        { class: "weights" },
        h("caption", {}, weights.length > MOST ? `The ${MOST} largest of ${weights.length} weights` : "Weights"),
        h("tbody", {}, ...rows),
    );
}

/** How far a bar with its whisker reaches. */
export function reach(/** @type {Weight[]} */ weights) {
    return Math.max(1e-9, ...weights.map(({ weight, error }) => Math.abs(weight) + (error ?? 0)));
}

function bar(/** @type {number} */ weight, /** @type {number | null} */ error, /** @type {number} */ scale) {
    const middle = WIDTH / 2;
    const long = (/** @type {number} */ value) => (value / scale) * (middle - 3);
    const svg = s(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
        s("rect", {
            class: weight < 0 ? "minus" : "plus",
            x: middle + Math.min(0, long(weight)),
            y: 4,
            width: Math.abs(long(weight)),
            height: HEIGHT - 8,
        }),
        s("line", { class: "axis", x1: middle, x2: middle, y1: 0, y2: HEIGHT }),
    );
    if (error) {
        const [from, to] = [middle + long(weight - error), middle + long(weight + error)];
        svg.append(
            s("path", { class: "whisker", d: `M ${from} 9 L ${to} 9 M ${from} 5 L ${from} 13 M ${to} 5 L ${to} 13` }),
        );
    }
    return svg;
}
