/**
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Demonstration} Demonstration
 */

/** @param {Document} document @param {Demonstration[]} more @returns {Document} */
export const addDemonstrations = (document, more) =>
    more.length ? { ...document, demonstrations: [...document.demonstrations, ...more] } : document;

/** @param {Document} document @param {Set<number>} which @returns {Document} */
export const removeDemonstrations = (document, which) =>
    which.size
        ? { ...document, demonstrations: document.demonstrations.filter((_, index) => !which.has(index)) }
        : document;

/** @param {Document} document @param {Set<number>} which @param {number} weight @returns {Document} */
export const weighDemonstrations = (document, which, weight) => ({
    ...document,
    demonstrations: document.demonstrations.map((one, index) => (which.has(index) ? { ...one, weight } : one)),
});
