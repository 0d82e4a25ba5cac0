import { s } from "../dom.js";
import { drawHeat, spot } from "../map/layers.js";

/**
 * A small map that only shows a number per state.
 *
 * @param {import("../world.js").Place} place
 * @param {import("../map/layers.js").Heat} heat
 */
export function minimap(place, heat) {
    const svg = s("svg", {
        class: "minimap",
        viewBox: `-2 -2 ${place.width + 4} ${place.height + 4}`,
        role: "img",
        "aria-label": heat.title,
    });
    const ground = s("g");
    for (let state = 0; state < place.count; state += 1) {
        if (place.kind === "grid" && place.open(state)) continue;
        ground.append(spot(place, state, { class: place.kind === "grid" ? "wall" : "node" }));
    }
    const spots = s("g", { class: "heat" });
    drawHeat(spots, place, heat);
    svg.append(s("rect", { class: "paper", width: place.width, height: place.height }), ground, spots);
    return svg;
}
