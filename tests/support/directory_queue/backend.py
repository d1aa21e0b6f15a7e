"""Backend for the directory queue (`dirq`): what a manager gives to `BatchBackend`, at its smallest."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rainbow_sched.agent.backends.base import BackendSettings, Launch
from rainbow_sched.agent.backends.common.batch import BatchBackend
from rainbow_sched.agent.backends.common.batch_script import ScriptFolder, ScriptWords, bad_environment
from rainbow_sched.agent.backends.common.exit_results import exited, shell_code
from rainbow_sched.agent.backends.common.host_binding import bound_hosts, check_requirements, wrong_nodes
from rainbow_sched.agent.backends.common.job_folder import SubmitRecord
from rainbow_sched.agent.backends.common.launches import copies
from rainbow_sched.agent.backends.common.programs import run
from rainbow_sched.agent.core.values import ClusterFacts, Phase, Result, Update
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, NodeRules
from rainbow_sched.model.errors import Invalid, Unavailable, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.request import Level, Request
from rainbow_sched.protocol.messages import AllowedHosts, BidAnswer
from tests.support.directory_queue import PROGRAM

NO_ANSWER = 2  # exit code
RULES = NodeRules(hosts=True)
RANKS = """\
code=0 pids=
for DIRQ_RANK in {ranks}; do export DIRQ_RANK; "$@" & pids="$pids $!"; done
for pid in $pids; do wait $pid || code=$?; done
exit $code
"""


@dataclass(frozen=True, slots=True)
class QueueSite:
    """Nodes with their cores."""

    graph: Graph
    cores: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A request as the queue takes it."""

    cores: int
    tasks: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueJob:
    """A job of `dirq list`."""

    native: str
    tag: str
    key: str
    state: str
    cores: int
    node: str
    limit: float | None
    started: float | None
    ended: float | None
    code: int

    @property
    def phase(self) -> Phase:
        return {"queued": Phase.SUBMITTED, "running": Phase.RUNNING}.get(self.state, Phase.ENDED)


