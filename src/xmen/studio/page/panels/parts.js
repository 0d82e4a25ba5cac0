import { button, dress, field, fillSelect, h, rows, show } from "../dom.js";
import { withPart } from "../edits.js";
import { CANCELLED } from "../server.js";
import { count, nameOf, unexplained, why } from "../words.js";

/**
 * What several panels are made of: controls of what a document says, each of which shows what is there and makes an
 * edit of an answer; where a text is wrong; how a job stands; a row for a trajectory.
 *
 * @typedef {import("../server.js").JobState} JobState
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Broken} Broken
 * @typedef {import("../types.js").Document} Document
 * @typedef {"world" | "settings" | "studio"} Part
 */

/** What the problem says under a part and a key. @returns {any} */
function said(/** @type {Document} */ { problem }, /** @type {Part} */ part, /** @type {string} */ key) {
    return /** @type {Record<string, unknown>} */ (problem[part] ?? {})[key];
}

/**
 * A number, taken over when it is one.
 *
 * @param {App} app
 * @param {string} label
 * @param {Record<string, string | number>} range  attributes of the input; with `empty`, no number is an answer too
 * @param {(document: Document) => number | null | undefined} read
 * @param {(document: Document, value: number | null) => Document} write
 * @param {string} [hint]
 */
export function numberInput(app, label, range, read, write, hint) {
    const input = h("input", {
        type: "number",
        ...range,
        onchange: () => {
            if (input.value === "" && range.empty === undefined)
                return show(input, read(app.history.document.get()) ?? "");
            if (!input.reportValidity()) return;
            const value = input.value === "" ? null : Number(input.value);
            app.history.edit(label.toLowerCase(), (document) => write(document, value));
        },
    });
    app.history.document.on((document) => show(input, read(document) ?? ""));
    return field(label, input, hint);
}

/**
 * The number under a part and a key, `usual` where nothing is said.
 *
 * @param {App} app
 * @param {string} label
 * @param {[Part, string]} where
 * @param {number | undefined} usual
 * @param {Record<string, string | number>} range  as of `numberInput`
 * @param {string} [hint]
 */
export function numberField(app, label, [part, key], usual, range, hint) {
    return numberInput(
        app,
        label,
        range,
        (document) => said(document, part, key) ?? usual,
        (document, value) => withPart(document, part, { [key]: value ?? usual }),
        hint,
    );
}

/**
 * A choice of words under a part and a key, with a sentence on the chosen one.
 *
 * @param {App} app
 * @param {string} label
 * @param {[Part, string]} where
 * @param {string} usual
 * @param {import("../types.js").Word[]} words
 */
export function wordField(app, label, [part, key], usual, words) {
    const { history } = app;
    const options = words.map((word) => ({ value: word.name, label: word.label ?? word.name }));
    const choose = (/** @type {Document} */ document) => withPart(document, part, { [key]: select.value });
    const select = h("select", { onchange: () => history.edit(label.toLowerCase(), choose) });
    history.document.on((document) => {
        const chosen = said(document, part, key) ?? usual;
        fillSelect(select, options, chosen);
        select.title = words.find((word) => word.name === chosen)?.sentence ?? "";
    });
    return field(label, select);
}

/**
 * Boxes to tick, for names.
 *
 * @param {HTMLElement} root
 * @param {(chosen: string[]) => void} change  called with what is chosen from then on
 * @param {boolean} [some]  whether one has to be chosen
 * @returns {(offered: {name: string, sentence?: string, label?: string}[], chosen: string[]) => void} shows them; label: for
 *     screen readers, if not the name
 */
export function tickBoxes(root, change, some = false) {
    /** @type {string[]} */
    let ticked = [];
    const update = rows(root, () => {
        const others = () => ticked.filter((each) => each !== box.value);
        const box = h("input", {
            type: "checkbox",
            onchange: () => change(box.checked ? [...ticked, box.value] : others()),
        });
        const words = h("span");
        const node = h("label", { class: "check" }, box, words);
        return {
            node,
            update({ name, sentence, label }) {
                dress(box, { value: name, "aria-label": label });
                dress(node, { title: sentence });
                words.textContent = name;
                box.checked = ticked.includes(name);
                box.disabled = some && box.checked && ticked.length === 1;
            },
        };
    });
    return (offered, chosen) => {
        ticked = chosen;
        update(offered);
    };
}

/**
 * The caret under a text in a fixed-width font, where its mistake is.
 *
 * @param {HTMLElement} line @param {HTMLInputElement} input @param {number | null | undefined} offset
 */
