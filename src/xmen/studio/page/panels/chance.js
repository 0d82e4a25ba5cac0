import { button, field, h, headed } from "../dom.js";
import { sentence } from "../server.js";
import { count, why } from "../words.js";
import { jobButtons, progressLine } from "./parts.js";

/**
 * Worlds with chance: what policies can promise, and an episode to be stepped through.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Broken} Broken
 * @typedef {import("../types.js").StateName} StateName
 * @typedef {{promise: "sure" | "best" | number, validity: number | null, reward?: number, message?: string}} Policy
 */

const HEADS = ["Promise", "Keeps the rules", "Expected reward"];

/** What a policy may promise: to keep the rules … @type {Record<string, string>} */
const PROMISES = { sure: "surely", best: "as likely as can be", p: "as often as asked" };

/** @param {HTMLElement} root @param {App} app @param {HTMLSelectElement} source @param {() => string[]} further */
export function mountChance(root, app, source, further) {
    const { jobs, sync } = app;
    const job = jobs.of("policy");
    const p = h("input", { type: "number", min: 0, max: 1, step: "any", value: 0.9 });
    const from = () => (source.value === "model" ? "model" : "uniform");
    const asked = () => ({ from: from(), p: Number(p.value), also: further() });
    const { start } = jobButtons(jobs, "policy", "What can be promised?", [p], asked, "");
    const progress = progressLine(job, () => "Planning …");
    const table = h("table", { class: "found" });
    const episode = h("div", { class: "episode" });
    root.append(
        h("h3", {}, "Chance"),
        h(
            "p",
            { class: "hint" },
            "Moves may go astray. A policy acts on what it sees: it keeps the rules surely, as likely as can be, or as " +
                "often as asked.",
        ),
        h("div", { class: "fields" }, field("As often as", p, "A share from 0 to 1"), start),
        progress,
        table,
        episode,
    );
    mountEpisode(episode, app, from, further, () => Number(p.value));

    app.map.place.on((place) => {
        const { slip = 0 } = app.history.document.get().problem.world;
        const uncertain = slip > 0 || (sync.layout.get()?.edges ?? []).some(([, , , probability]) => probability < 1);
        root.hidden = !uncertain && place.starts.length < 2;
    });
    job.on(({ result }) => {
        table.hidden = !result;
        if (result) table.replaceChildren(...headed(HEADS, result.policies.map(policyRow)));
    });
}

function policyRow(/** @type {Policy} */ { promise, validity, reward, message }) {
    const name = h(
        "th",
        { scope: "row" },
        typeof promise === "number" ? `${PROMISES.p} (${promise})` : (PROMISES[promise] ?? promise),
    );
    if (validity === null) return h("tr", {}, name, h("td", { colspan: 2 }, message ?? "cannot be promised"));
    return h(
        "tr",
        {},
        name,
        h("td", { class: "number" }, `${(100 * validity).toFixed(2)} %`),
        h("td", { class: "number" }, reward === undefined || reward === null ? "" : reward.toFixed(3)),
    );
}

/**
 * An episode step by step: the policy offers moves with their probabilities, and the user plays chance.
 *
 * @typedef {{state: StateName, probability: number}} Outcome
 * @typedef {{action: string | number, probability: number, outcomes: Outcome[]}} Choice
 * @typedef {{ended: boolean, kept: boolean | null, broken: Broken[], chance: number, choices: Choice[],
 *            starts?: Outcome[]}} Answer
 */

/**
 * @param {HTMLElement} root
 * @param {App} app
 * @param {() => string} from  model or uniform
 * @param {() => string[]} further
 * @param {() => number} p
 */
function mountEpisode(root, app, from, further, p) {
    const { jobs, map, history } = app;
    const promise = h("select", {}, ...Object.entries(PROMISES).map(([value, label]) => h("option", { value }, label)));
    promise.value = "best";
    const start = button("Begin an episode", () => {
        forget();
        void ask();
    });
    const back = button("Step back", () => {
        states.pop();
        actions.pop();
        void ask();
    });
    const says = h("p", { class: "hint", role: "status" });
    const choices = h("ul", { class: "plain choices" });
    root.append(h("div", { class: "fields" }, field("Episode with", promise), start, back), says, choices);
    back.hidden = true;
    /** @type {StateName[]} */
    let states = [];
    /** @type {(string | number)[]} */
    let actions = [];
    jobs.busy.on((kind) => (start.disabled = kind !== null));
    app.tab.on((tab) => tab !== "generate" && states.length && map.front.set(null));
    history.document.on((next, old) => next.problem !== old.problem && states.length && forget());

    /** What was planned is not about this problem any more. */
    function forget() {
        states = [];
        actions = [];
        back.hidden = true;
        says.textContent = "";
        choices.replaceChildren();
        map.front.set(null);
    }

    async function ask() {
        const chosen = promise.value === "p" ? p() : promise.value;
        /** @type {Answer} */
        let answer;
        try {
            answer = await jobs.ask("step", { from: from(), promise: chosen, also: further(), states, actions });
        } catch (error) {
            says.textContent = sentence(error);
            return choices.replaceChildren();
        }
        const [only, ...others] = answer.starts ?? [];
        if (!states.length && only && !others.length) {
            states = [only.state];
            return ask();
        }
        draw(answer);
    }

    function draw(/** @type {Answer} */ answer) {
        back.hidden = states.length < 2;
        if (states.length) map.front.set({ states, broken: answer.broken });
        says.textContent = states.length ? told(answer, actions.length) : "Where does it begin?";
        const place = map.place.get();
        const label = (/** @type {StateName} */ state) => place.label(place.index(state));
        const take = (/** @type {Outcome} */ outcome, /** @type {string | number | null} */ action) =>
            button(`${label(outcome.state)} · ${percent(outcome.probability)}`, () => {
                states = [...states, outcome.state];
                if (action !== null) actions = [...actions, action];
                void ask().then(() => choices.querySelector("button")?.focus());
            });
        choices.replaceChildren(
            ...(states.length ? [] : (answer.starts ?? []).map((outcome) => h("li", {}, take(outcome, null)))),
            ...answer.choices.map((choice) =>
                h(
                    "li",
                    {},
                    h("span", { class: "choice" }, `${choice.action} · ${percent(choice.probability)}`),
                    h("span", { class: "outcomes" }, ...choice.outcomes.map((each) => take(each, choice.action))),
                ),
            ),
        );
    }
}

function told(/** @type {Answer} */ { ended, kept, broken, chance }, /** @type {number} */ moves) {
    const so = `all rules are kept with probability ${chance.toPrecision(4)}`;
    if (!ended) return `After ${count(moves, "move")}; from here on ${so}.`;
    return kept ? "Arrived, and every rule was kept." : `Over: it ${why(broken) || "did not arrive in time"}.`;
}

const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(share > 0.0995 ? 0 : 1)} %`;
