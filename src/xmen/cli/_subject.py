"""What the user points at: a problem file, or the folder of a model together with the problem it was learned for."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from xmen.answers import rule_notes
from xmen.cli._output import print_notes
from xmen.constraints.constraint import Constraint, conjunction
from xmen.engines.distribution import Distribution
from xmen.errors import ConstraintError, ConstraintSyntaxError, EngineError, FileFormatError, StorageError, XmenError
from xmen.files import half_written, not_a_link, spare_files
from xmen.learners.base import Learner
from xmen.policies.policy import Policy
from xmen.problem import Problem, problem_files, problem_parts, read_problem, write_problem
from xmen.problem.document import fenced
from xmen.registry import load_with_problem
from xmen.rules.inference import RuleInference
from xmen.storage.codec import sha256
from xmen.storage.models import MODEL, PROBLEM, content, digest, model_in, write_model
from xmen.worlds import Network

# ---- The folder that `xmen fit` writes. `xm.load(folder)` reads the model and the problem:
#
# problem.toml               the problem with the learned weights, a problem file like any other
# model.safetensors          the model, which refers to the problem file
# problem_demos.csv, ...     files that the problem file names
# problem-2.toml, ...        copies of them, while a save is at work: a kill may leave them
# checkpoint.safetensors     while a fit is not finished: `xmen fit --resume` goes on from it
# last_state.safetensors     of a fit that ended before it converged: `xmen fit --resume --max-iter MORE` goes on

CHECKPOINT = "checkpoint.safetensors"
LAST_STATE = "last_state.safetensors"
RESUME = "The same xmen fit command with --resume goes on."


def claim(folder: Path, path: Path, problem: Problem, kind: str, force: bool = False) -> Path:
    """Make sure that a model may be written here, before any work is done; returns the checkpoint's path.

    The folder is new or empty, or holds a checkpoint of xmen or a model of the same problem and the same class (the
    name `kind`), any model if `force`; other files in it are left alone.
    """

    def refuse(why: str) -> NoReturn:
        raise StorageError(f"--out {folder}: {why}")

    if folder.exists() and not folder.is_dir():
        refuse("this is a file; a model is a folder. Choose another name.")
    if not folder.exists():
        if not folder.parent.is_dir():
            refuse(f"there is no folder {str(folder.parent)!r}; make it first")
        folder.mkdir()
    entries = [entry.name for entry in folder.iterdir()]
    for name in entries:
        if name in (MODEL, CHECKPOINT, LAST_STATE) or name.startswith("problem"):
            not_a_link(folder / name)
    # What a killed run of xmen may have left is nothing: halves of files, and copies.
    free = all(half_written(name) or re.match(r"problem-\d+[._]", name) for name in entries)
    found, _ = model_in(folder)
    if not (free or found or CHECKPOINT in entries):
        refuse("this folder holds other things and no xmen model: nothing is written there. Choose another folder.")
    if not force and found and (reason := _why_another(folder, path, problem, kind)):
        refuse(f"{reason}. Choose another folder with --out, or replace the model with --force.")
    if not os.access(folder, os.W_OK | os.X_OK):
        refuse("this folder cannot be written to")
    return folder / CHECKPOINT


def _why_another(folder: Path, path: Path, problem: Problem, kind: str) -> str:
    """Why the model in the folder answers another problem than that at `path`, or is not of class `kind`; '' if not."""
    found, files = model_in(folder)
    stored = folder / next(reversed(files), "")
    if stored == folder:
        return f"the model there was not written by xmen fit, so that it may answer another problem than {path}"
    try:
        with fenced(folder):
            other = read_problem(stored)
    except (OSError, XmenError) as error:
        return f"whether the model there answers {path} cannot be told ({error})"

    def parts(one: Problem) -> dict[str, str]:  # learned weights, demonstrations and settings make no difference
        known: dict[str, Any] = {"the world": one.world, "the events": dict(one.events), "the rules": dict(one.rules)}
        return {name: digest(part, name) for name, part in (known | {"the features": one.features}).items()}

    theirs = parts(other)
    if which := [name for name, part in parts(problem).items() if part != theirs[name]]:
        return f"the model there answers another problem: {path} and {stored} differ in {' and '.join(which)}"
    return "" if found == kind else f"the model there is of {found}, and this fit would put {kind} in its place"


def save_model(model: Learner, problem: Problem, folder: Path) -> None:
    """Write model and problem: whatever happens, the old model is there or the new one, each with its own problem.

    First the model gets copies of the problem's files, under names that are free, and then the files themselves.
    """
    (_, before), (spare, copies) = model_in(folder), spare_files(folder / PROBLEM, partial(problem_files, problem))
    for file in problem_files(problem, folder / PROBLEM):
        not_a_link(file)
    try:
        for target in (spare, folder / PROBLEM):
            write_problem(problem, target)
            files = {file.name: content for file, content in problem_files(problem, target).items()}
            write_model(folder, *content(model), files, problem_parts(problem))
    finally:
        _, now = model_in(folder)
        unused = {file.name: sha256(content) for file, content in copies.items()}
        if PROBLEM in now:
            named = (folder / PROBLEM).read_text(encoding="utf-8")
            unused |= {name: checksum for name, checksum in before.items() if name not in named}
        for file, checksum in ((folder / name, checksum) for name, checksum in unused.items() if name not in now):
            if not file.is_symlink() and file.is_file() and sha256(file.read_bytes()) == checksum:
                file.unlink()


def open_problem(path: Path, demos: Path | None = None) -> Problem:
    """The problem in a file, with demonstrations from another file if one is given."""
    if path.is_dir():
        inside = path / PROBLEM
        hint = f": give the problem file inside it, {inside}" if inside.is_file() else ""
        raise FileFormatError(f"{path} is a folder, not a problem file{hint}")
    problem = read_problem(path)
    return problem if demos is None else replace(problem, demonstrations=demos)


class Subject(NamedTuple):
    """A problem, and the model that was learned for it if there is one."""

    problem: Problem
    model: Learner | None = None

    def on(self, device: str | None) -> "Subject":
        """Problem and model, answering on a device; as they were for None."""
        if device is None:
            return self
        if self.model is not None:
            if "device" not in self.model.setting_names():
                raise EngineError(f"--device: a {type(self.model).__name__} computes on the host.")
            self.model.set_params(device=device)
        settings = self.problem.settings.changed(device=device)
        return Subject(replace(self.problem, settings=settings), self.model)

    def distribution(
        self, also: Constraint | None = None, engine: str | None = None, seed: int | None = None
    ) -> Distribution:
        """The trajectories of the problem or of the model, under extra rules and changed settings."""
        changes = {name: value for name, value in (("engine", engine), ("seed", seed)) if value is not None}
        if self.model is None:
            return self.problem.distribution(also, **changes)
        with self.problem.speaking():
            return self.model.set_params(**changes).distribution(also)


def open_subject(path: Path, demos: Path | None = None) -> Subject:
    """A problem file, or a model's folder: written by `xmen fit`, or by `model.save` in Python."""
    if not path.is_dir():
        return Subject(open_problem(path, demos))
    if not model_in(path)[0] and (path / CHECKPOINT).exists():
        raise StorageError(f"{path}: the fit in this folder is not finished. {RESUME}")
    model, problem = load_with_problem(path)
    takes = "This command takes a problem file or a model's folder"
    if isinstance(model, Policy):
        acts = "as xmen plan --out wrote it: it acts step by step, in Python by xm.load"
        raise StorageError(f"{path} is a policy, {acts}. {takes}.")
    if isinstance(model, RuleInference):
        found = f"{path} holds rules that RuleInference found: {'; '.join(model.texts_) or 'none'}"
        reads = "It is for Python: xm.load reads it, and its model_ samples"
        raise StorageError(f"{found}. {reads}. {takes}; xmen rules --write adds to the former.")
    if (path / CHECKPOINT).exists():
        before = f"the last fit in {path} is not finished: this is the model as it was saved before"
        print_notes([f"{before}. {RESUME}"])
    if problem is not None:
        return Subject(problem if demos is None else replace(problem, demonstrations=demos), model)
    if isinstance(model.world, Network):
        raise StorageError(f"{path} is a model of a Network: its trips need a start and a goal. Use it from Python.")
    rule = model._rule()
    rules = {} if rule is None else {rule.label: rule}
    return Subject(Problem(model.world, rules=rules, reward=model.reward_, demonstrations=demos), model)


def extra_rules(texts: Sequence[str], problem: Problem) -> Constraint | None:
    """The rules of `--also`, which may use the problem's events."""
    rules = []
    for text in texts:
        try:
            rules.append(problem.further(text))
        except ConstraintSyntaxError as error:
            error.place = "--also"
            raise
        except ConstraintError as error:
            raise ConstraintError(f"--also {text}: {error}") from None
    print_notes(rule_notes(problem, {rule.label: rule for rule in rules}))
    return conjunction(rules)
