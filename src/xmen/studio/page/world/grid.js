import { CELL } from "./place.js";

/**
 * @typedef {import("../types.js").Cell} Cell
 * @typedef {import("../types.js").World} World
 * @typedef {import("./place.js").Place} Place
 * @typedef {import("./place.js").Step} Step
 */

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
