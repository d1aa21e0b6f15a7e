"""Facts of a Flux instance: free resources, queue depth, node states, use by others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rainbow_sched.agent.backends.common.facts import MarkedNodes
from rainbow_sched.agent.backends.flux.capacity import FluxQueues
from rainbow_sched.agent.backends.flux.jobs import FluxJob
from rainbow_sched.agent.core.values import ClusterFacts, Phase
from rainbow_sched.discovery.flux import FluxNode, node_of_rank
from rainbow_sched.discovery.flux_state import STATUS_FORMAT, FluxAllocation, free_totals, parse_status, used_by_others
from rainbow_sched.model.graph import Graph


class FluxSite:
    """An instance's resources, scheduler and queues."""

    status_format = STATUS_FORMAT

    def __init__(self, graph: Graph, nodes: Sequence[FluxNode]) -> None:
        self.scheduler = ""
        self.queues = FluxQueues()
        self.not_up: frozenset[int] = frozenset()  # ranks, by the last facts
        self.graph = graph
        self.nodes = tuple(nodes)
        self.vertex = {rank: graph.ids[i] for rank, i in node_of_rank(graph).items()}

    def sized(self, job: FluxJob, ranks: frozenset[int]) -> FluxJob:
        """Return a job with its cores on these ranks; a pending job for whole nodes with the cores of the largest ones.

        Flux lists only the number of nodes of the latter, and not where a pending job may run.
        """
        if job.on:
            return replace(job, cores=job.cores * len(ranks.intersection(job.on)) // len(job.on))
        largest = sorted((node.counts.get("core", 0) for node in self.nodes if node.rank in ranks), reverse=True)
        wanted = job.cores or sum(largest[: job.nodes])
        return replace(job, cores=min(wanted, sum(largest)))


def make_facts(
    site: FluxSite,
    status: str,
    free: Sequence[FluxNode],
    jobs: Sequence[FluxJob],
    own: Mapping[str, int],
    marked: MarkedNodes,
) -> ClusterFacts:
    """Return the facts; `own` maps ids of our jobs to their gpus."""
    not_up = parse_status(status)
    site.not_up = frozenset(not_up)
    not_up_ids = {site.vertex[rank]: str(mark) for rank, mark in not_up.items() if rank in site.vertex}
    marks = marked.report(not_up_ids, site.vertex.values())
    holdings = [
        FluxAllocation(tuple(job.on), -(-job.cores // max(1, len(job.on))), -(-own[job.native] // max(1, len(job.on))))
        for job in jobs
        if job.phase is Phase.RUNNING and job.native in own
    ]
    waiting = sum(job.phase is Phase.SUBMITTED for job in jobs)
    state = {**free_totals(site.nodes, free), "queue_depth": waiting}
    if site.scheduler:
        state["scheduler"] = site.scheduler
    used = used_by_others(site.graph, site.nodes, free, not_up, holdings)
    return ClusterFacts(manager="flux", state=state, marks=marks, used=used)
