/**
 * Where the states of a world lie on the map, and which moves lead from one to the other. Everything that draws or is
 * drawn on the map knows a world only as this.
 *
 * @typedef {import("../types.js").StateName} StateName
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
