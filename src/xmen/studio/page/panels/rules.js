import { button, fillSelect, freshId, h, rows, show } from "../dom.js";
import { addRule, changeRule, removeRule } from "../edits.js";
import { count, nameOf } from "../words.js";
import { completed } from "./completion.js";
import { missingLine, placeCaret } from "./parts.js";

/**
 * The rules, one line each, and templates for more.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Rule} Rule
 * @typedef {import("../types.js").Template} Template
 */

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
    const unmarked = missingLine(app, () =>
        history.document.get().problem.events.size
            ? null
            : ["Rules speak of marks, and there are none yet.", "Make a mark", "world"],
    );
    root.append(list, empty, unmarked, h("div", { class: "actions" }, add), templates);
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

/**
 * One rule: a switch, its name, its text with completion, and under it what is wrong with it.
 *
 * @param {App} app @param {number} index
 */
function ruleLine(app, index) {
    const { history, sync } = app;
    const about = freshId("about");
    const off = h("input", {
        type: "checkbox",
        class: "switch",
        role: "switch",
        onchange: () => history.edit("switch a rule", (document) => changeRule(document, index, { off: !off.checked })),
    });
    const name = h("input", {
        class: "rule-name",
        "aria-label": `Name of rule ${index + 1}`,
        spellcheck: "false",
        oninput: () =>
            history.edit(
                "name of a rule",
                (document) => changeRule(document, index, { name: name.value }),
                `name ${index}`,
            ),
    });
    const text = h("input", {
        class: "code",
        "aria-label": `Rule ${index + 1}`,
        "aria-describedby": about,
        spellcheck: "false",
        autocomplete: "off",
        placeholder: "never(lava)",
        oninput: () =>
            history.edit(
                "text of a rule",
                (document) => changeRule(document, index, { rule: text.value }),
                `text ${index}`,
            ),
    });
    const remove = button("✕", () => history.edit("delete a rule", (document) => removeRule(document, index)), {
        class: "quiet",
        title: "Delete this rule",
    });
    const caret = h("div", { class: "caret code", "aria-hidden": "true", hidden: true });
    const message = h("p", { class: "message", id: about });
    const node = h(
        "li",
        { class: "rule" },
        h("div", { class: "rule-head" }, off, name, remove),
        h("div", { class: "rule-text" }, ...completed(app, text), caret),
        message,
    );
    for (const input of [name, text]) input.addEventListener("blur", () => history.close());

    function judge(/** @type {Rule | undefined} */ rule) {
        const check = sync.check.get();
        if (!check || !rule) return;
        const mistake = check.errors.find((each) => each.part === "rule" && each.index === index);
        const clash = check.feasible === false && check.conflict.includes(rule.name) && !rule.off;
        const { demonstrations } = history.document.get();
        const breaking = check.demonstrations.flatMap((each, number) =>
            each.broken.some((one) => one.rule === rule.name) ? [nameOf(demonstrations[number], number)] : [],
        );
        node.classList.toggle("wrong", Boolean(mistake) || clash);
        text.setAttribute("aria-invalid", mistake ? "true" : "false");
        placeCaret(caret, text, mistake?.offset);
        if (mistake) message.textContent = mistake.message;
        else if (clash)
            message.textContent = `Cannot hold together with ${
                check.conflict
                    .filter((each) => each !== rule.name)
                    .map((each) => `“${each}”`)
                    .join(", ") || "the world"
            }.`;
        else if (breaking.length)
            message.textContent = `Broken by ${count(breaking.length, "demonstration")}: ${several(breaking)}.`;
        else message.textContent = "";
        message.hidden = !message.textContent;
    }

    return {
        node,
        judge,
        update(/** @type {Rule} */ rule) {
            node.dataset.rule = rule.name;
            node.classList.toggle("off", Boolean(rule.off));
            off.checked = !rule.off;
            off.setAttribute("aria-label", `Rule “${rule.name}” holds`);
            remove.setAttribute("aria-label", `Delete rule “${rule.name}”`);
            show(name, rule.name);
            show(text, rule.rule);
            judge(rule);
        },
    };
}

/** A few names, and how many more. */
function several(/** @type {string[]} */ all) {
    const shown = all.slice(0, 5).join(", ");
    return all.length > 5 ? `${shown} and ${all.length - 5} more` : shown;
}

const HOLES = ["a", "b", "c"];

/**
 * The palette: rules to begin from, each with its sentence and a choice of marks.
 *
 * @param {HTMLElement} root @param {App} app
 */
function mountTemplates(root, app) {
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
