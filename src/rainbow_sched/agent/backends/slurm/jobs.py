"""Parse `squeue`, and map Slurm's job states to results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.common.batch_script import ScriptExit
from rainbow_sched.agent.backends.common.exit_results import exited, over_limit
from rainbow_sched.agent.core.values import Phase, Result
from rainbow_sched.discovery.slurm import node_names
from rainbow_sched.model.attempt import AttemptState, Failure

_FIELDS: Mapping[str, int] = {  # squeue field -> width
    "JobID": 12,
    "UserID": 12,
    "State": 16,
    "SubmitTime": 14,
    "StartTime": 14,
    "EndTime": 14,
    "exit_code": 12,
    "NumNodes": 8,
    "NumCPUs": 10,
    "tres-alloc": 120,
    "Name": 40,
    "Comment": 160,
    "HetJobID": 12,  # id of the first component; N/A for other jobs
    "Reason": 40,
    "NodeList": 512,
}
_FORMAT = ",".join(f"{name}:{width}" for name, width in _FIELDS.items())
SQUEUE = ("squeue", "--noheader", "--me", "--states=all", "-O", _FORMAT)
SHOW_WAITING = ("squeue", "--noheader", "--states=PENDING", "--format=%i")  # of all users
_MEMORY = re.compile(r"mem=(\d+(?:\.\d+)?)([KMGTP]?)", re.ASCII)
_IN_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}

WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
ENDED: Mapping[str, tuple[AttemptState, Failure | None]] = {  # in any other state the job runs
    "COMPLETED": (AttemptState.SUCCEEDED, None),
    "FAILED": (AttemptState.FAILED, Failure.EXIT),
    "CANCELLED": (AttemptState.CANCELLED, None),
    "TIMEOUT": (AttemptState.FAILED, Failure.TIME_LIMIT),
    "DEADLINE": (AttemptState.FAILED, Failure.TIME_LIMIT),
    "OUT_OF_MEMORY": (AttemptState.FAILED, Failure.MEMORY),
    "NODE_FAIL": (AttemptState.FAILED, Failure.NODE),
    "BOOT_FAIL": (AttemptState.FAILED, Failure.NODE),
    "LAUNCH_FAILED": (AttemptState.FAILED, Failure.LAUNCH),
    "PREEMPTED": (AttemptState.PREEMPTED, None),
    "REVOKED": (AttemptState.PREEMPTED, None),
}
_OUTPUT_FAILED = 53  # Slurm's "signal" of a job whose output file could not be opened


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job in squeue; for a heterogeneous job its first component, with the others as `parts`."""

    native: str  # Slurm's id
    state: str
    user: int = -1
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    code: int = 0
    signal: int = 0
    nodes: int = 1
    cpus: int = 1
    memory: int = 0  # total MiB
    name: str = ""
    comment: str = ""
    reason: str = ""
    node_list: str = ""
    leader: str = ""  # id of the first component of a heterogeneous job; empty: not heterogeneous
    parts: tuple[SlurmJob, ...] = ()  # the other components

    @property
    def phase(self) -> Phase:
        if self.state in WAITING:
            return Phase.SUBMITTED
        return Phase.ENDED if self.state in ENDED else Phase.RUNNING

    def hosts(self) -> list[str]:
        return node_names(self.node_list)

    @property
    def whole_node_list(self) -> str:
        """Return the hostlist of all nodes; empty if there is none or it may be truncated."""
        lists = [one.node_list for one in (self, *self.parts)]
        cut = any(len(text) >= _FIELDS["NodeList"] for text in lists)
        return "" if cut or not all(lists) or "(null)" in lists else ",".join(lists)


def parse_jobs(text: str) -> tuple[SlurmJob, ...]:
    """Parse squeue's output; fields have fixed widths, so that a job's name cannot shift other fields."""
    found = []
    for line in text.splitlines():
        at, values = 0, {}
        for name, width in _FIELDS.items():
            values[name] = line[at : at + width].strip()
            at += width
        if values["JobID"].isdecimal():
            found.append(_job(values))
    return _joined(found)


def _joined(jobs: Sequence[SlurmJob]) -> tuple[SlurmJob, ...]:
    """Combine the components of heterogeneous jobs: the first one has the script and the id."""
    parts: dict[str, list[SlurmJob]] = {}
    for job in jobs:
        if job.leader not in ("", job.native):
            parts.setdefault(job.leader, []).append(job)
    whole = [job for job in jobs if job.leader in ("", job.native)]
    ordered = {leader: tuple(sorted(found, key=lambda one: int(one.native))) for leader, found in parts.items()}
    return tuple(replace(job, parts=ordered.get(job.leader, ())) for job in whole)


