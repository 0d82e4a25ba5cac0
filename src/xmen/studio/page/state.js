/**
 * What changes and is listened to: single values, and the document with its past and future.
 *
 * @typedef {import("./types.js").Document} Document
 * @typedef {{document: Document, what: string}} Step
 */

/**
 * A value that others can listen to.
 *
 * @template T
 * @typedef {object} Signal
 * @property {() => T} get
 * @property {(value: T) => void} set
 * @property {(listener: (value: T, old: T) => void) => void} on  Called after every change, and once at once.
 */

/**
 * @template T
 * @param {T} value
 * @returns {Signal<T>}
 */
export function signal(value) {
    /** @type {((value: T, old: T) => void)[]} */
    const listeners = [];
    return {
        get: () => value,
        set(next) {
            if (Object.is(next, value)) return;
            const old = value;
            value = next;
            for (const listener of listeners) listener(next, old);
        },
        on(listener) {
            listeners.push(listener);
            listener(value, value);
        },
    };
}

/**
 * Many calls in one frame become one, before the frame is drawn.
 *
 * @param {() => void} work
 * @returns {() => void}
 */
export function oncePerFrame(work) {
    let waiting = false;
    return () => {
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            work();
        });
    };
}

const STEPS = 500; // of undo: a document shares with the one before whatever did not change

/**
 * The document with its past and future.
 *
 * @param {Document} first
 */
export function makeHistory(first) {
    const document = signal(first);
    /** @type {Step[]} */
    let past = [];
    /** @type {Step[]} */
    let future = [];
    /** @type {string | null} */
    let open = null; // the stroke or text that is being edited: its changes are one step
    const steps = signal({ undo: "", redo: "" });

    const tell = () => steps.set({ undo: past.at(-1)?.what ?? "", redo: future.at(-1)?.what ?? "" });

    /** Take a step back or forward: the document as it is now can be had by the step in the other direction. */
    function step(/** @type {Step[]} */ from, /** @type {Step[]} */ to) {
        const taken = from.pop();
        if (!taken) return;
        open = null;
        to.push({ document: document.get(), what: taken.what });
        document.set(taken.document);
        tell();
    }

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
        undo: () => step(past, future),
        redo: () => step(future, past),
    };
}

/** @typedef {ReturnType<typeof makeHistory>} History */
