"""A Flux instance: its resources and queues, what could run on them, and facts.

Flux accepts a job that can never run and fails it later, and its simple scheduler accepts unknown resource types. So
this is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rainbow_sched.agent.backends.common.saved_names import MarkedNodes
from rainbow_sched.agent.backends.flux.jobs import FluxJob
from rainbow_sched.agent.core.values import ClusterFacts, Phase
from rainbow_sched.discovery.flux import (
    FluxAllocation,
    FluxNode,
    free_totals,
    node_of_rank,
    parse_status,
    used_by_others,
)
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request


@dataclass(slots=True)
class FluxSite:
    """An instance's resources, scheduler and queues."""

    graph: Graph
    nodes: tuple[FluxNode, ...]
    scheduler: str = ""
    queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # with the properties that each requires
    default_queue: str = ""  # without queues, jobs name none
    not_up: frozenset[int] = frozenset()  # ranks, by the last facts

    def sized(self, job: FluxJob, ranks: frozenset[int]) -> FluxJob:
        """Return a job with its cores on these ranks; a pending job for whole nodes with the cores of the largest ones.

        Flux lists only the number of nodes of the latter, and not where a pending job may run.
        """
        if job.on:
            return replace(job, cores=job.cores * len(ranks.intersection(job.on)) // len(job.on))
        largest = sorted((node.counts.get("core", 0) for node in self.nodes if node.rank in ranks), reverse=True)
        wanted = job.cores or sum(largest[: job.nodes])
        return replace(job, cores=min(wanted, sum(largest)))

    def lacks(self, request: Request, document: Mapping[str, object]) -> str | None:
        """Return why a jobspec can never run here, or None; `request` is the plain request behind it."""
        held = {name for node in self.nodes for name in node.properties}
        for name in request.properties:
            if not name.startswith("^") and name not in held:
                return f"no node has the property {name!r}{did_you_mean(name, held)}"
        queue = request.options.get("queue", "") or self.default_queue
        if queue not in self.queues and (queue or self.queues):
            fix = f"no queue {queue!r}" if queue else "name a queue"
            return f"{fix}; this instance has {', '.join(self.queues) or 'none'}"
        fit = self.usable(request)
        return _room(document, fit, "" if len(fit) == len(self.nodes) else f" on the {len(fit)} nodes that may be used")

    def properties(self, request: Request) -> tuple[str, ...]:
        """Return the properties that nodes need for this job, including those of its queue."""
        queue = request.options.get("queue", "") or self.default_queue
        return tuple(dict.fromkeys((*request.properties, *self.queues.get(queue, ()))))

    def usable(self, request: Request) -> list[FluxNode]:
        """Return the nodes that a plain request may use."""
        needed = self.properties(request)
        return [node for node in self.nodes if _meets(node, request, needed)]

    def facts(
        self,
        status: str,
        free: Sequence[FluxNode],
        jobs: Sequence[FluxJob],
        own: Mapping[str, int],
        marked: MarkedNodes,
    ) -> ClusterFacts:
        """Return the facts; `own` maps ids of our jobs to their gpus."""
        not_up = parse_status(status)
        self.not_up = frozenset(not_up)
        names = {rank: self.graph.ids[i] for rank, i in node_of_rank(self.graph).items()}
        marks = marked.report(
            {names[rank]: str(mark) for rank, mark in not_up.items() if rank in names}, names.values()
        )
        holdings = [
            FluxAllocation(
                tuple(job.on), -(-job.cores // max(1, len(job.on))), -(-own[job.native] // max(1, len(job.on)))
            )
            for job in jobs
            if job.phase is Phase.RUNNING and job.native in own
        ]
        waiting = sum(job.phase is Phase.SUBMITTED for job in jobs)
        state = {**free_totals(self.nodes, free), "queue_depth": waiting}
        if self.scheduler:
            state["scheduler"] = self.scheduler
        used = used_by_others(self.graph, self.nodes, free, not_up, holdings)
        return ClusterFacts(manager="flux", state=state, marks=marks, used=used)


def _meets(node: FluxNode, request: Request, needed: Sequence[str]) -> bool:
    if (request.hosts and node.name not in request.hosts) or node.name in request.not_hosts:
        return False
    return all(
        (name[1:] not in node.properties) if name.startswith("^") else name in node.properties for name in needed
    )


def _parts(document: Mapping[str, object]) -> tuple[bool, int, dict[str, int]]:
    """Return if a jobspec asks for nodes, the number of its nodes or slots, and the resources of each by type."""
    resources = document["resources"]
    assert isinstance(resources, list)
    top = resources[0]
    by_node = top["type"] == "node"
    slot = top["with"][0] if by_node else top
    each = slot["count"] if by_node else 1
    return by_node, top["count"], {part["type"]: part["count"] * each for part in slot["with"]}


def _room(document: Mapping[str, object], nodes: Sequence[FluxNode], where: str) -> str | None:
    by_node, many, per = _parts(document)
    times = [min(node.counts.get(type, 0) // count for type, count in per.items()) for node in nodes]
    room = sum(map(bool, times)) if by_node else sum(times)
    if room >= many:
        return None
    asked = ", ".join(f"{count} {type}" for type, count in per.items())
    kinds = dict.fromkeys(type for node in nodes for type in node.counts)
    largest = ", ".join(f"{max(node.counts.get(type, 0) for node in nodes)} {type}" for type in kinds)
    most = f": a node has at most {largest}" if largest else ""
    return f"{many} times {asked} are needed, there is room for {room}{where}{most}"


def cores_and_gpus(document: Mapping[str, object]) -> tuple[int, int, int]:
    """Return total nodes (0: not specified), cores and gpus of a jobspec."""
    by_node, many, per = _parts(document)
    return many if by_node else 0, many * per.get("core", 0), many * per.get("gpu", 0)


def takes(document: Mapping[str, object], nodes: Sequence[FluxNode]) -> tuple[int, int, int]:
    """Return nodes (0: not specified), cores and gpus of a job; whole nodes count with all they have, largest first."""
    resources = document["resources"]
    assert isinstance(resources, list)
    top = resources[0]
    if top["type"] != "node" or not top.get("exclusive"):
        return cores_and_gpus(document)
    largest = sorted((node.counts for node in nodes), key=lambda has: has.get("core", 0), reverse=True)[: top["count"]]
    return top["count"], sum(has.get("core", 0) for has in largest), sum(has.get("gpu", 0) for has in largest)
