import { h } from "../dom.js";
import { complete, namesOfRules } from "./completion.js";

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
        const remove = h(
            "button",
            {
                type: "button",
                class: "quiet",
                "aria-label": `Delete further rule ${number}`,
                onclick: () => line.remove(),
            },
            "✕",
        );
        const line = h(
            "li",
            { class: "further" },
            on,
            h(
                "div",
                { class: "rule-text" },
                text,
                complete(text, () => namesOfRules(app)),
            ),
            remove,
        );
        list.append(line);
        text.focus();
    };
    const node = h(
        "fieldset",
        {},
        h("legend", {}, "Further rules, for now"),
        list,
        h("button", { type: "button", onclick: add }, "Add a further rule"),
    );
    return {
        node,
        rules: () =>
            [...list.children].flatMap((line) => {
                const [on, text] = [line.querySelector("input.switch"), line.querySelector("input.code")];
                return on instanceof HTMLInputElement &&
                    on.checked &&
                    text instanceof HTMLInputElement &&
                    text.value.trim()
                    ? [text.value.trim()]
                    : [];
            }),
    };
}
