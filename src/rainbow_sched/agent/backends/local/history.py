"""How long local jobs really took, kept in a file: what bids guess from. Losing it costs nothing but good guesses."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from rainbow_sched.agent.backends.local.bids import KEPT_HISTORY, Ran
from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import AttemptState


class History:
    """The last jobs that ended by themselves."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ran: list[Ran] = []

    def read(self) -> None:
        """Take over what an earlier agent left; a damaged line is skipped."""
        with contextlib.suppress(FileNotFoundError):
            lines = self._path.read_text().splitlines()
            if len(lines) > 4 * KEPT_HISTORY:
                self._path.write_text("\n".join(lines[-KEPT_HISTORY:]) + "\n")
            for text in lines[-KEPT_HISTORY:]:
                with contextlib.suppress(ValueError, TypeError):
                    limit, took = json.loads(text)
                    self.ran.append(Ran(limit, took))

    def add(self, limit: float | None, result: Result | None) -> None:
        """One more, if it tells how long such jobs take, and there is room for it."""
        if result is None or result.state is AttemptState.CANCELLED or not result.started_at or not result.ended_at:
            return
        took = result.ended_at - result.started_at
        if took < 0:
            return  # the clock was set back meanwhile
        self.ran = [*self.ran[-KEPT_HISTORY:], Ran(limit, took)]
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps([limit, took]) + "\n")
