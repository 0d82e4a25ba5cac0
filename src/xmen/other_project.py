"""Another project on the package index is called `xmen`, imports as `xmen` and has a command `xmen`.

Where both are installed they share one folder, and what was installed last has replaced files of the other. Python
then reports whatever it stumbles over first; these functions say what the reason is.
"""

from __future__ import annotations

from types import ModuleType

REMEDY = (
    "xmen-irl (this project) and xmen (another one on the package index) install into the same folder and replace each "
    "other's files: pip uninstall xmen xmen-irl, then pip install xmen-irl, with the other project in an environment "
    "of its own"
)


def refuse_other_project(package: ModuleType) -> None:
    """Raise ImportError when the package around our modules is not ours."""
    if getattr(package, "__distribution__", None) == "xmen-irl":
        return
    where = getattr(package, "__file__", None) or f"a folder without __init__.py, {next(iter(package.__path__))}"
    raise ImportError(f"`import xmen` gave another project, from {where}. {REMEDY}.", name="xmen")


def note_other_project(error: Exception) -> None:
    """Add a note to an error of loading our names if the other project has put files into our package."""
    from importlib import metadata  # takes longer than all of `import xmen`, so only after an error

    try:
        other = metadata.distribution("xmen")
    except metadata.PackageNotFoundError:
        return
    if any(file.as_posix() == "xmen/__init__.py" for file in other.files or ()):
        error.add_note(f"xmen {other.version} is installed as well. {REMEDY}.")
