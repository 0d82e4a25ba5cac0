import { h, show } from "../dom.js";

/**
 * A number of the document: shown as it is, and taken over when it is one.
 *
 * @typedef {import("../types.js").Document} Document
 * @param {import("../types.js").App} app
 * @param {string} what
 * @param {Record<string, string | number>} range  attributes of the input; with `empty`, no number is an answer too
 * @param {(document: Document) => number | null | undefined} read
 * @param {(document: Document, value: number | null) => Document} write
 */
export function numberInput(app, what, range, read, write) {
    const input = h("input", {
        type: "number",
        ...range,
        onchange: () => {
            if (input.value === "" && range.empty === undefined)
                return show(input, read(app.history.document.get()) ?? "");
            if (!input.reportValidity()) return;
            app.history.edit(what, (document) => write(document, input.value === "" ? null : Number(input.value)));
        },
    });
    app.history.document.on((document) => show(input, read(document) ?? ""));
    return input;
}
