"""What the agent asks a Flux instance beside its jobs: what it is and could run, when, at what price, what is free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind
from rainbow_sched.agent.backends.flux.bids import believed, played_forward, soon
from rainbow_sched.agent.backends.flux.capacity import Queues, lacks, properties, takes, usable
from rainbow_sched.agent.backends.flux.commands import FluxCommands
from rainbow_sched.agent.backends.flux.facts import FluxSite, make_facts
from rainbow_sched.agent.backends.flux.follower import FluxFollower
from rainbow_sched.agent.backends.flux.jobs import FluxJob
from rainbow_sched.agent.backends.flux.jobspec import Plain, jobspec, plain
from rainbow_sched.agent.core.values import AllowedHosts, BidAnswer, Facts, Phase
from rainbow_sched.discovery.flux import FluxNode, default_queue, flux_graph, parse_queues, parse_r
from rainbow_sched.discovery.flux_state import scheduler
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Request

PROBE_SECONDS = 1.0


class FluxQuestions:
    """Questions to one instance."""

    def __init__(self, settings: BackendSettings, commands: FluxCommands, follower: FluxFollower) -> None:
        self._settings = settings
        self._commands = commands
        self._follower = follower
        self._site: FluxSite | None = None

    def reshape(self, settings: BackendSettings) -> None:
        """The instance is another now, or its graph: it is looked at anew."""
        self._settings, self._site = settings, None

    @property
    def nodes(self) -> Sequence[FluxNode]:
        """The instance's nodes, as far as they are known."""
        return self._site.nodes if self._site is not None else ()

    async def site(self) -> FluxSite:
        """The instance's resources; raise Unavailable if Flux cannot be asked."""
        if self._site is None:
            document = await read_r(self._commands)
            graph = self._settings.graph or flux_graph(self._settings.cluster, document)
            made = FluxSite(graph, parse_r(document), self._settings.directory / "marked.json")
            made.scheduler = scheduler(await self._commands.ask("module", "list"))
            made.queues = read_queues(await self._commands.document("config", "get"))
            self._site = made
        return self._site

    async def check(self, request: Request, allowed: AllowedHosts) -> str | None:
        """What a jobspec cannot say, and what this instance could never run."""
        try:
            await self.require(request, allowed)
        except Unsupported as problem:
            return str(problem)
        return None

    async def require(self, request: Request, allowed: AllowedHosts) -> Plain:
        """What Flux is asked for; raise `Unsupported` with the reason if it cannot be, or could never be run here."""
        site = await self.site()
        if any("\0" in word for task in request.tasks for word in task.command):
            raise Unsupported("a word of the command holds a zero byte")
        made = plain(request, site.graph, self._settings.options, site.nodes, allowed)
        reason = lacks(made.request, jobspec(made.request), site.nodes, site.queues)
        if reason is not None:
            raise CannotBind(f"{reason}{made.unknown}") if made.unknown else Unsupported(reason)
        return made

    async def bid(
        self, request: Request, allowed: AllowedHosts, jobs: Callable[[], Awaitable[Sequence[FluxJob]]]
    ) -> BidAnswer:
        """When it would start and for how much; `jobs` tells what waits and runs."""
        try:
            bare = (await self.require(request, allowed)).request
        except Unsupported as problem:
            return BidAnswer(yes=False, reason=str(problem))
        site = await self.site()
        # Flux adds what the queue requires on submission; the scheduler is asked without one.
        document = jobspec(replace(bare, properties=properties(bare, site.queues)))
        may_use = usable(bare, site.nodes, site.queues)
        nodes, cores, gpus = takes(document, may_use)
        answer = await self._probe(document)
        if answer.get("infeasible"):
            return BidAnswer(yes=False, reason=str(answer["infeasible"]))
        listed, now = await jobs(), time.time()
        at = believed(answer, any(job.phase is Phase.SUBMITTED for job in listed))
        if at is None:
            ranks = frozenset(node.rank for node in may_use) - site.not_up
            sized = [site.sized(job, ranks) for job in listed]
            starts = soon(played_forward(sized, cores, await self._cores_free(site, ranks, sized), now))
        else:
            starts = soon(at - now)
        price = self._settings.prices.cost(cores=cores, nodes=max(1, nodes), gpus=gpus, duration=request.duration)
        return BidAnswer(yes=True, start_p50=starts, start_p90=starts, cost=price)

    async def _probe(self, document: Mapping[str, object]) -> dict[str, object]:
        """What the scheduler says; nothing where Flux's Python cannot be used, or takes too long for a bid."""
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return await self._follower.ask("probe", document)
        except (Unavailable, Invalid, TimeoutError):
            return {}

    async def _cores_free(self, site: FluxSite, ranks: frozenset[int], jobs: Sequence[FluxJob]) -> int:
        """Cores that nobody holds on these ranks: by the journal, where it is read, and else by asking."""
        if self._follower.table is None:
            free = parse_r(await self._free())
            return sum(node.counts.get("core", 0) for node in free if node.rank in ranks)
        held = sum(job.cores for job in jobs if job.phase is Phase.RUNNING)
        return max(0, sum(node.counts.get("core", 0) for node in site.nodes if node.rank in ranks) - held)

    async def _free(self) -> dict[str, object]:
        return await self._commands.document("resource", "R", "--states=free")

    async def facts(self, jobs: Sequence[FluxJob], own: Mapping[int, int]) -> Facts:
        """What is free and what others use; `own` are our jobs: id to its gpus."""
        site = await self.site()
        status = await self._commands.ask("resource", "status", "--no-header", f"--format={site.status_format}")
        free = parse_r(await self._free())
        found = make_facts(site, status, free, jobs, own, self._settings.prices)
        if self._settings.graph is None:
            return replace(found, marks={}, used=None)  # the server's graph may have other names
        return found


async def read_r(commands: FluxCommands) -> dict[str, object]:
    """R with the scheduling graph if there is one: from the KVS for the instance's owner, else without it."""
    try:
        return await commands.document("kvs", "get", "resource.R")
    except (Unavailable, Invalid):
        return await commands.document("resource", "R")


def read_queues(config: Mapping[str, object]) -> Queues:
    """The queues of an instance's configuration."""
    return Queues(parse_queues(config), default_queue(config))