def _job(values: Mapping[str, str]) -> SlurmJob:
    code, number = wait_status(values["exit_code"])
    nodes = values["NumNodes"].partition("-")[0]
    return SlurmJob(
        native=values["JobID"],
        user=int(values["UserID"]) if values["UserID"].isdecimal() else -1,
        state=values["State"],
        submitted=slurm_time(values["SubmitTime"]),
        started=slurm_time(values["StartTime"]),
        ended=slurm_time(values["EndTime"]),
        code=code,
        signal=number,
        nodes=max(1, int(nodes)) if nodes.isdecimal() else 1,
        cpus=int(values["NumCPUs"]) if values["NumCPUs"].isdecimal() else 1,
        memory=_memory(values["tres-alloc"]),
        name=values["Name"],
        comment=values["Comment"],
        reason=values["Reason"],
        node_list=values["NodeList"],
        leader=values["HetJobID"] if values["HetJobID"].isdecimal() and values["HetJobID"] != "0" else "",
    )


def wait_status(text: str) -> tuple[int, int]:
    """Return exit code and signal from `42:0`, or from a raw wait status as 22.05 prints it."""
    first, colon, second = text.partition(":")
    if not first.isdecimal() or (colon and not second.isdecimal()):
        return 0, 0
    if colon:
        return int(first), int(second)
    status = int(first)
    # Signal numbers over 31 are Slurm's own codes, in the low byte without an exit code.
    return (status >> 8, 0) if status & 0x7F == 0 else (0, status & 0x7F)


def slurm_time(text: str) -> float | None:
    """Return a time in seconds since the epoch, or None."""
    return float(text) if text.isdecimal() and text != "0" else None


def _memory(text: str) -> int:
    found = _MEMORY.search(text)
    return int(float(found[1]) * _IN_MIB[found[2]]) if found else 0


def result(job: SlurmJob, left: ScriptExit | None, *, over_memory: bool = False) -> Result:
    """Return the result: Slurm has the cause, the job's script the exit code."""
    ended = _ended(job, left, over_memory=over_memory)
    return replace(ended, started_at=job.started, ended_at=job.ended)


def _ended(job: SlurmJob, left: ScriptExit | None, *, over_memory: bool) -> Result:
    state, failure = ENDED[job.state]
    signal = job.signal or (left.code - 128 if left and left.code > 128 else 0)
    code = left.code if left is not None else 128 + signal if signal else job.code
    if job.state in ("COMPLETED", "FAILED") and left is not None:
        return left.result()
    if job.state == "FAILED" and job.signal == _OUTPUT_FAILED:
        reason = "Slurm could not open the job's output; check that the spool directory is on every node"
        return Result(state=state, failure=Failure.LAUNCH, reason=reason)
    if job.state == "FAILED" and over_memory:
        return Result(state=state, failure=Failure.MEMORY, exit_code=code, reason="exceeded its memory limit")
    if state is AttemptState.SUCCEEDED:
        return Result(state=state, exit_code=0)
    if state is AttemptState.CANCELLED and job.started is None:
        return Result(state=state, reason="cancelled before it began")
    reason = {
        "FAILED": exited(code).reason,
        "CANCELLED": "cancelled",
        "TIMEOUT": over_limit(None),
    }.get(job.state, f"Slurm reports {job.state} ({job.reason})")
    return Result(state=state, exit_code=code or None, failure=failure, reason=reason)


def ours(jobs: Iterable[SlurmJob], user: int, cluster: str) -> dict[str, list[SlurmJob]]:
    """Return our jobs by tag. The comment must match the name, unless the site rewrites comments."""
    found: dict[str, list[SlurmJob]] = {}
    for job in jobs:
        comment = read_comment(job.comment)
        if job.user != user or not job.name.startswith("rb-"):
            continue
        if comment is None or (comment.tag == job.name and comment.cluster == cluster):
            found.setdefault(job.name, []).append(job)
    return found


@dataclass(frozen=True, slots=True)
class JobComment:
    """Rainbow's data in a job's comment."""

    cluster: str
    tag: str
    key: str  # random per submission: Slurm reuses ids after a crash of the controller

    def __str__(self) -> str:
        return f"rainbow:{self.cluster}:{self.tag}:{self.key}"


def read_comment(text: str) -> JobComment | None:
    """Parse a comment that Rainbow wrote; None for others."""
    parts = text.split(":")
    return JobComment(*parts[1:]) if len(parts) == 4 and parts[0] == "rainbow" else None
