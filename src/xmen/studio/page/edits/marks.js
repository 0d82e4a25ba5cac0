import { has, same, withPart, withProblem } from "./problem.js";

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

/** @param {Document} document @param {string} name @returns {Document} */
export function removeMark(document, name) {
    const [events, colours] = [new Map(document.problem.events), new Map(document.problem.studio?.colours)];
    events.delete(name);
    const next = withProblem(document, { events });
    return colours.delete(name) ? withPart(next, "studio", { colours }) : next;
}

/**
 * Another name for a mark, in every rule, text and feature that uses it.
 *
 * @param {Document} document @param {string} old @param {string} name @returns {Document}
 */
export function renameMark(document, old, name) {
    if (old === name || !/^[A-Za-z_]\w*$/.test(name) || document.problem.events.has(name)) return document;
    const { events, constraints = [], reward, studio } = document.problem;
    const word = (/** @type {string} */ each) => (each === old ? name : each);
    const text = (/** @type {string} */ words) => words.replace(/\b[A-Za-z_]\w*/g, word);
    const renamed = [...events].map(([key, mark]) => [word(key), typeof mark === "string" ? text(mark) : mark]);
    const next = withProblem(document, {
        events: new Map(/** @type {[string, Mark][]} */ (renamed)),
        constraints: constraints.map((rule) => ({ ...rule, rule: text(rule.rule) })),
        ...(reward?.features && { reward: { ...reward, features: reward.features.map(word) } }),
    });
    const colours = [...(studio?.colours ?? [])].map(([key, colour]) => /** @type {const} */ ([word(key), colour]));
    return colours.length ? withPart(next, "studio", { colours: new Map(colours) }) : next;
}
