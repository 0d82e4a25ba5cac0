import { signal } from "./signal.js";

/**
 * @typedef {import("./types.js").Document} Document
 * @typedef {import("./signal.js").Signal<Document>} DocumentSignal
 */

const STEPS = 500; // of undo: a document shares with the one before whatever did not change

/**
 * The document with its past and future.
 *
 * @param {Document} first
 */
export function makeHistory(first) {
    const document = signal(first);
    /** @type {{document: Document, what: string}[]} */
    let past = [];
    /** @type {{document: Document, what: string}[]} */
    let future = [];
    /** @type {string | null} */
    let open = null; // the stroke or text that is being edited: its changes are one step
    const steps = signal({ undo: "", redo: "" });

    const tell = () => steps.set({ undo: past.at(-1)?.what ?? "", redo: future.at(-1)?.what ?? "" });

    return {
        document,
        /** What undo and redo would do; empty where there is nothing. */
        steps,
        /**
         * Change the document. Changes with the same `stroke`, one after the other, are undone together.
         *
         * @param {string} what  For the button: "undo: paint walls".
         * @param {(old: Document) => Document} change
         * @param {string | null} [stroke]
         */
        edit(what, change, stroke = null) {
            const old = document.get();
            const next = change(old);
            if (next === old) return;
            if (stroke === null || stroke !== open) past.push({ document: old, what });
            if (past.length > STEPS) past.shift();
            open = stroke;
            future = [];
            document.set(next);
            tell();
        },
        /** End a stroke: the next change is a step of its own. */
        close() {
            open = null;
        },
        undo() {
            const step = past.pop();
            if (!step) return;
            open = null;
            future.push({ document: document.get(), what: step.what });
            document.set(step.document);
            tell();
        },
        redo() {
            const step = future.pop();
            if (!step) return;
            open = null;
            past.push({ document: document.get(), what: step.what });
            document.set(step.document);
            tell();
        },
    };
}

/** @typedef {ReturnType<typeof makeHistory>} History */
