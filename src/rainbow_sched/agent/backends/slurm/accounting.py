"""Lookup of single jobs in Slurm's accounting (`sacct`), which many sites do not have."""

from __future__ import annotations

import time
from collections.abc import Callable

from rainbow_sched.agent.backends.slurm.commands import SlurmCommands
from rainbow_sched.agent.backends.slurm.files import SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob, wait_status
from rainbow_sched.model.errors import RainbowError

_FIELDS = ("JobIDRaw", "JobName", "State", "ExitCode", "Submit", "Start", "End", "NNodes", "NCPUS")
SKEW = 120.0  # seconds that the clocks of agent and controller may differ
NOT_AGAIN = 3600.0  # seconds without further queries after a failure: accounting does not appear by itself


class AccountingQuery:
    """Query `sacct` for jobs that squeue does not list."""

    def __init__(self, commands: SlurmCommands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands, self._clock = commands, clock
        self._none_until = 0.0

    async def job(self, tag: str, record: SlurmRecord) -> SlurmJob | None:
        """Return the job from accounting; None if it is not found or there is no accounting."""
        if not record.native or self._clock() < self._none_until:
            return None
        try:
            text = await self._commands.ask(
                *("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={record.native}"),
                *(f"--format={','.join(_FIELDS)}", f"--starttime={_when(record.asked - SKEW)}"),
            )
        except RainbowError:
            self._none_until = self._clock() + NOT_AGAIN
            return None
        found = [job for job in parse_accounts(text) if job.id == record.native and job.name == tag]
        return next((job for job in found if (job.submitted or 0.0) >= record.asked - SKEW), None)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def parse_accounts(text: str) -> list[SlurmJob]:
    """Parse `sacct --parsable2`; a job with a bar in its name is not ours."""
    found = []
    for line in text.splitlines():
        words = line.split("|")
        if len(words) != len(_FIELDS) or not words[0].isdecimal():
            continue
        id, name, state, code, submitted, started, ended, nodes, cpus = words
        exit_code, signal = wait_status(code)
        found.append(
            SlurmJob(
                id=id,
                user=-1,
                state=state.partition(" ")[0],  # CANCELLED by 1000
                submitted=_time(submitted),
                started=_time(started),
                ended=_time(ended),
                code=exit_code,
                signal=signal,
                nodes=int(nodes) if nodes.isdecimal() else 1,
                cpus=int(cpus) if cpus.isdecimal() else 1,
                name=name,
            )
        )
    return found


def _time(text: str) -> float | None:
    return float(text) if text.isdecimal() and text != "0" else None
