"""Settings as scikit-learn wants them: stored as given, listed by the signature, free of logic."""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from typing import Any, Self

import numpy as np

from xmen.errors import EngineError


class Settings:
    """`get_params` and `set_params` by the signature of `__init__`, which only stores its arguments.

    scikit-learn's `clone`, `GridSearchCV` and `cross_val_score` work by duck typing; xmen does not import it.
    """

    @classmethod
    def _setting_names(cls) -> list[str]:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name, exactly as they were given; `deep` is there for scikit-learn."""
        return {name: getattr(self, name) for name in self._setting_names()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name; the next `fit` uses them."""
        known = self._setting_names()
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no setting {name!r}; it has {', '.join(map(repr, known))}."
                )
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = []
        for name, value in self.get_params().items():
            default = defaults[name].default
            if value is not default and not (isinstance(value, int | float | str) and value == default):
                text = f"array of shape {value.shape}" if hasattr(value, "shape") else repr(value)
                shown.append(f"{name}={text if len(text) <= 60 else text[:57] + '...'}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: fits without targets, takes lists of trajectories."""
        utils = import_module("sklearn.utils")  # only scikit-learn calls this
        return utils.Tags(
            estimator_type="density_estimator",
            target_tags=utils.TargetTags(required=False),
            input_tags=utils.InputTags(two_d_array=False),
        )


def require_number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, optional: bool = False
) -> None:
    """Refuse a setting that is not a finite number, `least` or more and above `above`; None passes if `optional`."""
    if value is None and optional:
        return
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and math.isfinite(value) and value >= least and value > above):
        wanted = f"above {above:g}" if above > -math.inf else f"{least:g} or more"
        raise EngineError(f"{name} is a number, {wanted}; got {value!r}.")


def require_whole(name: str, value: Any, *, least: int, optional: bool = False) -> None:
    """Refuse a setting that is not a whole number, `least` or more; None passes if `optional`."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise EngineError(f"{name} is a whole number, {least} or more; got {value!r}.")
