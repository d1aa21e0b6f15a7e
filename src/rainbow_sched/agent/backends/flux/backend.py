"""Backend `flux`: runs jobs with the `flux` program in the agent's own Flux instance, or in the one at `uri`.

A job carries its tag as name and in its user attributes, and has a directory that its nodes can see (`files.py`). Job
states come from the event journal (`follower.py`), or from one `flux jobs` where the journal cannot be read. Flux never
reuses ids, but lists a new job with a short delay, and drops purged ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from rainbow_sched.agent.backends.base import BackendSettings, Launch
from rainbow_sched.agent.backends.common.cached_facts import CachedFacts
from rainbow_sched.agent.backends.common.finished_tags import FinishedTags
from rainbow_sched.agent.backends.common.launches import TAG, clean_environment, copies
from rainbow_sched.agent.backends.common.poll_interval import PollInterval
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.files import FluxFiles, FluxRecord, gpus_by_id
from rainbow_sched.agent.backends.flux.follower import FluxFollower
from rainbow_sched.agent.backends.flux.jobs import FluxJob, job_name, job_number, parse_jobs
from rainbow_sched.agent.backends.flux.jobspec import RULES, SITE, cores_and_gpus, with_tag
from rainbow_sched.agent.backends.flux.queries import FluxQueries
from rainbow_sched.agent.backends.flux.tracker import by_tag, update_of
from rainbow_sched.agent.core.values import (
    ANY_HOST,
    Absent,
    AllowedHosts,
    BidAnswer,
    ClusterFacts,
    JobFound,
    Phase,
    Unknown,
    Update,
)
from rainbow_sched.jobspecs.dialects.flux_writer import to_flux
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.request import Request

OPTIONS = frozenset({"uri", "flux", "spool", "interval", "facts_interval", "settle", "journal"})
JOBS = ("jobs", "--json", "--count=0", "--user=all")
SETTLE_SECONDS = 10.0  # seconds in which Flux may not list a new job yet
CLOCK_SKEW_SECONDS = 60.0  # seconds that the clocks of agent and instance may differ


class FluxBackend:
    """A Flux instance."""

    guards_runs = False  # jobs cannot see whether the agent is alive
    node_rules = RULES

    def __init__(self, settings: BackendSettings) -> None:
        settings.know(*OPTIONS, maps=SITE)
        self.settings = settings
        options = settings.options
        self.root = Path(options.get("spool") or settings.directory / "jobs")
        self.commands = FluxCommands(os.environ, uri=options.get("uri", ""), program=options.get("flux", "flux"))
        self._pace = PollInterval(cap=settings.seconds("interval", 5.0))
        self._settle = settings.seconds("settle", SETTLE_SECONDS)
        self._submitting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by tag
        self.follower = FluxFollower(self.commands, self._phase_changed)
        self._follows = options.get("journal", "yes") != "no"
        self.questions = FluxQueries(settings, self.commands, self.follower)
        self._jobs: tuple[FluxJob, ...] = ()
        self._ended: dict[str, Update] = {}
        self._seen: dict[str, tuple[object, ...]] = {}
        self._facts = CachedFacts("flux", settings.seconds("facts_interval", 60.0), time.monotonic)
        self._finished = FinishedTags(settings.directory / "forgotten")

    async def start(self) -> None:
        """Read the instance's configuration; if Flux does not answer, it is read on first use."""
        self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._finished.read()
        with contextlib.suppress(Unavailable):
            await self.questions.site()
        if self._follows:
            self.follower.start()

    # --- jobs ---

    async def submit(self, launch: Launch) -> str:
        """Submit a job to Flux, unless Flux has it."""
        async with self._submitting.setdefault(launch.tag, asyncio.Lock()):
            if not TAG.fullmatch(launch.tag):
                raise Unsupported(f"{launch.tag!r} is not the tag of an attempt")
            files = FluxFiles(self.root, launch.tag)
            before = files.record()
            if before is not None:
                known = before.native or await self._submitted_before(files, before)
                if known:
                    return known
            made = await self.questions.require(launch.request, launch.allowed)
            record = FluxRecord(
                key=secrets.token_hex(8),
                asked=time.time(),
                tasks=copies(launch.request, launch.request.tasks[0]),
                duration=launch.request.duration,
                only=collapse(made.only) or ",".join(made.only),
            )
            document = await self._document(launch, files, record, made.request)
            native = await self._hand_over(document, files)
            files.put(replace(record, native=native, gpus=cores_and_gpus(document)[2]))
            self._pace.reset()
            return native

    async def _document(self, launch: Launch, files: FluxFiles, record: FluxRecord, bare: Request) -> dict[str, object]:
        command = await asyncio.to_thread(files.create, launch, record, self.commands.in_jobs)
        request = replace(
            bare,
            name=launch.tag,
            tasks=(replace(bare.tasks[0], command=command),),
            environment=clean_environment(launch, dict(os.environ)),
            cwd=launch.request.cwd or files.work,
        )
        user = {"cluster": self.settings.cluster, "tag": launch.tag, "key": record.key}
        output = {stream: files.pattern(stream) for stream in ("stdout", "stderr")}
        return with_tag(to_flux(request), user, output)

    async def _hand_over(self, document: Mapping[str, object], files: FluxFiles) -> str:
        try:
            output = await self.commands.ask("job", "submit", feed=json.dumps(document))
        except Invalid:
            await asyncio.to_thread(files.remove)
            raise
        number = job_number(output)
        if number is None:
            raise Unavailable(f"flux job submit did not answer with an id: {output[:60]!r}")
        return job_name(number)

    async def _submitted_before(self, files: FluxFiles, record: FluxRecord) -> str:
        """Return the id of a job whose submission may have failed; empty if Flux does not have it."""
        job = await by_tag(self.commands, files, self.settings.cluster)
        if job is None:
            if time.time() < record.asked + self._settle:
                raise Unavailable("Flux may not list the job yet; retry the lookup")
            begun = files.begun()
            return job_name(begun) if begun is not None else ""
        files.put(replace(record, native=job_name(job.id)))
        return job_name(job.id)

    async def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        """Return the job from Flux or from its own files."""
        if tag in self._finished:
            return Absent()
        files = FluxFiles(self.root, tag)
        record = files.record()
        try:
            job = await by_tag(self.commands, files, self.settings.cluster)
            update = update_of(files, job, self.questions.nodes)
        except Unavailable as problem:
            return Unknown(str(problem))
        if update is not None:
            return JobFound(update)
        if record is not None and time.time() < record.asked + self._settle:
            return Unknown("Flux may not list the job yet")
        # Without a start marker it never ran, and a second submission runs once: the marker is created once.
        return Absent(never=files.begun() is None)

    async def poll(self) -> tuple[Update, ...]:
        """Return every job of ours that Flux lists or that left its exit codes."""
        now = time.time()
        open_files = {}
        for path in self.root.iterdir():
            if TAG.fullmatch(path.name) and path.name not in self._finished and path.name not in self._ended:
                files = FluxFiles(self.root, path.name)
                record = files.record()
                if record is not None:
                    open_files[path.name] = (files, record)
        since = min((record.asked for _, record in open_files.values()), default=now) - CLOCK_SKEW_SECONDS
        self._jobs = await self._all_jobs(since)
        by_id = {job.id: job for job in self._jobs}
        found = []
        for tag, (files, record) in open_files.items():
            update = self._update(files, record, by_id, now)
            if update is not None and update.phase is Phase.ENDED:
                self._ended[tag] = update
            elif update is not None:
                found.append(update)
        running = [update.tag for update in found if update.phase is Phase.RUNNING]
        self._seen = {tag: FluxFiles(self.root, tag).change_marker() for tag in running}
        return (*found, *self._ended.values())

    async def _all_jobs(self, since: float) -> tuple[FluxJob, ...]:
        """Return all users' active jobs, and those that ended since then, from the journal or else from one query."""
        table = self.follower.table
        if table is not None and table.whole:
            return table.jobs
        words = ("--filter=pending,running,inactive", f"--since={since:.3f}")
        jobs = parse_jobs(await self.commands.ask(*JOBS, *words))
        if table is None:
            return jobs
        for job in jobs:
            if job.phase is Phase.ENDED:
                table.put(job)  # the journal began with the active jobs
        table.whole = True
        return table.jobs

    def _phase_changed(self, job: FluxJob) -> None:
        """Poll soon after a journal entry of one of our jobs."""
        if TAG.fullmatch(job.name):
            self._pace.reset()

    def _update(self, files: FluxFiles, record: FluxRecord, jobs: Mapping[int, FluxJob], now: float) -> Update | None:
        """Return the state of the job with the recorded id; a new job that is not listed yet is pending."""
        number = files.begun() or job_number(record.native)
        job = jobs.get(number) if number is not None else None
        if job is None and number is not None and now < record.asked + self._settle:
            return Update(tag=files.tag, phase=Phase.SUBMITTED, native=record.native)
        return update_of(files, job, self.questions.nodes)

    async def changed(self) -> None:
        """Wait until the next poll; the interval is short after an action or output, then grows up to the maximum."""
        await self._pace.wait(
            lambda: any(FluxFiles(self.root, tag).change_marker() != seen for tag, seen in self._seen.items())
        )

    async def cancel(self, tag: str) -> None:
        files = FluxFiles(self.root, tag)
        record = files.record()
        number = files.begun() or (job_number(record.native) if record is not None else None)
        if number is None:
            job = await by_tag(self.commands, files, self.settings.cluster)
            number = job.id if job is not None else None
        if number is None or tag in self._ended:
            return
        done = await self.commands.run("cancel", job_name(number))
        self._pace.reset()
        inactive = "inactive" in done.err or "unknown job" in done.err
        if done.code and not inactive and isinstance(problem := self.commands.problem(done), Unavailable):
            raise problem

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(FluxFiles(self.root, tag).read, stream, offset, limit)

    # --- questions ---

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Return what a jobspec cannot express or the instance could never run, or None."""
        return await self.questions.check(request, allowed)

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """Estimate start by the scheduler where it is reliable, else by the queue; cost from the site's prices."""
        return await self.questions.bid(request, allowed, self._active_jobs)

    async def _active_jobs(self) -> tuple[FluxJob, ...]:
        """Return all users' pending and running jobs."""
        if (table := self.follower.table) is not None:
            return table.jobs
        return parse_jobs(await self.commands.ask(*JOBS, "--filter=pending,running"))

    async def facts(self) -> ClusterFacts:
        """Return free and used resources, refreshed once per interval."""
        return await self._facts.get(self._look)

    async def _look(self) -> ClusterFacts:
        own = await asyncio.to_thread(gpus_by_id, self.root)
        return await self.questions.facts(self._jobs, own)

    def reshape(self, graph: Graph) -> None:
        """Use another graph and read the instance again."""
        self.settings = replace(self.settings, graph=graph)
        self.questions.reshape(self.settings)
        self._facts.expire()

    async def forget(self, tag: str) -> None:
        """Remove the job's directory; Flux keeps listing the job, which is ignored."""
        self._finished.add(tag)
        self._ended.pop(tag, None)
        await asyncio.to_thread(FluxFiles(self.root, tag).remove)

    async def close(self) -> None:
        """Stop following the journal; jobs continue in Flux."""
        await self.follower.close()


def make(settings: BackendSettings) -> FluxBackend:
    """Build the backend."""
    return FluxBackend(settings)
