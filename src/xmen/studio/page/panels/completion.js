import { dress, freshId, h } from "../dom.js";

/**
 * Completion of names in a line of text, as a combobox: typing opens it, arrows choose, Enter or Tab takes, Escape closes.
 *
 * @typedef {{name: string, sentence: string, insert: string, caret: number}} Offer  caret: from the end of what is inserted
 */

const MOST = 8;

/**
 * @param {HTMLInputElement} input
 * @param {() => Offer[]} offers
 * @returns {HTMLElement} the list, to be placed under the input
 */
function complete(input, offers) {
    const list = h("ul", {
        class: "offers",
        role: "listbox",
        id: freshId("offers"),
        "aria-label": "Names",
        hidden: true,
    });
    dress(input, {
        role: "combobox",
        "aria-autocomplete": "list",
        "aria-expanded": "false",
        "aria-controls": list.id,
    });
    /** @type {Offer[]} */
    let open = [];
    let at = 0;

    const word = () => /[A-Za-z_]\w*$/.exec(input.value.slice(0, input.selectionStart ?? 0))?.[0] ?? "";

    function close() {
        open = [];
        list.hidden = true;
        dress(input, { "aria-expanded": "false", "aria-activedescendant": null });
    }

    function look(/** @type {boolean} */ asked) {
        const begun = word();
        const fit = offers().filter((offer) => offer.name.startsWith(begun) && (asked || offer.name !== begun));
        if (!fit.length || (!begun && !asked)) return close();
        open = fit.slice(0, MOST);
        choose(0);
    }

    function choose(/** @type {number} */ index) {
        at = (index + open.length) % open.length;
        list.replaceChildren(
            ...open.map((offer, each) =>
                h(
                    "li",
                    {
                        role: "option",
                        id: `${list.id}-${each}`,
                        "aria-selected": each === at ? "true" : "false",
                        onpointerdown: (/** @type {Event} */ event) => (event.preventDefault(), take(each)),
                    },
                    h("code", {}, offer.name),
                    h("span", {}, offer.sentence),
                ),
            ),
        );
        list.hidden = false;
        dress(input, { "aria-expanded": "true", "aria-activedescendant": `${list.id}-${at}` });
        (at ? list.children[at] : list)?.scrollIntoView({ block: "nearest" });
    }

    function take(/** @type {number} */ index) {
        const offer = open[index];
        if (!offer) return;
        const end = input.selectionStart ?? input.value.length;
        input.setRangeText(offer.insert, end - word().length, end, "end");
        const caret = (input.selectionStart ?? 0) - offer.caret;
        input.setSelectionRange(caret, caret);
        close();
        input.dispatchEvent(new Event("input", { bubbles: true }));
        close();
    }

    input.addEventListener("input", () => look(false));
    input.addEventListener("blur", close);
    input.addEventListener("keydown", (event) => {
        if (event.key === " " && event.ctrlKey) look(true);
        else if (!open.length) return;
        else if (event.key === "ArrowDown") choose(at + 1);
        else if (event.key === "ArrowUp") choose(at - 1);
        else if (event.key === "Enter" || event.key === "Tab") take(at);
        else if (event.key === "Escape") close();
        else return;
        event.preventDefault();
    });
    return list;
}

/** A line for a rule with its completion: primitives of the language, and marks. @returns {HTMLElement[]} */
export function completed(/** @type {import("../types.js").App} */ app, /** @type {HTMLInputElement} */ input) {
    return [input, complete(input, () => namesOfRules(app))];
}

/** @returns {Offer[]} */
function namesOfRules(/** @type {import("../types.js").App} */ app) {
    const marks = [...app.history.document.get().problem.events.keys()];
    return [
        ...marks.map((name) => ({ name, sentence: "a mark of this problem", insert: name, caret: 0 })),
        ...app.vocabulary.primitives.map(({ name, usage = name, sentence }) => {
            const call = usage.includes("(");
            const empty = usage.includes("()");
            return {
                name,
                sentence: `${usage}: ${sentence}`,
                insert: call ? `${name}()` : name,
                caret: call && !empty ? 1 : 0,
            };
        }),
    ];
}
