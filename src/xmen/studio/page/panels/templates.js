import { button, fillSelect, h } from "../dom.js";
import { addRule } from "../edits.js";

/**
 * The palette: rules to begin from, each with its sentence and a choice of marks.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Template} Template
 */

const HOLES = ["a", "b", "c"];

/** @param {HTMLElement} root @param {App} app */
export function mountTemplates(root, app) {
    const list = h("ul", { class: "plain" });
    root.append(list);
    const cards = app.vocabulary.templates.map((template) => card(app, template));
    list.append(...cards.map((each) => each.node));
    app.history.document.on(({ problem }, old) => {
        if (problem.events === old.problem.events && list.dataset.filled) return;
        list.dataset.filled = "yes";
        for (const each of cards) each.update([...problem.events.keys()]);
    });
}

/** @param {App} app @param {Template} template */
function card(app, template) {
    const holes = HOLES.filter((hole) => template.rule.includes(`{${hole}}`));
    const selects = holes.map((hole) => h("select", { "aria-label": `${template.title}: mark ${hole}` }));
    const filled = (/** @type {string} */ pattern) =>
        holes.reduce((text, hole, index) => text.replaceAll(`{${hole}}`, selects[index]?.value || hole), pattern);
    const [sentence, rule] = [h("p"), h("code")];
    const show = () => {
        sentence.textContent = filled(template.sentence);
        rule.textContent = filled(template.rule);
    };
    for (const select of selects) select.addEventListener("change", show);
    const take = () => app.history.edit("add a rule", (document) => addRule(document, filled(template.rule)));
    const add = button("Add", take, { "aria-label": `Add “${template.title}”` });
    const node = h(
        "li",
        { class: "template" },
        h("div", {}, h("strong", {}, template.title), sentence, rule),
        h("div", { class: "holes" }, ...selects, add),
    );
    return {
        node,
        update(/** @type {string[]} */ marks) {
            const options = marks.map((name) => ({ value: name, label: name }));
            selects.forEach((select, index) => {
                const kept = marks.includes(select.value)
                    ? select.value
                    : (marks[Math.min(index, marks.length - 1)] ?? "");
                fillSelect(select, options, kept);
            });
            show();
            add.disabled = holes.length > 0 && !marks.length;
        },
    };
}
