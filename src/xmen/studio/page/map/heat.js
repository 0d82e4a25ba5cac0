import { s } from "../dom.js";

/**
 * A number per state as a colour: one hue for what is above nothing, another for what is below.
 *
 * @typedef {{values: number[], title: string}} Heat
 * @typedef {import("../world/place.js").Place} Place
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
        const { x, y } = place.point(place.name(state));
        const look = { class: value > 0 ? "plus" : "minus", "fill-opacity": (Math.abs(value) / most).toFixed(3) };
        spots.push(
            place.kind === "grid"
                ? s("rect", {
                      ...look,
                      x: x - place.reach,
                      y: y - place.reach,
                      width: 2 * place.reach,
                      height: 2 * place.reach,
                  })
                : s("circle", { ...look, cx: x, cy: y, r: place.reach }),
        );
    }
    layer.replaceChildren(...spots);
}

/** The largest size among numbers, for a scale that is the same above and below nothing. */
export function largest(/** @type {number[]} */ values) {
    return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
}
