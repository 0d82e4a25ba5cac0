# The work of the commands and the module each one lives in; `__init__.py` loads it from here when it is asked for.

from .check import run_check as run_check, run_engines as run_engines
from .fit import run_fit as run_fit
from .new import run_new as run_new
from .plot import run_plot as run_plot
from .reproduce import run_reproduce as run_reproduce
from .rules import run_rules as run_rules
from .sample import run_fill as run_fill, run_plan as run_plan, run_sample as run_sample
from .studio import run_studio as run_studio

STOPPED: int
NOTHING_KEPT: str

def main() -> None: ...
def end_loading() -> None: ...
