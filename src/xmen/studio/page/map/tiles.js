import { looks } from "../colours.js";
import { s } from "../dom.js";
import { painted } from "../edits.js";
import { CELL } from "../world.js";
import { badges, endSigns } from "./badges.js";
import { square } from "./heat.js";

/**
 * The cells of a grid. Each cell remembers what it shows, and only cells that show something else are touched: a stroke
 * on 50 x 50 cells changes a few elements, not thousands.
 *
 * @typedef {import("../types.js").Problem} Problem
 * @typedef {import("../world.js").Place} Place
 * @typedef {import("../colours.js").Look} Look
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
