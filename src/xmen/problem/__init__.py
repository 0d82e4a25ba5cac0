"""The problem file: a world, events, rules, a reward and settings in one TOML file that Python reads and writes.

    format = 1
    demonstrations = "demos.csv"     # optional; relative to this file, .csv or .jsonl
    validation = "held_out.csv"      # optional: demonstrations that a fit watches, and does not learn from

    [world]
    kind = "grid"                    # or "table" (a CSV of transitions), or "graphml"
    width = 9
    height = 9
    start = [0, 0]
    goal = [8, 8]
    moves = ["up", "right", "up-right"]

    [events]                         # cells and moves; or text, which may use the events above it
    key = { cells = [[2, 3], [3, 2]] }
    door = { cells = [[6, 6]] }
    east = { moves = ["right"] }
    other = "~key & ~door"

    [costs]                          # for total(toll) in rules: "file.csv", numbers in a list, or events with weights
    toll = { door = 3 }

    [[constraints]]
    name = "the key before the door"
    rule = "first(key, among=door)"

    [[constraints]]
    name = "not too far east at once"
    rule = "longest_run(east) <= 3"
    off = true                       # switched off: kept in the file, and not read

    [reward]                         # or table = "reward.csv", with the columns state,action,reward
    features = ["steps", "goal distance"]
    weights = [-0.5, 0.1]

    [settings]
    discount = 1.0
    engine = "auto"
    seed = 0
    time_limit = 60.0                # seconds per call of the oracle of the xor engine; inf for none

A table world has `transitions = "file.csv"` (columns state,action,next_state,probability; relative to the problem
file), n_states, n_actions, start, terminal and horizon; a graphml world has file, source, target and horizon, and its
events may be `{ nodes = ["a", "b"] }`. A feature is "steps" (1 everywhere), "goal distance" (the fewest actions from
the state to a terminal one), "move up" or "action 3" (1 for that action), the name of an event (1 where it holds), or a
numeric attribute of a graph's edges. A table [studio] holds what only Studio shows, such as the colours of events.
"""

from xmen.problem.document import read_values as read_values, toml_text as toml_text
from xmen.problem.parts import known_features as known_features
from xmen.problem.problem import FORMAT as FORMAT, Mistake as Mistake, Problem as Problem, Settings as Settings
from xmen.problem.problem import demo_weights as demo_weights, problem_files as problem_files
from xmen.problem.problem import problem_or_mistakes as problem_or_mistakes, problem_parts as problem_parts
from xmen.problem.problem import read_problem as read_problem, write_problem as write_problem
