import { button, download, h, rows, show } from "../dom.js";
import { addDemonstrations, removeDemonstrations, weighDemonstrations } from "../edits.js";
import { request, sentence } from "../server.js";
import { signal } from "../state.js";
import { count, nameOf } from "../words.js";
import { trajectoryLine } from "./parts.js";

/**
 * The demonstrations: each valid, or why not. The one under the pointer or with the focus is shown on the map.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Demonstration} Demonstration
 */

const PAGE = 100; // rows that are shown at first

/** @param {HTMLElement} root @param {App} app */
export function mountDemonstrations(root, app) {
    const { history, sync, map } = app;
    const chosen = signal(/** @type {Set<number>} */ (new Set()));
    let shown = PAGE;
    const summary = h("p", { class: "hint", role: "status" });
    const list = h("ol", { class: "plain demos" });
    const update = rows(list, (index) => demoLine(app, index, chosen));
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
    root.append(
        h(
            "div",
            { class: "actions" },
            button("Draw", () => app.tool.set("draw")),
            csvButtons(app),
        ),
        summary,
        h("div", { class: "actions selection" }, ...selection),
        list,
        more,
    );

    function refresh() {
        const { demonstrations } = history.document.get();
        const judged = sync.check.get()?.demonstrations ?? [];
        const bad = judged.filter((each) => each.valid === false).length;
        update(demonstrations.slice(0, shown));
        more.hidden = demonstrations.length <= shown;
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
 */
function demoLine(app, index, chosen) {
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
    line.node.prepend(select);
    line.node.append(weight, remove);

    return {
        node: line.node,
        update(/** @type {Demonstration} */ demonstration) {
            const judged = sync.check.get()?.demonstrations[index];
            line.show(demonstration, judged, "valid");
            const name = `demonstration ${nameOf(demonstration, index)}`;
            select.setAttribute("aria-label", `Select ${name}`);
            weight.setAttribute("aria-label", `Weight of ${name}`);
            remove.setAttribute("aria-label", `Delete ${name}`);
            select.checked = chosen.get().has(index);
            show(weight, demonstration.weight ?? 1);
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
