"""History of local job durations, from which bids are estimated."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from rainbow_sched.agent.backends.local.bids import KEPT_HISTORY, PastRun
from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import AttemptState


class RunHistory:
    """Durations of the last completed jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ran: list[PastRun] = []

    def read(self) -> None:
        """Read the file; skip damaged lines."""
        with contextlib.suppress(FileNotFoundError):
            lines = self._path.read_text().splitlines()
            if len(lines) > 4 * KEPT_HISTORY:
                self._path.write_text("\n".join(lines[-KEPT_HISTORY:]) + "\n")
            for text in lines[-KEPT_HISTORY:]:
                with contextlib.suppress(ValueError, TypeError):
                    limit, took = json.loads(text)
                    self.ran.append(PastRun(limit, took))

    def add(self, limit: float | None, result: Result | None) -> None:
        """Add a completed job; ignore errors, as the history is optional."""
        if result is None or result.state is AttemptState.CANCELLED or not result.started_at or not result.ended_at:
            return
        took = result.ended_at - result.started_at
        if took < 0:
            return  # the clock was set back
        self.ran = [*self.ran[-KEPT_HISTORY:], PastRun(limit, took)]
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps([limit, took]) + "\n")
