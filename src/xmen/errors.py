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
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple


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

    cycle: str = ""  # the states that it costs too little to go round


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


# ---- Warnings: what was asked for was done, and something about it is worth knowing.
#
# CostsWarning (UserWarning)      a file of costs does not name all states RuleWarning (UserWarning)       no
# trajectory can break a rule LearningWarning (UserWarning)   the fit went through ├── IdentifiabilityWarning
# weights that no set of demonstrations can tell apart ├── UnboundedWarning            the best weights are infinitely
# large ├── StartsWarning               demonstrations start elsewhere than the joint model does ├── LuckWarning
# the world has chance, and the model takes its outcomes for choices ├── PromiseWarning              the learned
# policy keeps the rules more or less often than the demonstrations ├── ConvergenceWarning          stopped before the
# optimum ├── GuaranteeWarning            settings for which the theorems of method="paper" promise nothing └──
# InterruptedWarning          stopped by Ctrl-C; what was learned so far is kept


class CostsWarning(UserWarning):
    """A file of costs leaves out states where trajectories can be: they cost 0 there, meant or not."""


class RuleWarning(UserWarning):
    """No trajectory of the world can break a rule, which may have been meant otherwise: 15 % is 0.15."""


class LearningWarning(UserWarning):
    """Something to know about a fit that went through."""


class IdentifiabilityWarning(LearningWarning):
    """Combinations of features that are the same on every valid trajectory: their weights mean nothing."""


class StartsWarning(LearningWarning):
    """Demonstrations start in other shares than the joint model's trajectories: `given="start"` does not mind."""


class LuckWarning(LearningWarning):
    """P(tau) was fitted in a world with chance, where it conditions on outcomes: `CausalXMEN` does not."""


class PromiseWarning(LearningWarning):
    """`validity` is not what demonstrations keep to: the weights of a causal fit make up for the difference."""


class UnboundedWarning(LearningWarning):
    """Demonstrations at the edge of what is possible: the likelihood rises for ever along some direction."""


class ConvergenceWarning(LearningWarning):
    """The fit stopped before its tolerance was met."""


class GuaranteeWarning(LearningWarning):
    """Settings outside the conditions of the theorems: the fit goes through, its rate is not guaranteed."""


class InterruptedWarning(LearningWarning):
    """The fit was stopped by Ctrl-C and kept what it had learned."""


def notify(message: str, category: type[Warning]) -> None:
    """Warn at the line outside xmen that set this off, however deep inside we are."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "xmen":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# ---- What an input may cost: estimated from its numbers, and refused before memory is touched.
#
# A few bytes can ask for anything: a grid of 20,000 by 20,000 cells, a horizon of a thousand million, a small archive
# that unpacks to a large file. Every such request is measured against a limit here. A limit is raised by an
# environment variable, which is read each time: XMEN_MEMORY=16GB before the command, or os.environ["XMEN_MEMORY"] =
# "16GB".


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d*)?(?:e\d{1,3})?)\s*([kmgt]?)b?\s*", re.IGNORECASE)


class Limit(NamedTuple):
    """The most of one thing that an input may ask for."""

    variable: str
    default: int
    unit: str  # what is counted; bytes are shown as GB

    @property
    def most(self) -> float:
        """The limit, as the environment has it or by default."""
        text = os.environ.get(self.variable, "")
        if not text.strip():
            return self.default
        amount = _AMOUNT.fullmatch(text)
        if amount is None:
            raise XmenError(f"{self.variable} is a number such as {self._shown(4 * self.default)}; got {text!r:.60}.")
        return float(amount[1]) * _UNITS[amount[2].lower()]

    def require(self, needed: float, what: str, into: type[XmenError], advice: str = "Make it smaller") -> None:
        """Refuse what needs more than the limit; `what` names it, and `advice` says what else could be done.

        >>> MEMORY.require(3.2e10, "a grid of 20,000 x 20,000 cells", XmenError)
        Traceback (most recent call last):
        xmen.errors.XmenError: a grid of 20,000 x 20,000 cells needs about 32 GB of memory, above the limit of 4 GB. \
Make it smaller, or raise the limit: set XMEN_MEMORY=33GB in the environment.
        """
        most, needed = self.most, min(needed, 1e300)  # whole numbers may have any number of digits
        if needed <= most:
            return
        if self.unit == "bytes":
            asked, raised = f"about {self._shown(needed)} of memory", 1e9 * math.ceil(1.01 * needed / 1e9)
        else:
            asked, raised = f"{self._shown(needed)} {self.unit} or more", 10 ** math.ceil(math.log10(needed) + 0.01)
        raise into(
            f"{what} needs {asked}, above the limit of {self._shown(most)}. {advice}, or raise the limit: set "
            f"{self.variable}={self._shown(raised).replace(' ', '').replace(',', '')} in the environment."
        )

    def _shown(self, amount: float) -> str:
        if self.unit != "bytes":
            return f"{amount:,.0f}" if amount < 1e15 else f"{amount:.1e}"
        size, unit = (amount / 1e9, "GB") if amount < 1e15 else (amount / 1e12, "TB")
        return f"{size:,.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}" if size < 1e15 else f"{size:.1e} {unit}"


MEMORY = Limit("XMEN_MEMORY", 4 * 10**9, "bytes")
"""Of worlds, horizons, networks, samples and the content of files."""

COMPARISONS = Limit("XMEN_COMPARISONS", 20_000_000, "comparisons")
"""Of alternatives, while the machine of one temporal formula is worked out: a second or two."""

READINGS = Limit("XMEN_READINGS", 300_000_000, "readings")
"""Of moves by machines, while rules are written as clauses for the xor engine: half a minute."""


def require_horizon(horizon: int, needed: float) -> None:
    """Refuse a horizon for which a dynamic program would need so many bytes, where there are not so many."""
    MEMORY.require(needed, f"a horizon of {horizon:,} actions", EngineError, "Lower the horizon")


# ---- Answers as JSON can hold them


def error_record(error: BaseException, message: str = "") -> dict[str, Any]:
    """What is said about an error: the message (its own, if none is given), its class, and what else it knows."""
    record: dict[str, Any] = {"error": message or str(error), "kind": type(error).__name__}
    if isinstance(error, InfeasibleError):
        record["conflict"] = list(error.conflict)
        if error.best is not None:
            record |= {"best": error.best, "dropping": list(error.dropping)}
    if isinstance(error, InvalidDemonstrationError):
        record |= {"demonstration": error.index, "constraint": error.constraint, "position": error.position}
    return record


def plain(value: Any) -> Any:
    """The value in dicts and lists; numbers that JSON does not know (nan, inf) become None.

    >>> plain({"share": float("nan"), 3: (1, 2)})
    {'share': None, '3': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
