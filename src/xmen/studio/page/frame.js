import { button, dress, field, h, openDialog } from "./dom.js";
import { readRule } from "./edits.js";
import { ApiError, request, sentence } from "./server.js";
import { capital, count, HOW } from "./words.js";

/**
 * Around map and panels: the bar at the top, the tabs, and under the map what the rules leave.
 *
 * @typedef {import("./types.js").App} App
 * @typedef {import("./types.js").Check} Check
 */

/**
 * Which file, undo and redo, another problem, save, and the same in Python.
 *
 * @param {HTMLElement} root @param {App} app @param {string} folder
 */
export function mountBar(root, app, folder) {
    const { history, sync } = app;
    const state = h("span", { class: "state", role: "status" });
    const undo = button("Undo", history.undo, { "aria-keyshortcuts": "Control+Z" });
    const redo = button("Redo", history.redo, { "aria-keyshortcuts": "Control+Shift+Z" });
    const save = button("Save", () => write(), { class: "main", "aria-keyshortcuts": "Control+S" });
    const python = button("Python", () => showPython(app));
    const file = h("span", { class: "file", title: folder });
    const fresh = button("New …", () => askForNew(app));
    const saveAs = button("Save as …", () => askForName(app, write));
    root.append(
        h("h1", {}, "xmen studio"),
        file,
        state,
        h("span", { class: "actions" }, undo, redo, fresh, python, saveAs, save),
    );
    sync.file.on((name) => (file.textContent = name));

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

    async function write(force = false, /** @type {string | null} */ name = null) {
        try {
            app.say(`Saved: ${(await sync.save(force, name)).join(", ")}.`);
        } catch (error) {
            if (!(error instanceof ApiError && error.data.on_disk)) return app.say(sentence(error));
            const replace = button("Replace it", () => write(true, name), { class: "main" });
            openDialog("There is such a file", [h("p", {}, `${sentence(error)}.`)], [replace]);
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

/** @param {App} app @param {(force: boolean, name: string) => unknown} write */
function askForName(app, write) {
    const name = h("input", { value: app.sync.file.get().replace(/\.toml$/, "-2.toml"), required: true });
    const save = button("Save", () => write(false, name.value), { class: "main" });
    const says = "Problem and demonstrations go into files of this name, in the same folder; the first ones stay.";
    openDialog("Save as", [h("p", { class: "hint" }, says), field("Name of the file", name)], [save]);
    name.select();
}

/** An empty problem in place of this one. @param {App} app */
function askForNew({ sync, vocabulary }) {
    const { version, saved, edited } = sync.versions.get();
    const most = vocabulary.limits.cells ?? 40000;
    const name = h("input", { value: "plan.toml", required: true });
    const [width, height] = [10, 8].map((value) => h("input", { type: "number", min: 1, max: most, value }));
    const begin = async () => {
        if (![name, width, height].every((input) => input?.reportValidity())) return;
        try {
            const size = { width: Number(width?.value), height: Number(height?.value) };
            await request("POST", "new", { name: name.value, ...size });
            location.reload();
        } catch (error) {
            wrong.textContent = sentence(error);
        }
    };
    const wrong = h("p", { class: "message", role: "alert" });
    const lost = h("p", { class: "error" }, `${sync.file.get()} has changes that were not saved: they are lost.`);
    lost.hidden = !edited && saved === version;
    const says = "An empty grid in place of this problem, saved under this name in the same folder.";
    openDialog(
        "New problem",
        [
            h("p", { class: "hint" }, says),
            lost,
            h("div", { class: "fields" }, field("Name of the file", name)),
            h(
                "div",
                { class: "fields" },
                ...[width, height].flatMap((input, index) =>
                    input ? [field(index ? "Cells from bottom to top" : "Cells from left to right", input)] : [],
                ),
            ),
            wrong,
        ],
        [button("Begin", begin, { class: "main", "data-stays": true })],
    );
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
    const sizes = h("p", { class: "detail" });
    const more = h("details", { class: "detail" }, h("summary", {}, "How large that is"), sizes);
    const list = h("ul", { class: "mistakes" });
    root.append(verdict, detail, list, more);

    const wait = (/** @type {boolean} */ on) => root.classList.toggle("waiting", on);
    app.history.document.on((next, old) => next !== old && wait(true));
    app.sync.check.on((check) => {
        wait(!check || app.sync.versions.get().edited);
        root.dataset.feasible = String(check?.feasible ?? "");
        root.dataset.version = String(check?.version ?? "");
        if (!check) return verdict.replaceChildren("Counting trajectories …");
        verdict.replaceChildren(...headline(check, app));
        detail.textContent = small(check);
        sizes.textContent = technical(check);
        more.hidden = !sizes.textContent;
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
    const number = trajectories.text.replace(/(\d)e\+?(\d+)/g, "$1 · 10^$2");
    const on = (app.history.document.get().problem.constraints ?? []).filter((rule) => !rule.off);
    const must = on.filter(({ rule }) => readRule(rule).force === "must").length;
    const every = must < on.length ? "every rule that must hold" : "every rule";
    const none = on.length ? "no rule must hold" : "there are no rules yet";
    const counts = must
        ? ` ${capital(number)} trajectories keep ${every}${share}.`
        : ` ${capital(number.split(" of ")[0] ?? "")} trajectories; ${none}.`;
    return [h("strong", { class: "yes" }, "Possible."), counts];
}

function small(/** @type {Check} */ check) {
    const counted = check.engine === "exact" && !check.trajectories?.text ? "" : HOW[check.engine ?? ""];
    const parts = [counted, check.policy ? promise(check.policy) : ""].filter(Boolean);
    return parts.map((part) => part?.replace(/[^.]$/, "$&.")).join(" ");
}

/** What whoever knows the library asks for. */
function technical(/** @type {Check} */ check) {
    const parts = [];
    if (check.product && !check.message.includes("nodes"))
        parts.push(
            `Product of world and rules: ${count(check.product.nodes, "node")}, ${count(check.product.edges, "edge")}.`,
        );
    if (check.engine)
        parts.push(`Engine ${check.engine}${check.message && check.feasible ? `: ${check.message}` : ""}.`);
    return parts.join(" ");
}

/** @param {{sure: boolean, best: number | null}} policy */
function promise({ sure, best }) {
    if (sure) return "A policy keeps every rule surely, whatever chance does";
    return best === null
        ? "No policy keeps every rule surely"
        : `A policy keeps every rule with probability ${best.toPrecision(4)} at best`;
}
