/**
 * @typedef {import("../types.js").Layout} Layout
 * @typedef {import("../types.js").Problem} Problem
 * @typedef {import("./place.js").Place} Place
 * @typedef {import("./place.js").Step} Step
 */

const SIZE = 1000; // of the map; the layout's coordinates are between 0 and 1
const EDGE = 70; // free around the outermost states
const REACH = 45; // how near to a state a pointer has to be

/**
 * Where the states of a graph or a table lie: on the coordinates of its layout.
 *
 * @param {Problem} problem
 * @param {Layout} layout
 * @returns {Place}
 */
export function graphPlace(problem, layout) {
    const byName = problem.world.kind === "graphml";
    const numbers = new Map(layout.states.map((state, index) => [state.name, index]));
    const points = layout.states.map(({ x, y }) => ({
        x: EDGE + x * (SIZE - 2 * EDGE),
        y: EDGE + (1 - y) * (SIZE - 2 * EDGE),
    }));
    /** @type {Step[][]} */
    const steps = layout.states.map(() => []);
    for (const [source, action, target] of layout.edges) steps[source]?.push({ action, target });

    const { source, target } = problem.world;
    const goals = new Set(byName && target !== undefined ? [numbers.get(target) ?? -1] : layout.goal);
    const starts = byName && source !== undefined ? [numbers.get(source) ?? -1] : layout.start;
    /** @param {import("../types.js").StateName} name */
    const index = (name) => (typeof name === "number" ? name : (numbers.get(String(name)) ?? -1));

    return {
        kind: "graph",
        count: points.length,
        width: SIZE,
        height: SIZE,
        reach: REACH,
        scale: 1,
        starts: starts.filter((state) => state >= 0),
        goals,
        open: () => true,
        name: (state) => (byName ? (layout.states[state]?.name ?? "") : state),
        index,
        label: (state) => layout.states[state]?.name ?? String(state),
        point: (name) => points[index(name)] ?? { x: 0, y: 0 },
        under(x, y) {
            const gaps = points.map((point) => Math.hypot(point.x - x, point.y - y));
            const nearest = gaps.indexOf(Math.min(...gaps));
            return (gaps[nearest] ?? Infinity) <= REACH ? nearest : -1;
        },
        steps: (state) => (goals.has(state) ? [] : (steps[state] ?? [])),
        /** The nearest state in a cone of 90 degrees around the direction. */
        beside(state, dx, dy) {
            const from = points[state];
            if (!from) return -1;
            let best = -1;
            let least = Infinity;
            points.forEach((point, other) => {
                const [x, y] = [point.x - from.x, from.y - point.y];
                const gap = Math.hypot(x, y);
                const along = (x * dx + y * dy) / (gap * Math.hypot(dx, dy));
                if (other !== state && along > Math.SQRT1_2 && gap / along < least) {
                    least = gap / along;
                    best = other;
                }
            });
            return best;
        },
    };
}
