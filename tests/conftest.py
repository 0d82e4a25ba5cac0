"""Settings shared by all tests: the same cases on every machine, more of them under XMEN_VERIFY=1."""

import os

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")

settings.register_profile(
    "xmen",
    deadline=None,
    derandomize=True,
    max_examples=1000 if os.environ.get("XMEN_VERIFY") == "1" else 60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("xmen")