class DirectoryQueueBackend(BatchBackend[QueueSite, QueuePlan, SubmitRecord, QueueJob]):
    """The batch system in a directory."""

    manager, title = "dirq", "dirq"
    options = frozenset({"home"})
    site_options = ()
    poll_seconds, facts_seconds = 0.3, 0.0
    node_rules = RULES

    def __init__(self, settings: BackendSettings) -> None:
        super().__init__(settings)
        self._environment = {"PATH": os.defpath, "DIRQ": settings.options["home"]}
        self._jobs: tuple[QueueJob, ...] = ()

    async def dirq(self, *words: str) -> str:
        done = await run((str(PROGRAM), *words), self._environment, 30.0)
        if done.code == NO_ANSWER:
            raise Unavailable("dirq does not answer")
        if done.code:
            raise Invalid(f"dirq refuses: {done.error_line}")
        return done.out

    def folder(self, tag: str) -> ScriptFolder[SubmitRecord]:
        return _Folder(self.root, tag)

    async def read_site(self) -> QueueSite:
        graph = self.settings.graph
        assert graph is not None
        parents = [graph.parents[i] for i, type in enumerate(graph.types) if type == "core"]
        nodes = {i: graph.names[i] for i, type in enumerate(graph.types) if type == "node"}
        return QueueSite(graph, {name: parents.count(i) for i, name in nodes.items()})

    async def plan(self, request: Request, allowed: AllowedHosts) -> QueuePlan:
        site = await self.site()
        if len(request.groups) != 1 or len(request.tasks) != 1:
            raise Unsupported("dirq runs one task on one group of resources")
        for level in request.walk():
            if level.type not in ("node", "core"):
                raise Unsupported(f"dirq has no {level.type}")
        problem = bad_environment(request.environment)
        if problem is not None:
            raise Unsupported(problem)
        check_requirements(request, allowed, RULES, site.graph, self.title)
        wanted = allowed.of(0)
        bound = bound_hosts(wanted, list(site.cores), self.title)[0] if wanted else ()
        cores = sum(_cores(level) for level in request.groups[0].levels)
        largest = max(count for name, count in site.cores.items() if not bound or name in bound)
        if cores > largest:
            raise Unsupported(f"{cores} core are needed, the largest node has {largest} core")
        return QueuePlan(cores, copies(request, request.tasks[0]), bound)

    def record(self, launch: Launch, plan: QueuePlan) -> SubmitRecord:
        return SubmitRecord(duration=launch.request.duration, only=collapse(plan.nodes) or ",".join(plan.nodes))

    async def hand_over(self, launch: Launch, plan: QueuePlan, record: SubmitRecord) -> str:
        folder = self.folder(launch.tag)
        words = ScriptWords(id="$DIRQ_JOB", nodes="$DIRQ_NODE", bound=[("$got", record.only)], rank="${DIRQ_RANK:-0}")
        start = folder.task(0)
        if plan.tasks > 1:
            ranks = RANKS.format(ranks=" ".join(map(str, range(plan.tasks))))
            start = ["/bin/sh", "-c", ranks, "sh", *start]
        await asyncio.to_thread(folder.write_script, launch, words, start)
        stdout, stderr = folder.outputs()
        limit = () if record.duration is None else (f"--limit={record.duration}",)
        answer = await self.dirq(
            *("submit", f"--name={launch.tag}", f"--note={record.key}", f"--cores={plan.cores}", *limit),
            *(f"--nodes={','.join(plan.nodes)}", f"--stdout={stdout}", f"--stderr={stderr}", str(folder.script)),
        )
        return answer.strip()

    async def list_jobs(self) -> Mapping[str, Sequence[QueueJob]]:
        self._jobs = tuple(_job(json.loads(line)) for line in (await self.dirq("list")).splitlines())
        found: dict[str, list[QueueJob]] = {}
        for job in self._jobs:
            found.setdefault(job.tag, []).append(job)
        return found

    def is_same(self, job: QueueJob, record: SubmitRecord) -> bool:
        return job.key == record.key

    async def end_jobs(self, natives: Sequence[str]) -> None:
        await self.dirq("cancel", *natives)

    def update(self, tag: str, job: QueueJob | None, now: float) -> Update | None:
        folder = self.folder(tag)
        if job is None and folder.left() is None:
            return None
        phase = job.phase if job is not None else Phase.ENDED
        return Update(
            tag=tag,
            phase=phase,
            native=job.native if job is not None else folder.begun() or "",
            result=self._result(folder, job) if phase is Phase.ENDED else None,
            started_at=job.started if job is not None else None,
            sizes=folder.sizes(),
            nodes=job.node if job is not None else folder.nodes(),
        )

    def _result(self, folder: ScriptFolder[SubmitRecord], job: QueueJob | None) -> Result:
        left, record = folder.left(), folder.record()
        if job is not None and job.state == "cancelled":
            reason = "cancelled" if job.started else "cancelled before it began"
            return Result(state=AttemptState.CANCELLED, reason=reason, started_at=job.started, ended_at=job.ended)
        if left is not None and left.cause == WRONG_NODES:
            return wrong_nodes(folder.nodes(), record.only if record is not None else "", self.title, left.ended)
        if left is not None:
            return folder.explain(left.result())
        assert job is not None
        return exited(shell_code(job.code), started=job.started, ended=job.ended)

    async def read_facts(self) -> ClusterFacts:
        site = await self.site()
        await self.jobs()
        held = {name: sum(job.cores for job in self._jobs if _runs_on(job, name)) for name in site.cores}
        waiting = sum(job.phase is Phase.SUBMITTED for job in self._jobs)
        free = sum(site.cores.values()) - sum(held.values())
        state = {"nodes_free": sum(not used for used in held.values()), "cores_free": free, "queue_depth": waiting}
        return ClusterFacts(manager=self.manager, state=state)

    async def estimate(self, request: Request, plan: QueuePlan) -> BidAnswer:
        """Estimate start from the limits of the running jobs on the best node; pending jobs are ignored."""
        site, now = await self.site(), time.time()
        await self.jobs()
        starts = min(self._start_on(name, plan.cores, site.cores[name], now) for name in plan.nodes or site.cores)
        price = self.settings.prices.cost(cores=plan.cores, nodes=1, gpus=0, duration=request.duration)
        known = None if starts == math.inf else starts
        return BidAnswer(yes=True, start_p50=known, start_p90=known, cost=price)

    def _start_on(self, node: str, cores: int, total: int, now: float) -> float:
        ends = sorted(
            ((job.started or now) + job.limit if job.limit else math.inf, job.cores)
            for job in self._jobs
            if _runs_on(job, node)
        )
        at, free = now, total - sum(held for _, held in ends)
        while free < cores and ends:
            at, held = ends.pop(0)
            free += held
        return max(0.0, at - now) if free >= cores else math.inf


class _Folder(ScriptFolder[SubmitRecord]):
    record_type = SubmitRecord


def _cores(level: Level) -> int:
    inner = sum(map(_cores, level.inside)) if level.inside else int(level.type == "core")
    return level.count.min * inner


def _runs_on(job: QueueJob, node: str) -> bool:
    return job.phase is Phase.RUNNING and job.node == node


def _job(raw: Mapping[str, object]) -> QueueJob:
    return QueueJob(
        native=str(raw["id"]),
        tag=str(raw["name"]),
        key=str(raw["note"]),
        state=str(raw["state"]),
        cores=int(str(raw["cores"])),
        node=str(raw.get("node", "")),
        limit=_number(raw.get("limit")),
        started=_number(raw.get("started")),
        ended=_number(raw.get("ended")),
        code=int(str(raw.get("code", 0))),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def make(settings: BackendSettings) -> DirectoryQueueBackend:
    return DirectoryQueueBackend(settings)
