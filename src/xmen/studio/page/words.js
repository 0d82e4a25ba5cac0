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

/** What is wrong with what was seen of a trajectory. */
export function unexplained(/** @type {import("./types.js").Broken[]} */ [first]) {
    const fits = `no valid trajectory fits from position ${first?.position} on`;
    return first?.rule ? `${fits}; without “${first.rule}” one would` : `${fits}: draw on, or change its gaps`;
}

/** What a trajectory is called: its name in the file, or its number there, from 0. */
export function nameOf(/** @type {{name?: string} | undefined} */ trajectory, /** @type {number} */ index) {
    return trajectory?.name ?? String(index);
}

/** How what is said of all trajectories came about, by engine. @type {Record<string, string>} */
export const HOW = {
    exact: "All of them are counted: numbers and draws are exact.",
    reject: "Too many rules to count by: draws that break one are thrown away, and the rest is exact.",
    xor: "Too many to count: a solver draws them, each with nearly its own probability.",
};

/** "1 in 1,340": a probability whose logarithm is given. */
export function oneIn(/** @type {number | null} */ log) {
    if (log === null) return "never";
    const many = Math.exp(-log);
    return many < 1e6 ? `1 in ${thousands(Number(many.toPrecision(3)))}` : `1 in 10^${(-log / Math.LN10).toFixed(1)}`;
}

/** "2.7": by which factor a weight makes something more likely. */
export function times(/** @type {number} */ weight) {
    const many = Math.exp(Math.abs(weight));
    return many < 1e6
        ? thousands(Number(many.toPrecision(many < 100 ? 2 : 3)))
        : `10^${(Math.abs(weight) / Math.LN10).toFixed(1)}`;
}

/** What the weight of a rule that is usually kept means. */
export function worth(/** @type {number} */ weight) {
    if (Math.abs(weight) < 0.005) return "Keeping it makes no difference";
    return `${weight > 0 ? "Keeping" : "Breaking"} it makes a trajectory ${times(weight)} times as likely`;
}

/** A text that begins a sentence. */
export function capital(/** @type {string} */ text) {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
}
