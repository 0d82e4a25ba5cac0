import { h } from "../dom.js";
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
        line.textContent = state.running ? doing(state) : state.message || done(state);
        line.classList.toggle("error", !state.running && !["", CANCELLED].includes(state.message));
    });
    return line;
}
