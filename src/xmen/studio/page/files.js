import { h } from "./dom.js";

/** Give a text to the user as a file. */
export function download(/** @type {string} */ name, /** @type {string} */ text) {
    const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    const link = h("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address));
}
