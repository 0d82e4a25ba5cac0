import { button, h } from "../dom.js";
import { completed } from "./completion.js";

/**
 * Further rules that hold only for what is generated now: lines that can be switched on and off and are not saved.
 *
 * @param {import("../types.js").App} app
 * @returns {{node: HTMLElement, rules: () => string[]}}
 */
export function furtherRules(app) {
    const list = h("ul", { class: "plain" });
    const add = () => {
        const number = list.children.length + 1;
        const on = h("input", {
            type: "checkbox",
            class: "switch",
            role: "switch",
            checked: true,
            "aria-label": `Further rule ${number} holds`,
        });
        const text = h("input", {
            class: "code",
            "aria-label": `Further rule ${number}`,
            placeholder: "never(mud)",
            spellcheck: "false",
            autocomplete: "off",
        });
        const label = `Delete further rule ${number}`;
        const remove = button("✕", () => line.remove(), { class: "quiet", "aria-label": label });
        const line = h(
            "li",
            { class: "further" },
            on,
            h("div", { class: "rule-text" }, ...completed(app, text)),
            remove,
        );
        list.append(line);
        text.focus();
    };
    const node = h("fieldset", {}, h("legend", {}, "Further rules, for now"), list, button("Add a further rule", add));
    return {
        node,
        rules: () =>
            [...list.children].flatMap((line) => {
                const [on, text] = line.querySelectorAll("input");
                return on?.checked && text?.value.trim() ? [text.value.trim()] : [];
            }),
    };
}
