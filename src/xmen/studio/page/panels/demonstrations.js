import { request, sentence } from "../api.js";
import { h, rows, show } from "../dom.js";
import { addDemonstrations, removeDemonstrations, weighDemonstrations } from "../edits/demonstrations.js";
import { download } from "../files.js";
import { signal } from "../signal.js";
import { count, why } from "../words.js";

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
    const more = h("button", { type: "button", onclick: () => ((shown += 5 * PAGE), refresh()) }, "Show more");

    const weight = h("input", { type: "number", min: 0, step: "any", value: 1, "aria-label": "Weight of the selected demonstrations" });
    const all = h("input", { type: "checkbox", "aria-label": "Select all demonstrations", onchange: () =>
        chosen.set(new Set(all.checked ? history.document.get().demonstrations.keys() : [])) });
    const invalid = h("button", { type: "button", onclick: () => {
        const broken = (sync.check.get()?.demonstrations ?? []).flatMap((each, index) => (each.valid === false ? [index] : []));
        chosen.set(new Set(broken));
    } }, "Select invalid ones");
    const weigh = h("button", { type: "button", onclick: () => weight.reportValidity() && history.edit("weigh demonstrations",
        (document) => weighDemonstrations(document, chosen.get(), Number(weight.value))) }, "Set weight");
    const remove = h("button", { type: "button", onclick: () => {
        history.edit("delete demonstrations", (document) => removeDemonstrations(document, chosen.get()));
        chosen.set(new Set());
    } }, "Delete");
    root.append(h("div", { class: "actions" }, fileButtons(app)), summary,
        h("div", { class: "actions selection" }, h("label", { class: "check" }, all, "All"), invalid, weight, weigh, remove), list, more);

    function refresh() {
        const { demonstrations } = history.document.get();
        const judged = sync.check.get()?.demonstrations ?? [];
        const bad = judged.filter((each) => each.valid === false).length;
        update(demonstrations.slice(0, shown));
        more.hidden = demonstrations.length <= shown;
        invalid.disabled = !bad;
        for (const button of [weigh, remove]) button.disabled = !chosen.get().size;
        all.checked = chosen.get().size > 0 && chosen.get().size === demonstrations.length;
        const picked = chosen.get().size ? `, ${chosen.get().size} selected` : "";
        summary.textContent = demonstrations.length
            ? `${count(demonstrations.length, "demonstration")}, ${bad ? `${bad} of them invalid` : "all valid"}${picked}.`
            : "None yet: choose Draw above the map and drag from the start to the goal.";
        if (app.tab.get() === "demonstrations") map.many.set(demonstrations.map((each, index) =>
            ({ states: each.states, tone: judged[index]?.valid === false ? "bad" : "plain" })));
    }
    history.document.on((next, old) => {
        if (next.demonstrations.length < old.demonstrations.length) chosen.set(new Set());
        if (next.demonstrations !== old.demonstrations || !list.children.length) refresh();
    });
    sync.check.on(refresh);
    chosen.on(refresh);
    app.tab.on(refresh);
}

/** @param {App} app @param {number} index @param {import("../signal.js").Signal<Set<number>>} chosen */
function demoLine(app, index, chosen) {
    const { history, sync, map } = app;
    const number = index + 1;
    const select = h("input", { type: "checkbox", "aria-label": `Select demonstration ${number}`, onchange: () => {
        const next = new Set(chosen.get());
        if (select.checked) next.add(index);
        else next.delete(index);
        chosen.set(next);
    } });
    const weight = h("input", { type: "number", min: 0, step: "any", class: "weight", "aria-label": `Weight of demonstration ${number}`, onchange: () =>
        weight.reportValidity() && history.edit("weigh a demonstration", (document) => weighDemonstrations(document, new Set([index]), Number(weight.value))) });
    const title = h("button", { type: "button", class: "link" });
    const reason = h("span", { class: "reason" });
    const remove = h("button", { type: "button", class: "quiet", "aria-label": `Delete demonstration ${number}`, onclick: () =>
        history.edit("delete a demonstration", (document) => removeDemonstrations(document, new Set([index]))) }, "✕");
    const node = h("li", { class: "demo" }, select, title, reason, weight, remove);

    const front = () => {
        const demonstration = history.document.get().demonstrations[index];
        if (demonstration) map.front.set({ states: demonstration.states, broken: sync.check.get()?.demonstrations[index]?.broken ?? [] });
        node.classList.add("open");
    };
    const behind = () => {
        if (node.matches(":hover") || node.contains(document.activeElement)) return;
        map.front.set(null);
        node.classList.remove("open");
    };
    for (const name of ["pointerenter", "focusin", "click"]) node.addEventListener(name, front);
    for (const name of ["pointerleave", "focusout"]) node.addEventListener(name, () => setTimeout(behind));

    return {
        node,
        update(/** @type {Demonstration} */ demonstration) {
            const judged = sync.check.get()?.demonstrations[index];
            title.textContent = `${number}: ${count(demonstration.actions.length, "move")}`;
            reason.textContent = !judged ? "" : judged.valid ? "valid" : why(judged.broken);
            node.classList.toggle("invalid", judged?.valid === false);
            select.checked = chosen.get().has(index);
            show(weight, demonstration.weight ?? 1);
        },
    };
}

/** Read and write CSV. @param {App} app */
function fileButtons(app) {
    const { history, say } = app;
    const file = h("input", { type: "file", accept: ".csv,text/csv", hidden: true, "aria-label": "CSV file with demonstrations", onchange: async () => {
        const [one] = file.files ?? [];
        file.value = "";
        if (!one) return;
        try {
            const { demonstrations } = await request("POST", "csv/read", { text: await one.text() });
            history.edit("import demonstrations", (document) => addDemonstrations(document, demonstrations));
            say(`${count(demonstrations.length, "demonstration")} imported.`);
        } catch (error) {
            say(sentence(error));
        }
    } });
    const write = async () => {
        try {
            const { text } = await request("POST", "csv/write", { demonstrations: history.document.get().demonstrations });
            download("demonstrations.csv", text);
        } catch (error) {
            say(sentence(error));
        }
    };
    return h("span", { class: "actions" }, file,
        h("button", { type: "button", onclick: () => app.tool.set("draw") }, "Draw"),
        h("button", { type: "button", onclick: () => file.click() }, "Import CSV"),
        h("button", { type: "button", onclick: write }, "Export CSV"));
}
