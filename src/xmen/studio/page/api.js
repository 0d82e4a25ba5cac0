/** Requests to the one server there is; every address is relative to the page, which has the token. */

/** An answer that is not 2xx, with the sentence of the server. */
export class ApiError extends Error {
    /**
     * @param {string} message
     * @param {number} status  0: the server did not answer.
     * @param {any} data
     */
    constructor(message, status, data = {}) {
        super(message);
        this.status = status;
        this.data = data;
    }
}

/** A value as JSON, in which a Map is an object. */
export const written = (/** @type {unknown} */ value) =>
    JSON.stringify(value, (_, each) => (each instanceof Map ? Object.fromEntries(each) : each));

/**
 * @param {"GET" | "PUT" | "POST" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function request(method, path, body) {
    /** @type {RequestInit} */
    const options = { method };
    if (body !== undefined) {
        options.body = written(body);
        options.headers = { "Content-Type": "application/json" };
    }
    let response;
    try {
        response = await fetch(`api/${path}`, options);
    } catch {
        throw new ApiError("The studio does not answer.", 0);
    }
    const data = await response.json().catch(() => ({}));
    if (!response.ok)
        throw new ApiError(data.error ?? `The studio answered ${response.status}.`, response.status, data);
    return data;
}

/** The sentence of whatever was thrown. */
export function sentence(/** @type {unknown} */ error) {
    return error instanceof Error ? error.message : String(error);
}
