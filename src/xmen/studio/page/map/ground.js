import { s } from "../dom.js";
import { painted } from "../edits.js";
import { CELL } from "../world.js";
import { square } from "./layers.js";

/**
 * The world itself: how marks look, the cells of a grid, the nodes of a graph.
 *
 * @typedef {import("../types.js").Layout} Layout
 * @typedef {import("../types.js").Problem} Problem
 * @typedef {import("../world.js").Place} Place
 */

/** Okabe and Ito's colours, which people with any kind of colour vision can tell apart. */
const PALETTE = ["#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#F0E442", "#8C6D46"];

/** Words that everybody sees in a colour; other marks take the next free one. */
const EXPECTED = new Map(
    Object.entries({
        "#D55E00": ["lava", "fire", "danger"],
        "#56B4E9": ["water", "river", "ice"],
        "#8C6D46": ["mud"],
        "#E69F00": ["key", "gold"],
        "#009E73": ["grass", "forest", "park"],
    }).flatMap(([colour, names]) => names.map((name) => [name, colour])),
);

/**
 * How each painted mark looks: its colour, and a letter or two that no other mark has.
 *
 * @typedef {{name: string, colour: string, ink: string, letters: string}} Look
 * @param {Problem} problem
 * @returns {Map<string, Look>}
 */
export function looks(problem) {
    /** @type {Map<string, Look>} */
    const all = new Map();
    const taken = new Set();
    const expected = new Set([...problem.events.keys()].map((name) => EXPECTED.get(name)));
    for (const [name, mark] of problem.events) {
        if (!painted(mark)) continue;
        const letters = [name.slice(0, 1), name.slice(0, 2), name.slice(0, 1) + name.slice(-1)].find(
            (each) => !taken.has(each),
        );
        const chosen = problem.studio?.colours?.get(name);
        const used = [...all.values()].map((look) => look.colour);
        const free =
            PALETTE.find((each) => !used.includes(each) && !expected.has(each)) ?? PALETTE[all.size % PALETTE.length];
        const colour = /^#[0-9a-f]{6}$/i.test(chosen ?? "") ? String(chosen) : (EXPECTED.get(name) ?? String(free));
        taken.add(letters);
        all.set(name, { name, colour, ink: ink(colour), letters: letters ?? name.slice(0, 2) });
    }
    return all;
}

