import { s } from "../dom.js";

/**
 * A number per state as a colour: one hue for what is above nothing, another for what is below.
 *
 * @typedef {{values: number[], title: string}} Heat
 * @typedef {import("../world.js").Place} Place
 */

/** @param {SVGGElement} layer @param {Place} place @param {Heat | null} heat */
export function drawHeat(layer, place, heat) {
    if (!heat || heat.values.length !== place.count) {
        layer.replaceChildren();
        return;
    }
    const most = largest(heat.values);
    const spots = [];
    for (let state = 0; state < place.count; state += 1) {
        const value = heat.values[state] ?? 0;
        if (!place.open(state) || !value) continue;
        const look = { class: value > 0 ? "plus" : "minus", "fill-opacity": (Math.abs(value) / most).toFixed(3) };
        spots.push(spot(place, state, look));
    }
    layer.replaceChildren(...spots);
}

/** A state as it lies on the map: the square of a cell, or a circle. */
export function spot(/** @type {Place} */ place, /** @type {number} */ state, /** @type {object} */ look) {
    const { x, y } = place.point(place.name(state));
    return place.kind === "grid"
        ? s("rect", { ...look, ...square(x, y, place.reach) })
        : s("circle", { ...look, cx: x, cy: y, r: place.reach });
}

/** Where a square lies, by its middle and half its side. */
export function square(/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ reach) {
    return { x: x - reach, y: y - reach, width: 2 * reach, height: 2 * reach };
}

/** The largest size among numbers, for a scale that is the same above and below nothing. */
function largest(/** @type {number[]} */ values) {
    return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
}
