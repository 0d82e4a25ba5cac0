import { button, dress, h, openDialog } from "./dom.js";
import { ApiError, request, sentence } from "./server.js";
import { capital, count } from "./words.js";

/**
 * Around map and panels: the bar at the top, the tabs, and under the map what the rules leave.
 *
 * @typedef {import("./types.js").App} App
 * @typedef {import("./types.js").Check} Check
 */

/**
 * Which file, undo and redo, save, and the same in Python.
 *
 * @param {HTMLElement} root @param {App} app @param {string} file @param {string} folder
 */
export function mountBar(root, app, file, folder) {
    const { history, sync } = app;
    const state = h("span", { class: "state", role: "status" });
    const undo = button("Undo", history.undo, { "aria-keyshortcuts": "Control+Z" });
    const redo = button("Redo", history.redo, { "aria-keyshortcuts": "Control+Shift+Z" });
    const save = button("Save", () => write(), { class: "main", "aria-keyshortcuts": "Control+S" });
    const python = button("Python", () => showPython(app));
    root.append(
        h("h1", {}, "xmen studio"),
        h("span", { class: "file", title: folder }, file),
        state,
        h("span", { class: "actions" }, undo, redo, python, save),
    );

    history.steps.on(({ undo: last, redo: next }) => {
        undo.disabled = !last;
        redo.disabled = !next;
        undo.title = last ? `Undo: ${last}` : "";
        redo.title = next ? `Redo: ${next}` : "";
    });
    const tell = () => {
        const { version, saved, edited } = sync.versions.get();
        const away = sync.connection.get() === "away";
        state.textContent = away
            ? "The studio does not answer; your changes wait here."
            : !edited && saved === version
              ? "Saved"
              : "Not saved yet";
        state.classList.toggle("error", away);
    };
    sync.versions.on(tell);
    sync.connection.on(tell);

    async function write(force = false) {
        try {
            app.say(`Saved: ${(await sync.save(force)).join(", ")}.`);
        } catch (error) {
            if (!(error instanceof ApiError && error.data.on_disk)) return app.say(sentence(error));
            const replace = button("Replace it", () => write(true), { class: "main" });
            openDialog("The file has changed", [h("p", {}, `${sentence(error)}.`)], [replace]);
        }
    }

    document.addEventListener("keydown", (event) => {
        if (!(event.ctrlKey || event.metaKey)) return;
        const key = event.key.toLowerCase();
        if (key === "s") void write();
        else if (key === "z" && event.shiftKey) history.redo();
        else if (key === "y") history.redo();
        else if (key === "z") history.undo();
        else return;
        event.preventDefault();
    });
}

/** @param {App} app */
async function showPython(app) {
    let answer;
    try {
        await app.sync.flush();
        answer = await request("GET", "python");
    } catch (error) {
        return app.say(sentence(error));
    }
    const copy = async () => {
        try {
            await navigator.clipboard.writeText(answer.text);
            app.say("Copied.");
        } catch {
            getSelection()?.selectAllChildren(code);
            app.say("Press Ctrl+C to copy.");
        }
    };
    const code = h("pre", { tabindex: 0, "aria-label": "Python" }, answer.text);
    const note = answer.saved
        ? ""
        : h("p", { class: "hint" }, "It reads the saved file: save first, so that it does what you see.");
    openDialog("The same in Python", [note, code], [button("Copy", copy, { class: "main", "data-stays": true })]);
}

/**
 * Tabs with their panels, as the ARIA practices have them: one stop for the Tab key, arrows between them.
 *
 * @param {HTMLElement} root
 * @param {import("./state.js").Signal<string>} chosen
 * @param {{name: string, title: string}[]} titles
 * @returns {HTMLElement[]} the panels
 */
