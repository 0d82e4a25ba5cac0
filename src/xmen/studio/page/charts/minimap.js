import { s } from "../dom.js";
import { drawHeat } from "../map/heat.js";

/**
 * A small map that only shows a number per state.
 *
 * @param {import("../world/place.js").Place} place
 * @param {import("../map/heat.js").Heat} heat
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
        const { x, y } = place.point(place.name(state));
        ground.append(
            place.kind === "grid"
                ? s("rect", {
                      class: "wall",
                      x: x - place.reach,
                      y: y - place.reach,
                      width: 2 * place.reach,
                      height: 2 * place.reach,
                  })
                : s("circle", { class: "node", cx: x, cy: y, r: place.reach }),
        );
    }
    const spots = s("g", { class: "heat" });
    drawHeat(spots, place, heat);
    svg.append(s("rect", { class: "paper", width: place.width, height: place.height }), ground, spots);
    return svg;
}
