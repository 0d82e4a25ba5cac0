import { cellList } from "../world/grid.js";
import { clearMarks } from "./marks.js";
import { has, same, withPart, withProblem } from "./problem.js";

/**
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Cell} Cell
 */

/**
 * A wall, or none. Marks under a new wall go; start and goal stay free.
 *
 * @param {Document} document @param {Cell} cell @param {boolean} on @returns {Document}
 */
export function setWall(document, cell, on) {
    const { world } = document.problem;
    const walls = world.walls ?? [];
    if (has(walls, cell) === on) return document;
    if (!on) return withPart(document, "world", { walls: walls.filter((other) => !same(other, cell)) });
    if (has([...cellList(world.start), ...cellList(world.goal)], cell)) return document;
    return withPart(clearMarks(document, cell), "world", { walls: [...walls, cell] });
}

/**
 * The start or the goal: this cell alone, or (`further`) this cell too, or no longer.
 *
 * @param {Document} document @param {"start" | "goal"} end @param {Cell} cell @param {boolean} further @returns {Document}
 */
export function setEnd(document, end, cell, further) {
    const { world } = document.problem;
    if (has(world.walls ?? [], cell)) return document;
    const old = cellList(world[end]);
    if (!further && old.length === 1 && has(old, cell)) return document;
    const next = !further ? [cell] : has(old, cell) ? old.filter((other) => !same(other, cell)) : [...old, cell];
    if (end === "start" && !next.length) return document;
    return withPart(document, "world", { [end]: next.length > 1 ? next : (next[0] ?? null) });
}

/** Another size: what lies outside of it goes, start and goal move to its edge. */
export function resize(/** @type {Document} */ document, /** @type {number} */ width, /** @type {number} */ height) {
    const { world, events } = document.problem;
    const inside = (/** @type {Cell} */ [x, y]) => x < width && y < height;
    const moved = (/** @type {Cell} */ [x, y]) =>
        /** @type {Cell} */ ([Math.min(x, width - 1), Math.min(y, height - 1)]);
    const ends = (/** @type {Cell | Cell[] | null | undefined} */ value) => {
        const cells = cellList(value)
            .map(moved)
            .filter((cell, index, all) => all.findIndex((other) => same(other, cell)) === index);
        return cells.length > 1 ? cells : (cells[0] ?? null);
    };
    const [start, goal] = [ends(world.start) ?? /** @type {Cell} */ ([0, 0]), ends(world.goal)];
    const kept = [...cellList(start), ...cellList(goal)];
    const walls = (world.walls ?? []).filter((cell) => inside(cell) && !has(kept, cell));
    const marks = new Map(events);
    for (const [name, mark] of events)
        if (typeof mark === "object" && "cells" in mark) marks.set(name, { cells: mark.cells.filter(inside) });
    return withPart(withProblem(document, { events: marks }), "world", { width, height, start, goal, walls });
}
