import { request, sentence } from "../api.js";
import { h } from "../dom.js";
import { addDemonstrations } from "../edits/demonstrations.js";
import { download } from "../files.js";
import { count } from "../words.js";

/** Buttons to read demonstrations from CSV, and to write them. @param {import("../types.js").App} app */
export function csvButtons(app) {
    const { history, say } = app;
    const file = h("input", {
        type: "file",
        accept: ".csv,text/csv",
        hidden: true,
        "aria-label": "CSV file with demonstrations",
        onchange: async () => {
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
        },
    });
    const write = async () => {
        try {
            const { text } = await request("POST", "csv/write", {
                demonstrations: history.document.get().demonstrations,
            });
            download("demonstrations.csv", text);
        } catch (error) {
            say(sentence(error));
        }
    };
    return h(
        "span",
        { class: "actions" },
        file,
        h("button", { type: "button", onclick: () => file.click() }, "Import CSV"),
        h("button", { type: "button", onclick: write }, "Export CSV"),
    );
}
