import { sentence } from "../api.js";
import { button, field, h } from "../dom.js";
import { count, why } from "../words.js";

/**
 * An episode step by step: the policy offers moves with their probabilities, and the user plays chance.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").StateName} StateName
 * @typedef {{state: StateName, probability: number}} Outcome
 * @typedef {{action: string | number, probability: number, outcomes: Outcome[]}} Choice
 * @typedef {import("../types.js").Broken} Broken
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
export function mountEpisode(root, app, from, further, p) {
    const { jobs, map, history } = app;
    const promise = h("select", {}, ...["sure", "best", "p"].map((value) => h("option", { value }, value)));
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
