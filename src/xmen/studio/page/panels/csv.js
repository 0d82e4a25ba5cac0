import { request, sentence } from "../api.js";
import { button, h } from "../dom.js";
import { addDemonstrations } from "../edits.js";
import { download } from "../files.js";
import { count } from "../words.js";

/** Buttons to read demonstrations from CSV, and to write them. @param {import("../types.js").App} app */
export function csvButtons(app) {
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
