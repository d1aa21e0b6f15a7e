"""What ^C and ^Z mean to an attached job: twice ^C within two seconds cancels, ^C then ^Z detaches."""

from __future__ import annotations

import enum
from dataclasses import dataclass

WINDOW = 2.0


class Act(enum.Enum):
    """What to do about a key."""

    WARN = "warn"  # say what the next key would do
    CANCEL = "cancel"
    LEAVE = "leave"  # the job is being cancelled already; do not wait for it
    DETACH = "detach"
    SUSPEND = "suspend"  # what ^Z always does


@dataclass(slots=True)
class Interrupts:
    """Remembers the last ^C; time is passed in."""

    last: float | None = None
    cancelling: bool = False

    def interrupt(self, now: float) -> Act:
        """^C."""
        if self.cancelling:
            return Act.LEAVE
        armed, self.last = self._armed(now), now
        if armed:
            self.cancelling = True
            return Act.CANCEL
        return Act.WARN

    def stop(self, now: float) -> Act:
        """^Z."""
        return Act.DETACH if self._armed(now) else Act.SUSPEND

    def _armed(self, now: float) -> bool:
        return self.last is not None and now - self.last <= WINDOW
