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
    const mark = document.problem.events?.[name];
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
    return Object.keys(document.problem.events ?? {}).reduce(
        (next, name) => setMark(next, name, state, false),
        document,
    );
}

/** @param {Document} document @param {string} name @param {Mark} mark @returns {Document} */
export function defineMark(document, name, mark) {
    return withProblem(document, { events: { ...document.problem.events, [name]: mark } });
}

/** @param {Document} document @param {string} name @param {string} colour @returns {Document} */
export function colourMark(document, name, colour) {
    return withPart(document, "studio", { colours: { ...document.problem.studio?.colours, [name]: colour } });
}

/** @param {Document} document @param {string} name @returns {Document} */
export function removeMark(document, name) {
    const { [name]: _mark, ...events } = document.problem.events ?? {};
    const { [name]: _colour, ...colours } = document.problem.studio?.colours ?? {};
    return withPart(withProblem(document, { events }), "studio", { colours });
}

/**
 * Another name for a mark, in every rule, text and feature that uses it.
 *
 * @param {Document} document @param {string} old @param {string} name @returns {Document}
 */
export function renameMark(document, old, name) {
    if (old === name || !/^[A-Za-z_]\w*$/.test(name) || name in (document.problem.events ?? {})) return document;
    const word = new RegExp(`\\b${old}\\b`, "g");
    const { events = {}, constraints = [], reward, studio } = document.problem;
    /** @type {Record<string, Mark>} */
    const renamed = {};
    for (const [key, mark] of Object.entries(events))
        renamed[key === old ? name : key] = typeof mark === "string" ? mark.replace(word, name) : mark;
    const next = withProblem(document, {
        events: renamed,
        constraints: constraints.map((rule) => ({ ...rule, rule: rule.rule.replace(word, name) })),
        ...(reward?.features && {
            reward: { ...reward, features: reward.features.map((each) => (each === old ? name : each)) },
        }),
    });
    const { [old]: colour, ...others } = studio?.colours ?? {};
    return colour ? withPart(next, "studio", { colours: { ...others, [name]: colour } }) : next;
}
