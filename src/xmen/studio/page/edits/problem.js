/**
 * Changes of a document, in this folder: each is a function from the old one to a new one that shares what stayed the
 * same. A change that changes nothing gives the old document back.
 *
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Problem} Problem
 * @typedef {import("../types.js").StateName} StateName
 */

/** What the server sent, as a document. @returns {Document} */
export function documentOf(/** @type {import("../types.js").ServerDocument} */ { problem, demonstrations }) {
    const { events = {}, studio } = problem;
    const colours = studio?.colours && { studio: { ...studio, colours: new Map(Object.entries(studio.colours)) } };
    return { problem: { ...problem, events: new Map(Object.entries(events)), ...colours }, demonstrations };
}

/** @param {Document} document @param {Partial<Problem>} part @returns {Document} */
export const withProblem = (document, part) => ({ ...document, problem: { ...document.problem, ...part } });

/**
 * @template {"world" | "settings" | "studio"} Part
 * @param {Document} document @param {Part} part @param {Partial<Problem[Part]>} change @returns {Document}
 */
export const withPart = (document, part, change) =>
    withProblem(document, { [part]: { ...document.problem[part], ...change } });

/** Weights belong to the features they were learned for: they go when the features do. */
export function withFeatures(/** @type {Document} */ document, /** @type {string[]} */ features) {
    const { weights: _, ...reward } = document.problem.reward ?? {};
    return withProblem(document, { reward: { ...reward, features } });
}

/** Two states of a document are the same where they are written the same. */
export const same = (/** @type {StateName} */ a, /** @type {StateName} */ b) => String(a) === String(b);
export const has = (/** @type {readonly StateName[]} */ all, /** @type {StateName} */ one) =>
    all.some((other) => same(other, one));
