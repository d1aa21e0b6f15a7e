"""Follow a Flux instance's journal (RFC 21) and query its scheduler through a child process in Flux's Python.

The journal's events are applied to a table of jobs, which equals `flux jobs --json`: a job runs from `alloc` on and has
ended with `clean`; times, result and exit code follow the same rules.

The child (`bridge.py`) is restarted when it ends. While it is down, or cannot read the journal, there is no table, and
the backend uses `flux jobs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from rainbow_sched.agent.backends.flux.commands import TIMEOUT_SECONDS, FluxCommands
from rainbow_sched.agent.backends.flux.jobs import FluxJob, nonzero, when
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.discovery.flux import parse_r
from rainbow_sched.model.errors import Invalid, Unavailable
from rainbow_sched.model.hostlist import collapse

log = logging.getLogger("rainbow.agent")
GRACE_SECONDS = 5.0  # seconds for the child to exit
_FORMAT_ERRORS = (ValueError, LookupError, TypeError, AttributeError)  # another version of Flux may use another format
RESTART_SECONDS = (1.0, 5.0, 15.0, 60.0)  # seconds until the child is restarted
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


class FluxFollower:
    """The child process, kept running from `start` to `close`."""

    def __init__(self, commands: FluxCommands, phase_changed: Callable[[FluxJob], None]) -> None:
        """Call `phase_changed` for each job whose phase changed."""
        self._commands = commands
        self._phase_changed = phase_changed
        self._task: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._history: FluxJobTable | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._problem_text = ""
        self.table: FluxJobTable | None = None  # the jobs, once the journal's history has been read

    def start(self) -> None:
        """Start following; returns at once."""
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Stop the child."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def probe(self, jobspec: Mapping[str, object]) -> dict[str, object]:
        """Return the answer of `bridge.probe`; raise Unavailable without a child, Invalid if Flux refuses."""
        child = self._child
        if child is None or child.stdin is None:
            raise Unavailable(f"Flux's Python is not available: {self._problem_text or 'it is still starting'}")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                child.stdin.write(json.dumps({"n": number, "of": jobspec}).encode() + b"\n")
                await child.stdin.drain()
                return await answer
        except (TimeoutError, ConnectionError):
            raise Unavailable("Flux's Python did not answer") from None
        finally:
            self._asked.pop(number, None)

    async def _keep(self) -> None:
        pauses = 0
        while True:
            try:
                caught_up = await self._once()
            except (Unavailable, *_FORMAT_ERRORS) as problem:
                caught_up = False
                self._warn(str(problem) or type(problem).__name__)
            pauses = 0 if caught_up else pauses + 1
            await asyncio.sleep(RESTART_SECONDS[min(pauses, len(RESTART_SECONDS) - 1)])

    async def _once(self) -> bool:
        """Run the child once; return True if it read the journal."""
        self._child = child = await self._commands.bridge()
        self._history = FluxJobTable()
        assert child.stdout is not None
        try:
            async for line in child.stdout:
                self._received(json.loads(line))
            if self.table is None:
                self._warn(self._problem_text or "its Python module cannot be used")
            return self.table is not None
        finally:
            self._child = self._history = self.table = None
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Unavailable("Flux's Python ended before it answered"))
            await _end(child)

    def _received(self, message: Mapping[str, object]) -> None:
        journal = message.get("journal")
        if isinstance(journal, Mapping) and self._history is not None:
            job = self._history.take(journal)
            if job is not None and self.table is not None:
                self._phase_changed(job)
        elif "caught_up" in message:
            self.table = self._history
            self._problem_text = ""
        elif "lost" in message:
            self.table = self._history = None
            self._warn(str(message["lost"]))
        else:
            self._answered(message)

    def _answered(self, message: Mapping[str, object]) -> None:
        answer = self._asked.get(int(str(message.get("n", -1))))
        if answer is None or answer.done():
            return
        found = message.get("answer")
        if isinstance(found, dict):
            answer.set_result(found)
        else:
            answer.set_exception(Invalid(f"Flux refuses: {message.get('problem')}"))

    def _warn(self, problem_text: str) -> None:
        """Log once why the journal cannot be followed."""
        if problem_text != self._problem_text:
            log.warning("cannot follow the journal of Flux (%s); using flux jobs instead", problem_text)
        self._problem_text = problem_text


async def _end(child: asyncio.subprocess.Process) -> None:
    """Stop the child, even if this task is cancelled meanwhile."""
    ending = asyncio.create_task(_ended(child))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await ending
        raise


async def _ended(child: asyncio.subprocess.Process) -> None:
    """Close the child's stdin; kill a child that does not exit."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), GRACE_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
