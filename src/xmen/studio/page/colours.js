import { painted } from "./edits.js";

/** Okabe and Ito's colours, which people with any kind of colour vision can tell apart. */
export const PALETTE = ["#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#F0E442", "#8C6D46"];

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
 * @param {import("./types.js").Problem} problem
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
