import { button, dress, fillSelect, freshId, h, rows, show } from "../dom.js";
import { addRule, changeRule, readRule, removeRule, writeRule } from "../edits.js";
import { count, nameOf, worth } from "../words.js";
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
    const judge = () =>
        (history.document.get().problem.constraints ?? []).forEach((rule, index) => lines[index]?.judge(rule));
    sync.check.on(judge);
    app.jobs.of("learn").on(judge);
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
        oninput: () => rewrite("text of a rule", { text: text.value }, `text ${index}`),
    });
    const force = h(
        "select",
        {
            class: "force",
            onchange: () => rewrite("must or usually", { force: read().force === "must" ? "learned" : "must" }),
        },
        h("option", { value: "must" }, "must"),
        h("option", { value: "usually" }, "usually"),
    );
    const often = h(
        "select",
        {
            onchange: () => {
                const chosen = /** @type {import("../edits.js").Force} */ (often.value);
                rewrite("how often a rule is kept", { force: chosen, number: chosen === "share" ? 0.9 : 1 });
            },
        },
        ...Object.entries(OFTEN).map(([value, label]) => h("option", { value }, label)),
    );
    const number = h("input", {
        type: "number",
        step: "any",
        required: true,
        onchange: () => {
            if (!number.reportValidity()) return;
            const value = Number(number.value);
            rewrite("how often a rule is kept", {
                number: read().force === "share" ? Number((value / 100).toPrecision(12)) : value,
            });
        },
    });
    const unit = h("span", { class: "hint" });
    const how = h("div", { class: "often" }, often, number, unit);
    const remove = button("✕", () => history.edit("delete a rule", (document) => removeRule(document, index)), {
        class: "quiet",
        title: "Delete this rule",
    });
    const caret = h("div", { class: "caret code", "aria-hidden": "true", hidden: true });
    const message = h("p", { class: "message", id: about });
    const node = h(
        "li",
        { class: "rule" },
        h("div", { class: "rule-head" }, off, name, h("span", {}, force, remove)),
        h("div", { class: "rule-text" }, ...completed(app, text), caret),
        how,
        message,
    );
    const read = () => readRule(history.document.get().problem.constraints?.[index]?.rule ?? "");
    /** Another text of this rule, with some of it changed. */
    function rewrite(
        /** @type {string} */ what,
        /** @type {Partial<import("../edits.js").Reading>} */ part,
        /** @type {string | null} */ stroke = null,
    ) {
        history.edit(
            what,
            (document) => changeRule(document, index, { rule: writeRule({ ...read(), ...part }) }),
            stroke,
        );
    }
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
        const { force: kept, before, text: inner } = readRule(rule.rule);
        const offset = mistake?.offset;
        node.classList.toggle("wrong", Boolean(mistake) || clash);
        message.classList.toggle("told", !mistake && !clash && kept !== "must");
        text.setAttribute("aria-invalid", mistake ? "true" : "false");
        placeCaret(
            caret,
            text,
            typeof offset === "number" ? Math.max(0, Math.min(offset - before, inner.length)) : offset,
        );
        if (mistake) message.textContent = mistake.message;
        else if (clash)
            message.textContent = `Cannot hold together with ${
                check.conflict
                    .filter((each) => each !== rule.name)
                    .map((each) => `“${each}”`)
                    .join(", ") || "the world"
            }.`;
        else if (kept !== "must" && !rule.off) message.textContent = usual(app, rule, kept);
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
            const { force: kept, number: value, text: inner } = readRule(rule.rule);
            force.value = kept === "must" ? "must" : "usually";
            force.setAttribute("aria-label", `Whether rule “${rule.name}” is kept`);
            how.hidden = kept === "must";
            if (kept !== "must") often.value = kept;
            often.setAttribute("aria-label", `How often rule “${rule.name}” is kept`);
            number.hidden = value === null;
            number.setAttribute("aria-label", kept === "share" ? "Kept by so many per cent" : "Weight in nats");
            dress(number, kept === "share" ? { min: 0.01, max: 99.99 } : { min: null, max: null });
            show(number, value === null ? "" : kept === "share" ? Number((100 * value).toPrecision(12)) : value);
            unit.textContent = value === null ? "" : kept === "share" ? "%" : `${worth(value)}.`;
            show(name, rule.name);
            show(text, inner);
            judge(rule);
        },
    };
}

/** How often a rule that is usually kept is kept. @type {Record<string, string>} */
const OFTEN = { learned: "as often as demonstrated", share: "in this share", weight: "with this weight" };

/**
 * What is known of a rule that is usually kept: how many demonstrations keep it, and what was learned.
 *
 * @param {App} app @param {Rule} rule @param {import("../edits.js").Force} force
 */
function usual({ sync, jobs, history }, rule, force) {
    const { demonstrations } = history.document.get();
    const judged = (sync.check.get()?.demonstrations ?? []).filter(
        (each, index) => each.valid && !demonstrations[index]?.states.includes(null),
    );
    const kept = judged.filter((each) => !each.not_kept?.includes(rule.name)).length;
    const says = judged.length ? [`Kept by ${kept} of ${count(judged.length, "demonstration")}.`] : [];
    if (force === "learned" && judged.length && kept === judged.length)
        says.push("How strong it is cannot be learned from that: better make it a must.");
    else if (force === "learned" && judged.length && !kept)
        says.push("How strong it is cannot be learned from that: better switch it off.");
    /** @type {import("../types.js").Learned | undefined} */
    const model = jobs.of("learn").get().result?.model;
    const found = model?.rules.find((each) => each.rule === rule.name);
    if (found && force !== "weight") says.push(`${worth(found.weight)}, as learned.`);
    return says.join(" ");
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
