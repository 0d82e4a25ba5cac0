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

Messages name what the user named, print both sides of a mismatch, and say what to do. Those with facts are a
`Message`: a sentence with places, rendered in the words of whoever reads it.
"""

import copyreg
import errno
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

# ---- Messages: sentences with places for facts, which are rendered in the words of whoever reads them


class Words(NamedTuple):
    """What readers call things: states and actions of a world, events and features of a problem, settings."""

    world: Any = None
    events: Mapping[Any, str] = MappingProxyType({})
    features: Sequence[str] = ()
    options: bool = False  # settings as the command line spells them
    most: int | None = 6  # states or actions shown of one event; None: all, spelled as text for the world reads them
    labels: Mapping[Any, str] = MappingProxyType({})  # of settings, or of (setting, value), where there is a page

    def say(self, thing: object) -> str:
        """The text of an error, a warning, a rule or a message in these words."""
        with speaking(self):
            return str(thing)


_PYTHON = Words()
_SPOKEN: ContextVar[Words] = ContextVar("_SPOKEN", default=_PYTHON)
words_here = _SPOKEN.get


@contextmanager
def speaking(words: Words) -> Iterator[None]:
    """Inside, everything that is printed is in these words; settings keep the words of the command line or a page."""
    # The record itself where it can be: texts are kept for as long as the words are the same.
    outer = _SPOKEN.get()
    lacks = {name: getattr(outer, name) for name in ("options", "labels") if not getattr(words, name)}
    lacks = {name: kept for name, kept in lacks.items() if kept}
    token = _SPOKEN.set(words._replace(**lacks) if lacks else words)
    try:
        yield
    finally:
        _SPOKEN.reset(token)


class Message(str):
    """A sentence with places, and facts that are printed there in the words of whoever reads it.

    Facts are numbers, texts, events, rules, `Feature`, `Setting` and other messages. As a bare str the message is in
    the words of the world that it is about.

    >>> told = Message("{} is unbounded: set {l2} > 0", Feature(1), l2=Setting("l2"))
    >>> print(told, Words(features=["steps", "mud"], options=True).say(told), sep=chr(10))
    feature 1 is unbounded: set l2 > 0
    'mud' is unbounded: set --l2 > 0
    """

    sentence: str
    parts: tuple[object, ...]
    facts: dict[str, Any]
    world: Any

    def __new__(cls, sentence: str, *parts: object, world: Any = None, **facts: object) -> "Message":
        with speaking(_PYTHON if world is None else Words(world)):
            message = super().__new__(cls, sentence.format(*parts, **facts))
        message.sentence, message.parts, message.facts, message.world = sentence, parts, facts, world
        return message

    def __str__(self) -> str:
        words = words_here()
        with speaking(words if self.world is None else words._replace(world=self.world)):
            return self.sentence.format(*self.parts, **self.facts)

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)  # facts may hold functions, which no other process could read


def listing(parts: Sequence[object], most: int) -> Message:
    """'a', 'a, b and c', or 'a, b and 12 more' where there are more parts than shown."""
    shown = [*parts[:most], f"{len(parts) - most} more"] if len(parts) > most else parts
    return Message(", ".join(["{}"] * len(shown[:-1])) + " and {}" if len(shown) > 1 else "{}", *shown)


def joined(parts: Sequence[object], by: str = "", place: str = "{}") -> Message:
    """All parts, with `by` between them."""
    return Message(by.join([place] * len(parts)), *parts)


class Feature(NamedTuple):
    """A feature: its name in quotes, or its number."""

    number: int

    def __str__(self) -> str:
        names = words_here().features
        return repr(names[self.number]) if self.number < len(names) else f"feature {self.number}"


class Setting(NamedTuple):
    """A setting, and a value that it may have: validity='best' in Python, --validity best on the command line."""

    name: str
    value: object = None

    def __str__(self) -> str:
        label = words_here().labels.get(self, words_here().labels.get(self.name))
        if label is not None:
            return label if self.value is None or self in words_here().labels else f"{label} {self.value}"
        if words_here().options:
            return f"--{self.name}" if self.value is None else f"--{self.name} {self.value}"
        return self.name if self.value is None else f"{self.name}={self.value!r}"


def with_type(value: object) -> str:
    """A value that was given, and its type, as messages show what is wrong: 3 (int)."""
    return f"{value!r:.60} ({type(value).__name__})"


# ---- Errors


class XmenError(Exception):
    """The root of the tree: `except xmen.XmenError` catches everything xmen raises on purpose.

    `reason` is the sentence. Printed, it stands after the `place` that it is about (in a file, say) and before
    `details` (a table, a line of text with a caret under the spot).
    """

    place = ""
    details: str = ""
    words: Words | None = None  # of the world or the problem that was asked, where the reader has none

    @property
    def reason(self) -> str:
        """The sentence alone."""
        return self._said(self.args[0] if self.args else "")

    def _said(self, thing: object) -> str:
        here = words_here()
        return (here if here.world is not None or self.words is None else self.words).say(thing)

    def __str__(self) -> str:
        return f"{self.place and f'{self.place}: '}{self.reason}{self._said(self.details)}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        facts = {name: value for name, value in vars(self).items() if name != "words"}
        # Without __init__, which may ask for more than the sentence.
        return copyreg.__newobj__, (type(self), self.reason), facts  # type: ignore[attr-defined]


class WorldError(XmenError, ValueError):
    """A world that cannot be built as described."""


class TrajectoryError(XmenError, ValueError):
    """States and actions that do not form a trajectory."""


class InvalidDemonstrationError(TrajectoryError):
    """A demonstration that the world makes impossible or a constraint forbids.

    `index` counts demonstrations from 0; `constraint` is the name of the broken constraint, None when the world itself
    is the reason; `position` is the first position t at which it is lost.
    """

    def __init__(self, message: str, *, index: int, constraint: str | None = None, position: int | None = None) -> None:
        super().__init__(message)
        self.index, self.constraint, self.position = index, constraint, position


class ConstraintError(XmenError, ValueError):
    """An event or a constraint that makes no sense as written."""


class ConstraintSyntaxError(ConstraintError):
    """Text that is not a constraint; `text` and `offset` (from 0) say where reading stopped.

    >>> print(ConstraintSyntaxError("expected an operand", "F(a) & & b", 7))
    expected an operand
        F(a) & & b
               ^
    """

    def __init__(self, message: str, text: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.text, self.offset = text, offset
        if text is not None and offset is not None:
            spot, shown = min(max(offset, 0), len(text)), 60  # characters on either side of the caret
            start = max(text.rfind("\n", 0, spot) + 1, spot - shown)
            line = text[start : spot + shown].split("\n")[0]
            padding = re.sub(r"[^\t]", " ", text[start:spot])  # with its tabs: the caret lines up whatever their width
            self.details = f"\n    {line}\n    {padding}^"


class MisuseError(ConstraintError, TypeError):
    """Python syntax that cannot mean what it looks like: bool(constraint), a < b < c, `== 1 & x`."""


class RewardError(XmenError, ValueError):
    """Rewards, features or weights that do not fit the world."""


class EngineError(XmenError, ValueError):
    """A setting or a question that this engine cannot serve; the message names one that can."""


class ProductTooLargeError(EngineError):
    """The product of world and machines went over the node budget; `details` say what multiplies it."""

    def __init__(self, message: str, details: str = "", world: Any = None) -> None:
        super().__init__(message)
        self.details, self.words = details, None if world is None else Words(world)


class DivergenceError(EngineError):
    """Without a horizon, the weights of ever longer trajectories do not add up to a finite number."""

    cycle: str = ""  # the states that it costs too little to go round


class InfeasibleError(XmenError, ValueError):
    """No trajectory satisfies everything, or no policy can promise it.

    `conflict` holds the names of a minimal set of constraints that contradict each other in this world: without any one
    of them the rest can be satisfied. It is empty when the world alone has no complete trajectory.

    Where chance is the obstacle, `best` is the largest probability with which a policy can keep the rules (None
    elsewhere) and `dropping` holds the names of those rules without any one of which all others can be kept surely.
    Of a sighting that nothing explains, `position` is that from which nothing fits, `conflict` what is in the way.
    """

    position: int | None = None

    def __init__(
        self, message: str, conflict: Sequence[str] = (), best: float | None = None, dropping: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.conflict, self.best, self.dropping = tuple(conflict), best, tuple(dropping)


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

    def __reduce__(self) -> str | tuple[Any, ...]:
        return type(self), (self.filename, self.role)


class PathError(FileFormatError, TypeError):
    """Something else where the name of a file or a folder is expected."""


class StorageError(FileFormatError):
    """A saved model that is damaged, foreign or newer than this xmen, or that cannot be written there."""


class NotFittedError(XmenError, ValueError, AttributeError):
    """A learner was asked for something that it only knows after `fit`."""


class MissingExtraError(XmenError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it.

    >>> print(MissingExtraError("networkx", extra="networkx", needed_for="a graph"))
    a graph needs networkx, which is not installed: pip install "xmen-irl[networkx]", or in a checkout ".[networkx]"
    """

    def __init__(self, module: str, *, extra: str, needed_for: str) -> None:
        advice = f'pip install "xmen-irl[{extra}]", or in a checkout ".[{extra}]"'
        super().__init__(f"{needed_for} needs {module}, which is not installed: {advice}", name=module)
        self.extra, self.needed_for = extra, needed_for


def extra_module(module: str, needed_for: str, extra: str | None = None) -> Any:
    """A module that an extra brings, by default one of its name; MissingExtraError where it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(package, extra=extra or package, needed_for=needed_for) from None


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


# ---- Warnings: what was asked for was done, and something about it is worth knowing


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
    """Demonstrations keep another promise than `validity`: a causal fit makes up for the difference by its weights."""


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
# A few bytes can ask for anything: a grid of 20,000 by 20,000 cells, a small archive that unpacks to a large file. An
# environment variable, which is read each time, raises the limit: XMEN_MEMORY=16GB, os.environ["XMEN_MEMORY"] = "16GB".

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
        setting = f"{self.variable}={self._shown(raised).replace(' ', '').replace(',', '')}"
        above = f"{what} needs {asked}, above the limit of {self._shown(most)}"
        raise into(f"{above}. {advice}, or raise the limit: set {setting} in the environment.")

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
