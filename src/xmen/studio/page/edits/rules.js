import { withProblem } from "./problem.js";

/**
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Rule} Rule
 */

/** @param {Document} document @param {string} rule @param {string} [name] @returns {Document} */
export function addRule(document, rule, name) {
    const rules = document.problem.constraints ?? [];
    return withProblem(document, {
        constraints: [...rules, { name: freeName(rules, name ?? (rule || "a rule")), rule }],
    });
}

/** @param {Document} document @param {number} index @param {Partial<Rule>} part @returns {Document} */
export function changeRule(document, index, part) {
    const rules = document.problem.constraints ?? [];
    return withProblem(document, { constraints: rules.map((rule, i) => (i === index ? { ...rule, ...part } : rule)) });
}

/** @param {Document} document @param {number} index @returns {Document} */
export function removeRule(document, index) {
    return withProblem(document, { constraints: (document.problem.constraints ?? []).filter((_, i) => i !== index) });
}

/** A name that no rule has yet: messages tell rules apart by it. */
function freeName(/** @type {Rule[]} */ rules, /** @type {string} */ stem) {
    const taken = new Set(rules.map((rule) => rule.name));
    let name = stem;
    for (let number = 2; taken.has(name); number += 1) name = `${stem} (${number})`;
    return name;
}
