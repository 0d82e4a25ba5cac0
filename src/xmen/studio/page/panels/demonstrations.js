import { button, download, h, rows, show } from "../dom.js";
import {
    addDemonstrations,
    gapsOf,
    removeDemonstrations,
    replaceDemonstration,
    weighDemonstrations,
    withGaps,
} from "../edits.js";
import { request, sentence } from "../server.js";
import { signal } from "../state.js";
import { count, nameOf } from "../words.js";
import { makeOffers } from "./offers.js";
import { trajectoryLine } from "./parts.js";

/**
 * The demonstrations: each valid, or why not. The one under the pointer or with the focus is shown on the map.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Demonstration} Demonstration
 */

const PAGE = 100; // rows that are shown at first
const MOST_GAPS = 8; // of a demonstration, up to which each has a field

/** @param {HTMLElement} root @param {App} app */
export function mountDemonstrations(root, app) {
    const { history, sync, map } = app;
    const chosen = signal(/** @type {Set<number>} */ (new Set()));
    let shown = PAGE;
    const summary = h("p", { class: "hint", role: "status" });
    const list = h("ol", { class: "plain demos" });
    const offers = makeOffers(app);
    const update = rows(list, (index) => demoLine(app, index, chosen, offers));
    const more = button("Show more", () => ((shown += 5 * PAGE), refresh()));

    const weight = h("input", {
        type: "number",
        min: 0,
        step: "any",
        value: 1,
        "aria-label": "Weight of the selected demonstrations",
    });
    const all = h("input", {
        type: "checkbox",
        "aria-label": "Select all demonstrations",
        onchange: () => chosen.set(new Set(all.checked ? history.document.get().demonstrations.keys() : [])),
    });
    const invalid = button("Select invalid ones", () => {
        const judged = sync.check.get()?.demonstrations ?? [];
        chosen.set(new Set(judged.flatMap((each, index) => (each.valid === false ? [index] : []))));
    });
    const weigh = button("Set weight", () => {
        if (!weight.reportValidity()) return;
        history.edit("weigh demonstrations", (document) =>
            weighDemonstrations(document, chosen.get(), Number(weight.value)),
        );
    });
    const remove = button("Delete", () => {
        history.edit("delete demonstrations", (document) => removeDemonstrations(document, chosen.get()));
        chosen.set(new Set());
    });
    const selection = [h("label", { class: "check" }, all, "All"), invalid, weight, weigh, remove];
    const selecting = h("div", { class: "actions selection" }, ...selection);
    root.append(
        h(
            "div",
            { class: "actions" },
            button("Draw", () => app.tool.set("draw")),
            csvButtons(app),
        ),
        summary,
        selecting,
        list,
        more,
    );

    function refresh() {
        const { demonstrations } = history.document.get();
        const judged = sync.check.get()?.demonstrations ?? [];
        const bad = judged.filter((each) => each.valid === false).length;
        update(demonstrations.slice(0, shown));
        more.hidden = demonstrations.length <= shown;
        selecting.hidden = !demonstrations.length;
        invalid.disabled = !bad;
        for (const each of [weigh, remove]) each.disabled = !chosen.get().size;
        all.checked = chosen.get().size > 0 && chosen.get().size === demonstrations.length;
        const picked = chosen.get().size ? `, ${chosen.get().size} selected` : "";
        const verdict = bad ? `${bad} of them invalid` : "all valid";
        summary.textContent = demonstrations.length
            ? `${count(demonstrations.length, "demonstration")}, ${verdict}${picked}.`
            : "None yet: drag on the map from the start to the goal, or import a CSV file with the columns demo, x and y.";
        if (app.tab.get() === "demonstrations")
            map.many.set(
                demonstrations.map((each, index) => ({
                    states: each.states,
                    tone: judged[index]?.valid === false ? "bad" : "plain",
                })),
            );
    }
    history.document.on((next, old) => {
        if (next.demonstrations.length < old.demonstrations.length) chosen.set(new Set());
        if (next.demonstrations !== old.demonstrations || !list.children.length) refresh();
    });
    sync.check.on(refresh);
    chosen.on(refresh);
    app.tab.on(refresh);
}

/**
 * One demonstration: its length, valid or why not, its weight.
 *
 * @param {App} app @param {number} index @param {import("../state.js").Signal<Set<number>>} chosen
 * @param {ReturnType<typeof makeOffers>} offers
 */
