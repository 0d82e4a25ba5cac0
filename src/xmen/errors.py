"""Every error that xmen raises on purpose, in one tree.

    XmenError
    ├── WorldError (ValueError)                     a world that cannot be built
    ├── TrajectoryError (ValueError)                states and actions that are not a trajectory
    │   └── InvalidDemonstrationError               a demonstration the world or a constraint forbids
    ├── ConstraintError (ValueError)                an event or constraint that makes no sense
    │   ├── ConstraintSyntaxError                   text that cannot be read, with a caret at the spot
    │   └── MisuseError (TypeError)                 bool(constraint), chained comparisons, precedence
    ├── RewardError (ValueError)                    rewards or features that do not fit the world
    ├── EngineError (ValueError)                    a question that this engine or setting cannot answer
    │   ├── ProductTooLargeError                    world times machines went over the node budget
    │   └── DivergenceError                         without a horizon, weights that do not add up
    ├── InfeasibleError (ValueError)                no trajectory is left; names a minimal conflict
    ├── OracleError (RuntimeError)                  a solver was asked badly, or failed
    │   ├── OracleDiedError                         its process ended before it had answered
    │   └── OracleTimeoutError                      it gave no answer within its time limit
    ├── FileFormatError (ValueError)                a file that does not say what it should
    │   ├── MissingFileError (FileNotFoundError)    a file that is not there
    │   ├── PathError (TypeError)                   something else where the name of a file or folder is expected
    │   └── StorageError                            a saved model that cannot be read, or written there
    ├── NotFittedError (ValueError)                 a learner that has not learned anything yet
    └── MissingExtraError (ImportError)             an optional dependency is not installed

Messages name what the user named, print both sides of a mismatch, and say what to do.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from xmen.other_project import refuse_other_project

# Nearly every module of ours loads this one first: the place to notice that the package around it is not ours.
refuse_other_project(sys.modules["xmen"])


class XmenError(Exception):
    """The root of the tree: `except xmen.XmenError` catches everything xmen raises on purpose."""


class WorldError(XmenError, ValueError):
    """A world that cannot be built as described."""


class TrajectoryError(XmenError, ValueError):
    """States and actions that do not form a trajectory."""


class InvalidDemonstrationError(TrajectoryError):
    """A demonstration that the world makes impossible or a constraint forbids.

    `index` counts demonstrations from 0; `constraint` is the name of the broken constraint, None
    when the world itself is the reason; `position` is the first position t at which it is lost.
    """

    def __init__(self, message: str, *, index: int, constraint: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.constraint = constraint
        self.position = position

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.__dict__.copy())


class ConstraintError(XmenError, ValueError):
    """An event or a constraint that makes no sense as written."""


class ConstraintSyntaxError(ConstraintError):
    """Text that is not a constraint; `text` and `offset` (from 0) say where reading stopped."""

    def __init__(self, message: str, text: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.text = text
        self.offset = offset

    @classmethod
    def at(cls, message: str, text: str, offset: int) -> ConstraintSyntaxError:
        """An error that shows the offending line with a caret under the spot.

        >>> print(ConstraintSyntaxError.at("expected an operand", "F(a) & & b", 7))
        expected an operand
            F(a) & & b
                   ^
        """
        return cls(f"{message}\n{caret_lines(text, offset)}", text, offset)


def caret_lines(text: str, offset: int) -> str:
    """The line of `text` that holds `offset`, indented, and a caret line under it."""
    offset = min(max(offset, 0), len(text))
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    # Tabs are kept in the padding so that the caret lines up whatever their width.
    padding = "".join("\t" if character == "\t" else " " for character in text[line_start:offset])
    return f"    {line}\n    {padding}^"


class MisuseError(ConstraintError, TypeError):
    """Python syntax that cannot mean what it looks like: bool(constraint), a < b < c, `== 1 & x`."""


class RewardError(XmenError, ValueError):
    """Rewards, features or weights that do not fit the world."""


class EngineError(XmenError, ValueError):
    """A setting or a question that this engine cannot serve; the message names one that can."""


class ProductTooLargeError(EngineError):
    """The product of world and machines went over the node budget."""


class DivergenceError(EngineError):
    """Without a horizon, the weights of ever longer trajectories do not add up to a finite number."""


class InfeasibleError(XmenError, ValueError):
    """No trajectory satisfies everything, or no policy can promise it.

    `conflict` holds the names of a minimal set of constraints that contradict each other in this
    world: without any one of them the rest can be satisfied. It is empty when the world alone has
    no complete trajectory.

    Where chance is the obstacle, `best` is the largest probability with which a policy can keep the rules (None
    elsewhere) and `dropping` holds the names of those rules without any one of which all others can be kept surely.
    """

    def __init__(
        self, message: str, conflict: Sequence[str] = (), best: float | None = None, dropping: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.conflict: tuple[str, ...] = tuple(conflict)
        self.best = best
        self.dropping: tuple[str, ...] = tuple(dropping)


class OracleError(XmenError, RuntimeError):
    """A question that does not fit the oracle's formula, or a solver that failed."""


