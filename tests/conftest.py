"""For all tests: in CI nothing skips silently, and generated cases are the same on every run."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

OPTIONAL = "optional: "

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    """`-m over_seeds` chooses the properties that try more cases in `make test` than in `make check`."""
    config.addinivalue_line("markers", "over_seeds: tries as many generated cases as RAINBOW_CASES says")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """In CI a skip is a failure, unless its reason says that the part it needs cannot be installed."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if OPTIONAL not in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where nothing may skip: {reason}"
    return report
