import { nameOf } from "./words.js";
import { cellList } from "./world.js";

/**
 * Changes of a document: each is a function from the old one to a new one that shares what stayed the same. A change
 * that changes nothing gives the old document back.
 *
 * @typedef {import("./types.js").Cell} Cell
 * @typedef {import("./types.js").Demonstration} Demonstration
 * @typedef {import("./types.js").Document} Document
 * @typedef {import("./types.js").Mark} Mark
 * @typedef {import("./types.js").Problem} Problem
 * @typedef {import("./types.js").Rule} Rule
 * @typedef {import("./types.js").StateName} StateName
 */

/** What the server sent, as a document. @returns {Document} */
export function documentOf(/** @type {import("./types.js").ServerDocument} */ { problem, demonstrations }) {
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
const same = (/** @type {StateName} */ a, /** @type {StateName} */ b) => String(a) === String(b);
const has = (/** @type {readonly StateName[]} */ all, /** @type {StateName} */ one) =>
    all.some((other) => same(other, one));

// --- Marks ---

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

// --- Cells of a grid ---

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

// --- Rules ---

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

/**
 * A rule as people read it: a must, or usually kept, as often as demonstrations say (learned), by a share or a weight.
 *
 * @typedef {"must" | "learned" | "share" | "weight"} Force
 * @typedef {{force: Force, number: number | null, text: string, before: number}} Reading  before: characters in front of the text
 */

/** @returns {Reading} */
export function readRule(/** @type {string} */ rule) {
    const found = /^(\s*usually\s*\()([^]*?)(?:,\s*(weight|share)\s*=\s*([-+.\deE]+)\s*)?\)\s*$/.exec(rule);
    const [, head = "", text = "", word = "learned", number] = found ?? [];
    if (!found || !balanced(text)) return { force: "must", number: null, text: rule, before: 0 };
    const force = /** @type {Force} */ (word);
    return { force, number: number === undefined ? null : Number(number), text, before: head.length };
}

/** The rule that reads so. */
export function writeRule(/** @type {Partial<Reading>} */ { force = "must", number, text = "" }) {
    if (force === "must") return text;
    return force === "learned" ? `usually(${text})` : `usually(${text}, ${force}=${number})`;
}

/** Whether no bracket closes what was opened before the text. */
function balanced(/** @type {string} */ text) {
    let depth = 0;
    for (const sign of text.replace(/'[^']*'|"[^"]*"/g, "")) {
        depth += "([{".includes(sign) ? 1 : ")]}".includes(sign) ? -1 : 0;
        if (depth < 0) return false;
    }
    return depth === 0;
}

// --- Demonstrations ---

/**
 * Further ones keep their names where these are free; the others are called by numbers.
 *
 * @param {Document} document @param {Demonstration[]} more @returns {Document}
 */
export function addDemonstrations(document, more) {
    const { demonstrations } = document;
    const taken = new Set(demonstrations.map(nameOf));
    const named = more.map((one, index) => {
        let name = one.name;
        for (let number = demonstrations.length + index; name === undefined || taken.has(name); number += 1)
            name = String(number);
        taken.add(name);
        return { ...one, name };
    });
    return more.length ? { ...document, demonstrations: [...demonstrations, ...named] } : document;
}

/**
 * Another trajectory in place of a demonstration; what was written down at each of its positions goes.
 *
 * @param {Document} document @param {number} index @param {Demonstration["states"]} states
 * @param {Demonstration["actions"]} actions @returns {Document}
 */
export function replaceDemonstration(document, index, states, actions) {
    const of = (/** @type {object} */ about) => Object.entries(about).filter(([, value]) => !Array.isArray(value));
    const changed = (/** @type {Demonstration} */ one) =>
        one.about ? { ...one, states, actions, about: Object.fromEntries(of(one.about)) } : { ...one, states, actions };
    const { demonstrations } = document;
    return { ...document, demonstrations: demonstrations.map((one, each) => (each === index ? changed(one) : one)) };
}

/**
 * A demonstration with positions that were not seen, so many in each of its gaps, from left to right.
 *
 * @param {Demonstration["states"]} states @param {number[]} lengths @returns {Demonstration["states"]}
 */
export function withGaps(states, lengths) {
    const left = [...lengths];
    return states.flatMap((state, index) => {
        if (state !== null) return [state];
        return index > 0 && states[index - 1] === null ? [] : Array(left.shift() ?? 1).fill(null);
    });
}

/** The numbers of positions that were not seen, of each gap. @returns {number[]} */
export function gapsOf(/** @type {Demonstration["states"]} */ states) {
    /** @type {number[]} */
    const lengths = [];
    states.forEach((state, index) => {
        if (state !== null) return;
        if (index > 0 && states[index - 1] === null) lengths[lengths.length - 1] = (lengths.at(-1) ?? 0) + 1;
        else lengths.push(1);
    });
    return lengths;
}

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
