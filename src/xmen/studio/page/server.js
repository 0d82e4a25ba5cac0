import { documentOf } from "./edits.js";
import { signal } from "./state.js";

/**
 * The one server there is: requests, the document here and there, and jobs. Every address is relative to the page, which
 * has the token.
 *
 * @typedef {import("./state.js").History} History
 * @typedef {import("./types.js").Check} Check
 * @typedef {import("./types.js").Job} Job
 * @typedef {import("./types.js").LearnRecord} LearnRecord
 * @typedef {import("./types.js").ServerDocument} ServerDocument
 */

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
const written = (/** @type {unknown} */ value) =>
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

const PAUSE = 50; // milliseconds without an edit before it is sent: a stroke or a word is one request
const AGAIN = 1000; // milliseconds until a server that did not answer is asked again

/**
 * The document here and the document of the server: every edit is sent, checked, and what other windows did is taken
 * over. One request of a kind is under way at a time; what changes meanwhile goes with the next.
 *
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
    const file = signal(first.file);
    /** @type {((job: Job & {record?: LearnRecord}) => void)[]} */
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
        on("saved", ({ saved_version: saved, file: name }) => {
            versions.set({ ...versions.get(), saved });
            file.set(name);
        });
        on("new", () => location.reload());
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
        file,
        flush,
        /** @param {(typeof jobListeners)[number]} listener */
        onJob: (listener) => void jobListeners.push(listener),
        /**
         * Write the files.
         *
         * @param {boolean} force  even over what another program wrote meanwhile
         * @param {string | null} name  of another file beside this one
         */
        async save(force, name = null) {
            await flush();
            const { saved_version: saved, files, file: at } = await request("POST", "save", { force, name });
            versions.set({ ...versions.get(), saved });
            file.set(at);
            return /** @type {string[]} */ (files);
        },
    };
}

/** @typedef {ReturnType<typeof makeSync>} Sync */

/**
 * Work that takes longer than a request: what runs, what it has said so far, and the last result of each kind.
 *
 * @typedef {object} JobState  of one kind of job
 * @property {string | null} running  its number
 * @property {LearnRecord[]} records
 * @property {any} result  of the last one, if it was done
 * @property {number | null} version  of the document that the result is about
 * @property {string} message  what went wrong, or that it was cancelled
 * @property {string} remark  on the result
 */

export const CANCELLED = "Cancelled.";
const PATIENCE = 5; // seconds that the server may take to answer with the result itself

/** @type {JobState} */
const NOTHING = { running: null, records: [], result: null, version: null, message: "", remark: "" };
const BEFORE = "From before the last changes.";
const PUT_AWAY = "The rules contradict each other: what was found before is shown again when they do not.";

/** @param {Sync} sync */
export function makeJobs(sync) {
    /** @type {Map<string, {last: JobState, shown: import("./state.js").Signal<JobState>}>} */
    const kinds = new Map();
    /** @type {Set<string>} */
    const over = new Set(); // numbers whose end was told, which may be before the answer to their start
    const busy = signal(/** @type {string | null} */ (null)); // the kind that runs: there is one worker

    const known = (/** @type {string} */ kind) => {
        const there = kinds.get(kind) ?? { last: NOTHING, shown: signal(NOTHING) };
        kinds.set(kind, there);
        return there;
    };
    const of = (/** @type {string} */ kind) => known(kind).shown;
    const change = (/** @type {string} */ kind, /** @type {Partial<JobState>} */ part) => {
        const there = known(kind);
        there.last = { ...there.last, ...part };
        there.shown.set(judged(there.last));
        if ("running" in part) busy.set(part.running ? kind : busy.get() === kind ? null : busy.get());
    };

    /** The state as it is shown: a result is remarked on when it is older than the document, and put away in a conflict. */
    function judged(/** @type {JobState} */ last) {
        if (last.running || !last.result) return last;
        if (sync.check.get()?.feasible === false)
            return { ...last, records: [], result: null, message: last.message || PUT_AWAY };
        return last.version === sync.versions.get().version ? last : { ...last, remark: BEFORE };
    }
    const judge = () =>
        kinds.forEach(({ last, shown }) => {
            const [next, now] = [judged(last), shown.get()];
            if (next.result !== now.result || next.remark !== now.remark) shown.set(next);
        });
    sync.check.on(judge);
    sync.versions.on(judge);

    /** @param {Job} job */
    function ended(job) {
        const { running } = of(job.kind).get();
        over.add(job.job);
        if (running !== null && running !== job.job) return;
        if (job.state === "cancelled") return change(job.kind, { running: null, message: CANCELLED });
        const { result = null, records = [], version = null } = job;
        const message = job.state === "done" ? "" : (job.error?.error ?? "It failed.");
        change(job.kind, { running: null, result, records, version, message });
    }

    sync.onJob(async (told) => {
        const state = of(told.kind).get();
        if (told.state === "running") {
            if (state.running !== told.job) change(told.kind, { running: told.job, records: [], message: "" });
            if (told.record) change(told.kind, { records: [...of(told.kind).get().records, told.record] });
        } else if (told.kind === "step") change("step", { running: null });
        else ended(await request("GET", `jobs/${told.job}`));
    });

    return {
        of,
        busy,
        /**
         * Start a job on the document that is shown. What refuses it is its message.
         *
         * @param {string} kind
         * @param {object} options
         */
        async start(kind, options) {
            change(kind, { message: "" });
            try {
                await sync.flush();
                /** @type {Job} */
                const job = await request("POST", "jobs", { kind, wait: 0, ...options });
                if (job.state !== "running") ended(job);
                else if (!over.has(job.job) && of(kind).get().running !== job.job)
                    change(kind, { running: job.job, records: [] });
            } catch (error) {
                change(kind, { message: sentence(error) });
            }
        },
        /**
         * Start a short job and wait for its result, which is not kept.
         *
         * @param {string} kind
         * @param {object} options
         */
        async ask(kind, options) {
            await sync.flush();
            /** @type {Job} */
            let job = await request("POST", "jobs", { kind, wait: PATIENCE, ...options });
            while (job.state === "running") {
                await new Promise((resolve) => setTimeout(resolve, 200));
                job = await request("GET", `jobs/${job.job}`);
            }
            if (job.state !== "done") throw new Error(job.error?.error ?? "It was cancelled.");
            return job.result;
        },
        async cancel(/** @type {string} */ kind) {
            const { running } = of(kind).get();
            if (!running) return;
            try {
                await request("DELETE", `jobs/${running}`);
                change(kind, { running: null, message: CANCELLED });
            } catch (error) {
                if (!(error instanceof ApiError && error.status === 404)) change(kind, { message: sentence(error) });
            }
        },
        /** After a reload: what runs, and what was found before. */
        async recall() {
            const { jobs } = await request("GET", "jobs");
            for (const { job } of /** @type {Job[]} */ (jobs)) {
                /** @type {Job} */
                const whole = await request("GET", `jobs/${job}`);
                if (whole.state === "running") change(whole.kind, { running: job, records: whole.records ?? [] });
                else if (whole.state === "done") ended(whole);
            }
        },
    };
}

/** @typedef {ReturnType<typeof makeJobs>} Jobs */
