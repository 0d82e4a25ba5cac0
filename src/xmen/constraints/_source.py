"""Constraint text as a syntax tree that knows where each node stands in the text."""

import ast
import re
import warnings
from bisect import bisect_right
from itertools import accumulate
from typing import NoReturn

from xmen.errors import ConstraintSyntaxError

TOO_DEEP = "the text is nested too deeply; give parts a name in `names` and use the names"

_CLOSING = {")": "(", "]": "[", "}": "{"}
_STRING = re.compile(
    r"'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^\\\n'])*'|\"(?:\\.|[^\\\n\"])*\"", re.DOTALL
)


class SourceText:
    """The text, its tree, and errors that put a caret under a spot of it."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._lines = self.text.split("\n")
        self._ends: dict[int, list[int]] = {}  # of lines with more than ASCII, the byte at which each character ends
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def fail(self, message: str, offset: int) -> NoReturn:
        """Raise a ConstraintSyntaxError that shows the spot."""
        raise ConstraintSyntaxError(message, self.text, offset) from None

    def parse(self) -> ast.expr:
        """The tree of the one expression that the text consists of."""
        self._check_brackets()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python's remarks on unusual escapes in names
                # In brackets, so that the text may run over several lines.
                tree = ast.parse(f"(\n{self.text}\n)", mode="eval").body
        except SyntaxError as error:
            self._fail_as_python(error)
        except (RecursionError, MemoryError):
            self.fail(TOO_DEEP, 0)
        except ValueError:
            self.fail("the text has characters that no Python text can have (a null byte, half a pair)", 0)
        if isinstance(tree, ast.Tuple) and not tree.elts:
            self.fail("the text is empty; write a constraint such as visit(at(3))", 0)
        return tree

    def start(self, node: ast.expr | ast.keyword) -> int:
        """Where the node begins in the text."""
        return self._offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr) -> int:
        """Where the node ends in the text."""
        return self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def between(self, left: ast.expr, right: ast.expr, symbol: str) -> int:
        """Where the symbol stands between two nodes."""
        found = self.text.find(symbol, self.end(left), self.start(right))
        return self.start(right) if found < 0 else found

    def _offset(self, line_number: int, n_bytes: int) -> int:
        line = max(line_number - 2, 0)  # the first line holds the opening bracket only
        if line >= len(self._lines):
            return len(self.text.rstrip())
        text = self._lines[line]
        if not text.isascii():  # Python counts bytes; counted once per line, or long texts take quadratic time
            if line not in self._ends:
                self._ends[line] = list(accumulate(len(character.encode(errors="replace")) for character in text))
            n_bytes = bisect_right(self._ends[line], n_bytes)
        return self._starts[line] + min(n_bytes, len(text))

    def _fail_as_python(self, error: SyntaxError) -> NoReturn:
        line = (error.lineno or 2) - 2
        message = re.sub(r" \(detected at line \d+\)", "", error.msg).replace(" or ':='", "")
        if line >= len(self._lines):
            self.fail("something is missing at the end of the text", len(self.text.rstrip()))
        line = max(line, 0)
        offset = min(self._starts[line] + max((error.offset or 1) - 1, 0), self._starts[line + 1] - 1)
        for wrong, right in (("=<", "<="), ("=>", ">=")):
            if self.text.startswith(wrong, offset):
                message = f"write {right} instead of {wrong}"
        self.fail(message, offset)

    def _check_brackets(self) -> None:
        """Fail at a bracket without a partner: inside the brackets of `parse`, Python would blame another."""
        open_at: list[int] = []
        offset = 0
        while offset < len(self.text):
            character = self.text[offset]
            if character in "'\"":
                string = _STRING.match(self.text, offset)
                if string is None:
                    return  # never ends: Python has a good message for that
                offset = string.end()
                continue
            if character == "#":
                offset = (self.text + "\n").index("\n", offset)
                continue
            if character in "([{":
                open_at.append(offset)
            elif character in _CLOSING:
                if not open_at:
                    self.fail(f"`{character}` closes nothing", offset)
                if self.text[open_at.pop()] != _CLOSING[character]:
                    self.fail(f"`{character}` closes another kind of bracket", offset)
            offset += 1
        if open_at:
            self.fail(f"`{self.text[open_at[-1]]}` is never closed", open_at[-1])
