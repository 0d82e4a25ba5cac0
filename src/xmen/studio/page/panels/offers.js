import { button, h } from "../dom.js";
import { replaceDemonstration } from "../edits.js";
import { sentence } from "../server.js";
import { nameOf } from "../words.js";

/**
 * What may take the place of a demonstration: the nearest valid trajectory, or the likeliest ones where it has gaps. The
 * chosen one is a dashed line on the map before it is taken.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Demonstration} Demonstration
 * @typedef {{states: Demonstration["states"], actions: Demonstration["actions"], edits?: string[], probability?: number}} Offer
 * @typedef {{index: number, about: Demonstration, kind: "mend" | "complete", message: string, offers: Offer[],
 *            visits?: number[], chosen: number, learned: boolean}} Open
 */

const MOST = 6; // edits that are listed

/** @param {App} app */
export function makeOffers(app) {
    const { history, jobs, map } = app;
    const node = h("div", { class: "offer", role: "group", hidden: true });
    /** @type {Open | null} */
    let open = null;
    /** @type {import("../map/layers.js").Heat | null} */
    let warm = null; // the heat on the map that is of this offer

    function close() {
        const title = node.contains(document.activeElement) ? node.parentElement?.querySelector("button") : null;
        open = null;
        draw();
        title?.focus();
    }

    /** Ask for what may take the place of a demonstration, and show it in its row. */
    async function ask(/** @type {Open["kind"]} */ kind, /** @type {number} */ index, /** @type {HTMLElement} */ row) {
        const about = history.document.get().demonstrations[index];
        if (!about) return;
        if (jobs.busy.get() !== null) return app.say("Something else is being worked out: wait for it, or cancel it.");
        const learned = Boolean(jobs.of("learn").get().result);
        /** @type {Open} */
        const mine = { index, about, kind, message: "Looking …", offers: [], chosen: 0, learned };
        open = mine;
        row.append(node);
        draw();
        const { states, actions } = about;
        const seen = { states, from: learned ? "model" : "uniform" };
        try {
            Object.assign(mine, { message: "" }, await jobs.ask(kind, kind === "mend" ? { states, actions } : seen));
        } catch (error) {
            mine.message = sentence(error);
        }
        if (open !== mine) return;
        draw();
        node.scrollIntoView({ block: "nearest" });
    }

    function take() {
        const offer = open?.offers[open.chosen];
        if (!open || !offer) return;
        const { index, kind } = open;
        const what = kind === "mend" ? "make a demonstration valid" : "fill in a demonstration";
        history.edit(what, (document) => replaceDemonstration(document, index, offer.states, offer.actions));
        app.say(kind === "mend" ? "It is valid now; undo brings back what was drawn." : "Its gaps are filled in.");
    }

    function draw() {
        const here = open && app.tab.get() === "demonstrations" ? open : null;
        node.hidden = !open;
        map.offer.set(here?.offers[here.chosen]?.states ?? null);
        const next = here?.visits ? { values: here.visits, title: "Expected visits" } : null;
        if (next || map.heat.get() === warm) map.heat.set(next);
        warm = next;
        if (!open) return;
        const name = nameOf(open.about, open.index);
        node.setAttribute("aria-label", `What may take the place of demonstration ${name}`);
        const taking = button("Take it", take, { class: "main", disabled: !open.offers.length });
        node.replaceChildren(
            h("p", { role: "status", class: open.offers.length ? "" : "error" }, open.message || said(open)),
            ...(open.kind === "mend" ? [edits(open.offers[0]?.edits ?? [])] : [choices(open, draw)]),
            h("div", { class: "actions" }, taking, button("Dismiss", close)),
        );
    }

    history.document.on(({ demonstrations }) => open && demonstrations[open.index] !== open.about && close());
    app.tab.on(draw);
    return { node, ask, close };
}

function said(/** @type {Open} */ { kind, offers, learned }) {
    if (kind === "mend") return "The nearest valid trajectory is the dashed line. What changes:";
    const how = learned ? "by what was learned" : "without preferences, since nothing is learned yet";
    const found = offers.length > 1 ? `The ${offers.length} likeliest ways` : "The only way";
    return `${found} through the gaps, ${how}. Colours show how often each place is expected.`;
}

/** What is put in, left out and changed. */
function edits(/** @type {string[]} */ all) {
    const shown = all.length > MOST + 1 ? [...all.slice(0, MOST), `and ${all.length - MOST} more`] : all;
    return h("ul", {}, ...shown.map((edit) => h("li", {}, edit)));
}

/** The likeliest trajectories with their probabilities, one of them chosen. */
function choices(/** @type {Open} */ open, /** @type {() => void} */ draw) {
    return h(
        "div",
        { class: "stack", role: "radiogroup", "aria-label": "The likeliest ways" },
        ...open.offers.map(({ probability = 0 }, index) => {
            const radio = h("input", { type: "radio", name: "offer", checked: index === open.chosen });
            radio.addEventListener("change", () => {
                open.chosen = index;
                draw();
                /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("[name=offer]"))[index]?.focus();
            });
            return h("label", { class: "check" }, radio, `${index + 1}: ${(100 * probability).toPrecision(2)} %`);
        }),
    );
}
