"""The problems that the tests of the command line work on."""

from __future__ import annotations

from problem.files import grid_problem

PROBLEM = (
    grid_problem(5, "up", "right", "up-right", demonstrations=None)
    + """
[events]
key = { cells = [[1, 2], [2, 1]] }
door = { cells = [[3, 3]] }

[[constraints]]
name = "the key [bold]before[/bold] the door"
rule = "first(key, among=door)"

[[constraints]]
name = "not straight"
rule = "longest_repeat() <= 2"
"""
)
CLASH = PROBLEM + '\n[[constraints]]\nname = "no keys"\nrule = "never(key)"\n'
COMMANDS = ["new", "check", "engines", "fit", "sample", "plot", "reproduce"]
RULES = ["the key [bold]before[/bold] the door", "not straight"]
