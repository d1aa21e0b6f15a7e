"""A job of the local backend in memory."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass

from rainbow_sched.agent.backends.local.files import JobFiles
from rainbow_sched.agent.backends.local.machine import NOWHERE, Place
from rainbow_sched.agent.backends.local.runner import end_strays
from rainbow_sched.agent.core.values import Phase, Result, Update
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

log = logging.getLogger("rainbow.agent")


@dataclass(slots=True)
class LocalJob:
    """State of one job. The only mutable object of the backend; the files are authoritative."""

    files: JobFiles
    request: Request
    order: int
    allowed: AllowedHosts = ANY_HOST
    phase: Phase = Phase.SUBMITTED
    place: Place = NOWHERE
    started_at: float | None = None
    result: Result | None = None
    nodes: str = ""  # hostlist of its hosts
    sizes: tuple[int, int] | None = None  # final output sizes, once the job has ended
    pid: int = 0  # process id of the runner that this agent started
    watch: int = -1  # pidfd that becomes readable when the runner ends

    def update(self) -> Update:
        return Update(
            tag=self.files.tag,
            phase=self.phase,
            native=self.files.tag,
            result=self.result,
            started_at=self.started_at,
            sizes=self.sizes or self.files.sizes(),
            nodes=self.nodes,
        )

    def never_began(self) -> Result:
        """Return the result of a job whose runner ended before the job started."""
        last_line = ""
        with contextlib.suppress(OSError, IndexError):
            last_line = f": {(self.files.path / 'runner.log').read_text().splitlines()[-1]}"
        reason = f"its runner ended before the job began{last_line}"
        return Result(state=AttemptState.FAILED, failure=Failure.LAUNCH, reason=reason)

    def end_strays(self, result: Result) -> None:
        """Kill processes of a job whose runner was killed; a runner normally does this itself."""
        if result.failure is not Failure.UNKNOWN:
            return
        group = self.files.group()
        if group is not None:
            group.end()
            group.remove()
        if count := end_strays(self.files.path):
            log.warning("%s: its runner was killed; killed %d remaining processes", self.files.tag, count)