export function mountTabs(root, chosen, titles) {
    const bar = h("div", { class: "tabs", role: "tablist", "aria-label": "What to work on" });
    const panels = titles.map(({ name }) =>
        h("section", {
            role: "tabpanel",
            id: `panel-${name}`,
            class: "panel",
            "aria-labelledby": `tab-${name}`,
            tabindex: 0,
        }),
    );
    const names = titles.map(({ name }) => name);
    const buttons = titles.map(({ name, title }) =>
        button(title, () => chosen.set(name), { role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` }),
    );
    bar.append(...buttons);
    root.append(bar, ...panels);
    bar.addEventListener("keydown", (event) => {
        const at = names.indexOf(chosen.get());
        const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[
            event.key
        ];
        if (next === undefined) return;
        event.preventDefault();
        chosen.set(String(names[next % names.length]));
        buttons[next % names.length]?.focus();
    });
    chosen.on((name) => {
        buttons.forEach((each, index) => {
            const on = names[index] === name;
            dress(each, { "aria-selected": String(on), tabindex: on ? 0 : -1 });
            panels[index]?.toggleAttribute("hidden", !on);
        });
    });
    return panels;
}

/** The tab on which a part of the problem is edited, and what it is called there. @type {Record<string, [string, string]>} */
const PARTS = {
    world: ["world", "World"],
    settings: ["world", "World"],
    event: ["world", "Mark"],
    rule: ["rules", "Rule"],
    reward: ["learn", "The reward"],
    studio: ["learn", "Learn"],
};

/**
 * What can still happen under the rules: shown under the map, and read out when it changes.
 *
 * @param {HTMLElement} root @param {App} app
 */
export function mountStatus(root, app) {
    const verdict = h("p", { class: "verdict", role: "status" });
    const detail = h("p", { class: "detail" });
    const list = h("ul", { class: "mistakes" });
    root.append(verdict, detail, list);

    const wait = (/** @type {boolean} */ on) => root.classList.toggle("waiting", on);
    app.history.document.on((next, old) => next !== old && wait(true));
    app.sync.check.on((check) => {
        wait(!check || app.sync.versions.get().edited);
        root.dataset.feasible = String(check?.feasible ?? "");
        root.dataset.version = String(check?.version ?? "");
        if (!check) return verdict.replaceChildren("Counting trajectories …");
        verdict.replaceChildren(...headline(check, app));
        detail.textContent = small(check);
        list.replaceChildren(
            ...check.errors.map((mistake) => h("li", { class: "error" }, ...wrong(mistake, app), mistake.message)),
            ...check.notes.map((note) => h("li", {}, note)),
        );
    });
}

/** Where a mistake is, as a way to go there. @param {import("./types.js").Mistake} mistake @param {App} app */
function wrong({ part, index, name }, app) {
    const { constraints = [], events } = app.history.document.get().problem;
    const place = PARTS[part];
    if (!place) return [`${name ?? part}: `];
    const [tab, title] = place;
    const called = part === "rule" ? constraints[index ?? 0]?.name : name;
    const row = part === "rule" ? index : [...events.keys()].indexOf(name ?? "");
    return [button(called ? `${title} “${called}”` : title, () => goTo(app, tab, row ?? -1), { class: "link" }), ": "];
}

/** Go to a tab and there to a rule or a mark, by its row. */
function goTo(/** @type {App} */ app, /** @type {string} */ tab, /** @type {number} */ row) {
    app.tab.set(tab);
    const line = document.querySelectorAll(`#panel-${tab} :is(.rule, .mark)`)[row];
    const [first, second] = line?.querySelectorAll("input.code") ?? [];
    const input = second?.matches(":not([hidden])") ? second : first;
    if (input instanceof HTMLInputElement) input.focus();
}

/** @param {Check} check @param {App} app @returns {(Node | string)[]} */
function headline(check, app) {
    const { feasible, conflict, trajectories } = check;
    const rules = (app.history.document.get().problem.constraints ?? []).map((rule) => rule.name);
    if (feasible === null) return [h("strong", { class: "open" }, "Not decided."), ` ${check.message}`];
    if (!feasible) {
        const names = conflict.flatMap((name, index) => [
            index ? " and " : "",
            button(name, () => goTo(app, "rules", rules.indexOf(name)), { class: "link" }),
        ]);
        const why = names.length ? [" These rules cannot hold together: ", ...names, "."] : [` ${check.message}`];
        return [h("strong", { class: "no" }, "Impossible."), ...why];
    }
    if (!trajectories?.text) return [h("strong", { class: "yes" }, "Possible."), " Some trajectory keeps every rule."];
    const share = trajectories.share_text && ` (${trajectories.share_text.replace(" ", "\u00a0")})`;
    const counts = ` ${capital(trajectories.text)} trajectories keep every rule${share}.`;
    return [h("strong", { class: "yes" }, "Possible."), counts];
}

function small(/** @type {Check} */ check) {
    const parts = [];
    if (check.product && !check.message.includes("nodes"))
        parts.push(
            `Product of world and rules: ${count(check.product.nodes, "node")}, ${count(check.product.edges, "edge")}`,
        );
    if (check.engine)
        parts.push(`Engine ${check.engine}${check.message && check.feasible ? `: ${check.message}` : ""}`);
    if (check.policy) parts.push(promise(check.policy));
    return parts.map((part) => part.replace(/[^.]$/, "$&.")).join(" ");
}

/** @param {{sure: boolean, best: number | null}} policy */
function promise({ sure, best }) {
    if (sure) return "A policy keeps every rule surely, whatever chance does";
    return best === null
        ? "No policy keeps every rule surely"
        : `A policy keeps every rule with probability ${best.toPrecision(4)} at best`;
}
