"""Queries to a Flux instance: resources, feasibility, start estimates, facts.

Fluxion's start estimate includes running jobs and reservations. Under `conservative` every pending job has a
reservation, so the estimate is right; under other policies it ignores pending jobs, so it is used only when there are
none. Otherwise the queue is simulated.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind
from rainbow_sched.agent.backends.flux.capacity import FluxQueues, lacks, properties, takes, usable
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.facts import FluxSite, make_facts
from rainbow_sched.agent.backends.flux.follower import FluxFollower
from rainbow_sched.agent.backends.flux.jobs import FluxJob, when
from rainbow_sched.agent.backends.flux.jobspec import FluxRequest, plain
from rainbow_sched.agent.core.values import AllowedHosts, BidAnswer, ClusterFacts, Phase
from rainbow_sched.discovery.flux import FluxNode, default_queue, flux_graph, parse_queues, parse_r
from rainbow_sched.discovery.flux_state import scheduler
from rainbow_sched.jobspecs.dialects.flux_writer import to_flux
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Request

PROBE_TIMEOUT_SECONDS = 1.0
NOW_SECONDS = 2.0  # seconds: a start this near counts as now
RESERVES_ALL = frozenset({"conservative"})


class FluxQueries:
    """Queries to one instance, with its resources cached."""

    def __init__(self, settings: BackendSettings, commands: FluxCommands, follower: FluxFollower) -> None:
        self._settings = settings
        self._commands = commands
        self._follower = follower
        self._site: FluxSite | None = None

    def reshape(self, settings: BackendSettings) -> None:
        """Discard the cached resources."""
        self._settings, self._site = settings, None

    @property
    def nodes(self) -> Sequence[FluxNode]:
        """Return the instance's nodes, if known."""
        return self._site.nodes if self._site is not None else ()

    async def site(self) -> FluxSite:
        """Return the instance's resources; raise Unavailable if Flux does not answer."""
        if self._site is None:
            document = await read_r(self._commands)
            graph = self._settings.graph or flux_graph(self._settings.cluster, document)
            made = FluxSite(graph, parse_r(document), self._settings.directory / "marked.json")
            made.scheduler = scheduler(await self._commands.ask("module", "list"))
            made.queues = read_queues(await self._commands.document("config", "get"))
            self._site = made
        return self._site

    async def check(self, request: Request, allowed: AllowedHosts) -> str | None:
        """Return what a jobspec cannot express or the instance could never run, or None."""
        try:
            await self.require(request, allowed)
        except Unsupported as problem:
            return str(problem)
        return None

    async def require(self, request: Request, allowed: AllowedHosts) -> FluxRequest:
        """Return the request for Flux; raise `Unsupported` if it can never run."""
        site = await self.site()
        if any("\0" in word for task in request.tasks for word in task.command):
            raise Unsupported("an argument of the command contains a zero byte")
        made = plain(request, site.graph, self._settings.options, site.nodes, allowed)
        reason = lacks(made.request, to_flux(made.request), site.nodes, site.queues)
        if reason is not None:
            raise CannotBind(f"{reason}{made.unknown}") if made.unknown else Unsupported(reason)
        return made

    async def bid(
        self, request: Request, allowed: AllowedHosts, jobs: Callable[[], Awaitable[Sequence[FluxJob]]]
    ) -> BidAnswer:
        """Return expected start and cost; `jobs` returns pending and running jobs."""
        try:
            bare = (await self.require(request, allowed)).request
        except Unsupported as problem:
            return BidAnswer(yes=False, reason=str(problem))
        site = await self.site()
        # Flux adds the queue's requirements on submission; the probe has no queue.
        document = to_flux(replace(bare, properties=properties(bare, site.queues)))
        may_use = usable(bare, site.nodes, site.queues)
        nodes, cores, gpus = takes(document, may_use)
        answer = await self._probe(document)
        if answer.get("infeasible"):
            return BidAnswer(yes=False, reason=str(answer["infeasible"]))
        listed, now = await jobs(), time.time()
        at = reliable_estimate(answer, any(job.phase is Phase.SUBMITTED for job in listed))
        if at is None:
            ranks = frozenset(node.rank for node in may_use) - site.not_up
            sized = [site.sized(job, ranks) for job in listed]
            starts = round_to_now(simulated_start(sized, cores, await self._cores_free(site, ranks, sized), now))
        else:
            starts = round_to_now(at - now)
        price = self._settings.prices.cost(cores=cores, nodes=max(1, nodes), gpus=gpus, duration=request.duration)
        return BidAnswer(yes=True, start_p50=starts, start_p90=starts, cost=price)

    async def _probe(self, document: Mapping[str, object]) -> dict[str, object]:
        """Return the scheduler's answer; empty if Flux's Python is not available or too slow for a bid."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                return await self._follower.ask("probe", document)
        except (Unavailable, Invalid, TimeoutError):
            return {}

    async def _cores_free(self, site: FluxSite, ranks: frozenset[int], jobs: Sequence[FluxJob]) -> int:
        """Return the free cores on these ranks, from the journal or else from a query."""
        if self._follower.table is None:
            free = parse_r(await self._free())
            return sum(node.counts.get("core", 0) for node in free if node.rank in ranks)
        held = sum(job.cores for job in jobs if job.phase is Phase.RUNNING)
        return max(0, sum(node.counts.get("core", 0) for node in site.nodes if node.rank in ranks) - held)

    async def _free(self) -> dict[str, object]:
        return await self._commands.document("resource", "R", "--states=free")

    async def facts(self, jobs: Sequence[FluxJob], own: Mapping[int, int]) -> ClusterFacts:
        """Return free and used resources; `own` maps ids of our jobs to their gpus."""
        site = await self.site()
        status = await self._commands.ask("resource", "status", "--no-header", f"--format={site.status_format}")
        free = parse_r(await self._free())
        found = make_facts(site, status, free, jobs, own, self._settings.prices)
        if self._settings.graph is None:
            return replace(found, marks={}, used=None)  # the server's graph may have other names
        return found


async def read_r(commands: FluxCommands) -> dict[str, object]:
    """Return R with the scheduling graph if it has one: from the KVS for the instance's owner, else without it."""
    try:
        return await commands.document("kvs", "get", "resource.R")
    except (Unavailable, Invalid):
        return await commands.document("resource", "R")


def read_queues(config: Mapping[str, object]) -> FluxQueues:
    """Return the queues in an instance's configuration."""
    return FluxQueues(parse_queues(config), default_queue(config))


def reliable_estimate(answer: Mapping[str, object], waiting: bool) -> float | None:
    """Return the scheduler's estimate (seconds since the epoch) if it is reliable."""
    at = when(answer.get("at"))
    honest = not waiting or answer.get("policy") in RESERVES_ALL
    return at if answer.get("fluxion") and honest else None


def round_to_now(seconds: float | None) -> float | None:
    """Return 0 for a start within moments."""
    return None if seconds is None else 0.0 if seconds < NOW_SECONDS else seconds


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
