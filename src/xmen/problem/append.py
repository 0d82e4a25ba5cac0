"""Adding rules to a problem file, whose own words, order and comments stay as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xmen.errors import FileFormatError
from xmen.files import write_whole
from xmen.problem._toml import toml_text
from xmen.problem.problem import Problem


@dataclass(frozen=True)
class NewRule:
    """A rule in text form over the events of a problem, and what is to be said about it."""

    text: str
    comments: Sequence[str] = ()


def append_rules(path: Path, problem: Problem, rules: Sequence[NewRule]) -> list[str]:
    """Add rules at the end of a problem file, each under a comment and named by its text; returns the names.

    Raises
    ------
    FileFormatError
        Where the file spells its rules in a way that nothing can be added to; it is then left as it is.
    """
    blocks, names = [], set(problem.rules)
    added: list[str] = []
    for rule in rules:
        problem.parse(rule.text).check_world(problem.world)
        name = rule.text if rule.text not in names else f"{rule.text} (found)"
        names.add(name)
        added.append(name)
        comments = "".join(f"# {line}\n" for line in rule.comments)
        blocks.append("\n" + comments + toml_text({"constraints": [{"name": name, "rule": rule.text}]}))
    before = path.read_bytes()
    newline = "\r\n" if b"\r\n" in before else "\n"
    gap = "" if before.endswith(b"\n") else "\n"
    after = before + (gap + "".join(blocks)).replace("\n", newline).encode()
    try:
        tomllib.loads(after.decode("utf-8-sig").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(
            f"{path}: rules cannot be added to this file ({error}). Spell its rules as [[constraints]] tables, or "
            "paste the new ones by hand."
        ) from None
    write_whole(path, after)
    return added
