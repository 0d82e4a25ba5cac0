import { button, freshId, h, show } from "../dom.js";
import { changeRule, removeRule } from "../edits.js";
import { count } from "../words.js";
import { completed } from "./completion.js";

/**
 * One rule: a switch, its name, its text with completion, and under it what is wrong with it.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Rule} Rule
 */

/**
 * The caret under a text in a fixed-width font, where its mistake is.
 *
 * @param {HTMLElement} line @param {HTMLInputElement} input @param {number | null | undefined} offset
 */
export function placeCaret(line, input, offset) {
    line.hidden = offset === null || offset === undefined;
    line.textContent = "^";
    line.style.paddingLeft = `calc(${offset ?? 0}ch - ${input.scrollLeft}px)`;
}

/** @param {App} app @param {number} index */
export function ruleLine(app, index) {
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
        const breaking = check.demonstrations.flatMap((each, number) =>
            each.broken.some((one) => one.rule === rule.name) ? [number + 1] : [],
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

/** A few numbers, and how many more. */
function several(/** @type {number[]} */ all) {
    const shown = all.slice(0, 5).join(", ");
    return all.length > 5 ? `${shown} and ${all.length - 5} more` : shown;
}
