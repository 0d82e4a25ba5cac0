import { looks } from "../colours.js";
import { s } from "../dom.js";
import { badges, endSigns } from "./badges.js";
import { marksByState } from "./tiles.js";

/**
 * The states of a graph or a table with the moves between them, on their coordinates.
 *
 * @typedef {import("../types.js").Problem} Problem
 * @typedef {import("../types.js").Layout} Layout
 * @typedef {import("../world.js").Place} Place
 */

const RADIUS = 22;

export function makeNodes() {
    const edges = s("g", { class: "edges" });
    const nodes = s("g", { class: "nodes" });
    const ends = s("g", { class: "ends" });

    return {
        edges,
        nodes,
        ends,
        /** @param {Place} place @param {Problem} problem @param {Layout} layout */
        update(place, problem, layout) {
            const point = (/** @type {number} */ state) => place.point(place.name(state));
            edges.replaceChildren(
                ...lines(layout).map(([from, to]) => {
                    const [a, b] = [point(from), point(to)];
                    return s("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
                }),
            );
            const here = marksByState(place, problem, looks(problem));
            nodes.replaceChildren(
                ...layout.states.map((state, index) => {
                    const { x, y } = point(index);
                    const on = here.get(index) ?? [];
                    return s(
                        "g",
                        {},
                        s("circle", {
                            class: on[0] ? "node marked" : "node",
                            cx: x,
                            cy: y,
                            r: RADIUS,
                            fill: on[0]?.colour,
                        }),
                        badges(on, x - 15 * (on.length - 1), y - RADIUS - 16),
                        s("text", { class: "name", x, y: y + RADIUS + 26 }, state.name),
                    );
                }),
            );
            ends.replaceChildren(...endSigns(place, 34));
        },
        clear() {
            for (const part of [edges, nodes, ends]) part.replaceChildren();
        },
    };
}

/** Every pair of states with a move between them, once. @returns {[number, number][]} */
function lines(/** @type {Layout} */ layout) {
    /** @type {Map<string, [number, number]>} */
    const pairs = new Map();
    for (const [source, , target] of layout.edges)
        if (source !== target) pairs.set(`${Math.min(source, target)} ${Math.max(source, target)}`, [source, target]);
    return [...pairs.values()];
}
