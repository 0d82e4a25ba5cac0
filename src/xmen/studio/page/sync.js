import { ApiError, request, sentence, written } from "./api.js";
import { documentOf } from "./edits.js";
import { signal } from "./signal.js";

/**
 * The document here and the document of the server: every edit is sent, checked, and what other windows did is taken
 * over. One request of a kind is under way at a time; what changes meanwhile goes with the next.
 *
 * @typedef {import("./types.js").Check} Check
 * @typedef {import("./types.js").Job} Job
 * @typedef {import("./types.js").ServerDocument} ServerDocument
 * @typedef {import("./history.js").History} History
 */

const PAUSE = 50; // milliseconds without an edit before it is sent: a stroke or a word is one request
const AGAIN = 1000; // milliseconds until a server that did not answer is asked again

/**
 * @param {History} history
 * @param {ServerDocument} first
 * @param {(message: string) => void} say
 */
export function makeSync(history, first, say) {
    const own = `w-${crypto.randomUUID()}`;
    const check = signal(/** @type {Check | null} */ (null));
    const connection = signal(/** @type {"here" | "away"} */ ("here"));
    const versions = signal({ version: first.version, saved: first.saved_version, edited: false });
    const layout = signal(first.layout);
    /** @type {((job: Job & {record?: import("./types.js").LearnRecord}) => void)[]} */
    const jobListeners = [];

    let sent = history.document.get();
    /** @type {Promise<void> | null} */
    let sending = null;
    let checking = false;
    let stale = true; // the last check is not about the document of the server
    let timer = 0;

    const mark = () => versions.set({ ...versions.get(), edited: sent !== history.document.get() });

    history.document.on(() => {
        mark();
        clearTimeout(timer);
        timer = window.setTimeout(() => void flush(), PAUSE);
    });

    /** Send what was edited; resolved when the server has the document that is shown. */
    async function flush() {
        clearTimeout(timer);
        while (sending || sent !== history.document.get()) await (sending ??= put().finally(() => (sending = null)));
        void look();
    }

    async function put() {
        const document = history.document.get();
        const { version: base } = versions.get();
        try {
            const { version } = await request("PUT", "document", { base, window: own, ...document });
            sent = document;
            stale = true;
            versions.set({ ...versions.get(), version });
            connection.set("here");
            mark();
        } catch (error) {
            if (!(error instanceof ApiError)) throw error;
            if (error.status === 409) await adopt();
            else if (error.status === 0) await away();
            else {
                say(sentence(error));
                sent = document; // it will not be taken as it is: the next edit is sent again
            }
        }
    }

    async function away() {
        connection.set("away");
        await new Promise((resolve) => setTimeout(resolve, AGAIN));
    }

    /** Ask for the check until it is about the newest document. */
    async function look() {
        if (checking || !stale) return;
        checking = true;
        try {
            while (stale) {
                stale = false;
                /** @type {Check} */
                const answer = await request("POST", "check", {});
                if (answer.superseded || answer.version !== versions.get().version) stale = true;
                else check.set(answer);
                if (stale) await new Promise((resolve) => setTimeout(resolve, PAUSE));
            }
        } catch (error) {
            stale = true;
            if (error instanceof ApiError && error.status === 0) connection.set("away");
            else say(sentence(error));
        } finally {
            checking = false;
        }
    }

    /** Ask what the server has: that counts as sent. Its layout comes back. */
    async function ask() {
        /** @type {ServerDocument} */
        const answer = await request("GET", "document");
        const { version, saved_version: saved } = answer;
        const [here, there] = [history.document.get(), documentOf(answer)];
        sent = written(here) === written(there) ? here : there;
        stale = true;
        versions.set({ version, saved, edited: sent !== here });
        return answer.layout;
    }

    /** Take over what the server has. What was here and not there can be had back by undo. */
    async function adopt() {
        layout.set(await ask());
        const next = sent;
        if (next === history.document.get()) return;
        history.edit("what another window did", () => next, "another window");
        say("Another window changed this; undo brings back what was here.");
    }

    /** What to do about the version that the server says it has. */
    async function compare(
        /** @type {{version: number, saved_version: number | null, window: string | null}} */ there,
    ) {
        connection.set("here");
        const { version } = versions.get();
        if (there.window === own) return;
        // A server that was started again has the file as it was saved: what is here is newer.
        if (there.window === null && there.version < version) await ask();
        else if (there.version !== version) await adopt();
        await flush();
    }

    function listen() {
        const events = new EventSource("api/events");
        const on = (/** @type {string} */ name, /** @type {(data: any) => void} */ work) =>
            events.addEventListener(name, (event) => work(JSON.parse(/** @type {MessageEvent} */ (event).data)));
        on("document", (there) => compare(there).catch((error) => say(sentence(error))));
        on("saved", ({ saved_version: saved }) => versions.set({ ...versions.get(), saved }));
        on("job", (job) => jobListeners.forEach((listener) => listener(job)));
        events.addEventListener("error", () => {
            connection.set("away");
            // The browser tries again by itself unless the answer was no: a server that is full, or no longer this one.
            if (events.readyState === EventSource.CLOSED) setTimeout(listen, 3 * AGAIN);
        });
        window.addEventListener("pagehide", () => events.close());
    }
    listen();

    return {
        check,
        connection,
        versions,
        layout,
        flush,
        /** @param {(typeof jobListeners)[number]} listener */
        onJob: (listener) => void jobListeners.push(listener),
        /** Write the files. @param {boolean} force  even over what another program wrote meanwhile */
        async save(force) {
            await flush();
            const { saved_version: saved, files } = await request("POST", "save", { force });
            versions.set({ ...versions.get(), saved });
            return /** @type {string[]} */ (files);
        },
    };
}

/** @typedef {ReturnType<typeof makeSync>} Sync */
