import { documentOf } from "./edits.js";
import { mountBar, mountStatus, mountTabs } from "./frame.js";
import { looks, marksByState } from "./map/ground.js";
import { useHand } from "./map/hand.js";
import { makeMap } from "./map/view.js";
import { mountDemonstrations } from "./panels/demonstrations.js";
import { mountFind } from "./panels/find.js";
import { mountGenerate } from "./panels/generate.js";
import { mountLearn } from "./panels/learn.js";
import { mountRules } from "./panels/rules.js";
import { mountWorld } from "./panels/world.js";
import { makeJobs, makeSync, request, sentence } from "./server.js";
import { makeHistory, signal } from "./state.js";
import { mountTools } from "./tools.js";

/** Puts the page together: the document, its parts on the page, and what passes between them. */

/** @type {Record<string, [string, (root: HTMLElement, app: import("./types.js").App) => void]>} */
const PANELS = {
    world: ["World", mountWorld],
    rules: ["Rules", mountRules],
    demonstrations: ["Demonstrations", mountDemonstrations],
    learn: ["Learn", mountLearn],
    generate: ["Generate", mountGenerate],
    find: ["Find rules", mountFind],
};
const READ = 5000; // milliseconds that a passing message stays

/** @returns {HTMLElement} */
function part(/** @type {string} */ id) {
    const element = document.getElementById(id);
    if (!element) throw new Error(`the page has no ${id}`);
    return element;
}

function makeSay() {
    const toast = part("toast");
    let timer = 0;
    return (/** @type {string} */ message) => {
        toast.textContent = message;
        toast.classList.add("shown");
        clearTimeout(timer);
        timer = window.setTimeout(() => toast.classList.remove("shown"), READ);
    };
}

/**
 * Says what is at a place: in a line under the map, and aloud while the keyboard is on the map.
 *
 * @param {import("./types.js").App} app
 */
function makeDescribe(app) {
    const [readout, spoken] = [part("readout"), part("spoken")];
    return (/** @type {number} */ state) => {
        const place = app.map.place.get();
        const { problem } = app.history.document.get();
        const words = (marksByState(place, problem, looks(problem)).get(state) ?? []).map((look) => look.name);
        if (!place.open(state)) words.unshift("wall");
        if (place.starts.includes(state)) words.unshift("start");
        if (place.goals.has(state)) words.unshift("goal");
        const heat = app.map.heat.get();
        if (heat) words.push(`${heat.title.toLowerCase()} ${(heat.values[state] ?? 0).toFixed(3)}`);
        readout.textContent = [place.label(state), ...words].join(", ");
        if (document.activeElement === app.map.svg) spoken.textContent = readout.textContent;
    };
}

async function main() {
    const say = makeSay();
    const [first, vocabulary] = await Promise.all([request("GET", "document"), request("GET", "vocabulary")]);
    const history = makeHistory(documentOf(first));
    const sync = makeSync(history, first, say);
    const svg = document.querySelector("svg#map");
    if (!(svg instanceof SVGSVGElement)) throw new Error("the page has no map");
    const map = makeMap(svg, history.document, sync.layout);
    const jobs = makeJobs(sync);
    const tool = signal("draw");
    const tab = signal(new URLSearchParams(location.hash.slice(1)).get("tab") ?? "rules");
    const onto = signal(/** @type {import("./types.js").Demonstration | null} */ (null));
    const app = { history, sync, jobs, map, vocabulary, say, tool, tab, onto };

    mountBar(part("bar"), app, first.folder);
    const chosen = mountTools(part("tools"), app);
    useHand(map, chosen, makeDescribe(app));
    tool.on(() => (part("hint").textContent = chosen().hint));
    mountStatus(part("status"), app);
    const titles = Object.entries(PANELS).map(([name, [title]]) => ({ name, title }));
    const panels = mountTabs(part("side"), tab, titles);
    Object.values(PANELS).forEach(([, mount], index) => mount(/** @type {HTMLElement} */ (panels[index]), app));
    tab.on((name, old) => {
        if (name === "demonstrations") tool.set("draw");
        if (!["demonstrations", "generate"].includes(name)) map.many.set([]);
        if (name !== old) remember(name);
    });
    await jobs.recall();
    document.documentElement.dataset.ready = "yes";
}

/** The chosen tab is part of the address: a reload shows it again. */
function remember(/** @type {string} */ tab) {
    window.history.replaceState(null, "", `#tab=${tab}`);
}

main().catch((error) => ((part("toast").textContent = sentence(error)), part("toast").classList.add("shown")));
