import { dress, field, fillSelect, h, rows, show } from "../dom.js";
import { withPart } from "../edits.js";

/**
 * Controls of what a document says: each shows what is there, and an answer is an edit.
 *
 * @typedef {import("../types.js").App} App
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
