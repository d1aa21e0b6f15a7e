"""Backend `flux`: runs jobs with the `flux` program in the agent's own Flux instance, or in the one at `uri`.

A job carries its tag as name and in its user attributes, and has a directory that its nodes can see (`files.py`). Job
states come from the event journal (`follower.py`), or from one `flux jobs` where the journal cannot be read. Flux never
reuses ids, but lists a new job with a short delay, and drops purged ones.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind, Launch, round_to_now
from rainbow_sched.agent.backends.common.batch import BatchBackend, first_job
from rainbow_sched.agent.backends.common.host_binding import hostlist
from rainbow_sched.agent.backends.common.launches import clean_environment, copies
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.files import FluxFiles, FluxRecord, gpus_by_job
from rainbow_sched.agent.backends.flux.follower import FluxFollower
from rainbow_sched.agent.backends.flux.jobs import FluxJob, job_name, job_number, parse_jobs, when
from rainbow_sched.agent.backends.flux.jobspec import RULES, SITE, FluxRequest, plain, with_tag
from rainbow_sched.agent.backends.flux.site import FluxSite, cores_and_gpus, takes
from rainbow_sched.agent.core.values import ClusterFacts, Phase, Update
from rainbow_sched.discovery.flux import (
    STATUS_FORMAT,
    FluxNode,
    default_queue,
    flux_graph,
    parse_queues,
    parse_r,
    scheduler,
)
from rainbow_sched.jobspecs.dialects.flux import to_flux
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import AllowedHosts, BidAnswer

JOBS = ("jobs", "--json", "--count=0", "--user=all")
SETTLE_SECONDS = 10.0  # seconds in which Flux may not list a new job yet
CLOCK_SKEW_SECONDS = 60.0  # seconds that the clocks of agent and instance may differ
PROBE_TIMEOUT_SECONDS = 1.0  # half of a bid's default deadline; then the start is estimated from the queue


class FluxBackend(BatchBackend[FluxSite, FluxRequest, FluxRecord, FluxJob]):
    manager, title = "flux", "Flux"
    options = frozenset({"uri", "flux", "settle", "journal"})
    site_options = SITE
    poll_seconds, facts_seconds = 5.0, 60.0
    node_rules = RULES

    def __init__(self, settings: BackendSettings) -> None:
        super().__init__(settings, listing_delay=settings.seconds("settle", SETTLE_SECONDS))
        options = settings.options
        self.commands = FluxCommands(os.environ, uri=options.get("uri", ""), program=options.get("flux", "flux"))
        self.follower = FluxFollower(self.commands, self._phase_changed)
        self._follows = options.get("journal", "yes") != "no"
        self._all: tuple[FluxJob, ...] = ()  # jobs of all users in the last list

    async def start(self) -> None:
        """Read the site, and start to follow the journal."""
        await super().start()
        if self._follows:
            self.follower.start()

    async def close(self) -> None:
        """Stop following the journal; jobs continue in Flux."""
        await self.follower.close()

    def folder(self, tag: str) -> FluxFiles:
        return FluxFiles(self.root, tag)

    # --- jobs ---

    def record(self, launch: Launch, plan: FluxRequest) -> FluxRecord:
        return FluxRecord(
            tasks=copies(launch.request, launch.request.tasks[0]),
            duration=launch.request.duration,
            gpus=cores_and_gpus(to_flux(plan.request))[2],
            only=hostlist(plan.only),
        )

    async def hand_over(self, launch: Launch, plan: FluxRequest, record: FluxRecord) -> str:
        document = await self._document(launch, plan.request, record)
        output = await self.commands.ask("job", "submit", feed=json.dumps(document))
        number = job_number(output)
        if number is None:
            raise Unavailable(f"flux job submit did not answer with an id: {output[:60]!r}")
        return job_name(number)

    async def _document(self, launch: Launch, bare: Request, record: FluxRecord) -> dict[str, object]:
        files = self.folder(launch.tag)
        command, cwd = await asyncio.to_thread(files.write, launch, record, self.commands)
        request = replace(
            bare,
            name=launch.tag,
            tasks=(replace(bare.tasks[0], command=command),),
            environment=clean_environment(launch, dict(os.environ)),
            cwd=cwd,
        )
        user = {"cluster": self.settings.cluster, "tag": launch.tag, "key": record.key}
        output = {stream: files.pattern(stream) for stream in ("stdout", "stderr")}
        return with_tag(to_flux(request), user, output)

    async def list_jobs(self) -> Mapping[str, Sequence[FluxJob]]:
        self._all = await self.all_jobs()
        found: dict[str, list[FluxJob]] = {}
        for job in self._all:
            if job.name.startswith("rb-"):
                found.setdefault(job.name, []).append(job)
        return found

    async def all_jobs(self) -> tuple[FluxJob, ...]:
        """Return all users' jobs, with those that ended since our oldest submission: from the journal, or one query."""
        table = self.follower.table
        if table is not None and table.whole:
            return table.jobs
        since = await asyncio.to_thread(self._oldest_submission) - CLOCK_SKEW_SECONDS
        words = ("--filter=pending,running,inactive", f"--since={since:.3f}")
        jobs = parse_jobs(await self.commands.ask(*JOBS, *words))
        if table is None:
            return jobs
        for job in jobs:
            if job.phase is Phase.ENDED:
                table.put(job)  # the journal began with the active jobs
        table.whole = True
        return table.jobs

    def _oldest_submission(self) -> float:
        """Return the time of the oldest submission that has not ended."""
        records = [self.folder(tag).record() for tag in self.open_tags() - self._ended.keys()]
        return min((record.asked for record in records if record is not None), default=time.time())

    def _phase_changed(self, job: FluxJob) -> None:
        """Poll soon after a journal entry of one of our jobs."""
        if job.name.startswith("rb-"):
            self.interval.reset()

    def choose(self, tag: str, record: FluxRecord | None, listed: Mapping[str, Sequence[FluxJob]]) -> FluxJob | None:
        """Return the job with the recorded id: other users' jobs may have the same name."""
        if record is None:
            return None
        native = self.folder(tag).begun() or record.native
        return next((job for job in listed.get(tag, ()) if job.native == native), None)

    async def find(self, tag: str) -> FluxJob | None:
        """Return the job from a query by its name, which also finds jobs that ended long ago.

        Its attributes must have our key or, without a record, our cluster.
        """
        named = parse_jobs(await self.commands.ask("jobs", "-a", "--json", "--count=0", f"--name={tag}"))
        record, same = self.folder(tag).record(), []
        for job in named:
            mark = await self._mark(job)
            if mark.get("cluster") == self.settings.cluster and (record is None or mark.get("key") == record.key):
                same.append(job)
        return first_job(same, self.folder(tag).begun())

    async def _mark(self, job: FluxJob) -> Mapping[str, object]:
        """Return Rainbow's attributes of a job; empty if it is not ours."""
        try:
            document = await self.commands.document("job", "info", job.native, "jobspec")
            attributes = document["attributes"]
            found = attributes["user"]["rainbow"] if isinstance(attributes, dict) else {}
        except (Invalid, KeyError, TypeError):
            return {}
        return found if isinstance(found, dict) else {}

    def update(self, tag: str, job: FluxJob | None, now: float) -> Update | None:
        return self.folder(tag).update(job, self._site.nodes if self._site is not None else ())

    async def cancellable(self, tag: str) -> Sequence[str]:
        if tag in self._ended:
            return ()
        native = self.folder(tag).native()
        if native is None and (job := await self.find(tag)) is not None:
            native = job.native
        return (native,) if native is not None else ()

    async def end_jobs(self, natives: Sequence[str]) -> None:
        done = await self.commands.run("cancel", *natives)
        if done.code and "inactive" not in done.err and "unknown job" not in done.err:
            raise self.commands.problem(done)

    # --- the site ---

    async def read_site(self) -> FluxSite:
        document = await self._read_r()
        graph = self.settings.graph or flux_graph(self.settings.cluster, document)
        modules = await self.commands.ask("module", "list")
        config = await self.commands.document("config", "get")
        return FluxSite(graph, parse_r(document), scheduler(modules), parse_queues(config), default_queue(config))

    async def _read_r(self) -> dict[str, object]:
        """Return R with the scheduling graph if it has one: from the KVS for the instance's owner, else without it."""
        try:
            return await self.commands.document("kvs", "get", "resource.R")
        except (Unavailable, Invalid):
            return await self.commands.document("resource", "R")

    async def _free(self) -> tuple[FluxNode, ...]:
        return parse_r(await self.commands.document("resource", "R", "--states=free"))

    async def read_facts(self) -> ClusterFacts:
        site = await self.site()
        status = await self.commands.ask("resource", "status", "--no-header", f"--format={STATUS_FORMAT}")
        free = await self._free()
        own = await asyncio.to_thread(gpus_by_job, self.root)
        return site.facts(status, free, self._all, own, self.marked)

    # --- requests ---

    async def plan(self, request: Request, allowed: AllowedHosts) -> FluxRequest:
        """Return what a jobspec can express of a request; raise `Unsupported` if it can never run."""
        site = await self.site()
        if any("\0" in word for task in request.tasks for word in task.command):
            raise Unsupported("an argument of the command contains a zero byte")
        made = plain(request, site, self.settings.options, allowed)
        reason = site.lacks(made.request, to_flux(made.request))
        if reason is not None:
            raise CannotBind(f"{reason}{made.unknown}") if made.unknown else Unsupported(reason)
        return made

    async def estimate(self, request: Request, plan: FluxRequest) -> BidAnswer:
        """Estimate start by the scheduler where it is reliable, else by the queue."""
        site = await self.site()
        # Flux adds the queue's requirements on submission; the probe has no queue.
        document = to_flux(replace(plan.request, properties=site.properties(plan.request)))
        may_use = site.usable(plan.request)
        nodes, cores, gpus = takes(document, may_use)
        answer = await self._probe(document)
        if answer.get("infeasible"):
            return BidAnswer(yes=False, reason=str(answer["infeasible"]))
        listed, now = await self.active_jobs(), time.time()
        at = reliable_estimate(answer, any(job.phase is Phase.SUBMITTED for job in listed))
        if at is None:
            ranks = frozenset(node.rank for node in may_use) - site.not_up
            sized = [site.sized(job, ranks) for job in listed]
            starts = round_to_now(simulated_start(sized, cores, await self._cores_free(site, ranks, sized), now))
        else:
            starts = round_to_now(at - now)
        price = self.settings.prices.cost(cores=cores, nodes=max(1, nodes), gpus=gpus, duration=request.duration)
        return BidAnswer(yes=True, start_p50=starts, start_p90=starts, cost=price)

    async def _probe(self, document: Mapping[str, object]) -> dict[str, object]:
        """Return the scheduler's answer; empty if Flux's Python is not available or too slow for a bid."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                return await self.follower.probe(document)
        except (Unavailable, Invalid, TimeoutError):
            return {}

    async def active_jobs(self) -> tuple[FluxJob, ...]:
        """Return all users' pending and running jobs."""
        if (table := self.follower.table) is not None:
            return table.jobs
        return parse_jobs(await self.commands.ask(*JOBS, "--filter=pending,running"))

    async def _cores_free(self, site: FluxSite, ranks: frozenset[int], jobs: Sequence[FluxJob]) -> int:
        """Return the free cores on these ranks, from the journal or else from a query."""
        if self.follower.table is None:
            return sum(node.counts.get("core", 0) for node in await self._free() if node.rank in ranks)
        held = sum(job.cores for job in jobs if job.phase is Phase.RUNNING)
        return max(0, sum(node.counts.get("core", 0) for node in site.nodes if node.rank in ranks) - held)


