/**
 * Where the states of a world lie on the map, and which moves lead from one to the other. Everything that draws or is
 * drawn on the map knows a world only as this.
 *
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Layout} Layout
 * @typedef {import("./types.js").Problem} Problem
 * @typedef {import("./types.js").StateName} StateName
 * @typedef {import("./types.js").World} World
 *
 * @typedef {{action: string | number, target: number}} Step
 *
 * @typedef {object} Place
 * @property {"grid" | "graph"} kind
 * @property {number} count  of states, walls included
 * @property {number} width  of the map, in its own units
 * @property {number} height
 * @property {number} reach  half the size of a state on the map
 * @property {number} scale  how much larger than a state's own size things must be drawn to be seen on a large map
 * @property {number[]} starts
 * @property {Set<number>} goals
 * @property {(state: number) => boolean} open  no wall
 * @property {(state: number) => StateName} name  as documents write it
 * @property {(name: StateName) => number} index  -1 where the world has no such state
 * @property {(state: number) => string} label  as people read it
 * @property {(name: StateName) => {x: number, y: number}} point
 * @property {(x: number, y: number) => number} under  the state at a point of the map, or -1
 * @property {(state: number) => Step[]} steps  legal moves; none from a goal
 * @property {(state: number, dx: number, dy: number) => number} beside  for arrow keys; -1 at the edge
 */

export const CELL = 100; // side of a grid's cell in units of the map

/**
 * The fewest legal moves from one state to another, or null.
 *
 * @param {Place} place
 * @param {number} from
 * @param {number} to
 * @param {number} [most]  moves
 * @returns {Step[] | null}
 */
export function shortest(place, from, to, most = 64) {
    /** @type {Map<number, {step: Step, before: number} | null>} */
    const seen = new Map([[from, null]]);
    let frontier = [from];
    for (let moves = 0; frontier.length && !seen.has(to) && moves < most; moves += 1) {
        /** @type {number[]} */
        const next = [];
        for (const state of frontier)
            for (const step of place.steps(state))
                if (!seen.has(step.target)) {
                    seen.set(step.target, { step, before: state });
                    next.push(step.target);
                }
        frontier = next;
    }
    if (!seen.has(to)) return null;
    /** @type {Step[]} */
    const steps = [];
    for (let at = seen.get(to); at; at = seen.get(at.before)) steps.unshift(at.step);
    return steps;
}

/** Where each move leads, x to the right and y up. @type {Map<string, [number, number]>} */
const MOVES = new Map([
    ["up", [0, 1]],
    ["right", [1, 0]],
    ["down", [0, -1]],
    ["left", [-1, 0]],
    ["up-right", [1, 1]],
    ["up-left", [-1, 1]],
    ["down-right", [1, -1]],
    ["down-left", [-1, -1]],
    ["stay", [0, 0]],
]);

/** A cell, or a list of cells, or nothing: as a list. @returns {Cell[]} */
export function cellList(/** @type {Cell | Cell[] | null | undefined} */ value) {
    if (!value) return [];
    return typeof value[0] === "number" ? [/** @type {Cell} */ (value)] : /** @type {Cell[]} */ (value);
}

/** Where a grid's states lie: state x + width * y at the cell (x, y). @returns {Place} */
export function gridPlace(/** @type {World} */ world) {
    const { width = 1, height = 1, moves = [] } = world;
    /** @param {Cell} cell */
    const number = ([x, y]) => (x >= 0 && y >= 0 && x < width && y < height ? x + width * y : -1);
    const walls = new Set((world.walls ?? []).map(number));
    const goals = new Set(cellList(world.goal).map(number));
    /** @param {number} state @returns {Cell} */
    const cell = (state) => [state % width, Math.floor(state / width)];

    return {
        kind: "grid",
        count: width * height,
        width: width * CELL,
        height: height * CELL,
        reach: CELL / 2,
        scale: Math.max(1, Math.max(width, height) / 16),
        starts: cellList(world.start)
            .map(number)
            .filter((state) => state >= 0),
        goals,
        open: (state) => !walls.has(state),
        name: cell,
        index: (name) => (Array.isArray(name) ? number(name) : -1),
        label: (state) => `(${cell(state).join(", ")})`,
        point(name) {
            const [x, y] = Array.isArray(name) ? name : [0, 0];
            return { x: (x + 0.5) * CELL, y: (height - y - 0.5) * CELL };
        },
        under(x, y) {
            return number([Math.floor(x / CELL), height - 1 - Math.floor(y / CELL)]);
        },
        steps(state) {
            if (goals.has(state)) return [];
            const [x, y] = cell(state);
            /** @type {Step[]} */
            const steps = [];
            for (const action of moves) {
                const [dx, dy] = MOVES.get(action) ?? [0, 0];
                const target = number([x + dx, y + dy]);
                if (target >= 0 && !walls.has(target)) steps.push({ action, target });
                else if (world.bump) steps.push({ action, target: state });
            }
            return steps;
        },
        beside(state, dx, dy) {
            const [x, y] = cell(state);
            return number([x + dx, y + dy]);
        },
    };
}

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
    /** @param {import("./types.js").StateName} name */
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
