"""Learn what a demonstrator values under rules that must never be broken, and generate behaviour that keeps them.

>>> import xmen as xm
>>> grid = xm.GridWorld(4, 4, start=(0, 0), goal=(3, 3), moves=("up", "right"))
>>> key = xm.visit(grid.at((1, 2))).named("fetch the key")
>>> d = xm.distribution(grid, key & xm.never(grid.at((2, 2))), reward=None)
>>> [grid.cell(s) for s in d.mode().states]
[(0, 0), (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 3)]
"""

import lazy_loader

__version__ = "0.1.0"
__distribution__ = "xmen-irl"  # what pip calls it; another project is called xmen

# Names are loaded when they are first asked for, as `__init__.pyi` lists them: numba, solvers and plots take seconds.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
