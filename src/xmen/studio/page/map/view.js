import { dress, s } from "../dom.js";
import { oncePerFrame, signal } from "../state.js";
import { graphPlace, gridPlace } from "../world.js";
import { makeNodes, makeTiles } from "./ground.js";
import { drawHeat, makeLines, square } from "./layers.js";

/**
 * The map: the world of the document, and in layers above it what the panels ask for.
 *
 * @typedef {import("../types.js").Line} Line
 * @typedef {import("../types.js").Front} Front
 * @typedef {import("../types.js").Document} Document
 * @typedef {import("../types.js").Layout} Layout
 * @typedef {import("../world.js").Place} Place
 * @typedef {import("./layers.js").Heat} Heat
 */

const GRID_EDGES = [62, 14, 14, 52]; // free on the left, right, above and below a grid, for the numbers of its cells

/** The place of a world; a graph needs the server's layout. @returns {Place} */
export function placeOf(/** @type {Document} */ { problem }, /** @type {Layout | null} */ layout) {
    return problem.world.kind === "grid" || !layout ? gridPlace(problem.world) : graphPlace(problem, layout);
}

/**
 * @param {SVGSVGElement} svg
 * @param {import("../state.js").Signal<Document>} document
 * @param {import("../state.js").Signal<Layout | null>} layout
 */
export function makeMap(svg, document, layout) {
    const [tiles, nodes, lines] = [makeTiles(), makeNodes(), makeLines()];
    const [heatLayer, moving, ring] = [
        s("g", { class: "heat" }),
        s("g", { class: "moving" }),
        s("rect", { class: "cursor" }),
    ];
    svg.append(tiles.ground, tiles.ticks, nodes.edges, heatLayer, tiles.marks, lines.thin, nodes.nodes);
    svg.append(tiles.ends, nodes.ends, lines.front, lines.dashed, moving, ring);

    const place = signal(placeOf(document.get(), layout.get()));
    const many = signal(/** @type {Line[]} */ ([]));
    const front = signal(/** @type {Front | null} */ (null));
    const offer = signal(/** @type {Front["states"] | null} */ (null));
    const heat = signal(/** @type {Heat | null} */ (null));
    const cursor = signal(place.get().starts[0] ?? 0);

    let frame = "";
    const redraw = oncePerFrame(() => {
        const { problem } = document.get();
        const here = place.get();
        // Larger grids are drawn smaller, and their numbers larger.
        const free = here.kind === "grid" ? GRID_EDGES.map((edge) => edge * here.scale) : [];
        const [left = 0, right = 0, top = 0, bottom = 0] = free;
        const box = [-left, -top, here.width + left + right, here.height + top + bottom].join(" ");
        if (box !== frame) svg.setAttribute("viewBox", (frame = box));
        svg.style.setProperty("--scale", String(here.scale));
        const plan = layout.get();
        if (here.kind === "grid") {
            nodes.clear();
            tiles.update(here, problem);
        } else if (plan) {
            tiles.clear();
            nodes.update(here, problem, plan);
        }
    });
    const redrawLines = oncePerFrame(() => lines.many(place.get(), many.get()));
    const redrawFront = oncePerFrame(() => lines.one(place.get(), front.get()));
    const redrawOffer = oncePerFrame(() => lines.offered(place.get(), offer.get()));
    const redrawHeat = oncePerFrame(() => drawHeat(heatLayer, place.get(), heat.get()));
    const redrawCursor = oncePerFrame(() => {
        const here = place.get();
        const { x, y } = here.point(here.name(Math.min(cursor.get(), here.count - 1)));
        dress(ring, square(x, y, here.reach));
    });

    document.on((next, old) => {
        if (next === old || next.problem.world !== old.problem.world) place.set(placeOf(next, layout.get()));
        if (next === old || next.problem !== old.problem) redraw();
    });
    layout.on(() => place.set(placeOf(document.get(), layout.get())));
    place.on((here) => {
        if (cursor.get() >= here.count) cursor.set(here.starts[0] ?? 0);
        for (const again of [redraw, redrawLines, redrawFront, redrawOffer, redrawHeat, redrawCursor]) again();
    });
    many.on(redrawLines);
    front.on(redrawFront);
    offer.on(redrawOffer);
    heat.on((shown) => {
        svg.classList.toggle("warm", shown !== null);
        redrawHeat();
    });
    cursor.on(redrawCursor);

    return {
        svg,
        place,
        /** Trajectories behind the one in front. */
        many,
        front,
        /** What is offered in place of a trajectory: a dashed line. */
        offer,
        heat,
        /** The state that the keyboard is at. */
        cursor,
        /** The layer for what moves. */
        moving,
        /** The state under a pointer, or -1. */
        under(/** @type {PointerEvent} */ event) {
            const matrix = svg.getScreenCTM();
            if (!matrix) return -1;
            const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
            return place.get().under(x, y);
        },
    };
}

/** @typedef {ReturnType<typeof makeMap>} MapView */
