"""Fitting where the warnings are not what is tested."""

from __future__ import annotations

import warnings
from typing import Any

from xmen.errors import IdentifiabilityWarning, LearningWarning, StartsWarning


def quiet_fit(model, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", StartsWarning)  # demonstrations of random tasks start anywhere
        return model.fit(*args, **keywords)


def quietly(model: Any, *args: Any, **keywords: Any) -> Any:
    """Fitted, whatever it says about the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)
        return model.fit(*args, **keywords)
