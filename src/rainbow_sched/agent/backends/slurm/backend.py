"""Backend `slurm`: runs jobs with sbatch, as the agent's user, from a login node.

Each job has a directory that its nodes can see (`files.py`) and carries its tag as name and comment. One `squeue`
reads all jobs, one `scontrol` all nodes. A job id is no proof of identity: Slurm reuses ids after a crash of its
controller.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.base import BackendSettings, CannotBind, Launch, round_to_now
from rainbow_sched.agent.backends.common.batch import BatchBackend
from rainbow_sched.agent.backends.common.batch_script import bad_environment
from rainbow_sched.agent.backends.common.host_binding import hostlist
from rainbow_sched.agent.backends.slurm.capacity import PartitionRequest, pick, within_racks
from rainbow_sched.agent.backends.slurm.commands import SlurmCommands, own_groups
from rainbow_sched.agent.backends.slurm.files import (
    ComponentRecord,
    LostJobs,
    SlurmFiles,
    SlurmRecord,
    same_submission,
    update_of,
)
from rainbow_sched.agent.backends.slurm.jobs import SHOW_WAITING, SQUEUE, JobComment, SlurmJob, ours, parse_jobs
from rainbow_sched.agent.backends.slurm.options import (
    SITE,
    Component,
    SlurmJobRequest,
    components,
    nodes_in_extra,
    of_group,
    one_partition,
    option_words,
    site_options,
    steps,
)
from rainbow_sched.agent.backends.slurm.shape import RULES, SlurmShape, arguments, cost, shape
from rainbow_sched.agent.backends.slurm.site import SlurmSite, make_site, shape_of
from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Unknown, Update
from rainbow_sched.discovery.slurm import (
    SHOW_CONFIG,
    SHOW_NODES,
    SHOW_PARTITIONS,
    SHOW_TOPOLOGY,
    SlurmNode,
    check_conf,
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_topology,
    slurm_graph,
)
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import AllowedHosts, BidAnswer

_NODE_NAME = re.compile("invalid node name", re.IGNORECASE)
_STARTS = re.compile(r"to start at (\d+)\b")
_REFUSED = re.compile(r"allocation failure: (.+)")
QUERIES_PER_SECOND = 5.0  # queries per second at most: each one uses up a job id
MAX_ESTIMATES = 500  # bounds the memory of the cache


class SlurmBackend(BatchBackend[SlurmSite, SlurmJobRequest, SlurmRecord, SlurmJob]):
    manager, title = "slurm", "Slurm"
    options = frozenset({"conf", "bid_kept", "settle", "allow_extra"})
    site_options = SITE
    poll_seconds, facts_seconds = 10.0, 30.0

    def __init__(self, settings: BackendSettings) -> None:
        super().__init__(settings)
        conf = settings.options.get("conf", "")
        self.commands = SlurmCommands(os.environ, conf=check_conf(conf) if conf else "")
        self.nodes: tuple[SlurmNode, ...] = ()  # last known nodes
        self._no_groups = ""  # why jobs of several groups cannot run here; empty: they can, or it is not known yet
        self._estimates = StartEstimates(time.monotonic, lifetime=settings.seconds("bid_kept", 15.0))
        settle = settings.seconds("settle", 60.0)
        self._lost_jobs = LostJobs(self.commands, settle, time.monotonic, time.time)

    @property
    def node_rules(self) -> NodeRules:
        """What Slurm can enforce; `one_group` says why this site runs no jobs of several groups."""
        return replace(RULES, groups=not self._no_groups, one_group=self._no_groups)

    def folder(self, tag: str) -> SlurmFiles:
        return SlurmFiles(self.root, tag)

    # --- jobs ---

    def record(self, launch: Launch, plan: SlurmJobRequest) -> SlurmRecord:
        parts = tuple(_part(component.shape) for component in plan.components)
        return SlurmRecord(duration=launch.request.duration, parts=parts).whole()

    async def hand_over(self, launch: Launch, plan: SlurmJobRequest, record: SlurmRecord) -> str:
        """Submit a job with sbatch."""
        files = self.folder(launch.tag)
        await asyncio.to_thread(files.write, launch, record, plan.steps)
        await self.commands.check_controller()
        comment = JobComment(self.settings.cluster, files.tag, record.key)
        place = str(files.path).replace("%", "%%")  # sbatch expands % patterns
        done = await self.commands.run(
            *("sbatch", "--parsable", "--no-requeue", "--open-mode=append", "--export=ALL"),
            *(f"--job-name={files.tag}", f"--comment={comment}", f"--chdir={files.path}"),
            *(f"--output={place}/stdout", f"--error={place}/stderr"),
            *(*plan.words, str(files.script)),
        )
        if done.code:
            problem = self.commands.problem(done)
            if isinstance(problem, Invalid) and record.only and _NODE_NAME.search(done.err):
                self._site = None
                raise CannotBind(f"{problem}; the cluster's nodes have changed and will be read again")
            raise problem
        return done.out.strip().partition(";")[0]

    async def list_jobs(self) -> Mapping[str, Sequence[SlurmJob]]:
        jobs = parse_jobs(await self.commands.ask(*SQUEUE))
        return ours(jobs, os.getuid(), self.settings.cluster)

    def is_same(self, job: SlurmJob, record: SlurmRecord) -> bool:
        return same_submission(job, record)

    def update(self, tag: str, job: SlurmJob | None, now: float) -> Update | None:
        return update_of(self.folder(tag), job, now)

    async def unlisted(self, tag: str) -> JobFound | Absent | Unknown:
        return await self._lost_jobs.look(self.folder(tag))

    async def end_jobs(self, natives: Sequence[str]) -> None:
        await self.commands.ask("scancel", *natives)

    async def forget(self, tag: str) -> None:
        self._lost_jobs.forget(tag)
        await super().forget(tag)

    # --- the site ---

    async def read_site(self) -> SlurmSite:
        nodes = parse_nodes(await self.commands.ask(*SHOW_NODES))
        partitions = parse_partitions(await self.commands.ask(*SHOW_PARTITIONS))
        graph = self.settings.graph or slurm_graph(self.settings.cluster, nodes, await self._racks())
        config = parse_config(await self.commands.ask(*SHOW_CONFIG))
        site = make_site(graph, nodes, partitions, own_groups(), config)
        self.nodes, self._no_groups = nodes, site.no_groups
        return site

    async def _racks(self) -> dict[str, str]:
        """Return the leaf switch of each node; empty if Slurm has no topology."""
        try:
            return parse_topology(await self.commands.ask(*SHOW_TOPOLOGY))
        except Invalid:
            return {}

    async def read_facts(self) -> ClusterFacts:
        """Read the nodes again, and the configuration if it has changed."""
        site = await self.site()
        self.nodes = parse_nodes(await self.commands.ask(*SHOW_NODES))
        rules = {part.name: part for part in parse_partitions(await self.commands.ask(*SHOW_PARTITIONS))}
        if site.shape != shape_of(self.nodes) or site.rules != rules:
            self._site = None
            site = await self.site()
        waiting = await self.commands.ask(*SHOW_WAITING)
        queued = len({word.partition("+")[0] for word in waiting.split()})  # components of one job: 7+0 7+1
        return await asyncio.to_thread(site.facts, self.nodes, self._holdings(), self.marked, queued)

    def _holdings(self) -> list[tuple[SlurmJob, SlurmRecord]]:
        """Return the listed jobs and components of Rainbow with their records."""
        found = []
        for tag, same in self.listed.items():
            record = self.folder(tag).recorded()
            for job in same:
                found += [(part, record.part(number)) for number, part in enumerate((job, *job.parts))]
        return found

    # --- requests ---

    async def plan(self, request: Request, allowed: AllowedHosts) -> SlurmJobRequest:
        """Return the sbatch options of a request; raise `Unsupported` if it can never run."""
        if reason := _cannot_start(request):
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
        exclude, named_nodes = nodes_in_extra(request.options)
        if group is not None and named_nodes:
            raise Unsupported("a job of several groups must not name nodes in its extra options")
        found = shape(replace(request, not_hosts=(*request.not_hosts, *exclude)), site, allowed)
        own = self.common_options() - {"allow_extra"}
        options = {key: value for key, value in self.settings.options.items() if key not in own}
        chosen = site_options(request.options, options)
        named = one_partition(found.partition, request.options, chosen)
        asked = PartitionRequest(named, chosen.get("account", ""), request.duration)
        found, partition = self._picked(within_racks(found, site, self.nodes), site, asked)
        words = arguments(found, site, request.duration, named=named_nodes, component=group is not None)
        words += option_words(request.options, options, partition, found.features)
        return Component(group or 0, found, tuple(words))

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

    async def estimate(self, request: Request, plan: SlurmJobRequest) -> BidAnswer:
        """Estimate start with `sbatch --test-only`."""
        estimate = self._estimates.get(plan.words) or await self._ask_estimate(plan.words)
        if estimate.start is None and estimate.reason:
            return BidAnswer(yes=False, reason=estimate.reason)
        wait = round_to_now(None if estimate.start is None else estimate.start - time.time())
        prices = [cost(one.shape, self.settings.prices, request.duration) for one in plan.components]
        price = None if None in prices else sum(price for price in prices if price is not None)
        return BidAnswer(yes=True, start_p50=wait, start_p90=wait, cost=price)

    async def _ask_estimate(self, words: tuple[str, ...]) -> StartEstimate:
        if not self._estimates.take_token():
            return self._estimates.get(words, stale=True) or StartEstimate(None)
        await self.commands.check_controller()
        extra = {"SLURM_TIME_FORMAT": "%s"}
        done = await self.commands.run("sbatch", "--test-only", *words, "--wrap=true", extra=extra)
        found = parse_test(done.err)
        problem = self.commands.problem(done) if done.code else None
        if found is None or isinstance(problem, Unavailable):
            raise problem or Unavailable("sbatch --test-only gave no estimate")
        self._estimates.put(words, found)
        return found


def _part(found: SlurmShape) -> ComponentRecord:
    return ComponentRecord(
        gpus=found.gpus_per_node,
        cores=0 if found.exclusive else found.total_cores,
        memory=found.total_memory,
        only=hostlist(found.only),
    )


def _cannot_start(request: Request) -> str | None:
    """Return why no Slurm job can run the command, or None."""
    if len(request.tasks) != 1 and (len(request.groups) == 1 or not request.tasks):
        return f"Slurm runs one task per job, in any number of copies; this request has {len(request.tasks)}"
    if request.image:
        return f"this backend does not run container images ({request.image})"
    if any("\0" in word for task in request.tasks for word in task.command):
        return "an argument of the command contains a zero byte"
    return bad_environment(request.environment)


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When it would start (seconds since the epoch), or why it never would."""

    start: float | None
    reason: str = ""


