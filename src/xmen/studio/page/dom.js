/**
 * Elements without HTML text: whatever comes from a file becomes a text node, never markup.
 *
 * @typedef {Record<string, any>} Properties  `on...` are listeners, booleans are set or left out, the rest are attributes.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Properties} [properties]
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    dress(element, properties);
    element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
    return element;
}

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Properties} [properties]
 * @param {...(Node | string)} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function s(tag, properties = {}, ...children) {
    const element = document.createElementNS(SVG, tag);
    dress(element, properties);
    element.append(...children);
    return element;
}

/**
 * @param {Element} element
 * @param {Properties} properties
 */
export function dress(element, properties) {
    for (const [name, value] of Object.entries(properties)) {
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (value === false || value === null || value === undefined) element.removeAttribute(name);
        else element.setAttribute(name, value === true ? "" : String(value));
    }
}

/**
 * A button with what it does; `properties` are further ones, as of `h`.
 *
 * @param {string} label
 * @param {() => unknown} onclick
 * @param {Properties} [properties]
 */
export function button(label, onclick, properties = {}) {
    return h("button", { type: "button", ...properties, onclick }, label);
}

/**
 * A label around a control, in one line.
 *
 * @param {string} text
 * @param {HTMLElement} control
 * @param {string} [hint]
 */
export function field(text, control, hint) {
    return h("label", { class: "field", title: hint }, h("span", {}, text), control);
}

/**
 * What stands in a table: the names of its columns, and its rows.
 *
 * @param {string[]} heads
 * @param {HTMLTableRowElement[]} lines
 */
export function headed(heads, lines) {
    const cells = heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td")));
    return [h("thead", {}, h("tr", {}, ...cells)), h("tbody", {}, ...lines)];
}

/**
 * The options of a select, kept where they are the same: an open list must not close while somebody looks at it.
 *
 * @param {HTMLSelectElement} select
 * @param {{value: string, label: string}[]} options
 * @param {string} chosen
 */
export function fillSelect(select, options, chosen) {
    const before = [...select.options].map((option) => `${option.value}\n${option.textContent}`).join("\n\n");
    if (before !== options.map(({ value, label }) => `${value}\n${label}`).join("\n\n"))
        select.replaceChildren(...options.map(({ value, label }) => h("option", { value }, label)));
    if (select.value !== chosen) select.value = chosen;
}

/**
 * Set what a control shows, unless it shows that already: a caret stays where it is.
 *
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control
 * @param {string | number} value
 */
export function show(control, value) {
    if (control.value !== String(value)) control.value = String(value);
}

/**
 * A list whose i-th row always shows the i-th item: rows are made and dropped at the end, and otherwise updated, so that
 * the focus stays.
 *
 * @template T
 * @param {HTMLElement} container
 * @param {(index: number) => {node: HTMLElement, update: (item: T, index: number) => void}} make
 * @returns {(items: readonly T[]) => void}
 */
export function rows(container, make) {
    /** @type {{node: HTMLElement, update: (item: T, index: number) => void}[]} */
    const made = [];
    return (items) => {
        while (made.length > items.length) made.pop()?.node.remove();
        while (made.length < items.length) {
            const row = make(made.length);
            made.push(row);
            container.append(row.node);
        }
        items.forEach((item, index) => made[index]?.update(item, index));
    };
}

let counted = 0;

/** An id that no other element of the page has. */
export function freshId(/** @type {string} */ stem) {
    counted += 1;
    return `${stem}-${counted}`;
}

/**
 * A dialog over the page; Escape and its last button close it.
 *
 * @param {string} title
 * @param {(Node | string)[]} content
 * @param {HTMLButtonElement[]} buttons  a click on any of them closes the dialog, unless it has data-stays
 * @returns {() => void} closes it
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
    return () => dialog.close();
}

/** Give a text to the user as a file. */
export function download(/** @type {string} */ name, /** @type {string} */ text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    const link = h("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address));
}
