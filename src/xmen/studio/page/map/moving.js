import { s } from "../dom.js";

/**
 * Trajectories in motion: one token each, all at the same pace, from the start again when the last has arrived.
 *
 * @typedef {import("../types.js").StateName} StateName
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
