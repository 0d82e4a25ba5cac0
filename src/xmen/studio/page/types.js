/**
 * The words of the server's contract, for the type checker; nothing here runs.
 *
 * @typedef {[number, number]} Cell
 * @typedef {Cell | string | number} StateName  A cell of a grid, a node of a graph, a number of a table.
 * @typedef {{cells: Cell[]} | {moves: string[]} | {nodes: string[]} | string} Mark
 * @typedef {{name: string, rule: string, off?: boolean}} Rule
 *
 * @typedef {object} World
 * @property {"grid" | "graphml" | "table"} kind
 * @property {number} [width]
 * @property {number} [height]
 * @property {Cell | Cell[]} [start]
 * @property {Cell | Cell[] | null} [goal]
 * @property {string[]} [moves]
 * @property {Cell[]} [walls]
 * @property {number | null} [horizon]
 * @property {number} [slip]
 * @property {boolean} [bump]
 * @property {string} [source]
 * @property {string} [target]
 *
 * @typedef {object} StudioSettings
 * @property {Map<string, string>} [colours]
 * @property {string} [learner]
 * @property {string} [method]
 * @property {number} [l2]
 * @property {number} [max_iter]
 * @property {number} [held_out]
 *
 * @typedef {object} Problem
 * @property {number} format
 * @property {World} world
 * @property {Map<string, Mark>} events  by names of the user's, as colours: no object, where constructor has a meaning
 * @property {Rule[]} [constraints]
 * @property {Record<string, unknown>} [costs]
 * @property {{features?: string[], weights?: number[], table?: string}} [reward]
 * @property {Record<string, unknown>} [settings]
 * @property {StudioSettings} [studio]
 *
 * @typedef {object} Demonstration
 * @property {(StateName | null)[]} states  null: not seen, and then no action is known
 * @property {(string | number)[]} actions
 * @property {string} [name]
 * @property {number} [weight]
 * @property {object} [about]
 *
 * @typedef {{problem: Problem, demonstrations: Demonstration[]}} Document
 *
 * @typedef {object} Layout
 * @property {{name: string, x: number, y: number}[]} states
 * @property {[number, number, number, number][]} edges  source, action, target, probability
 * @property {number[]} start
 * @property {number[]} goal
 * @property {boolean} computed
 *
 * @typedef {{version: number, saved_version: number | null, file: string, folder: string,
 *            problem: any, demonstrations: Demonstration[], layout: Layout | null}} ServerDocument
 *
 * @typedef {{rule: string | null, position: number, message: string}} Broken
 * @typedef {{valid: boolean | null, broken: Broken[], not_kept?: string[]}} Verdict  null: nobody can tell while the world has
 *     mistakes; not_kept: rules that are usually kept, and not here
 * @typedef {{part: string, index?: number, name?: string, key?: string, offset?: number | null, message: string}} Mistake
 *
 * @typedef {object} Check
 * @property {number} version
 * @property {boolean} superseded
 * @property {Mistake[]} errors
 * @property {boolean | null} feasible
 * @property {string[]} conflict
 * @property {string} message
 * @property {string | null} engine
 * @property {{valid: number | null, possible: number | null, text: string, share: number | null, share_text: string} | null} trajectories
 * @property {{nodes: number, edges: number} | null} product
 * @property {{sure: boolean, best: number | null, message: string} | null} policy
 * @property {Verdict[]} demonstrations
 * @property {{name: string, sentence: string}[]} features
 * @property {string[]} notes
 * @property {number} seconds
 *
 * @typedef {{name: string, sentence: string, usage?: string, label?: string}} Word
 * @typedef {{title: string, rule: string, sentence: string, marks: number}} Template
 *
 * @typedef {object} Vocabulary
 * @property {Word[]} primitives
 * @property {Template[]} templates
 * @property {Word[]} operators
 * @property {string[]} moves
 * @property {Word[]} learners
 * @property {Word[]} methods
 * @property {Record<string, number>} limits
 *
 * @typedef {{iteration: number, loss: number, gradient_norm: number, seconds: number, model: string}} LearnRecord
 * @typedef {{job: string, kind: string, state: "running" | "done" | "failed" | "cancelled", version?: number,
 *            records?: LearnRecord[], result?: any, error?: {error: string} | null}} Job
 *
 * @typedef {object} Learned
 * @property {string} learner
 * @property {string} label
 * @property {string} method
 * @property {boolean} converged
 * @property {number} iterations
 * @property {number} seconds
 * @property {number | null} log_likelihood
 * @property {{demonstrations: number, log_likelihood: number | null} | null} held_out
 * @property {{feature: string, weight: number, error: number | null}[]} weights
 * @property {{rule: string, weight: number, error: number | null, kept: number | null}[]} rules  that are usually kept
 * @property {number[]} reward
 * @property {number[]} visits
 * @property {number[]} demo_visits
 * @property {number | null} valid
 * @property {LearnRecord[]} records
 * @property {string[]} notes
 *
 * @typedef {{states: StateName[], actions: (string | number)[], log_prob: number | null, valid: boolean, broken: Broken[], not_kept?: string[]}} Generated
 *
 * What the map shows besides the world: trajectories, and one of them in front with what is wrong with it.
 * @typedef {{states: (StateName | null)[], tone: "plain" | "bad" | "faded"}} Line
 * @typedef {{states: (StateName | null)[], broken?: Broken[], label?: string}} Front
 *
 * What every panel is given.
 * @typedef {object} App
 * @property {import("./state.js").History} history
 * @property {import("./server.js").Sync} sync
 * @property {import("./server.js").Jobs} jobs
 * @property {import("./map/view.js").MapView} map
 * @property {Vocabulary} vocabulary
 * @property {(message: string) => void} say  a passing message, also for screen readers
 * @property {import("./state.js").Signal<string>} tool  wall, start, goal, erase, draw, or "mark NAME"
 * @property {import("./state.js").Signal<string>} tab
 * @property {import("./state.js").Signal<Demonstration | null>} onto  the demonstration that the next stroke continues
 */

export {};