class OracleDiedError(OracleError):
    """The oracle's process ended before it had answered: killed, crashed, or out of memory. It may be asked again."""


class OracleTimeoutError(OracleError):
    """The oracle gave no answer within its time limit; what it had found by then is no answer."""


class FileFormatError(XmenError, ValueError):
    """A file that does not follow its format; the message names file, line and what was expected."""


class MissingFileError(FileFormatError, FileNotFoundError):
    """A file that is not there; a name without a folder is looked for where the program runs."""

    def __init__(self, file: str, role: str = "") -> None:
        self.errno, self.strerror, self.filename, self.role = errno.ENOENT, os.strerror(errno.ENOENT), file, role
        where = "" if os.path.isabs(file) else f" in {os.getcwd()}"
        super().__init__(f"{file}: {self.strerror}{where}{role and f', asked for as {role}'}")

    def __str__(self) -> str:
        return str(self.args[0])  # errors of the system put their number in front

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.filename, self.role)


class PathError(FileFormatError, TypeError):
    """Something else where the name of a file or a folder is expected."""


class StorageError(FileFormatError):
    """A saved model that is damaged, foreign or newer than this xmen, or that cannot be written there."""


class NotFittedError(XmenError, ValueError, AttributeError):
    """A learner was asked for something that it only knows after `fit`."""


class MissingExtraError(XmenError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it.

    >>> print(MissingExtraError("networkx", extra="networkx", needed_for="MDP.from_networkx"))
    MDP.from_networkx needs networkx, which is not installed: pip install "xmen-irl[networkx]"
    """

    def __init__(self, module: str, *, extra: str, needed_for: str) -> None:
        super().__init__(
            f'{needed_for} needs {module}, which is not installed: pip install "xmen-irl[{extra}]"', name=module
        )
        self.extra = extra
        self.needed_for = needed_for

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self), self.__dict__.copy())


def extra_module(module: str, needed_for: str, extra: str | None = None) -> Any:
    """A module that an extra brings, by default one of its name; MissingExtraError where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(package, extra=extra or package, needed_for=needed_for) from None


def _rebuild(cls: type[Exception], message: str, attributes: dict[str, object]) -> Exception:
    # Errors travel between processes; pickle's default would call __init__ without its keywords.
    error = cls.__new__(cls, message)
    error.args = (message,)
    error.__dict__.update(attributes)
    return error


@contextmanager
def foreign_errors(what: str, into: type[XmenError] = FileFormatError) -> Iterator[None]:
    """The one place where errors of Python and of libraries become ours: what is inside reads what others wrote.

    Errors of ours pass, and so do those of the system (no such file), which name the file themselves.

    >>> with foreign_errors("n.toml"):
    ...     int("9" * 5000)
    Traceback (most recent call last):
    xmen.errors.FileFormatError: n.toml: a number has too many digits
    """
    try:
        yield
    except XmenError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise into(f"{what}: {in_words(error)}") from error


def in_words(error: BaseException) -> str:
    """What an error of Python or of a library says to somebody who knows neither."""
    text = " ".join(str(error).split())
    if isinstance(error, ValueError) and "integer string conversion" in text:
        return "a number has too many digits"
    if isinstance(error, KeyError):
        return f"there is no {text}"
    for kind, words in _WORDS.items():
        if isinstance(error, kind):
            return words
    return text if text and isinstance(error, ValueError | LookupError | OSError) else f"{type(error).__name__}: {text}"


_WORDS: dict[type[BaseException], str] = {
    RecursionError: "it is nested too deeply",
    MemoryError: "there is not enough memory for it",
    OverflowError: "a number is too large",
    EOFError: "it ends too early",
    UnicodeError: "it is not valid text",
}