/** Black or white, whichever can be read better on a colour (relative luminance of WCAG 2). */
function ink(/** @type {string} */ colour) {
    const [r = 0, g = 0, b = 0] = [1, 3, 5].map((from) => {
        const part = parseInt(colour.slice(from, from + 2), 16) / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#FFFFFF";
}

const BADGE = 13; // radius of a letter's ground

/** The letters of marks in a row, beginning at a point. @returns {SVGGElement} */
export function badges(/** @type {Look[]} */ marks, /** @type {number} */ x, /** @type {number} */ y) {
    const group = s("g", { class: "badges" });
    marks.forEach((look, index) => {
        const at = x + index * (2 * BADGE + 3);
        group.append(
            s("circle", { cx: at, cy: y, r: BADGE, fill: look.colour }),
            s("text", { x: at, y: y + 5.5, fill: look.ink }, look.letters),
        );
    });
    return group;
}

const SIGNS = {
    start: "M -0.18 -0.28 L 0.3 0 L -0.18 0.28 Z",
    goal: "M -0.16 0.34 L -0.16 -0.34 L 0.32 -0.14 L -0.16 0.06",
};

/** Where trajectories begin, and where they end: a flag. @returns {SVGGElement[]} */
export function endSigns(/** @type {Place} */ place, /** @type {number} */ size) {
    const sign = (/** @type {"start" | "goal"} */ end) => (/** @type {number} */ state) => {
        const { x, y } = place.point(place.name(state));
        const transform = `translate(${x} ${y}) scale(${size})`;
        return s("g", { class: end, transform }, s("circle", { r: 0.52 }), s("path", { d: SIGNS[end] }));
    };
    return [...place.starts.map(sign("start")), ...[...place.goals].filter((state) => state >= 0).map(sign("goal"))];
}

/**
 * The cells of a grid. Each cell remembers what it shows, and only cells that show something else are touched: a stroke
 * on 50 x 50 cells changes a few elements, not thousands.
 */

const FINE = 24; // cells side by side up to which letters can be read

export function makeTiles() {
    const ground = s("g", { class: "ground" });
    const marks = s("g", { class: "marks" });
    const ends = s("g", { class: "ends" });
    const ticks = s("g", { class: "ticks" });
    let size = "";
    /** @type {{rect: SVGRectElement, marks: SVGGElement | null, shown: string}[]} */
    let tiles = [];

    function build(/** @type {Place} */ place, /** @type {number} */ columns) {
        tiles = Array.from({ length: place.count }, (_, state) => {
            const { x, y } = place.point(place.name(state));
            return { rect: s("rect", { class: "cell", ...square(x, y, CELL / 2) }), marks: null, shown: "" };
        });
        ground.replaceChildren(...tiles.map((tile) => tile.rect));
        marks.replaceChildren();
        ticks.replaceChildren(...numbers(columns, place.height / CELL, place.height));
    }

    return {
        ground,
        ticks,
        marks,
        ends,
        /** @param {Place} place @param {Problem} problem */
        update(place, problem) {
            const columns = problem.world.width ?? 1;
            if (size !== `${columns} x ${place.count}`) build(place, columns);
            size = `${columns} x ${place.count}`;
            const all = looks(problem);
            const fine = columns <= FINE;
            const here = marksByState(place, problem, all);
            tiles.forEach((tile, state) => {
                const on = here.get(state) ?? [];
                const shown = JSON.stringify([place.open(state), fine, on]);
                if (shown === tile.shown) return;
                tile.shown = shown;
                tile.rect.setAttribute("class", place.open(state) ? "cell" : "cell wall");
                tile.marks?.remove();
                tile.marks = on.length ? tint(tile.rect, on, fine) : null;
                if (tile.marks) marks.append(tile.marks);
            });
            ends.replaceChildren(...endSigns(place, CELL * 0.44 * place.scale));
        },
        clear() {
            size = "";
            tiles = [];
            for (const part of [ground, marks, ticks, ends]) part.replaceChildren();
        },
    };
}

/** @param {Place} place @param {Problem} problem @param {Map<string, Look>} all @returns {Map<number, Look[]>} */
export function marksByState(place, problem, all) {
    /** @type {Map<number, Look[]>} */
    const here = new Map();
    for (const look of all.values())
        for (const name of painted(problem.events.get(look.name)) ?? []) {
            const state = place.index(name);
            if (!here.has(state)) here.set(state, []);
            here.get(state)?.push(look);
        }
    return here;
}

/** Upright stripes of the marks' colours, and their letters. */
function tint(/** @type {SVGRectElement} */ rect, /** @type {Look[]} */ on, /** @type {boolean} */ fine) {
    const [x, y] = [Number(rect.getAttribute("x")), Number(rect.getAttribute("y"))];
    const wide = CELL / on.length;
    const group = s("g", { class: fine ? "tint" : "tint strong" });
    on.forEach((look, index) =>
        group.append(s("rect", { x: x + index * wide, y, width: wide, height: CELL, fill: look.colour })),
    );
    if (fine) group.append(badges(on.slice(0, 3), x + 18, y + 18));
    return group;
}

/** The numbers of columns and rows, as many as can be read. */
function numbers(/** @type {number} */ columns, /** @type {number} */ lines, /** @type {number} */ height) {
    const every = Math.max(columns, lines) <= 16 ? 1 : Math.max(columns, lines) <= 50 ? 5 : 20;
    const size = Math.max(26, 2.2 * Math.max(columns, lines));
    const texts = [];
    for (let x = 0; x < columns; x += every)
        texts.push(s("text", { x: (x + 0.5) * CELL, y: height + size * 1.15, "font-size": size }, String(x)));
    for (let y = 0; y < lines; y += every)
        texts.push(
            s("text", { x: -size * 0.75, y: height - (y + 0.5) * CELL + size * 0.35, "font-size": size }, String(y)),
        );
    return texts;
}

/**
 * The states of a graph or a table with the moves between them, on their coordinates.
 */

const RADIUS = 22; // of a node

export function makeNodes() {
    const edges = s("g", { class: "edges" });
    const nodes = s("g", { class: "nodes" });
    const ends = s("g", { class: "ends" });

    return {
        edges,
        nodes,
        ends,
        /** @param {Place} place @param {Problem} problem @param {Layout} layout */
        update(place, problem, layout) {
            const point = (/** @type {number} */ state) => place.point(place.name(state));
            edges.replaceChildren(
                ...lines(layout).map(([from, to]) => {
                    const [a, b] = [point(from), point(to)];
                    return s("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
                }),
            );
            const here = marksByState(place, problem, looks(problem));
            nodes.replaceChildren(
                ...layout.states.map((state, index) => {
                    const { x, y } = point(index);
                    const on = here.get(index) ?? [];
                    return s(
                        "g",
                        {},
                        s("circle", {
                            class: on[0] ? "node marked" : "node",
                            cx: x,
                            cy: y,
                            r: RADIUS,
                            fill: on[0]?.colour,
                        }),
                        badges(on, x - 15 * (on.length - 1), y - RADIUS - 16),
                        s("text", { class: "name", x, y: y + RADIUS + 26 }, state.name),
                    );
                }),
            );
            ends.replaceChildren(...endSigns(place, 34));
        },
        clear() {
            for (const part of [edges, nodes, ends]) part.replaceChildren();
        },
    };
}

/** Every pair of states with a move between them, once. @returns {[number, number][]} */
function lines(/** @type {Layout} */ layout) {
    /** @type {Map<string, [number, number]>} */
    const pairs = new Map();
    for (const [source, , target] of layout.edges)
        if (source !== target) pairs.set(`${Math.min(source, target)} ${Math.max(source, target)}`, [source, target]);
    return [...pairs.values()];
}
