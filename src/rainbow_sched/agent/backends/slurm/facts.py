"""Facts of a Slurm cluster: free resources, queue depth, node states, use by others."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from rainbow_sched.agent.backends.common.facts import MarkedNodes
from rainbow_sched.agent.backends.slurm.files import SlurmRecord
from rainbow_sched.agent.backends.slurm.jobs import SlurmJob
from rainbow_sched.agent.core.values import ClusterFacts, Phase
from rainbow_sched.discovery.slurm import SlurmNode
from rainbow_sched.discovery.slurm_state import SlurmAllocation, free_totals, nodes_not_up, used_by_others
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.graph import Graph


def make_facts(
    graph: Graph,
    nodes: Sequence[SlurmNode],
    own: Iterable[tuple[SlurmJob, SlurmRecord]],
    marked: MarkedNodes,
    state: Mapping[str, object],
    unreachable: Container[str] = (),
) -> ClusterFacts:
    """Return the facts; `own` are our running jobs with their records, `state` is additional state."""
    listed = {node.name for node in nodes}
    known = [name for name, type in zip(graph.names, graph.types, strict=True) if type == "node" and name in listed]
    marks = marked.report(nodes_not_up(nodes, unreachable), known)
    threads = {node.name: node.cpus_per_core for node in nodes}
    running = [_holding(job, record, threads) for job, record in own if job.phase is Phase.RUNNING]
    used = used_by_others(graph, nodes, running)
    return ClusterFacts(manager="slurm", state={**free_totals(nodes, unreachable), **state}, marks=marks, used=used)


def _holding(job: SlurmJob, record: SlurmRecord, threads: Mapping[str, int]) -> SlurmAllocation:
    """Return the resources that the server counts for a job.

    Slurm may give it more: whole nodes, or memory that was not requested. The rest counts as used by others.
    """
    try:
        hosts = tuple(job.hosts())
    except Invalid:
        hosts = ()  # a truncated node list: all its resources count as used by others
    many = max(1, len(hosts) or job.nodes)
    cpus, memory = -(-job.cpus // many), -(-job.memory // many)
    if record.cores:
        per_core = max((threads.get(host, 1) for host in hosts), default=1)
        cpus = min(cpus, -(-record.cores // many) * per_core)
        memory = min(memory, -(-record.memory // many))
    return SlurmAllocation(nodes=hosts, cpus=cpus, memory=memory, gpus=record.gpus)