def parse_test(text: str) -> StartEstimate | None:
    """Parse stderr of `sbatch --test-only`; None if it has no estimate."""
    if starts := _STARTS.search(text):
        return StartEstimate(float(starts[1]))
    if refused := _REFUSED.search(text):
        return StartEstimate(None, refused[1].strip())
    return None


class StartEstimates:
    """Cached estimates by sbatch options, and a rate limit. The clock is passed in."""

    def __init__(self, clock: Callable[[], float], *, lifetime: float, rate: float = QUERIES_PER_SECOND) -> None:
        self._clock, self._lifetime, self._rate = clock, lifetime, rate
        self._known: dict[tuple[str, ...], tuple[float, StartEstimate]] = {}
        self._tokens, self._at = rate, clock()

    def get(self, words: tuple[str, ...], *, stale: bool = False) -> StartEstimate | None:
        """Return the last estimate; None if it has expired and `stale` ones are not wanted."""
        at, found = self._known.get(words, (0.0, None))
        return found if stale or self._clock() - at < self._lifetime else None

    def take_token(self) -> bool:
        """Take a token of the rate limit; False if there is none."""
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def put(self, words: tuple[str, ...], estimate: StartEstimate) -> None:
        if len(self._known) >= MAX_ESTIMATES:
            self._known.pop(next(iter(self._known)))
        self._known[words] = (self._clock(), estimate)
