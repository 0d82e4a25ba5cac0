import { button, h } from "../dom.js";
import { CANCELLED } from "../jobs.js";

/**
 * A line on how a job stands: what it does, what went wrong, or what came of it; read out when it changes.
 *
 * @typedef {import("../jobs.js").JobState} JobState
 * @param {import("../signal.js").Signal<JobState>} job
 * @param {(state: JobState) => string} doing
 * @param {(state: JobState) => string} [done]
 */
export function progressLine(job, doing, done = () => "") {
    const line = h("p", { class: "hint", role: "status" });
    job.on((state) => {
        const so = [state.remark, done(state)].filter(Boolean).join(" ");
        line.textContent = state.running ? doing(state) : state.message || so;
        line.classList.toggle("error", !state.running && !["", CANCELLED].includes(state.message));
    });
    return line;
}

/**
 * The button that starts a job, where all its inputs are valid, and the one that cancels it.
 *
 * @param {import("../jobs.js").Jobs} jobs
 * @param {string} kind
 * @param {string} label
 * @param {HTMLInputElement[]} inputs
 * @param {() => object} options  of the job
 * @param {string} [look]
 */
export function jobButtons(jobs, kind, label, inputs, options, look = "main") {
    const valid = () => inputs.every((input) => input.reportValidity());
    const start = button(label, () => valid() && jobs.start(kind, options()), { class: look });
    const stop = button("Cancel", () => jobs.cancel(kind));
    jobs.busy.on((busy) => {
        start.disabled = busy !== null;
        stop.disabled = busy !== kind;
    });
    return { start, stop };
}
