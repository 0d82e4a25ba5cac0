"""scikit-learn's contract for settings: stored as given, listed by the signature, without logic in `__init__`."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Self

from xmen.options import Options, listed


class Estimator:
    """`get_params` and `set_params` by the signature of `__init__`, which only stores: subclasses are dataclasses.

    scikit-learn's `clone`, `GridSearchCV` and `cross_val_score` work by duck typing; xmen does not import it.
    """

    @classmethod
    def setting_names(cls) -> list[str]:
        """The names of all settings, in the order of the signature."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name, exactly as they were given; if `deep`, those of a record too (`method__n_samples`)."""
        found = {name: getattr(self, name) for name in self.setting_names()}
        records = {name: value.chosen() for name, value in found.items() if deep and isinstance(value, Options)}
        return found | {f"{name}__{part}": value for name, record in records.items() for part, value in record.items()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings by name; the next `fit` uses them."""
        known = self.setting_names()
        nested: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            outer, inside, part = name.partition("__")
            if outer not in known:
                raise ValueError(f"{type(self).__name__} has no setting {name!r}; it has {listed(known)}.")
            if inside:
                nested.setdefault(outer, {})[part] = value
        for name in settings.keys() & set(known):
            setattr(self, name, settings[name])
        for name, parts in nested.items():
            setattr(self, name, self._record(name).changed(**parts))
        return self

    def _record(self, name: str) -> Options:
        """The record that a setting stands for, where it has parts of its own."""
        value = getattr(self, name)
        if isinstance(value, Options):
            return value
        raise ValueError(f"{name}={value!r:.60} has no settings of its own: {name}__... can change none.")

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        shown = []
        for name, value in self.get_params(deep=False).items():
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
