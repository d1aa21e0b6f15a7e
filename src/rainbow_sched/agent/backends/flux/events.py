"""Track the jobs of a Flux instance by the events in its journal (RFC 21).

The result equals `flux jobs --json`: a job runs from `alloc` on and has ended with `clean`; times, result and exit code
follow the same rules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.agent.backends.flux.jobs import FluxJob, nonzero, when
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.flux import parse_r
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hostlist import collapse

MAX_ENDED_JOBS = 10_000  # ended jobs; an older one is looked up by its name
_NEXT = {"validate": "DEPEND", "depend": "PRIORITY", "priority": "SCHED"}


class FluxJobTable:
    """All active jobs, and the last ended ones."""

    def __init__(self, max_ended: int = MAX_ENDED_JOBS) -> None:
        self._active: dict[int, FluxJob] = {}
        self._ended: dict[int, FluxJob] = {}
        self._max_ended = max_ended
        self.whole = False  # True once it includes jobs that ended before the journal was opened

    @property
    def jobs(self) -> tuple[FluxJob, ...]:
        return (*self._active.values(), *self._ended.values())

    def take(self, entry: Mapping[str, object]) -> FluxJob | None:
        """Apply a journal entry: events of one job, with its jobspec or R. Return the job if its phase changed."""
        id, events = entry.get("id"), entry.get("events")
        if not isinstance(id, int) or not isinstance(events, list):
            return None
        before = job = self._active.get(id)
        for event in events:
            if event["name"] == "submit":
                job = submitted(id, event, _mapping(entry.get("jobspec")))
            elif job is not None:
                job = after(job, event, _mapping(entry.get("R")))
        if job is None:
            return None
        self.put(job)
        return job if before is None or before.phase is not job.phase else None

    def put(self, job: FluxJob) -> None:
        if job.phase is not Phase.ENDED:
            self._active[job.id] = job
            return
        self._active.pop(job.id, None)
        self._ended[job.id] = job
        while len(self._ended) > self._max_ended:
            del self._ended[next(iter(self._ended))]


def submitted(id: int, event: Mapping[str, object], jobspec: Mapping[str, object]) -> FluxJob:
    """Return the job of a submit event."""
    system = _mapping(_mapping(jobspec.get("attributes")).get("system"))
    nodes, cores = asked(jobspec.get("resources"))
    return FluxJob(
        id=id,
        name=str(_mapping(system.get("job")).get("name", "")),
        state="NEW",
        submitted=nonzero(event.get("timestamp")) or 0.0,
        duration=nonzero(system.get("duration")),
        cores=cores,
        nodes=nodes,
    )


def after(job: FluxJob, event: Mapping[str, object], r: Mapping[str, object]) -> FluxJob:
    """Return the job after an event; irrelevant events change nothing."""
    name, at, context = event["name"], nonzero(event.get("timestamp")), _mapping(event.get("context"))
    match name:
        case "validate" | "depend" | "priority" if job.phase is Phase.SUBMITTED:
            return replace(job, state=_NEXT[str(name)])
        case "alloc":
            return _holding(replace(job, state="RUN", started=at), r)
        case "exception" if context.get("severity") == 0:
            first = job.exception or str(context.get("type", "")), job.note or str(context.get("note", ""))
            return replace(job, state="CLEANUP", ended=job.ended or at, exception=first[0], note=first[1])
        case "finish":
            status = _integer(context.get("status"), 0)
            done = "COMPLETED" if status == 0 and not job.exception else ""
            return replace(
                job, state="CLEANUP", ended=job.ended or at, code=os.waitstatus_to_exitcode(status), result=done
            )
        case "clean":
            return _inactive(job, at)
        case "jobspec-update" if "attributes.system.duration" in context:
            return replace(job, duration=nonzero(context["attributes.system.duration"]))
        case "resource-update" if "expiration" in context:
            return replace(job, expires=when(context["expiration"]))
    return job


def _inactive(job: FluxJob, at: float | None) -> FluxJob:
    result = job.result or {"cancel": "CANCELED", "timeout": "TIMEOUT"}.get(job.exception, "FAILED")
    code = job.code if job.code is not None else {"CANCELED": -128, "FAILED": 1}.get(result)
    return replace(job, state="INACTIVE", result=result, code=code, ended=job.ended or at)


def _holding(job: FluxJob, r: Mapping[str, object]) -> FluxJob:
    try:
        nodes = parse_r(r)
    except Invalid:
        return job  # R may be hidden from the agent; the job runs anyway
    execution = _mapping(r["execution"])
    names = [node.name for node in nodes] if execution.get("nodelist") else []
    return replace(
        job,
        nodes=len(nodes),
        cores=sum(node.counts.get("core", 0) for node in nodes),
        ranks=",".join(str(node.rank) for node in nodes),
        node_list=collapse(names) or "",
        expires=when(execution.get("expiration")),
    )


def asked(resources: object, times: int = 1) -> tuple[int, int]:
    """Return nodes (0: not specified) and cores in a jobspec's resources; cores of whole nodes are not counted."""
    nodes = cores = 0
    for part in resources if isinstance(resources, list) else ():
        count = _integer(part.get("count"), 1) * times
        if part.get("type") == "node" and part.get("exclusive"):
            nodes += count
            continue
        inner = asked(part.get("with"), count)
        nodes += inner[0] + (count if part.get("type") == "node" else 0)
        cores += inner[1] + (count if part.get("type") == "core" else 0)
    return nodes, cores


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _integer(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