def reliable_estimate(answer: Mapping[str, object], waiting: bool) -> float | None:
    """Return Fluxion's estimate (seconds since the epoch) if it is reliable.

    It includes running jobs and reservations. Under `conservative` every pending job has a reservation; under other
    policies the estimate ignores pending jobs, so it is reliable only when there are none.
    """
    at = when(answer.get("at"))
    honest = not waiting or answer.get("policy") == "conservative"
    return at if answer.get("fluxion") and honest else None


def simulated_start(jobs: Sequence[FluxJob], cores: int, free: int, now: float) -> float | None:
    """Return the seconds until `cores` are free behind all running and pending jobs, first come first served.

    Jobs end at their limits; a job without a limit never ends. Only cores are counted.
    """
    ends = sorted((job.expires or math.inf, job.cores) for job in jobs if job.phase is Phase.RUNNING)
    queue = sorted((job for job in jobs if job.phase is Phase.SUBMITTED), key=lambda job: job.submitted)
    at = now
    for job in queue:
        begins = _begin(ends, max(1, job.cores), free, at)
        if begins is None:
            return None
        at, free = begins
        free -= max(1, job.cores)
        ends = sorted([*ends, (at + job.duration if job.duration else math.inf, max(1, job.cores))])
    begins = _begin(ends, cores, free, at)
    return None if begins is None else begins[0] - now


def _begin(ends: list[tuple[float, int]], cores: int, free: int, at: float) -> tuple[float, int] | None:
    """Return when `cores` are free, and how many are free then; removes jobs that end until then from `ends`."""
    while free < cores:
        if not ends or ends[0][0] == math.inf:
            return None
        end, given = ends.pop(0)
        at, free = max(at, end), free + given
    return at, free
