"""What the browser tests need beyond pip: a Chromium, axe-core, TypeScript and Prettier. `make browser` runs this file.

Chromium is the system's own, found by name or by XMEN_CHROMIUM. The others come from npm into `.venv/node`; nothing of
them is part of the package. What is missing is said, and never an error here: the tests that
need it are skipped, and their summary says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
NODE = Path(__file__).parents[3] / ".venv" / "node"
AXE = NODE / "node_modules" / "axe-core" / "axe.min.js"
TSC = NODE / "node_modules" / "typescript" / "bin" / "tsc"
PRETTIER = NODE / "node_modules" / "prettier" / "bin" / "prettier.cjs"
FROM_NPM = ("axe-core@4.14.0", "prettier@3.9.10", "typescript@7.0.2")

NO_CHROMIUM = "no Chromium found: `make browser` installs one, or XMEN_CHROMIUM names one"
NO_AXE = "axe-core is not here: `make browser` fetches it where npm is"
NO_TSC = "TypeScript is not here: `make browser` fetches it where npm is"
NO_PRETTIER = "Prettier is not here: `make browser` fetches it where npm is"

MINUTES = 60.0


def find_chromium() -> str | None:
    """The executable that XMEN_CHROMIUM names (nothing else, where it is set), or the first one on the path."""
    names = (os.environ["XMEN_CHROMIUM"],) if "XMEN_CHROMIUM" in os.environ else NAMES
    return next((found for name in names if (found := shutil.which(name))), None)


def install_chromium() -> str:
    """Debian's package, where this may be installed; a sentence on what is there now."""
    if found := find_chromium():
        return f"Chromium: {found}"
    if not shutil.which("apt-get"):
        return "Chromium: none, and no apt-get here; install Chromium or Chrome, or set XMEN_CHROMIUM to one"
    if os.geteuid() != 0:
        return "Chromium: none; as root: apt-get install chromium"
    quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30"]
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        failed = _run(["apt-get", *quick, "--quiet", *command], minutes=5)
        if failed:
            return f"Chromium: none; {failed}"
    return f"Chromium: {find_chromium() or 'none, although apt-get installed its package'}"


def install_from_npm() -> str:
    """axe-core, Prettier and TypeScript into `.venv/node`; a sentence on what is there now."""
    if all(path.exists() for path in (AXE, PRETTIER, TSC)):
        return f"axe-core, Prettier and TypeScript: {NODE}"
    if not shutil.which("npm"):
        return "axe-core, Prettier and TypeScript: none, and no npm here"
    NODE.mkdir(parents=True, exist_ok=True)
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix", str(NODE)]
    failed = _run(["npm", "install", *options, *FROM_NPM], minutes=2)
    return f"axe-core, Prettier and TypeScript: {f'none; {failed}' if failed else NODE}"


def _run(command: list[str], minutes: float) -> str | None:
    """Run a command and let it print; why it failed, or None."""
    try:
        code = subprocess.run(command, check=False, timeout=minutes * MINUTES).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"{' '.join(command[:2])} ended with code {code}" if code else None


if __name__ == "__main__":
    sys.stdout.write(f"{install_chromium()}\n{install_from_npm()}\n")
