import { s } from "../dom.js";

/**
 * What lies over the world: numbers as colours, trajectories, and trajectories in motion.
 *
 * @typedef {import("../types.js").Front} Front
 * @typedef {import("../types.js").Line} Line
 * @typedef {import("../types.js").StateName} StateName
 * @typedef {import("../world.js").Place} Place
 * @typedef {{values: number[], title: string}} Heat
 */

/**
 * A number per state as a colour: one hue for what is above nothing, another for what is below.
 *
 * @param {SVGGElement} layer @param {Place} place @param {Heat | null} heat
 */
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

/**
 * Trajectories on the map: many of them thin, and one in front with the position at which it breaks a rule.
 *
 * @typedef {{x: number, y: number}} Point
 */

const MOST = 400; // thin ones that are drawn
const [ASIDE, ABOVE] = [0.754878, 0.56984]; // powers of the plastic number: multiples of both spread evenly over a square

export function makeLines() {
    const thin = s("g", { class: "lines" });
    const front = s("g", { class: "front" });
    const dashed = s("g", { class: "front" });
    return {
        thin,
        front,
        dashed,
        /** @param {Place} place @param {(StateName | null)[] | null} states  of what is offered in place of a trajectory */
        offered(place, states) {
            const d = path(points(place, states ?? [], null));
            dashed.replaceChildren(...(d ? ["under", "offered"].map((look) => s("path", { class: look, d })) : []));
        },
        /** @param {Place} place @param {Line[]} lines */
        many(place, lines) {
            thin.replaceChildren(
                ...lines
                    .slice(0, MOST)
                    .map((line, index) =>
                        s("path", { class: `line ${line.tone}`, d: path(points(place, line.states, index)) }),
                    ),
            );
            thin.classList.toggle("crowd", lines.length > 60);
        },
        /** @param {Place} place @param {Front | null} one */
        one(place, one) {
            front.replaceChildren(...(one?.states.length ? drawn(place, one) : []));
            thin.classList.toggle("behind", Boolean(one?.states.length));
        },
    };
}

/** @param {Place} place @param {Front} one */
function drawn(place, { states, broken = [] }) {
    const along = points(place, states, null);
    const lost = Math.min(...broken.map((each) => each.position));
    const cut = Number.isFinite(lost) ? Math.min(lost, states.length - 1) : states.length - 1;
    /** @type {SVGElement[]} */
    const parts = [
        s("path", { class: "under", d: path(along) }),
        s("path", { class: "over", d: path(along.slice(0, cut + 1)) }),
    ];
    if (cut < along.length - 1) parts.push(s("path", { class: "over lost", d: path(along.slice(cut)) }));
    const seen = along.filter((point) => point !== null);
    if (seen.length < along.length) {
        parts.push(s("path", { class: "gap", d: bridges(along) }));
        parts.push(...seen.map(({ x, y }) => s("circle", { class: "seen", cx: x, cy: y, r: 11 * place.scale })));
    }
    const last = seen.at(-1);
    if (last) parts.push(arrow(seen.at(-2), last, place.reach * 0.36 * place.scale));
    const where = along.slice(0, cut + 1).findLast((point) => point !== null);
    if (broken.length && where) parts.push(cross(where, place.reach * 0.62 * place.scale, cut));
    return parts;
}

/** Centres of the states; each of many is moved a little to its own side, so that they do not hide each other. */
function points(
    /** @type {Place} */ place,
    /** @type {(StateName | null)[]} */ states,
    /** @type {number | null} */ index,
) {
    const off = (/** @type {number} */ step) => (index === null ? 0 : (((index * step) % 1) - 0.5) * place.reach * 0.6);
    return states.map((state) => {
        if (state === null) return null;
        const { x, y } = place.point(state);
        return { x: x + off(ASIDE), y: y + off(ABOVE) };
    });
}

/** A line through points; it ends where one is missing, and begins again after it. @returns {string} */
export function path(/** @type {(Point | null)[]} */ along) {
    const at = (/** @type {Point} */ { x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;
    const alone = (/** @type {number} */ index) => !along[index - 1] && !along[index + 1] && along.length > 1;
    return along
        .flatMap((point, index) =>
            point ? [`${along[index - 1] ? "L" : "M"} ${at(point)}${alone(index) ? " h 0" : ""}`] : [],
        )
        .join(" ");
}

/** Straight lines over what is missing between points. @returns {string} */
function bridges(/** @type {(Point | null)[]} */ along) {
    const seen = along.flatMap((point, index) => (point ? [{ point, index }] : []));
    return seen
        .map(({ point, index }, each) => {
            const next = seen[each + 1];
            return next && next.index > index + 1 ? path([point, next.point]) : "";
        })
        .join(" ");
}

function arrow(/** @type {Point | undefined} */ from, /** @type {Point} */ to, /** @type {number} */ size) {
    const angle = from ? (Math.atan2(to.y - from.y, to.x - from.x) * 180) / Math.PI : 0;
    const shape = from ? "M 0.9 0 L -0.7 0.85 L -0.3 0 L -0.7 -0.85 Z" : "M 0.8 0 A 0.8 0.8 0 1 1 0.8 -0.01 Z";
    return s("path", {
        class: "tip",
        d: shape,
        transform: `translate(${to.x} ${to.y}) rotate(${angle}) scale(${size})`,
    });
}

function cross(/** @type {Point} */ { x, y }, /** @type {number} */ size, /** @type {number} */ position) {
    return s(
        "g",
        { class: "broken", "data-position": position, transform: `translate(${x} ${y}) scale(${size})` },
        s("circle", { r: 1 }),
        s("path", { d: "M -0.42 -0.42 L 0.42 0.42 M -0.42 0.42 L 0.42 -0.42" }),
    );
}

/**
 * Trajectories in motion: one token each, all at the same pace, from the start again when the last has arrived.
 */

const PACE = 3; // moves per second
const REST = 1.2; // seconds at the end

/** @param {import("./view.js").MapView} map */
export function makeMotion(map) {
    let running = 0; // counts starts: an older loop ends when it is no longer the newest

    return {
        /** @param {StateName[][]} trajectories */
        play(trajectories) {
            running += 1;
            const mine = running;
            const place = map.place.get();
            const tokens = trajectories.map(() => s("circle", { class: "token", r: place.reach * 0.34 * place.scale }));
            map.moving.replaceChildren(...tokens);
            const longest = Math.max(...trajectories.map((each) => each.length - 1));
            let begun = 0;
            const frame = (/** @type {number} */ now) => {
                if (mine !== running || map.place.get() !== place) return;
                begun ||= now;
                const seconds = ((now - begun) / 1000) % (longest / PACE + REST);
                trajectories.forEach((states, index) => {
                    const t = Math.min(seconds * PACE, states.length - 1);
                    const [from, to] = [states[Math.floor(t)], states[Math.ceil(t)]];
                    if (from === undefined || to === undefined) return;
                    const [a, b, share] = [place.point(from), place.point(to), t % 1];
                    tokens[index]?.setAttribute("cx", (a.x + share * (b.x - a.x)).toFixed(1));
                    tokens[index]?.setAttribute("cy", (a.y + share * (b.y - a.y)).toFixed(1));
                });
                requestAnimationFrame(frame);
            };
            requestAnimationFrame(frame);
        },
        stop() {
            running += 1;
            map.moving.replaceChildren();
        },
    };
}
