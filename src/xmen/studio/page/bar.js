import { ApiError, request, sentence } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, h } from "./dom.js";

/** The top of the page: which file, undo and redo, save, and the same in Python. @typedef {import("./types.js").App} App */

/** @param {HTMLElement} root @param {App} app @param {string} file @param {string} folder */
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
