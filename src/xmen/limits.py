"""What an input may cost: estimated from its numbers, and refused before memory is touched.

A few bytes can ask for anything: a grid of 20,000 by 20,000 cells, a horizon of a thousand million, a small archive
that unpacks to a large file. Every such request is measured against a limit here. A limit is raised by an environment
variable, which is read each time: XMEN_MEMORY=16GB before the command, or os.environ["XMEN_MEMORY"] = "16GB".
"""

from __future__ import annotations

import math
import os
import re
from typing import NamedTuple

from xmen.errors import EngineError, XmenError

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