export function placeCaret(line, input, offset) {
    line.hidden = offset === null || offset === undefined;
    line.textContent = "^";
    line.style.paddingLeft = `calc(${offset ?? 0}ch - ${input.scrollLeft}px)`;
}

/**
 * A line on how a job stands: what it does, what went wrong, or what came of it; read out when it changes.
 *
 * @param {import("../state.js").Signal<JobState>} job
 * @param {(state: JobState) => string} doing
 * @param {(state: JobState) => string} [done]
 */
export function progressLine(job, doing, done = () => "") {
    const line = h("p", { class: "hint", role: "status" });
    job.on((state) => {
        const so = [state.remark, done(state)].filter(Boolean).join(" ");
        line.textContent = state.running ? doing(state) : state.message || so;
        line.classList.toggle("error", !state.running && !["", CANCELLED].includes(state.message));
    });
    return line;
}

/**
 * What a panel needs and does not have yet, with a way to it; hidden when nothing is missing.
 *
 * @param {App} app
 * @param {() => [string, string, string] | null} missing  a sentence, what to do, and the tab where it is done
 */
export function missingLine(app, missing) {
    const line = h("p", { class: "hint empty" });
    const draw = () => {
        const found = missing();
        line.hidden = !found;
        if (!found || line.dataset.says === found.join()) return;
        const [sentence, what, tab] = found;
        line.dataset.says = found.join();
        line.replaceChildren(
            `${sentence} `,
            button(what, () => app.tab.set(tab), { class: "link" }),
        );
    };
    app.history.document.on(draw);
    app.sync.check.on(draw);
    app.jobs.of("learn").on(draw);
    return line;
}

/** What is missing to learn from demonstrations. @param {App} app @returns {[string, string, string] | null} */
export function noDemonstrations({ history, sync }) {
    const judged = sync.check.get()?.demonstrations ?? [];
    if (!history.document.get().demonstrations.length)
        return ["There are no demonstrations yet.", "Draw or import some", "demonstrations"];
    if (judged.length && judged.every((each) => each.valid === false))
        return ["Every demonstration breaks a rule.", "See which", "demonstrations"];
    return null;
}

/**
 * The button that starts a job, where all its inputs are valid, and the one that cancels it.
 *
 * @param {import("../server.js").Jobs} jobs
 * @param {string} kind
 * @param {string} label
 * @param {HTMLInputElement[]} inputs
 * @param {() => object} options  of the job
 * @param {string} [look]
 */
export function jobButtons(jobs, kind, label, inputs, options, look = "main") {
    const valid = () => inputs.every((input) => input.reportValidity());
    const start = button(label, () => valid() && jobs.start(kind, options()), { class: look });
    const stop = button("Cancel", () => jobs.cancel(kind));
    jobs.busy.on((busy) => {
        start.disabled = busy !== null;
        stop.disabled = busy !== kind;
    });
    return { start, stop };
}

/**
 * A row for a trajectory, which stands in front on the map while the pointer or the focus is on its row.
 *
 * @param {import("../map/view.js").MapView} map
 * @param {number} index
 */
export function trajectoryLine(map, index) {
    /** @type {import("../types.js").Front | null} */
    let shown = null;
    const title = button("", () => {}, { class: "link" });
    const reason = h("span", { class: "reason" });
    const node = h("li", { class: "demo" }, title, reason);
    const front = () => {
        map.front.set(shown);
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
        /**
         * @param {{states: (import("../types.js").StateName | null)[], actions: unknown[], name?: string}} trajectory
         * @param {import("../types.js").Verdict | undefined} judged  undefined: not yet
         * @param {string} good  what is said of a valid one
         */
        show({ states, actions, name }, judged, good) {
            shown = { states, broken: judged?.broken ?? [] };
            const seen = states.filter((state) => state !== null).length;
            const long = seen < states.length ? `${seen} of ${states.length} seen` : count(actions.length, "move");
            title.textContent = `${nameOf({ name }, index)}: ${long}`;
            const but = (judged?.not_kept ?? []).map((rule) => `“${rule}”`).join(" and ");
            const praise = [good, but && `does not keep ${but}`].filter(Boolean).join("; ");
            const blame = seen < states.length ? unexplained : why;
            reason.textContent = !judged ? "" : judged.valid ? praise : blame(judged.broken);
            node.classList.toggle("invalid", judged?.valid === false);
        },
    };
}
