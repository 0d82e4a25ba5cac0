import { has, same, withFeatures, withPart, withProblem } from "./problem.js";

/**
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Mark} Mark
 * @typedef {import("../types.js").StateName} StateName
 */

/** The states that a mark is painted on, or null where it is not painted: moves, or a text. @returns {StateName[] | null} */
export function painted(/** @type {Mark | undefined} */ mark) {
    if (typeof mark !== "object") return null;
    return "cells" in mark ? mark.cells : "nodes" in mark ? mark.nodes : null;
}

/** @param {Document} document @param {string} name @param {StateName} state @param {boolean} on @returns {Document} */
export function setMark(document, name, state, on) {
    const mark = document.problem.events.get(name);
    const states = painted(mark);
    if (!states || has(states, state) === on) return document;
    const { world } = document.problem;
    if (on && world.kind === "grid" && has(world.walls ?? [], state)) return document;
    const next = on ? [...states, state] : states.filter((other) => !same(other, state));
    const key = world.kind === "grid" ? "cells" : "nodes";
    return defineMark(document, name, /** @type {Mark} */ ({ [key]: next }));
}

/** @param {Document} document @param {StateName} state @returns {Document} */
export function clearMarks(document, state) {
    return [...document.problem.events.keys()].reduce((next, name) => setMark(next, name, state, false), document);
}

/** @param {Document} document @param {string} name @param {Mark} mark @returns {Document} */
export function defineMark(document, name, mark) {
    return withProblem(document, { events: new Map(document.problem.events).set(name, mark) });
}

/** @param {Document} document @param {string} name @param {string} colour @returns {Document} */
export function colourMark(document, name, colour) {
    return withPart(document, "studio", { colours: new Map(document.problem.studio?.colours).set(name, colour) });
}

/**
 * A mark goes with its colour, as a feature and from costs; rules and texts that use it stay, and are mistakes.
 *
 * @param {Document} document @param {string} name @returns {Document}
 */
export const removeMark = (document, name) => called(document, (each) => (each === name ? null : each));

/**
 * Another name for a mark, wherever it is used.
 *
 * @param {Document} document @param {string} old @param {string} name @returns {Document}
 */
export function renameMark(document, old, name) {
    if (old === name || !/^[A-Za-z_]\w*$/.test(name) || document.problem.events.has(name)) return document;
    const word = (/** @type {string} */ each) => (each === old ? name : each);
    const text = (/** @type {string} */ words) => words.replace(/\b[A-Za-z_]\w*/g, word);
    const next = called(document, word);
    const events = new Map(next.problem.events);
    for (const [key, mark] of events) if (typeof mark === "string") events.set(key, text(mark));
    const constraints = (next.problem.constraints ?? []).map((rule) => ({ ...rule, rule: text(rule.rule) }));
    return withProblem(next, { events, constraints });
}

/** Marks by other names, or (null) without them: among features, colours and costs, too. @returns {Document} */
function called(/** @type {Document} */ document, /** @type {(name: string) => string | null} */ word) {
    /** @template T @param {Iterable<[string, T]>} table @returns {[string, T][]} */
    const named = (table) => [...table].flatMap(([key, value]) => names([key]).map((name) => [name, value]));
    const names = (/** @type {string[]} */ all) => all.map(word).filter((name) => name !== null);
    const { events, costs, reward, studio } = document.problem;
    let next = withProblem(document, { events: new Map(named(events)) });
    if (studio?.colours) next = withPart(next, "studio", { colours: new Map(named(studio.colours)) });
    if (costs) {
        const about = (/** @type {unknown} */ cost) =>
            cost instanceof Object && !Array.isArray(cost) ? Object.fromEntries(named(Object.entries(cost))) : cost;
        const all = Object.entries(costs).map(([name, cost]) => [name, about(cost)]);
        next = withProblem(next, { costs: Object.fromEntries(all) });
    }
    if (!reward?.features) return next;
    const features = names(reward.features);
    return features.length < reward.features.length
        ? withFeatures(next, features)
        : withProblem(next, { reward: { ...reward, features } });
}
