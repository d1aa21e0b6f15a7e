"""Backend `local`: runs jobs on this machine, within the cores, memory and gpus of its graph.

Each job has a directory in the agent's state directory (`files.py`) and a detached runner (`wrapper.py`), so that jobs
survive the agent and a new agent finds them by tag.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind, Launch
from rainbow_sched.agent.backends.common.call_rates import SubmitLocks
from rainbow_sched.agent.backends.common.launches import TAG
from rainbow_sched.agent.backends.local.bids import RunHistory, RunningJob, cost, impossible, starts_in
from rainbow_sched.agent.backends.local.files import GONE, JobFiles
from rainbow_sched.agent.backends.local.machine import NOWHERE, RULES, Machine, Place, QueuedJob
from rainbow_sched.agent.backends.local.runner import Runners, cgroup_parent_for, end_strays, request_end
from rainbow_sched.agent.backends.local.wrapper import start_time
from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.discovery.host import host_graph
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts, BidAnswer

log = logging.getLogger("rainbow.agent")
OUTPUT_CHECK_SECONDS = 0.5  # seconds between checks of running jobs' output
MAX_CONCURRENT = 16  # concurrent submissions; bounds the load on the machine
POLL_SECONDS = 0.1  # seconds between checks where pidfd is not available


@dataclass(slots=True)
class LocalJob:
    """State of one job. The only mutable object of the backend; the files are authoritative."""

    files: JobFiles
    queued: QueuedJob
    phase: Phase = Phase.SUBMITTED
    place: Place = NOWHERE
    started_at: float | None = None
    result: Result | None = None
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
            nodes=self.place.nodes,
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


class LocalBackend:
    """A queue of jobs, first fit, on one machine."""

    guards_runs = True
    node_rules = RULES

    def __init__(self, settings: BackendSettings) -> None:
        self.settings = settings
        self.root = settings.directory / "jobs"
        self.machine = _machine(settings.graph or host_graph(settings.cluster))
        settings.know("cgroup")
        self.grounds = cgroup_parent_for(settings.options.get("cgroup", "auto"))
        self._jobs: dict[str, LocalJob] = {}
        self._history = RunHistory(settings.directory / "history")
        self._news = asyncio.Event()
        self._locks = SubmitLocks(MAX_CONCURRENT)
        self._runners = Runners(self.root, self._began, self._not_started)
        self._no_pidfd = False

    async def start(self) -> None:
        """Restore the jobs of an earlier agent; running and pending jobs continue."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._history.read()
        for path in sorted(self.root.iterdir()):
            files = JobFiles(self.root, path.name.removeprefix(GONE))
            if not TAG.fullmatch(files.tag):
                continue
            if path != files.path or not (path / "launch.json").exists():
                files.remove()  # an interrupted removal or submission
                continue
            job = self._jobs[path.name] = LocalJob(files, files.queued())
            if files.begun() is not None or files.result() is not None:
                self._adopt(job)
        self._start_what_fits()

    def _adopt(self, job: LocalJob) -> None:
        job.result, job.place = job.files.result(), job.files.place(self.machine)
        if job.result is not None:
            job.end_strays(job.result)
            job.phase = Phase.ENDED
            return
        marker = job.files.begun()
        job.phase = Phase.RUNNING
        job.started_at = float(str(marker["at"])) if marker else None
        self.machine.occupy(job.place)
        pid = job.files.runner()
        if pid is None:
            self._look(job)  # it has just ended
        else:
            self._watch(job, pid)

    async def submit(self, launch: Launch) -> str:
        """Queue a job; it is on disk when this returns. A known tag changes nothing."""
        async with self._locks.of(launch.tag):
            await self._submit(launch)
        self._start_what_fits()
        return launch.tag

    async def _submit(self, launch: Launch) -> None:
        if launch.tag in self._jobs:
            return
        if not TAG.fullmatch(launch.tag):
            raise Unsupported(f"{launch.tag!r} is not the tag of an attempt")
        reason = await self.check(launch.request, launch.allowed)
        if reason is not None:
            raise CannotBind(reason) if launch.allowed.groups else Unsupported(reason)
        files = JobFiles(self.root, launch.tag)
        queued = await asyncio.to_thread(files.create, launch, dict(os.environ))
        self._jobs[launch.tag] = LocalJob(files, queued)

    async def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        """Absent means never: this backend drops jobs only in `forget`."""
        job = self._jobs.get(tag)
        return JobFound(job.update()) if job is not None else Absent(never=True)

    async def poll(self) -> tuple[Update, ...]:
        self._news.clear()
        for job in self._jobs.values():
            if job.phase is Phase.RUNNING and job.watch < 0:
                self._look(job)
        self._start_what_fits()
        return tuple(job.update() for job in self._jobs.values())

    async def changed(self) -> None:
        """Wait until a job starts or ends, or for an interval while output grows."""
        running = any(job.phase is Phase.RUNNING for job in self._jobs.values())
        interval = (POLL_SECONDS if self._no_pidfd else OUTPUT_CHECK_SECONDS) if running else 10 * OUTPUT_CHECK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), interval)

    async def cancel(self, tag: str) -> None:
        """End a job: a pending one never starts, a running one gets SIGTERM and later SIGKILL."""
        job = self._jobs.get(tag)
        if job is None or job.phase is Phase.ENDED:
            return
        job.files.request_end()
        if job.phase is Phase.SUBMITTED:
            job.files.end_before_start("cancelled")
            self._ended(job, job.files.result())
            return
        pid = job.files.runner()
        if pid is not None:
            request_end(pid)
        else:
            self._look(job)

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        job = self._jobs.get(tag)
        return b"" if job is None else await asyncio.to_thread(job.files.read, stream, offset, limit)

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        return impossible(QueuedJob(request, allowed), self.machine)

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """Estimate start from a simulation of the queue, and cost from the site's prices."""
        reason = await self.check(request, allowed)
        if reason is not None:
            return BidAnswer(yes=False, reason=reason)
        wanted, now = QueuedJob(request, allowed), time.time()
        running = [
            RunningJob(job.place, job.queued.request.duration, now - (job.started_at or now))
            for job in self._jobs.values()
            if job.phase is Phase.RUNNING
        ]
        queued = [job.queued for job in self._queue()]
        p50, p90 = (starts_in(wanted, self.machine, running, queued, self._history.ran, q) for q in (0.5, 0.9))
        return BidAnswer(
            yes=True,
            start_p50=p50,
            start_p90=None if p50 is None or p90 is None else max(p50, p90),
            cost=cost(wanted, self.machine, self.settings.prices),
            valid_for=30.0,
        )

    async def facts(self) -> ClusterFacts:
        state: dict[str, object] = {
            "nodes_free": self.machine.count("node", free=True),
            "cores_free": self.machine.count("core", free=True),
            "gpus_free": self.machine.count("gpu", free=True),
            "queue_depth": len(self._queue()),
            "isolation": str(self.grounds),
            **self.settings.prices.state(),
        }
        return ClusterFacts(manager="local", state=state)

    def reshape(self, graph: Graph) -> None:
        """Use the new graph. Running jobs keep their resources; pending jobs that no longer fit are returned."""
        machine = _machine(graph)
        for job in self._jobs.values():
            if job.phase is Phase.RUNNING:
                job.place = replace(job.place, units=machine.held(self.machine.holdings(job.place)))
                machine.occupy(job.place)
        self.machine = machine
        for job in self._queue():
            reason = machine.lacks(job.queued.request, job.queued.allowed)
            if reason is not None:
                job.files.request_end()  # a runner that is being started must not begin the job now
                job.files.end_before_start("no-room", f"the machine changed: {reason}")
                self._ended(job, job.files.result())
        self._start_what_fits()
        self._news.set()

    async def forget(self, tag: str) -> None:
        job = self._jobs.get(tag)
        if job is not None and job.phase is Phase.ENDED:
            del self._jobs[tag]
            await asyncio.to_thread(job.files.remove)

    async def close(self) -> None:
        """Stop watching; runners continue."""
        self._runners.close()
        for job in self._jobs.values():
            self._unwatch(job)

    # --- the queue ---

    def _queue(self) -> list[LocalJob]:
        waiting = [job for job in self._jobs.values() if job.phase is Phase.SUBMITTED]
        return sorted(waiting, key=lambda job: job.queued.order)

    def _start_what_fits(self) -> None:
        for job in self._queue():
            place = self.machine.take(job.queued.request, job.queued.allowed)
            if place is None:
                continue
            try:
                self._run(job, place)
            except OSError as problem:  # no disk space or no process: the job stays pending
                log.warning("%s cannot be started now: %s", job.files.tag, problem)
                self.machine.release(place)
                return

    def _run(self, job: LocalJob, place: Place) -> None:
        job.files.put_place(place, self.machine, self.grounds)
        self._runners.start(job.files.tag)
        job.place, job.phase, job.started_at = place, Phase.RUNNING, time.time()
        self._news.set()

    def _began(self, tag: str, pid: int) -> None:
        job = self._jobs.get(tag)
        if job is not None and job.phase is Phase.RUNNING:
            job.pid = pid
            self._watch(job, pid)

    def _not_started(self, tag: str) -> None:
        """Queue a job again whose runner may not have started: the marker ensures a single run."""
        job = self._jobs.get(tag)
        if job is not None and job.phase is Phase.RUNNING and job.watch < 0:
            self.machine.release(job.place)
            job.phase, job.place, job.pid = Phase.SUBMITTED, NOWHERE, 0
            asyncio.get_running_loop().call_later(POLL_SECONDS, self._start_what_fits)

    def _watch(self, job: LocalJob, pid: int) -> None:
        try:
            job.watch = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended
            asyncio.get_running_loop().call_soon(self._look, job)
        except OSError:  # no pidfd on this kernel
            self._no_pidfd = True
        else:
            asyncio.get_running_loop().add_reader(job.watch, self._look, job)

    def _unwatch(self, job: LocalJob) -> None:
        if job.watch >= 0:
            asyncio.get_running_loop().remove_reader(job.watch)
            os.close(job.watch)
            job.watch = -1

    def _look(self, job: LocalJob) -> None:
        """Check a job whose runner may have ended."""
        if job.phase is not Phase.RUNNING or job.files.tag in self._runners.asked:
            return
        left = job.files.left()
        if left is not None:
            self._unwatch(job)
            self._ended(job, left)
            return
        if job.pid and start_time(job.pid) is not None and job.files.begun() is None:
            return  # about to begin
        self._unwatch(job)
        pid = job.files.runner()
        result = job.files.result()
        if result is not None:
            job.end_strays(result)
            self._ended(job, result)
        elif pid is not None:
            job.pid = pid  # a runner of an earlier agent was first
            self._watch(job, pid)
        elif job.files.begun() is None:
            self._ended(job, job.never_began())

    def _ended(self, job: LocalJob, result: Result | None) -> None:
        if job.phase is Phase.RUNNING:
            self.machine.release(job.place)
            self._history.add(job.queued.request.duration, result)
        job.phase, job.result, job.sizes = Phase.ENDED, result, job.files.sizes()
        self._news.set()
        self._start_what_fits()


def _machine(graph: Graph) -> Machine:
    return Machine(graph, sorted(os.sched_getaffinity(0)))
