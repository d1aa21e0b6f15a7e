"""Parse `flux jobs --json`, and map Flux's states and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.common.exit_results import exited, over_limit, shell_code
from rainbow_sched.agent.core.values import Phase, Result
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.model.hostlist import parse_idset

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_WAITING = frozenset({"NEW", "DEPEND", "PRIORITY", "SCHED"})
NEVER = 4e9  # seconds since the epoch; Fluxion uses 9223372036 for no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxJob:
    """A job of `flux jobs --json`."""

    id: int
    name: str
    state: str
    result: str = ""
    code: int | None = None
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    expires: float | None = None
    duration: float | None = None  # None: no limit
    cores: int = 0
    nodes: int = 0
    ranks: str = ""
    node_list: str = ""
    exception: str = ""  # its type
    note: str = ""

    @property
    def native(self) -> str:
        return job_name(self.id)

    @property
    def phase(self) -> Phase:
        if self.state in _WAITING or (self.state == "CLEANUP" and self.started is None):
            return Phase.SUBMITTED  # a job cancelled while pending is cleaned up too
        return Phase.ENDED if self.state == "INACTIVE" else Phase.RUNNING

    @property
    def on(self) -> list[int]:
        """The ranks it runs on."""
        return parse_idset(self.ranks) if self.ranks else []


def parse_jobs(text: str) -> tuple[FluxJob, ...]:
    """Parse the output; raise Unavailable if it is not valid."""
    try:
        jobs = json.loads(text)["jobs"] if text.strip() else []
        return tuple(_job(job) for job in jobs)
    except (ValueError, KeyError, TypeError) as problem:
        raise Unavailable(f"the answer of flux jobs cannot be read: {problem}") from None


def _job(raw: Mapping[str, object]) -> FluxJob:
    exception = raw.get("exception")
    about = exception if isinstance(exception, Mapping) and exception.get("severity") == 0 else {}  # only fatal
    code = raw.get("returncode")
    return FluxJob(
        id=int(str(raw["id"])),
        name=str(raw.get("name", "")),
        state=str(raw.get("state", "")),
        result=str(raw.get("result", "")),
        code=code if isinstance(code, int) else None,
        submitted=nonzero(raw.get("t_submit")) or 0.0,
        started=nonzero(raw.get("t_run")),
        ended=nonzero(raw.get("t_cleanup")) or nonzero(raw.get("t_inactive")),
        expires=when(raw.get("expiration")),
        duration=nonzero(raw.get("duration")),
        cores=int(nonzero(raw.get("ncores")) or 0),
        nodes=int(nonzero(raw.get("nnodes")) or 0),
        ranks=str(raw.get("ranks", "")),
        node_list=str(raw.get("nodelist") or ""),
        exception=str(about.get("type", "")),
        note=str(about.get("note", "")),
    )


def when(value: object) -> float | None:
    """Return a time in seconds since the epoch; None if there is none, or it is too far away."""
    found = nonzero(value)
    return found if found is not None and found < NEVER else None


def nonzero(value: object) -> float | None:
    """Return a number that is not 0, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value else None


def job_number(text: str) -> int | None:
    """Return a job id as a number, from `ƒ2eD4`, `f2eD4` or decimal; None if invalid."""
    word = text.strip()
    if word.isdecimal():
        return int(word)
    if word[:1] not in ("ƒ", "f") or len(word) < 2:
        return None
    number = 0
    for letter in word[1:]:
        if letter not in _BASE58:
            return None
        number = number * 58 + _BASE58.index(letter)
    return number


def job_name(number: int) -> str:
    """Return a job id in Flux's ASCII form: `f2eD4`."""
    letters = ""
    while number:
        number, rest = divmod(number, 58)
        letters = _BASE58[rest] + letters
    return "f" + (letters or _BASE58[0])


def result(job: FluxJob, *, limit: float | None = None, problem_text: str = "", began: bool = True) -> Result:
    """Return the result of a job; `problem_text` is why its script could not start the command, `limit` its time limit.

    `began`: the script ran on at least one node.
    """
    ended = _ended(job, limit, problem_text, began)
    return replace(ended, started_at=job.started, ended_at=job.ended)


def _ended(job: FluxJob, limit: float | None, problem_text: str, began: bool) -> Result:
    code = None if job.code is None or job.code <= -128 else shell_code(job.code)  # the shell was killed
    if job.result == "COMPLETED":
        return exited(0)
    if job.result == "CANCELED":
        reason = "cancelled" if job.started else "cancelled before it began"
        return Result(state=AttemptState.CANCELLED, exit_code=code if job.started else None, reason=reason)
    if job.result == "TIMEOUT" or job.exception == "timeout":
        failure, reason = Failure.TIME_LIMIT, over_limit(limit)
    elif problem_text:
        failure, reason = Failure.LAUNCH, problem_text
    elif job.exception:
        failure, reason = _failure(job, began), f"Flux reports {job.exception}: {job.note}"
        code = code if job.started else None
    elif code:
        return exited(code)
    else:
        failure, reason = Failure.EXIT, "Flux reports a failure without a reason"
    return Result(state=AttemptState.FAILED, exit_code=code, failure=failure, reason=reason)


def _failure(job: FluxJob, began: bool) -> Failure:
    note = job.note.lower()
    if job.exception in ("alloc", "depend", "validate"):
        return Failure.REFUSED
    if "node failure" in note or "lost contact" in note or "node" in job.exception:
        return Failure.NODE
    if "memory" in note or "oom" in note:
        return Failure.MEMORY
    return Failure.EXIT if began and job.started and job.code not in (None, 126, 127) else Failure.LAUNCH
