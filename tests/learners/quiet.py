"""Fitting where the warnings are not what is tested."""

from __future__ import annotations

import warnings

from xmen.notices import (
    IdentifiabilityWarning,
)


def quiet_fit(model, *args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        return model.fit(*args, **keywords)
