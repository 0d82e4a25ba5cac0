/** "1 move", "3 moves". */
export function count(/** @type {number} */ n, /** @type {string} */ word) {
    return `${thousands(n)} ${n === 1 ? word : `${word}s`}`;
}

/** Thousands apart, as in messages of the library. */
export function thousands(/** @type {number} */ n) {
    return n.toLocaleString("en-GB");
}

/** What is wrong with a trajectory, in one sentence. */
export function why(/** @type {import("./types.js").Broken[]} */ broken) {
    const rules = broken
        .filter(({ rule }) => rule !== null)
        .map(({ rule, position }) => `“${rule}” at position ${position}`);
    const world = broken.filter(({ rule }) => rule === null).map(({ message }) => message);
    return [...world, ...(rules.length ? [`breaks ${rules.join(" and ")}`] : [])].join("; ");
}

/** A text that begins a sentence. */
export function capital(/** @type {string} */ text) {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
}
