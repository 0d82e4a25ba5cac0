import { button, h, rows } from "../dom.js";
import { addRule } from "../edits.js";
import { ruleLine } from "./rule_line.js";
import { mountTemplates } from "./templates.js";

/** The rules, one line each, and templates for more. @typedef {import("../types.js").App} App */

/** @param {HTMLElement} root @param {App} app */
export function mountRules(root, app) {
    const { history, sync } = app;
    const list = h("ol", { class: "rules plain" });
    const empty = h("p", { class: "hint" }, "No rules yet: every trajectory counts. Add one, or take a template.");
    /** @type {ReturnType<typeof ruleLine>[]} */
    const lines = [];
    const update = rows(list, (index) => (lines[index] = ruleLine(app, index)));
    const add = button("Add a rule", () => {
        history.edit("add a rule", (document) => addRule(document, "", "new rule"));
        const input = list.lastElementChild?.querySelector("input.code");
        if (input instanceof HTMLInputElement) input.focus();
    });
    const templates = h("details", { class: "templates" }, h("summary", {}, "Templates"));
    root.append(list, empty, h("div", { class: "actions" }, add), templates);
    mountTemplates(templates, app);

    history.document.on(({ problem }, old) => {
        const rules = problem.constraints ?? [];
        empty.hidden = rules.length > 0;
        if (problem === old.problem && lines.length) return;
        update(rules);
    });
    sync.check.on(() =>
        (history.document.get().problem.constraints ?? []).forEach((rule, index) => lines[index]?.judge(rule)),
    );
}