function demoLine(app, index, chosen, offers) {
    const { history, sync, map } = app;
    const select = h("input", {
        type: "checkbox",
        onchange: () => {
            const next = new Set(chosen.get());
            if (select.checked) next.add(index);
            else next.delete(index);
            chosen.set(next);
        },
    });
    const weight = h("input", {
        type: "number",
        min: 0,
        step: "any",
        class: "weight",
        onchange: () =>
            weight.reportValidity() &&
            history.edit("weigh a demonstration", (document) =>
                weighDemonstrations(document, new Set([index]), Number(weight.value)),
            ),
    });
    const remove = button(
        "✕",
        () => history.edit("delete a demonstration", (document) => removeDemonstrations(document, new Set([index]))),
        { class: "quiet" },
    );
    const line = trajectoryLine(map, index);
    const mend = button("Make it valid", () => offers.ask("mend", index, line.node), { class: "small" });
    const fill = button("Fill in", () => offers.ask("complete", index, line.node), { class: "small" });
    const goOn = button(
        "",
        () => {
            const one = history.document.get().demonstrations[index] ?? null;
            app.onto.set(app.onto.get() === one ? null : one);
            app.tool.set("draw");
            if (app.onto.get()) app.say("The next stroke on the map goes on with it, after a gap.");
        },
        { class: "small" },
    );
    const inputs = h("span", { class: "actions" });
    const gaps = h("div", { class: "gaps" }, "Positions that nobody saw:", inputs);
    const update = rows(inputs, (gap) => gapInput(app, index, gap));
    line.node.prepend(select);
    line.node.append(mend, fill, goOn, weight, remove, gaps);
    const drawn = (/** @type {Demonstration} */ one) => {
        const on = app.onto.get() === one;
        goOn.textContent = on ? "Done" : "Draw on";
        goOn.setAttribute("aria-pressed", String(on));
        const [end, { goals, index: number }] = [one.states.at(-1) ?? null, map.place.get()];
        goOn.hidden = end !== null && goals.has(number(end));
    };
    app.onto.on(() => {
        const one = history.document.get().demonstrations[index];
        if (one) drawn(one);
    });

    return {
        node: line.node,
        update(/** @type {Demonstration} */ demonstration) {
            const judged = sync.check.get()?.demonstrations[index];
            line.show(demonstration, judged, "valid");
            const name = `demonstration ${nameOf(demonstration, index)}`;
            select.setAttribute("aria-label", `Select ${name}`);
            weight.setAttribute("aria-label", `Weight of ${name}`);
            remove.setAttribute("aria-label", `Delete ${name}`);
            mend.setAttribute("aria-label", `Make ${name} valid`);
            const [partly, feasible] = [demonstration.states.includes(null), sync.check.get()?.feasible !== false];
            mend.hidden = judged?.valid !== false || partly || !feasible;
            fill.setAttribute("aria-label", `Fill in the gaps of ${name}`);
            fill.hidden = !partly || !judged?.valid || !feasible;
            goOn.setAttribute("aria-label", `Draw on with ${name}`);
            const lengths = gapsOf(demonstration.states);
            gaps.hidden = !partly || lengths.length > MOST_GAPS;
            update(gaps.hidden ? [] : lengths);
            drawn(demonstration);
            select.checked = chosen.get().has(index);
            show(weight, demonstration.weight ?? 1);
        },
    };
}

/** How many positions of a gap nobody saw. @param {App} app @param {number} index @param {number} gap */
function gapInput({ history }, index, gap) {
    const change = (/** @type {import("../types.js").Document} */ document) => {
        const states = document.demonstrations[index]?.states ?? [];
        const lengths = gapsOf(states).map((length, each) => (each === gap ? Number(input.value) : length));
        return replaceDemonstration(document, index, withGaps(states, lengths), []);
    };
    const input = h("input", {
        type: "number",
        min: 1,
        max: 10000,
        required: true,
        title: "Positions of this gap, which nobody saw",
        onchange: () => input.reportValidity() && history.edit("length of a gap", change),
    });
    return {
        node: input,
        update(/** @type {number} */ length) {
            input.setAttribute("aria-label", `Positions in gap ${gap + 1} of demonstration in row ${index + 1}`);
            show(input, length);
        },
    };
}

/** Buttons to read demonstrations from CSV, and to write them. @param {App} app */
function csvButtons(app) {
    const { history, say } = app;
    const read = async () => {
        const [one] = file.files ?? [];
        file.value = "";
        if (!one) return;
        const { demonstrations } = await request("POST", "csv/read", { text: await one.text() });
        history.edit("import demonstrations", (document) => addDemonstrations(document, demonstrations));
        say(`${count(demonstrations.length, "demonstration")} imported.`);
    };
    const write = async () => {
        const { demonstrations } = history.document.get();
        download("demonstrations.csv", (await request("POST", "csv/write", { demonstrations })).text);
    };
    const refused = (/** @type {unknown} */ error) => say(sentence(error));
    const file = h("input", {
        type: "file",
        accept: ".csv,text/csv",
        hidden: true,
        "aria-label": "CSV file with demonstrations",
        onchange: () => read().catch(refused),
    });
    return h(
        "span",
        { class: "actions" },
        file,
        button("Import CSV", () => file.click()),
        button("Export CSV", () => write().catch(refused)),
    );
}
