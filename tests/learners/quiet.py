"""Fitting where the warnings are not what is tested."""

from __future__ import annotations

import warnings

from xmen.errors import IdentifiabilityWarning, StartsWarning


def quiet_fit(model, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        warnings.simplefilter("ignore", StartsWarning)  # demonstrations of random tasks start anywhere
        return model.fit(*args, **keywords)
