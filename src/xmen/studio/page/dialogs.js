import { button, freshId, h } from "./dom.js";

/**
 * A dialog over the page; Escape and its last button close it.
 *
 * @param {string} title
 * @param {(Node | string)[]} content
 * @param {HTMLButtonElement[]} buttons  a click on any of them closes the dialog, unless it has data-stays
 */
export function openDialog(title, content, buttons) {
    const id = freshId("dialog");
    const close = button("Close", () => dialog.close());
    const dialog = h(
        "dialog",
        { "aria-labelledby": id, onclose: () => dialog.remove() },
        h("h2", { id }, title),
        ...content,
        h("div", { class: "actions" }, ...buttons, close),
    );
    for (const each of buttons)
        if (each.dataset.stays === undefined) each.addEventListener("click", () => dialog.close());
    document.body.append(dialog);
    dialog.showModal();
}
