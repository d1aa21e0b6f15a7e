"""Queries to Slurm: all jobs, configuration, feasibility, start estimates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind
from rainbow_sched.agent.backends.slurm.bids import StartEstimate, StartEstimates, parse_test
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands, own_groups
from rainbow_sched.agent.backends.slurm.components import Component, SlurmJobRequest, components, of_group, steps
from rainbow_sched.agent.backends.slurm.files import bad_environment
from rainbow_sched.agent.backends.slurm.jobs import SQUEUE, SlurmJob, ours, parse_jobs
from rainbow_sched.agent.backends.slurm.options import chosen_options, nodes_in_extra, one_partition, option_words
from rainbow_sched.agent.backends.slurm.partitions import PartitionRequest, pick
from rainbow_sched.agent.backends.slurm.racks import within_racks
from rainbow_sched.agent.backends.slurm.shape import SlurmShape, arguments, cost, shape
from rainbow_sched.agent.backends.slurm.site import SlurmSite, make_site, shape_of
from rainbow_sched.agent.core.values import AllowedHosts, BidAnswer
from rainbow_sched.discovery.slurm import (
    SHOW_CONFIG,
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_TOPOLOGY,
    SlurmNode,
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_topology,
)
from rainbow_sched.discovery.slurm_graph import slurm_graph
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Request

OPTIONS = frozenset({"conf", "spool", "interval", "facts_interval", "bid_kept", "settle", "allow_extra"})


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """All jobs of our user at one time."""

    begun: float  # clock before the query
    jobs: tuple[SlurmJob, ...] = ()


class SlurmQueue:
    """Query squeue. No caller gets a result older than its call."""

    def __init__(self, commands: SlurmCommands, *, user: int, cluster: str) -> None:
        self._commands, self._user, self._cluster = commands, user, cluster
        self._asking = asyncio.Lock()
        self.last = QueueSnapshot(-1.0)

    async def fresh(self) -> QueueSnapshot:
        """Return all jobs as of now or later; concurrent callers share a query. Raise Unavailable without an answer."""
        wanted = time.monotonic()
        async with self._asking:
            if self.last.begun < wanted:
                begun = time.monotonic()
                self.last = QueueSnapshot(begun, parse_jobs(await self._commands.ask(*SQUEUE)))
            return self.last

    def ours(self, snapshot: QueueSnapshot) -> dict[str, list[SlurmJob]]:
        """Return our jobs by tag."""
        return ours(snapshot.jobs, self._user, self._cluster)


class SlurmQueries:
    """Queries to one cluster, with its configuration cached."""

    def __init__(self, settings: BackendSettings, commands: SlurmCommands) -> None:
        self._settings, self._commands = settings, commands
        self._estimates = StartEstimates(time.monotonic, lifetime=settings.seconds("bid_kept", 15.0))
        self._site: SlurmSite | None = None
        self._no_groups = ""  # last known value
        self.nodes: tuple[SlurmNode, ...] = ()  # last known nodes

    @property
    def no_groups(self) -> str:
        """Return why jobs of several groups cannot run here; empty: they can, or it is not known yet."""
        return self._no_groups

    def reshape(self, settings: BackendSettings) -> None:
        """Discard the cached configuration."""
        self._settings, self._site = settings, None

    async def site(self) -> SlurmSite:
        """Return the cluster's configuration; raise Unavailable if Slurm does not answer."""
        if self._site is None:
            nodes = parse_nodes(await self._commands.ask(*SHOW_NODES))
            partitions = parse_partitions(await self._commands.ask(*SHOW_PARTITIONS))
            graph = self._settings.graph or slurm_graph(self._settings.cluster, nodes, await self._racks())
            config = parse_config(await self._commands.ask(*SHOW_CONFIG))
            self.nodes, self._site = nodes, make_site(graph, nodes, partitions, own_groups(), config)
            self._no_groups = self._site.no_groups
        return self._site

    async def look_again(self) -> SlurmSite:
        """Read the nodes again, and the configuration if it has changed."""
        site = await self.site()
        self.nodes = parse_nodes(await self._commands.ask(*SHOW_NODES))
        rules = {part.name: part for part in parse_partitions(await self._commands.ask(*SHOW_PARTITIONS))}
        if site.shape != shape_of(self.nodes) or site.rules != rules:
            self._site = None  # read again below
        return await self.site()

    async def _racks(self) -> dict[str, str]:
        """Return the leaf switch of each node; empty if Slurm has no topology."""
        try:
            return parse_topology(await self._commands.ask(*SHOW_TOPOLOGY))
        except Invalid:
            return {}

    async def check(self, request: Request, allowed: AllowedHosts) -> str | None:
        """Return what Slurm cannot express or could never run, or None."""
        try:
            await self.require(request, allowed)
        except Unsupported as problem:
            return str(problem)
        return None

    async def require(self, request: Request, allowed: AllowedHosts) -> SlurmJobRequest:
        """Return the sbatch options of a request; raise `Unsupported` if it can never run."""
        reason = _cannot_start(request)
        if reason is not None:
            raise Unsupported(reason)
        site = await self.site()
        many = len(request.groups)
        if many > 1 and site.no_groups:
            raise Unsupported(site.no_groups)
        made = [self._component(*of_group(request, allowed, n), site, n if many > 1 else None) for n in range(many)]
        found = components(made, site)
        return SlurmJobRequest(found, steps(request, found, site))

    def _component(self, request: Request, allowed: AllowedHosts, site: SlurmSite, group: int | None) -> Component:
        """Return one component; `group`: its index if there are several."""
        extra = nodes_in_extra(request.options)
        if group is not None and extra.named:
            raise Unsupported("a job of several groups must not name nodes in its extra options")
        found = shape(replace(request, not_hosts=(*request.not_hosts, *extra.exclude)), site, allowed)
        options = {key: value for key, value in self._settings.options.items() if key not in OPTIONS - {"allow_extra"}}
        site_options = chosen_options(request.options, options)
        named = one_partition(found.partition, request.options, site_options)
        asked = PartitionRequest(named, site_options.get("account", ""), request.duration)
        found, partition = self._picked(within_racks(found, site, self.nodes), site, asked)
        made = arguments(found, site, request.duration, named=extra.named, component=group is not None)
        made = replace(made, partition=partition)
        return Component(group or 0, found, (*made.words, *option_words(request.options, options, made)))

    def _picked(self, shapes: Sequence[SlurmShape], site: SlurmSite, asked: PartitionRequest) -> tuple[SlurmShape, str]:
        """Return the first shape that could run, with its partitions; raise `Unsupported` if none could."""
        problem = Unsupported("no node in a rack is allowed by the request")
        for found in shapes:
            try:
                return found, pick(found, site, self.nodes, asked)
            except Unsupported as reason:
                problem = CannotBind(f"{reason}; {found.unknown}") if found.unknown else reason
        if len(shapes) > 1:
            problem = type(problem)(f"no single rack can run it: {problem}")
        raise problem

    async def bid(self, request: Request, allowed: AllowedHosts) -> BidAnswer:
        """Estimate start with `sbatch --test-only`, cost from the site's prices."""
        try:
            asking = await self.require(request, allowed)
        except Unsupported as problem:
            return BidAnswer(yes=False, reason=str(problem))
        estimate = self._estimates.get(asking.words) or await self._estimate(asking.words)
        if estimate.start is None and estimate.reason:
            return BidAnswer(yes=False, reason=estimate.reason)
        wait = estimate.wait(time.time())
        price = self._price(asking, request.duration)
        return BidAnswer(yes=True, start_p50=wait, start_p90=wait, cost=price)

    def _price(self, asking: SlurmJobRequest, duration: float | None) -> float | None:
        prices = [cost(one.shape, self._settings.prices, duration) for one in asking.components]
        return None if None in prices else sum(price for price in prices if price is not None)

    async def _estimate(self, words: tuple[str, ...]) -> StartEstimate:
        if not self._estimates.take_token():
            return self._estimates.stale(words) or StartEstimate(None)
        await self._commands.check_controller()
        extra = {"SLURM_TIME_FORMAT": "%s"}
        done = await self._commands.run("sbatch", "--test-only", *words, "--wrap=true", extra=extra)
        found = parse_test(done.err)
        problem = self._commands.problem(done) if done.code else None
        if found is None or isinstance(problem, Unavailable):
            raise problem or Unavailable("sbatch --test-only gave no estimate")
        self._estimates.put(words, found)
        return found


def _cannot_start(request: Request) -> str | None:
    """Return why no Slurm job can run the command, or None."""
    if len(request.tasks) != 1 and (len(request.groups) == 1 or not request.tasks):
        return f"Slurm runs one task per job, in any number of copies; this request has {len(request.tasks)}"
    if request.image:
        return f"this backend does not run container images ({request.image})"
    if any("\0" in word for task in request.tasks for word in task.command):
        return "an argument of the command contains a zero byte"
    return bad_environment(request.environment)
