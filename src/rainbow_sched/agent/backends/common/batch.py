"""The base of backends that hand jobs to a batch system: submit once, track, cancel, forget."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from rainbow_sched.agent.backends.base import BackendSettings, Launch
from rainbow_sched.agent.backends.common.call_rates import CachedFacts, PollInterval, SubmitLocks
from rainbow_sched.agent.backends.common.job_folder import BatchFolder, RecordT
from rainbow_sched.agent.backends.common.launches import TAG
from rainbow_sched.agent.backends.common.saved_names import FinishedTags, MarkedNodes
from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Phase, Unknown, Update
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts, BidAnswer

MAX_CONCURRENT = 4  # concurrent submissions; more do not speed a manager up


class ListedJob(Protocol):
    @property
    def native(self) -> str:
        """The manager's id."""

    @property
    def phase(self) -> Phase:
        """SUBMITTED, RUNNING or ENDED."""


SiteT = TypeVar("SiteT")
PlanT = TypeVar("PlanT")
JobT = TypeVar("JobT", bound=ListedJob)


class BatchBackend(ABC, Generic[SiteT, PlanT, RecordT, JobT]):
    """A cluster with a batch system.

    This class submits each tag once, lists all jobs in one query, looks up, cancels and forgets jobs, and caches site
    and facts. A manager gives the class variables and the abstract methods: where a job's record is kept (`folder`),
    the site (`read_site`), the form of a request (`plan`, `record`), submission (`hand_over`), the list of jobs
    (`list_jobs`), the state of an attempt (`update`), the end (`end_jobs`), facts (`read_facts`) and start estimates
    (`estimate`). They may call programs or an API; they raise `Unavailable` if the manager does not answer, and
    `Invalid` if it refuses.

    The folder is on the agent's own disk. Only `BatchFolder.begun`, `change_marker`, `sizes` and `read` look at files
    that a job writes: a manager whose nodes do not see the folder overrides them, and `output`.

    Types: the site, the plan of a request, the record of a submission, a job in the manager's list.
    """

    manager: ClassVar[str]  # its name: slurm
    title: ClassVar[str]  # its name in messages: Slurm
    options: ClassVar[frozenset[str]]  # names of options beside those of every manager
    site_options: ClassVar[Sequence[str]]  # options for jobs; a name may have a suffix `.WORD`
    poll_seconds: ClassVar[float]  # longest interval between two lists, if option `interval` does not say
    facts_seconds: ClassVar[float]  # interval of facts, if option `facts_interval` does not say
    guards_runs = False  # jobs cannot see whether the agent is alive

    def __init__(self, settings: BackendSettings, *, listing_delay: float = 0.0) -> None:
        """`listing_delay`: seconds in which the manager may not list a new job."""
        settings.know(*self.common_options(), maps=self.site_options)
        self.settings = settings
        self.root = Path(settings.options.get("spool") or settings.directory / "jobs")
        self.marked = MarkedNodes(settings.directory / "marked.json")
        self._listing_delay = listing_delay
        self.interval = PollInterval(cap=settings.seconds("interval", self.poll_seconds))
        self._locks = SubmitLocks(MAX_CONCURRENT)
        self._facts = CachedFacts(self.manager, settings.seconds("facts_interval", self.facts_seconds), time.monotonic)
        self._finished = FinishedTags(settings.directory / "forgotten")
        self._site: SiteT | None = None  # None: read on next use
        self._listing = asyncio.Lock()
        self._listed_at = -1.0  # clock before the last list
        self.listed: Mapping[str, Sequence[JobT]] = {}  # the last list
        self._ended: dict[str, Update] = {}  # jobs that have ended and are not forgotten
        self._markers: dict[str, tuple[object, ...]] = {}  # running jobs' change markers

    @classmethod
    def common_options(cls) -> frozenset[str]:
        """Return the names of all options but those for jobs."""
        return cls.options | {"spool", "interval", "facts_interval"}

    # --- what a manager gives ---

    @property
    @abstractmethod
    def node_rules(self) -> NodeRules:
        """Constraints on nodes that the manager can enforce, as far as is known now."""

    @abstractmethod
    def folder(self, tag: str) -> BatchFolder[RecordT]:
        """Return the folder of a job."""

    @abstractmethod
    async def read_site(self) -> SiteT:
        """Read nodes and configuration."""

    @abstractmethod
    async def plan(self, request: Request, allowed: AllowedHosts) -> PlanT:
        """Return the request as the manager takes it; raise `Unsupported` if it can never run."""

    @abstractmethod
    def record(self, launch: Launch, plan: PlanT) -> RecordT:
        """Return what to keep of a submission; the base adds key, time and id."""

    @abstractmethod
    async def hand_over(self, launch: Launch, plan: PlanT, record: RecordT) -> str:
        """Submit a job with its tag and the record's key, and return the manager's id.

        After `Invalid` or `Unsupported` the manager certainly does not have the job.
        """

    @abstractmethod
    async def list_jobs(self) -> Mapping[str, Sequence[JobT]]:
        """Return Rainbow's jobs by tag, with those that ended a short time ago."""

    @abstractmethod
    def update(self, tag: str, job: JobT | None, now: float) -> Update | None:
        """Return an attempt's state by its listed job and its folder; None if neither has it. Runs in a thread."""

    @abstractmethod
    async def end_jobs(self, natives: Sequence[str]) -> None:
        """End jobs; `Invalid` if they have ended."""

    @abstractmethod
    async def read_facts(self) -> ClusterFacts:
        """Return the manager's facts."""

    @abstractmethod
    async def estimate(self, request: Request, plan: PlanT) -> BidAnswer:
        """Return expected start and cost."""

    def is_same(self, job: JobT, record: RecordT) -> bool:
        """Return True if a job with the tag comes from this submission."""
        return True

    async def find(self, tag: str) -> JobT | None:
        """Return the manager's job of a tag."""
        return self.choose(tag, self.folder(tag).record(), await self.jobs())

    async def unlisted(self, tag: str) -> JobFound | Absent | Unknown:
        """Return what is known of a job that neither the manager nor the folder has.

        Without a start marker it never ran, and a second submission runs once: the marker is created once.
        """
        return Absent(never=self.folder(tag).begun() is None)

    async def cancellable(self, tag: str) -> Sequence[str]:
        """Return the ids of all jobs of a tag that have not ended."""
        return [job.native for job in (await self.jobs()).get(tag, ()) if job.phase is not Phase.ENDED]

    # --- jobs ---

    async def start(self) -> None:
        """Read the site; if the manager does not answer, it is read on first use."""
        self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._finished.read()
        with contextlib.suppress(Unavailable):
            await self.site()

    async def submit(self, launch: Launch) -> str:
        """Submit a job, unless the manager has it."""
        async with self._locks.of(launch.tag):
            if not TAG.fullmatch(launch.tag):
                raise Unsupported(f"{launch.tag!r} is not the tag of an attempt")
            folder = self.folder(launch.tag)
            before = folder.record()
            if before is not None:
                known = before.native or await self._submitted_before(folder, before)
                if known:
                    return known
            plan = await self.plan(launch.request, launch.allowed)
            record = replace(self.record(launch, plan), key=secrets.token_hex(8), asked=time.time())
            await asyncio.to_thread(folder.create, record)
            try:
                native = await self.hand_over(launch, plan, record)
            except (Invalid, Unsupported):
                await asyncio.to_thread(folder.remove)
                raise
            folder.put(replace(record, native=native))
            self.interval.reset()
            return native

    async def _submitted_before(self, folder: BatchFolder[RecordT], record: RecordT) -> str:
        """Return the id of a job whose submission may have failed; empty if the manager does not have it."""
        job = await self.find(folder.tag)
        if job is None:
            if self._is_new(record, time.time()):
                raise Unavailable(f"{self.title} may not list the job yet; retry the lookup")
            return folder.begun() or ""
        folder.put(replace(record, native=job.native))
        return job.native

    def _is_new(self, record: RecordT | None, now: float) -> bool:
        """Return True while the manager may not list a job yet."""
        return record is not None and now < record.asked + self._listing_delay

    async def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        """Return the job from the manager or from its folder."""
        if tag in self._finished:
            return Absent()
        record = self.folder(tag).record()
        try:
            update = self.update(tag, await self.find(tag), time.time())
        except Unavailable as problem:
            return Unknown(str(problem))
        if update is not None:
            return JobFound(update)
        if self._is_new(record, time.time()):
            return Unknown(f"{self.title} may not list the job yet")
        return await self.unlisted(tag)

    async def jobs(self) -> Mapping[str, Sequence[JobT]]:
        """Return Rainbow's jobs by tag as of now or later; concurrent callers share a query."""
        wanted = time.monotonic()
        async with self._listing:
            if self._listed_at < wanted:
                begun = time.monotonic()
                self.listed = await self.list_jobs()
                self._listed_at = begun
            return self.listed

    def choose(self, tag: str, record: RecordT | None, listed: Mapping[str, Sequence[JobT]]) -> JobT | None:
        """Choose among the jobs of a tag: the one that started, else the oldest that has not ended."""
        same = [job for job in listed.get(tag, ()) if record is None or self.is_same(job, record)]
        return first_job(same, self.folder(tag).begun())

    async def poll(self) -> tuple[Update, ...]:
        """Return every job with a record that the manager lists or that left a result in its folder.

        A listed job without a record may be one of an earlier agent with the same tag: only `lookup` finds it.
        """
        listed = await self.jobs()
        found, self._markers = await asyncio.to_thread(self._updates, listed)
        found = [update for update in found if update.tag not in self._finished]
        self._ended = {update.tag: update for update in found if update.phase is Phase.ENDED}
        return tuple(found)

    def _updates(self, listed: Mapping[str, Sequence[JobT]]) -> tuple[list[Update], dict[str, tuple[object, ...]]]:
        """Return the state of all jobs, and the change markers of the running ones."""
        found, markers, now = [], {}, time.time()
        for tag in sorted(self.open_tags()):
            folder, ended = self.folder(tag), self._ended.get(tag)
            if ended is not None:
                found.append(replace(ended, sizes=folder.sizes()))
                continue
            record = folder.record()
            update = self._update(tag, record, listed, now) if record is not None else None
            if update is None:
                continue
            found.append(update)
            if update.phase is Phase.RUNNING:
                markers[tag] = folder.change_marker()
        return found, markers

    def _update(self, tag: str, record: RecordT, listed: Mapping[str, Sequence[JobT]], now: float) -> Update | None:
        """Return the state of a job; a new one that is not listed yet is pending."""
        job = self.choose(tag, record, listed)
        if job is None and self._is_new(record, now) and (record.native or self.folder(tag).begun()):
            return Update(tag=tag, phase=Phase.SUBMITTED, native=record.native)
        return self.update(tag, job, now)

    def open_tags(self) -> set[str]:
        """Return the tags of all folders whose jobs are not forgotten."""
        names = (path.name for path in self.root.iterdir() if TAG.fullmatch(path.name))
        return {name for name in names if name not in self._finished}

    async def changed(self) -> None:
        """Wait until the next poll; the interval is short after an action or output, then grows up to the maximum."""
        await self.interval.wait(
            lambda: any(self.folder(tag).change_marker() != marker for tag, marker in self._markers.items())
        )

    async def cancel(self, tag: str) -> None:
        natives = await self.cancellable(tag)
        if natives:
            self.folder(tag).request_end()
            try:
                with contextlib.suppress(Invalid):  # they have just ended
                    await self.end_jobs(natives)
            finally:
                self.interval.reset()

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self.folder(tag).read, stream, offset, limit)

    async def forget(self, tag: str) -> None:
        """Remove the job's folder; the manager lists the job for a while, which is ignored."""
        self._finished.add(tag)
        self._ended.pop(tag, None)
        await asyncio.to_thread(self.folder(tag).remove)

    async def close(self) -> None:
        """Do nothing: jobs continue."""

    # --- the site ---

    async def site(self) -> SiteT:
        """Return nodes and configuration; raise Unavailable if the manager does not answer."""
        if self._site is None:
            self._site = await self.read_site()
        return self._site

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Return what the manager cannot express or could never run, or None."""
        try:
            await self.plan(request, allowed)
        except Unsupported as problem:
            return str(problem)
        return None

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        try:
            plan = await self.plan(request, allowed)
        except Unsupported as problem:
            return BidAnswer(yes=False, reason=str(problem))
        return await self.estimate(request, plan)

    async def facts(self) -> ClusterFacts:
        """Return free and used resources, refreshed once per interval."""
        return await self._facts.get(self._read_facts)

    async def _read_facts(self) -> ClusterFacts:
        found = await self.read_facts()
        found = replace(found, state={**found.state, **self.settings.prices.state()})
        if self.settings.graph is None:
            return replace(found, marks={}, used=None)  # the server's graph may have other names
        return found

    def reshape(self, graph: Graph) -> None:
        """Use another graph and read the site again."""
        self.settings = replace(self.settings, graph=graph)
        self._site = None
        self._facts.expire()


def first_job(jobs: Iterable[JobT], begun: str | None) -> JobT | None:
    """Return the job that started, by its id `begun`, else the oldest that has not ended; ids of managers ascend."""
    same = [job for job in jobs if begun is None or job.native == begun]
    alive = [job for job in same if job.phase is not Phase.ENDED]
    return min(alive or same, key=lambda job: (len(job.native), job.native), default=None)
