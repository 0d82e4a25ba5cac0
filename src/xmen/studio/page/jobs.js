import { ApiError, request, sentence } from "./api.js";
import { signal } from "./signal.js";

/**
 * Work that takes longer than a request: what runs, what it has said so far, and the last result of each kind.
 *
 * @typedef {import("./types.js").Job} Job
 * @typedef {import("./types.js").LearnRecord} LearnRecord
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

/** @param {import("./sync.js").Sync} sync */
export function makeJobs(sync) {
    /** @type {Map<string, {last: JobState, shown: import("./signal.js").Signal<JobState>}>} */
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
