/**
 * A value that others can listen to.
 *
 * @template T
 * @typedef {object} Signal
 * @property {() => T} get
 * @property {(value: T) => void} set
 * @property {(listener: (value: T, old: T) => void) => void} on  Called after every change, and once at once.
 */

/**
 * @template T
 * @param {T} value
 * @returns {Signal<T>}
 */
export function signal(value) {
    /** @type {((value: T, old: T) => void)[]} */
    const listeners = [];
    return {
        get: () => value,
        set(next) {
            if (Object.is(next, value)) return;
            const old = value;
            value = next;
            for (const listener of listeners) listener(next, old);
        },
        on(listener) {
            listeners.push(listener);
            listener(value, value);
        },
    };
}

/**
 * Many calls in one frame become one, before the frame is drawn.
 *
 * @param {() => void} work
 * @returns {() => void}
 */
export function oncePerFrame(work) {
    let waiting = false;
    return () => {
        if (waiting) return;
        waiting = true;
        requestAnimationFrame(() => {
            waiting = false;
            work();
        });
    };
}
