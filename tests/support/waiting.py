"""Wait for another process."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], object], what: str, seconds: float = 60.0, log: Callable[[], str] = str) -> None:
    """Wait until `holds` returns something true; fail with `what` and `log` after the timeout."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not come in {seconds:g} s\n{log()}"
        time.sleep(0.1)  # only asking tells
