import { button, download, field, fillSelect, h, rows } from "../dom.js";
import { addDemonstrations } from "../edits.js";
import { makeMotion } from "../map/layers.js";
import { request, sentence } from "../server.js";
import { signal } from "../state.js";
import { capital, HOW, thousands } from "../words.js";
import { mountChance } from "./chance.js";
import { completed } from "./completion.js";
import { jobButtons, missingLine, progressLine, trajectoryLine } from "./parts.js";

/**
 * New trajectories: samples or the most likely ones, under rules that came later.
 *
 * @typedef {import("../types.js").App} App
 * @typedef {import("../types.js").Generated} Generated
 */

const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** @param {HTMLElement} root @param {App} app */
export function mountGenerate(root, app) {
    const { jobs, map, vocabulary } = app;
    const job = jobs.of("generate");
    const motion = makeMotion(map);
    const moving = signal(!calm.matches);
    let asked = ""; // the source that somebody chose: what is learned later does not change it
    const source = h("select", { onchange: () => (asked = source.value) });
    const kind = h(
        "select",
        {},
        h("option", { value: "sample" }, "Samples"),
        h("option", { value: "best" }, "Most likely"),
    );
    const n = h("input", { type: "number", min: 1, max: vocabulary.limits.samples ?? 1000, value: 20 });
    const seed = h("input", { type: "number", min: 0, value: 0 });
    const further = furtherRules(app);
    const { start, stop } = jobButtons(jobs, "generate", "Generate", [n, seed], () => ({
        from: source.value,
        n: Number(n.value),
        best: kind.value === "best" ? Math.min(Number(n.value), vocabulary.limits.best ?? 100) : 0,
        also: further.rules(),
        seed: Number(seed.value),
    }));
    const play = button("", () => moving.set(!moving.get()));
    const write = async () => {
        /** @type {Generated[]} */
        const made = job.get().result?.trajectories ?? [];
        const demonstrations = made.map(({ states, actions, log_prob: log }) => {
            return { states, actions, about: log === null ? {} : { probability: Math.exp(log) } };
        });
        download("plans.csv", (await request("POST", "csv/write", { demonstrations })).text);
    };
    const exported = button("Export CSV", () => write().catch((error) => app.say(sentence(error))));
    const unlearned = missingLine(app, () =>
        jobs.of("learn").get().result
            ? null
            : [
                  "Nothing is learned yet: what is generated keeps the rules, whatever demonstrations prefer.",
                  "Learn",
                  "learn",
              ],
    );
    const progress = progressLine(
        job,
        () => "Generating …",
        ({ result }) => (result ? told(result) : ""),
    );
    const list = h("ol", { class: "plain demos" });
    const update = rows(list, (index) => generatedLine(app, index));
    const chance = h("section", { class: "chance" });
    root.append(
        h(
            "div",
            { class: "fields" },
            field("From", source),
            field("What", kind),
            field("How many", n),
            field("Seed", seed),
        ),
        further.node,
        unlearned,
        h("div", { class: "actions" }, start, stop, play, exported),
        progress,
        list,
        chance,
    );
    mountChance(chance, app, source, further.rules);

    const weighed = () => Boolean(app.history.document.get().problem.reward?.weights?.length);
    const options = () => {
        const learned = jobs.of("learn").get().result;
        const models = [
            learned?.model && { value: "model", label: `${learned.model.label}, learned` },
            learned?.compare && { value: "compare", label: `${learned.compare.label}, learned` },
            { value: "uniform", label: weighed() ? "the file's weights" : "no preferences" },
        ].filter(Boolean);
        fillSelect(source, models, models.some((each) => each.value === asked) ? asked : models[0].value);
    };
    jobs.of("learn").on(options);

    function draw() {
        /** @type {{trajectories: Generated[], engine: string, message: string} | null} */
        const result = job.get().result;
        const made = result?.trajectories ?? [];
        update(made);
        play.hidden = !made.length;
        exported.hidden = !made.length;
        play.textContent = moving.get() ? "Pause" : "Play";
        if (app.tab.get() !== "generate") return motion.stop();
        map.many.set(made.map(({ states, valid }) => ({ states, tone: valid ? "plain" : "bad" })));
        if (moving.get() && made.length) motion.play(made.map((each) => each.states));
        else motion.stop();
    }
    job.on((now, before) => (now.result !== before.result || now === before) && draw());
    moving.on(draw);
    app.tab.on((tab, before) => (tab === "generate" || before === "generate") && draw());
}

function told(/** @type {{trajectories: Generated[], engine: string, message?: string}} */ made) {
    const { trajectories, engine, message = "" } = made;
    const good = trajectories.filter((each) => each.valid).length;
    const how = engine === "exact" ? "" : (HOW[engine] ?? capital(message));
    return `${thousands(trajectories.length)} generated, ${thousands(good)} of them valid. ${how}`;
}

/** @param {App} app @param {number} index */
function generatedLine(app, index) {
    /** @type {Generated | null} */
    let one = null;
    const keep = () => {
        if (!one) return;
        const { states, actions } = one;
        app.history.edit("take a trajectory over", (document) =>
            addDemonstrations(document, [{ states, actions, weight: 1 }]),
        );
        app.say("Taken over as a demonstration.");
    };
    const label = `Take trajectory ${index} over as a demonstration`;
    const line = trajectoryLine(app.map, index);
    line.node.append(button("+", keep, { class: "quiet wide", "aria-label": label }));
    return {
        node: line.node,
        update(/** @type {Generated} */ made) {
            one = made;
            line.show(
                made,
                made,
                made.log_prob === null ? "" : `probability ${Math.exp(made.log_prob).toPrecision(2)}`,
            );
        },
    };
}

/**
 * Further rules that hold only for what is generated now: lines that can be switched on and off and are not saved.
 *
 * @param {App} app
 * @returns {{node: HTMLElement, rules: () => string[]}}
 */
function furtherRules(app) {
    const list = h("ul", { class: "plain" });
    const add = () => {
        const number = list.children.length + 1;
        const on = h("input", {
            type: "checkbox",
            class: "switch",
            role: "switch",
            checked: true,
            "aria-label": `Further rule ${number} holds`,
        });
        const text = h("input", {
            class: "code",
            "aria-label": `Further rule ${number}`,
            placeholder: "never(mud)",
            spellcheck: "false",
            autocomplete: "off",
        });
        const label = `Delete further rule ${number}`;
        const remove = button("✕", () => line.remove(), { class: "quiet", "aria-label": label });
        const line = h(
            "li",
            { class: "further" },
            on,
            h("div", { class: "rule-text" }, ...completed(app, text)),
            remove,
        );
        list.append(line);
        text.focus();
    };
    const node = h("fieldset", {}, h("legend", {}, "Further rules, for now"), list, button("Add a further rule", add));
    return {
        node,
        rules: () =>
            [...list.children].flatMap((line) => {
                const [on, text] = line.querySelectorAll("input");
                return on?.checked && text?.value.trim() ? [text.value.trim()] : [];
            }),
    };
}
